//! A source that watches its directories reads each file once, whatever is killed when and whoever reads it.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use weir_tests::host::{HANGS, Process};
use weir_tests::place::{Place, Start};

use crate::fixture::sorted;

fn job(more: &str) -> String {
    format!(
        "version: 1
job: watched
parallelism: 2
checkpoint: {{dir: checkpoints, interval: 30ms, retain: 2}}
restart: {{strategy: fixed, delay: 20ms, give_up_after: 3}}
sources:
  files: {{file: {{paths: ['in/*.jsonl'], format: json, watch: {{every: 20ms}}}}{more}}}
sinks:
  copy: {{input: files, file: {{dir: out/copy, format: json, roll: {{age: 0s}}}}}}
"
    )
}

fn watching() -> Place {
    let place = Place::temporary();
    place.write_job(&job(""));
    place
}

fn lines(file: u32, count: u32) -> Vec<String> {
    (0..count)
        .map(|line| format!("{{\"file\": {file}, \"line\": {line}}}"))
        .collect()
}

/// Puts a file where it is watched, complete, as one should.
fn drop_in(place: &Place, file: u32, count: u32) {
    let text: String = lines(file, count)
        .iter()
        .map(|line| format!("{line}\n"))
        .collect();
    let hidden = place.write(&format!("in/.{file:05}.jsonl"), text);
    fs::rename(hidden, place.path(&format!("in/{file:05}.jsonl"))).expect("it can be renamed");
}

fn expected(files: impl IntoIterator<Item = u32>, count: u32) -> Vec<String> {
    sorted(
        files
            .into_iter()
            .flat_map(|file| lines(file, count))
            .collect(),
    )
}

/// Waits until so many lines are committed.
#[track_caller]
fn wait(place: &Place, process: &mut Process, count: usize) {
    for _ in 0..HANGS.as_millis() / 10 {
        if place.committed("copy").len() >= count {
            return;
        }
        assert!(process.is_running(), "it ended:\n{}", process.log());
        process.within(Duration::from_millis(10));
    }
    panic!(
        "{} lines instead of {count}; log:\n{}",
        place.committed("copy").len(),
        process.log()
    );
}

#[track_caller]
fn stop(mut process: Process) {
    process.signal(Signal::TERM);
    process.end().expect(0, &["stopped"]);
}

#[test]
fn files_are_read_as_they_appear_and_a_stop_while_there_are_none_is_prompt() {
    let place = watching();
    let mut process = place.start(&Start::default());
    assert!(process.says("attempt 1", 1, HANGS), "{}", process.log());
    for file in 0..3 {
        drop_in(&place, file, 10);
        wait(&place, &mut process, 10 * (file as usize + 1));
    }
    let before = std::time::Instant::now();
    stop(process);
    assert!(before.elapsed() < Duration::from_secs(10));
    assert_eq!(place.committed("copy"), expected(0..3, 10));
    // What appears while the job is down is read when it is back, and nothing else.
    drop_in(&place, 3, 10);
    let mut process = place.start(&Start::at(3));
    wait(&place, &mut process, 40);
    process.within(Duration::from_millis(200));
    stop(process);
    assert_eq!(place.committed("copy"), expected(0..4, 10));
}

#[test]
fn killed_over_and_over_at_other_parallelisms_while_finished_files_are_moved_away() {
    const FILES: u32 = 60;
    const LINES: u32 = 40;
    let place = watching();
    place.write_job(&job(", rate: 4000"));
    fs::create_dir(place.path("archive")).expect("a folder can be created");
    let mut file = 0;
    for round in 0..6 {
        let mut process = place.start(&Start::at([2, 1, 4][round % 3]));
        for _ in 0..FILES / 6 {
            drop_in(&place, file, LINES);
            file += 1;
            process.within(Duration::from_millis(15));
        }
        wait(&place, &mut process, (file as usize - 5) * LINES as usize);
        // Of a file all of whose lines are committed nobody needs anything any more.
        let committed = place.committed("copy");
        for old in (0..file).filter(|old| old % 2 == 0) {
            if lines(old, LINES)
                .iter()
                .all(|line| committed.binary_search(line).is_ok())
            {
                let name = format!("{old:05}.jsonl");
                let _ = fs::rename(
                    place.path(&format!("in/{name}")),
                    place.path(&format!("archive/{name}")),
                );
            }
        }
        process.within(Duration::from_millis(7 * round as u64));
        process.kill();
    }
    let mut process = place.start(&Start::at(2));
    wait(&place, &mut process, (FILES * LINES) as usize);
    process.within(Duration::from_millis(200));
    stop(process);
    assert_eq!(place.committed("copy"), expected(0..FILES, LINES));
}

#[test]
fn what_is_moved_away_is_forgotten_so_that_checkpoints_do_not_grow() {
    let place = watching();
    let mut process = place.start(&Start::default());
    let mut sizes = Vec::new();
    for round in 0..3 {
        for file in 0..30 {
            drop_in(&place, round * 30 + file, 1);
        }
        wait(&place, &mut process, 30 * (round as usize + 1));
        let before = process.log().matches("committed").count();
        assert!(process.says("committed", before + 2, HANGS));
        for file in 0..30 {
            let path = place.path(&format!("in/{:05}.jsonl", round * 30 + file));
            fs::remove_file(path).expect("it is there");
        }
        let before = process.log().matches("committed").count();
        assert!(process.says("committed", before + 5, HANGS));
        process.within(Duration::from_millis(100));
        let before = process.log().matches("committed").count();
        assert!(process.says("committed", before + 2, HANGS));
        let (path, _) = place.checkpoints().last_manifest();
        sizes.push(fs::metadata(path).map_or(0, |metadata| metadata.len()));
    }
    stop(process);
    let (_, manifest) = place.checkpoints().last_manifest();
    for split in manifest["sources"][0]["splits"].as_array().expect("a list") {
        assert_eq!(split["position"]["watch"]["finished"], "", "{split}");
    }
    assert_eq!(place.committed("copy"), expected(0..90, 1));
}

#[test]
fn a_directory_that_is_away_for_a_while_is_waited_for_and_nothing_in_it_is_read_again() {
    let place = watching();
    let mut process = place.start(&Start::default());
    drop_in(&place, 1, 10);
    wait(&place, &mut process, 10);
    let before = process.log().matches("committed").count();
    assert!(process.says("committed", before + 2, HANGS));
    fs::rename(place.path("in"), place.path("away")).expect("a folder can be moved");
    assert!(process.says("W0605", 1, HANGS), "{}", process.log());
    // Another, empty, directory in its place, as when a volume is not mounted.
    fs::create_dir(place.path("in")).expect("a folder can be created");
    process.within(Duration::from_millis(200));
    // Also over a restart.
    process.kill();
    let mut process = place.start(&Start::default());
    assert!(process.says("committed", 2, HANGS), "{}", process.log());
    process.within(Duration::from_millis(200));
    fs::remove_dir(place.path("in")).expect("it is empty");
    assert!(process.says("W0605", 1, HANGS), "{}", process.log());
    fs::rename(place.path("away"), place.path("in")).expect("a folder can be moved");
    assert!(process.says("no longer", 1, HANGS), "{}", process.log());
    drop_in(&place, 2, 10);
    wait(&place, &mut process, 20);
    process.within(Duration::from_millis(200));
    stop(process);
    assert_eq!(place.committed("copy"), expected(1..3, 10));
}

#[test]
fn another_file_under_a_known_name_is_read_and_one_that_grew_stops_the_job() {
    let place = watching();
    let mut process = place.start(&Start::default());
    drop_in(&place, 1, 10);
    wait(&place, &mut process, 10);
    let replaced = place.write("in/.new", "{\"other\": 1}\n");
    fs::rename(replaced, place.path("in/00001.jsonl")).expect("it can be renamed");
    wait(&place, &mut process, 11);
    let before = process.log().matches("committed").count();
    assert!(process.says("committed", before + 2, HANGS));
    place.write("in/00001.jsonl", "{\"other\": 1}\n{\"more\": 2}\n");
    let exit = process.end();
    exit.expect(
        5,
        &[
            "error[W0603]",
            "00001.jsonl grew from 13 to 25 bytes",
            "rename",
        ],
    );
    fs::remove_file(place.path("in/00001.jsonl")).expect("it can be removed");
    place.write("in/00002.jsonl", "{\"more\": 2}\n");
    let mut process = place.start(&Start::default());
    wait(&place, &mut process, 12);
    stop(process);
}

#[test]
fn settled_files_become_watched_ones_and_not_the_other_way() {
    let place = Place::temporary();
    let settled = job("").replace(", watch: {every: 20ms}", "");
    place.write_job(&settled);
    drop_in(&place, 1, 10);
    drop_in(&place, 2, 5_000);
    place.write_job(&settled.replace("format: json}", "format: json}, rate: 2000"));
    let mut process = place.start(&Start::at(1));
    wait(&place, &mut process, 500);
    stop(process);
    drop_in(&place, 3, 10);
    place.write_job(&job(""));
    let mut process = place.start(&Start::default());
    wait(&place, &mut process, 5_020);
    process.within(Duration::from_millis(100));
    stop(process);
    let all = [expected([1, 3], 10), expected([2], 5_000)].concat();
    assert_eq!(place.committed("copy"), sorted(all));
    place.write_job(&settled);
    place
        .run()
        .expect(3, &["error[W0604]", "`watch` must stay"]);
}

#[test]
fn a_mistyped_directory_is_refused_at_the_first_start() {
    let place = watching();
    place.write_job(&job("").replace("in/*", "inn/*"));
    place
        .run()
        .expect(3, &["error[W0604]", "there is no directory"]);
}

#[test]
fn a_file_that_was_begun_and_is_gone_stops_the_next_start_by_name() {
    let place = watching();
    place.write_job(&job(", rate: 1000"));
    let mut process = place.start(&Start::at(1));
    drop_in(&place, 1, 5_000);
    wait(&place, &mut process, 200);
    process.kill();
    let path = place.path("in/00001.jsonl");
    fs::rename(&path, place.path("aside")).expect("it can be moved");
    place
        .run()
        .expect(3, &["error[W0603]", "00001.jsonl is gone"]);
    fs::rename(place.path("aside"), &path).expect("it can be moved");
    place.write_job(&job(""));
    let mut process = place.start(&Start::at(4));
    wait(&place, &mut process, 5_000);
    stop(process);
    assert_eq!(place.committed("copy"), expected([1], 5_000));
}

#[test]
fn an_idle_subtask_without_files_does_not_hold_back_event_time() {
    let place = Place::temporary();
    place.write_job(
        "version: 1
job: timed
parallelism: 4
max_parallelism: 16
checkpoint: {dir: checkpoints, interval: 30ms}
sources:
  files:
    file: {paths: ['in/*.jsonl'], format: json, watch: {every: 20ms}}
    key: /key
    event_time: {field: /time, format: millis, idle: 100ms}
operators:
  ledger: {component: @weir_guest_ledger, input: files, config: {window_millis: 1000}}
sinks:
  windows: {input: ledger.windows, file: {dir: out/copy, format: json, roll: {age: 0s}}}
  lines: {input: ledger.ledger, blackhole: {}}
",
    );
    let mut process = place.start(&Start::default());
    let text: String = (0..50)
        .map(|i| format!("{{\"key\": \"k\", \"time\": {}}}\n", 1_000_000 + i * 100))
        .collect();
    let hidden = place.write("in/.1", text);
    fs::rename(hidden, place.path("in/1.jsonl")).expect("it can be renamed");
    // Five seconds of event time: four windows are over.
    wait(&place, &mut process, 4);
    stop(process);
}
