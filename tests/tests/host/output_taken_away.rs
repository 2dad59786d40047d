//! Whatever somebody does to the output directory, the job ends exact or stops by name.

use std::fs;

use weir_tests::folders::{copy, remove};
use weir_tests::output::parts;

use crate::fixture::{SLOW, a_bit_further, finish_exactly, flip, half_done, is_refused, running};

#[test]
fn removed() {
    let place = half_done();
    let aside = place.path("aside");
    copy(&place.path("out/lines"), &aside);
    remove(&place.path("out/lines"));
    is_refused(
        &place,
        "W0506",
        &["output in", "is gone", "Is the volume mounted?"],
    );
    copy(&aside, &place.path("out/lines"));
    finish_exactly(&place);
}

#[test]
fn rolled_back() {
    let place = half_done();
    let (out, older, newer) = (place.path("out"), place.path("older"), place.path("newer"));
    copy(&out, &older);
    a_bit_further(&place);
    copy(&out, &newer);
    copy(&older, &out);
    is_refused(
        &place,
        "W0505",
        &["was rolled back: its witness says checkpoint"],
    );
    copy(&newer, &out);
    finish_exactly(&place);
}

#[test]
fn with_its_witness_damaged() {
    let place = half_done();
    let witness = place.path("out/lines/.weir-ledger.json");
    let bytes = fs::read(&witness).expect("a witness");
    fs::write(&witness, &bytes[..bytes.len() / 2]).expect("the file can be written");
    is_refused(
        &place,
        "W0515",
        &["the witness `.weir-ledger.json`", "cannot be used"],
    );
    fs::write(&witness, &bytes).expect("the file can be written");
    flip(&witness);
    let exit = place.run();
    assert_eq!(exit.code(), Some(3), "{}", exit.log);
    fs::write(&witness, bytes).expect("the file can be written");
    finish_exactly(&place);
}

#[test]
fn published_parts_belong_to_their_readers() {
    let place = half_done();
    let taken = place.path("taken");
    fs::create_dir(&taken).expect("a folder can be created");
    for part in parts(&place.path("out/lines")) {
        fs::rename(&part, taken.join(part.file_name().expect("a name")))
            .expect("a part can be moved");
    }
    a_bit_further(&place);
    for part in parts(&taken) {
        let back = place
            .path("out/lines")
            .join(part.file_name().expect("a name"));
        assert!(!back.exists(), "a part that was taken away came back");
        fs::rename(&part, back).expect("a part can be moved");
    }
    finish_exactly(&place);
}

#[test]
fn removed_under_a_running_job() {
    let (place, mut process) = running(SLOW);
    remove(&place.path("out/lines"));
    let exit = process.end();
    exit.expect(3, &["error[W0506]", "is gone"]);
    assert!(
        exit.log.contains("restarting"),
        "it was noticed by failing first:\n{}",
        exit.log
    );
}
