//! Calls that go well, and what is left of those that do not.

use weir_operator::{
    CallError, Description, Fault, InputKind, Level, Limits, OutputKeys, StateKind, TimeDomain,
};

use crate::recorder::{
    FIRING, HEADED, KEYED, NOW, Recorder, UNKEYED, call, opened, opened_in, probe,
    probe_description,
};

#[test]
fn the_description_is_the_guests() {
    let description = probe_description();
    assert_eq!(description.name, "probe");
    assert_eq!(description.inputs[0].kind, InputKind::Keyed);
    assert_eq!(description.inputs[1].kind, InputKind::Unkeyed);
    assert_eq!(description.outputs[2].keys, OutputKeys::Absent);
    assert_eq!(description.states[2].kind, StateKind::Entries);
    assert_eq!(description.timers[1].domain, TimeDomain::Processing);
    assert!(description.on_watermark);
}

#[test]
fn describing_can_fail_in_every_way() {
    let describe = |action: &str| {
        probe()
            .describe(Some(&format!("describe {action}")), &Limits::default())
            .unwrap_err()
    };
    assert!(matches!(describe("refuse"), CallError::Open(message)
            if message == "`min_flights` is missing"));
    let contract = |action: &str| match describe(action) {
        CallError::Contract(how) => how,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        contract("two-inputs-of-a-name"),
        "it declares two inputs `keyed`"
    );
    assert_eq!(
        contract("broadcast"),
        "input `keyed` is broadcast, which is not supported yet"
    );
    assert_eq!(
        contract("large"),
        "it hands over more than 1048576 bytes to describe itself"
    );
    assert_eq!(
        contract("state undeclared"),
        "state.get: may not be called during describe or open"
    );
    assert_eq!(
        contract("emit undeclared"),
        "output.emit: may not be called during describe or open"
    );
    assert!(matches!(describe("trap"), CallError::Trap { .. }));
    assert!(
        probe()
            .describe(Some("describe log"), &Limits::default())
            .is_ok()
    );
}

#[test]
fn opening_can_fail_and_has_no_effects() {
    let open = |action: &str| {
        let mut instance = probe()
            .instantiate(
                "probe",
                probe_description(),
                Limits::default(),
                Recorder::default(),
            )
            .unwrap();
        let error = instance.open(&format!("open {action}")).unwrap_err();
        assert_eq!(instance.environment().lines, [""; 0]);
        error
    };
    assert!(
        matches!(open("refuse"), CallError::Open(message) if message == "`min_flights` is missing")
    );
    assert!(matches!(open("timers proper"), CallError::Contract(how)
        if how == "timers.set: may not be called during describe or open"));
    assert!(matches!(open("reject no-row"), CallError::Contract(how)
        if how == "diagnostics.reject: may not be called during describe or open"));
    assert!(
        matches!(open("panic"), CallError::Trap { last_words: Some(words), .. }
        if words.message.contains("no field `dep_delay`"))
    );
}

#[test]
fn a_batch_reaches_the_guest_and_comes_back_unchanged() {
    let mut instance = opened("process echo-all", Limits::default());
    instance.process(KEYED, NOW).unwrap();
    assert_eq!(
        instance.environment().take(),
        [
            "begin",
            "emit 1 [0, 1, 2] keys [\"a\" \"b\"][0, 1, 0] values [\"x\" null \"\"] \
             times [10, -9223372036854775808, 12]",
            "log Info watermark 1000, processing time 2000",
            "apply",
        ]
    );
    // The identity that the guest left out is filled in.
    instance.process(UNKEYED, NOW).unwrap();
    assert_eq!(
        instance.environment().take()[1],
        "emit 1 [0, 1] keys [null \"b\"][0, 1] values [\"x\" \"yz\"] times [10, 11]"
    );
}

#[test]
fn headers_reach_the_guest_if_it_asks_and_come_back_unchanged() {
    let echo = |description: &Description, batch| {
        let mut instance = probe()
            .instantiate("probe", description, Limits::default(), Recorder::default())
            .unwrap();
        instance.open("process echo-all").unwrap();
        instance.process(batch, NOW).unwrap();
        let emitted = instance.environment().take().swap_remove(1);
        let headers = emitted.split_once(" headers ");
        headers.map(|(_, headers)| headers.to_owned())
    };
    let asking = probe()
        .describe(Some("describe headers"), &Limits::default())
        .unwrap();
    assert!(asking.inputs[0].headers);
    let headers = r#"[3, 3, 4] [n n  m] ["12" null "" "345"]"#;
    assert_eq!(echo(&asking, HEADED).as_deref(), Some(headers));
    // There is a list for each row also where no row has headers.
    assert_eq!(echo(&asking, KEYED).as_deref(), Some("[0, 0, 0] [] []"));
    assert_eq!(echo(&asking, UNKEYED).as_deref(), Some("[0, 0] [] []"));
    assert_eq!(echo(probe_description(), HEADED), None);
}

#[test]
fn rows_may_be_given_headers_in_every_call() {
    let given = "headers [0, 3] [a a ] [\"1\" null \"\"]";
    for (config, expected) in [
        ("process emit-headers proper", given),
        ("on-timers emit-headers proper", given),
        ("process emit-headers none", "headers [0, 0] [] []"),
    ] {
        let mut instance = opened(config, Limits::default());
        call(&mut instance, config).unwrap();
        let emitted = &instance.environment().take()[1];
        assert_eq!(
            *emitted,
            format!("emit 0 [0, 0] values [null null] {expected}")
        );
    }
}

#[test]
fn what_is_not_given_is_left_to_be_inherited() {
    let mut instance = opened("process echo", Limits::default());
    instance.process(KEYED, NOW).unwrap();
    instance.process(UNKEYED, NOW).unwrap();
    let expected = [
        "begin",
        "emit 0 [0, 1, 2]",
        "apply",
        "begin",
        "emit 0 [0, 1]",
        "apply",
    ];
    assert_eq!(instance.environment().take(), expected);
    let mut instance = opened("process emit inherit", Limits::default());
    instance.process(KEYED, NOW).unwrap();
    assert_eq!(instance.environment().take()[1], "emit 1 [0]");
    let mut instance = opened("process emit key-index-identity", Limits::default());
    instance.process(KEYED, NOW).unwrap();
    assert_eq!(
        instance.environment().take()[1],
        "emit 1 [0] keys [null][0] values [\"v\"]"
    );
    let mut instance = opened("on-timers emit inherit-all-but-value", Limits::default());
    instance.on_timers(FIRING, NOW).unwrap();
    assert_eq!(
        instance.environment().take()[1],
        "emit 1 [0] values [\"v\"]"
    );
    let mut instance = opened("process emit nothing", Limits::default());
    instance.process(KEYED, NOW).unwrap();
    assert_eq!(instance.environment().take(), ["begin", "apply"]);
}

/// What the probe's `effects` look like from the environment.
const EFFECTS: [&str; 14] = [
    "get 0 [0]/[w]",
    "put 0 [0]/[w] [\"v\"]",
    "append 1 [0]/[w] [n]",
    "get-items 1 [0]/[w]",
    "get-entries 2 [0]/[w] [n]",
    "put-entries 2 [0]/[w] [n] [\"v\"]",
    "scan 2 [0]/[w] [null]..[null] true 7",
    "clear-entries 2 [0]/[w] [null]..[null]",
    "clear 1 [0]/[w]",
    "touch 0 [0]/[w]",
    "set 0 [0]/[w] [5]",
    "cancel 1 [0]/[w] [6]",
    "emit 0 [0] values [\"v\"]",
    "reject Some(2) odd",
];

#[test]
fn effects_are_between_begin_and_apply() {
    let mut instance = opened("process effects", Limits::default());
    instance.process(KEYED, NOW).unwrap();
    let lines = instance.environment().take();
    assert_eq!(lines[0], "begin");
    assert_eq!(lines[1..15], EFFECTS);
    assert_eq!(lines[15..], ["apply"]);
}

#[test]
fn effects_of_a_failed_call_are_discarded() {
    for (action, dead) in [("effects-then-trap", true), ("effects-then-fault", false)] {
        let mut instance = opened(&format!("process {action}"), Limits::default());
        let error = instance.process(KEYED, NOW).unwrap_err();
        assert_eq!(matches!(error, CallError::Trap { .. }), dead, "{error:?}");
        let lines = instance.environment().take();
        assert_eq!(lines[1..15], EFFECTS);
        assert_eq!(lines[15..], ["discard"]);
    }
}

#[test]
fn timers_watermarks_and_the_end_are_calls_like_others() {
    let mut instance = opened("on-timers effects", Limits::default());
    instance.on_timers(FIRING, NOW).unwrap();
    let lines = instance.environment().take();
    assert_eq!(lines[1..14], EFFECTS[..13]);
    assert_eq!(lines[14..], ["reject Some(1) odd", "apply"]);
    for when in ["on-watermark", "finish"] {
        for (action, line) in [
            (
                "moment",
                "emit 1 [] keys [\"k\"][0] values [\"v\"] times [7]",
            ),
            ("moment-absent", "emit 2 [] values [\"v\"] times [7]"),
        ] {
            let config = format!("{when} emit {action}");
            let mut instance = opened(&config, Limits::default());
            call(&mut instance, &config).unwrap();
            assert_eq!(instance.environment().take(), ["begin", line, "apply"]);
        }
    }
}

#[test]
fn on_watermark_is_not_called_unless_declared() {
    let mut deaf = probe_description().clone();
    deaf.on_watermark = false;
    let mut instance = probe()
        .instantiate("deaf", &deaf, Limits::default(), Recorder::default())
        .unwrap();
    instance.open("on-watermark trap").unwrap();
    instance.on_watermark(NOW).unwrap();
    assert_eq!(instance.environment().lines, [""; 0]);
}

#[test]
fn faults_are_passed_on_and_the_instance_lives() {
    let mut instance = opened("process fault-in-last-row", Limits::default());
    for _ in 0..2 {
        let CallError::Fault(fault) = instance.process(KEYED, NOW).unwrap_err() else {
            panic!()
        };
        assert_eq!(
            fault,
            Fault {
                row: Some(2),
                message: "the record is odd".to_owned()
            }
        );
        assert_eq!(instance.environment().take(), ["begin", "discard"]);
    }
    let mut instance = opened("process fault-beyond", Limits::default());
    let CallError::Contract(how) = instance.process(KEYED, NOW).unwrap_err() else {
        panic!()
    };
    assert_eq!(
        how,
        "it reports a fault in row 3 of a call that has 3 rows: the record is odd"
    );
    let mut instance = opened("finish fault", Limits::default());
    assert!(matches!(
        instance.finish(NOW),
        Err(CallError::Fault(Fault { row: None, .. }))
    ));
}

#[test]
fn a_panic_is_told_in_the_guests_words() {
    let mut instance = opened("process panic", Limits::default());
    let CallError::Trap {
        message,
        last_words,
        stderr,
        backtrace,
    } = instance.process(KEYED, NOW).unwrap_err()
    else {
        panic!()
    };
    assert!(message.contains("unreachable"), "{message}");
    let words = last_words.unwrap().message;
    assert!(
        words.contains("lib.rs") && words.contains("no field `dep_delay`"),
        "{words}"
    );
    assert_eq!(stderr, "");
    assert!(
        backtrace.iter().any(|name| name == "weir_guest_probe::act"
            || name.starts_with("<weir_guest_probe::Probe as")),
        "{backtrace:?}"
    );
}

#[test]
fn last_words_belong_to_one_call_and_name_rows_of_it() {
    let mut instance = opened("process last-words-beyond", Limits::default());
    let CallError::Trap { last_words, .. } = instance.process(KEYED, NOW).unwrap_err() else {
        panic!()
    };
    assert_eq!(
        last_words,
        Some(Fault {
            row: None,
            message: "here".to_owned()
        })
    );
    let mut instance = opened("process last-words-then-ok", Limits::default());
    instance.process(KEYED, NOW).unwrap();
    assert_eq!(instance.environment().take(), ["begin", "apply"]);
}

#[test]
fn after_a_trap_only_a_new_instance_goes_on() {
    let mut instance = opened("process trap", Limits::default());
    assert!(matches!(
        instance.process(KEYED, NOW),
        Err(CallError::Trap {
            last_words: None,
            ..
        })
    ));
    assert_eq!(instance.environment().take(), ["begin", "discard"]);
    for _ in 0..2 {
        let CallError::Contract(how) = instance.process(KEYED, NOW).unwrap_err() else {
            panic!()
        };
        assert_eq!(how, "the instance trapped before and was not replaced");
        assert_eq!(instance.environment().lines, [""; 0]);
    }
    // The new one does what the old one was told when it was opened.
    let mut instance = instance.replace().unwrap();
    assert!(matches!(
        instance.process(KEYED, NOW),
        Err(CallError::Trap { .. })
    ));
    assert!(instance.on_timers(FIRING, NOW).is_err());
    let mut instance = instance.replace().unwrap();
    instance.on_timers(FIRING, NOW).unwrap();
    assert_eq!(
        instance.environment().take(),
        ["begin", "discard", "begin", "apply"]
    );
}

#[test]
fn a_replaced_instance_remembers_nothing() {
    let mut instance = opened("process calls", Limits::default());
    instance.process(KEYED, NOW).unwrap();
    instance.process(KEYED, NOW).unwrap();
    let mut instance = instance.replace().unwrap();
    instance.process(KEYED, NOW).unwrap();
    let lines = instance.environment().take();
    let logs: Vec<_> = lines
        .iter()
        .filter(|line| line.starts_with("log"))
        .collect();
    assert_eq!(
        logs,
        ["log Info call 1", "log Info call 2", "log Info call 1"]
    );
}

#[test]
fn failures_of_the_environment_are_not_the_guests() {
    for method in EFFECTS.map(|line| line.split(' ').next().unwrap()) {
        let recorder = Recorder {
            fails: Some(method),
            ..Recorder::default()
        };
        let mut instance = opened_in(probe(), "process effects", Limits::default(), recorder);
        let CallError::Host(error) = instance.process(KEYED, NOW).unwrap_err() else {
            panic!("{method}")
        };
        assert_eq!(error.to_string(), "the disk is gone");
        assert!(
            error
                .cause()
                .unwrap()
                .downcast_ref::<std::io::Error>()
                .is_some()
        );
        assert_eq!(instance.environment().lines.last().unwrap(), "discard");
    }
    let recorder = Recorder {
        fails: Some("apply"),
        ..Recorder::default()
    };
    let mut instance = opened_in(probe(), "process effects", Limits::default(), recorder);
    assert!(matches!(
        instance.process(KEYED, NOW),
        Err(CallError::Host(_))
    ));
    // `apply` was called, so `discard` is not.
    assert_eq!(instance.environment().lines.last().unwrap(), "apply");
}

#[test]
fn the_log_is_not_an_effect() {
    let mut instance = opened("process log", Limits::default());
    instance.process(KEYED, NOW).unwrap();
    let lines = instance.environment().take();
    assert_eq!(
        lines[1],
        format!("log {:?} {}", Level::Warn, "é".repeat(8 << 10))
    );
    let mut instance = opened("process fault-at-length", Limits::default());
    let CallError::Fault(fault) = instance.process(KEYED, NOW).unwrap_err() else {
        panic!()
    };
    assert_eq!(fault.message.len(), 64 << 10);
}
