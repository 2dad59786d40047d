//! Guests that use up too much are stopped, and nothing but their call is harmed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_operator::{CallError, Engine, Instance, Limits};

use crate::recorder::{
    FIRING, HEADED, KEYED, NOW, Recorder, call, guest, opened, opened_in, probe,
};

/// Limits that are reached soon. The deadline is that of the default unless time passes.
fn small() -> Limits {
    Limits {
        memory_bytes: 16 << 20,
        output_bytes: 64 << 10,
        value_bytes: 1 << 10,
        ..Limits::default()
    }
}

/// The call that `config` names failed with this, its effects were discarded, and a replaced
/// instance works.
fn fails(config: &str) -> CallError {
    let mut instance = opened(config, small());
    let error = call(&mut instance, config).unwrap_err();
    assert_eq!(instance.environment().lines.last().unwrap(), "discard");
    let mut instance = instance.replace().unwrap();
    if config.starts_with("process") {
        instance.on_timers(FIRING, NOW).unwrap();
    } else {
        instance.process(KEYED, NOW).unwrap();
    }
    assert_eq!(instance.environment().lines.last().unwrap(), "apply");
    error
}

#[test]
fn memory_is_limited() {
    let CallError::Memory { limit, asked } = fails("process grow") else {
        panic!()
    };
    assert_eq!(limit, 16 << 20);
    assert!(asked > limit && asked < 2 * limit, "{asked}");
    let error = probe()
        .describe(Some("describe grow"), &small())
        .unwrap_err();
    assert!(matches!(error, CallError::Memory { .. }), "{error:?}");
}

#[test]
fn a_module_that_starts_with_too_much_memory_is_not_started() {
    let limits = Limits {
        memory_bytes: 1 << 16,
        ..Limits::default()
    };
    let error = probe().describe(None, &limits).unwrap_err();
    assert!(
        matches!(error, CallError::Memory { limit: 65536, asked } if asked > 65536),
        "{error:?}"
    );
}

#[test]
fn memory_in_use_is_told_and_freed_by_replacing() {
    let mut instance = opened("process hold", Limits::default());
    let before = instance.memory_bytes();
    assert!(before > 0);
    instance.process(KEYED, NOW).unwrap();
    assert!(instance.memory_bytes() >= before + (8 << 20));
    assert_eq!(instance.replace().unwrap().memory_bytes(), before);
}

#[test]
fn recursion_ends_at_a_stack() {
    let CallError::Trap { message, .. } = fails("process recurse") else {
        panic!()
    };
    assert_eq!(message, "call stack exhausted");
    let CallError::Trap { message, .. } = fails("process recurse-with-arrays") else {
        panic!()
    };
    assert_eq!(message, "out of bounds memory access");
}

#[test]
fn output_is_limited_however_it_is_made() {
    for config in [
        "process emit without-end",
        "process emit key-flood",
        "process emit huge",
        "process emit-headers flood",
        "on-timers emit key-flood",
        "process state write-without-end",
        "on-timers state write-without-end",
    ] {
        let error = fails(config);
        assert!(
            matches!(error, CallError::Output { limit } if limit == 64 << 10),
            "{config}: {error:?}"
        );
    }
}

#[test]
fn inherited_output_counts() {
    // 2,048 rows of 16 bytes and 1 of a key fit, and 1,000 bytes of a value each do not.
    let mut instance = opened("process emit inherited-flood", small());
    instance.process(KEYED, NOW).unwrap();
    let value = [b'x'; 1_000];
    let offsets = [0, 1_000, 1_000, 1_000];
    let mut large = KEYED;
    large.values.data = &value;
    large.values.offsets = &offsets;
    assert!(matches!(
        instance.process(large, NOW),
        Err(CallError::Output { .. })
    ));
    let mut instance = opened("process emit inherited-flood", small());
    let key = [b'k'; 1_000];
    let offsets = [0, 999, 1_000];
    let mut large = KEYED;
    large.distinct.data = &key;
    large.distinct.offsets = &offsets;
    assert!(matches!(
        instance.process(large, NOW),
        Err(CallError::Output { .. })
    ));
    // Nor do three headers, of few bytes, although the input does not ask for them.
    let mut instance = opened("process emit inherited-flood", small());
    assert!(matches!(
        instance.process(HEADED, NOW),
        Err(CallError::Output { .. })
    ));
}

#[test]
fn an_environment_can_say_that_it_is_asked_for_too_much() {
    let recorder = Recorder {
        over_budget: Some("get-items"),
        ..Recorder::default()
    };
    let mut instance = opened_in(probe(), "process effects", small(), recorder);
    assert!(matches!(
        instance.process(KEYED, NOW),
        Err(CallError::Output { .. })
    ));
    assert_eq!(instance.environment().lines.last().unwrap(), "discard");
}

/// Runs with time passing, as an embedder lets it.
fn ticking<R>(engine: &Engine, run: impl FnOnce() -> R) -> R {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                engine.tick();
                std::thread::yield_now();
            }
        });
        let result = run();
        done.store(true, Ordering::Relaxed);
        result
    })
}

fn is_late<R>(result: Result<R, CallError>) -> bool {
    matches!(result, Err(CallError::Deadline { limit }) if limit == Duration::from_millis(50))
}

#[test]
fn endless_calls_are_stopped() {
    let engine = Engine::new().unwrap();
    let component = engine
        .load(&guest("weir_guest_probe"), "probe.wasm")
        .unwrap();
    let limits = || Limits {
        call_time: Duration::from_millis(50),
        ..small()
    };
    let open = |config: &str| opened_in(&component, config, limits(), Recorder::default());
    for config in [
        "process loop",
        "on-timers loop",
        "on-watermark loop",
        "finish loop",
        "process loop-of-logs",
    ] {
        let mut instance = open(config);
        assert!(
            ticking(&engine, || is_late(call(&mut instance, config))),
            "{config}"
        );
        assert_eq!(instance.environment().lines.last().unwrap(), "discard");
        let mut instance = instance.replace().unwrap();
        assert!(
            ticking(&engine, || is_late(call(&mut instance, config))),
            "{config}"
        );
    }
    assert!(ticking(&engine, || is_late(
        component.describe(Some("describe loop"), &limits())
    )));
    let mut instance = open("process trap");
    assert!(ticking(&engine, || is_late(instance.open("open loop"))));
}

#[test]
fn time_that_passes_in_imports_counts() {
    let engine = Engine::new().unwrap();
    let component = engine
        .load(&guest("weir_guest_probe"), "probe.wasm")
        .unwrap();
    let limits = Limits {
        call_time: Duration::from_millis(50),
        ..Limits::default()
    };
    let slow = |ticks| -> Instance<Recorder> {
        let recorder = Recorder {
            slow: Some((engine.clone(), ticks)),
            ..Recorder::default()
        };
        opened_in(&component, "process effects", limits.clone(), recorder)
    };
    // The first import takes all the time there is.
    let mut instance = slow(6);
    assert!(is_late(instance.process(KEYED, NOW)));
    assert_eq!(
        instance.environment().lines,
        ["begin", "get 0 [0]/[w]", "discard"]
    );
    // Without that, the deadline does not depend on how long ago the instance was made.
    let mut instance = slow(0);
    (0..100).for_each(|_| engine.tick());
    instance.process(KEYED, NOW).unwrap();
}

#[test]
fn a_call_can_be_hurried_and_the_next_has_its_time_again() {
    let engine = Engine::new().unwrap();
    let component = engine
        .load(&guest("weir_guest_probe"), "probe.wasm")
        .unwrap();
    let limits = Limits {
        call_time: Duration::from_millis(50),
        ..Limits::default()
    };
    let recorder = Recorder {
        slow: Some((engine.clone(), 4)),
        ..Recorder::default()
    };
    let mut instance = opened_in(&component, "process effects", limits, recorder);
    let imports = |instance: &mut Instance<Recorder>| {
        assert!(is_late(instance.process(KEYED, NOW)));
        // Between `begin` and `discard`.
        instance.environment().take().len() - 2
    };
    instance.hurry(Duration::from_millis(20));
    assert_eq!(imports(&mut instance), 1, "the first takes longer");
    let mut instance = instance.replace().unwrap();
    assert_eq!(imports(&mut instance), 2, "there is time for it again");
    let mut instance = instance.replace().unwrap();
    instance.hurry(Duration::from_secs(50));
    assert_eq!(
        imports(&mut instance),
        2,
        "more than the limit is not to be had"
    );
}

#[test]
fn many_traps_leave_nothing_behind() {
    let mut instance = opened("process trap", small());
    let memory = instance.memory_bytes();
    for _ in 0..2_000 {
        assert!(instance.process(KEYED, NOW).is_err());
        instance = instance.replace().unwrap();
        assert_eq!(instance.memory_bytes(), memory);
    }
    assert_eq!(instance.environment().lines.len(), 4_000);
}
