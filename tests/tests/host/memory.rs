//! State that outgrows its memory ends the job by name instead of by the kernel, and what cannot fit is not loaded.

use std::fs;
use std::time::Duration;

use weir_tests::host::HANGS;
use weir_tests::place::{Place, Start};

use crate::fixture::started;

/// A job without end whose state grows with nearly every record, up to two million keys.
fn job(memory: &str, rate: u64) -> String {
    format!(
        "version: 1
job: hoard
parallelism: 2
memory: {memory}
checkpoint: {{dir: checkpoints, interval: 50ms}}
sources:
  numbers:
    generator: {{records: unbounded, keys: 2000000, value_bytes: 32, splits: 2}}
    rate: {rate}
operators:
  count: {{component: @weir_guest_count, input: numbers}}
sinks:
  none: {{input: count, blackhole: {{}}}}
"
    )
}

#[test]
fn a_job_that_outgrows_its_memory_fails_by_name_and_goes_on_with_more() {
    let place = Place::temporary();
    place.write_job(&job("32MiB", 1_000_000_000));
    let exit = place.run();
    exit.expect(
        5,
        &[
            "error[W0405]: operator `count` subtask",
            "outgrew the memory for state; the job failed",
            "and the limit is 24MiB (three quarters of `memory`)",
            "raise `memory`",
        ],
    );
    place.write_job(&job("4GiB", 20_000));
    let mut process = started(&place, &Start::default());
    assert!(process.is_running());
    process.kill();
}

#[test]
fn a_checkpoint_that_cannot_fit_is_refused_before_it_is_loaded() {
    let place = Place::temporary();
    place.write_job(&job("1GiB", 1_000_000_000));
    let mut process = place.start(&Start::default());
    // As the manifest says; the limit below is 24 MiB.
    let big = |place: &Place| {
        let (_, manifest) = place.checkpoints().last_manifest();
        let subtasks = manifest["operators"][0]["subtasks"].as_array();
        let held = subtasks.into_iter().flatten();
        held.filter_map(|subtask| subtask["held"].as_u64())
            .sum::<u64>()
            > 25 << 20
    };
    assert!(process.says("committed", 1, HANGS), "{}", process.log());
    while process.is_running() && !big(&place) {
        process.within(Duration::from_millis(50));
    }
    process.kill();
    let enough = fs::read_to_string(place.job()).expect("the job file");
    place.write("job.yaml", enough.replace("memory: 1GiB", "memory: 32MiB"));
    place.run().expect(
        3,
        &[
            "error[W0405]: the state of checkpoint",
            "does not fit into memory",
            "and the limit is 24MiB",
            "set `memory` to",
        ],
    );
}
