//! A full disk: checkpoints fail visibly, nothing is published by halves, and the job goes on when there is room again.
//!
//! Two kinds of full: a limit on file sizes, which needs no privileges and which is lifted from a running process, and a small
//! file system, where the kernel says so itself; mounting one takes root.

use std::process::Command;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getuid, prlimit};
use weir_tests::host::{HANGS, Process};
use weir_tests::place::Place;

use crate::fixture::{SLOW, finish_exactly, is_exact, text};

fn limit(process: &Process, bytes: Option<u64>) {
    let new = Rlimit {
        current: bytes,
        maximum: None,
    };
    prlimit(Some(process.pid()), Resource::Fsize, new)
        .expect("the limits of a child may be changed");
}

/// Starts the job so that a write beyond its limit fails, instead of ending the process by a signal. `log` is where its log goes,
/// in the words of a shell.
fn start_without_signal(place: &Place, log: &str) -> Process {
    let mut command = Command::new("bash");
    let script = format!("trap '' XFSZ; exec \"$0\" run job.yaml --no-progress {log}");
    command.args(["-c", &script]).arg(place.host().weir());
    command
        .current_dir(place.dir())
        .env_remove("WEIR_FAULT")
        .env_remove("STATE_DIRECTORY")
        .env_remove("WEIR_CACHE");
    let mut process = place.spawn(&mut command);
    assert!(
        process.says("committed", 3, HANGS),
        "it does not run:\n{}",
        process.log()
    );
    process
}

/// Through a process of its own, which has no limit.
const UNLIMITED_LOG: &str = "2> >(exec cat >&2)";

/// What the process has said, once it has said `text`: its log may come a moment after its end.
#[track_caller]
fn log_with(process: &Process, text: &str) -> String {
    for _ in 0..500 {
        let log = process.log();
        if log.contains(text) {
            return log;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it does not say `{text}`:\n{}", process.log());
}

/// Every manifest and every part is longer.
const TOO_SMALL: u64 = 300;

#[test]
fn no_room_for_a_while_under_a_running_job() {
    let place = Place::temporary();
    place.write_job(&text(SLOW).replace("give_up_after: 3", "give_up_after: 1000"));
    let mut process = start_without_signal(&place, UNLIMITED_LOG);
    limit(&process, Some(TOO_SMALL));
    log_with(&process, "File too large");
    process.within(Duration::from_millis(500));
    assert!(process.is_running(), "it gave up:\n{}", process.log());
    limit(&process, None);
    let before = process.log().matches("committed").count();
    assert!(
        process.says("committed", before + 2, HANGS),
        "it does not go on:\n{}",
        process.log()
    );
    assert_eq!(process.end().code(), Some(0));
    log_with(&process, "finished");
    is_exact(&place);
}

#[test]
fn no_room_at_all_ends_by_name_and_the_next_run_is_exact() {
    let place = Place::temporary();
    place.write_job(&text(SLOW).replace("give_up_after: 3", "give_up_after: 2"));
    let mut process = start_without_signal(&place, UNLIMITED_LOG);
    limit(&process, Some(TOO_SMALL));
    assert_eq!(process.end().code(), Some(5), "{}", process.log());
    let log = log_with(&process, "`restart.give_up_after`");
    assert!(log.contains("error[W0"), "{log}");
    assert!(log.contains("File too large"), "{log}");
    finish_exactly(&place);
}

#[test]
fn a_log_that_cannot_be_written_does_not_change_how_it_ends() {
    let place = Place::temporary();
    place.write_job(&text(SLOW).replace("give_up_after: 3", "give_up_after: 2"));
    let mut process = start_without_signal(&place, "");
    limit(&process, Some(TOO_SMALL));
    assert_eq!(process.end().code(), Some(5), "{}", process.log());
    finish_exactly(&place);
}

/// A small file system, unmounted in the end.
struct SmallDisk<'a>(&'a Place);

impl SmallDisk<'_> {
    fn mount<'a>(place: &'a Place, size: &str) -> Option<SmallDisk<'a>> {
        std::fs::create_dir(place.path("disk")).expect("a folder can be created");
        let mut command = Command::new("mount");
        command
            .args(["-t", "tmpfs", "-o", size, "weir-test"])
            .arg(place.path("disk"));
        let mounted = command.output().is_ok_and(|output| output.status.success());
        mounted.then_some(SmallDisk(place))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0.path("disk")).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} is still mounted", self.0.path("disk").display());
        }
    }
}

#[test]
fn a_small_file_system_that_fills_up_and_is_cleared() {
    let place = Place::temporary();
    let Some(disk) = SmallDisk::mount(&place, "size=2m") else {
        // Containers may forbid it; the limit on file sizes above shows the same without the kernel's ENOSPC.
        eprintln!(
            "no file system may be mounted here (uid {}), so ENOSPC is not tried",
            getuid().as_raw()
        );
        return;
    };
    let job = text(SLOW)
        .replace("dir: checkpoints", "dir: disk/checkpoints, reserve: 0B")
        .replace("dir: out/", "dir: disk/")
        .replace("give_up_after: 3", "give_up_after: 1000");
    place.write_job(&job);
    let mut process = place.start(&weir_tests::place::Start::default());
    assert!(
        process.says("committed", 3, HANGS),
        "it does not run:\n{}",
        process.log()
    );
    let filler = place.path("disk/filler");
    // Filled to the last page, whatever the job frees meanwhile.
    for _ in 0..200 {
        let mut fill = Command::new("dd");
        fill.args(["if=/dev/zero", "bs=4096", "oflag=append", "conv=notrunc"])
            .arg(format!("of={}", filler.display()));
        fill.output().expect("dd can be run");
        if process.log().contains("space") {
            break;
        }
        process.within(Duration::from_millis(10));
    }
    assert!(
        process.says("space", 1, HANGS),
        "a full disk is not mentioned:\n{}",
        process.log()
    );
    assert!(process.is_running(), "it gave up:\n{}", process.log());
    let before = process.log().matches("committed").count();
    std::fs::remove_file(&filler).expect("the file can be removed");
    assert!(
        process.says("committed", before + 2, HANGS),
        "it does not go on:\n{}",
        process.log()
    );
    process.end().expect(0, &["finished"]);
    for name in ["lines", "windows"] {
        weir_tests::folders::copy(
            &place.path(&format!("disk/{name}")),
            &place.path(&format!("out/{name}")),
        );
    }
    is_exact(&place);
    drop(disk);
}

/// The names in a folder of checkpoint storage.
fn stored(place: &Place, folder: &str) -> Vec<String> {
    let dir = place.path(&format!("disk/checkpoints/{folder}"));
    let entries = std::fs::read_dir(dir).expect("the folder can be read");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    names
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

#[test]
fn too_little_space_pauses_the_job_and_it_goes_on_by_itself() {
    let place = Place::temporary();
    let Some(disk) = SmallDisk::mount(&place, "size=16m") else {
        eprintln!(
            "no file system may be mounted here (uid {}), so a reserve is not tried",
            getuid().as_raw()
        );
        return;
    };
    let job = text(SLOW)
        .replace(
            "dir: checkpoints",
            "dir: disk/checkpoints, reserve: 8MiB, timeout: 1s, fail_after: 2s",
        )
        .replace("dir: out/", "dir: disk/");
    place.write_job(&job);
    let filler = place.path("disk/filler");
    let fill = || {
        std::fs::write(&filler, vec![1; 9 << 20]).expect("there is room for it");
    };
    // Paused from the start, it stops cleanly all the same.
    fill();
    let mut process = place.start(&weir_tests::place::Start::default());
    assert!(
        process.says("[W0525] too little space in", 1, HANGS),
        "{}",
        process.log()
    );
    let log = process.log();
    for said in [
        "disk/checkpoints",
        "free, and the reserve is 8MiB",
        "sources pause",
    ] {
        assert!(log.contains(said), "no `{said}`:\n{log}");
    }
    let status = place.weir(&["status", "job.yaml"]);
    status.expect(0, &[]);
    let said = status.text();
    assert!(said.contains("paused: too little space in"), "{said}");
    crate::fixture::stop(process);

    std::fs::remove_file(&filler).expect("the file can be removed");
    let mut process = place.start(&weir_tests::place::Start::default());
    assert!(process.says("committed", 3, HANGS), "{}", process.log());
    fill();
    assert!(process.says("[W0525]", 1, HANGS), "{}", process.log());
    let good = process.log().matches("committed").count();
    // Longer than `fail_after`: what was in flight may still be committed, and then nothing more, and nothing fails.
    process.within(Duration::from_secs(4));
    assert!(process.is_running(), "{}", process.log());
    let log = process.log();
    assert!(log.matches("committed").count() <= good + 1, "{log}");
    for trouble in ["W0522", "restarting"] {
        assert!(!log.contains(trouble), "`{trouble}`:\n{log}");
    }
    std::fs::remove_file(&filler).expect("the file can be removed");
    process.end().expect(0, &["enough space again", "finished"]);
    assert!(stored(&place, "manifests").len() <= 2);
    let manifests = stored(&place, "manifests").into_iter().map(|name| {
        let path = place.path("disk/checkpoints/manifests").join(name);
        std::fs::read_to_string(path).expect("a manifest is text")
    });
    let manifests: String = manifests.collect();
    for file in stored(&place, "state") {
        assert!(manifests.contains(&file), "nothing needs {file}");
    }
    for name in ["lines", "windows"] {
        weir_tests::folders::copy(
            &place.path(&format!("disk/{name}")),
            &place.path(&format!("out/{name}")),
        );
    }
    is_exact(&place);
    drop(disk);
}
