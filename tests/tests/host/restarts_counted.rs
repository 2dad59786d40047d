//! Restarts are counted over processes: a supervisor that starts one after the other does not make the job try for ever.

use std::fs;

use weir_tests::host::HANGS;
use weir_tests::place::{Place, Start};

use crate::fixture::{SLOW, SLOWEST, text};

/// A job that fails at its only record, or at the end, and then waits for an hour.
fn failing(action: &str) -> Place {
    let place = Place::temporary();
    place.write("in/lines.jsonl", "{\"k\": \"a\"}\n");
    place.write_job(&format!(
        "version: 1
job: probe
parallelism: 1
checkpoint: {{dir: checkpoints, interval: 50ms}}
restart: {{strategy: fixed, delay: 1h, give_up_after: 2}}
sources:
  in: {{file: {{paths: [in/lines.jsonl], format: json}}, key: /k}}
operators:
  probe: {{component: @weir_guest_probe, inputs: {{keyed: in, unkeyed: in}}, config: {action}}}
sinks:
  kept: {{input: probe.kept, file: {{dir: out/kept}}}}
"
    ));
    place
}

/// Runs the job until it has failed once, and kills it in its pause.
#[track_caller]
fn fail_once(place: &Place, restart: u32) {
    let mut process = place.start(&Start::default());
    let paused = format!("(restart {restart} in a row)");
    assert!(
        process.says(&paused, 1, HANGS),
        "it does not say `{paused}`:\n{}",
        process.log()
    );
    assert!(process.kill().killed());
}

fn counted(place: &Place) -> bool {
    place.path(".weir/probe/restarts.json").exists()
}

#[test]
fn a_record_that_fails_is_tried_three_times_in_all() {
    let place = failing("process trap");
    fail_once(&place, 1);
    fail_once(&place, 2);
    let exit = place.run();
    exit.expect(
        5,
        &[
            "the count of restarts goes on: 2 in a row; twice at",
            "in/lines.jsonl line 1",
            "the same record failed 3 times, so it is not retried (exit 5)",
        ],
    );
    // Whoever starts it now wants it tried again.
    assert!(!counted(&place));
    fail_once(&place, 1);
}

#[test]
fn restarts_in_a_row_are_those_of_all_processes() {
    let place = failing("finish trap");
    fail_once(&place, 1);
    fail_once(&place, 2);
    place.run().expect(
        5,
        &["2 restarts in a row did not help (`restart.give_up_after`)"],
    );
    assert!(!counted(&place));
    fail_once(&place, 1);
    assert!(counted(&place));
    // Another lineage is another start.
    let mut process = place.start(&Start::with(&["--fresh", "--accept-duplicates"]));
    assert!(
        process.says("(restart 1 in a row)", 1, HANGS),
        "{}",
        process.log()
    );
    process.kill();
}

#[test]
fn three_good_checkpoints_and_kills_of_a_sound_job_count_for_nothing() {
    let place = Place::temporary();
    place.write_job(&text(SLOWEST));
    let file = place.write(
        ".weir/ledger/restarts.json",
        "{\"format\": 1, \"written_at\": 0, \"history\": {\"in_a_row\": 3, \"same\": null, \"recent\": []}}",
    );
    let mut process = place.start(&Start::default());
    assert!(process.says("committed", 4, HANGS), "{}", process.log());
    assert!(!file.exists(), "{}", process.log());
    process.kill();
    // Killed more often than it may be restarted.
    for _ in 0..5 {
        let mut process = place.start(&Start::default());
        assert!(process.says("resumed at", 1, HANGS), "{}", process.log());
        process.kill();
    }
    assert!(!file.exists());
    place.write_job(&text(SLOW));
    fs::write(&file, "{\"format\": 7}").expect("written");
    let exit = place.run();
    exit.expect(
        0,
        &["[W0309]", "restarts.json", "it has format 7", "finished"],
    );
}
