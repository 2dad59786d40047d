//! SIGTERM and SIGINT: a last checkpoint and exit 0, at any moment; one a second or more later ends the process at once.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use weir_tests::host::{HANGS, Process};
use weir_tests::place::{Place, Start};

use crate::fixture::{SLOW, SLOWEST, a_bit_further, finish_exactly, running, started, text};

#[test]
fn sigterm_and_sigint_take_a_last_checkpoint_and_the_next_run_goes_on_from_it() {
    let (place, mut process) = running(SLOWEST);
    process.signal(Signal::TERM);
    process.end().expect(
        0,
        &[
            "stopping after a last checkpoint",
            "job ledger stopped",
            "holds everything up to here",
        ],
    );
    let mut process = started(&place, &Start::at(4));
    assert!(
        process.log().contains("resumed at checkpoint"),
        "{}",
        process.log()
    );
    process.signal(Signal::INT);
    process.end().expect(0, &["job ledger stopped"]);
    a_bit_further(&place);
    finish_exactly(&place);
}

#[test]
fn stopped_before_anything_was_read() {
    let place = Place::temporary();
    place.write_job(&text(1));
    let mut process = place.start(&Start::default());
    assert!(process.says("fresh start", 1, HANGS));
    process.signal(Signal::TERM);
    process.end().expect(0, &["stopped"]);
    place.write_job(&text(SLOW));
    a_bit_further(&place);
    finish_exactly(&place);
}

#[test]
fn stopped_while_it_starts_it_ends_at_once_and_cleanly() {
    let place = Place::temporary();
    place.write_job(&text(SLOW));
    for moment in [50, 150, 300, 450, 600] {
        let mut process = place.start(&Start::default());
        process.within(Duration::from_millis(moment));
        process.signal(Signal::TERM);
        let exit = process.end();
        // Before it listens for signals, a signal ends the process as it ends any other.
        assert!(
            matches!(exit.code(), Some(0 | 6) | None),
            "{:?}\n{}",
            exit.code(),
            exit.log
        );
    }
    finish_exactly(&place);
}

#[test]
fn a_source_with_nothing_to_read_is_stopped_as_well() {
    let place = Place::temporary();
    place.write_job(
        "version: 1\njob: idle\ncheckpoint: {dir: checkpoints}\nsources: {lines: {stdin: {}}}\n\
         sinks: {out: {input: lines, file: {dir: out/lines}}}\n",
    );
    let mut command = place.command();
    command
        .arg("run")
        .arg(place.job())
        .stdin(std::process::Stdio::piped());
    let mut process = place.spawn(&mut command);
    let pipe = process.stdin();
    assert!(process.says("fresh start", 1, HANGS), "{}", process.log());
    process.within(Duration::from_millis(200));
    process.signal(Signal::TERM);
    process.end().expect(0, &["stopped"]);
    drop(pipe);
}

/// A job whose guest never returns, which keeps a last checkpoint from coming about; it has been asked to stop.
fn stuck() -> (Place, Process) {
    let place = Place::temporary();
    place.write_job(
        "version: 1\njob: stuck\nparallelism: 1\ncheckpoint: {dir: checkpoints, interval: 50ms}\n\
         sources: {in: {generator: {records: 10}}}\n\
         operators: {loop: {component: @weir_guest_probe, inputs: {keyed: in, unkeyed: in}, config: process loop}}\n\
         sinks: {out: {input: loop, file: {dir: out/lines}}}\n",
    );
    let mut process = place.start(&Start::default());
    assert!(process.says("fresh start", 1, HANGS), "{}", process.log());
    process.within(Duration::from_millis(300));
    process.signal(Signal::TERM);
    // Right after the first it is the same one: `timeout` signals a process and its group.
    process.signal(Signal::INT);
    assert!(
        process.says("stopping after a last checkpoint", 1, HANGS),
        "{}",
        process.log()
    );
    process.within(Duration::from_millis(200));
    assert!(
        process.is_running(),
        "the guest is not stuck:\n{}",
        process.log()
    );
    (place, process)
}

#[test]
fn a_second_signal_ends_it_within_a_second() {
    let (place, mut process) = stuck();
    process.within(Duration::from_millis(1_100));
    let began = Instant::now();
    process.signal(Signal::TERM);
    let exit = process.end();
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    exit.expect(6, &["stopped at once by a second signal"]);
    assert!(place.committed("lines").is_empty());
}

#[test]
fn a_stop_that_does_not_come_about_is_given_up_before_a_supervisor_kills() {
    let (place, mut process) = stuck();
    let exit = process.within(Duration::from_secs(29));
    let exit = exit.unwrap_or_else(|| panic!("still running:\n{}", process.log()));
    exit.expect(6, &["no last checkpoint within 25 s"]);
    assert!(place.committed("lines").is_empty());
}
