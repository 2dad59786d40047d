//! Snapshots and restores, at the same and at other parallelisms.

use super::*;
use crate::{Progress, RestoreFile, RestoreSummary};
use TimeDomain::Event;

/// An instance restored from these files.
fn restored(
    make: &Make,
    schema: Schema,
    range: GroupRange,
    files: &[Vec<u8>],
) -> Box<dyn KeyedState> {
    let mut state = make(schema, range, MAX_PARALLELISM);
    for (index, file) in files.iter().enumerate() {
        state
            .restore(&mut file.as_slice(), &format!("file {index}"))
            .unwrap();
    }
    state
}

fn whole() -> GroupRange {
    group_range(0, 1, MAX_PARALLELISM)
}

/// Something in every table, under many keys.
fn filled(make: &Make) -> Single {
    let mut single = Single::new(make);
    let keys: Vec<String> = (0..40).map(|key| format!("key\0{key}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    single.call(&keys, |call| {
        for key in 0..40 {
            let number = key.to_string();
            call.put(VALUE, &[key], &[Some(&number)]);
            call.put(BRIEF, &[key], &[Some("brief")]);
            call.append(ITEMS, &[key, key], &["x", &number]);
            call.put_entries(ENTRIES, key, &[("", Some("")), ("\0", Some(&number))]);
            call.set(EVENT, &[key, key], &[i64::from(key) - 10, i64::MIN]);
            call.set(PROCESSING, &[key], &[i64::MAX]);
        }
    });
    single
}

pub(crate) fn a_snapshot_is_frozen_when_it_is_taken(make: &Make) {
    let mut single = filled(make);
    let before = single.snapshot();
    single.state.begin_advance(Event, 100);
    single.fire(5).unwrap();
    single.put(VALUE, &[0], &[Some("open")]);
    let frozen = single.state.snapshot();
    single.state.discard();
    single.state.end_advance();
    let frozen_idle = single.state.snapshot();

    single.call(&["key\u{0}1", "new"], |call| {
        call.put(VALUE, &[0, 1], &[None, Some("new")]);
        call.state.clear(ENTRIES, at(&[0])).unwrap();
        call.set(EVENT, &[1], &[77]);
    });
    assert_eq!(single.state.drop_timers(TimeDomain::Processing), 40);
    let stats = single.state.stats();

    let mut file = Vec::new();
    let summary = frozen_idle.write(&mut file).unwrap();
    assert!(
        file == before,
        "what an open call did, and what came later, is not in it"
    );
    assert_eq!(
        (summary.entries, summary.timers, summary.bytes),
        (40 * 6, 40 * 3, file.len() as u64)
    );
    file.clear();
    frozen.write(&mut file).unwrap();
    let mut restored = make(schema(), whole(), MAX_PARALLELISM);
    assert_eq!(
        restored.restore(&mut file.as_slice(), "f").unwrap().advance,
        Some((Event, 100))
    );
    assert_eq!(
        restored.stats().timers,
        120,
        "the popped timers had not fired yet"
    );
    assert_eq!(single.state.stats(), stats);
}

pub(crate) fn state_and_timers_survive_any_parallelism(make: &Make) {
    let mut single = filled(make);
    let (original, stats) = (single.snapshot(), single.state.stats());
    let mut files = vec![original.clone()];
    for parallelism in [1, 3, 2, 16, 5, 1] {
        let ranges =
            (0..parallelism).map(|subtask| group_range(subtask, parallelism, MAX_PARALLELISM));
        let mut instances: Vec<_> = ranges
            .map(|range| restored(make, schema(), range, &files))
            .collect();
        let sum = |field: fn(&crate::Stats) -> u64| {
            instances
                .iter()
                .map(|state| field(&state.stats()))
                .sum::<u64>()
        };
        assert_eq!(
            (sum(|s| s.entries), sum(|s| s.timers), sum(|s| s.bytes)),
            (stats.entries, stats.timers, stats.bytes)
        );
        assert!(parallelism > 3 || instances.iter().all(|state| state.stats().entries > 0));
        files = instances
            .iter_mut()
            .map(|state| {
                let mut file = Vec::new();
                state.snapshot().write(&mut file).unwrap();
                file
            })
            .collect();
    }
    assert!(files == [original], "the same contents give the same bytes");

    let mut single = Single {
        state: restored(make, schema(), whole(), &files),
        now: 99,
    };
    single.call(&["key\u{0}7"], |call| {
        assert_eq!(
            (call.get(VALUE, &[0]), call.get(BRIEF, &[0])),
            (some(&["7"]), some(&["brief"]))
        );
        call.append(ITEMS, &[0], &["last"]);
        assert_eq!(call.items(ITEMS, 0), ["x", "7", "last"]);
        assert_eq!(call.scan(ENTRIES, 0, (None, None), true, 9), "\0=7 =");
    });
    single.now = 100;
    assert_eq!(single.look(BRIEF, "key\u{0}7"), None);
    let fired = single.advance(Event, -10);
    assert_eq!(fired.split(' ').count(), 41, "{fired}");
    assert!(fired.ends_with("key\u{0}0@-10"));
}

/// A snapshot's files and, last, its own, from those of all before it.
fn collected(state: &mut dyn KeyedState, files: &mut Vec<(u64, Vec<u8>)>) -> Vec<Vec<u8>> {
    let snapshot = loop {
        if let Progress::Done(snapshot) = state.advance_snapshot(50).unwrap() {
            break snapshot;
        }
    };
    let (id, needs) = (snapshot.id(), snapshot.needs().to_vec());
    let mut file = Vec::new();
    snapshot.write(&mut file).unwrap();
    files.push((id, file));
    let needed = |(known, _): &&(u64, Vec<u8>)| *known == id || needs.contains(known);
    let list: Vec<_> = files
        .iter()
        .filter(needed)
        .map(|(_, file)| file.clone())
        .collect();
    assert_eq!(list.len(), needs.len() + 1);
    list
}

fn read_all(state: &mut dyn KeyedState, list: &[Vec<u8>]) -> RestoreSummary {
    let mut readers: Vec<_> = list.iter().map(Vec::as_slice).collect();
    let files = readers.iter_mut().map(|reader| RestoreFile {
        reader,
        name: "a file",
    });
    state.restore_files(&mut files.collect::<Vec<_>>()).unwrap()
}

pub(crate) fn snapshots_build_on_durable_ones(make: &Make) {
    let mut single = filled(make);
    let mut files = Vec::new();
    single.state.freeze(5, None);
    collected(single.state.as_mut(), &mut files);
    // The second comes to nothing, so the third is based on the first as well.
    for (id, base, key) in [(6, 5, "key\u{0}1"), (9, 5, "key\u{0}2"), (10, 9, "new")] {
        single.call(&[key, "key\u{0}3"], |call| {
            call.put(VALUE, &[0, 1], &[Some(key), None]);
            call.append(ITEMS, &[0], &["more"]);
            call.state.clear(ITEMS, at(&[1])).unwrap();
            call.state.clear(ENTRIES, at(&[0])).unwrap();
            call.put_entries(ENTRIES, 0, &[("", Some(key))]);
            call.cancel(EVENT, &[1], &[-7]);
            call.set(OTHER_EVENT, &[0], &[id]);
        });
        single.state.begin_advance(Event, 20 - id);
        single.fire(3).unwrap();
        single.state.apply().unwrap();
        single.state.freeze(id as u64, Some(base));
        let (frozen, stats) = (single.state.next_timer(Event), single.state.stats());
        // What comes now is not in it.
        single.fire(2).unwrap();
        single.state.apply().unwrap();
        single.call(&["key\u{0}4", key], |call| {
            call.put(VALUE, &[0, 1], &[None, Some("later")]);
            call.append(ITEMS, &[0], &["later"]);
        });
        let list = collected(single.state.as_mut(), &mut files);
        if id == 6 {
            files.pop();
        }
        for parallelism in [1, 3, 16] {
            let mut sums = (0, 0);
            let mut next = None;
            for subtask in 0..parallelism {
                let range = group_range(subtask, parallelism, MAX_PARALLELISM);
                let mut state = make(schema(), range, MAX_PARALLELISM);
                let summary = read_all(state.as_mut(), &list);
                assert_eq!(summary.advance, Some((Event, 20 - id)));
                let held = state.stats();
                assert_eq!(
                    (summary.entries, summary.timers),
                    (held.entries, held.timers)
                );
                sums = (sums.0 + held.entries, sums.1 + held.timers);
                next = next.into_iter().chain(state.next_timer(Event)).min();
                let mut single = Single { state, now: 0 };
                if range.contains(crate::hash::key_group(
                    key_hash(key.as_bytes()),
                    MAX_PARALLELISM,
                )) {
                    assert_eq!(single.look(VALUE, key), Some(key.into()));
                    single.call(&[key], |call| {
                        assert_eq!(call.items(ITEMS, 0).last(), Some(&"more".into()));
                        let entries = call.scan(ENTRIES, 0, (None, None), false, 9);
                        assert_eq!(entries, format!("={key}"));
                    });
                }
            }
            assert_eq!((sums, next), ((stats.entries, stats.timers), frozen));
        }
    }
}

pub(crate) fn an_advance_goes_on_after_a_restore(make: &Make) {
    let mut single = Single::new(make);
    single.call(&["a"], |call| call.set(EVENT, &[0, 0], &[10, 15]));
    single.state.begin_advance(Event, 20);
    single.fire(1).unwrap();
    single.set(EVENT, &[0, 0], &[5, 18]);
    single.state.apply().unwrap();
    let file = single.snapshot();

    for parallelism in [1, 2] {
        let ranges =
            (0..parallelism).map(|subtask| group_range(subtask, parallelism, MAX_PARALLELISM));
        for range in ranges {
            let resume = || {
                let mut state = make(schema(), range, MAX_PARALLELISM);
                let summary = state.restore(&mut file.as_slice(), "f").unwrap();
                assert_eq!(summary.advance, Some((Event, 20)));
                assert_eq!(
                    (summary.groups, summary.skipped_groups, summary.timers),
                    if summary.groups == 1 {
                        (1, 0, 3)
                    } else {
                        (0, 1, 0)
                    }
                );
                (Single { state, now: 0 }, summary.groups == 1)
            };
            let (mut same, owns) = resume();
            assert_eq!(same.advance(Event, 20), if owns { "a@15 a@18" } else { "" });
            assert_eq!(same.advance(Event, 20), if owns { "a@5" } else { "" });
            // Had the watermark moved on, the one that waits would wait no longer.
            assert_eq!(
                resume().0.advance(Event, 21),
                if owns { "a@5 a@15 a@18" } else { "" }
            );
            assert_eq!(
                resume().0.advance(Event, 19),
                if owns { "a@15 a@18" } else { "" }
            );
        }
    }

    // A chain is as long after a restore as before it.
    let mut single = Single::new(make);
    single.call(&["a"], |call| call.set(EVENT, &[0], &[0]));
    for time in 0.. {
        single.state.begin_advance(Event, i64::MAX);
        assert_eq!(single.fire(1).unwrap().times, [time]);
        single.set(EVENT, &[0], &[time + 1]);
        let applied = single.state.apply();
        if time == i64::from(crate::MAX_TIMER_GENERATIONS) {
            assert!(matches!(applied, Err(Error::TimerGenerations { .. })));
            break;
        }
        applied.unwrap();
        if time % 100 == 0 {
            single = Single {
                state: restored(make, schema(), whole(), &[single.snapshot()]),
                now: 0,
            };
        }
    }
}

pub(crate) fn a_failed_restore_changes_nothing(make: &Make) {
    let file = filled(make).snapshot();
    let mut state = make(schema(), whole(), MAX_PARALLELISM);
    for damage in [file.len() - 1, file.len() / 2] {
        let mut damaged = file.clone();
        damaged[damage] ^= 1;
        assert!(matches!(
            state.restore(&mut damaged.as_slice(), "f"),
            Err(Error::Corrupt { .. })
        ));
        assert_eq!(
            (state.stats(), state.next_timer(Event)),
            (crate::Stats::default(), None)
        );
    }
    let summary = state.restore(&mut file.as_slice(), "f").unwrap();
    assert_eq!((summary.entries, summary.timers), (240, 120));
    assert_eq!(state.stats().entries, 240);

    // Groups of others are verified all the same.
    let mut state = make(
        schema(),
        group_range(15, 16, MAX_PARALLELISM),
        MAX_PARALLELISM,
    );
    let mut damaged = file.clone();
    damaged[file.len() / 2] ^= 1;
    assert!(matches!(
        state.restore(&mut damaged.as_slice(), "f"),
        Err(Error::Corrupt { .. })
    ));
}

pub(crate) fn a_group_is_restored_once(make: &Make) {
    let file = filled(make).snapshot();
    let mut state = make(schema(), whole(), MAX_PARALLELISM);
    state.restore(&mut file.as_slice(), "first").unwrap();
    let stats = state.stats();
    let again = state.restore(&mut file.as_slice(), "second").unwrap_err();
    assert_eq!(
        again.to_string(),
        "second: key group 0 was already restored from another file"
    );
    assert_eq!(state.stats(), stats);
    // A file of other groups, or of nothing, is no conflict.
    let empty = Single::new(make).snapshot();
    assert_eq!(
        state.restore(&mut empty.as_slice(), "empty").unwrap(),
        RestoreSummary::default()
    );
}

pub(crate) fn changed_declarations_are_refused_if_they_held_anything(make: &Make) {
    let file = filled(make).snapshot();
    let refusal = |max: u16, change: &dyn Fn(&mut Schema)| {
        let mut changed = schema();
        change(&mut changed);
        let mut state = make(changed, GroupRange { start: 0, end: max }, max);
        state
            .restore(&mut file.as_slice(), "f")
            .map(drop)
            .map_err(|error| error.to_string())
    };
    let refused = |change: &dyn Fn(&mut Schema), message: &str| {
        assert_eq!(
            refusal(MAX_PARALLELISM, change),
            Err(format!("f: {message}"))
        );
    };
    refused(
        &|s| s.states[0].name = "renamed".into(),
        "holds data of state `value`, which the operator does not declare",
    );
    refused(
        &|s| s.timers[0].name = "renamed".into(),
        "holds timers `event`, which the operator does not declare",
    );
    refused(
        &|s| s.states[1].kind = StateKind::Value,
        "state `items` is of kind items in the snapshot and value in the operator",
    );
    refused(
        &|s| s.states[2].version = 7,
        "state `entries` has schema version 1 in the snapshot and 7 in the operator",
    );
    refused(
        &|s| s.timers[2].domain = Event,
        "timer `processing` is in processing time in the snapshot and in event time in the operator",
    );
    assert_eq!(
        refusal(32, &|_| ()).unwrap_err(),
        "f: the snapshot was taken with max parallelism 16, the job has 32; it is fixed for a job's life"
    );

    // What never held anything may go or change; what is new starts empty; the order of
    // declarations is free.
    let shuffle = |s: &mut Schema| {
        s.states[6] = StateSpec {
            kind: StateKind::Items,
            version: 9,
            ..s.states[6].clone()
        };
        s.states.remove(4);
        s.timers.remove(1);
        s.states.push(StateSpec {
            name: "new".into(),
            ..s.states[0].clone()
        });
        s.states.reverse();
        s.timers.reverse();
    };
    refusal(MAX_PARALLELISM, &shuffle).unwrap();
    let mut changed = schema();
    shuffle(&mut changed);
    let of = |name: &str| {
        changed
            .states
            .iter()
            .position(|state| state.name == name)
            .unwrap() as u32
    };
    let mut single = Single {
        state: restored(make, changed.clone(), whole(), &[file]),
        now: 0,
    };
    single.call(&["key\u{0}7"], |call| {
        assert_eq!(
            (call.get(of("value"), &[0]), call.items(of("items"), 0)),
            (some(&["7"]), vec!["x".into(), "7".into()])
        );
        assert_eq!(call.get(of("new"), &[0]), [None]);
    });
    single.state.begin_advance(Event, i64::MAX);
    assert_eq!(
        single.fire(1).unwrap().timers,
        [1],
        "`event` comes second now"
    );
}

pub(crate) fn values_keep_the_expiry_they_were_written_with(make: &Make) {
    let file = filled(make).snapshot();
    for ttl in [
        None,
        Some(Ttl {
            millis: 1_000,
            renew_on_access: true,
        }),
    ] {
        let mut changed = schema();
        changed.states[BRIEF as usize].ttl = ttl;
        changed.states[VALUE as usize].ttl = ttl;
        let mut single = Single {
            state: restored(make, changed, whole(), std::slice::from_ref(&file)),
            now: 99,
        };
        let (first, second, third) = ("key\u{0}1", "key\u{0}2", "key\u{0}3");
        assert_eq!(single.look(BRIEF, first), Some("brief".into()));
        single.call(&[first, second], |call| {
            call.put(BRIEF, &[0], &[Some("rewritten")]);
            call.state.touch(BRIEF, at(&[1])).unwrap();
        });
        single.now = 100;
        assert_eq!(single.look(BRIEF, third), None);
        assert_eq!(single.look(BRIEF, second), ttl.map(|_| "brief".into()));
        single.now = 1_099;
        assert_eq!(
            single.look(BRIEF, first),
            if ttl.is_none() {
                Some("rewritten".into())
            } else {
                None
            }
        );
        assert_eq!(
            single.look(VALUE, first),
            Some("1".into()),
            "written when there was no TTL"
        );
    }

    // And what expires is cleaned up, though no state has a TTL any more.
    let mut changed = schema();
    changed.states.iter_mut().for_each(|state| state.ttl = None);
    let mut single = Single {
        state: restored(make, changed, whole(), &[file]),
        now: 100,
    };
    for _ in 0..100 {
        single.call(&["other"], |_| ());
    }
    assert_eq!(single.state.stats().entries, 200);
}
