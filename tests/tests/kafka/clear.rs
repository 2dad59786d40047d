//! `weir kafka clear`: what a killed job has left open no longer holds up readers.

use weir_tests::host::HANGS;
use weir_tests::kafka::{Isolation, Record};
use weir_tests::place::Start;

use crate::fixture::Scene;

/// A job whose records all go to one partition.
fn write_job(scene: &Scene<'_>, more: &str, sink: &str) {
    scene.write_job(&format!(
        "version: 1
job: <job>
parallelism: 1
checkpoint: {{dir: checkpoints, interval: 100ms}}
restart: {{strategy: fixed, delay: 20ms}}
{more}sources:
  made: {{generator: {{records: unbounded, keys: 4}}, rate: 500}}
sinks:
  out: {{input: made, {sink}}}
"
    ));
}

const KAFKA: &str = "kafka: {brokers: '<brokers>', topic: <t>, timestamp: written}";

/// Kills the job with a transaction open, and writes a record behind that which belongs to no transaction.
fn leave_open(scene: &Scene<'_>) {
    let fault = Some(("marker-produced".to_owned(), 4));
    let exit = scene.place.run_with(&Start {
        fault,
        ..Start::default()
    });
    assert!(exit.killed(), "{}", exit.log);
    let behind = Record::to(0).value("behind");
    scene.topics.produce("t", &[behind]);
    assert!(!sees_behind(scene), "nothing is open");
}

fn sees_behind(scene: &Scene<'_>) -> bool {
    let seen = scene.topics.read("t", Isolation::Committed);
    seen.iter().any(|record| record.text() == "behind")
}

#[test]
fn what_a_killed_job_left_open_is_ended_and_the_job_goes_on_from_there() {
    let scene = Scene::new("clear");
    scene.topics.create("t", 1);
    write_job(&scene, "", KAFKA);
    leave_open(&scene);
    let job = scene.place.job();
    let exit = scene
        .place
        .weir(&["kafka", "clear", &job.to_string_lossy()]);
    let id = scene.filled_in("weir-<job>");
    let listed = format!(
        "kafka-transactions --bootstrap-server {} list",
        scene.topics.broker().address()
    );
    exit.expect(0, &[]);
    let said = exit.text();
    for text in [
        &format!("{id}-0, {id}-1: what they had open is aborted"),
        &listed,
    ] {
        assert!(said.contains(text), "{text}: {said}");
    }
    assert!(sees_behind(&scene), "{}", exit.log);
    let committed = scene.topics.read("t", Isolation::Committed).len();

    // Nothing was lost by it, and nothing is written twice.
    let mut process = scene.place.start(&Start::default());
    assert!(process.says("committed", 3, HANGS), "{}", process.log());
    process.signal(rustix::process::Signal::TERM);
    process.end().expect(0, &[]);
    let records = scene.topics.read("t", Isolation::Committed);
    let values = records.iter().map(Record::text);
    let mut numbers: Vec<u64> = values
        .filter(|text| text != "behind")
        .map(|text| serde_json::from_str::<serde_json::Value>(&text).expect("JSON"))
        .map(|value| value["n"].as_u64().expect("a number"))
        .collect();
    assert!(
        numbers.len() + 1 > committed,
        "{} after {committed}",
        numbers.len()
    );
    numbers.sort_unstable();
    let all: Vec<u64> = (0..numbers.len() as u64).collect();
    assert_eq!(numbers, all, "each once");
}

#[test]
fn ids_of_another_name_are_ended_by_their_prefix() {
    let scene = Scene::new("renamed");
    scene.topics.create("t", 1);
    write_job(&scene, "", KAFKA);
    leave_open(&scene);
    // The job is another one now, which does not even use transactions.
    write_job(&scene, "delivery: at-least-once\n", KAFKA);
    let job = scene.place.job();
    let job = job.to_string_lossy();
    let exit = scene.place.weir(&["kafka", "clear", &job]);
    exit.expect(
        2,
        &[
            "error[W0906]",
            "does not write to Kafka in transactions",
            "--ids PREFIX",
        ],
    );
    assert!(!sees_behind(&scene));
    let id = scene.filled_in("weir-<job>");
    let exit = scene.place.weir(&["kafka", "clear", &job, "--ids", &id]);
    exit.expect(0, &[]);
    assert!(exit.text().contains(&id), "{}", exit.text());
    assert!(sees_behind(&scene));
}

#[test]
fn a_running_job_is_left_alone() {
    let scene = Scene::new("running");
    scene.topics.create("t", 1);
    write_job(&scene, "", KAFKA);
    let mut process = scene.place.start(&Start::default());
    assert!(process.says("committed", 1, HANGS), "{}", process.log());
    let job = scene.place.job();
    let exit = scene
        .place
        .weir(&["kafka", "clear", &job.to_string_lossy()]);
    exit.expect(4, &["runs already"]);
    // It would end the attempt, and this job has no other.
    assert!(process.says("committed", 4, HANGS), "{}", process.log());
    process.signal(rustix::process::Signal::TERM);
    process.end().expect(0, &[]);
}

#[test]
fn a_job_of_which_nothing_is_here_may_be_running_elsewhere() {
    let scene = Scene::new("not-here");
    scene.topics.create("t", 1);
    write_job(&scene, "", KAFKA);
    let job = scene.place.job();
    let clear = ["kafka", "clear", &job.to_string_lossy()];
    let text = std::fs::read_to_string(&job).expect("a job file");
    std::fs::write(&job, text.replace("dir: checkpoints, ", "")).expect("written");
    let data = scene.place.path("data").display().to_string();
    let started = Start::with(&["--data-dir", &data]);
    let mut process = scene.place.start(&started);
    assert!(process.says("committed", 1, HANGS), "{}", process.log());
    let exit = scene.place.weir(&clear);
    exit.expect(3, &["error[W0907]", "cannot be told", "--data-dir"]);
    let named = [&clear[..], &["--data-dir", &data]].concat();
    scene.place.weir(&named).expect(4, &["runs already"]);
    process.kill();
    scene.place.weir(&named).expect(0, &[]);
    let anyway = [&clear[..], &["--not-running"]].concat();
    scene.place.weir(&anyway).expect(0, &[]);
}

#[test]
fn without_a_sink_in_kafka_there_is_nothing_to_clear() {
    let scene = Scene::new("none");
    write_job(&scene, "", "file: {dir: out}");
    let job = scene.place.job();
    let exit = scene
        .place
        .weir(&["kafka", "clear", &job.to_string_lossy(), "--ids", "weir-x"]);
    exit.expect(2, &["error[W0906]", "has no sink in Kafka"]);
}

#[test]
fn a_broker_that_is_away_is_said_and_may_be_tried_again() {
    let scene = Scene::new("away");
    // Nobody listens at port 1.
    write_job(&scene, "", "kafka: {brokers: '127.0.0.1:1', topic: <t>}");
    let job = scene.place.job();
    let exit = scene
        .place
        .weir(&["kafka", "clear", &job.to_string_lossy(), "--not-running"]);
    exit.expect(75, &["error[W0905]", "127.0.0.1:1", "may be as it was"]);
}
