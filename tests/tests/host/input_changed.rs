//! Input that is not what it was stops the job by name; input that is only longer, or done with, does not.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::Write;

use rustix::process::Signal;
use weir_tests::host::{HANGS, Process};
use weir_tests::place::{Place, Start};

/// Lines of the first file.
const LINES: u64 = 1_000;

/// Long enough that a file does not fit into a reader's buffers.
fn line(file: u32, line: u64) -> String {
    let pad = "x".repeat(1_000);
    format!(
        "{{\"key\": \"{file}-{}\", \"line\": {line}, \"pad\": \"{pad}\"}}\n",
        line % 5
    )
}

fn contents(file: u32) -> String {
    let lines = if file == 1 { LINES } else { 6 * LINES };
    (0..lines).map(|number| line(file, number)).collect()
}

fn job(rate: u64) -> String {
    format!(
        "version: 1
job: copy
parallelism: 1
checkpoint: {{dir: checkpoints, interval: 50ms}}
restart: {{strategy: fixed, delay: 20ms, give_up_after: 2}}
sources:
  files: {{file: {{paths: ['in/*.jsonl'], format: json}}, key: /key, rate: {rate}}}
sinks:
  copy: {{input: files, file: {{dir: out/copy, format: json, roll: {{age: 0s}}}}}}
"
    )
}

/// The same with lines that may hold anything.
fn raw(job: &str) -> String {
    job.replace("format: json}, key: /key", "format: raw}")
        .replace(", format: json", "")
}

/// A job that copies two files, stopped within the second.
fn within_the_second() -> Place {
    let place = Place::temporary();
    let (mut process, _) = reading_the_second(&place, &job(2_500));
    process.signal(Signal::TERM);
    process.end().expect(0, &["stopped"]);
    place
}

fn reading_the_second(place: &Place, job: &str) -> (Process, u64) {
    place.write("in/1.jsonl", contents(1));
    place.write("in/2.jsonl", contents(2));
    place.write_job(job);
    let mut process = place.start(&Start::default());
    loop {
        assert!(
            process.is_running(),
            "it ended too early:\n{}",
            process.log()
        );
        let lines = place.committed("copy").len() as u64;
        if lines > LINES {
            return (process, lines);
        }
        process.within(std::time::Duration::from_millis(10));
    }
}

#[track_caller]
fn refused(place: &Place, said: &[&str]) {
    let exit = place.run();
    exit.expect(3, &["error[W0603]"]);
    exit.expect(3, said);
}

#[track_caller]
fn finishes_with(place: &Place, expected: &str) {
    place.write_job(&job(1_000_000_000));
    place.run().expect(0, &["finished"]);
    let mut lines: Vec<_> = expected.lines().collect();
    lines.sort();
    assert_eq!(place.committed("copy"), lines);
}

#[test]
fn shrunk() {
    let place = within_the_second();
    place.write("in/2.jsonl", &contents(2)[..2_000]);
    refused(&place, &["2.jsonl was changed", "now 2000", "--fresh"]);
    place.write("in/2.jsonl", contents(2));
    finishes_with(&place, &(contents(1) + &contents(2)));
}

#[test]
fn rewritten() {
    let place = within_the_second();
    place.write("in/2.jsonl", contents(2).replace("\"2-", "\"3-"));
    refused(&place, &["2.jsonl was changed", "had the hash"]);
    place.write("in/2.jsonl", contents(2));
    finishes_with(&place, &(contents(1) + &contents(2)));
}

#[test]
fn removed() {
    let place = within_the_second();
    fs::remove_file(place.path("in/2.jsonl")).expect("the file can be removed");
    refused(&place, &["2.jsonl is gone, but was not read to its end"]);
    place.write("in/2.jsonl", contents(2));
    finishes_with(&place, &(contents(1) + &contents(2)));
}

#[test]
fn removed_after_it_was_read() {
    let place = within_the_second();
    fs::remove_file(place.path("in/1.jsonl")).expect("the file can be removed");
    finishes_with(&place, &(contents(1) + &contents(2)));
}

#[test]
fn cut_short_while_it_is_read() {
    for job in [job(2_500), raw(&job(2_500))] {
        let place = Place::temporary();
        let (mut process, _) = reading_the_second(&place, &job);
        // In place, as an editor or `>` would: the reader has it open, and comes to an end within a line.
        let mut file = OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(place.path("in/2.jsonl"))
            .expect("it is there");
        file.write_all(&contents(2).as_bytes()[..2_000])
            .expect("the file can be written");
        drop(file);
        process
            .end()
            .expect(5, &["error[W0603]", "2.jsonl was changed"]);
        let all = contents(1) + &contents(2);
        let whole: HashSet<_> = all.lines().collect();
        let committed = place.committed("copy");
        assert!(
            committed.iter().all(|line| whole.contains(line.as_str())),
            "part of a line was committed"
        );
        place.write("in/2.jsonl", contents(2));
        place.write_job(&job.replace("2500", "1000000000"));
        place.run().expect(0, &["finished"]);
        let mut lines: Vec<_> = all.lines().collect();
        lines.sort();
        assert_eq!(place.committed("copy"), lines);
    }
}

#[test]
fn missing_from_the_start() {
    let place = Place::temporary();
    place.write_job(&job(1_000));
    let exit = place.run();
    assert_eq!(exit.code(), Some(3), "{}", exit.log);
    assert!(exit.log.contains("in/*.jsonl"), "{}", exit.log);
    assert!(!place.start(&Start::default()).says("committed", 1, HANGS));
}
