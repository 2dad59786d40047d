//! State of many times as many rows as the snapshot's cursor takes between two batches: records go on changing what it has not
//! reached yet, and none of that may be in the snapshot.

use std::time::Duration;

use weir_tests::host::HANGS;
use weir_tests::output::Difference;
use weir_tests::place::{Place, Start};
use weir_tests::random::Random;

use crate::fixture::sorted;

const RECORDS: u64 = 150_000;

/// Each key has a value, an item, an entry, a window and its timer.
fn text(rate: u64, interval: &str) -> String {
    format!(
        "version: 1
job: large
parallelism: 1
checkpoint: {{dir: checkpoints, interval: {interval}, fail_after: 2h, retain: 2}}
sources:
  numbers:
    generator: {{records: {RECORDS}, keys: 20000, splits: 1, step: 1ms}}
    rate: {rate}
operators:
  ledger:
    component: @weir_guest_ledger
    input: numbers
    config: {{window_millis: 60000, pulse_millis: 20}}
sinks:
  lines: {{input: ledger.ledger, file: {{dir: out/lines, format: json}}}}
  windows: {{input: ledger.windows, file: {{dir: out/windows, format: json}}}}
"
    )
}

fn lines(place: &Place) -> Vec<String> {
    sorted([place.committed("lines"), place.committed("windows")].concat())
}

#[test]
fn records_that_flow_while_state_is_collected_count_once() {
    let whole = Place::temporary();
    whole.write_job(&text(1_000_000_000, "1h"));
    whole.run().expect(0, &["finished"]);
    let expected = lines(&whole);
    assert!(expected.len() > RECORDS as usize, "a line a record");

    let place = Place::temporary();
    place.write_job(&text(30_000, "20ms"));
    let mut random = Random::new(11);
    let mut kills = 0;
    for _ in 0..6 {
        let mut process = place.start(&Start::default());
        // On a slow machine it may be over before it was killed often.
        if !process.says("committed", 2, HANGS) {
            break;
        }
        process.within(random.time(Duration::from_millis(400)));
        process.kill();
        kills += 1;
    }
    assert!(kills > 0, "it was over before it was killed once");
    place.write_job(&text(1_000_000_000, "20ms"));
    // In another layout of subtasks, so that each of them reads its part of the snapshots.
    place.run_with(&Start::at(3)).expect(0, &["finished"]);
    let difference = Difference::between(&expected, &lines(&place));
    assert!(difference.is_none(), "{difference}");
}
