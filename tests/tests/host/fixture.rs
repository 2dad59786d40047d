//! The job that most tests do something to: a generator, the ledger, a file sink.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use rustix::process::Signal;
use weir_tests::host::{HANGS, Process};
use weir_tests::output::Difference;
use weir_tests::place::{Place, Start};

/// A rate that no machine reaches.
pub(crate) const UNLIMITED: u64 = 1_000_000_000;

/// A rate at which the job lasts long enough to do something to it, and not too long to wait for its end: five seconds.
pub(crate) const SLOW: u64 = 800;

/// A rate at which the job does not end while it is stopped and started, however busy the machine is.
pub(crate) const SLOWEST: u64 = 150;

const RECORDS: u64 = 4_000;

/// The job file at a rate.
pub(crate) fn text(rate: u64) -> String {
    format!(
        "version: 1
job: ledger
parallelism: 2
max_parallelism: 16
checkpoint: {{dir: checkpoints, interval: 50ms, retain: 2}}
restart: {{strategy: fixed, delay: 50ms, give_up_after: 3}}
sources:
  numbers:
    generator: {{records: {RECORDS}, keys: 20, splits: 1, step: 5ms}}
    rate: {rate}
operators:
  ledger:
    component: @weir_guest_ledger
    input: numbers
sinks:
  lines: {{input: ledger.ledger, file: {{dir: out/lines, format: json, roll: {{age: 0s}}}}}}
  windows: {{input: ledger.windows, file: {{dir: out/windows, format: json}}}}
"
    )
}

fn lines(place: &Place) -> Vec<String> {
    [place.committed("lines"), place.committed("windows")].concat()
}

/// What the job commits when nothing disturbs it.
pub(crate) fn expected() -> &'static [String] {
    static EXPECTED: OnceLock<Vec<String>> = OnceLock::new();
    EXPECTED.get_or_init(|| {
        let place = Place::temporary();
        place.write_job(&text(UNLIMITED));
        place.run().expect(0, &["fresh start", "finished"]);
        let lines = lines(&place);
        assert!(
            lines.len() > RECORDS as usize,
            "a line a record, and windows"
        );
        lines
    })
}

/// The job, running at a rate, with some checkpoints committed.
pub(crate) fn running(rate: u64) -> (Place, Process) {
    let place = Place::temporary();
    place.write_job(&text(rate));
    let process = started(&place, &Start::default());
    (place, process)
}

/// Starts the job and waits until it has committed something in this run.
#[track_caller]
pub(crate) fn started(place: &Place, start: &Start) -> Process {
    let mut process = place.start(start);
    assert!(
        process.says("committed", 3, HANGS),
        "it does not run:\n{}",
        process.log()
    );
    process
}

/// Stops the job cleanly.
#[track_caller]
pub(crate) fn stop(mut process: Process) {
    process.signal(Signal::TERM);
    process.end().expect(0, &["stopped"]);
}

/// The job, stopped cleanly half-way.
pub(crate) fn half_done() -> Place {
    let (place, process) = running(SLOWEST);
    stop(process);
    place
}

/// Goes on with the slow job for a while, and stops it cleanly.
#[track_caller]
pub(crate) fn a_bit_further(place: &Place) {
    stop(started(place, &Start::default()));
}

/// Runs the job to its end at full speed; it must have committed exactly what it should.
#[track_caller]
pub(crate) fn finish_exactly(place: &Place) {
    place.write_job(&text(UNLIMITED));
    place.run().expect(0, &["finished"]);
    is_exact(place);
}

/// The job has committed exactly what it should.
#[track_caller]
pub(crate) fn is_exact(place: &Place) {
    let difference = Difference::between(&sorted(expected().to_vec()), &sorted(lines(place)));
    assert!(
        difference.is_none(),
        "the output is not what it should be:\n{difference}"
    );
}

/// Runs the job; it must refuse to start, say so, and touch nothing of the output.
#[track_caller]
pub(crate) fn is_refused(place: &Place, code: &str, said: &[&str]) {
    let before = lines(place);
    let exit = place.run();
    exit.expect(3, &[&format!("error[{code}]")]);
    exit.expect(3, said);
    assert_eq!(before, lines(place), "a refused start changed the output");
}

pub(crate) fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

/// Changes one bit in the middle of a file.
pub(crate) fn flip(path: &Path) {
    let mut bytes = fs::read(path).expect("the file can be read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).expect("the file can be written");
}
