//! How often, and with what, the host is called. States are numbered as the puppet declares them: 0
//! value, 1 number, 2 brief, 3 items, 4 entries.

use super::*;

#[test]
fn values_are_loaded_once_for_all_keys_and_stored_once_a_key() {
    on_record(|puppet, _, cx| {
        let count = puppet.number.get(cx)?.unwrap_or(0) + 1;
        puppet.number.set(cx, &count)
    });
    let mut stage = Stage::new();
    assert_eq!(
        stage.records(&["a", "b", "a", "a"]),
        ["get 1: 0 1", "put 1: 0 1 = #3 #1"]
    );
    assert_eq!(
        stage.records(&["b", "c"]),
        ["get 1: 0 1", "put 1: 0 1 = #2 #1"]
    );
}

#[test]
fn what_is_only_written_is_not_loaded_and_the_last_write_of_a_key_is_stored() {
    on_record(|puppet, record, cx| match record.text()? {
        "0" | "1" => puppet.value.set(cx, &"long".to_owned()),
        "2" => puppet.value.set(cx, &"longer".to_owned()),
        "3" => puppet.value.clear(cx),
        "4" => puppet.value.set(cx, &"back".to_owned()),
        _ => puppet.value.clear(cx),
    });
    let mut stage = Stage::new();
    assert_eq!(
        stage.records(&["a", "b", "b"]),
        ["put 0: 0 1 = long longer"]
    );
    assert_eq!(
        stage.records(&["a", "b", "b", "a", "a"]),
        ["put 0: 1 0 = longer back"]
    );
    assert_eq!(
        stage.records(&["a", "b", "c", "b", "a", "c"]),
        ["put 0: 0 1 2 = back - -"]
    );
}

#[test]
fn namespaces_are_asked_for_one_by_one_unless_prefetched() {
    on_record(|puppet, _, cx| puppet.value.at("w").get(cx).map(drop));
    let mut stage = Stage::new();
    assert_eq!(
        stage.records(&["a", "b", "a"]),
        ["get 0: 0@w", "get 0: 1@w"]
    );

    PREFETCH.set(|puppet, reads| {
        reads.value_at(puppet.value, "w");
        reads.entry(puppet.entries, "e");
        reads.entry_at(puppet.entries, "w", "e");
    });
    on_record(|puppet, _, cx| {
        puppet.value.at("w").get(cx)?;
        puppet.entries.get(cx, "e")?;
        puppet.entries.at("w").get(cx, "e")?;
        puppet.entries.get(cx, "other").map(drop)
    });
    assert_eq!(
        stage.records(&["a", "b", "a"]),
        [
            "get 0: 0@w 1@w",
            "get-entries 4: 0 1 . e e",
            "get-entries 4: 0@w 1@w . e e",
            "get-entries 4: 0 . other",
            "get-entries 4: 1 . other",
        ]
    );
}

#[test]
fn timers_that_fire_together_load_their_windows_together() {
    on_timer(|puppet, firing, cx| {
        let state = puppet.value.at(firing.namespace());
        state.get(cx)?;
        state.clear(cx)
    });
    let mut stage = Stage::new();
    assert_eq!(
        stage.timers(&[("a", "w1"), ("b", ""), ("c", "w2")]),
        [
            "get 0: 0@w1 2@w2",
            "get 0: 0 1 2",
            "put 0: 1 = -",
            "put 0: 0@w1 2@w2 = - -"
        ]
    );
}

#[test]
fn items_are_appended_at_once_and_a_clear_supersedes_what_came_before() {
    on_record(|puppet, record, cx| {
        let place: u64 = record.text()?.parse()?;
        puppet.items.push(cx, &place)?;
        puppet.items.at("w").push(cx, &place)?;
        if place == 2 {
            puppet.items.clear(cx)?;
        }
        Ok(())
    });
    let mut stage = Stage::new();
    assert_eq!(
        stage.records(&["a", "b", "a", "a"]),
        [
            "clear 3: 0",
            "append 3: 1 0 += #1 #3",
            "append 3: 0@w 1@w 0@w 0@w += #0 #1 #2 #3"
        ]
    );
}

#[test]
fn reading_items_stores_that_states_writes_and_no_others() {
    on_record(|puppet, record, cx| {
        puppet.number.set(cx, &1)?;
        puppet.items.push(cx, &5)?;
        if record.text()? == "1" {
            assert_eq!(puppet.items.read(cx)?, [5, 5]);
        }
        Ok(())
    });
    let mut stage = Stage::new();
    assert_eq!(
        stage.records(&["a", "a", "a"]),
        [
            "append 3: 0 0 += #5 #5",
            "get-items 3: 0",
            "put 1: 0 = #1",
            "append 3: 0 += #5"
        ]
    );
}

#[test]
fn entries_are_stored_at_once_and_a_cleared_map_is_known_to_be_empty() {
    on_record(|puppet, record, cx| {
        let map = &puppet.entries;
        match record.text()? {
            "0" => {
                map.set(cx, "x", &1)?;
                map.set(cx, "y", &2)?;
                map.at("w").set(cx, "x", &3)
            }
            "1" => {
                map.clear(cx)?;
                assert_eq!(map.get(cx, "x")?, None);
                assert_eq!(map.at("w").get(cx, "x")?, Some(3));
                map.set(cx, "z", &4)
            }
            _ => map.remove(cx, "z"),
        }
    });
    let mut stage = Stage::new();
    assert_eq!(
        stage.records(&["a", "a"]),
        [
            "clear 4: 0",
            "put-entries 4: 0 . z = #4",
            "put-entries 4: 0@w . x = #3"
        ]
    );
    assert_eq!(
        stage.records(&["b", "b", "b"]),
        [
            "clear 4: 0",
            "put-entries 4: 0 . z = -",
            "put-entries 4: 0@w . x = #3"
        ]
    );
}

#[test]
fn a_long_scan_goes_on_where_the_page_ended() {
    on_record(|puppet, record, cx| {
        let name = |n: u64| format!("{n:04}");
        match record.text()? {
            "0" => (0..2_500).try_for_each(|n| puppet.entries.set(cx, &name(n), &n)),
            "1" => {
                let up = puppet.entries.scan(cx, Range::all())?;
                assert_eq!(up.len(), 2_500);
                assert!(
                    up.iter()
                        .enumerate()
                        .all(|(n, (_, value))| n as u64 == *value)
                );
                let mut down = puppet.entries.scan(cx, Range::all().descending())?;
                down.reverse();
                assert_eq!(up, down);
                let some = puppet
                    .entries
                    .scan(cx, Range::all().from("0007").to("2000").limit(1_100))?;
                assert_eq!(
                    (some.len(), &some[0].0[..], &some[1_099].0[..]),
                    (1_100, "0007", "1106")
                );
                Ok(())
            }
            _ => {
                puppet
                    .entries
                    .clear_range(cx, Range::all().from("0001").to("2499"))?;
                assert_eq!(puppet.entries.get(cx, "0001")?, None);
                let names = puppet
                    .entries
                    .scan(cx, Range::all())?
                    .into_iter()
                    .map(|(name, _)| name);
                assert_eq!(names.collect::<Vec<_>>(), ["0000", "2499"]);
                Ok(())
            }
        }
    });
    let calls = Stage::new().records(&["a", "a", "a"]);
    let scans: Vec<_> = calls
        .iter()
        .filter(|call| call.starts_with("scan"))
        .map(String::as_str)
        .collect();
    assert_eq!(
        scans,
        [
            "scan 4: 0 -..- 1024",
            "scan 4: 0 1023\0..- 1024",
            "scan 4: 0 2047\0..- 1024",
            "scan 4: 0 -..- 1024",
            "scan 4: 0 -..1476 1024",
            "scan 4: 0 -..0452 1024",
            "scan 4: 0 0007..2000 1024",
            "scan 4: 0 1030\0..2000 76",
            "scan 4: 0 -..- 1024",
        ]
    );
}

#[test]
fn timers_set_again_cost_nothing_and_cancels_net_out() {
    on_record(|puppet, _, cx| puppet.event.set(cx, 10));
    let mut stage = Stage::new();
    assert_eq!(
        stage.records(&["a", "b", "a", "b"]),
        ["set 0: 0 1 at [10, 10]"]
    );

    on_record(|puppet, record, cx| match record.text()? {
        "0" => puppet.event.set_at(cx, "w", 20),
        "1" => puppet.event.cancel_at(cx, "w", 20),
        "2" => puppet.event.set(cx, 10),
        "3" => puppet.event.cancel(cx, 10),
        "4" => puppet.event.set(cx, 10),
        _ => puppet.event.cancel(cx, 11),
    });
    assert_eq!(
        stage.records(&["a", "a", "a", "a", "a", "a"]),
        [
            "cancel 0: 0 at [11]",
            "set 0: 0 at [10]",
            "cancel 0: 0@w at [20]"
        ]
    );
}

#[test]
fn rows_of_one_shape_are_one_call() {
    on_record(|puppet, record, cx| {
        let value = record.value().unwrap_or_default();
        puppet.kept.emit(cx).value(value)?;
        puppet.given.emit(cx, value).forward()?;
        match record.text()? {
            "1" => puppet.kept.emit(cx).time(5).value(""),
            "2" => {
                puppet.kept.emit(cx).null()?;
                puppet.given.emit_null_key(cx).forward()
            }
            _ => puppet.absent.emit(cx).encode(&7_u64),
        }
    });
    assert_eq!(
        Stage::new().records(&["a", "b", "a", "a"]),
        [
            "emit 0: from [0, 1], values 0 1",
            "emit 0: from [1], values , times [5]",
            "emit 0: from [2, 2, 3], values 2 - 3",
            "emit 1: from [0, 1, 2, 2, 3], keys 0 1 2 - 3",
            "emit 2: from [0, 3], values #7 #7",
        ]
    );
}

#[test]
fn rows_that_give_headers_are_calls_of_their_own() {
    on_record(|puppet, record, cx| match record.text()? {
        "0" => puppet.kept.emit(cx).value(""),
        "1" | "2" => {
            let headers = [("n", record.value()), ("n", None)];
            puppet.kept.emit(cx).headers(headers).value("")
        }
        _ => puppet.kept.emit(cx).no_headers().forward(),
    });
    assert_eq!(
        Stage::new().records(&["a", "b", "a", "a"]),
        [
            "emit 0: from [0], values ",
            "emit 0: from [1, 2], values  , headers [2, 4] n n n n = 1 - 2 -",
            "emit 0: from [3], headers [0]  = ",
        ]
    );
}

#[test]
fn large_headers_do_not_wait_for_the_end() {
    on_record(|puppet, _, cx| {
        let headers = [("n", Some(vec![b'x'; 400_000]))];
        puppet.kept.emit(cx).headers(headers).forward()
    });
    let calls = Stage::new().records(&["a"; 7]);
    let rows: Vec<_> = calls
        .iter()
        .map(|call| call.split_once("from ").unwrap().1)
        .map(|rows| rows.split_once(']').unwrap().0)
        .collect();
    assert_eq!(rows, ["[0, 1, 2", "[3, 4, 5", "[6"]);
}

#[test]
fn large_output_does_not_wait_for_the_end() {
    on_record(|puppet, _, cx| puppet.kept.emit(cx).value(vec![b'x'; 400_000]));
    let rows: Vec<_> = Stage::new()
        .records(&["a"; 7])
        .iter()
        .map(|call| call.split_once(", values").unwrap().0.to_owned())
        .collect();
    assert_eq!(
        rows,
        [
            "emit 0: from [0, 1, 2]",
            "emit 0: from [3, 4, 5]",
            "emit 0: from [6]"
        ]
    );
}

#[test]
fn a_record_that_fails_without_effects_is_given_up_and_the_rest_counts() {
    on_record(|puppet, record, cx| {
        if record.text()? == "1" {
            puppet.number.get(cx)?;
            return Err(Fault::new("odd"));
        }
        puppet.number.set(cx, &1)
    });
    assert_eq!(
        Stage::new().records(&["a", "b", "c"]),
        [
            "get 1: 0 1 2",
            "put 1: 0 2 = #1 #1",
            r#"reject [(Some(1), "odd")]"#
        ]
    );
}
