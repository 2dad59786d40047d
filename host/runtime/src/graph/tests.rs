//! Plans of small jobs, written as job files.

use std::path::Path;

use weir_operator::{InputDecl, OutputDecl, StateDecl, StateKind};

use super::*;
use crate::job;

fn job(text: &str) -> Job {
    let text = format!("version: 1\njob: j\n{text}");
    job::parse(&text, Path::new("/jobs/j.yaml"), &|_| None)
        .unwrap_or_else(|problems| panic!("{}", crate::diagnostic::render(&problems)))
}

/// An operator with these inputs and outputs; keyed ones have a value state.
fn operator(inputs: &[(&str, InputKind)], outputs: &[(&str, OutputKeys)]) -> Description {
    let stateful = inputs.iter().any(|(_, kind)| *kind == InputKind::Keyed);
    let state = StateDecl {
        name: "s".into(),
        kind: StateKind::Value,
        version: 1,
        migrates_from: Vec::new(),
        ttl: None,
        value_encoding: String::new(),
        entry_encoding: String::new(),
        options: Vec::new(),
    };
    Description {
        name: "op".into(),
        version: String::new(),
        inputs: inputs
            .iter()
            .map(|(name, kind)| InputDecl {
                name: (*name).into(),
                kind: *kind,
                headers: false,
                options: Vec::new(),
            })
            .collect(),
        outputs: outputs
            .iter()
            .map(|(name, keys)| OutputDecl {
                name: (*name).into(),
                keys: *keys,
                options: Vec::new(),
            })
            .collect(),
        states: if stateful { vec![state] } else { Vec::new() },
        timers: Vec::new(),
        on_watermark: false,
        options: Vec::new(),
    }
}

const IN: (&str, InputKind) = ("in", InputKind::Unkeyed);
const KEYED: (&str, InputKind) = ("in", InputKind::Keyed);

/// Edges in words, chained ones with `+`.
fn edges(plan: &Plan) -> Vec<String> {
    let edge = |edge: &Edge| {
        let (from, to) = (&plan.nodes[edge.from].id, &plan.nodes[edge.to].id);
        let chained = if edge.chained { "+" } else { "" };
        format!(
            "{from}.{} {:?}{chained} {to}.{}",
            edge.port, edge.exchange, edge.input
        )
    };
    plan.edges.iter().map(edge).collect()
}

const CHAIN: &str = "
sources: {s: {generator: {records: 10}}}
operators:
  a: {component: a.wasm, input: s}
  b: {component: b.wasm, input: a}
  c: {component: c.wasm, input: b}
sinks: {out: {input: c, blackhole: {}}}
";

#[test]
fn keyed_inputs_get_an_exchange_and_kept_keys_chain() {
    let descriptions = [
        operator(&[IN], &[("o", OutputKeys::Given)]),
        operator(&[KEYED], &[("o", OutputKeys::Kept)]),
        operator(&[KEYED], &[("o", OutputKeys::Kept)]),
    ];
    let plan = plan(&job(CHAIN), &descriptions, 4).expect("it fits");
    assert_eq!(
        edges(&plan),
        [
            "s.0 Forward+ a.0",
            "a.0 ByKey b.0",
            "b.0 Forward+ c.0",
            "c.0 Forward+ out.0"
        ]
    );
    let chains: Vec<usize> = plan.chains.iter().map(|chain| chain.nodes.len()).collect();
    assert_eq!(chains, [2, 3]);
    assert_eq!(
        plan.channels(&plan.chains[1], 1),
        [(1, 0), (1, 1), (1, 2), (1, 3)],
        "one from each subtask of a"
    );
    assert_eq!(plan.channels(&plan.chains[0], 1), [], "a source has none");
}

#[test]
fn keys_kept_by_an_unkeyed_input_lie_anywhere_and_are_exchanged() {
    let descriptions = [
        operator(&[IN], &[("o", OutputKeys::Kept)]),
        operator(&[KEYED], &[("o", OutputKeys::Given)]),
        operator(&[KEYED], &[("o", OutputKeys::Kept)]),
    ];
    let plan = plan(&job(CHAIN), &descriptions, 2).expect("it fits");
    assert_eq!(edges(&plan)[1..3], ["a.0 ByKey b.0", "b.0 ByKey c.0"]);
}

#[test]
fn one_output_may_feed_two_nodes_and_two_edges_end_a_chain() {
    let job = job("
sources: {s: {generator: {records: 10}}}
operators:
  a: {component: a.wasm, input: s}
  left: {component: l.wasm, input: a.o}
  right: {component: r.wasm, input: a.p}
  join: {component: j.wasm, inputs: {one: left, two: right}}
sinks: {out: {input: join, blackhole: {}}, also: {input: a.o, blackhole: {}}}
");
    let pass = operator(&[IN], &[("o", OutputKeys::Kept)]);
    let descriptions = [
        operator(&[IN], &[("o", OutputKeys::Kept), ("p", OutputKeys::Kept)]),
        pass.clone(),
        pass,
        operator(
            &[("one", InputKind::Keyed), ("two", InputKind::Unkeyed)],
            &[("o", OutputKeys::Kept)],
        ),
    ];
    let plan = plan(&job, &descriptions, 2).expect("it fits");
    assert_eq!(
        edges(&plan),
        [
            "s.0 Forward+ a.0",
            "a.0 Forward+ left.0",
            "a.1 Forward+ right.0",
            "left.0 ByKey join.0",
            "right.0 Forward join.1",
            "join.0 Forward+ out.0",
            "a.0 Forward+ also.0",
        ]
    );
    let nodes: Vec<usize> = plan.chains.iter().map(|chain| chain.nodes.len()).collect();
    assert_eq!(nodes, [5, 2]);
}

#[test]
fn dead_letters_leave_a_source_by_its_second_port() {
    let job = job("
sources: {s: {file: {paths: [x], format: json}, on_error: {dead_letter: bad}}}
sinks: {good: {input: s, blackhole: {}}, bad: {blackhole: {}}}
");
    let plan = plan(&job, &[], 2).expect("it fits");
    assert_eq!(edges(&plan), ["s.0 Forward+ good.0", "s.1 Forward+ bad.1"]);
}

#[test]
fn dead_letters_of_a_sink_reach_another_by_its_second_input() {
    let job = job("
sources: {s: {generator: {records: 10}}}
sinks:
  out: {input: s, kafka: {brokers: b:9092, topic: t}, on_error: {dead_letter: bad}}
  bad: {file: {dir: o}, parallelism: 1}
  more: {input: s, kafka: {brokers: b:9092, topic: u}, on_error: {dead_letter: beside}}
  beside: {blackhole: {}}
");
    let plan = plan(&job, &[], 2).expect("it fits");
    assert_eq!(
        edges(&plan),
        [
            "s.0 Forward+ out.0",
            "s.0 Forward+ more.0",
            "out.0 Rebalance bad.1",
            "more.0 Forward+ beside.1",
        ]
    );
    // Each before what it feeds.
    let chain: Vec<_> = plan.chains[0]
        .nodes
        .iter()
        .map(|at| plan.nodes[*at].id.as_str())
        .collect();
    let at = |id| chain.iter().position(|node| *node == id);
    assert!(
        at("more") < at("beside") && at("beside").is_some(),
        "{chain:?}"
    );
}

#[test]
fn standard_input_is_one_subtask_and_is_dealt_out() {
    let job = job("
sources: {s: {stdin: {format: raw}}}
operators: {a: {component: a.wasm, input: s}}
sinks: {out: {input: a, stdout: {}}}
");
    let plan = plan(&job, &[operator(&[IN], &[("o", OutputKeys::Absent)])], 3).expect("it fits");
    assert_eq!(edges(&plan), ["s.0 Rebalance a.0", "a.0 Rebalance out.0"]);
    assert_eq!(
        plan.nodes.iter().map(|n| n.parallelism).collect::<Vec<_>>(),
        [1, 3, 1]
    );
}

#[test]
fn what_does_not_fit_the_components_is_refused_with_code_and_remedy() {
    let refused = |text: &str, descriptions: &[Description]| -> Vec<(&'static str, String)> {
        let problems = plan(&job(text), descriptions, 2).expect_err("it does not fit");
        assert!(
            problems.iter().all(|problem| problem.place.line > 0),
            "{problems:?}"
        );
        problems
            .into_iter()
            .map(|problem| (problem.code, format!("{}; {}", problem.title, problem.help)))
            .collect()
    };
    let one = |input: &str| {
        format!(
            "
sources: {{s: {{generator: {{records: 10}}}}}}
operators:
  a: {{component: a.wasm, input: s}}
  b: {{component: b.wasm, {input}}}
sinks: {{out: {{input: b, blackhole: {{}}}}}}
"
        )
    };
    let pass = || operator(&[IN], &[("o", OutputKeys::Kept)]);
    let cases: [(&str, Description, &str, &str); 6] = [
        ("input: a.nope", pass(), "W0220", "its outputs: o"),
        ("inputs: {nope: a}", pass(), "W0221", "its inputs: in"),
        (
            "input: a",
            operator(
                &[("x", InputKind::Keyed), ("y", InputKind::Keyed)],
                &[("o", OutputKeys::Kept)],
            ),
            "W0221",
            "one entry each for: x, y",
        ),
        (
            "inputs: {x: a}",
            operator(
                &[("x", InputKind::Keyed), ("y", InputKind::Keyed)],
                &[("o", OutputKeys::Kept)],
            ),
            "W0222",
            "nothing feeds input `y`",
        ),
        (
            "input: {from: a, exchange: rebalance}",
            operator(&[KEYED], &[("o", OutputKeys::Kept)]),
            "W0225",
            "must meet in one subtask",
        ),
        (
            "parallelism: 3, input: {from: a, exchange: forward}",
            pass(),
            "W0224",
            "(parallelism 2) to `b` (3)",
        ),
    ];
    for (input, description, code, said) in cases {
        let problems = refused(&one(input), &[pass(), description]);
        assert!(
            problems
                .iter()
                .any(|(found, text)| *found == code && text.contains(said)),
            "{input}: {problems:?}"
        );
    }
    let mut keyless = pass();
    keyless.states = operator(&[KEYED], &[]).states;
    assert_eq!(refused(&one("input: a"), &[pass(), keyless])[0].0, "W0223");
}
