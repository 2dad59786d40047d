//! The broker of these tests, and what they see of it: a test of a job is worth as much as its eyes.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::{Offset, TopicPartitionList};
use weir_tests::kafka::{Broker, Isolation, Options, Record, Topics, groups};

use crate::fixture::Scene;

fn records(partition: i32, count: usize) -> Vec<Record> {
    (0..count)
        .map(|n| Record::to(partition).value(format!("{partition}/{n}")))
        .collect()
}

fn texts(records: &[Record]) -> Vec<String> {
    records.iter().map(Record::text).collect()
}

#[test]
fn what_is_written_is_read_with_null_and_empty_told_apart() {
    let topics = Topics::named(Broker::shared(), "written-and-read");
    topics.create("all", 2);
    let contents = [None, Some(Vec::new()), Some(b"\x00\xff\t\n".to_vec())];
    let mut written = Vec::new();
    for key in &contents {
        for value in &contents {
            written.push(Record {
                partition: 1,
                offset: written.len() as i64,
                key: key.clone(),
                value: value.clone(),
                headers: vec![
                    ("trace".to_owned(), Some(b"1".to_vec())),
                    ("trace".to_owned(), None),
                    (String::new(), Some(Vec::new())),
                ],
                time: Some(1_700_000_000_000),
            });
        }
    }
    topics.produce("all", &written);
    assert_eq!(topics.read("all", Isolation::Committed), written);
    // It prints text.
    let printed = topics.read_by_console("all", Isolation::Committed);
    let as_text = |bytes: &Option<Vec<u8>>| {
        let bytes = bytes.as_deref()?;
        Some(String::from_utf8_lossy(bytes).into_owned().into_bytes())
    };
    for record in &mut written {
        record.key = as_text(&record.key);
        record.value = as_text(&record.value);
    }
    assert_eq!(printed, written);
    assert_eq!(
        topics.offsets("all", Isolation::Committed),
        [(0, 0), (0, 9)]
    );
}

#[test]
fn a_topic_is_grown_recreated_and_loses_records_to_retention() {
    let topics = Topics::named(Broker::shared(), "topics");
    topics.create("one", 1);
    topics.grow("one", 3);
    topics.produce("one", &records(2, 5));
    topics.delete_records("one", 2, 3);
    assert_eq!(topics.offsets("one", Isolation::Committed)[2], (3, 5));
    assert_eq!(
        texts(&topics.read("one", Isolation::Committed)),
        ["2/3", "2/4"]
    );

    topics.recreate("one", 2);
    assert_eq!(
        topics.offsets("one", Isolation::Committed),
        [(0, 0), (0, 0)]
    );
    topics.delete("one");
    assert_eq!(topics.partitions("one"), 0, "asking has created it");
}

#[test]
fn a_record_that_the_broker_refuses_is_not_taken_for_written() {
    let topics = Topics::named(Broker::shared(), "refused");
    topics.create_with("small", 1, &[("max.message.bytes", "1000")]);
    let large = [Record::to(0).value(vec![b'x'; 10_000])];
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        topics.produce("small", &large);
    }));
    assert!(refused.is_err());
    assert!(topics.read("small", Isolation::Uncommitted).is_empty());
}

#[test]
fn readers_see_transactions_as_their_isolation_says() {
    let topics = Topics::named(Broker::shared(), "isolation");
    let name = topics.create("some", 1);
    let producer: BaseProducer = topics
        .broker()
        .client()
        .set("transactional.id", topics.name("id"))
        .create()
        .unwrap();
    let long = Duration::from_secs(60);
    let seen = |isolation| texts(&topics.read("some", isolation));
    producer.init_transactions(long).unwrap();

    producer.begin_transaction().unwrap();
    Record::to(0)
        .value("aborted")
        .send(&producer, &name)
        .unwrap();
    producer.flush(long).unwrap();
    producer.abort_transaction(long).unwrap();

    producer.begin_transaction().unwrap();
    Record::to(0)
        .value("committed")
        .send(&producer, &name)
        .unwrap();
    producer.commit_transaction(long).unwrap();
    // The newest entry of the partition is the commit's control record.
    assert_eq!(seen(Isolation::Committed), ["committed"]);
    assert_eq!(topics.offsets("some", Isolation::Committed), [(0, 4)]);

    producer.begin_transaction().unwrap();
    Record::to(0).value("open").send(&producer, &name).unwrap();
    producer.flush(long).unwrap();
    assert_eq!(seen(Isolation::Committed), ["committed"]);
    assert_eq!(topics.offsets("some", Isolation::Committed), [(0, 4)]);
    let printed = topics.read_by_console("some", Isolation::Committed);
    assert_eq!(texts(&printed), ["committed"]);
    assert_eq!(
        seen(Isolation::Uncommitted),
        ["aborted", "committed", "open"]
    );
    assert_eq!(topics.offsets("some", Isolation::Uncommitted), [(0, 5)]);

    producer.commit_transaction(long).unwrap();
    assert_eq!(seen(Isolation::Committed), ["committed", "open"]);
}

#[test]
fn offsets_of_a_group_are_seen() {
    let topics = Topics::named(Broker::shared(), "groups");
    let name = topics.create("read", 2);
    topics.produce("read", &records(1, 5));
    let group = topics.name("group");
    assert!(groups::committed(topics.broker(), &group, &name).is_empty());
    let consumer: BaseConsumer = topics
        .broker()
        .client()
        .set("group.id", &group)
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&name, 1, Offset::Offset(3))
        .unwrap();
    consumer.commit(&list, CommitMode::Sync).unwrap();
    let committed = groups::committed(topics.broker(), &group, &name);
    assert_eq!(committed.into_iter().collect::<Vec<_>>(), [(1, 3)]);
}

#[test]
fn a_broker_is_killed_restarted_and_frozen_and_keeps_its_data() {
    let options = Options::default().longest_transaction(Duration::from_secs(60));
    let Some(broker) = Broker::own(&options) else {
        return;
    };
    let topics = Topics::named(&broker, "kept");
    let name = topics.create("kept", 1);
    topics.produce("kept", &records(0, 3));

    broker.kill();
    broker.restart();
    let read = |broker: &Broker| {
        let consumer: BaseConsumer = broker.client().set("group.id", "x").create().unwrap();
        consumer.fetch_watermarks(&name, 0, Duration::from_secs(10))
    };
    assert_eq!(read(&broker).unwrap(), (0, 3), "after SIGKILL");
    broker.restart();
    assert_eq!(read(&broker).unwrap(), (0, 3), "after SIGTERM");

    broker.freeze();
    let consumer: BaseConsumer = broker.client().set("group.id", "x").create().unwrap();
    let asked = Instant::now();
    let brief = Duration::from_millis(500);
    assert!(consumer.fetch_watermarks(&name, 0, brief).is_err());
    assert!(asked.elapsed() >= brief);
    broker.thaw();
    assert_eq!(read(&broker).unwrap(), (0, 3), "after it was frozen");

    let producer: BaseProducer = broker
        .client()
        .set("transactional.id", "patient")
        .set("transaction.timeout.ms", "60001")
        .create()
        .unwrap();
    let refused = producer
        .init_transactions(Duration::from_secs(60))
        .unwrap_err();
    assert!(refused.to_string().contains("timeout"), "{refused}");
}

#[test]
fn a_job_file_names_what_is_the_tests_own() {
    let scene = Scene::new("fixture");
    let text = scene.filled_in("{brokers: <brokers>, topics: [<in>, <out>]}");
    let address = scene.topics.broker().address();
    let prefix = scene.topics.prefix();
    let expected = format!("{{brokers: {address}, topics: [{prefix}in, {prefix}out]}}");
    assert_eq!(text, expected);
    scene.write_job("job: <job>\n");
    let written = std::fs::read_to_string(scene.place.job()).unwrap();
    assert_eq!(written, format!("job: {prefix}job\n"));
}
