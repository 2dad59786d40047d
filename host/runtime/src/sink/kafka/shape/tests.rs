use rdkafka::message::Headers as _;

use super::*;
use crate::batch::{Origin, hash_of};
use crate::job::model::{KafkaConnection, KeySelector};

const NOW: i64 = 1_700_000_000_000;

fn settings() -> KafkaSink {
    let connection = KafkaConnection {
        brokers: "b:9092".to_owned(),
        ..KafkaConnection::default()
    };
    KafkaSink::plain(connection, "out", "j")
}

fn topic(name: &str) -> OutputTopic {
    OutputTopic {
        name: name.to_owned(),
        id: "an id".parse().expect("any text is one"),
        partitions: 4,
        max_bytes: 1_000,
        ahead: None,
    }
}

fn batch(key: Option<&[u8]>, value: Option<&[u8]>, time: i64) -> Batch {
    let mut batch = Batch::default();
    batch.push(key, hash_of(key), value, time, Origin::NONE);
    batch
}

fn value(text: &str) -> Batch {
    batch(Some(b"k"), Some(text.as_bytes()), NO_TIME)
}

/// What the only record of `batch` becomes: topic, partition, key, timestamp.
type Brief = (usize, Option<i32>, Option<Vec<u8>>, Option<i64>);

fn shape(settings: &KafkaSink, batch: &Batch) -> Result<Brief, String> {
    let names = settings.topic.names();
    let topics: Vec<_> = names.iter().map(|name| topic(name)).collect();
    let mut shaper = Shaper::new(settings, &topics, 0);
    shaper.begin(NOW);
    let shaped = shaper.record(&topics, batch, 0)?;
    Ok((
        shaped.topic,
        shaped.partition,
        shaped.key.map(<[u8]>::to_vec),
        shaped.timestamp,
    ))
}

fn refused(settings: &KafkaSink, batch: &Batch, parts: &[&str]) {
    let what = shape(settings, batch).unwrap_err();
    for part in parts {
        assert!(what.contains(part), "{part:?} is not in {what:?}");
    }
}

#[test]
fn nulls_and_empty_ones_stay_what_they_are() {
    for key in [None, Some(&b""[..]), Some(b"k")] {
        for value in [None, Some(&b""[..]), Some(b"\xff")] {
            let shaped = shape(&settings(), &batch(key, value, NO_TIME)).unwrap();
            assert_eq!(shaped, (0, None, key.map(<[u8]>::to_vec), None));
        }
    }
}

#[test]
fn values_are_what_the_format_says() {
    let with = |format| KafkaSink {
        format,
        ..settings()
    };
    let bytes = batch(None, Some(b"\"\xff\""), NO_TIME);
    assert!(shape(&with(KafkaFormat::Raw), &bytes).is_ok());
    refused(&with(KafkaFormat::Text), &bytes, &["UTF-8 at byte 2"]);
    refused(&with(KafkaFormat::Json), &bytes, &["UTF-8 at byte 2"]);
    assert!(shape(&with(KafkaFormat::Text), &value("{")).is_ok());
    refused(&with(KafkaFormat::Json), &value("{"), &["not valid JSON"]);
    refused(&with(KafkaFormat::Json), &value(""), &["not valid JSON"]);
    assert!(shape(&with(KafkaFormat::Json), &value(" {\"a\": 1}\n")).is_ok());
    // A deletion is one in every format.
    for format in [KafkaFormat::Raw, KafkaFormat::Text, KafkaFormat::Json] {
        assert!(shape(&with(format), &batch(Some(b"k"), None, NO_TIME)).is_ok());
    }
}

#[test]
fn topics_are_named_by_a_field_and_only_allowed_ones() {
    let settings = KafkaSink {
        topic: KafkaTopic::Field {
            field: "/to".to_owned(),
            allowed: vec!["a".to_owned(), "b".to_owned()],
        },
        ..settings()
    };
    assert_eq!(shape(&settings, &value("{\"to\":\"b\"}")).unwrap().0, 1);
    assert_eq!(
        shape(&settings, &value("{\"to\":\"\\u0061\"}")).unwrap().0,
        0
    );
    let long = format!("{{\"to\":\"{}\"}}", "x".repeat(100));
    for (text, part) in [
        (
            "{\"to\":\"c\"}",
            "`c` (field `/to`) is not one of `allowed`",
        ),
        (&long, "x…` (field"),
        ("{}", "missing or null"),
        ("{\"to\":null}", "missing or null"),
        ("{\"to\":[]}", "array or object"),
        ("no", "not valid JSON"),
    ] {
        refused(&settings, &value(text), &[part]);
    }
    refused(&settings, &batch(None, None, NO_TIME), &["no value"]);
}

#[test]
fn keys_are_the_records_or_made_of_values_or_none() {
    let with = |key| KafkaSink { key, ..settings() };
    let key = |settings: &KafkaSink, text| shape(settings, &value(text)).unwrap().2;
    assert_eq!(key(&with(KafkaKey::None), "{}"), None);
    let one = with(KafkaKey::Selected(KeySelector::Pointer("/a".to_owned())));
    assert_eq!(key(&one, "{\"a\":\"x\"}"), Some(b"x".to_vec()));
    assert_eq!(key(&one, "{\"a\":null}"), None);
    let two = KeySelector::Pointers(vec!["/a".to_owned(), "/b".to_owned()]);
    let two = with(KafkaKey::Selected(two));
    assert_eq!(key(&two, "{\"a\":1}"), Some(b"[1,null]".to_vec()));
    refused(&one, &value("{\"a\":{}}"), &["key", "array or object"]);
    refused(&one, &batch(None, None, NO_TIME), &["no value"]);
}

#[test]
fn partitions_are_by_field_explicit_or_sticky() {
    let with = |partition| KafkaSink {
        partition,
        ..settings()
    };
    let by_field = with(KafkaPartition::Field("/p".to_owned()));
    let by_key = partition::of_key(b"21", 4);
    for text in ["{\"p\":\"21\"}", "{\"p\":21}"] {
        assert_eq!(shape(&by_field, &value(text)).unwrap().1, Some(by_key));
    }
    refused(&by_field, &value("{}"), &["partition (field `/p`)"]);
    let explicit = with(KafkaPartition::Explicit("/p".to_owned()));
    assert_eq!(shape(&explicit, &value("{\"p\":3}")).unwrap().1, Some(3));
    assert_eq!(
        shape(&explicit, &value("{\"p\":\"0\"}")).unwrap().1,
        Some(0)
    );
    for text in ["4", "-1", "1.0", "\"x\"", "99999999999"] {
        let text = format!("{{\"p\":{text}}}");
        refused(&explicit, &value(&text), &["not one of 0 to 3"]);
    }
}

#[test]
fn a_sticky_partition_takes_a_batch_and_then_another_one_does() {
    let settings = KafkaSink {
        partition: KafkaPartition::Sticky,
        ..settings()
    };
    let topics = [OutputTopic {
        max_bytes: 1 << 20,
        ..topic("out")
    }];
    let mut shaper = Shaper::new(&settings, &topics, 3);
    let large = value(&"x".repeat(STICKY_BYTES / 2));
    let mut next = || {
        let shaped = shaper.record(&topics, &large, 0).unwrap();
        shaped.partition
    };
    let seen: Vec<_> = (0..5).map(|_| next().unwrap()).collect();
    assert_eq!(seen, [3, 3, 0, 0, 1]);
    shaper.rotate();
    shaper.rotate();
    assert_eq!(
        shaper.record(&topics, &large, 0).unwrap().partition,
        Some(2),
        "an idle moment is one change, however long it lasts"
    );
}

#[test]
fn timestamps_are_those_that_kafka_takes() {
    let at = |time| batch(None, Some(b"x"), time);
    assert_eq!(shape(&settings(), &at(1)).unwrap().3, Some(1));
    assert_eq!(shape(&settings(), &at(i64::MAX)).unwrap().3, Some(i64::MAX));
    for time in [0, -1, i64::MIN + 1] {
        refused(
            &settings(),
            &at(time),
            &["before 1970", "timestamp: written"],
        );
    }
    let written = KafkaSink {
        timestamp: KafkaTimestamp::Written,
        ..settings()
    };
    for time in [NO_TIME, 0, -1, 5] {
        assert_eq!(shape(&written, &at(time)).unwrap().3, None);
    }
    let topics = [OutputTopic {
        ahead: Some(std::time::Duration::from_secs(60)),
        ..topic("out")
    }];
    let mut shaper = Shaper::new(&settings(), &topics, 0);
    shaper.begin(NOW);
    assert!(shaper.record(&topics, &at(NOW + 60_000), 0).is_ok());
    let what = shaper.record(&topics, &at(NOW + 60_001), 0).unwrap_err();
    assert!(what.contains("(60 s)"), "{what}");
    assert_eq!(
        shaper
            .letter(&topics, &at(NOW + 60_001), 0)
            .unwrap()
            .timestamp,
        None,
        "a dead letter is written all the same"
    );
}

fn with_headers(headers: &[Header<'_>]) -> Batch {
    let mut batch = Batch::default();
    let headers = headers.iter().copied();
    batch.push_with_headers(None, 0, Some(b"v"), headers, NO_TIME, Origin::NONE);
    batch
}

fn written(settings: &KafkaSink, batch: &Batch) -> Vec<(String, Option<Vec<u8>>)> {
    let topics = [topic("out")];
    let mut shaper = Shaper::new(settings, &topics, 0);
    let shaped = shaper.record(&topics, batch, 0).unwrap();
    let headers = shaped.headers;
    headers.map_or(Vec::new(), |headers| {
        let all = headers.iter();
        all.map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec)))
            .collect()
    })
}

#[test]
fn headers_are_passed_on_with_repeated_null_and_empty_ones() {
    let own: [Header<'_>; 5] = [
        (b"a", Some(b"1")),
        (b"a", None),
        (b"", Some(b"")),
        (b"a", Some(b"\xff\0")),
        (b"b", None),
    ];
    let expected: Vec<_> = own
        .iter()
        .map(|(name, value)| {
            let name = String::from_utf8(name.to_vec()).unwrap();
            (name, value.map(<[u8]>::to_vec))
        })
        .collect();
    let batch = with_headers(&own);
    assert_eq!(written(&settings(), &batch), expected);
    let mut adding = KafkaSink {
        headers: vec![("a".to_owned(), "added".to_owned())],
        ..settings()
    };
    let added = ("a".to_owned(), Some(b"added".to_vec()));
    let both = [&expected[..], std::slice::from_ref(&added)].concat();
    assert_eq!(written(&adding, &batch), both);
    adding.forward_headers = false;
    assert_eq!(written(&adding, &batch), [added]);
    let bad = with_headers(&[(b"\xfe", None)]);
    refused(&settings(), &bad, &["header `\\xfe` is not UTF-8"]);
    adding.forward_headers = false;
    assert!(shape(&adding, &bad).is_ok(), "it is not written");
}

#[test]
fn a_record_is_as_large_as_kafka_says() {
    // Attributes, two deltas and the number of headers a byte each, a null key and a value with a byte of length.
    assert_eq!(size(None, Some(b"x"), [].into_iter(), &[]), 61 + 1 + 7);
    // A length of 64 takes two bytes.
    let value = [b'x'; 64];
    assert_eq!(size(None, Some(&value), [].into_iter(), &[]), 61 + 2 + 71);
    let own: [Header<'_>; 1] = [(b"ab", None)];
    let added = [("c".to_owned(), "de".to_owned())];
    assert_eq!(
        size(Some(b"k"), None, own.into_iter(), &added),
        61 + 1 + 3 + 2 + 1 + 1 + (3 + 1) + (2 + 3)
    );
}

#[test]
fn what_is_too_large_is_refused_with_key_size_and_limit() {
    let fitting = batch(None, Some(&[b'x'; 1_000 - 61 - 2 - 7]), NO_TIME);
    assert!(shape(&settings(), &fitting).is_ok());
    let key = [&[b'\n'; 1][..], &[b'k'; 100]].concat();
    let large = batch(Some(&key), Some(&[b'x'; 2_000]), NO_TIME);
    refused(
        &settings(),
        &large,
        &[
            "with 2172 bytes",
            "`\\nkkk",
            "k…`",
            "topic `out` takes, 1000 bytes",
        ],
    );
    let null = batch(None, Some(&[b'x'; 2_000]), NO_TIME);
    refused(&settings(), &null, &["(key: none)"]);
}

#[test]
fn dead_letters_are_written_as_they_are() {
    let settings = KafkaSink {
        format: KafkaFormat::Json,
        key: KafkaKey::None,
        partition: KafkaPartition::Explicit("/p".to_owned()),
        forward_headers: false,
        ..settings()
    };
    let topics = [topic("out")];
    let mut shaper = Shaper::new(&settings, &topics, 0);
    let mut letter = Batch::default();
    let headers: [Header<'_>; 1] = [(b"weir.job", Some(b"j"))];
    letter.push_with_headers(Some(b"k"), 1, Some(b"\xff"), headers, -7, Origin::NONE);
    let shaped = shaper.letter(&topics, &letter, 0).unwrap();
    assert_eq!(shaped.key, Some(&b"k"[..]));
    assert_eq!((shaped.partition, shaped.timestamp), (None, None));
    assert_eq!(shaped.headers.unwrap().count(), 1);
}
