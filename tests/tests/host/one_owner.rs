//! A job runs once: a second start is refused and the first does not notice; a host that was replaced stops.

use std::fs;

use rustix::process::Signal;
use weir_tests::host::HANGS;
use weir_tests::place::Start;

use crate::fixture::{SLOWEST, finish_exactly, running, started, stop};

#[test]
fn a_second_start_is_refused_with_the_first_ones_process_id() {
    let (place, mut first) = running(SLOWEST);
    let pid = format!("pid {}", first.pid().as_raw_nonzero());
    place
        .run()
        .expect(4, &["error[W0501]", "job `ledger` runs already", &pid]);
    // Checkpoint storage is locked, wherever the second one keeps its own files.
    let elsewhere = place.path("elsewhere").display().to_string();
    let second = place.run_with(&Start::with(&[
        "--data-dir",
        &elsewhere,
        "--fresh",
        "--accept-duplicates",
    ]));
    second.expect(4, &["error[W0501]"]);
    let before = first.log().matches("committed").count();
    assert!(
        first.says("committed", before + 2, HANGS),
        "it does not go on:\n{}",
        first.log()
    );
    stop(first);
    finish_exactly(&place);
}

#[test]
fn a_host_that_stood_still_while_it_was_replaced_stops_and_changes_nothing() {
    let (place, mut old) = running(SLOWEST);
    old.signal(Signal::STOP);
    // Locks do not reach to another machine.
    fs::remove_file(place.path("checkpoints/lock")).expect("a lock file");
    let elsewhere = place.path("elsewhere").display().to_string();
    let new = started(&place, &Start::with(&["--data-dir", &elsewhere]));
    old.signal(Signal::CONT);
    old.end()
        .expect(4, &["[W0502]", "on another host has taken"]);
    stop(new);
    finish_exactly(&place);
}
