//! A call's life: dictionary, overlay, values and items, and what is refused.

use super::*;
use crate::CALL_BUDGET;
use crate::hash::key_group;

pub(crate) fn keys_are_numbered_in_order_of_first_appearance(make: &Make) {
    let mut single = Single::new(make);
    single.intern(&["b", "a", "b", "", "a", "c"]);
    assert_eq!(
        names(&Column {
            offsets: single.state.distinct().offsets.to_vec(),
            data: single.state.distinct().data.to_vec()
        }),
        ["b", "a", "", "c"]
    );
    assert_eq!(single.state.index(), [0, 1, 0, 2, 1, 3]);
    assert_eq!(
        single.state.distinct_hashes(),
        [&b"b"[..], b"a", b"", b"c"].map(key_hash)
    );
    single.intern(&[]);
    assert_eq!(
        (single.state.distinct().len(), single.state.index().len()),
        (0, 0)
    );
}

pub(crate) fn reads_see_the_call_s_writes_and_discard_drops_them(make: &Make) {
    let mut single = Single::new(make);
    single.call(&["a", "b"], |call| {
        call.put(VALUE, &[0, 1], &[Some("1"), Some("2")])
    });
    single.open(&["b", "c", "a"]);
    single.put(VALUE, &[0, 1], &[None, Some("3")]);
    assert_eq!(
        single.get(VALUE, &[0, 1, 2, 1]),
        [None, Some("3".into()), Some("1".into()), Some("3".into())]
    );
    single.state.discard();
    assert_eq!(
        single.call(&["a", "b", "c"], |call| call.get(VALUE, &[0, 1, 2])),
        [Some("1".into()), Some("2".into()), None]
    );

    // A call that is begun again starts anew, on the same keys.
    single.open(&["a"]);
    single.put(VALUE, &[0], &[Some("x")]);
    single.state.begin(0);
    assert_eq!(single.get(VALUE, &[0]), some(&["1"]));
    single.put(VALUE, &[0], &[Some("y")]);
    single.state.apply().unwrap();
    assert_eq!(single.look(VALUE, "a"), Some("y".into()));
}

pub(crate) fn of_repeated_cells_the_last_wins_and_null_deletes(make: &Make) {
    let mut single = Single::new(make);
    single.call(&["a", "b"], |call| {
        call.put(
            VALUE,
            &[0, 1, 0, 1],
            &[Some("1"), Some("2"), Some("3"), None],
        );
        assert_eq!(
            call.get(VALUE, &[0, 1, 0]),
            [Some("3".into()), None, Some("3".into())]
        );
        call.put(VALUE, &[0], &[Some("")]);
    });
    assert_eq!(
        single.look(VALUE, "a"),
        Some(String::new()),
        "empty is not null"
    );
    assert_eq!(single.look(VALUE, "b"), None);
    single.call(&["a"], |call| call.put(VALUE, &[0], &[None]));
    assert_eq!(single.look(VALUE, "a"), None);
    assert_eq!(single.state.stats().entries, 0);
}

pub(crate) fn cells_differ_by_key_namespace_and_state(make: &Make) {
    let keys = ["", "\0", "a", "a\0", "a\0\u{1}", "ab"];
    let spaces = ["", "\0", "n", "n\0"];
    let mut single = Single::new(make);
    let all: Vec<u32> = (0..keys.len() as u32).collect();
    let each = |state: u32, space: Option<&str>| -> Nullable {
        keys.iter()
            .map(|key| Some(format!("{state} {space:?} {key:?}")))
            .collect()
    };
    let places = [VALUE, OTHER_VALUE].into_iter().flat_map(|state| {
        spaces
            .into_iter()
            .map(Some)
            .map(move |space| (state, space))
    });
    single.open(&keys);
    for write in [true, false] {
        for (state, space) in places.clone() {
            let column: Column = keys.iter().map(|_| space.unwrap_or_default()).collect();
            let at = Cells {
                keys: &all,
                namespaces: space.map(|_| column.as_ref()),
            };
            if write {
                single
                    .state
                    .put(state, at, each(state, space).as_ref())
                    .unwrap();
            } else {
                assert_eq!(single.state.get(state, at).unwrap(), each(state, space));
            }
        }
        if write {
            single.state.apply().unwrap();
            single.state.begin(0);
        }
    }
    // No namespace is the empty one.
    assert_eq!(
        single.state.get(VALUE, at(&all)).unwrap(),
        each(VALUE, Some(""))
    );
}

pub(crate) fn items_keep_their_order(make: &Make) {
    let mut single = Single::new(make);
    single.call(&["a", "b"], |call| {
        call.append(ITEMS, &[0, 1, 0], &["a1", "b1", ""]);
        assert_eq!(call.items(ITEMS, 0), ["a1", ""]);
    });
    single.call(&["a"], |call| {
        call.append(ITEMS, &[0, 0], &["a3", "a4"]);
        assert_eq!(call.items(ITEMS, 0), ["a1", "", "a3", "a4"]);
        call.state.clear(ITEMS, at(&[0])).unwrap();
        assert!(call.items(ITEMS, 0).is_empty());
        call.append(ITEMS, &[0], &["new"]);
    });
    single.open(&["b", "a", "none"]);
    let lists = single.state.get_items(ITEMS, at(&[0, 2, 1, 0])).unwrap();
    assert_eq!(
        (lists.ends, names(&lists.items)),
        (
            vec![1, 1, 2, 3],
            vec!["b1".into(), "new".into(), "b1".into()]
        )
    );
    single.append(ITEMS, &[1], &["dropped"]);
    single.state.discard();
    assert_eq!(single.call(&["a"], |call| call.items(ITEMS, 0)), ["new"]);
}

pub(crate) fn clear_empties_a_cell_of_any_kind(make: &Make) {
    let mut single = Single::new(make);
    single.call(&["a", "b"], |call| {
        for key in 0..2 {
            call.put(VALUE, &[key], &[Some("v")]);
            call.append(ITEMS, &[key, key], &["i", "j"]);
            call.put_entries(
                ENTRIES,
                key,
                &[("", Some("x")), ("n", Some("y")), ("\u{ff}", Some("z"))],
            );
        }
    });
    single.call(&["a"], |call| {
        for state in [VALUE, ITEMS, ENTRIES] {
            call.state.clear(state, at(&[0])).unwrap();
        }
        assert_eq!(call.get(VALUE, &[0]), [None]);
    });
    assert_eq!(single.state.stats().entries, 6);
    single.call(&["a", "b"], |call| {
        assert_eq!(call.get(VALUE, &[0, 1]), [None, Some("v".into())]);
        assert_eq!(
            (call.items(ITEMS, 0).len(), call.items(ITEMS, 1).len()),
            (0, 2)
        );
        assert_eq!(call.scan(ENTRIES, 0, (None, None), false, 9), "");
        assert_eq!(
            call.scan(ENTRIES, 1, (None, None), false, 9),
            "=x n=y \u{ff}=z"
        );
    });
}

pub(crate) fn what_is_out_of_order_or_out_of_range_is_refused(make: &Make) {
    let mut single = Single::new(make);
    single.intern(&["a", "b"]);
    let state = &mut single.state;
    let one: Nullable = [Some("v")].into_iter().collect();
    assert!(matches!(state.get(VALUE, at(&[0])), Err(Error::Misuse(_))));
    assert!(matches!(
        state.put(VALUE, at(&[0]), one.as_ref()),
        Err(Error::Misuse(_))
    ));
    assert!(matches!(
        state.set_timers(EVENT, at(&[0]), &[1]),
        Err(Error::Misuse(_))
    ));
    assert!(matches!(state.apply(), Err(Error::Misuse(_))));
    state.discard();

    state.begin(0);
    assert!(matches!(
        state.intern(Column::new().as_ref(), &[]),
        Err(Error::Misuse(_))
    ));
    assert!(matches!(
        state.restore(&mut &b""[..], "f"),
        Err(Error::Misuse(_))
    ));
    assert!(matches!(
        state.get(VALUE, at(&[1, 2])),
        Err(Error::KeyIndex {
            index: 2,
            distinct: 2
        })
    ));
    assert!(matches!(
        state.get(99, at(&[0])),
        Err(Error::NoSuchState { state: 99, .. })
    ));
    assert!(matches!(
        state.clear(99, at(&[0])),
        Err(Error::NoSuchState { state: 99, .. })
    ));
    assert!(matches!(
        state.get(ITEMS, at(&[0])),
        Err(Error::NoSuchState {
            state: ITEMS,
            kind: "value"
        })
    ));
    assert!(matches!(
        state.get_items(ENTRIES, at(&[0])),
        Err(Error::NoSuchState {
            state: ENTRIES,
            kind: "items"
        })
    ));
    assert!(matches!(
        state.cancel_timers(3, at(&[0]), &[1]),
        Err(Error::NoSuchTimer { timer: 3 })
    ));
    assert!(matches!(
        state.set_timers(EVENT, at(&[0, 1]), &[1]),
        Err(Error::Shape {
            what: "times",
            found: 1,
            expected: 2
        })
    ));
    assert!(matches!(
        state.put(VALUE, at(&[0, 1]), one.as_ref()),
        Err(Error::Shape { what: "values", .. })
    ));
    let spaces: Column = ["n"].into_iter().collect();
    let cells = Cells {
        keys: &[0, 1],
        namespaces: Some(spaces.as_ref()),
    };
    assert!(matches!(
        state.touch(VALUE, cells),
        Err(Error::Shape {
            what: "namespaces",
            ..
        })
    ));
    state.apply().unwrap();
    assert!(matches!(
        state.intern(spaces.as_ref(), &[]),
        Err(Error::Shape { what: "hashes", .. })
    ));
}

pub(crate) fn keys_of_other_subtasks_are_refused(make: &Make) {
    let range = group_range(1, 2, MAX_PARALLELISM);
    let mut state = make(schema(), range, MAX_PARALLELISM);
    let owned = |key: &&str| range.contains(key_group(key_hash(key.as_bytes()), MAX_PARALLELISM));
    let (mine, others): (Vec<_>, Vec<_>) = ["a", "b", "c", "d", "e", "f", "g"]
        .into_iter()
        .partition(owned);
    let mut intern = |keys: &[&str]| {
        let hashes: Vec<u64> = keys.iter().map(|key| key_hash(key.as_bytes())).collect();
        state.intern(keys.iter().collect::<Column>().as_ref(), &hashes)
    };
    assert!(!mine.is_empty() && !others.is_empty());
    intern(&mine).unwrap();
    let group = key_group(key_hash(others[0].as_bytes()), MAX_PARALLELISM);
    let refused = intern(&[mine[0], others[0]]);
    assert!(matches!(refused, Err(Error::NotOwned { group: g, start: 8, end: 16 }) if g == group));
    assert!(state.distinct().is_empty());
}

pub(crate) fn budgets_hold(make: &Make) {
    let mut single = Single::new(make);
    let half = "x".repeat(CALL_BUDGET / 2 - 100);
    let refused = |result: Result<(), Error>| {
        matches!(
            result,
            Err(Error::Budget {
                limit: CALL_BUDGET,
                ..
            })
        )
    };
    single.call(&["a"], |call| call.put(VALUE, &[0], &[Some(&half)]));
    single.call(&["a"], |call| {
        assert_eq!(call.state.get(VALUE, at(&[0, 0])).unwrap().len(), 2)
    });
    single.open(&["a"]);
    assert!(refused(single.state.get(VALUE, at(&[0, 0, 0])).map(drop)));
    single.put(VALUE, &[0, 0], &[Some(&half), None]);
    single.put(VALUE, &[0], &[Some(&half)]);
    let more: Nullable = [Some("x".repeat(1_000))].into_iter().collect();
    assert!(refused(single.state.put(VALUE, at(&[0]), more.as_ref())));
    single.state.discard();
    single.call(&["a"], |call| call.put(VALUE, &[0], &[None]));

    // A list that could never be read back is refused while it grows, one call at a time or not.
    for _ in 0..2 {
        single.call(&["a"], |call| call.append(ITEMS, &[0], &[&half]));
    }
    single.call(&["a"], |call| {
        assert_eq!(
            call.state.get_items(ITEMS, at(&[0])).unwrap().items.len(),
            2
        )
    });
    single.open(&["a"]);
    let more: Column = ["x".repeat(1_000)].into_iter().collect();
    assert!(refused(single.state.append(ITEMS, at(&[0]), more.as_ref())));
    assert!(refused(
        single.state.get_items(ITEMS, at(&[0, 0])).map(drop)
    ));
    single.state.discard();

    // What has expired does not count, cleaned up or not.
    for _ in 0..2 {
        single.call(&["b"], |call| call.append(BRIEF_ITEMS, &[0], &[&half]));
    }
    single.now = 160;
    single.call(&["b"], |call| call.append(BRIEF_ITEMS, &[0], &[&half]));
}

pub(crate) fn stats_count_what_is_applied(make: &Make) {
    let mut single = Single::new(make);
    assert_eq!(single.state.stats(), crate::Stats::default());
    single.open(&["a", "b"]);
    single.put(VALUE, &[0, 1], &[Some("1"), Some("2")]);
    single.append(ITEMS, &[0, 0], &["x", "y"]);
    single.set(EVENT, &[0, 0, 1], &[5, 6, 7]);
    assert_eq!(single.state.stats().entries, 0);
    single.state.apply().unwrap();
    let stats = single.state.stats();
    assert_eq!((stats.entries, stats.timers), (4, 3));
    single.call(&["a"], |call| {
        call.put(VALUE, &[0], &[Some("a much longer value")])
    });
    assert_eq!(single.state.stats().bytes, stats.bytes + 18);
    single.call(&["a", "b"], |call| {
        call.put(VALUE, &[0, 1], &[None, None]);
        call.state.clear(ITEMS, at(&[0])).unwrap();
        call.cancel(EVENT, &[0, 0, 1], &[5, 6, 7]);
    });
    assert_eq!(single.state.stats(), crate::Stats::default());
}
