//! State that outgrows its memory ends the job by name instead of by the kernel, and what cannot fit is not loaded.

use std::fs;

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
    let big = |place: &Place| {
        let Ok(dir) = fs::read_dir(place.path("checkpoints/state")) else {
            return false;
        };
        let sizes = dir.filter_map(|entry| entry.ok()?.metadata().ok());
        // Twice the limit below: files that build on each other hold up to about twice the state.
        sizes.map(|file| file.len()).max().unwrap_or(0) > 50 << 20
    };
    while process.is_running() && !big(&place) {
        process.within(std::time::Duration::from_millis(50));
    }
    // The files that are this large belong to a checkpoint that is to be committed first.
    let committed = process.log().matches("committed").count();
    process.says("committed", committed + 1, weir_tests::host::HANGS);
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
