//! Parts of a file sink go on over many checkpoints: fewer files, and still nothing lost, doubled or seen too early.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;
use weir_tests::host::HANGS;
use weir_tests::output::{leftovers, names, parts};
use weir_tests::place::{Place, Start};

use crate::fixture::{UNLIMITED, sorted};

const RECORDS: usize = 3_000;

/// Copies numbers, a checkpoint each 30 ms.
fn job(rate: u64, roll: &str) -> String {
    format!(
        "version: 1
job: copy
parallelism: 2
checkpoint: {{dir: checkpoints, interval: 30ms, retain: 2}}
restart: {{strategy: fixed, delay: 20ms, give_up_after: 3}}
sources:
  numbers: {{generator: {{records: {RECORDS}, keys: 20, splits: 4}}, rate: {rate}}}
sinks:
  copy: {{input: numbers, file: {{dir: out/copy, format: json{roll}}}}}
"
    )
}

const LONG: &str = ", roll: {age: 1h}";

fn expected() -> Vec<String> {
    let place = Place::temporary();
    place.write_job(&job(UNLIMITED, ""));
    place.run().expect(0, &["finished"]);
    let lines = place.committed("copy");
    assert_eq!(lines.len(), RECORDS);
    lines
}

/// The staged parts.
fn open_parts(place: &Place) -> Vec<PathBuf> {
    let dir = place.path("out/copy");
    let names = names(&dir)
        .into_iter()
        .filter(|name| name.starts_with(".part-"));
    names.map(|name| dir.join(name)).collect()
}

/// The job, killed after so many more checkpoints.
fn killed_after(place: &Place, checkpoints: usize, start: &Start) {
    let mut process = place.start(start);
    assert!(
        process.says("committed", checkpoints, HANGS),
        "{}",
        process.log()
    );
    process.kill();
}

#[track_caller]
fn finishes(place: &Place, start: &Start) {
    place.write_job(&job(UNLIMITED, LONG));
    place.run_with(start).expect(0, &["finished"]);
    assert_eq!(place.committed("copy"), expected());
    let left = leftovers(place.dir());
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[test]
fn many_checkpoints_make_one_part_a_subtask_and_readers_see_it_when_it_is_complete() {
    let place = Place::temporary();
    place.write_job(&job(1_000, LONG));
    let mut process = place.start(&Start::default());
    assert!(process.says("committed", 20, HANGS), "{}", process.log());
    assert!(
        place.committed("copy").is_empty(),
        "nothing is complete yet"
    );
    assert_eq!(open_parts(&place).len(), 2);
    process.end().expect(0, &["finished"]);
    assert_eq!(place.committed("copy"), expected());
    assert_eq!(parts(&place.path("out/copy")).len(), 2);
}

#[test]
fn a_stop_completes_them() {
    let place = Place::temporary();
    place.write_job(&job(500, LONG));
    let mut process = place.start(&Start::default());
    assert!(process.says("committed", 5, HANGS), "{}", process.log());
    process.signal(Signal::TERM);
    process.end().expect(0, &["stopped"]);
    assert!(!place.committed("copy").is_empty());
    assert!(open_parts(&place).is_empty());
    finishes(&place, &Start::default());
}

#[test]
fn killed_and_gone_on_with_at_other_parallelisms_they_are_cut_to_what_is_committed() {
    let place = Place::temporary();
    place.write_job(&job(600, LONG));
    // More checkpoints than are kept, so that the first ones are forgotten while their part is still open.
    killed_after(&place, 8, &Start::at(4));
    let begun = open_parts(&place).len();
    assert!(begun >= 2, "several subtasks have written");
    for parallelism in [1, 2] {
        killed_after(&place, 2, &Start::at(parallelism));
    }
    // What the first run had open is complete since the second run's first checkpoint.
    assert!(parts(&place.path("out/copy")).len() >= begun);
    finishes(&place, &Start::at(3));
}

#[test]
fn small_parts_are_complete_in_the_middle_of_an_interval() {
    let place = Place::temporary();
    let roll = ", roll: {size: 2KiB, age: 1h}";
    place
        .write_job(&job(UNLIMITED, roll).replace("interval: 30ms", "interval: 1h, fail_after: 2h"));
    place.run().expect(0, &["finished"]);
    assert_eq!(place.committed("copy"), expected());
    let parts = parts(&place.path("out/copy"));
    let sizes = parts
        .iter()
        .map(|part| fs::metadata(part).expect("a part").len());
    assert!(parts.len() > 50, "{}", parts.len());
    assert!(sizes.max().is_some_and(|size| size < 4 << 10));
}

#[test]
fn an_open_part_that_was_cut_or_removed_stops_the_job_by_name() {
    let place = Place::temporary();
    place.write_job(&job(500, LONG));
    killed_after(&place, 5, &Start::default());
    let part = open_parts(&place).remove(0);
    let name = part.file_name().expect("a name").to_string_lossy();
    let whole = fs::read(&part).expect("it can be read");
    for found in ["has only 10 bytes", "is missing"] {
        if found == "is missing" {
            fs::remove_file(&part).expect("it can be removed");
        } else {
            fs::write(&part, &whole[..10]).expect("it can be written");
        }
        let exit = place.run();
        exit.expect(3, &["error[W0507]", &name, found, "bytes are needed"]);
    }
    fs::write(&part, whole).expect("it can be written");
    finishes(&place, &Start::default());
}

#[test]
fn what_a_sink_had_open_is_published_though_the_job_no_longer_has_it() {
    let place = Place::temporary();
    let with_other =
        job(500, LONG) + "  other: {input: numbers, file: {dir: out/other, roll: {age: 1h}}}\n";
    place.write_job(&with_other);
    killed_after(&place, 5, &Start::default());
    assert!(place.committed("other").is_empty());
    finishes(&place, &Start::default());
    let other = place.committed("other");
    assert!(!other.is_empty(), "what was committed is published");
    let all = expected();
    assert!(other.iter().all(|line| all.contains(line)));
    assert_eq!(sorted(other.clone()).len(), other.len());
}
