//! TTL.

use super::*;

pub(crate) fn a_value_is_invisible_from_its_expiry_on(make: &Make) {
    let mut single = Single::new(make);
    single.now = 1_000;
    single.call(&["a"], |call| {
        call.put(BRIEF, &[0], &[Some("v")]);
        call.put(VALUE, &[0], &[Some("forever")]);
    });
    single.now = 1_099;
    assert_eq!(single.look(BRIEF, "a"), Some("v".into()));
    single.call(&["a"], |call| call.put(BRIEF, &[0], &[Some("w")]));
    single.now = 1_198;
    assert_eq!(single.look(BRIEF, "a"), Some("w".into()), "writing renews");
    single.now = 1_199;
    assert_eq!(single.look(BRIEF, "a"), None);
    single.now = i64::MAX;
    assert_eq!(single.look(VALUE, "a"), Some("forever".into()));
    single.call(&["a"], |call| call.put(BRIEF, &[0], &[Some("w")]));
}

pub(crate) fn only_touch_renews_on_access(make: &Make) {
    let mut single = Single::new(make);
    single.call(&["a", "b"], |call| {
        call.put(BRIEF, &[0], &[Some("v")]);
        for key in 0..2 {
            call.put_entries(BRIEF_ENTRIES, key, &[("m", Some("1")), ("n", Some("2"))]);
            call.append(BRIEF_ITEMS, &[key], &["i"]);
        }
    });
    single.now = 90;
    single.call(&["a"], |call| {
        for state in [VALUE, BRIEF, BRIEF_ENTRIES, BRIEF_ITEMS] {
            call.state.touch(state, at(&[0])).unwrap();
        }
    });
    single.call(&["b"], |call| {
        assert_eq!(
            call.scan(BRIEF_ENTRIES, 0, (None, None), false, 9),
            "m=1 n=2"
        )
    });
    single.now = 100;
    assert_eq!(
        single.look(BRIEF, "a"),
        None,
        "a TTL that is renewed on write is not renewed by touch"
    );
    for (now, a, b) in [
        (159, "m=1 n=2", "m=1 n=2"),
        (160, "m=1 n=2", ""),
        (249, "m=1 n=2", ""),
        (250, "", ""),
    ] {
        single.now = now;
        single.call(&["a", "b"], |call| {
            assert_eq!(
                call.scan(BRIEF_ENTRIES, 0, (None, None), false, 9),
                a,
                "{now}"
            );
            assert_eq!(
                call.scan(BRIEF_ENTRIES, 1, (None, None), false, 9),
                b,
                "{now}"
            );
            assert_eq!(
                [0, 1].map(|key| call.items(BRIEF_ITEMS, key).len()),
                [a, b].map(|entries| usize::from(!entries.is_empty()))
            );
        });
    }
    single.call(&["a"], |call| {
        call.state.touch(BRIEF_ENTRIES, at(&[0])).unwrap()
    });
    single.call(&["a"], |call| {
        assert_eq!(
            call.scan(BRIEF_ENTRIES, 0, (None, None), false, 9),
            "",
            "touch revives nothing"
        )
    });
}

pub(crate) fn a_renewal_that_gains_little_is_not_made(make: &Make) {
    for (touched, gone) in [(9, 160), (10, 170)] {
        let mut single = Single::new(make);
        single.call(&["a"], |call| {
            call.put_entries(BRIEF_ENTRIES, 0, &[("n", Some("v"))])
        });
        single.now = touched;
        single.call(&["a"], |call| {
            call.state.touch(BRIEF_ENTRIES, at(&[0])).unwrap()
        });
        for (now, seen) in [(gone - 1, "n=v"), (gone, "")] {
            single.now = now;
            single.call(&["a"], |call| {
                assert_eq!(call.scan(BRIEF_ENTRIES, 0, (None, None), false, 9), seen)
            });
        }
    }
}

pub(crate) fn items_and_entries_expire_one_by_one(make: &Make) {
    let mut single = Single::new(make);
    for (now, name) in [(0, "m"), (50, "n"), (100, "o")] {
        single.now = now;
        single.call(&["a"], |call| {
            call.append(BRIEF_ITEMS, &[0], &[name]);
            call.put_entries(BRIEF_ENTRIES, 0, &[(name, Some(""))]);
        });
    }
    for (now, items, entries) in [(160, "n o", "n= o="), (210, "o", "o="), (260, "", "")] {
        single.now = now;
        single.call(&["a"], |call| {
            assert_eq!(call.items(BRIEF_ITEMS, 0).join(" "), items);
            assert_eq!(call.scan(BRIEF_ENTRIES, 0, (None, None), false, 9), entries);
            let more = call.scan(BRIEF_ENTRIES, 0, (None, None), false, 1);
            assert_eq!(
                more.ends_with('+'),
                items.len() > 1,
                "what expired is not more"
            );
        });
    }
    single.call(&["a"], |call| call.append(BRIEF_ITEMS, &[0], &["p"]));
    single.call(&["a"], |call| assert_eq!(call.items(BRIEF_ITEMS, 0), ["p"]));
}

pub(crate) fn what_expired_is_cleaned_up(make: &Make) {
    let mut single = Single::new(make);
    let keys: Vec<String> = (0..500).map(|key| format!("key {key}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let indices: Vec<u32> = (0..500).collect();
    single.call(&keys, |call| {
        call.put(BRIEF, &indices, &vec![Some("v"); 500]);
        call.put(VALUE, &indices, &vec![Some("w"); 500]);
    });
    single.now = 100;
    for _ in 0..200 {
        single.call(&["other"], |_| ());
    }
    assert_eq!(single.state.stats().entries, 500);
    single.call(&keys, |call| {
        assert_eq!(call.get(VALUE, &indices), some(&vec!["w"; 500]))
    });
}
