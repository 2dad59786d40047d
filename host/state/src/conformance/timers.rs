//! When timers fire.

use super::*;
use crate::MAX_TIMER_GENERATIONS;
use TimeDomain::{Event, Processing};

pub(crate) fn timers_fire_in_order_and_no_key_twice_in_a_firing(make: &Make) {
    let mut single = Single::new(make);
    let keys = ["a", "b", "c"];
    let spaces: Column = ["n", "m", ""].into_iter().collect();
    single.call(&keys, |call| {
        call.set(OTHER_EVENT, &[0, 1], &[10, 10]);
        call.set(EVENT, &[0, 1, 2, 2, 1], &[10, 20, 5, 30, -7]);
        let at = Cells {
            keys: &[0, 0, 0],
            namespaces: Some(spaces.as_ref()),
        };
        call.state.set_timers(EVENT, at, &[10, 10, 10]).unwrap();
    });
    let mut expected: Vec<_> = [
        (10, "a", OTHER_EVENT, ""),
        (10, "b", OTHER_EVENT, ""),
        (10, "a", EVENT, ""),
        (20, "b", EVENT, ""),
        (5, "c", EVENT, ""),
        (30, "c", EVENT, ""),
        (-7, "b", EVENT, ""),
        (10, "a", EVENT, "n"),
        (10, "a", EVENT, "m"),
    ]
    .map(|(time, key, timer, space)| {
        (
            time,
            key_hash(key.as_bytes()),
            key.to_owned(),
            timer,
            space.to_owned(),
        )
    })
    .to_vec();
    expected.sort();
    expected.retain(|(time, ..)| *time <= 20);

    for limit in [1, 2, 100] {
        let mut fired = Vec::new();
        single.state.begin_advance(Event, 20);
        while let Some(firing) = single.fire(limit) {
            assert!((1..=limit).contains(&firing.len()) && !firing.is_empty());
            for row in 0..firing.len() {
                let key = names(&firing.keys)[row].clone();
                assert!(
                    !names(&firing.keys)[..row].contains(&key),
                    "a key twice in one firing"
                );
                assert_eq!(single.state.distinct().get(row), key.as_bytes());
                fired.push((
                    firing.times[row],
                    firing.hashes[row],
                    key,
                    firing.timers[row],
                    names(&firing.namespaces)[row].clone(),
                ));
            }
            assert_eq!(single.state.distinct_hashes(), firing.hashes);
            assert_eq!(
                single.state.index(),
                (0..firing.len() as u32).collect::<Vec<_>>()
            );
            // The prefix is the longest: it ends at the limit, at a repeated key or with the last
            // due timer.
            if let Some((_, _, next, ..)) = expected.get(fired.len()) {
                assert!(firing.len() == limit || names(&firing.keys).contains(next));
            }
            single.state.apply().unwrap();
        }
        single.state.end_advance();
        assert_eq!(fired, expected);
        assert_eq!(
            (single.state.stats().timers, single.state.next_timer(Event)),
            (1, Some(30))
        );
        single.call(&keys, |call| {
            for (time, _, key, timer, space) in &expected {
                let index = keys.iter().position(|known| known == key).unwrap() as u32;
                let spaces: Column = [space].into_iter().collect();
                let at = Cells {
                    keys: &[index],
                    namespaces: Some(spaces.as_ref()),
                };
                call.state.set_timers(*timer, at, &[*time]).unwrap();
            }
        });
    }
}

pub(crate) fn setting_is_idempotent_and_the_last_call_wins(make: &Make) {
    let mut single = Single::new(make);
    let empty: Column = [""].into_iter().collect();
    single.call(&["a", "b"], |call| {
        call.set(EVENT, &[0, 0, 1], &[5, 5, 6]);
        call.cancel(EVENT, &[1, 1], &[6, 7]);
        call.cancel(EVENT, &[0], &[8]);
        call.set(EVENT, &[0], &[8]);
        // No namespace is the empty one here.
        call.state
            .set_timers(
                EVENT,
                Cells {
                    keys: &[0],
                    namespaces: Some(empty.as_ref()),
                },
                &[5],
            )
            .unwrap();
    });
    single.call(&["a"], |call| {
        call.set(EVENT, &[0], &[5]);
        call.cancel(EVENT, &[0], &[8]);
        call.set(EVENT, &[0], &[8]);
    });
    assert_eq!(single.state.stats().timers, 2);
    single.open(&["a"]);
    single.cancel(EVENT, &[0], &[5]);
    single.set(EVENT, &[0], &[9]);
    single.state.discard();
    assert_eq!(single.advance(Event, 100), "a@5 a@8");
    assert_eq!(single.advance(Event, 100), "");
}

pub(crate) fn a_firing_can_cancel_what_has_not_fired(make: &Make) {
    let mut single = Single::new(make);
    single.call(&["a"], |call| {
        call.set(EVENT, &[0, 0, 0], &[5, 6, 7]);
        call.set(OTHER_EVENT, &[0], &[5]);
    });
    single.state.begin_advance(Event, 10);
    assert_eq!(fired(&single.fire(100).unwrap()), ["a@5"]);
    single.cancel(EVENT, &[0, 0], &[6, 5]);
    single.cancel(OTHER_EVENT, &[0], &[5]);
    single.state.apply().unwrap();
    assert_eq!(fired(&single.fire(100).unwrap()), ["a@7"]);
    single.state.apply().unwrap();
    assert!(single.fire(100).is_none());
}

pub(crate) fn a_firing_sets_timers_for_this_advance_the_next_or_later(make: &Make) {
    let mut single = Single::new(make);
    single.call(&["a"], |call| call.set(EVENT, &[0], &[10]));
    single.state.begin_advance(Event, 20);
    assert_eq!(fired(&single.fire(9).unwrap()), ["a@10"]);
    single.set(EVENT, &[0, 0, 0, 0, 0, 0], &[9, 10, 11, 20, 21, -3]);
    single.set(OTHER_EVENT, &[0], &[10]);
    single.state.apply().unwrap();
    assert_eq!(
        single.state.next_timer(Event),
        Some(-3),
        "those that wait are registered"
    );
    let mut same = Vec::new();
    while let Some(firing) = single.fire(9) {
        same.extend(fired(&firing));
        single.state.apply().unwrap();
    }
    assert_eq!(same, ["a@11", "a@20"]);
    single.state.end_advance();
    assert_eq!(single.advance(Event, 20), "a@-3 a@9 a@10 a@10");
    assert_eq!(single.advance(Event, 21), "a@21");

    // A timer that waits can be cancelled like any other, and one set by a call between advances
    // does not wait.
    single.call(&["a"], |call| call.set(EVENT, &[0], &[10]));
    single.state.begin_advance(Event, 30);
    single.fire(9).unwrap();
    single.set(EVENT, &[0, 0], &[4, 5]);
    single.state.apply().unwrap();
    single.state.end_advance();
    single.call(&["a"], |call| {
        call.cancel(EVENT, &[0], &[4]);
        call.set(EVENT, &[0], &[6]);
    });
    assert_eq!(single.advance(Event, 40), "a@5 a@6");
}

pub(crate) fn a_discarded_firing_comes_again(make: &Make) {
    let mut single = Single::new(make);
    single.call(&["a", "b"], |call| call.set(EVENT, &[0, 1, 0], &[1, 2, 3]));
    single.state.begin_advance(Event, 10);
    let first = single.fire(100).unwrap();
    single.set(EVENT, &[0, 0], &[4, 5]);
    single.put(VALUE, &[0], &[Some("lost")]);
    single.state.discard();
    assert_eq!(single.state.stats().timers, 3);

    // Halved, as after a fault; then the faulty one is dropped by applying nothing.
    assert_eq!(fired(&single.fire(1).unwrap()), [fired(&first)[0].clone()]);
    single.state.apply().unwrap();
    assert_eq!(fired(&single.fire(100).unwrap()), ["b@2", "a@3"]);
    single.state.apply().unwrap();
    assert!(single.fire(100).is_none());
    assert_eq!(single.look(VALUE, "a"), None);

    // Popped but never begun is not fired either.
    single.call(&["a"], |call| call.set(EVENT, &[0], &[7]));
    single.state.pop_due(1).unwrap().unwrap();
    single.state.discard();
    single.intern(&["b"]);
    assert_eq!(fired(&single.fire(1).unwrap()), ["a@7"]);
}

pub(crate) fn domains_are_apart(make: &Make) {
    let mut single = Single::new(make);
    single.call(&["a"], |call| {
        call.set(EVENT, &[0], &[1]);
        call.set(PROCESSING, &[0], &[1]);
    });
    single.state.begin_advance(Processing, 10);
    assert_eq!(single.fire(9).unwrap().timers, [PROCESSING]);
    single.cancel(EVENT, &[0], &[1]);
    single.set(EVENT, &[0, 0], &[2, 11]);
    single.state.apply().unwrap();
    assert!(single.fire(9).is_none());
    // The other domain's timers do not wait, whatever their time.
    single.state.begin_advance(Event, 10);
    assert_eq!(fired(&single.fire(9).unwrap()), ["a@2"]);
    single.set(PROCESSING, &[0], &[1]);
    single.state.apply().unwrap();
    assert_eq!(single.advance(Processing, 1), "a@1");
    assert_eq!(single.advance(Event, 11), "a@11");
}

/// Fires a chain in one advance in which each timer sets the next; the result of the last `apply`.
fn chain(single: &mut Single, length: i64) -> Result<(), Error> {
    single.call(&["loop \u{7f}"], |call| call.set(EVENT, &[0], &[0]));
    single.state.begin_advance(Event, i64::MAX);
    let mut fired = 0;
    while let Some(firing) = single.fire(1) {
        if firing.times[0] < length {
            single.set(EVENT, &[0], &[firing.times[0] + 1]);
        }
        single.state.apply()?;
        fired += 1;
    }
    assert_eq!(fired, length + 1);
    Ok(())
}

pub(crate) fn a_chain_of_a_thousand_is_the_longest(make: &Make) {
    let longest = i64::from(MAX_TIMER_GENERATIONS);
    let mut single = Single::new(make);
    chain(&mut single, longest).unwrap();
    single.state.end_advance();
    match chain(&mut single, longest + 1) {
        Err(Error::TimerGenerations { timer, key, limit }) => {
            assert_eq!(
                (timer.as_str(), key.as_str(), limit),
                ("event", "loop \\x7f", MAX_TIMER_GENERATIONS)
            );
        }
        other => panic!("{other:?}"),
    }
    // The failed call is over, and its timer is registered still.
    assert_eq!(single.state.stats().timers, 1);
    assert_eq!(single.fire(1).unwrap().times, [longest]);
    single.state.discard();

    // Many firings are no long chain, and a chain breaks where time moves on.
    let mut single = Single::new(make);
    let times: Vec<i64> = (0..2_000).collect();
    single.call(&["a"], |call| {
        call.set(EVENT, &vec![0; times.len()], &times)
    });
    assert_eq!(single.advance(Event, i64::MAX).split(' ').count(), 2_000);
    single.call(&["a"], |call| call.set(EVENT, &[0], &[0]));
    for until in 0..2_000 {
        single.state.begin_advance(Event, until);
        let time = single.fire(1).unwrap().times[0];
        single.set(EVENT, &[0], &[time]);
        single.state.apply().unwrap();
        assert!(single.fire(1).is_none());
        single.state.end_advance();
    }
}

pub(crate) fn a_chain_goes_on_over_advances_to_the_same_time(make: &Make) {
    let mut single = Single::new(make);
    single.call(&["a"], |call| call.set(EVENT, &[0], &[0]));
    for round in 0.. {
        single.state.begin_advance(Event, i64::MAX);
        single.fire(1).unwrap();
        single.set(EVENT, &[0], &[0]);
        let applied = single.state.apply();
        if round < MAX_TIMER_GENERATIONS {
            applied.unwrap();
            assert!(single.fire(1).is_none());
            single.state.end_advance();
        } else {
            assert!(matches!(applied, Err(Error::TimerGenerations { .. })));
            break;
        }
    }
}

pub(crate) fn next_timer_and_drop(make: &Make) {
    let mut single = Single::new(make);
    assert_eq!(
        (
            single.state.next_timer(Event),
            single.state.next_timer(Processing)
        ),
        (None, None)
    );
    single.open(&["a", "b"]);
    single.set(EVENT, &[0, 1], &[i64::MAX, 3]);
    single.set(PROCESSING, &[0, 1, 1], &[9, i64::MIN, 10]);
    assert_eq!(single.state.next_timer(Event), None, "not applied yet");
    single.state.apply().unwrap();
    assert_eq!(
        (
            single.state.next_timer(Event),
            single.state.next_timer(Processing)
        ),
        (Some(3), Some(i64::MIN))
    );
    assert_eq!(single.state.drop_timers(Processing), 3);
    assert_eq!(
        (
            single.state.drop_timers(Processing),
            single.state.next_timer(Processing)
        ),
        (0, None)
    );
    assert_eq!(
        single.advance(Event, i64::MAX),
        format!("b@3 a@{}", i64::MAX)
    );
    assert_eq!(single.state.stats(), crate::Stats::default());
}

pub(crate) fn advances_are_asked_for(make: &Make) {
    let mut single = Single::new(make);
    assert!(matches!(single.state.pop_due(1), Err(Error::Misuse(_))));
    single.state.end_advance();
    single.state.begin_advance(Event, 10);
    single.open(&["a"]);
    assert!(matches!(single.state.pop_due(1), Err(Error::Misuse(_))));
    single.set(EVENT, &[0], &[1]);
    single.state.apply().unwrap();
    // A limit of nothing would never end an advance.
    assert_eq!(single.state.pop_due(0).unwrap().unwrap().len(), 1);
    single.state.end_advance();
    assert!(matches!(single.state.pop_due(1), Err(Error::Misuse(_))));
}
