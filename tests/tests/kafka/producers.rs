//! Producers and the writer of a sink subtask, driven by hand against a real broker: what a job's output rests on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir::batch::{Batch, Origin, hash_of};
use weir::cancel::Cancel;
use weir::headers::Header;
use weir::job::model::{
    ErrorPolicy, KafkaCompression, KafkaConnection, KafkaKey, KafkaPartition, KafkaSink,
    KafkaTopic, NodeId, Place, Sink, SinkConnector,
};
use weir::kafka::Transactions;
use weir::kafka::outputs::{Output, OutputTopic};
use weir::kafka::producers::{CommitError, Failure, Producer, ProducerSettings, Record, Sender};
use weir::sink::{self, Author, KafkaSurroundings, Surroundings, Writer};
use weir_tests::host::HANGS;
use weir_tests::kafka::{Api, Broker, Isolation, Options, Proxy, Topics};

const TIMEOUT: Duration = Duration::from_secs(60);

fn connection(broker: &Broker) -> KafkaConnection {
    KafkaConnection {
        brokers: broker.address().to_owned(),
        ..KafkaConnection::default()
    }
}

fn settings() -> ProducerSettings {
    ProducerSettings {
        queue_bytes: 8 << 20,
        delivery_timeout: Duration::from_secs(30),
        compression: KafkaCompression::None,
        smallest_topic_limit: 1 << 20,
        largest_topic_limit: 1 << 20,
    }
}

fn transactional(broker: &Broker, id: &str) -> Producer {
    let until = Instant::now() + HANGS;
    let go_on = || Instant::now() < until;
    Producer::transactional(&connection(broker), &settings(), id, TIMEOUT, &go_on)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn send(sender: &mut Sender, topic: &str, value: &str) -> Result<(), Failure> {
    sender.send(Record {
        topic,
        partition: Some(0),
        key: None,
        value: Some(value.as_bytes()),
        timestamp: None,
        headers: None,
    })
}

fn seen(topics: &Topics<'_>, topic: &str) -> Vec<String> {
    let records = topics.read(topic, Isolation::Committed);
    records.iter().map(|record| record.text()).collect()
}

#[test]
fn two_producers_carry_transactions_in_turn() {
    let topics = Topics::named(Broker::shared(), "in-turn");
    let name = topics.create("out", 1);
    let id = |n| topics.name(&format!("id-{n}"));
    let broker = topics.broker();
    let transactions =
        Transactions::new(transactional(broker, &id(0)), transactional(broker, &id(1)));
    let [mut even, mut odd] = transactions.senders(&Cancel::default());
    for n in [1, 2] {
        transactions.for_checkpoint(n).begin().expect("initialized");
    }
    send(&mut odd, &name, "in 1").expect("sent");
    odd.settle(HANGS).expect("acknowledged");
    // What follows the barrier flows while what precedes it is not committed yet.
    send(&mut even, &name, "in 2").expect("sent");
    even.settle(HANGS).expect("acknowledged");
    assert!(seen(&topics, "out").is_empty());
    transactions
        .for_checkpoint(1)
        .commit(HANGS)
        .expect("a clean commit");
    assert_eq!(seen(&topics, "out"), ["in 1"]);
    transactions
        .for_checkpoint(2)
        .commit(HANGS)
        .expect("a clean commit");
    assert_eq!(seen(&topics, "out"), ["in 1", "in 2"]);
    // The same again, and one without a record in it.
    transactions.for_checkpoint(3).begin().expect("committed");
    transactions.for_checkpoint(4).begin().expect("committed");
    send(&mut odd, &name, "in 3").expect("sent");
    odd.settle(HANGS).expect("acknowledged");
    transactions.for_checkpoint(3).commit(HANGS).expect("clean");
    transactions.for_checkpoint(4).commit(HANGS).expect("clean");
    assert_eq!(seen(&topics, "out"), ["in 1", "in 2", "in 3"]);
}

#[test]
fn a_producer_with_the_same_id_aborts_what_was_open_and_shuts_the_other_out() {
    let topics = Topics::named(Broker::shared(), "fenced");
    let name = topics.create("out", 1);
    let id = topics.name("id");
    let first = transactional(topics.broker(), &id);
    let mut sender = first.sender(&Cancel::default());
    first.begin().expect("initialized");
    send(&mut sender, &name, "open").expect("sent");
    sender.settle(HANGS).expect("acknowledged");

    let second = transactional(topics.broker(), &id);
    let commit = first.commit(HANGS).expect_err("it is shut out");
    assert!(matches!(commit, CommitError::Fenced(_)), "{commit}");
    // From then on it refuses everything by that name.
    let sent = send(&mut sender, &name, "late").and_then(|()| sender.settle(HANGS));
    assert!(matches!(sent, Err(Failure::Fenced(_))), "{sent:?}");
    assert!(matches!(first.begin(), Err(Failure::Fenced(_))));
    let again = first.commit(HANGS);
    assert!(matches!(again, Err(CommitError::Fenced(_))), "{again:?}");

    let mut sender = second.sender(&Cancel::default());
    second.begin().expect("initialized");
    send(&mut sender, &name, "new").expect("sent");
    sender.settle(HANGS).expect("acknowledged");
    second.commit(HANGS).expect("clean");
    assert_eq!(seen(&topics, "out"), ["new"]);
}

#[test]
fn a_commit_that_is_not_answered_is_unclear_and_the_producer_spent() {
    let Some(broker) = Broker::own(&Options::default()) else {
        return;
    };
    let topics = Topics::named(&broker, "unclear");
    let (name, id) = (topics.create("out", 1), topics.name("id"));
    let producer = transactional(&broker, &id);
    let mut sender = producer.sender(&Cancel::default());
    producer.begin().expect("initialized");
    send(&mut sender, &name, "unclear").expect("sent");
    sender.settle(HANGS).expect("acknowledged");
    broker.freeze();
    let patience = Duration::from_secs(2);
    let began = Instant::now();
    let commit = producer.commit(patience).expect_err("nobody answers");
    assert!(matches!(commit, CommitError::Unclear(_)), "{commit}");
    assert!(began.elapsed() < patience + Duration::from_secs(3));
    broker.thaw();
    // Whatever became of it, the producer must not go on: what it asked for may still happen.
    let begun = producer.begin();
    assert!(matches!(begun, Err(Failure::Unusable(_))), "{begun:?}");
    let again = producer.commit(patience);
    assert!(matches!(again, Err(CommitError::Unclear(_))), "{again:?}");
    drop(sender);
    drop(producer);
    // The next one with its id clears it up: committed or not, nothing is left open in the way of readers.
    let producer = transactional(&broker, &id);
    let mut sender = producer.sender(&Cancel::default());
    producer.begin().expect("initialized");
    send(&mut sender, &name, "next").expect("sent");
    sender.settle(HANGS).expect("acknowledged");
    producer.commit(HANGS).expect("clean");
    let seen = seen(&topics, "out");
    assert!(seen == ["unclear", "next"] || seen == ["next"], "{seen:?}");
}

/// A copy of the request may still be on its way, so the broker's word is not enough.
#[test]
fn a_commit_that_was_asked_for_twice_is_unclear_although_it_happened() {
    let broker = Broker::shared();
    if broker.is_foreign("a proxied listener") {
        return;
    }
    let topics = Topics::named(broker, "asked-twice");
    let (name, id) = (topics.create("out", 1), topics.name("id"));
    let proxy = Proxy::before(broker);
    let by_proxy = KafkaConnection {
        brokers: proxy.address(),
        ..connection(broker)
    };
    let producer = Producer::transactional(&by_proxy, &settings(), &id, TIMEOUT, &|| true)
        .unwrap_or_else(|error| panic!("{error}"));
    let mut sender = producer.sender(&Cancel::default());
    producer.begin().expect("initialized");
    send(&mut sender, &name, "once").expect("sent");
    sender.settle(HANGS).expect("acknowledged");
    let rule = proxy.when(Api::END_TXN).of(&id).cut();
    let commit = producer.commit(HANGS).expect_err("a connection was lost");
    assert_eq!(rule.count(), 1);
    let CommitError::Unclear(text) = &commit else {
        panic!("{commit}")
    };
    assert!(text.contains("the broker says that it was"), "{text}");
    assert!(proxy.requests(Api::END_TXN) >= 2);
    assert_eq!(seen(&topics, "out"), ["once"]);
    let begun = producer.begin();
    assert!(matches!(begun, Err(Failure::Unusable(_))), "{begun:?}");
}

#[test]
fn initialization_is_called_off_when_nobody_answers() {
    let nobody = KafkaConnection {
        brokers: "127.0.0.1:9".to_owned(),
        ..KafkaConnection::default()
    };
    let began = Instant::now();
    let go_on = || began.elapsed() < Duration::from_secs(1);
    let error = Producer::transactional(&nobody, &settings(), "id", TIMEOUT, &go_on)
        .expect_err("nobody listens there");
    assert!(error.may_pass(), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10));
}

fn sink(broker: &Broker, topic: &str) -> KafkaSink {
    KafkaSink::plain(connection(broker), topic, "test")
}

fn writer(settings: KafkaSink, partitions: u32, transactions: Option<Arc<Transactions>>) -> Writer {
    let KafkaTopic::Fixed(name) = &settings.topic else {
        panic!("one topic")
    };
    let output = Output {
        topics: vec![OutputTopic {
            name: name.clone(),
            id: "an id".parse().expect("any text is one"),
            partitions,
            max_bytes: 1 << 20,
            ahead: None,
        }],
        cluster: "a cluster".to_owned(),
        transactional: transactions.is_some(),
        settings: self::settings(),
    };
    let sink = Sink {
        id: NodeId::new("out").expect("a name"),
        place: Place::default(),
        inputs: Vec::new(),
        connector: SinkConnector::Kafka(Box::new(settings)),
        on_error: ErrorPolicy::Fail,
        parallelism: None,
    };
    let surroundings = Surroundings {
        author: Author {
            lineage: "7c1e0000".to_owned(),
            attempt: 1,
            subtask: 0,
            next_n: 1,
        },
        kafka: Some(KafkaSurroundings {
            output,
            transactions,
            cancel: Cancel::default(),
            waits: Arc::default(),
        }),
    };
    sink::open(&sink, surroundings).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn keys_values_and_headers_arrive_byte_for_byte() {
    let topics = Topics::named(Broker::shared(), "byte-for-byte");
    let name = topics.create("out", 3);
    let mut writer = writer(sink(topics.broker(), &name), 3, None);
    let contents = [None, Some(&b""[..]), Some(b"\x00\xff\n")];
    let headers: [Header<'_>; 5] = [
        (b"trace", Some(b"1")),
        (b"trace", None),
        (b"", Some(b"")),
        (b"trace", Some(b"\xff\x00")),
        (b"null", None),
    ];
    let mut batch = Batch::default();
    let mut expected = Vec::new();
    for key in contents {
        for value in contents {
            for with in [&headers[..0], &headers] {
                let time = 1_700_000_000_000 + expected.len() as i64;
                let all = with.iter().copied();
                batch.push_with_headers(key, hash_of(key), value, all, time, Origin::NONE);
                let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
                let headers: Vec<_> = with
                    .iter()
                    .map(|(name, value)| {
                        (
                            String::from_utf8(name.to_vec()).expect("text"),
                            owned(*value),
                        )
                    })
                    .collect();
                expected.push((Some(time), owned(key), owned(value), headers));
            }
        }
    }
    let rejected = writer.write(&batch, false).expect("sent");
    assert!(rejected.is_empty());
    writer.prepare(1, false).expect("acknowledged");
    let mut read: Vec<_> = topics
        .read("out", Isolation::Committed)
        .into_iter()
        .map(|record| (record.time, record.key, record.value, record.headers))
        .collect();
    read.sort();
    assert_eq!(read, expected);
    assert_eq!(writer.written().records, 18);
}

#[test]
fn a_sink_goes_on_in_the_other_transaction_behind_a_barrier() {
    let topics = Topics::named(Broker::shared(), "behind-a-barrier");
    let name = topics.create("out", 1);
    let broker = topics.broker();
    let transactions = Arc::new(Transactions::new(
        transactional(broker, &topics.name("id-0")),
        transactional(broker, &topics.name("id-1")),
    ));
    for n in [1, 2] {
        transactions.for_checkpoint(n).begin().expect("initialized");
    }
    let mut writer = writer(sink(broker, &name), 1, Some(transactions.clone()));
    let write = |writer: &mut Writer, value: &str| {
        let mut batch = Batch::default();
        let value = Some(value.as_bytes());
        batch.push(
            Some(b"k"),
            hash_of(Some(b"k")),
            value,
            weir::batch::NO_TIME,
            Origin::NONE,
        );
        assert!(writer.write(&batch, false).expect("sent").is_empty());
    };
    write(&mut writer, "before");
    writer.prepare(1, false).expect("acknowledged");
    write(&mut writer, "behind");
    transactions.for_checkpoint(1).commit(HANGS).expect("clean");
    assert_eq!(seen(&topics, "out"), ["before"]);
    // Idle: nothing was written for 3.
    writer.prepare(2, false).expect("acknowledged");
    transactions.for_checkpoint(3).begin().expect("committed");
    writer.prepare(3, false).expect("nothing to wait for");
    transactions.for_checkpoint(2).commit(HANGS).expect("clean");
    transactions.for_checkpoint(3).commit(HANGS).expect("clean");
    assert_eq!(seen(&topics, "out"), ["before", "behind"]);
}

#[test]
fn partitions_by_field_are_those_that_keys_would_have() {
    let topics = Topics::named(Broker::shared(), "by-field");
    let keyed = topics.create("keyed", 5);
    let field = topics.create("field", 5);
    let mut by_key = writer(sink(topics.broker(), &keyed), 5, None);
    let by_field = KafkaSink {
        partition: KafkaPartition::Field("/p".to_owned()),
        key: KafkaKey::None,
        ..sink(topics.broker(), &field)
    };
    let mut by_field = writer(by_field, 5, None);
    let mut batch = Batch::default();
    for n in 0..50 {
        let (key, value) = (format!("user-{n}"), format!("{{\"p\":\"user-{n}\"}}"));
        let key = Some(key.as_bytes());
        batch.push(
            key,
            hash_of(key),
            Some(value.as_bytes()),
            weir::batch::NO_TIME,
            Origin::NONE,
        );
    }
    for writer in [&mut by_key, &mut by_field] {
        assert!(writer.write(&batch, false).expect("sent").is_empty());
        writer.prepare(1, false).expect("acknowledged");
    }
    let places = |topic| -> Vec<(i32, String)> {
        let records = topics.read(topic, Isolation::Committed);
        records
            .iter()
            .map(|record| (record.partition, record.text()))
            .collect()
    };
    assert_eq!(places("keyed"), places("field"));
    let mut used: Vec<_> = places("keyed")
        .iter()
        .map(|(partition, _)| *partition)
        .collect();
    used.dedup();
    assert_eq!(used, [0, 1, 2, 3, 4], "50 keys reach every partition");
}
