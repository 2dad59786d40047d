//! A zoo of operators that do the wrong thing for some records: each such record, and no other, becomes a dead letter that says what
//! happened, and nothing else is lost.

use weir_tests::output::Difference;
use weir_tests::place::Place;

use crate::fixture::sorted;

/// Lines of the input, and which of them are bad.
const LINES: usize = 300;
const BAD: [usize; 3] = [57, 58, 211];

fn line(number: usize) -> String {
    let kind = if BAD.contains(&number) { "bad" } else { "good" };
    format!(
        "{{\"k\": \"k{}\", \"n\": {number}, \"is\": \"{kind}\"}}",
        number % 7
    )
}

fn job(action: &str) -> String {
    format!(
        "version: 1
job: zoo
parallelism: 1
checkpoint: {{dir: checkpoints, interval: 50ms}}
sources:
  in: {{file: {{paths: [in/lines.jsonl], format: json}}, key: /k}}
  nothing: {{file: {{paths: [in/empty.jsonl], format: json}}}}
operators:
  probe:
    component: @weir_guest_probe
    inputs: {{keyed: in, unkeyed: nothing}}
    config: process bad-records {action}
    limits: {{memory: 32MiB, call_time: 300ms, output: 1MiB, value: 1KiB}}
    on_error: {{dead_letter: letters}}
sinks:
  kept: {{input: probe.kept, file: {{dir: out/kept}}}}
  given: {{input: probe.given, file: {{dir: out/given}}}}
  absent: {{input: probe.absent, file: {{dir: out/absent}}}}
  letters: {{file: {{dir: out/letters, format: json}}}}
"
    )
}

/// Runs the job; each bad record's letter must say `error`, and every good record must have passed.
#[track_caller]
fn only_the_bad_records_are_lost(action: &str, error: &str) {
    let place = Place::temporary();
    let lines: Vec<String> = (1..=LINES).map(line).collect();
    place.write("in/lines.jsonl", lines.join("\n"));
    place.write("in/empty.jsonl", "");
    place.write_job(&job(action));
    let exit = place.run();
    exit.expect(0, &["finished", "W0404"]);
    let good = lines.iter().filter(|line| line.contains("good")).cloned();
    let difference = Difference::between(&sorted(good.collect()), &place.committed("kept"));
    assert!(difference.is_none(), "`{action}`: {difference}");
    let letters = place.committed("letters");
    assert_eq!(letters.len(), BAD.len(), "`{action}`: {letters:?}");
    for number in BAD {
        let of_it = format!("in/lines.jsonl line {number}\"");
        let letter = letters.iter().find(|letter| letter.contains(&of_it));
        let letter = letter.unwrap_or_else(|| panic!("`{action}`: {of_it}: {letters:?}"));
        assert!(
            letter.contains(error),
            "`{action}`: {error}:\n{letter:.2000}"
        );
    }
    for nothing in ["given", "absent"] {
        assert!(place.committed(nothing).is_empty(), "`{action}`: {nothing}");
    }
}

#[test]
fn those_that_trap() {
    only_the_bad_records_are_lost("trap", "the operator trapped");
    only_the_bad_records_are_lost("panic", "no field `dep_delay`");
    only_the_bad_records_are_lost("effects-then-trap", "the operator trapped");
    only_the_bad_records_are_lost("recurse", "the operator trapped");
    only_the_bad_records_are_lost("recurse-with-arrays", "the operator trapped");
}

#[test]
fn those_that_report() {
    only_the_bad_records_are_lost("fault", "the record is odd");
    only_the_bad_records_are_lost("effects-then-fault", "the record is odd");
    only_the_bad_records_are_lost("fault-at-length", "ééé");
    only_the_bad_records_are_lost("fault-not-text", "utf-8");
    only_the_bad_records_are_lost("log-not-text", "utf-8");
}

#[test]
fn those_that_do_not_end() {
    only_the_bad_records_are_lost("loop", "the call took longer than 300ms");
    only_the_bad_records_are_lost("loop-of-logs", "the call took longer than 300ms");
}

#[test]
fn those_that_flood() {
    only_the_bad_records_are_lost("grow", "bytes of memory; its limit is 33554432");
    for flood in [
        "emit without-end",
        "emit huge",
        "timers without-end",
        "state write-without-end",
    ] {
        only_the_bad_records_are_lost(flood, "exceeded its limit");
    }
}

#[test]
fn those_that_break_the_contract() {
    for breach in [
        "column decreasing",
        "column last-offset",
        "nullable present-byte",
        "nullable null-with-bytes",
        "cells key",
        "state undeclared",
        "state get-of-items",
        "timers undeclared",
        "timers key",
        "emit undeclared",
        "emit origin",
        "emit key-column",
        "reject row",
        "shared-state scan",
    ] {
        only_the_bad_records_are_lost(breach, "the operator broke the contract");
    }
}
