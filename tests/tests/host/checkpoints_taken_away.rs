//! Whatever somebody does to the checkpoint directory, the job ends exact or stops by name; it never starts silently from nothing.

use std::fs;
use std::path::PathBuf;

use weir_tests::folders::{copy, remove};
use weir_tests::host::HANGS;
use weir_tests::place::Place;

use crate::fixture::{
    SLOW, UNLIMITED, a_bit_further, expected, finish_exactly, flip, half_done, is_exact,
    is_refused, running, sorted, text,
};

/// A stopped job with a copy of its checkpoints aside.
fn with_a_copy() -> (Place, PathBuf, PathBuf) {
    let place = half_done();
    let (dir, aside) = (place.path("checkpoints"), place.path("aside"));
    copy(&dir, &aside);
    (place, dir, aside)
}

/// What was done is refused; with the directory put back the job ends exact.
#[track_caller]
fn refused_until_put_back(code: &str, said: &[&str], deed: impl FnOnce(&Place)) {
    let (place, dir, aside) = with_a_copy();
    deed(&place);
    is_refused(&place, code, said);
    copy(&aside, &dir);
    finish_exactly(&place);
}

fn remove_all(files: Vec<PathBuf>) {
    assert!(!files.is_empty(), "there is nothing to remove");
    files
        .iter()
        .for_each(|file| fs::remove_file(file).expect("the file can be removed"));
}

#[test]
fn emptied() {
    let said = [
        "refusing to start from nothing: job `ledger` has committed checkpoint",
        "Is the volume mounted?",
    ];
    refused_until_put_back("W0503", &said, |place| {
        remove(&place.path("checkpoints"));
        fs::create_dir(place.path("checkpoints")).expect("a folder can be created");
    });
}

#[test]
fn removed() {
    let said = [
        "refusing to start from nothing",
        "--fresh --accept-duplicates",
    ];
    refused_until_put_back("W0503", &said, |place| remove(&place.path("checkpoints")));
}

#[test]
fn rolled_back() {
    let (place, dir, older) = with_a_copy();
    a_bit_further(&place);
    let newer = place.path("newer");
    copy(&dir, &newer);
    copy(&older, &dir);
    is_refused(
        &place,
        "W0504",
        &[
            "was rolled back: its commit log ends at checkpoint",
            "the witness in",
        ],
    );
    copy(&newer, &dir);
    finish_exactly(&place);
}

#[test]
fn rolled_back_together_with_the_output() {
    let (place, dir, older) = with_a_copy();
    let (out, older_out) = (place.path("out"), place.path("older-out"));
    copy(&out, &older_out);
    a_bit_further(&place);
    copy(&older, &dir);
    copy(&older_out, &out);
    finish_exactly(&place);
}

#[test]
fn without_a_commit_log() {
    let said = ["is half deleted", "but no commit log"];
    refused_until_put_back("W0511", &said, |place| {
        remove_all(place.checkpoints().files("log"))
    });
}

#[test]
fn without_the_newest_slot() {
    // The one before was trimmed when the newest was there, so that the log ends in nothing that ever was.
    refused_until_put_back("W0510", &["the commit log in", "is missing"], |place| {
        let newest = place.checkpoints().files("log").pop().expect("a slot");
        remove_all(vec![newest]);
    });
}

#[test]
fn with_a_hole_in_the_commit_log() {
    refused_until_put_back(
        "W0510",
        &["the commit log in", "is missing, though slot"],
        |place| {
            let mut slots = place.checkpoints().files("log");
            slots.pop();
            remove_all(vec![slots.pop().expect("a second slot")]);
        },
    );
}

#[test]
fn without_manifests() {
    let said = ["manifest ", " of committed checkpoint ", " is missing in "];
    refused_until_put_back("W0508", &said, |place| {
        remove_all(place.checkpoints().files("manifests"))
    });
}

#[test]
fn without_state_files() {
    let said = ["state file `state/", "is missing"];
    refused_until_put_back("W0518", &said, |place| {
        remove_all(place.checkpoints().files("state"))
    });
}

#[test]
fn with_a_state_file_cut_short() {
    refused_until_put_back(
        "W0518",
        &["state file `state/", " bytes; it has "],
        |place| {
            let file = state_file(place);
            let bytes = fs::read(&file).expect("the file can be read");
            fs::write(&file, &bytes[..bytes.len() / 2]).expect("the file can be written");
        },
    );
}

#[test]
fn without_its_owner() {
    let said = ["is half deleted", "`job.json` is not there"];
    refused_until_put_back("W0511", &said, |place| {
        remove_all(vec![place.path("checkpoints/job.json")])
    });
}

#[test]
fn without_an_older_manifest_nothing_is_missed() {
    let place = half_done();
    let (newest, _) = place.checkpoints().last_manifest();
    let older: Vec<_> = place
        .checkpoints()
        .files("manifests")
        .into_iter()
        .filter(|path| *path != newest)
        .collect();
    remove_all(older);
    finish_exactly(&place);
}

/// A state file that the newest commit needs.
fn state_file(place: &Place) -> PathBuf {
    let (_, manifest) = place.checkpoints().last_manifest();
    let subtasks = manifest["operators"][0]["subtasks"]
        .as_array()
        .expect("subtasks");
    let name = subtasks[0]["files"][0]["name"]
        .as_str()
        .expect("a state file");
    place.path("checkpoints/state").join(name)
}

#[test]
fn one_bit_flipped_in_a_state_file_is_found_before_anything_is_processed() {
    let (place, dir, aside) = with_a_copy();
    let before = place.committed("lines");
    let file = state_file(&place);
    flip(&file);
    let name = file
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let exit = place.run();
    exit.expect(3, &["error[W0518]", &name, "damaged"]);
    assert!(
        !exit.log.contains("committed:"),
        "something was committed on damaged state:\n{}",
        exit.log
    );
    assert_eq!(place.committed("lines"), before);
    copy(&aside, &dir);
    finish_exactly(&place);
}

#[test]
fn one_bit_flipped_in_the_manifest() {
    refused_until_put_back(
        "W0509",
        &["manifest ", "cannot be used", "damaged"],
        |place| {
            flip(&place.checkpoints().last_manifest().0);
        },
    );
}

#[test]
fn one_bit_flipped_in_a_slot() {
    refused_until_put_back("W0510", &["the commit log in", "is damaged"], |place| {
        flip(&place.checkpoints().files("log").pop().expect("a slot"));
    });
}

#[test]
fn half_of_everything_deleted() {
    let (place, dir, aside) = with_a_copy();
    for folder in ["log", "manifests", "state"] {
        let files = place.checkpoints().files(folder);
        remove_all(files.into_iter().step_by(2).collect());
    }
    let exit = place.run();
    // Which of the things missing is named is not promised; that one is, is.
    let codes = ["W0504", "W0508", "W0510", "W0511", "W0518"];
    assert_eq!(exit.code(), Some(3), "{}", exit.log);
    assert!(
        codes
            .iter()
            .any(|code| exit.log.contains(&format!("error[{code}]"))),
        "{}",
        exit.log
    );
    copy(&aside, &dir);
    finish_exactly(&place);
}

#[test]
fn files_removed_under_a_running_job() {
    let (place, mut process) = running(SLOW);
    for folder in ["log", "manifests", "state"] {
        for file in place.checkpoints().files(folder) {
            // It may have been collected meanwhile.
            let _ = fs::remove_file(file);
        }
    }
    // What it holds in memory is whole, so it may well finish; or it stops, and then it says so.
    let exit = process.end();
    match exit.code() {
        Some(0) => is_exact(&place),
        Some(3..=5) => assert!(exit.log.contains("error[W05"), "{}", exit.log),
        other => panic!("{other:?}\n{}", exit.log),
    }
    committed_once(&place);
}

#[test]
fn removed_under_a_running_job() {
    let (place, mut process) = running(SLOW);
    remove(&place.path("checkpoints"));
    process.signal(rustix::process::Signal::TERM);
    let exit = process.end();
    assert!(
        matches!(exit.code(), Some(3..=6)),
        "{:?}\n{}",
        exit.code(),
        exit.log
    );
    assert!(exit.log.contains("[W05"), "{}", exit.log);
    committed_once(&place);
    is_refused(&place, "W0503", &["refusing to start from nothing"]);
}

#[test]
fn rolled_back_under_a_running_job() {
    let place = half_done();
    let older = place.path("older");
    copy(&place.path("checkpoints"), &older);
    let mut process = crate::fixture::started(&place, &weir_tests::place::Start::default());
    copy(&older, &place.path("checkpoints"));
    process.says("committed", 6, HANGS);
    let exit = process.kill();
    committed_once(&place);
    place.write_job(&text(UNLIMITED));
    let exit = if exit.killed() { place.run() } else { exit };
    assert!(
        matches!(exit.code(), Some(0 | 3..=5)),
        "{:?}\n{}",
        exit.code(),
        exit.log
    );
    match exit.code() {
        Some(0) => is_exact(&place),
        _ => assert!(exit.log.contains("error[W05"), "{}", exit.log),
    }
    committed_once(&place);
}

/// No line was committed that should not be, or twice.
#[track_caller]
fn committed_once(place: &Place) {
    let found = sorted([place.committed("lines"), place.committed("windows")].concat());
    let difference = weir_tests::output::Difference::between(&sorted(expected().to_vec()), &found);
    assert!(difference.doubled.is_empty(), "{difference}");
}
