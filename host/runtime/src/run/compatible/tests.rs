use std::path::Path;

use super::*;
use crate::checkpoint::CommitPoint;
use crate::checkpoint::component::StateEntry;
use crate::checkpoint::manifest::{Header, Identity, Lineage, ManifestId};
use crate::checkpoint::{Digest, OperatorSnapshot, StoredFile, TaskSnapshot};

fn job() -> Job {
    let text = "version: 1\njob: j\nsources: {in: {generator: {records: 1}}}\n\
        operators:\n  op: {component: build/op.wasm, input: in}\n\
        sinks: {out: {input: op, blackhole: {}}}\n";
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("job.yaml");
    std::fs::write(&file, text).expect("written");
    crate::job::load(&file, &|_| None).expect("a job")
}

fn component(contents: &[u8]) -> ComponentEntry {
    let named = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        pairs
            .map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned()))
            .collect()
    };
    let state = |kind: &str, version| StateEntry {
        kind: kind.to_owned(),
        version,
    };
    ComponentEntry {
        sha256: Digest::of(contents),
        inputs: named(&[("records", "keyed"), ("plain", "unkeyed")]),
        states: BTreeMap::from([
            ("totals".to_owned(), state("value", 1)),
            ("seen".to_owned(), state("entries", 3)),
        ]),
        timers: named(&[("close", "event")]),
    }
}

fn manifest(then: &ComponentEntry, stateful: bool) -> Manifest {
    let identity = Identity {
        job: "j".to_owned(),
        max_parallelism: 128,
        commit_point: CommitPoint::Storage,
        topics: Vec::new(),
        sinks: Vec::new(),
        components: BTreeMap::from([("op".to_owned(), then.clone())]),
    };
    let header = Header {
        lineage: Lineage::from_bits(1),
        id: ManifestId { n: 41, attempt: 7 },
        parent: Some(40),
        finished: false,
        last: false,
    };
    let snapshot = TaskSnapshot {
        operators: vec![OperatorSnapshot {
            id: "op".to_owned(),
            subtask: 0,
            parallelism: 1,
            watermark: 0,
            files: stateful
                .then(|| StoredFile {
                    name: "s".to_owned(),
                    digest: Digest::of(b"s"),
                    bytes: 1,
                })
                .into_iter()
                .collect(),
            held: 1,
            finished: false,
        }],
        ..TaskSnapshot::default()
    };
    Manifest::assemble(&identity, header, [&snapshot], Vec::new())
}

fn compared(
    change: impl FnOnce(&mut ComponentEntry),
    contents: &[u8],
    stateful: bool,
) -> Vec<String> {
    let then = component(b"then");
    let mut now = component(contents);
    change(&mut now);
    let components = BTreeMap::from([("op".to_owned(), now)]);
    let manifest = manifest(&then, stateful);
    match compatible(&job(), &components, &manifest, "/ckpt") {
        Ok(()) => Vec::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

#[track_caller]
fn says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "no `{part}` in:\n{message}");
    }
}

#[test]
fn what_is_new_and_ports_that_went_are_fine() {
    let fits = compared(
        |now| {
            let state = now.states["seen"].clone();
            now.states.insert("more".to_owned(), state);
            now.timers
                .insert("tick".to_owned(), "processing".to_owned());
            now.inputs.remove("plain");
            now.inputs.insert("other".to_owned(), "keyed".to_owned());
        },
        b"now",
        true,
    );
    assert_eq!(fits, Vec::<String>::new());
}

#[test]
fn every_difference_is_named_with_both_sides_and_the_remedy() {
    let problems = compared(
        |now| {
            now.states.remove("totals");
            let seen = now.states.get_mut("seen").expect("declared");
            seen.version = 4;
            now.timers
                .insert("close".to_owned(), "processing".to_owned());
            now.inputs
                .insert("records".to_owned(), "unkeyed".to_owned());
        },
        b"now",
        true,
    );
    assert_eq!(problems.len(), 4, "{problems:?}");
    let kept = format!("/ckpt/components/7-{}", Digest::of(b"then"));
    let place = format!("{}:5:3", Path::new("job.yaml").display());
    says(
        &problems[0],
        &[
            "W0527",
            "state `seen`",
            "schema version 4",
            "but 3 in checkpoint 41",
            &kept,
            &place,
        ],
    );
    says(
        &problems[1],
        &[
            "W0526",
            "checkpoint 41 holds state `totals` of operator `op`, which build/op.wasm does not declare",
            "states it declares: `seen`",
            "declare it again",
            &kept,
        ],
    );
    says(
        &problems[2],
        &[
            "W0527",
            "timers `close`",
            "time domain processing",
            "but event",
        ],
    );
    says(
        &problems[3],
        &["W0527", "input `records`", "kind unkeyed", "but keyed"],
    );
}

#[test]
fn a_kind_that_changed_and_timers_that_went() {
    let problems = compared(
        |now| {
            let totals = now.states.get_mut("totals").expect("declared");
            totals.kind = "items".to_owned();
            now.timers.clear();
        },
        b"now",
        true,
    );
    assert_eq!(problems.len(), 2, "{problems:?}");
    says(
        &problems[0],
        &["W0527", "state `totals`", "kind items", "but value"],
    );
    says(
        &problems[1],
        &["W0526", "timers `close`", "timers it declares: none"],
    );
}

#[test]
fn the_same_component_configured_differently_is_told_apart() {
    let problems = compared(|now| drop(now.states.remove("totals")), b"then", true);
    assert_eq!(problems.len(), 1, "{problems:?}");
    says(
        &problems[0],
        &["the component is the same as then", "`config:`"],
    );
}

#[test]
fn an_operator_that_kept_nothing_may_become_anything() {
    let problems = compared(|now| now.states.clear(), b"now", false);
    assert_eq!(problems, Vec::<String>::new());
}
