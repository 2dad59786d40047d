//! A component's file may be replaced, changed or removed at any time: a running job goes on with what it loaded, and a start takes
//! only what fits the job's state.

use std::fs;
use std::path::PathBuf;

use weir_tests::guest;
use weir_tests::host::HANGS;
use weir_tests::place::{Place, Start};

use crate::fixture::{SLOWEST, UNLIMITED, is_exact, is_refused, started, stop, text};

/// The file of a guest.
fn bytes(name: &str) -> Vec<u8> {
    let path: PathBuf = guest(name).unwrap_or_else(|what| panic!("{what}"));
    fs::read(path).expect("a guest can be read")
}

/// The job at a rate, with its component in a file of its own, `op.wasm`.
fn write(place: &Place, rate: u64) {
    place.write_job(&text(rate).replace("@weir_guest_ledger", "op.wasm"));
}

/// The job, stopped cleanly half-way.
fn half_done() -> Place {
    let place = Place::temporary();
    place.write("op.wasm", bytes("weir_guest_ledger"));
    write(&place, SLOWEST);
    stop(started(&place, &Start::default()));
    place
}

#[track_caller]
fn finish_exactly(place: &Place) {
    write(place, UNLIMITED);
    place.run().expect(0, &["finished"]);
    is_exact(place);
}

#[test]
fn a_job_that_fails_and_restarts_goes_on_with_what_it_loaded() {
    let place = Place::temporary();
    place.write("in/lines.jsonl", "{\"k\": \"a\"}\n");
    place.write("op.wasm", bytes("weir_guest_probe"));
    place.write(
        "job.yaml",
        "version: 1
job: probe
parallelism: 1
checkpoint: {dir: checkpoints, interval: 50ms}
restart: {strategy: fixed, delay: 300ms, give_up_after: 10}
sources:
  in: {file: {paths: [in/lines.jsonl], format: json}, key: /k}
operators:
  probe: {component: op.wasm, inputs: {keyed: in, unkeyed: in}, config: process trap}
sinks:
  kept: {input: probe.kept, file: {dir: out/kept}}
",
    );
    let mut process = place.start(&Start::default());
    assert!(
        process.says("restarting in", 1, HANGS),
        "it does not fail:\n{}",
        process.log()
    );
    // Half a file: if it were read, the job would end in another way.
    let whole = bytes("weir_guest_probe");
    place.write("op.wasm", &whole[..whole.len() / 2]);
    let exit = process.end();
    exit.expect(
        5,
        &[
            "trapped; the job failed",
            "the same record failed 3 times",
            "[W0204] operator `probe` goes on with the component that the process started with",
            "op.wasm is another one now",
        ],
    );
    assert_eq!(exit.log.matches("W0204").count(), 1, "{}", exit.log);
    place.run().expect(2, &["error[W0210]", "op.wasm"]);
}

#[test]
fn a_component_that_does_not_fit_the_state_is_refused_and_the_old_one_can_be_had() {
    let place = half_done();
    place.write("op.wasm", bytes("weir_guest_alarm"));
    let job = "version: 1
job: ledger
parallelism: 2
max_parallelism: 16
checkpoint: {dir: checkpoints, interval: 50ms, retain: 2}
sources:
  numbers: {generator: {records: 4000, keys: 20, splits: 1, step: 5ms}}
operators:
  ledger: {component: op.wasm, input: numbers}
sinks:
  lines: {input: ledger, file: {dir: out/lines, format: json}}
  windows: {input: ledger, file: {dir: out/windows, format: json}}
";
    place.write("job.yaml", job);
    is_refused(
        &place,
        "W0526",
        &[
            "of operator `ledger`, which op.wasm does not declare",
            "job.yaml:9:3",
            "declare it again; or go back to the component of then, which is kept as",
        ],
    );
    let kept = kept(&place);
    fs::copy(kept, place.path("op.wasm")).expect("copied");
    finish_exactly(&place);
}

/// The one component that checkpoint storage keeps.
fn kept(place: &Place) -> PathBuf {
    let dir = fs::read_dir(place.path("checkpoints/components")).expect("a folder");
    let mut files: Vec<_> = dir.map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

#[test]
fn another_build_of_the_same_operator_is_fine_and_is_said() {
    let place = half_done();
    // A custom section without contents, named `x`: the same code with another hash.
    let mut other = bytes("weir_guest_ledger");
    other.extend_from_slice(&[0, 2, 1, b'x']);
    place.write("op.wasm", other);
    write(&place, UNLIMITED);
    place.run().expect(
        0,
        &[
            "operator `ledger` runs another component than at checkpoint",
            "finished",
        ],
    );
    is_exact(&place);
}

#[test]
fn a_component_whose_file_is_gone_is_refused_and_said_where_it_is_kept() {
    let place = half_done();
    fs::remove_file(place.path("op.wasm")).expect("removed");
    let kept = kept(&place);
    for verb in ["run", "check"] {
        place.weir(&[verb, "job.yaml"]).expect(
            2,
            &[
                "error[W0201]: cannot read component op.wasm",
                "was taken with a component that is kept as",
                &kept.display().to_string(),
                "copy that one to op.wasm",
            ],
        );
    }
    fs::copy(kept, place.path("op.wasm")).expect("copied");
    finish_exactly(&place);
}

#[test]
fn a_pin_is_kept_whatever_the_state_says() {
    let place = half_done();
    let job = fs::read_to_string(place.job()).expect("the job file");
    let pin = |sha256: &str| {
        let pinned = format!("component: {{file: op.wasm, sha256: \"{sha256}\"}}");
        place.write("job.yaml", job.replace("component: op.wasm", &pinned));
    };
    let name = kept(&place);
    let name = name.file_name().expect("a name").to_string_lossy();
    let (_, sha256) = name.split_once('-').expect("attempt and digest");
    pin(sha256);
    stop(started(&place, &Start::default()));
    pin(&"0".repeat(64));
    place.run().expect(
        2,
        &[
            "error[W0202]",
            "op.wasm is not the pinned component",
            sha256,
        ],
    );
    finish_exactly(&place);
}
