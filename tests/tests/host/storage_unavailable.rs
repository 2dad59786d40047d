//! Checkpoint storage that cannot be used for a while: visible, and the job goes on.

use std::fs;
use std::time::Duration;

use weir_tests::host::HANGS;

use crate::fixture::{SLOW, finish_exactly, half_done, is_exact, running};

#[test]
fn checkpoints_that_cannot_be_written_for_a_while_are_skipped_and_said() {
    let (place, mut process) = running(SLOW);
    // Root may write where the mode forbids it, so the folder is put aside: creating files in it fails, as on a read-only one.
    let (folder, aside) = (place.path("checkpoints/manifests"), place.path("aside"));
    fs::rename(&folder, &aside).expect("a folder can be renamed");
    assert!(
        process.says("[W0521]", 1, HANGS),
        "it is not said:\n{}",
        process.log()
    );
    process.within(Duration::from_millis(200));
    assert!(process.is_running(), "it gave up:\n{}", process.log());
    fs::rename(&aside, &folder).expect("a folder can be renamed");
    let before = process.log().matches("committed").count();
    assert!(
        process.says("committed", before + 2, HANGS),
        "it does not go on:\n{}",
        process.log()
    );
    let exit = process.end();
    exit.expect(0, &["finished"]);
    assert!(
        !exit.log.contains("restarting"),
        "a skipped checkpoint is no reason to start over:\n{}",
        exit.log
    );
    is_exact(&place);
}

#[test]
fn no_good_checkpoint_for_too_long_ends_the_attempt_and_then_the_job() {
    let (place, process) = {
        let place = weir_tests::place::Place::temporary();
        let job = crate::fixture::text(400)
            .replace("retain: 2", "retain: 2, timeout: 300ms, fail_after: 600ms");
        place.write_job(&job.replace("give_up_after: 3", "give_up_after: 1"));
        let process = crate::fixture::started(&place, &weir_tests::place::Start::default());
        (place, process)
    };
    let mut process = process;
    let (folder, aside) = (place.path("checkpoints/manifests"), place.path("aside"));
    fs::rename(&folder, &aside).expect("a folder can be renamed");
    let exit = process.end();
    assert!(exit.log.contains("[W0522]"), "{}", exit.log);
    // What the next attempt finds is a storage that cannot be read, or one that has lost something.
    assert!(
        matches!(exit.code(), Some(3 | 5 | 75)),
        "{:?}\n{}",
        exit.code(),
        exit.log
    );
    // Starting creates missing folders, but what was in them is missed.
    crate::fixture::is_refused(&place, "W0508", &["is missing"]);
    weir_tests::folders::copy(&aside, &folder);
    finish_exactly(&place);
}

#[test]
fn storage_that_cannot_be_read_at_the_start_is_a_dependency_that_is_unavailable() {
    let place = half_done();
    let (owner, aside) = (place.path("checkpoints/job.json"), place.path("aside"));
    fs::rename(&owner, &aside).expect("a file can be renamed");
    fs::create_dir(&owner).expect("a folder can be created");
    place
        .run()
        .expect(75, &["error[W0519]", "cannot read checkpoint storage"]);
    fs::remove_dir(&owner).expect("a folder can be removed");
    fs::rename(&aside, &owner).expect("a file can be renamed");
    finish_exactly(&place);
}
