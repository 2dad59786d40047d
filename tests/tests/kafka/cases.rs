//! Cases that have gone wrong elsewhere, each with the whole host.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use weir_tests::host::HANGS;
use weir_tests::kafka::{Isolation, Record};
use weir_tests::place::Start;

use crate::copying::{COMMITTED, Copying, FILES, JOB, commits, stop, wait_for};

#[test]
fn a_job_without_input_takes_checkpoints_and_one_record_is_copied_once() {
    let job = Copying::new("idle");
    let mut process = job.start();
    commits(&mut process, 10);
    let log = process.kill().log;
    assert!(!log.contains("warn"), "{log}");
    job.write(1);
    let mut process = job.start();
    job.wait(&mut process);
    commits(&mut process, 3);
    process.kill();
    let mut process = job.start();
    commits(&mut process, 3);
    job.is_exact();
    let log = process.kill().log;
    assert!(!log.contains("warn"), "{log}");
    job.goes_on_exactly();
}

#[test]
fn killed_at_each_step_of_a_commit_and_of_a_start_each_record_is_copied_once() {
    let job = Copying::new("steps");
    job.write_job(&format!("{JOB}{FILES}"));
    let place = &job.scene.place;
    let mut written = 0;
    for (point, passing) in [
        ("after-claim-marker", 1),
        ("before-flush", 2),
        ("after-prepare", 2),
        ("after-manifest", 2),
        ("before-marker", 2),
        ("marker-produced", 2),
        ("after-fence", 1),
        ("inside-commit", 2),
        ("after-claim-marker", 1),
        ("after-transaction", 2),
        ("after-resolve", 1),
        ("after-transaction", 3),
        ("after-fence", 1),
        ("after-slot", 2),
        ("before-renames", 2),
        ("after-renames", 2),
    ] {
        job.write(10);
        written += 10;
        let killed_at = Start {
            fault: Some((point.to_owned(), passing)),
            ..Start::default()
        };
        let mut process = place.start(&killed_at);
        // Renames happen only where something was written.
        let mut more = 0;
        while process.is_running() && more < 50 {
            process.says(COMMITTED, more + 1, HANGS);
            job.write(1);
            (written, more) = (written + 1, more + 1);
        }
        let exit = process.end();
        assert!(exit.killed(), "not at {point}:\n{}", exit.log);
    }
    job.goes_on_exactly();
    let mut files: Vec<usize> = place
        .committed("files")
        .iter()
        .map(|line| line.parse().expect("a number"))
        .collect();
    files.sort_unstable();
    assert_eq!(files, (0..written + 20).collect::<Vec<_>>());
}

/// Readers stand before the first open transaction, whoever else writes behind it.
#[test]
fn what_a_killed_job_left_open_holds_readers_up_until_the_next_start() {
    let job = Copying::new("left-open");
    let topics = &job.scene.topics;
    job.write_job(&JOB.replace("interval: 100ms", "interval: 5m"));
    job.write(20);
    let mut process = job.scene.place.start(&Start::default());
    wait_for(&mut process, || {
        topics.read("out", Isolation::Uncommitted).len() == 20
    });
    process.kill();
    let others: Vec<Record> = (0..2).map(|n| Record::to(n).value("another's")).collect();
    topics.produce("out", &others);
    assert!(job.copied().is_empty(), "they are held up");
    job.write_job(JOB);
    let mut process = job.start();
    wait_for(&mut process, || job.copied().len() >= 22);
    stop(process);
    let copied = job.copied();
    let count = |others: bool| {
        let them = copied
            .iter()
            .filter(|it| (it.text() == "another's") == others);
        them.count()
    };
    assert_eq!((count(true), count(false)), (2, 20));
}

#[test]
fn a_second_start_is_refused_and_the_first_does_not_notice() {
    let job = Copying::new("twice");
    let place = &job.scene.place;
    let mut first = job.running();
    let pid = format!("pid {}", first.pid().as_raw_nonzero());
    place
        .run()
        .expect(4, &["error[W0501]", "runs already", &pid]);
    // With an empty place of its own: it must not fence the first one's producers before it knows.
    let elsewhere = place.path("elsewhere").display().to_string();
    job.write_job(&JOB.replace("dir: checkpoints", "dir: empty"));
    let second = Start::with(&["--data-dir", &elsewhere]);
    let said = [
        "error[W0503]",
        "has committed checkpoint",
        "Is the volume mounted?",
    ];
    place.run_with(&second).expect(3, &said);
    job.write(20);
    job.wait(&mut first);
    let log = first.log();
    assert!(!log.contains("warn") && !log.contains("attempt 2"), "{log}");
    stop(first);
    job.write_job(JOB);
    job.goes_on_exactly();
}

#[test]
fn of_two_that_start_at_once_one_runs() {
    let job = Copying::new("at-once");
    let place = &job.scene.place;
    for _ in 0..3 {
        let mut both = [
            place.start(&Start::default()),
            place.start(&Start::default()),
        ];
        job.write(20);
        let until = Instant::now() + HANGS;
        let ended = loop {
            assert!(Instant::now() < until, "both run: {}", both[0].log());
            both[0].within(Duration::from_millis(2));
            if let Some(ended) = both.iter_mut().position(|process| !process.is_running()) {
                break ended;
            }
        };
        both[ended]
            .end()
            .expect(4, &["error[W0501]", "runs already"]);
        let running = &mut both[1 - ended];
        job.wait(running);
        running.kill();
    }
    job.goes_on_exactly();
}

#[test]
fn a_host_that_stood_still_while_it_was_replaced_stops_and_writes_nothing() {
    let job = Copying::new("replaced");
    let place = &job.scene.place;
    for round in 0..2 {
        let mut old = job.running();
        old.signal(Signal::STOP);
        // Locks do not reach to another machine.
        fs::remove_file(place.path("checkpoints/lock")).expect("a lock file");
        let elsewhere = place
            .path(&format!("elsewhere-{round}"))
            .display()
            .to_string();
        let mut new = job.start_with(&Start::with(&["--data-dir", &elsewhere]));
        job.write(20);
        old.signal(Signal::CONT);
        old.end()
            .expect(4, &["[W0502]", "on another host has taken"]);
        job.wait(&mut new);
        stop(new);
        job.is_exact();
    }
    job.goes_on_exactly();
}

#[test]
fn null_and_empty_keys_values_and_headers_are_copied_byte_for_byte() {
    let job = Copying::new("bytes");
    job.write_job(&JOB.replace("format: string", "format: raw"));
    let contents = [None, Some(Vec::new()), Some(b"\x00\xff\n".to_vec())];
    let mut written = Vec::new();
    for key in &contents {
        for value in &contents {
            for with_headers in [false, true] {
                let headers = vec![
                    ("trace".to_owned(), Some(b"\xfe".to_vec())),
                    ("trace".to_owned(), None),
                    (String::new(), Some(Vec::new())),
                    ("trace".to_owned(), Some(b"\xfe".to_vec())),
                ];
                written.push(Record {
                    key: key.clone(),
                    value: value.clone(),
                    headers: if with_headers { headers } else { Vec::new() },
                    time: Some(1_700_000_000_000 + written.len() as i64),
                    ..Record::default()
                });
            }
        }
    }
    job.scene.topics.produce("in", &written);
    let mut process = job.start();
    wait_for(&mut process, || job.copied().len() >= written.len());
    stop(process);
    let mut copied: Vec<Record> = job
        .copied()
        .into_iter()
        .map(|record| Record {
            partition: 0,
            offset: 0,
            ..record
        })
        .collect();
    copied.sort_by_key(|record| record.time);
    assert_eq!(copied, written);
}

#[test]
fn what_retention_has_removed_stops_the_job_unless_a_policy_says_otherwise() {
    let job = Copying::new("gap");
    job.stopped();
    let before = job.copied().len();
    job.write(70);
    for partition in 0..2 {
        let (_, end) = job.scene.topics.offsets("in", Isolation::Committed)[partition];
        job.scene
            .topics
            .delete_records("in", partition as i32, end - 5);
    }
    let said = ["from offset", "left is", "on_gap: earliest"];
    job.is_refused("W0603", &said);
    job.write_job(&JOB.replace("topic: <in>", "topic: <in>, on_gap: earliest"));
    let mut process = job.start();
    assert!(process.says("going on from", 2, HANGS), "{}", process.log());
    wait_for(&mut process, || job.copied().len() >= before + 10);
    stop(process);
    assert_eq!(job.copied().len(), before + 10);
}
