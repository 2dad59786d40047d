//! A Kafka source reads each record of each partition once, from where it is told to where it is told, and stops by name where it cannot.

use std::time::Duration;

use rdkafka::producer::{BaseProducer, Producer};
use weir::source::SplitState;
use weir_tests::kafka::{Isolation, Record};

use crate::fixture::Scene;
use crate::reading::{Seen, discover, job, open, refused, resume, start};

fn records(partition: i32, numbers: std::ops::Range<usize>) -> Vec<Record> {
    numbers
        .map(|n| Record::to(partition).value(format!("{partition}/{n}")))
        .collect()
}

fn texts(partition: i32, numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|n| format!("{partition}/{n}")).collect()
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort_unstable();
    texts
}

fn next(split: &SplitState) -> i64 {
    split.position["next"].as_i64().expect("a number")
}

#[test]
fn null_and_empty_keys_values_and_headers_arrive_as_they_were_written() {
    let scene = Scene::new("bytes");
    scene.topics.create("t", 1);
    let contents = [None, Some(Vec::new()), Some(b"\x00\xff\n".to_vec())];
    let mut written = Vec::new();
    for key in &contents {
        for value in &contents {
            written.push(Record {
                partition: 0,
                offset: written.len() as i64,
                key: key.clone(),
                value: value.clone(),
                headers: vec![
                    ("trace".to_owned(), Some(b"\xfe".to_vec())),
                    ("trace".to_owned(), None),
                    (String::new(), Some(Vec::new())),
                ],
                time: Some(1_700_000_000_000 + written.len() as i64),
            });
        }
    }
    scene.topics.produce("t", &written);
    scene.topics.produce("t", &[Record::to(0).value("bare")]);
    let job = job(&scene, "topic: <t>, stop: latest", "");
    let (mut reader, mut seen) = (start(&job), Seen::default());
    seen.read_all(&mut *reader).unwrap();
    assert_eq!(seen.rows.len(), 10);
    for (row, record) in seen.rows.iter().zip(&written) {
        assert_eq!((&row.key, &row.value), (&record.key, &record.value));
        assert_eq!(
            (row.time, row.offset),
            (record.time.unwrap(), record.offset as u64)
        );
        let headers: Vec<_> = record
            .headers
            .iter()
            .map(|(name, contents)| (name.clone().into_bytes(), contents.clone()))
            .collect();
        assert_eq!(row.headers, headers);
    }
    assert_eq!(seen.rows[9].headers, []);
    assert_eq!(seen.events, ["open 0", "done 0"]);
    assert_eq!(reader.share(), Some((10, 10)));
    assert!(reader.splits()[0].done && reader.splits()[0].is_begun());
}

#[test]
fn a_bounded_read_ends_behind_control_records_and_aborted_transactions() {
    let scene = Scene::new("control");
    scene.topics.create("t", 1);
    let long = Duration::from_secs(30);
    let producer: BaseProducer = scene
        .topics
        .broker()
        .client()
        .set("transactional.id", scene.topics.name("id"))
        .create()
        .unwrap();
    producer.init_transactions(long).unwrap();
    for (n, commit) in [(0, true), (1, false), (2, true), (3, false)] {
        producer.begin_transaction().unwrap();
        for record in records(0, n * 10..n * 10 + 10) {
            record.send(&producer, &scene.topics.name("t")).unwrap();
        }
        if commit {
            producer.commit_transaction(long).unwrap();
        } else {
            producer.flush(long).unwrap();
            producer.abort_transaction(long).unwrap();
        }
    }
    let end = scene.topics.offsets("t", Isolation::Committed)[0].1;
    assert_eq!(end, 44, "40 records and 4 ends of transactions");
    let committed = job(&scene, "topic: <t>, stop: latest", "");
    let (mut reader, mut seen) = (start(&committed), Seen::default());
    seen.read_all(&mut *reader).unwrap();
    assert_eq!(seen.texts(), [texts(0, 0..10), texts(0, 20..30)].concat());
    assert_eq!(next(&reader.splits()[0]), 44);
    // Begun at the last record's successor, which is no record.
    let at_the_end = job(
        &scene,
        "topic: <t>, start: {offsets: {<t>: {0: 32}}}, stop: latest",
        "",
    );
    let (mut reader, mut seen) = (start(&at_the_end), Seen::default());
    seen.read_all(&mut *reader).unwrap();
    assert_eq!((seen.rows.len(), next(&reader.splits()[0])), (0, 44));
    let uncommitted = job(
        &scene,
        "topic: <t>, stop: latest, isolation: read-uncommitted",
        "",
    );
    let (mut reader, mut seen) = (start(&uncommitted), Seen::default());
    seen.read_all(&mut *reader).unwrap();
    assert_eq!(seen.texts(), texts(0, 0..40));
}

#[test]
fn topics_that_are_missing_are_all_named_and_none_is_created() {
    let scene = Scene::new("missing");
    scene.topics.create("there", 1);
    let job = job(&scene, "topics: [<gone>, <there>, <mistyped>]", "");
    let message = refused(discover(&job), "W0604");
    for part in ["gone`", "mistyped`", "creates no topic"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(!message.contains("there`"), "{message}");
    assert_eq!(scene.topics.partitions("gone"), 0);
    let none = crate::reading::job(&scene, "topics: {pattern: '<nothing>.*'}", "");
    assert!(refused(discover(&none), "W0604").contains("no topic"));
}

#[test]
fn reading_begins_where_it_is_told() {
    let scene = Scene::new("starts");
    scene.topics.create("t", 2);
    let timed = |n: i64| {
        Record::to(0)
            .value(format!("{n}"))
            .at(1_700_000_000_000 + n * 1_000)
    };
    scene
        .topics
        .produce("t", &(0..10).map(timed).collect::<Vec<_>>());
    let nexts = |start: &str| -> Vec<i64> {
        let job = job(&scene, &format!("topic: <t>, start: {start}"), "");
        discover(&job)
            .unwrap_or_else(|error| panic!("{start}: {error}"))
            .iter()
            .map(next)
            .collect()
    };
    assert_eq!(nexts("earliest"), [0, 0]);
    assert_eq!(nexts("latest"), [10, 0]);
    assert_eq!(nexts("{timestamp: 2023-11-14T22:13:24Z}"), [4, 0]);
    assert_eq!(nexts("{timestamp: 2033-11-14T22:13:24Z}"), [10, 0]);
    assert_eq!(nexts("{offsets: {<t>: {0: 7, 1: 0}}}"), [7, 0]);
    assert_eq!(nexts("{committed: {otherwise: latest}}"), [10, 0]);
    let told = |start: &str, code| {
        let job = job(&scene, &format!("topic: <t>, start: {start}"), "");
        refused(discover(&job), code)
    };
    assert!(told("committed", "W0604").contains("has no position in"));
    assert!(told("{offsets: {<t>: {0: 7}}}", "W0604").contains("every partition"));
    assert!(told("{offsets: {<t>: {0: 7, 1: 0, 2: 0}}}", "W0604").contains("partition 2"));
    let beyond = told("{offsets: {<t>: {0: 11, 1: 0}}}", "W0603");
    assert!(
        beyond.contains("from offset 11") && beyond.contains("offset 10"),
        "{beyond}"
    );
}

#[test]
fn positions_are_committed_to_the_group_and_begun_at() {
    let scene = Scene::new("group");
    scene.topics.create("t", 1);
    scene.topics.produce("t", &records(0, 0..10));
    let first = job(&scene, "topic: <t>", "");
    let (mut reader, mut seen) = (
        start(&first),
        Seen {
            room: 6,
            ..Seen::default()
        },
    );
    seen.read(&mut *reader, 6).unwrap();
    let offsets = weir::source::GroupOffsets::new(&first);
    offsets.committed("in", &reader.splits());
    drop(offsets);
    let group = scene.topics.name("group");
    let committed = weir_tests::kafka::groups::committed(
        scene.topics.broker(),
        &group,
        &scene.topics.name("t"),
    );
    assert_eq!(committed.into_iter().collect::<Vec<_>>(), [(0, 6)]);
    let second = job(&scene, "topic: <t>, start: committed, stop: latest", "");
    let (mut reader, mut seen) = (start(&second), Seen::default());
    seen.read_all(&mut *reader).unwrap();
    assert_eq!(seen.texts(), texts(0, 6..10));
}

#[test]
fn a_position_that_retention_has_removed_is_a_named_gap_unless_a_policy_says_otherwise() {
    let scene = Scene::new("gap");
    scene.topics.create("t", 1);
    scene.topics.produce("t", &records(0, 0..20));
    let by = |on_gap: &str| {
        job(
            &scene,
            &format!("topic: <t>, on_gap: {on_gap}, discover: never"),
            "",
        )
    };
    let (mut reader, mut seen) = (
        start(&by("fail")),
        Seen {
            room: 5,
            ..Seen::default()
        },
    );
    seen.read(&mut *reader, 5).unwrap();
    let splits = reader.splits();
    drop(reader);
    scene.topics.delete_records("t", 0, 12);
    let message = refused(resume(&by("fail"), splits.clone()), "W0603");
    for part in ["from offset 5", "left is 12", "on_gap: earliest"] {
        assert!(message.contains(part), "{message}");
    }
    let (latest, warnings) = resume(&by("latest"), splits.clone()).unwrap();
    assert_eq!((next(&latest[0]), warnings.len()), (20, 1));
    let (earliest, warnings) = resume(&by("earliest"), splits.clone()).unwrap();
    assert!(warnings[0].contains("going on from 12"), "{warnings:?}");
    // It comes to be while the job starts: the reader finds it.
    let mut reader = open(&by("fail"), &splits, 1).remove(0);
    let message = refused(Seen::default().read(&mut *reader, 1), "W0603");
    assert!(message.contains("left is 12"), "{message}");
    scene.topics.delete_records("t", 0, 15);
    let (mut reader, mut seen) = (
        open(&by("earliest"), &earliest, 1).remove(0),
        Seen::default(),
    );
    seen.read(&mut *reader, 5).unwrap();
    assert_eq!(seen.texts(), texts(0, 15..20));
    assert_eq!(seen.rows[0].offset, 15);
}

#[test]
fn a_topic_that_was_created_again_stops_the_job_by_both_ids() {
    let scene = Scene::new("recreated");
    scene.topics.create("t", 1);
    scene.topics.produce("t", &records(0, 0..5));
    let job = job(&scene, "topic: <t>, discover: 100ms", "");
    let (mut reader, mut seen) = (start(&job), Seen::default());
    seen.read(&mut *reader, 5).unwrap();
    let splits = reader.splits();
    let old = splits[0].position["topic_id"].as_str().unwrap().to_owned();
    scene.topics.recreate("t", 1);
    scene.topics.produce("t", &records(0, 0..3));
    let now = discover(&job).unwrap()[0].position["topic_id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_ne!(old, now);
    let running = refused(seen.read(&mut *reader, usize::MAX), "W0603");
    let resumed = refused(resume(&job, splits), "W0603");
    for message in [running, resumed] {
        assert!(
            message.contains(&old) && message.contains(&now),
            "{message}"
        );
    }
    assert_eq!(seen.rows.len(), 5, "nothing of the new one was read");
}

#[test]
fn a_partition_that_appears_is_read_from_its_beginning_by_one_subtask() {
    let scene = Scene::new("appears");
    scene.topics.create("t", 1);
    scene.topics.produce("t", &records(0, 0..5));
    let job = job(&scene, "topic: <t>, start: latest, discover: 100ms", "");
    let splits = discover(&job).unwrap();
    let mut readers = open(&job, &splits, 2);
    let mut seen = [Seen::default(), Seen::default()];
    let read =
        |readers: &mut [Box<dyn weir::source::Reader>], seen: &mut [Seen; 2], until: usize| {
            for _ in 0..400 {
                for (reader, seen) in readers.iter_mut().zip(&mut *seen) {
                    seen.watch(&mut **reader, Duration::from_millis(10))
                        .unwrap();
                }
                if seen.iter().map(|it| it.rows.len()).sum::<usize>() >= until {
                    break;
                }
            }
        };
    read(&mut readers, &mut seen, 0);
    scene.topics.grow("t", 4);
    scene.topics.produce(
        "t",
        &[records(1, 0..3), records(2, 0..3), records(3, 0..3)].concat(),
    );
    read(&mut readers, &mut seen, 9);
    let all = sorted(seen.iter().flat_map(Seen::texts).collect());
    assert_eq!(
        all,
        [texts(1, 0..3), texts(2, 0..3), texts(3, 0..3)].concat()
    );
    assert!(seen.iter().all(|it| !it.rows.is_empty()), "{seen:#?}");
    let mut recorded: Vec<SplitState> = readers.iter().flat_map(|it| it.splits()).collect();
    let mut numbers: Vec<u32> = recorded.iter().map(|it| it.split).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 4, "{recorded:#?}");
    drop(readers);
    // One that appears while the job is down; and another parallelism.
    scene.topics.grow("t", 5);
    scene
        .topics
        .produce("t", &[records(4, 0..3), records(0, 5..6)].concat());
    recorded.reverse();
    let (splits, warnings) = resume(&job, recorded).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    let numbers: Vec<u32> = splits.iter().map(|it| it.split).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
    let (mut reader, mut seen) = (open(&job, &splits, 1).remove(0), Seen::default());
    seen.read(&mut *reader, 4).unwrap();
    seen.watch(&mut *reader, Duration::from_millis(300))
        .unwrap();
    assert_eq!(
        sorted(seen.texts()),
        [texts(0, 5..6), texts(4, 0..3)].concat()
    );
}

#[test]
fn topics_of_a_pattern_may_come_and_go() {
    let scene = Scene::new("pattern");
    scene.topics.create("orders-a", 1);
    scene.topics.create("other", 1);
    scene.topics.produce("orders-a", &records(0, 0..2));
    scene.topics.produce("other", &records(9, 0..0));
    let job = job(
        &scene,
        "topics: {pattern: '<orders>-.*'}, discover: 100ms",
        "",
    );
    let (mut reader, mut seen) = (start(&job), Seen::default());
    seen.read(&mut *reader, 2).unwrap();
    scene.topics.create("orders-b", 1);
    scene.topics.produce("orders-b", &records(0, 7..9));
    seen.read(&mut *reader, 4).unwrap();
    assert_eq!(seen.texts()[2..], texts(0, 7..9));
    assert_eq!(seen.found, [format!("{}-0", scene.topics.name("orders-b"))]);
    scene.topics.delete("orders-a");
    seen.until(&mut *reader, "done", |seen| {
        seen.events.contains(&"done 0".to_owned())
    })
    .unwrap();
    let splits = reader.splits();
    drop(reader);
    let (splits, warnings) = resume(&job, splits).unwrap();
    assert_eq!(splits.len(), 2);
    assert!(warnings[0].contains("no longer there"), "{warnings:?}");
}

#[test]
fn a_partition_without_records_is_idle_by_itself_and_says_so_once() {
    let scene = Scene::new("idle");
    scene.topics.create("t", 2);
    let timed = |n: i64| Record::to(0).value(format!("{n}")).at(1_000 + n);
    scene.topics.produce("t", &[timed(0)]);
    let job = job(
        &scene,
        "topic: <t>",
        ", event_time: {out_of_order: 1s, idle: 300ms}",
    );
    let (mut reader, mut seen) = (start(&job), Seen::default());
    seen.until(&mut *reader, "idle", |seen| {
        seen.events.contains(&"idle 1".to_owned())
    })
    .unwrap();
    for n in 1..20 {
        scene.topics.produce("t", &[timed(n)]);
        seen.watch(&mut *reader, Duration::from_millis(30)).unwrap();
    }
    let idle = |split: &str| seen.events.iter().filter(|it| *it == split).count();
    assert_eq!(idle("idle 1"), 1, "{:?}", seen.events);
    assert!(idle("idle 0") <= 2, "{:?}", seen.events);
    assert_eq!(seen.rows[3].time, 1_003);
    seen.watch(&mut *reader, Duration::from_millis(200))
        .unwrap();
    assert_eq!(reader.lag(), Some(0));
}

#[test]
fn what_is_no_record_is_told_by_topic_partition_and_offset() {
    let scene = Scene::new("bad");
    scene.topics.create("t", 1);
    let good = |n: usize| Record::to(0).key("k").value(format!("{{\"id\":\"i{n}\"}}"));
    let bad = Record::to(0)
        .key("k")
        .value("{oops")
        .header("h", Some(b"x"));
    let tombstone = Record::to(0).key("dead");
    scene
        .topics
        .produce("t", &[good(0), bad, tombstone, good(3)]);
    let by = |more: &str| job(&scene, "topic: <t>, stop: latest, format: json", more);
    let (mut reader, mut seen) = (start(&by("")), Seen::default());
    let message = refused(seen.read_all(&mut *reader), "W0602");
    let spot = format!("{}-0 offset 1", scene.topics.name("t"));
    assert!(
        message.contains(&spot) && message.contains("on_error"),
        "{message}"
    );
    assert_eq!(next(&reader.splits()[0]), 1);
    let (mut reader, mut seen) = (start(&by(", on_error: skip, key: /id")), Seen::default());
    seen.read_all(&mut *reader).unwrap();
    let keys: Vec<_> = seen.rows.iter().map(|it| it.key.clone()).collect();
    assert_eq!(keys, [Some(b"i0".to_vec()), None, Some(b"i3".to_vec())]);
    assert_eq!(seen.rows[1].value, None);
    assert!(seen.events.contains(&"skip 0".to_owned()));
    let (mut reader, mut seen) = (
        start(&by(", on_error: {dead_letter: bad}")),
        Seen::default(),
    );
    seen.read_all(&mut *reader).unwrap();
    let letter = &seen.letters[0];
    assert_eq!(letter["topic"], scene.topics.name("t"));
    assert_eq!(
        (&letter["offset"], &letter["key"], &letter["value"]),
        (&1.into(), &"k".into(), &"{oops".into())
    );
    assert_eq!(seen.rows[1].key.as_deref(), Some(&b"dead"[..]));
}

#[test]
fn a_record_larger_than_what_is_read_ahead_is_read() {
    let scene = Scene::new("large");
    scene
        .topics
        .create_with("t", 1, &[("max.message.bytes", "20000000")]);
    let large = vec![b'x'; 12_000_000];
    let producer: BaseProducer = scene
        .topics
        .broker()
        .client()
        .set("message.max.bytes", "20000000")
        .create()
        .unwrap();
    Record::to(0)
        .value(large.clone())
        .send(&producer, &scene.topics.name("t"))
        .unwrap();
    producer.flush(Duration::from_secs(30)).unwrap();
    scene.topics.produce("t", &records(0, 1..3));
    let job = job(&scene, "topic: <t>, stop: latest", "");
    let (mut reader, mut seen) = (start(&job), Seen::default());
    seen.read_all(&mut *reader).unwrap();
    assert_eq!(seen.rows.len(), 3);
    assert!(seen.rows[0].value.as_ref() == Some(&large));
}
