//! The reference pages say what the program goes by. With `WEIR_BLESS=1` in the environment they are rewritten, to be read in the
//! diff.

use std::collections::BTreeSet;
use std::fs;

use weir_tests::documents::{Document, root};
use weir_tests::place::Place;
use weir_tests::reference::yaml::{self, Node};
use weir_tests::reference::{check, contract, job_file};

/// The jobs in the guide, then those of the examples.
fn jobs() -> Vec<Node> {
    let mut jobs = Vec::new();
    for block in Document::named("docs/job-file.md").blocks() {
        if block.language == "yaml" && block.lines.first() == Some(&"version: 1") {
            jobs.push(yaml::read(&block.lines.join("\n")));
        }
    }
    assert!(jobs.len() >= 8, "only {} jobs were found", jobs.len());
    for example in ["flights", "fraud", "payments", "sessions", "wordcount"] {
        let path = root().join(format!("examples/{example}/job.yaml"));
        jobs.push(yaml::read(&fs::read_to_string(path).expect("it is there")));
    }
    jobs
}

#[test]
fn the_job_file_reference_is_current() {
    let page = job_file::page(&weir::job::schema(), &jobs());
    let page = page.unwrap_or_else(|lacking| panic!("\n{lacking}"));
    check("docs/job-file-reference.md", &page);
}

#[test]
fn the_contract_reference_is_current() {
    let wit = fs::read_to_string(root().join("wit/operator.wit")).expect("it is there");
    check("docs/contract.md", &contract::page(&wit));
}

/// Sections that have defaults, with as little in them as they can have.
const SHORT: &str = r#"
version: 1
job: short
checkpoint: {}
restart: {strategy: @STRATEGY}
sources:
  made: {generator: {records: 1}, event_time: {}}
  read: {file: {paths: [x.jsonl], format: json}, event_time: {field: /a, format: seconds}}
  table: {file: {paths: [y.csv], format: csv, csv: {}}}
  piped: {stdin: {}}
  topic: {kafka: {brokers: "k:9092", topic: a, group: g}, event_time: {}}
operators:
  op: {component: x.wasm, input: [made, table, piped, topic], limits: {value: 1MiB}}
sinks:
  out: {input: op, file: {dir: out}}
  other: {input: [op, read], stdout: {}}
  topics: {input: op, kafka: {brokers: "k:9092", topic: b, transaction_timeout: 9m, transactional_id: x}}
"#;

#[test]
fn defaults_are_what_descriptions_say() {
    let place = Place::temporary();
    let mut compared = 0;
    for strategy in [
        "exponential",
        "fixed",
        "failure-rate, failures: 1, within: 1h",
    ] {
        let short = SHORT.replace("@STRATEGY", strategy);
        place.write("job.yaml", &short);
        let printed = place.weir(&["check", "--offline", "--print", "job.yaml"]);
        printed.expect(0, &[]);
        let resolved = yaml::read(&printed.text());
        let same = job_file::compare_defaults(&weir::job::schema(), &yaml::read(&short), &resolved);
        compared += same.unwrap_or_else(|differ| panic!("\n{differ}"));
    }
    assert!(compared > 65, "only {compared} defaults were compared");
}

/// A link to a heading leads to the first of its name.
#[test]
fn no_reference_has_two_headings_of_one_name() {
    for name in ["docs/contract.md", "docs/job-file-reference.md"] {
        let anchors = Document::named(name).anchors();
        let distinct: BTreeSet<_> = anchors.iter().collect();
        assert_eq!(distinct.len(), anchors.len(), "{name}: {anchors:?}");
    }
}
