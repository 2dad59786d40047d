//! Entries: by name, by range, in pages.

use super::*;

fn letters(make: &Make) -> Single {
    let mut single = Single::new(make);
    single.call(&["k"], |call| {
        let entries = ["b", "d", "a", "c", "e"].map(|name| (name, Some(name)));
        call.put_entries(ENTRIES, 0, &entries);
    });
    single
}

pub(crate) fn entries_are_read_and_written_by_name(make: &Make) {
    let mut single = letters(make);
    single.call(&["k", "l"], |call| {
        call.put_entries(
            ENTRIES,
            0,
            &[
                ("a", None),
                ("b", Some("B")),
                ("b", Some("")),
                ("z", Some("Z")),
            ],
        );
        let names: Column = ["a", "b", "c", "z", "c"].into_iter().collect();
        let read = call
            .state
            .get_entries(ENTRIES, at(&[0, 0, 0, 0, 1]), names.as_ref())
            .unwrap();
        assert_eq!(
            text(read.iter()),
            [
                None,
                Some("".into()),
                Some("c".into()),
                Some("Z".into()),
                None
            ]
        );
    });
    single.call(&["k"], |call| {
        assert_eq!(
            call.scan(ENTRIES, 0, (None, None), false, 9),
            "b= c=c d=d e=e z=Z"
        )
    });
}

pub(crate) fn scans_page_in_both_directions(make: &Make) {
    letters(make).call(&["k", "none"], |call| {
        assert_eq!(call.scan(ENTRIES, 0, (None, None), false, 2), "a=a b=b +");
        assert_eq!(
            call.scan(ENTRIES, 0, (Some("b\0"), None), false, 2),
            "c=c d=d +"
        );
        assert_eq!(call.scan(ENTRIES, 0, (Some("d\0"), None), false, 2), "e=e");
        assert_eq!(call.scan(ENTRIES, 0, (None, None), true, 2), "e=e d=d +");
        assert_eq!(
            call.scan(ENTRIES, 0, (None, Some("d")), true, 3),
            "c=c b=b a=a"
        );
        assert_eq!(
            call.scan(ENTRIES, 0, (None, None), false, 5),
            "a=a b=b c=c d=d e=e"
        );
        assert_eq!(call.scan(ENTRIES, 0, (None, None), false, 0), "+");
        assert_eq!(call.scan(ENTRIES, 1, (None, None), false, 0), "");

        // The limit is a cell's, and each cell has its own bounds.
        let start: Nullable = [None, None, Some("d")].into_iter().collect();
        let end: Nullable = [Some("c"), None, None].into_iter().collect();
        let page = call
            .state
            .scan(
                ENTRIES,
                at(&[0, 1, 0]),
                start.as_ref(),
                end.as_ref(),
                false,
                1,
            )
            .unwrap();
        assert_eq!((page.ends, page.more), (vec![1, 1, 2], vec![1, 0, 1]));
        assert_eq!(names(&page.names), ["a", "d"]);
    });
}

pub(crate) fn scans_see_the_call_s_writes(make: &Make) {
    letters(make).call(&["k"], |call| {
        call.put_entries(
            ENTRIES,
            0,
            &[
                ("a", None),
                ("bb", Some("new")),
                ("c", Some("C")),
                ("e", None),
                ("f", Some("F")),
            ],
        );
        assert_eq!(
            call.scan(ENTRIES, 0, (None, None), false, 9),
            "b=b bb=new c=C d=d f=F"
        );
        assert_eq!(
            call.scan(ENTRIES, 0, (None, None), true, 9),
            "f=F d=d c=C bb=new b=b"
        );
        assert_eq!(
            call.scan(ENTRIES, 0, (None, Some("d")), true, 2),
            "c=C bb=new +"
        );
        call.put_entries(ENTRIES, 0, &[("f", None)]);
        assert_eq!(
            call.scan(ENTRIES, 0, (None, None), false, 4),
            "b=b bb=new c=C d=d",
            "what is deleted is not more"
        );
    });
}

pub(crate) fn bounds_are_half_open(make: &Make) {
    letters(make).call(&["k"], |call| {
        for descending in [false, true] {
            let mut scan = |start, end| call.scan(ENTRIES, 0, (start, end), descending, 9).len();
            assert_eq!(scan(Some("b"), Some("d")), "b=b c=c".len());
            assert_eq!(scan(Some("b"), Some("b")), 0);
            assert_eq!(
                scan(Some("d"), Some("b")),
                0,
                "a range that ends before it starts is empty"
            );
            assert_eq!(scan(Some("b\0"), Some("c\0")), "c=c".len());
            assert_eq!(scan(None, Some("")), 0);
            assert_eq!(scan(Some(""), None), "a=a b=b c=c d=d e=e".len());
        }
    });
}

pub(crate) fn a_scan_stays_in_its_cell(make: &Make) {
    let keys = ["k", "k\0", "k\0\u{1}", "l", ""];
    let mut single = Single::new(make);
    single.call(&keys, |call| {
        let spaces: Column = ["\u{1}", "\0", "n", "n\0"].into_iter().collect();
        for key in 0..keys.len() as u32 {
            call.put_entries(ENTRIES, key, &[("", Some("plain"))]);
            let names: Column = ["", "\0", "n", "\u{1}"].into_iter().collect();
            let values: Nullable = ["0", "1", "2", "3"].into_iter().map(Some).collect();
            let cells = [key; 4];
            let at = Cells {
                keys: &cells,
                namespaces: Some(spaces.as_ref()),
            };
            call.state
                .put_entries(ENTRIES, at, names.as_ref(), values.as_ref())
                .unwrap();
        }
    });
    single.call(&keys, |call| {
        for key in 0..keys.len() as u32 {
            for descending in [false, true] {
                assert_eq!(
                    call.scan(ENTRIES, key, (None, None), descending, 9),
                    "=plain"
                );
            }
        }
    });
}

pub(crate) fn clear_entries_deletes_a_range(make: &Make) {
    let mut single = letters(make);
    let clear = |call: &mut Single, start: Option<&str>, end: Option<&str>| {
        let (start, end): (Nullable, Nullable) =
            ([start].into_iter().collect(), [end].into_iter().collect());
        call.state
            .clear_entries(ENTRIES, at(&[0]), start.as_ref(), end.as_ref())
            .unwrap();
    };
    single.open(&["k"]);
    clear(&mut single, None, None);
    assert_eq!(single.scan(ENTRIES, 0, (None, None), false, 9), "");
    single.state.discard();
    single.call(&["k"], |call| {
        call.put_entries(ENTRIES, 0, &[("bb", Some("new"))]);
        clear(call, Some("b"), Some("d"));
        clear(call, Some("e"), Some("a"));
        call.put_entries(ENTRIES, 0, &[("c", Some("again"))]);
    });
    single.call(&["k"], |call| {
        assert_eq!(
            call.scan(ENTRIES, 0, (None, None), false, 9),
            "a=a c=again d=d e=e"
        );
        clear(call, Some("d"), None);
        assert_eq!(call.scan(ENTRIES, 0, (None, None), false, 9), "a=a c=again");
    });
}
