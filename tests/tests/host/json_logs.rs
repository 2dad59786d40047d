//! `--log-format json`: every line is an object with the fields that a log search needs, the last ones included.

use serde_json::Value;
use weir_tests::host::Exit;
use weir_tests::place::{Place, Start};

use crate::fixture::{UNLIMITED, text};

#[track_caller]
fn lines(exit: &Exit) -> Vec<Value> {
    let lines = exit.log.lines();
    lines
        .map(|line| {
            let value: Value = serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("{error}: {line}\nin\n{}", exit.log));
            for field in ["ts", "level", "job", "message"] {
                assert!(value[field].is_string(), "{field} in {line}");
            }
            let ts = value["ts"].as_str().expect("checked");
            assert!(ts.len() == 24 && ts.ends_with('Z'), "{line}");
            value
        })
        .collect()
}

fn json() -> Start {
    Start::with(&["--log-format", "json"])
}

#[test]
fn lines_of_a_good_run() {
    let place = Place::temporary();
    place.write_job(&text(UNLIMITED));
    let exit = place.run_with(&json());
    exit.expect(0, &[]);
    let lines = lines(&exit);
    let commits: Vec<_> = lines
        .iter()
        .filter(|line| {
            line["message"]
                .as_str()
                .is_some_and(|text| text.contains(" committed: "))
        })
        .collect();
    assert!(!commits.is_empty(), "{lines:#?}");
    for commit in commits {
        assert!(commit["checkpoint"].as_u64() > Some(0), "{commit}");
        assert_eq!(
            (&commit["job"], &commit["attempt"]),
            (&"ledger".into(), &1.into())
        );
    }
    let last = lines.last().expect("a summary");
    assert!(
        last["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("job ledger finished")),
        "{last}"
    );
}

fn probe(action: &str, more: &str) -> Place {
    let place = Place::temporary();
    place.write(
        "in/lines.jsonl",
        "{\"k\": \"a\"}\n{\"k\": \"b\"}\n{\"k\": \"c\"}\n",
    );
    place.write_job(&format!(
        "version: 1
job: probe
parallelism: 1
checkpoint: {{dir: checkpoints, interval: 50ms}}
restart: {{strategy: fixed, delay: 10ms, give_up_after: 2}}
sources:
  in: {{file: {{paths: [in/lines.jsonl], format: json}}, key: /k, rate: 50}}
operators:
  probe: {{component: @weir_guest_probe, inputs: {{keyed: in, unkeyed: in}}, config: {action}{more}}}
sinks:
  kept: {{input: probe.kept, file: {{dir: out/kept}}}}
"
    ));
    place
}

#[test]
fn a_guests_lines_name_it_and_repeat_once() {
    let exit = probe("process log", "").run_with(&json());
    exit.expect(0, &[]);
    let guests: Vec<_> = lines(&exit)
        .into_iter()
        .filter(|line| line["guest"] == true)
        .collect();
    let [first, repeats] = &guests[..] else {
        panic!("a line and its repeats: {guests:#?}")
    };
    assert_eq!(
        (&first["operator"], &first["subtask"], &first["level"]),
        (&"probe".into(), &0.into(), &"warn".into())
    );
    assert!(repeats["repeated"].as_u64() > Some(0), "{repeats}");
    assert!(
        first["message"].as_str().expect("text").len() < 20_000,
        "it is cut"
    );
}

#[test]
fn set_aside_records_and_the_end_of_a_failing_job_have_their_codes() {
    let exit = probe("process fault", ", on_error: skip").run_with(&json());
    exit.expect(0, &[]);
    let aside: Vec<_> = lines(&exit)
        .into_iter()
        .filter(|line| line["code"] == "W0404")
        .collect();
    let times = |line: &Value| line["repeated"].as_u64().unwrap_or(1);
    let all: u64 = aside.iter().map(times).sum();
    assert_eq!(all, 6, "three records by two inputs: {}", exit.log);
    assert!(
        aside
            .iter()
            .all(|line| line["operator"] == "probe" && line["subtask"] == 0)
    );
    assert!(
        !exit.log.contains("\\\"k\\\""),
        "values are not logged:\n{}",
        exit.log
    );

    let exit = probe("process trap", "").run_with(&json());
    exit.expect(5, &[]);
    let lines = lines(&exit);
    let last = lines.last().expect("a reason");
    assert_eq!(
        (&last["level"], &last["code"]),
        (&"error".into(), &"W0401".into())
    );
    assert!(
        last["message"]
            .as_str()
            .expect("text")
            .starts_with("operator `probe`"),
        "{last}"
    );
    // What restarts replay is marked; this one never logged anything itself.
    assert!(lines.iter().any(|line| line["attempt"] == 2), "{lines:#?}");
}

#[test]
fn a_job_that_does_not_start_says_so_in_the_same_form() {
    let place = Place::temporary();
    place.write_job("version: 1\njob: bad\nsurces: {}\n");
    let exit = place.run_with(&json());
    exit.expect(2, &[]);
    let lines = lines(&exit);
    let codes: Vec<_> = lines.iter().map(|line| &line["code"]).collect();
    assert_eq!(codes, ["W0104", "W0102"], "{lines:#?}");
    assert!(lines.iter().all(|line| line["level"] == "error"));
    let message = lines[1]["message"].as_str().expect("text");
    assert!(message.contains("job.yaml:3:1"), "{message}");
    assert_eq!(
        place
            .weir(&["run", "job.yaml", "--log-format", "xml"])
            .code(),
        Some(2)
    );
}
