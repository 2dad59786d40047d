use proptest::prelude::*;

use super::*;
use crate::source::assign;
use crate::source::collected::Collected;

fn settings(records: u64, splits: u32) -> Generator {
    Generator {
        records: Some(records),
        keys: 10,
        value_bytes: 100,
        splits,
        start: 1_000,
        step_micros: 500,
        disorder: 0,
    }
}

fn id() -> NodeId {
    NodeId::new("made").unwrap()
}

fn open(settings: &Generator, splits: Vec<SplitState>) -> Sequence {
    Sequence::open(&id(), settings, splits, 3).unwrap()
}

fn all(settings: &Generator) -> Collected {
    let mut seen = Collected::default();
    seen.read_all(&mut open(settings, discover(&id(), settings).unwrap()))
        .unwrap();
    seen
}

#[test]
fn records_are_frozen() {
    let seen = all(&settings(4, 2));
    let rows: Vec<_> = seen
        .rows
        .iter()
        .map(|row| (row.key.as_deref().unwrap(), row.time, row.origin.unwrap()))
        .collect();
    assert_eq!(
        rows,
        [
            ("k5", 1_000, (3, 1)),
            ("k5", 1_000, (4, 1)),
            ("k0", 1_001, (3, 2)),
            ("k3", 1_001, (4, 2))
        ]
    );
    let pad = "x".repeat(100 - r#"{"n":0,"key":"k5","pad":""}"#.len());
    assert_eq!(
        seen.rows[0].text(),
        format!(r#"{{"n":0,"key":"k5","pad":"{pad}"}}"#)
    );
    assert_eq!(seen.events, ["open 0", "open 1", "done 0", "done 1"]);
}

#[test]
fn values_have_the_length_asked_for_and_are_json() {
    for value_bytes in 16..60 {
        let seen = all(&Generator {
            value_bytes,
            keys: 1_000,
            ..settings(200, 1)
        });
        for (i, row) in seen.rows.iter().enumerate() {
            assert_eq!(row.value.len(), value_bytes);
            let value: serde_json::Value = serde_json::from_slice(&row.value).unwrap();
            assert_eq!(value["n"], i);
            if value_bytes >= 22 {
                assert_eq!(value["key"].as_str(), row.key.as_deref());
            }
        }
    }
}

#[test]
fn settings_that_cannot_work_are_refused_by_name() {
    for (bad, part) in [
        (
            Generator {
                value_bytes: 8,
                ..settings(1_000, 1)
            },
            "may take 9",
        ),
        (
            Generator {
                value_bytes: 25,
                records: None,
                ..settings(0, 1)
            },
            "may take 26",
        ),
        (
            Generator {
                value_bytes: MAX_RECORD_BYTES,
                ..settings(1, 1)
            },
            "`value_bytes` is 67108864",
        ),
        (
            Generator {
                keys: 0,
                ..settings(1, 1)
            },
            "`keys`",
        ),
        (settings(1, 0), "`splits`"),
    ] {
        for error in [
            discover(&id(), &bad).unwrap_err(),
            Sequence::open(&id(), &bad, Vec::new(), 0).unwrap_err(),
        ] {
            assert_eq!(error.code(), "W0604");
            assert!(
                error.to_string().contains(part) && error.to_string().contains("`made`"),
                "{error}"
            );
        }
    }
}

#[test]
fn a_changed_deal_is_refused() {
    let splits = discover(&id(), &settings(10, 2)).unwrap();
    for (changed, part) in [
        (settings(10, 3), "`splits` at 2, now it is 3"),
        (settings(11, 2), "`records` at 10, now it is 11"),
        (
            Generator {
                records: None,
                ..settings(1, 2)
            },
            "`records` at 10, now it is no limit",
        ),
    ] {
        let error = resume(&id(), &changed, &splits).unwrap_err();
        assert_eq!(error.code(), "W0603");
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(resume(&id(), &settings(10, 2), &splits).unwrap(), [""; 0]);
}

#[test]
fn more_splits_than_records_end_at_once() {
    let seen = all(&settings(2, 5));
    assert_eq!(seen.rows.len(), 2);
    assert_eq!(
        seen.events
            .iter()
            .filter(|event| event.starts_with("done"))
            .count(),
        5
    );
}

#[test]
fn times_never_wrap() {
    let far = Generator {
        start: i64::MAX - 1,
        step_micros: u64::MAX,
        ..settings(3, 1)
    };
    assert!(all(&far).rows.iter().all(|row| row.time >= i64::MAX - 1));
    let early = Generator {
        start: i64::MIN,
        disorder: u64::MAX,
        ..settings(50, 1)
    };
    assert!(all(&early).rows.iter().all(|row| row.time > NO_TIME));
}

#[test]
fn disorder_stays_within_its_bound_and_happens() {
    let seen = all(&Generator {
        disorder: 20,
        ..settings(1_000, 2)
    });
    let back: Vec<i64> = seen
        .rows
        .iter()
        .zip(0..)
        .map(|(row, i)| 1_000 + i / 2 - row.time)
        .collect();
    assert_eq!(
        (back.iter().min(), back.iter().max()),
        (Some(&0), Some(&20))
    );
}

#[test]
fn share_counts_records() {
    let settings = settings(11, 3);
    let mut reader = open(&settings, discover(&id(), &settings).unwrap());
    let mut seen = Collected::default();
    assert_eq!(reader.share(), Some((0, 11)));
    seen.read(&mut reader, 4).unwrap();
    assert_eq!(reader.share(), Some((4, 11)));
    seen.read_all(&mut reader).unwrap();
    assert_eq!(reader.share(), Some((11, 11)));
}

proptest! {
    /// Stopped anywhere and dealt again at another parallelism, the same records come, each once.
    #[test]
    fn resumes_at_any_parallelism(records in 0..60_u64, splits in 1..6_u32, stops in prop::collection::vec(0..20_usize, 1..4), parallelism in 1..4_usize) {
        let settings = settings(records, splits);
        let mut expected = all(&settings).rows;
        let mut states = discover(&id(), &settings).unwrap();
        let mut rows = Vec::new();
        for (round, stop) in stops.iter().chain([&usize::MAX]).enumerate() {
            let mut next = Vec::new();
            for (subtask, dealt) in assign(states, (parallelism + round) % 3 + 1).into_iter().enumerate() {
                let mut reader = open(&settings, dealt);
                let mut seen = Collected::default();
                // Subtasks at different paces.
                seen.read(&mut reader, stop.saturating_mul(subtask + 1)).unwrap();
                let numbers: Vec<u64> = seen.rows.iter().map(|row| {
                    serde_json::from_slice::<serde_json::Value>(&row.value).unwrap()["n"].as_u64().unwrap()
                }).collect();
                prop_assert!(numbers.is_sorted());
                rows.extend(seen.rows);
                next.extend(reader.splits());
            }
            states = next;
        }
        prop_assert!(states.iter().all(|split| split.done));
        rows.sort_by_key(|row| row.origin);
        expected.sort_by_key(|row| row.origin);
        prop_assert_eq!(rows, expected);
    }
}
