//! Jobs that read Kafka: killed, rescaled, with brokers that go away.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use weir_tests::host::Process;
use weir_tests::kafka::{Broker, Options, Record};
use weir_tests::place::Start;

use crate::fixture::Scene;
use crate::reading::{HANGS, Seen, job, start};

fn write_job(scene: &Scene<'_>, more: &str) {
    scene.write_job(&format!(
        "version: 1
job: <job>
parallelism: 2
checkpoint: {{dir: checkpoints, interval: 30ms}}
restart: {{strategy: fixed, delay: 20ms, give_up_after: 3}}
sources:
  in: {{kafka: {{brokers: '<brokers>', topic: <t>, format: json, {more}}}}}
sinks:
  copy: {{input: in, file: {{dir: out/copy, format: json, roll: {{age: 0s}}}}}}
"
    ));
}

fn lines(partition: i32, numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers
        .map(|n| format!("{{\"p\":{partition},\"n\":{}}}", 100_000 + n))
        .collect()
}

fn records(partition: i32, numbers: std::ops::Range<usize>) -> Vec<Record> {
    let lines = lines(partition, numbers).into_iter();
    lines
        .map(|line| Record::to(partition).value(line))
        .collect()
}

/// Waits until so many lines are committed.
#[track_caller]
fn wait(scene: &Scene<'_>, process: &mut Process, count: usize) {
    let begun = Instant::now();
    while scene.place.committed("copy").len() < count {
        assert!(process.is_running(), "it ended:\n{}", process.log());
        assert!(begun.elapsed() < HANGS, "log:\n{}", process.log());
        process.within(Duration::from_millis(20));
    }
}

#[test]
fn killed_and_rescaled_over_and_over_each_record_comes_out_once() {
    let scene = Scene::new("killed");
    scene.topics.create("t", 3);
    write_job(&scene, "discover: 200ms");
    const ROUND: usize = 300;
    for (round, parallelism) in [2, 1, 4, 3].into_iter().enumerate() {
        let mut process = scene.place.start(&Start::at(parallelism));
        let before = scene.place.committed("copy").len();
        for piece in 0..3 {
            let from = round * ROUND + piece * ROUND / 3;
            for partition in 0..3 {
                scene
                    .topics
                    .produce("t", &records(partition, from..from + ROUND / 3));
            }
            process.within(Duration::from_millis(40));
        }
        wait(&scene, &mut process, before + 10);
        process.kill();
    }
    scene.topics.grow("t", 4);
    scene.topics.produce("t", &records(3, 0..50));
    let mut process = scene.place.start(&Start::default());
    wait(&scene, &mut process, 3 * 4 * ROUND + 50);
    process.within(Duration::from_millis(300));
    process.signal(Signal::TERM);
    process.end().expect(0, &["stopped"]);
    let mut expected: Vec<String> = (0..3).flat_map(|p| lines(p, 0..4 * ROUND)).collect();
    expected.extend(lines(3, 0..50));
    expected.sort_unstable();
    assert!(scene.place.committed("copy") == expected, "lost or doubled");
}

#[test]
fn one_record_before_a_kill_is_not_read_again() {
    let scene = Scene::new("one");
    scene.topics.create("t", 1);
    write_job(&scene, "");
    scene.topics.produce("t", &records(0, 0..1));
    let mut process = scene.place.start(&Start::default());
    wait(&scene, &mut process, 1);
    process.within(Duration::from_millis(200));
    process.kill();
    let mut process = scene.place.start(&Start::default());
    process.within(Duration::from_secs(2));
    process.signal(Signal::TERM);
    process.end().expect(0, &["stopped"]);
    assert_eq!(scene.place.committed("copy"), lines(0, 0..1));
}

#[test]
fn a_bounded_job_ends_and_a_missing_topic_is_refused_before_anything_starts() {
    let scene = Scene::new("bounded");
    write_job(&scene, "stop: latest");
    scene.place.run().expect(3, &["W0604", "has no topic"]);
    assert_eq!(scene.topics.partitions("t"), 0);
    scene.topics.create("t", 3);
    scene
        .topics
        .produce("t", &[records(0, 0..40), records(2, 0..40)].concat());
    scene.place.run().expect(0, &[]);
    let mut expected = [lines(0, 0..40), lines(2, 0..40)].concat();
    expected.sort_unstable();
    assert_eq!(scene.place.committed("copy"), expected);
}

#[test]
fn records_read_ahead_do_not_hide_that_brokers_are_away() {
    let Some(broker) = Broker::own(&Options::default()) else {
        return;
    };
    let scene = Scene::on(&broker, "ahead");
    scene.topics.create("t", 1);
    scene.topics.produce("t", &records(0, 0..5_000));
    scene.write_job(
        "version: 1
job: <job>
parallelism: 1
checkpoint: {dir: checkpoints, interval: 30ms}
sources:
  in: {kafka: {brokers: '<brokers>', topic: <t>, format: json}, rate: 50}
sinks:
  copy: {input: in, file: {dir: out/copy, format: json, roll: {age: 0s}}}
",
    );
    let mut process = scene.place.start(&Start::default());
    wait(&scene, &mut process, 10);
    broker.kill();
    assert!(process.says("W0901", 1, HANGS), "{}", process.log());
    let before = scene.place.committed("copy").len();
    process.within(Duration::from_secs(2));
    // They were read before, and go on coming.
    wait(&scene, &mut process, before + 10);
    let log = process.log();
    assert!(!log.contains("`in`: reads again"), "{log}");
    let warned = log.matches("cannot read just now").count();
    assert_eq!(warned, 1, "{log}");
    process.kill();
}

#[test]
fn brokers_that_are_away_are_waited_for_and_a_stop_does_not() {
    let Some(broker) = Broker::own(&Options::default()) else {
        return;
    };
    let scene = Scene::on(&broker, "away");
    scene.topics.create("t", 1);
    scene.topics.produce("t", &records(0, 0..10));
    write_job(&scene, "");
    let mut process = scene.place.start(&Start::default());
    wait(&scene, &mut process, 10);
    broker.kill();
    assert!(process.says("W0901", 1, HANGS), "{}", process.log());
    broker.restart();
    scene.topics.produce("t", &records(0, 10..20));
    wait(&scene, &mut process, 20);
    broker.freeze();
    process.within(Duration::from_secs(1));
    let begun = Instant::now();
    process.signal(Signal::TERM);
    process.end().expect(0, &["stopped"]);
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    broker.thaw();
    // Dropped in the middle of reading, with nobody to say goodbye to.
    let job = job(&scene, "topic: <t>", "");
    let (mut reader, mut seen) = (
        start(&job),
        Seen {
            room: 5,
            ..Seen::default()
        },
    );
    seen.read(&mut *reader, 5).expect("five are there");
    broker.kill();
    let begun = Instant::now();
    drop(reader);
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn how_far_it_is_behind_is_said_until_it_is_not() {
    let scene = Scene::new("behind");
    scene.topics.create("t", 2);
    let all = [records(0, 0..300), records(1, 0..300)].concat();
    scene.topics.produce("t", &all);
    scene.write_job(
        "version: 1
job: <job>
parallelism: 2
checkpoint: {interval: 100ms}
sources:
  in: {kafka: {brokers: '<brokers>', topic: <t>}, rate: 150}
sinks:
  out: {input: in, blackhole: {}}
",
    );
    let mut process = scene.place.start(&Start::default());
    let job = scene.place.job().display().to_string();
    let begun = Instant::now();
    let mut seen = Vec::new();
    while seen.last() != Some(&0) {
        assert!(process.is_running(), "it ended:\n{}", process.log());
        assert!(begun.elapsed() < HANGS, "behind by {seen:?}");
        process.within(Duration::from_millis(100));
        let status = scene.place.weir(&["status", &job]).text();
        let behind = status.lines().find_map(|line| {
            line.strip_prefix("  source in: ")?
                .strip_suffix(" records behind")
        });
        seen.extend(behind.and_then(|number| number.parse::<u64>().ok()));
    }
    assert!(seen[0] > 0 && seen[0] <= 600, "{seen:?}");
    assert!(seen.is_sorted_by(|a, b| a >= b), "{seen:?}");
}
