//! What operators see, on the harness.

use super::*;

fn pending(harness: &Harness<Puppet>) -> Vec<(String, usize, i64)> {
    let timers = harness.timers().into_iter();
    timers
        .map(|timer| {
            (
                String::from_utf8(timer.key).unwrap(),
                timer.timer,
                timer.time,
            )
        })
        .collect()
}

#[test]
fn a_failed_batch_has_no_effect_and_names_its_row() -> Result {
    on_record(|puppet, record, cx| {
        puppet.number.set(cx, &1)?;
        puppet.items.push(cx, &1)?;
        puppet.event.set(cx, 5)?;
        puppet.kept.emit(cx).forward()?;
        if record.text()? == "bad" {
            Err(Fault::new("no"))
        } else {
            Ok(())
        }
    });
    let mut harness = Harness::<Puppet>::open("null")?.batch_size(2);
    let fault = harness
        .process(["good", "good", "good", "bad"].map(|text| record(text).key("k")))
        .unwrap_err();
    assert_eq!((fault.row(), fault.message()), (Some(1), "no"));
    assert_eq!(harness.emitted("kept").len(), 2);
    assert_eq!(harness.items::<u64>("items", "k", "").len(), 2);
    assert_eq!(pending(&harness), [("k".to_owned(), 0, 5)]);
    Ok(())
}

#[test]
fn null_and_empty_differ_in_and_out() -> Result {
    on_record(|puppet, record, cx| match (record.key(), record.value()) {
        (None, None) => puppet.given.emit_null_key(cx).null(),
        (None, Some(value)) => puppet.given.emit_null_key(cx).value(value),
        (Some(key), None) => puppet.given.emit(cx, key).null(),
        (Some(key), Some(value)) => puppet.given.emit(cx, key).value(value),
    });
    let records = [
        null_record(),
        record(""),
        null_record().key(""),
        record("").key(""),
    ];
    let harness = Scenario::new("null")
        .records(records.map(|r| r.input("unkeyed")))
        .check::<Puppet>()?;
    let rows: Vec<_> = harness
        .emitted("given")
        .into_iter()
        .map(|row| (row.key, row.value))
        .collect();
    let empty = || Some(Vec::new());
    assert_eq!(
        rows,
        [
            (None, None),
            (None, empty()),
            (empty(), None),
            (empty(), empty())
        ]
    );
    Ok(())
}

#[test]
fn rows_inherit_key_value_and_time() -> Result {
    on_record(|puppet, _, cx| {
        puppet.kept.emit(cx).forward()?;
        puppet.kept.emit(cx).time(9).value("own")?;
        puppet.absent.emit(cx).forward()
    });
    let mut harness = Harness::<Puppet>::open("null")?;
    harness.process([record("v").key("k").time(3)])?;
    let rows = |output| {
        let rows = harness.emitted(output).into_iter();
        let text = |bytes: Option<Vec<u8>>| bytes.map(|bytes| String::from_utf8(bytes).unwrap());
        rows.map(|row| (text(row.key), text(row.value), row.time))
            .collect::<Vec<_>>()
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        rows("kept"),
        [
            (some("k"), some("v"), Some(3)),
            (some("k"), some("own"), Some(9))
        ]
    );
    assert_eq!(rows("absent"), [(None, some("v"), Some(3))]);
    Ok(())
}

#[test]
fn where_there_is_no_record_keys_and_times_must_be_given() -> Result {
    ON_BOUNDARY.set(|puppet, cx| {
        assert!(puppet.kept.emit(cx).time(1).value("").is_err());
        assert!(puppet.given.emit(cx, "k").value("").is_err());
        assert!(puppet.given.emit(cx, "k").time(1).forward().is_err());
        assert!(puppet.number.get(cx).is_err() && puppet.event.set(cx, 1).is_err());
        let watermark = cx
            .watermark()
            .map_or(String::new(), |watermark| watermark.to_string());
        puppet.given.emit(cx, "k").time(1).value(watermark)
    });
    let mut harness = Harness::<Puppet>::open("null")?;
    harness.advance_watermark(4)?;
    harness.advance_watermark(4)?;
    harness.finish()?;
    let end = i64::MAX.to_string();
    assert_eq!(harness.texts("given"), ["4", &end[..], &end[..]]);
    Ok(())
}

#[test]
fn an_unkeyed_input_has_no_state() -> Result {
    on_record(|puppet, _, cx| puppet.number.set(cx, &1));
    let mut harness = Harness::<Puppet>::open("null")?;
    harness.process([record("x").key("k").input("unkeyed")])?;
    let (_, fault) = &harness.rejected()[0];
    assert_eq!(
        fault.message(),
        "a record of an un-keyed input has no key, so state and timers cannot be used there"
    );
    Ok(())
}

#[test]
fn a_value_outlives_its_ttl_only_if_touched() -> Result {
    on_record(|puppet, record, cx| match record.text()? {
        "set" => puppet.brief.set(cx, &1),
        "touch" => puppet.brief.touch(cx),
        _ => {
            let found = puppet.brief.get(cx)?;
            puppet.absent.emit(cx).value(format!("{found:?}"))
        }
    });
    let mut harness = Harness::<Puppet>::open("null")?;
    for (at, what) in [
        (0, "set"),
        (90, "touch"),
        (189, "get"),
        (190, "get"),
        (190, "touch"),
        (191, "get"),
    ] {
        harness.advance_processing_time(at)?;
        harness.process([record(what).key("k")])?;
    }
    assert_eq!(harness.texts("absent"), ["Some(1)", "None", "None"]);
    Ok(())
}

#[test]
fn timers_fire_in_order_once_and_may_be_cancelled_by_an_earlier_one_of_their_key() -> Result {
    on_record(|puppet, record, cx| {
        for time in [10, 20, 30] {
            puppet.event.set(cx, time)?;
            puppet.event.set(cx, time)?;
        }
        if record.key() == Some(b"early") {
            puppet.event.set_at(cx, "w", 5)
        } else {
            Ok(())
        }
    });
    on_timer(|puppet, firing, cx| {
        if firing.time() == 10 {
            puppet.event.cancel(cx, 20)?;
        }
        let line = format!("{} {}", firing.key_text()?, firing.time());
        puppet.absent.emit(cx).value(line)
    });
    let harness = Scenario::new("null")
        .records(["early", "late", "early"].map(|key| record("").key(key)))
        .watermark(9)
        .watermark(29)
        .check::<Puppet>()?;
    let mut fired = harness.texts("absent");
    assert_eq!(fired.remove(0), "early 5");
    fired.sort();
    assert_eq!(fired, ["early 10", "late 10"]);
    assert_eq!(pending(&harness).len(), 2);
    Ok(())
}

#[test]
fn a_timer_set_while_firing_joins_the_advance_only_if_it_is_later() -> Result {
    on_record(|puppet, _, cx| puppet.event.set(cx, 10));
    on_timer(|puppet, firing, cx| {
        let line = format!("{} at {:?}", firing.time(), cx.watermark());
        puppet.absent.emit(cx).value(line)?;
        match firing.time() {
            10 => {
                puppet.event.set(cx, 9)?;
                puppet.event.set(cx, 15)
            }
            15 => puppet.event.set(cx, 25),
            _ => Ok(()),
        }
    });
    let mut harness = Harness::<Puppet>::open("null")?;
    harness.process([record("").key("k")])?;
    harness.advance_watermark(20)?;
    harness.advance_watermark(21)?;
    harness.advance_watermark(25)?;
    assert_eq!(
        harness.texts("absent"),
        [
            "10 at Some(20)",
            "15 at Some(20)",
            "9 at Some(21)",
            "25 at Some(25)"
        ]
    );
    Ok(())
}

#[test]
fn timers_that_set_each_other_without_end_are_an_error_and_many_of_them_are_none() -> Result {
    on_record(|puppet, _, cx| (0..2_000).try_for_each(|time| puppet.event.set(cx, time)));
    on_timer(|_, _, _| Ok(()));
    let mut harness = Harness::<Puppet>::open("null")?;
    harness.process([record("").key("k")])?;
    harness.finish()?;

    on_record(|puppet, _, cx| puppet.event.set(cx, 7));
    on_timer(|puppet, firing, cx| puppet.event.set(cx, firing.time()));
    let mut harness = Harness::<Puppet>::open("null")?;
    harness.process([record("").key("k")])?;
    harness.advance_watermark(3_000)?;
    let fault = harness.finish().unwrap_err();
    assert!(
        fault
            .message()
            .starts_with("more than 1000 timers of key \"k\""),
        "{}",
        fault.message()
    );
    Ok(())
}

#[test]
fn processing_timers_follow_the_clock_and_are_dropped_at_the_end() -> Result {
    on_record(|puppet, _, cx| {
        puppet.processing.set(cx, cx.processing_time() + 10)?;
        puppet.processing.set(cx, cx.processing_time() + 1_000)
    });
    on_timer(|puppet, firing, cx| {
        assert_eq!(firing.timer(), puppet.processing);
        cx.log(Level::Info, &format!("fired at {}", cx.processing_time()));
        Ok(())
    });
    let mut harness = Harness::<Puppet>::open("null")?;
    harness.process([record("").key("k")])?;
    harness.advance_processing_time(9)?;
    harness.advance_watermark(1_000)?;
    assert!(harness.logged().is_empty());
    harness.advance_processing_time(12)?;
    assert_eq!(harness.logged(), ["fired at 12"]);
    harness.finish()?;
    assert_eq!((harness.dropped_timers(), harness.timers().len()), (1, 0));
    Ok(())
}

#[test]
fn a_snapshot_restores_state_timers_and_time() -> Result {
    on_record(|puppet, record, cx| {
        puppet.items.push(cx, &record.text()?.parse()?)?;
        puppet.entries.set(cx, record.text()?, &1)?;
        puppet.event.set(cx, 50)
    });
    on_timer(|puppet, _, cx| {
        let items = puppet.items.read(cx)?;
        puppet.absent.emit(cx).value(format!("{items:?}"))
    });
    let mut harness = Harness::<Puppet>::open("null")?;
    harness.process([record("1").key("k"), record("2").key("k")])?;
    harness.advance_watermark(40)?;
    let snapshot = harness.snapshot();
    harness.process([record("3").key("k")])?;

    let mut restored = Harness::<Puppet>::restore("null", snapshot)?;
    restored.advance_watermark(40)?;
    assert!(restored.emitted("absent").is_empty());
    restored.advance_watermark(50)?;
    assert_eq!(restored.texts("absent"), ["[1, 2]"]);
    assert_eq!(restored.entries::<String, u64>("entries", "k", "").len(), 2);
    Ok(())
}

#[test]
fn migration_is_refused_by_default() -> Result {
    let harness = Harness::<Puppet>::open("null")?;
    let fault = harness.migrate("brief", 1, None, b"x").unwrap_err();
    assert_eq!(
        (fault.row(), fault.message()),
        (Some(0), "state `brief`: no migration from version 1")
    );
    Ok(())
}

/// Remembers records outside of state.
struct Forgetful(u64, KeptOutput);

impl Operator for Forgetful {
    type Config = ();

    fn new(setup: &mut Setup, (): ()) -> Result<Self> {
        setup.keyed_input("in");
        Ok(Forgetful(0, setup.kept_output("out")))
    }

    fn process(&mut self, _record: Record<'_>, cx: &mut Context) -> Result {
        self.0 += 1;
        self.1.emit(cx).encode(&self.0)
    }
}

#[test]
#[should_panic(expected = "results depend on how the operator is called")]
fn an_operator_that_remembers_outside_of_state_is_found() {
    let records = [
        record("").key("a"),
        record("").key("a"),
        record("").key("a"),
    ];
    let _ = Scenario::new("null").records(records).check::<Forgetful>();
}

/// Emits how many records have been prefetched by then, which is up to the size of the batches.
struct Bounded(std::cell::Cell<u64>, KeptOutput);

impl Operator for Bounded {
    type Config = ();

    fn new(setup: &mut Setup, (): ()) -> Result<Self> {
        setup.keyed_input("in");
        Ok(Bounded(0.into(), setup.kept_output("out")))
    }

    fn prefetch(&self, _record: Record<'_>, _reads: &mut Prefetch<'_>) {
        self.0.set(self.0.get() + 1);
    }

    fn process(&mut self, _record: Record<'_>, cx: &mut Context) -> Result {
        self.1.emit(cx).encode(&self.0.get())
    }
}

#[test]
#[should_panic(expected = "results depend on how the operator is called")]
fn an_operator_that_depends_on_batches_is_found() {
    let _ = Scenario::new("null")
        .records([record("").key("a"), record("").key("b")])
        .check::<Bounded>();
}

#[test]
fn no_config_serves_unit_and_struct_and_another_is_named() {
    #[derive(Debug, Default, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Config {
        size: u64,
    }

    struct Configured(u64);

    impl Operator for Configured {
        type Config = Config;

        fn new(setup: &mut Setup, config: Config) -> Result<Self> {
            setup.keyed_input("in");
            if config.size > 9 {
                Err(Fault::new("size is above 9"))
            } else {
                Ok(Configured(config.size))
            }
        }

        fn process(&mut self, _record: Record<'_>, cx: &mut Context) -> Result {
            cx.log(Level::Info, &self.0.to_string());
            Ok(())
        }
    }

    for none in ["", "null", "{}", " null\n"] {
        assert!(
            Harness::<Puppet>::open(none).is_ok() && Harness::<Configured>::open(none).is_ok(),
            "{none:?}"
        );
    }
    let refused = |config| Harness::<Configured>::open(config).unwrap_err().message;
    assert!(refused(r#"{"sizes":1}"#).starts_with("config: unknown field `sizes`"));
    assert_eq!(refused(r#"{"size":10}"#), "size is above 9");
    assert!(Harness::<Puppet>::open(r#"{"size":1}"#).is_err());
    let mut harness = Harness::<Configured>::open(r#"{"size":3}"#).unwrap();
    harness.process([record("").key("k")]).unwrap();
    assert_eq!(harness.logged(), ["3"]);
}

#[test]
fn what_was_declared_is_described() {
    let description = runner::describe::<Puppet>("puppet", "1.2.3", None).unwrap();
    assert_eq!(
        (&description.name[..], &description.version[..]),
        ("puppet", "1.2.3")
    );
    let states = description.states.iter().map(|state| {
        (
            &state.name[..],
            &state.value_encoding[..],
            &state.entry_encoding[..],
            state.version,
        )
    });
    let states: Vec<_> = states.collect();
    assert_eq!(
        states,
        [
            ("value", "utf8", "", 1),
            ("number", "u64-le", "", 1),
            ("brief", "u64-le", "", 2),
            ("items", "u64-le", "", 1),
            ("entries", "u64-le", "utf8", 1),
        ]
    );
    assert_eq!(description.states[2].migrates_from, [1]);
    assert!(
        description.states[2]
            .ttl
            .is_some_and(|ttl| ttl.millis == 100)
    );
    assert!(description.on_watermark);
}

/// Headers in which order, repetitions, null and empty count.
fn headed() -> NewRecord {
    let record = record("x")
        .input("unkeyed")
        .header("n", "1")
        .null_header("n");
    record.header("n", "").header("", b"\xff")
}

fn headers(harness: &Harness<Puppet>, output: &str) -> Vec<String> {
    let contents = |contents: Option<Vec<u8>>| match contents {
        None => "null".to_owned(),
        Some(bytes) => bytes.escape_ascii().to_string(),
    };
    let row = |row: Emitted| {
        let headers = row.headers.into_iter();
        let headers = headers.map(|(name, bytes)| (name.escape_ascii().to_string(), bytes));
        let headers: Vec<_> = headers
            .map(|(name, bytes)| format!("{name}={}", contents(bytes)))
            .collect();
        headers.join(" ")
    };
    harness.emitted(output).into_iter().map(row).collect()
}

#[test]
fn rows_have_the_headers_of_their_record_or_those_that_they_are_given() -> Result {
    on_record(|puppet, record, cx| {
        puppet.absent.emit(cx).forward()?;
        puppet.absent.emit(cx).value("other")?;
        let more = record.headers().chain([(&b"more"[..], None)]);
        puppet.given.emit(cx, "k").headers(more).forward()?;
        puppet.given.emit(cx, "k").no_headers().forward()?;
        let texts = [("a", Some("b"))];
        puppet.given.emit(cx, "k").headers(texts).time(5).null()
    });
    let plain = || record("y").input("unkeyed");
    let harness = Scenario::new("null")
        .records([plain(), headed(), plain()])
        .check::<Puppet>()?;
    const ALL: &str = r"n=1 n=null n= =\xff";
    assert_eq!(headers(&harness, "absent"), ["", "", ALL, ALL, "", ""]);
    let more = format!("{ALL} more=null");
    assert_eq!(
        headers(&harness, "given"),
        [
            "more=null",
            "",
            "a=b",
            &more,
            "",
            "a=b",
            "more=null",
            "",
            "a=b"
        ]
    );
    Ok(())
}

#[test]
fn a_row_that_fails_leaves_no_headers_behind() -> Result {
    on_record(|puppet, _, cx| {
        let half = puppet.given.emit(cx, "k").headers([("lost", Some(""))]);
        drop(half);
        let failed = puppet.given.emit(cx, "k").headers([("lost", Some(""))]);
        failed.write(|_| Err(Fault::new("no"))).unwrap_err();
        let row = puppet.given.emit(cx, "k").headers([("kept", Some(""))]);
        row.value("v")
    });
    let harness = Scenario::new("null")
        .records([headed(), headed()])
        .check::<Puppet>()?;
    assert_eq!(headers(&harness, "given"), ["kept=", "kept="]);
    Ok(())
}

#[test]
fn timers_and_the_end_have_headers_only_if_they_give_them() -> Result {
    on_record(|puppet, _, cx| puppet.event.set(cx, 5));
    on_timer(|puppet, _, cx| {
        puppet.kept.emit(cx).value("bare")?;
        puppet
            .kept
            .emit(cx)
            .headers([("t", Some("1"))])
            .value("headed")
    });
    ON_BOUNDARY.set(|puppet, cx| {
        let row = puppet.absent.emit(cx).time(7);
        row.headers([("f", None::<&str>)]).value("last")
    });
    let record = record("x").key("k").header("lost", "");
    let harness = Scenario::new("null").records([record]).finish();
    let harness = harness.check::<Puppet>()?;
    assert_eq!(headers(&harness, "kept"), ["", "t=1"]);
    assert_eq!(headers(&harness, "absent"), ["f=null", "f=null"]);
    Ok(())
}

#[test]
#[should_panic(expected = "`Setup::read_headers`")]
fn headers_that_were_not_asked_for_cannot_be_taken_for_none() {
    on_record(|_, record, _| {
        let _ = record.headers();
        Ok(())
    });
    let mut harness = Harness::<Puppet>::open("null").unwrap();
    drop(harness.process([record("x").key("k").header("a", "b")]));
}
