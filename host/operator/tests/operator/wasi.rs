//! Operators that import WASI get stubs of it: nothing is granted, everything repeats, and what they
//! do with it costs the host nothing.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_operator::{
    CallError, Component, Description, Engine, Form, Instance, Limits, Now, Problem, inspect,
    is_wasi_stub,
};

use crate::recorder::{NOW, Recorder, UNKEYED, engine, guest};

/// The guest `tests/guests/wasi`, compiled once.
fn component() -> &'static Component {
    static COMPONENT: OnceLock<Component> = OnceLock::new();
    COMPONENT.get_or_init(|| {
        engine()
            .load(&guest("weir_guest_wasi"), "wasi.wasm")
            .unwrap()
    })
}

fn description() -> Description {
    component().describe(None, &Limits::default()).unwrap()
}

/// An instance of an operator that does in each call what `action` says.
fn opened(operator: &str, action: &str) -> Instance<Recorder> {
    let limits = Limits {
        memory_bytes: 16 << 20,
        output_bytes: 1 << 20,
        ..Limits::default()
    };
    let mut instance = component()
        .instantiate(operator, &description(), limits, Recorder::default())
        .unwrap();
    instance.open(action).unwrap();
    instance
}

fn process(instance: &mut Instance<Recorder>) -> Result<(), CallError> {
    let mut batch = UNKEYED;
    batch.input = 0;
    instance.process(batch, NOW)
}

/// What the guest logs in a call, without the frame of every call.
#[track_caller]
fn logged(instance: &mut Instance<Recorder>) -> Vec<String> {
    instance.environment().take();
    process(instance).unwrap();
    let mut lines = instance.environment().take();
    assert_eq!(lines.remove(0), "begin");
    assert_eq!(lines.pop().unwrap(), "apply");
    lines
}

/// Why a call fails, and what was logged after it began.
#[track_caller]
fn failed(action: &str) -> (CallError, Vec<String>) {
    let mut instance = opened("wasi", action);
    instance.environment().take();
    let error = process(&mut instance).unwrap_err();
    let mut lines = instance.environment().take();
    assert_eq!(lines.remove(0), "begin");
    assert_eq!(lines.pop().unwrap(), "discard");
    (error, lines)
}

#[test]
fn a_core_module_that_imports_it_is_turned_into_a_component_and_loaded() {
    let bytes = guest("weir_guest_wasi");
    let inspection = inspect(&bytes);
    assert_eq!(inspection.form, Form::Module { typed: true });
    assert_eq!(inspection.problem, None);
    for import in [
        "wasi:cli/exit@0.2.0",
        "wasi:clocks/wall-clock@0.2.3",
        "wasi:io/poll@0.2.6",
        "wasi:random/random@0.2.99",
    ] {
        assert!(inspection.interface.imports.iter().any(|it| it == import));
        assert!(is_wasi_stub(import));
    }
    assert_eq!(component().interface(), &inspection.interface);
    assert_eq!(description().name, "wasi");
}

#[test]
fn the_monotonic_clock_is_the_instances_own_and_the_wall_clock_is_processing_time() {
    let mut instance = opened("wasi", "clocks");
    assert_eq!(
        instance.environment().take(),
        ["log Info monotonic 1 1001 of 1000, wall 0 s 0 ns"],
        "in `open` there is no processing time"
    );
    assert_eq!(
        logged(&mut instance),
        ["log Info monotonic 2001 3001 of 1000, wall 2 s 0 ns"]
    );
    for (processing_time, wall) in [(2_345, "2 s 345000000 ns"), (-1, "0 s 0 ns")] {
        let mut batch = UNKEYED;
        batch.input = 0;
        let now = Now {
            processing_time,
            ..NOW
        };
        instance.process(batch, now).unwrap();
        let lines = instance.environment().take();
        assert!(lines[1].ends_with(wall), "{lines:?}");
    }
    let mut replaced = instance.replace().unwrap();
    assert_eq!(
        replaced.environment().take(),
        ["log Info monotonic 1 1001 of 1000, wall 0 s 0 ns"]
    );
}

#[test]
fn random_numbers_follow_from_the_operators_id() {
    let mut one = opened("one", "random");
    let first = logged(&mut one);
    let second = logged(&mut one);
    assert_ne!(first, second);
    let mut same = opened("one", "random");
    assert_eq!(logged(&mut same), first);
    assert_eq!(logged(&mut same), second);
    assert_ne!(logged(&mut opened("other", "random")), first);
    let mut replaced = one.replace().unwrap();
    assert_eq!(logged(&mut replaced), first);
    assert!(matches!(
        failed("endless-random").0,
        CallError::Output { .. }
    ));
}

#[test]
fn nothing_is_granted() {
    assert_eq!(
        logged(&mut opened("wasi", "environment")),
        ["log Info [] [] None false 0"]
    );
    assert_eq!(
        logged(&mut opened("wasi", "network")),
        ["log Info denied true true"]
    );
    assert_eq!(
        logged(&mut opened("wasi", "stdin")),
        ["log Info closed closed true"]
    );
}

#[test]
fn what_is_written_is_logged_by_lines_when_the_call_is_over() {
    let lines = [
        "log Info one line",
        "log Info and a half",
        "log Warn a warning",
    ];
    let mut instance = opened("wasi", "write");
    assert_eq!(logged(&mut instance), lines);
    assert_eq!(logged(&mut instance), lines);
    let (error, logged) = failed("fault-after write");
    assert!(matches!(error, CallError::Fault(_)), "{error:?}");
    assert_eq!(logged, lines);
}

#[test]
fn standard_error_of_a_trap_is_why() {
    let (error, logged) = failed("exit-badly");
    assert_eq!(
        error.to_string(),
        "the operator trapped: it called `exit` with failure; it wrote to standard error:\n\
         Traceback:\nValueError: odd"
    );
    assert_eq!(logged, Vec::<String>::new());

    let (error, logged) = failed("write-much");
    let CallError::Trap { stderr, .. } = error else {
        panic!("{error:?}");
    };
    assert!(stderr.ends_with("line 19998\nline 19999\n"), "{stderr}");
    assert!(stderr.starts_with("[") && stderr.len() < 66_000);
    assert_eq!(logged, Vec::<String>::new());

    let (error, logged) = failed("fault-after write-much");
    assert!(matches!(error, CallError::Trap { .. }));
    assert_eq!(logged, Vec::<String>::new());

    let error = component().describe(Some("exit-badly"), &Limits::default());
    assert!(error.unwrap_err().to_string().ends_with("ValueError: odd"));
}

#[test]
fn leaving_is_a_trap() {
    let (error, _) = failed("exit-well");
    let CallError::Trap {
        message, backtrace, ..
    } = error
    else {
        panic!("{error:?}");
    };
    assert_eq!(message, "it called `exit` with success");
    assert!(!backtrace.is_empty());
}

#[test]
fn waiting_takes_no_time_and_comes_due_in_order() {
    assert_eq!(
        logged(&mut opened("wasi", "sleep")),
        ["log Info [1], 60 s, then 3600 s, ready true false"]
    );
    assert_eq!(
        logged(&mut opened("wasi", "spin")),
        ["log Info asked 10000 times"]
    );
}

#[test]
fn waiting_for_ever_ends_at_the_deadline() {
    let engine = Engine::new().unwrap();
    let component = engine.load(&guest("weir_guest_wasi"), "wasi.wasm").unwrap();
    let limits = Limits {
        call_time: Duration::from_millis(50),
        ..Limits::default()
    };
    let mut instance = component
        .instantiate("wasi", &description(), limits, Recorder::default())
        .unwrap();
    instance.open("poll-for-ever").unwrap();
    let done = AtomicBool::new(false);
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                engine.tick();
                std::thread::yield_now();
            }
        });
        let error = process(&mut instance).unwrap_err();
        done.store(true, Ordering::Relaxed);
        error
    });
    assert!(matches!(error, CallError::Deadline { .. }), "{error:?}");
}

#[test]
fn handles_are_limited_and_dropped_ones_do_not_count() {
    assert_eq!(
        logged(&mut opened("wasi", "drop-many")),
        ["log Info dropped them all"]
    );
    for action in ["hold-many", "hold-streams"] {
        let error = failed(action).0.to_string();
        assert_eq!(
            error, "the operator broke the contract: it holds more than 16384 handles of resources",
            "{action}"
        );
    }
    // They live as long as the instance does.
    let mut instance = opened("wasi", "hold-a-few");
    assert_eq!(logged(&mut instance), ["log Info 1 held"]);
    assert_eq!(logged(&mut instance), ["log Info 2 held"]);
    assert_eq!(
        logged(&mut instance.replace().unwrap()),
        ["log Info 1 held"]
    );
}

#[test]
fn what_wasi_forbids_is_named() {
    for (action, message) in [
        (
            "poll-nothing",
            "wasi:io/poll.poll: there is nothing to wait for",
        ),
        (
            "zeroes",
            "wasi:io/streams.[method]output-stream.write-zeroes: 18446744073709551615 zeroes at \
             once; 65536 are allowed",
        ),
        (
            "later",
            "wasi:cli/exit.added-later: this host has no such function",
        ),
    ] {
        assert_eq!(
            failed(action).0.to_string(),
            format!("the operator broke the contract: {message}")
        );
    }
}

#[test]
fn interfaces_without_stubs_are_refused_by_name_and_wrong_types_at_load() {
    let wat = |import: &str| {
        wat::parse_str(format!(
            "(component {import} (instance $x) (export \"weir:operator/lifecycle@0.1.0\" (instance $x)))"
        ))
        .unwrap()
    };
    let load = |import: &str| match engine().load(&wat(import), "it.wasm") {
        Ok(_) => panic!("it was loaded"),
        Err(error) => error,
    };
    let error = load("(import \"wasi:http/types@0.2.6\" (instance))");
    assert_eq!(
        error.to_string(),
        "it.wasm needs what this host does not offer\n  \
         imports `wasi:http/types@0.2.6`, of which there are no stubs\n  \
         help: operators get stubs of WASI 0.2's cli, clocks, filesystem, io, random and sockets; \
         build it without the rest (componentize-js: `disableFeatures: ['http', 'fetch-event']`)"
    );
    for import in ["wasi:io/poll@0.3.0", "wasi:io/poll@0.2.0-rc-2023-11-10"] {
        let problem = load(&format!("(import \"{import}\" (instance))")).problem;
        assert_eq!(
            problem,
            Problem::Wasi {
                imports: vec![import.to_owned()]
            }
        );
    }
    for import in [
        "(import \"wasi:random/random@0.2.0\"
            (instance (export \"get-random-u64\" (func (result u32)))))",
        "(import \"wasi:io/poll@0.2.0\" (instance (export \"handle\" (type (sub resource)))))",
        "(import \"wasi:io/poll@0.2.0\" (func))",
    ] {
        let problem = load(import).problem;
        assert!(matches!(problem, Problem::Mismatch { .. }), "{problem:?}");
    }
}
