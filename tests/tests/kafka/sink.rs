//! Jobs that write to Kafka at least once: what is written, what is refused before a start, and what happens when something cannot
//! be written.

use std::fmt::Write;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use weir_tests::host::HANGS;
use weir_tests::kafka::{Broker, Isolation, Options, Record};
use weir_tests::place::Start;

use crate::copying::Copying;
use crate::fixture::Scene;

/// A job that reads `in/*.jsonl`, with what follows of its sinks. `<job>` and the like are the test's own.
fn job(sinks: &str) -> String {
    format!(
        "version: 1
job: <job>
delivery: at-least-once
parallelism: 1
checkpoint: {{interval: 200ms}}
restart: {{strategy: none}}
sources:
  in: {{file: {{paths: ['in/*.jsonl'], format: json}}, key: /id}}
sinks:
{sinks}"
    )
}

fn header<'r>(record: &'r Record, name: &str) -> &'r str {
    let found = record.headers.iter().find(|(known, _)| known == name);
    let (_, value) = found.unwrap_or_else(|| panic!("no header {name} in {record:?}"));
    std::str::from_utf8(value.as_deref().expect("not null")).expect("text")
}

#[test]
fn records_are_written_with_key_headers_and_topic() {
    let scene = Scene::new("written");
    scene.topics.create("a", 4);
    scene.topics.create("b", 4);
    let mut input = String::new();
    for n in 0..200 {
        let to = scene.topics.name(if n % 2 == 0 { "a" } else { "b" });
        writeln!(
            input,
            "{{\"id\":\"k{}\",\"n\":{n},\"to\":\"{to}\"}}",
            n % 10
        )
        .expect("text");
    }
    scene.place.write("in/1.jsonl", &input);
    scene.write_job(&job("  out:
    input: in
    kafka:
      brokers: <brokers>
      topic: {field: /to, allowed: [<a>, <b>]}
      format: json
      headers: {add: {made-by: weir}}
      compression: zstd
"));
    let exit = scene.place.run();
    let topics = format!(
        "out: topic {}, {}",
        scene.topics.name("a"),
        scene.topics.name("b")
    );
    exit.expect(0, &["at-least-once", &topics]);
    let committed = exit.log.split("committed: records ").skip(1);
    let committed = committed.filter_map(|rest| rest.split(',').next()?.parse::<u64>().ok());
    assert_eq!(committed.sum::<u64>(), 200, "{}", exit.log);
    let read = |topic| scene.topics.read(topic, Isolation::Committed);
    let mut partitions = std::collections::BTreeMap::new();
    let (even, odd) = (read("a"), read("b"));
    assert_eq!((even.len(), odd.len()), (100, 100));
    for record in even.iter().chain(&odd) {
        assert_eq!(header(record, "made-by"), "weir");
        let value = record.text();
        assert!(
            value.contains(&format!("\"id\":\"{}\"", record.key_text())),
            "{value}"
        );
        // A key is in one partition of each topic, and in the same one of both, as they have the same number.
        let partition = partitions
            .entry(record.key_text())
            .or_insert(record.partition);
        assert_eq!(*partition, record.partition, "{record:?}");
    }
}

#[test]
fn a_misspelt_topic_is_refused_and_not_created() {
    let scene = Scene::new("misspelt");
    scene.topics.create("right", 1);
    scene.place.write("in/1.jsonl", "{\"id\":1}\n");
    scene.write_job(&job(
        "  out: {input: in, kafka: {brokers: <brokers>, topic: <wrong>}}
  also: {input: in, kafka: {brokers: <brokers>, topic: <right>}}
",
    ));
    let name = scene.topics.name("wrong");
    let said = format!("error[W0708]: sink `out`: topic `{name}` does not exist");
    scene.place.run().expect(3, &[&said, "kafka-topics"]);
    let job = scene.place.job().display().to_string();
    scene.place.weir(&["check", &job]).expect(3, &[&said]);
    scene
        .place
        .weir(&["check", "--offline", &job])
        .expect(0, &[]);
    assert_eq!(scene.topics.partitions("wrong"), 0, "somebody created it");
    assert!(scene.topics.read("right", Isolation::Committed).is_empty());
}

#[test]
fn a_broker_that_is_away_is_said_and_may_come_back() {
    let scene = Scene::new("away");
    scene.place.write("in/1.jsonl", "{\"id\":1}\n");
    scene.write_job(&job(
        // Nobody listens at the port of "discard".
        "  out: {input: in, kafka: {brokers: '127.0.0.1:9', topic: t}}
  more: {input: in, kafka: {brokers: '127.0.0.1:9', topic: u}}
",
    ));
    let exit = scene.place.run();
    exit.expect(75, &["error[W0901]: sink `out`", "127.0.0.1:9"]);
    assert_eq!(
        exit.log.matches("W0901").count(),
        1,
        "once a cluster: {}",
        exit.log
    );
}

/// Its supervisor is to start it again: nobody has to be woken when the brokers are back.
#[test]
fn a_running_job_whose_brokers_stay_away_ends_as_one_that_cannot_start() {
    let Some(broker) = Broker::own(&Options::default()) else {
        return;
    };
    let scene = Scene::on(&broker, "stay-away");
    scene.topics.create("out", 1);
    let text = generated("unbounded", ", rate: 100")
        .replace("delivery: at-least-once\n", "")
        .replace("interval: 200ms", "interval: 200ms, timeout: 2s")
        + "restart: {strategy: fixed, delay: 100ms, give_up_after: 1}\n";
    scene.write_job(&text);
    let mut process = scene.place.start(&Start::default());
    assert!(process.says("committed", 2, HANGS), "{}", process.log());
    broker.kill();
    let said = [
        "error[W0901]: sink `out`",
        "1 restart in a row did not help",
        "(exit 75)",
    ];
    process.end().expect(75, &said);
    broker.restart();
    process = scene.place.start(&Start::default());
    assert!(process.says("resumed at", 1, HANGS), "{}", process.log());
}

#[test]
fn a_transaction_timeout_above_the_brokers_maximum_is_refused_with_both() {
    let options = Options::default().longest_transaction(Duration::from_secs(300));
    let Some(broker) = Broker::own(&options) else {
        return;
    };
    let scene = Scene::on(&broker, "timeout");
    scene.topics.create("out", 1);
    scene.place.write("in/1.jsonl", "{\"id\":1}\n");
    let text = job("  out: {input: in, kafka: {brokers: <brokers>, topic: <out>}}\n");
    let text = text.replace("delivery: at-least-once\n", "");
    scene.write_job(&text);
    // A minute more than `fail_after`, which is eight.
    let said = [
        "error[W0709]: sink `out`",
        "is 9m",
        "`transaction.max.timeout.ms` 5m",
    ];
    scene.place.run().expect(3, &said);
    // No time to commit.
    let hasty = "checkpoint: {interval: 1s, timeout: 2s, fail_after: 5s}";
    scene.write_job(&text.replace("checkpoint: {interval: 200ms}", hasty));
    scene
        .place
        .run()
        .expect(3, &["error[W0118]", "`fail_after` 5s", "at least 13s"]);
}

/// Two good records and one of 2 MB between them.
fn with_a_large_one(scene: &Scene<'_>) {
    let large = "x".repeat(2_000_000);
    let input =
        format!("{{\"id\":\"a\"}}\n{{\"id\":\"big\",\"x\":\"{large}\"}}\n{{\"id\":\"b\"}}\n");
    scene.place.write("in/1.jsonl", input);
    scene.topics.create("out", 1);
}

#[test]
fn a_record_larger_than_its_topic_takes_fails_the_job_with_key_size_and_limit() {
    let scene = Scene::new("large-fails");
    with_a_large_one(&scene);
    scene.write_job(&job(
        "  out: {input: in, kafka: {brokers: <brokers>, topic: <out>}}\n",
    ));
    let said = [
        "error[W0702]: sink `out`",
        "(key: `big`)",
        "1048588 bytes",
        "1.jsonl line 2",
    ];
    scene.place.run().expect(5, &said);
}

#[test]
fn a_record_larger_than_its_topic_takes_goes_where_the_policy_says() {
    let scene = Scene::new("large-goes");
    with_a_large_one(&scene);
    scene
        .topics
        .create_with("dead", 1, &[("max.message.bytes", "4000000")]);
    let with = |policy: &str, more: &str| {
        scene.write_job(&job(&format!(
            "  out: {{input: in, kafka: {{brokers: <brokers>, topic: <out>}}, on_error: {policy}}}\n{more}"
        )));
    };
    with(
        "{dead_letter: dead}",
        "  dead: {kafka: {brokers: <brokers>, topic: <dead>, key: none, headers: {forward: false}}}\n",
    );
    scene
        .place
        .run()
        .expect(0, &["W0706", "went to the dead letters"]);
    let keys = |topic| -> Vec<String> {
        let records = scene.topics.read(topic, Isolation::Committed);
        records.iter().map(Record::key_text).collect()
    };
    assert_eq!(keys("out"), ["a", "b"]);
    let dead = scene.topics.read("dead", Isolation::Committed);
    assert_eq!(dead.len(), 1);
    assert_eq!(
        dead[0].key_text(),
        "big",
        "as it was, whatever the sink does with others"
    );
    assert!(dead[0].text().len() > 2_000_000);
    assert_eq!(header(&dead[0], "weir.error.code"), "W0702");
    assert!(header(&dead[0], "weir.error.message").contains("max.message.bytes"));
    assert_eq!(header(&dead[0], "weir.job"), scene.topics.name("job"));
    assert_eq!(header(&dead[0], "weir.sink"), "out");
    assert!(header(&dead[0], "weir.position").ends_with("1.jsonl line 2"));

    // A dead letter for a file is an object.
    with(
        "{dead_letter: dead}",
        "  dead: {file: {dir: out/dead, format: json}}\n",
    );
    scene
        .place
        .run_with(&Start::with(&["--fresh", "--accept-duplicates"]))
        .expect(0, &[]);
    let lines = scene.place.committed("dead");
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains("\"sink\":\"out\"") && lines[0].contains("\"key\":\"big\""));

    with("skip", "");
    scene
        .place
        .run_with(&Start::with(&["--fresh", "--accept-duplicates"]))
        .expect(0, &["was left out"]);
    assert_eq!(keys("out"), ["a", "b", "a", "b", "a", "b"]);
}

#[test]
fn what_cannot_be_decoded_goes_to_a_topic_as_it_was() {
    let scene = Scene::new("decode");
    scene.topics.create("out", 1);
    scene.topics.create("dead", 1);
    scene
        .place
        .write("in/1.jsonl", b"{\"id\":1}\n\xff{no\n{\"id\":2}\n");
    let text = job(
        "  out: {input: in, kafka: {brokers: <brokers>, topic: <out>}}
  dead: {kafka: {brokers: <brokers>, topic: <dead>, format: json}}
",
    );
    scene.write_job(&text.replace("key: /id}", "key: /id, on_error: {dead_letter: dead}}"));
    scene.place.run().expect(0, &[]);
    assert_eq!(scene.topics.read("out", Isolation::Committed).len(), 2);
    let dead = scene.topics.read("dead", Isolation::Committed);
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].value.as_deref(), Some(&b"\xff{no"[..]));
    assert_eq!(dead[0].key, None);
    assert_eq!(header(&dead[0], "weir.error.code"), "W0602");
    assert_eq!(header(&dead[0], "weir.source"), "in");
    assert!(header(&dead[0], "weir.position").ends_with("1.jsonl line 2"));
}

/// A job that makes up records for `<out>`.
fn generated(records: &str, more: &str) -> String {
    format!(
        "version: 1
job: <job>
delivery: at-least-once
parallelism: 1
memory: 256MiB
checkpoint: {{interval: 200ms}}
sources:
  in: {{generator: {{records: {records}, keys: 100, value_bytes: 1000}}{more}}}
sinks:
  out: {{input: in, kafka: {{brokers: <brokers>, topic: <out>}}}}
"
    )
}

fn resident(pid: rustix::process::Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()))
        .expect("it is running");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|text| text.trim().strip_suffix(" kB"));
    kilobytes
        .and_then(|text| text.parse().ok())
        .expect("it has memory")
}

#[test]
fn a_full_queue_holds_the_job_back_and_loses_nothing() {
    const RECORDS: usize = 150_000;
    let Some(broker) = Broker::own(&Options::default()) else {
        return;
    };
    let scene = Scene::on(&broker, "full");
    scene.topics.create("out", 2);
    scene.write_job(&generated(&RECORDS.to_string(), ", rate: 50000"));
    let mut process = scene.place.start(&Start::default());
    assert!(process.says("checkpoint 1", 1, HANGS) || process.says("committed", 1, HANGS));
    broker.freeze();
    // Long enough for all the rest of it to be made, were there room.
    std::thread::sleep(Duration::from_secs(4));
    assert!(process.is_running());
    let resident = resident(process.pid()) / 1024;
    broker.thaw();
    let exit = process.end();
    exit.expect(0, &[]);
    assert!(
        resident < 140,
        "{resident} MiB of memory while nothing was taken"
    );
    let read = scene.topics.read("out", Isolation::Committed);
    let mut values: Vec<_> = read.into_iter().map(|record| record.value).collect();
    values.sort();
    values.dedup();
    assert_eq!(values.len(), RECORDS, "some are lost");
}

#[test]
fn a_stop_while_the_broker_is_down_ends_in_time() {
    let Some(broker) = Broker::own(&Options::default()) else {
        return;
    };
    let scene = Scene::on(&broker, "down");
    scene.topics.create("out", 1);
    scene.write_job(&generated("100000000", ", rate: 1000"));
    let mut at_least_once = scene.place.start(&Start::default());
    let job = Copying::on(&broker, "down-exactly-once");
    let exactly_once = job.running();
    assert!(at_least_once.says("committed", 1, HANGS));
    broker.kill();
    std::thread::sleep(Duration::from_millis(500));
    let began = Instant::now();
    let mut both = [at_least_once, exactly_once];
    for process in &mut both {
        process.signal(Signal::TERM);
    }
    for mut process in both {
        let exit = process.end();
        // 25 s for a last checkpoint; container runtimes kill after 30.
        let took = began.elapsed();
        assert!(took < Duration::from_secs(29), "{took:?}: {}", exit.log);
        exit.expect(6, &[]);
    }
}

#[test]
fn restarts_of_the_broker_lose_nothing() {
    const RECORDS: usize = 20_000;
    let Some(broker) = Broker::own(&Options::default()) else {
        return;
    };
    let scene = Scene::on(&broker, "restarts");
    scene.topics.create("out", 2);
    scene.write_job(&generated(&RECORDS.to_string(), ", rate: 2000"));
    let mut process = scene.place.start(&Start::default());
    for times in 1..=2 {
        assert!(process.says("committed", 3 * times, HANGS));
        broker.restart();
    }
    process.end().expect(0, &[]);
    let read = scene.topics.read("out", Isolation::Committed);
    let mut values: Vec<_> = read.into_iter().map(|record| record.value).collect();
    values.sort();
    values.dedup();
    assert_eq!(values.len(), RECORDS, "some are lost");
}
