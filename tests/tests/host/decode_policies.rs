//! Input that cannot be decoded: the job fails with file and line, or leaves it out and counts, or writes it where it is told.

use serde_json::Value;
use weir_tests::host::Exit;
use weir_tests::place::Place;

const LINES: &str =
    "{\"k\": \"a\", \"v\": 1}\n{\"k\": \"b\", \"v\": \n{\"k\": \"c\", \"v\": 3}\nnonsense\n";
const ROWS: &str = "k,v\na,1\nb\nc,3\n";

fn run(file: &str, contents: &str, format: &str, policy: &str) -> (Place, Exit) {
    let place = Place::temporary();
    place.write(&format!("in/{file}"), contents);
    let rejects = if policy.contains("dead") {
        "  rejects: {file: {dir: out/rejects, format: json}}\n"
    } else {
        ""
    };
    place.write_job(&format!(
        "version: 1
job: decode
parallelism: 1
checkpoint: {{dir: checkpoints}}
sources:
  lines: {{file: {{paths: [in/{file}], format: {format}}}, on_error: {policy}}}
sinks:
  out: {{input: lines, file: {{dir: out/lines, format: json}}}}
{rejects}"
    ));
    let exit = place.run();
    (place, exit)
}

#[test]
fn fail_names_file_and_line_and_commits_nothing() {
    for (file, contents, format, line) in [
        ("a.jsonl", LINES, "json", "a.jsonl line 2"),
        ("a.csv", ROWS, "csv", "a.csv line 3"),
    ] {
        let (place, exit) = run(file, contents, format, "fail");
        exit.expect(5, &["error[W0602]", line, "on_error: skip", "dead_letter"]);
        assert!(
            !exit.log.contains("restarting"),
            "it would be the same on every try:\n{}",
            exit.log
        );
        assert!(place.committed("lines").is_empty());
    }
}

#[test]
fn skip_leaves_out_and_counts() {
    let (place, exit) = run("a.jsonl", LINES, "json", "skip");
    exit.expect(0, &["skipped 2,"]);
    assert_eq!(
        place.committed("lines"),
        ["{\"k\": \"a\", \"v\": 1}", "{\"k\": \"c\", \"v\": 3}"]
    );
    let (place, exit) = run("a.csv", ROWS, "csv", "skip");
    exit.expect(0, &["skipped 1,"]);
    assert_eq!(
        place.committed("lines"),
        [r#"{"k":"a","v":"1"}"#, r#"{"k":"c","v":"3"}"#]
    );
}

#[test]
fn dead_letters_say_where_why_and_what() {
    let (place, exit) = run("a.jsonl", LINES, "json", "{dead_letter: rejects}");
    exit.expect(0, &["dead letters 2"]);
    assert_eq!(place.committed("lines").len(), 2);
    let letters: Vec<Value> = place
        .committed("rejects")
        .iter()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let mut found: Vec<_> = letters
        .iter()
        .map(|letter| {
            assert!(
                letter["file"]
                    .as_str()
                    .is_some_and(|file| file.ends_with("in/a.jsonl")),
                "{letter}"
            );
            assert!(
                letter["error"]
                    .as_str()
                    .is_some_and(|error| !error.is_empty()),
                "{letter}"
            );
            (
                letter["line"].as_u64(),
                letter["offset"].as_u64(),
                letter["value"].as_str(),
            )
        })
        .collect();
    found.sort();
    assert_eq!(
        found,
        [
            (Some(2), Some(19), Some("{\"k\": \"b\", \"v\": ")),
            (Some(4), Some(55), Some("nonsense"))
        ]
    );
}
