//! Kafka in job files.

use std::path::Path;
use std::time::Duration;

use super::good::good;
use super::parse_text;
use crate::diagnostic::render;
use crate::job::model::*;
use crate::job::{parse_for, print_resolved};

/// Every field of Kafka's.
pub(super) const EVERYTHING: &str = r#"version: 1
job: flags
delivery: exactly-once
checkpoint: {fail_after: 4m}
sources:
  orders:
    kafka:
      brokers: "${KAFKA}"
      tls: {ca: tls/ca.pem, certificate: tls/weir.pem, key: tls/weir.key, key_password: {credential: weir-key}}
      sasl: {mechanism: SCRAM-SHA-512, username: weir, password: {file: secrets/kafka}}
      properties: {fetch.min.bytes: 1, ssl.keystore.password: {env: STORE}, socket.keepalive.enable: true}
      topics: [orders, returns]
      start: {offsets: {orders: {0: 17, 1: 0}, returns: {0: 4}}}
      stop: {offsets: {orders: {0: 17, 1: 99}}}
      isolation: read-uncommitted
      group: flags-lag
      discover: never
      on_gap: latest
      format: json
    key: /customer
    event_time: {field: /at, format: rfc3339, out_of_order: 10s}
    on_error: {dead_letter: rejects}
  accounts:
    kafka:
      brokers: kafka-1:9092
      topics: {pattern: 'accounts-\d+$'}
      start: {committed: {otherwise: earliest}}
      discover: 30s
sinks:
  flags:
    input: [orders, accounts]
    on_error: {dead_letter: rejects}
    kafka:
      brokers: "kafka-2:9092, kafka-1:9092"
      topic: {field: /topic, allowed: [flags, alarms]}
      format: json
      key: [/customer, /card]
      partition_by: {field: /customer}
      headers: {forward: false, add: {source: weir}}
      timestamp: written
      compression: zstd
      transaction_timeout: 5m
      commit_topic: flags-commits
      transactional_id: flags-out
      properties: {linger.ms: 20}
  rejects:
    on_error: skip
    kafka: {brokers: "elsewhere:9092", topic: rejects, key: record}
"#;

/// As little as there can be.
pub(super) const SHORTEST: &str = r#"version: 1
job: j
sources: {in: {kafka: {brokers: "k:9092", topic: a}}}
sinks: {out: {input: in, kafka: {brokers: "k:9092", topic: b}}}
"#;

/// The other forms of what has several.
pub(super) const FORMS: &str = r#"version: 1
job: forms
delivery: at-least-once
sources:
  a: {kafka: {brokers: "[::1]:9092", tls: true, topics: {pattern: "orders-(eu|us)"}, start: latest, stop: latest, on_gap: earliest, isolation: read-committed}, event_time: {}}
  b: {kafka: {brokers: "k:9092", tls: {}, topic: x, start: {timestamp: 2026-01-01T00:00:00Z}, stop: never, discover: never, format: string, on_gap: fail}}
  c: {kafka: {brokers: "k:9092", tls: false, topic: y, start: committed, sasl: {mechanism: PLAIN, username: u, password: {env: KAFKA_PASSWORD}}}}
  d: {kafka: {brokers: "k:9092", topics: [z], start: earliest, format: json}, key: [/a, /b], event_time: {field: /t, format: millis}}
sinks:
  p: {input: [a, b, c, d], kafka: {brokers: "k:9092", topic: p, key: none, partition_by: sticky, headers: {}, timestamp: record, format: string}, on_error: fail}
  q: {input: d, kafka: {brokers: "k:9092", topic: q, key: /a, partition_by: {explicit: /n}, headers: {add: {"x.y": "$$"}}, compression: lz4}}
"#;

fn source(job: &Job, index: usize) -> &KafkaSource {
    match &job.sources[index].connector {
        SourceConnector::Kafka(source) => source,
        other => panic!("{other:?}"),
    }
}

fn sink(job: &Job, index: usize) -> &KafkaSink {
    match &job.sinks[index].connector {
        SinkConnector::Kafka(sink) => sink,
        other => panic!("{other:?}"),
    }
}

fn offsets(of: &[(&str, &[(i32, i64)])]) -> KafkaOffsets {
    let topics = of.iter();
    topics
        .map(|(topic, partitions)| ((*topic).to_owned(), partitions.iter().copied().collect()))
        .collect()
}

#[test]
fn the_shortest_has_the_documented_defaults() {
    let job = good(SHORTEST);
    let connection = KafkaConnection {
        brokers: "k:9092".to_owned(),
        ..KafkaConnection::default()
    };
    let source = KafkaSource {
        connection: connection.clone(),
        topics: KafkaTopics::Names(vec!["a".to_owned()]),
        start: KafkaStart::Earliest,
        stop: None,
        read_uncommitted: false,
        group: "weir-j".to_owned(),
        discover: Some(Duration::from_secs(60)),
        on_gap: KafkaGap::Fail,
    };
    assert_eq!(
        job.sources[0].connector,
        SourceConnector::Kafka(Box::new(source))
    );
    assert_eq!(job.sources[0].format, Format::Raw);
    assert_eq!(job.sources[0].event_time, None);
    let sink = KafkaSink {
        connection,
        topic: KafkaTopic::Fixed("b".to_owned()),
        format: KafkaFormat::Raw,
        key: KafkaKey::Record,
        partition: KafkaPartition::Key,
        forward_headers: true,
        headers: Vec::new(),
        timestamp: KafkaTimestamp::Record,
        compression: KafkaCompression::None,
        transaction_timeout: None,
        commit_topic: "weir-commits".to_owned(),
        transactional_id: "weir-j".to_owned(),
    };
    assert_eq!(sink, KafkaSink::plain(sink.connection.clone(), "b", "j"));
    let timeout = sink.transaction_timeout(&CheckpointSettings::default());
    assert_eq!(timeout, Duration::from_secs(9 * 60));
    assert_eq!(job.sinks[0].connector, SinkConnector::Kafka(Box::new(sink)));
    assert_eq!(job.sinks[0].on_error, ErrorPolicy::Fail);
}

#[test]
fn everything_is_read() {
    let job = good(EVERYTHING);
    let orders = source(&job, 0);
    let secret = |path: &str| Secret::File(Path::new("/jobs").join(path));
    let connection = &orders.connection;
    assert_eq!(connection.brokers, "kafka-1:9092,kafka-2:9092");
    assert_eq!(
        connection.tls,
        Some(KafkaTls {
            ca: Some("/jobs/tls/ca.pem".into()),
            certificate: Some("/jobs/tls/weir.pem".into()),
            key: Some("/jobs/tls/weir.key".into()),
            key_password: Some(Secret::Credential("weir-key".to_owned())),
        })
    );
    assert_eq!(
        connection.sasl,
        Some(KafkaSasl {
            mechanism: SaslMechanism::ScramSha512,
            username: "weir".to_owned(),
            password: secret("secrets/kafka"),
        })
    );
    let properties = [
        ("fetch.min.bytes", PropertyValue::Text("1".to_owned())),
        (
            "socket.keepalive.enable",
            PropertyValue::Text("true".to_owned()),
        ),
        (
            "ssl.keystore.password",
            PropertyValue::Secret(Secret::Env("STORE".to_owned())),
        ),
    ];
    let properties = properties.map(|(name, value)| (name.to_owned(), value));
    assert_eq!(connection.properties, properties.into());
    let start = offsets(&[("orders", &[(0, 17), (1, 0)]), ("returns", &[(0, 4)])]);
    assert_eq!(orders.start, KafkaStart::Offsets(start));
    let stop = offsets(&[("orders", &[(0, 17), (1, 99)])]);
    assert_eq!(orders.stop, Some(KafkaStop::Offsets(stop)));
    assert!(orders.read_uncommitted);
    assert_eq!(
        (orders.group.as_str(), orders.discover, orders.on_gap),
        ("flags-lag", None, KafkaGap::Latest)
    );
    assert_eq!(job.sources[0].format, Format::Json);

    let accounts = source(&job, 1);
    let otherwise = KafkaFallback::Earliest;
    assert_eq!(accounts.start, KafkaStart::Committed { otherwise });
    assert_eq!(accounts.discover, Some(Duration::from_secs(30)));

    let flags = sink(&job, 0);
    assert_eq!(flags.connection.brokers, "kafka-2:9092,kafka-1:9092");
    assert_eq!(flags.topic.names(), ["flags", "alarms"]);
    assert_eq!(
        flags.partition,
        KafkaPartition::Field("/customer".to_owned())
    );
    let pointers = ["/customer", "/card"].map(str::to_owned).to_vec();
    assert_eq!(
        flags.key,
        KafkaKey::Selected(KeySelector::Pointers(pointers))
    );
    assert_eq!(
        (flags.forward_headers, flags.headers.as_slice()),
        (false, &[("source".to_owned(), "weir".to_owned())][..])
    );
    assert_eq!(flags.timestamp, KafkaTimestamp::Written);
    assert_eq!(flags.transaction_timeout, Some(Duration::from_secs(5 * 60)));
    assert_eq!(
        (flags.commit_topic.as_str(), flags.transactional_id.as_str()),
        ("flags-commits", "flags-out")
    );
    let rejects = NodeId::new("rejects").expect("an id");
    assert_eq!(job.sinks[0].on_error, ErrorPolicy::DeadLetter(rejects));
    assert_eq!(job.sinks[1].on_error, ErrorPolicy::Skip);
}

#[test]
fn other_forms_are_read() {
    let job = good(FORMS);
    assert_eq!(
        source(&job, 0).connection.tls,
        source(&job, 1).connection.tls
    );
    assert_eq!(source(&job, 0).connection.tls, Some(KafkaTls::default()));
    assert_eq!(source(&job, 2).connection.tls, None);
    assert_eq!(
        (source(&job, 0).stop.as_ref(), source(&job, 0).discover),
        (Some(&KafkaStop::Latest), None)
    );
    let start = KafkaStart::Timestamp(1_767_225_600_000);
    assert_eq!(source(&job, 1).start, start);
    let otherwise = KafkaFallback::Fail;
    assert_eq!(source(&job, 2).start, KafkaStart::Committed { otherwise });
    // The timestamps of its records.
    let time = job.sources[0].event_time.as_ref().expect("given");
    assert_eq!(
        (time.field.as_str(), time.out_of_order),
        ("", Duration::ZERO)
    );
    assert_eq!(
        (&sink(&job, 0).key, &sink(&job, 0).partition),
        (&KafkaKey::None, &KafkaPartition::Sticky)
    );
    let pointer = KeySelector::Pointer("/a".to_owned());
    assert_eq!(sink(&job, 1).key, KafkaKey::Selected(pointer));
    assert_eq!(sink(&job, 1).headers, [("x.y".to_owned(), "$".to_owned())]);
}

#[test]
fn patterns_match_whole_names_that_are_not_internal() {
    let job = good(EVERYTHING);
    for (topic, expected) in [
        ("accounts-1", true),
        ("accounts-22", true),
        ("accounts-", false),
        ("my-accounts-1", false),
        ("accounts-1x", false),
    ] {
        assert_eq!(source(&job, 1).topics.contain(topic), expected, "{topic}");
    }
    let matches = |pattern: &str, topic: &str| {
        let pattern = TopicPattern::new(pattern).expect("a pattern");
        pattern.matches(topic)
    };
    // The first alternative that fits is not the last word.
    assert!(matches("a|ab", "ab"));
    assert!(!matches("a|b", "ab"));
    assert!(matches(".*", "anything"));
    assert!(!matches(".*", "__consumer_offsets"));
    assert!(!matches("(?m)a$", "a\nb"));
}

#[test]
fn secrets_are_printed_as_references() {
    let printed = print_resolved(&good(EVERYTHING));
    for shown in [
        "        password:\n          file: \"/jobs/secrets/kafka\"\n",
        "        key_password:\n          credential: \"weir-key\"\n",
        "        \"ssl.keystore.password\":\n          env: \"STORE\"\n",
    ] {
        assert!(printed.contains(shown), "{shown}\n{printed}");
    }
}

#[test]
fn transactions_are_printed_only_where_there_are_some() {
    let printed = print_resolved(&good(SHORTEST));
    assert!(printed.contains("transaction_timeout: 9m\n"), "{printed}");
    let printed = print_resolved(&good(FORMS));
    assert!(!printed.contains("transaction"), "{printed}");
}

#[test]
fn a_weir_without_kafka_refuses_it_by_name() {
    let parse = |text| parse_for(text, Path::new("job.yaml"), &|_| None, false);
    let errors = parse(SHORTEST).map(|_| ()).expect_err("refused");
    assert_eq!(
        render(&errors),
        "error[W0124]: `kafka` of source `in` is of Kafka, which this weir was built without\n\
         \x20 --> job.yaml:3:16\n\
         \x20 help: build weir with its default features\n\n\
         error[W0124]: `kafka` of sink `out` is of Kafka, which this weir was built without\n\
         \x20 --> job.yaml:4:26\n\
         \x20 help: build weir with its default features\n"
    );
    // What is wrong with it is said all the same.
    let wrong = SHORTEST.replace("k:9092", "k");
    let codes: Vec<_> = parse(&wrong)
        .map(|_| ())
        .expect_err("refused")
        .iter()
        .map(|error| error.code)
        .collect();
    assert_eq!(codes, ["W0124", "W0109", "W0124", "W0109"]);
}

#[test]
fn messages_show_no_secret() {
    for wrong in [
        "hunter2",
        "[hunter2]",
        "{value: hunter2}",
        "'${SECRET}'",
        "|\n hunter2",
        "!hunter2 hunter2",
    ] {
        let text = SHORTEST.replace(
            "topic: a",
            &format!("topic: a, sasl: {{mechanism: PLAIN, username: u, password: {wrong}}}"),
        );
        let errors = parse_text(&text).map(|_| ()).expect_err("refused");
        assert!(!render(&errors).contains("hunter2"), "{}", render(&errors));
    }
}
