//! A guest that traps, loops or hoards fails its job by name, and nothing of the failed call is committed.

use weir_tests::host::Exit;
use weir_tests::place::Place;

fn job(action: &str, restart: &str) -> String {
    format!(
        "version: 1
job: probe
parallelism: 1
checkpoint: {{dir: checkpoints, interval: 50ms}}
restart: {restart}
sources:
  in: {{file: {{paths: [in/lines.jsonl], format: json}}, key: /k}}
operators:
  probe: {{component: @weir_guest_probe, inputs: {{keyed: in, unkeyed: in}}, config: {action}}}
sinks:
  kept: {{input: probe.kept, file: {{dir: out/kept}}}}
  given: {{input: probe.given, file: {{dir: out/given}}}}
  absent: {{input: probe.absent, file: {{dir: out/absent}}}}
"
    )
}

const SOON: &str = "{strategy: fixed, delay: 10ms, give_up_after: 10}";

fn run(action: &str, restart: &str) -> (Place, Exit) {
    let place = Place::temporary();
    place.write("in/lines.jsonl", "{\"k\": \"a\"}\n{\"k\": \"b\"}\n");
    place.write_job(&job(action, restart));
    let exit = place.run();
    (place, exit)
}

#[track_caller]
fn nothing_committed(place: &Place) {
    for sink in ["kept", "given", "absent"] {
        assert!(
            place.committed(sink).is_empty(),
            "`{sink}` has committed {:?}",
            place.committed(sink)
        );
    }
}

#[test]
fn a_proper_guest_is_the_control() {
    let (place, exit) = run("process echo", SOON);
    exit.expect(0, &["finished"]);
    // Each record comes in by two inputs.
    assert_eq!(
        place.committed("kept"),
        [
            "{\"k\": \"a\"}",
            "{\"k\": \"a\"}",
            "{\"k\": \"b\"}",
            "{\"k\": \"b\"}"
        ]
    );
}

#[test]
fn a_trap_at_the_same_record_is_not_retried_for_ever() {
    for action in ["process trap", "process effects-then-trap", "process panic"] {
        let (place, exit) = run(action, SOON);
        exit.expect(
            5,
            &[
                "error[W0401]",
                "operator `probe` subtask 0 trapped; the job failed",
                "in/lines.jsonl line 1",
                "the same record failed 3 times, so it is not retried (exit 5)",
            ],
        );
        if action.ends_with("panic") {
            assert!(
                exit.log.contains("no field `dep_delay`"),
                "the guest's last words are kept:\n{}",
                exit.log
            );
        }
        nothing_committed(&place);
    }
}

#[test]
fn a_fault_that_a_guest_reports_is_passed_on() {
    let (place, exit) = run("process effects-then-fault", SOON);
    exit.expect(
        5,
        &[
            "error[W0401]",
            "reported a fault",
            "the record is odd",
            "in/lines.jsonl",
        ],
    );
    nothing_committed(&place);
}

#[test]
fn what_grows_without_end_exceeds_its_limit() {
    let (place, exit) = run("process grow", SOON);
    exit.expect(5, &["error[W0401]", "exceeded a limit", "in/lines.jsonl"]);
    nothing_committed(&place);
}

#[test]
fn a_recursion_without_end_traps() {
    let (place, exit) = run("process recurse", SOON);
    exit.expect(5, &["error[W0401]", "in/lines.jsonl"]);
    nothing_committed(&place);
}

#[test]
fn a_loop_without_end_exceeds_its_deadline() {
    let place = Place::temporary();
    place.write("in/lines.jsonl", "{\"k\": \"a\"}\n{\"k\": \"b\"}\n");
    let job = job("process loop", SOON);
    let limited = job.replace(
        "config: process loop",
        "config: process loop, limits: {call_time: 500ms}",
    );
    assert_ne!(limited, job);
    place.write_job(&limited);
    place.run().expect(
        5,
        &[
            "error[W0401]",
            "exceeded its deadline",
            "in/lines.jsonl line 1",
            "the same record failed 3 times",
        ],
    );
    nothing_committed(&place);
}

#[test]
fn failing_in_the_end_commits_nothing_of_the_end() {
    let (place, exit) = run(
        "finish trap",
        "{strategy: fixed, delay: 10ms, give_up_after: 2}",
    );
    exit.expect(5, &["error[W0401]", "trapped"]);
    nothing_committed(&place);
}

#[test]
fn a_component_that_refuses_its_configuration_is_an_invalid_job() {
    let (place, exit) = run("describe refuse", SOON);
    exit.expect(2, &["error[W0212]", "`min_flights` is missing"]);
    nothing_committed(&place);
}
