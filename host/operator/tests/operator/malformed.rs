//! Everything a guest may not hand over is refused with a message that says what and where, before
//! the environment sees it.

use weir_operator::{CallError, Limits};

use crate::recorder::{KEYED, NOW, UNKEYED, call, opened};

/// What the contract's breach is called when the call in `config` is made.
fn breach(config: &str) -> String {
    let limits = Limits {
        value_bytes: 1 << 10,
        ..Limits::default()
    };
    let mut instance = opened(config, limits);
    let how = match call(&mut instance, config) {
        Err(CallError::Contract(how)) => how,
        other => panic!("{config}: {other:?}"),
    };
    assert_eq!(
        instance.environment().take(),
        ["begin", "discard"],
        "{config}"
    );
    how
}

fn check(cases: &[(&str, &str)]) {
    for (config, expected) in cases {
        assert_eq!(breach(config), *expected, "{config}");
    }
}

const NO_OFFSETS: &str = "no offsets; a column of n strings has n + 1, also for n = 0";
const DECREASING: &str = "offset 2 (1) is smaller than the one before it (2)";
const LAST_OFFSET: &str = "the last offset is 4294967295, but there are 1 bytes of data";
const TRAILING: &str = "the last offset is 1, but there are 2 bytes of data";
const COUNT: &str = "a length of 2 where 1 is needed";
const LONG: &str = "string 0 has 2048 bytes; the limit is 1024";

#[test]
fn columns() {
    for (how, expected) in [
        ("no-offsets", NO_OFFSETS),
        ("first-offset", "the first offset is 1, not 0"),
        ("decreasing", DECREASING),
        ("last-offset", LAST_OFFSET),
        ("trailing-data", TRAILING),
        ("count", COUNT),
        ("long", LONG),
    ] {
        assert_eq!(
            breach(&format!("process column {how}")),
            format!("state.append: `items`: {expected}")
        );
        assert_eq!(
            breach(&format!("on-timers column {how}")),
            format!("state.append: `items`: {expected}")
        );
        assert_eq!(
            breach(&format!("process nullable {how}")),
            format!("state.put: `values`: {expected}")
        );
        assert_eq!(
            breach(&format!("process cells {how}")),
            format!("state.get: `namespaces`: {expected}")
        );
    }
}

#[test]
fn nullable_columns() {
    check(&[
        (
            "process nullable present-length",
            "state.put: `values`: `present` has 2 bytes for 1 strings",
        ),
        (
            "process nullable present-byte",
            "state.put: `values`: `present` has the byte 7 at 0; only 0 and 1 have a meaning",
        ),
        (
            "process nullable null-with-bytes",
            "state.put: `values`: string 0 is null and has bytes",
        ),
    ]);
}

#[test]
fn cells() {
    check(&[
        (
            "process cells key",
            "state.get: there is no key 2; the call has 2",
        ),
        (
            "on-timers cells key",
            "state.get: there is no key 2; the call has 2",
        ),
        (
            "process cells namespaces-count",
            "state.get: `namespaces`: a length of 2 where 1 is needed",
        ),
    ]);
}

#[test]
fn states() {
    check(&[
        (
            "process state undeclared",
            "state.get: there is no state 3; 3 are declared",
        ),
        (
            "process state get-of-items",
            "state.get: state `items` is of kind items",
        ),
        (
            "process state put-of-entries",
            "state.put: state `entries` is of kind entries",
        ),
        (
            "process state append-of-value",
            "state.append: state `value` is of kind value",
        ),
        (
            "process state get-items-of-value",
            "state.get-items: state `value` is of kind value",
        ),
        (
            "process state get-entries-of-value",
            "state.get-entries: state `value` is of kind value",
        ),
        (
            "process state put-entries-of-items",
            "state.put-entries: state `items` is of kind items",
        ),
        (
            "process state scan-of-items",
            "state.scan: state `items` is of kind items",
        ),
        (
            "process state clear-entries-of-value",
            "state.clear-entries: state `value` is of kind value",
        ),
        (
            "process state clear-undeclared",
            "state.clear: there is no state 3; 3 are declared",
        ),
        (
            "process state touch-undeclared",
            "state.touch: there is no state 3; 3 are declared",
        ),
        (
            "process state get-entries-count",
            "state.get-entries: `names`: a length of 0 where 1 is needed",
        ),
        (
            "process state put-entries-names",
            "state.put-entries: `names`: a length of 2 where 1 is needed",
        ),
        (
            "process state put-entries-values",
            "state.put-entries: `values`: a length of 2 where 1 is needed",
        ),
        (
            "process state scan-start",
            "state.scan: `start`: a length of 0 where 1 is needed",
        ),
        (
            "process state scan-end",
            "state.scan: `end`: a length of 0 where 1 is needed",
        ),
        (
            "process state scan-limit",
            "state.scan: `limit` is 0; it is at least 1",
        ),
        (
            "process state clear-entries-start",
            "state.clear-entries: `start`: a length of 0 where 1 is needed",
        ),
        (
            "process state clear-entries-end",
            "state.clear-entries: `end`: a length of 0 where 1 is needed",
        ),
    ]);
}

#[test]
fn timers() {
    check(&[
        (
            "process timers undeclared",
            "timers.set: there is no timer 2; 2 are declared",
        ),
        (
            "process timers cancel-undeclared",
            "timers.cancel: there is no timer 2; 2 are declared",
        ),
        (
            "process timers count",
            "timers.set: `times`: a length of 2 where 1 is needed",
        ),
        (
            "process timers cancel-count",
            "timers.cancel: `times`: a length of 0 where 1 is needed",
        ),
        (
            "process timers no-time",
            "timers.set: `times`: the minimum of s64 is no time",
        ),
        (
            "process timers key",
            "timers.set: there is no key 4294967295; the call has 2",
        ),
    ]);
    let mut instance = opened("process timers proper", Limits::default());
    instance.process(KEYED, NOW).unwrap();
    assert_eq!(
        instance.environment().take()[1],
        format!("set 1 [0] [{}]", i64::MAX)
    );
}

#[test]
fn output() {
    check(&[
        (
            "process emit undeclared",
            "output.emit: there is no output 3; 3 are declared",
        ),
        (
            "process emit origin",
            "output.emit: `origins`: there is no row 3; the call has 3",
        ),
        (
            "on-timers emit origin",
            "output.emit: `origins`: there is no row 2; the call has 2",
        ),
        (
            "process emit values-count",
            "output.emit: `values`: a length of 0 where 1 is needed",
        ),
        (
            "process emit times-count",
            "output.emit: `times`: a length of 2 where 1 is needed",
        ),
        (
            "process emit keys-of-kept",
            "output.emit: `keys` is there, but output 0 declares its keys kept",
        ),
        (
            "process emit keys-of-absent",
            "output.emit: `keys` is there, but output 2 declares its keys absent",
        ),
        (
            "process emit key-index",
            "output.emit: `keys.index`: there is no key 1; there are 1",
        ),
        (
            "process emit key-index-count",
            "output.emit: `keys.index`: a length of 2 where 1 is needed",
        ),
        (
            "process emit value-column",
            "output.emit: `values`: string 0 is null and has bytes",
        ),
        (
            "process emit long",
            "output.emit: `values`: string 0 has 2048 bytes; the limit is 1024",
        ),
        (
            "on-timers emit inherit",
            "output.emit: `values` is absent, and there are none to inherit",
        ),
    ]);
    assert_eq!(
        breach("process emit key-column"),
        format!("output.emit: `keys.distinct`: {DECREASING}")
    );
}

#[test]
fn headers() {
    for (how, expected) in [
        (
            "ends-count",
            "`headers.ends`: a length of 1 where 2 is needed",
        ),
        (
            "ends-decreasing",
            "`headers.ends`: end 1 (1) is smaller than the one before it (2)",
        ),
        (
            "ends-beyond",
            "`headers.ends`: the last end is 4294967295, but there are 1 names",
        ),
        (
            "ends-short",
            "`headers.ends`: the last end is 0, but there are 1 names",
        ),
        (
            "names",
            "`headers.names`: offset 2 (1) is smaller than the one before it (2)",
        ),
        (
            "names-long",
            "`headers.names`: string 0 has 2048 bytes; the limit is 1024",
        ),
        (
            "contents",
            "`headers.contents`: string 0 is null and has bytes",
        ),
        (
            "contents-count",
            "`headers.contents`: a length of 0 where 1 is needed",
        ),
        (
            "contents-long",
            "`headers.contents`: string 0 has 2048 bytes; the limit is 1024",
        ),
    ] {
        for when in ["process", "on-timers"] {
            assert_eq!(
                breach(&format!("{when} emit-headers {how}")),
                format!("output.emit: {expected}")
            );
        }
    }
}

#[test]
fn output_of_calls_without_rows() {
    for when in ["on-watermark", "finish"] {
        for (action, expected) in [
            (
                "moment-origins",
                "`origins` is not empty, but the call has no rows",
            ),
            (
                "moment-kept",
                "`keys` is absent, output 0 declares its keys kept, and there are none to inherit",
            ),
            (
                "moment-keys",
                "`keys` is absent, output 1 declares its keys given, and there are none to inherit",
            ),
            (
                "moment-values",
                "`values` is absent, and there are none to inherit",
            ),
            (
                "moment-times",
                "`times` is absent, and there are none to inherit",
            ),
        ] {
            assert_eq!(
                breach(&format!("{when} emit {action}")),
                format!("output.emit: {expected}")
            );
        }
    }
}

#[test]
fn rejects() {
    check(&[
        (
            "process reject no-row",
            "diagnostics.reject: a fault names no row",
        ),
        (
            "process reject row",
            "diagnostics.reject: there is no row 3; the call has 3",
        ),
        (
            "on-timers reject row",
            "diagnostics.reject: there is no row 2; the call has 2",
        ),
        (
            "process reject twice",
            "diagnostics.reject: row 0 was given up before",
        ),
        (
            "on-watermark reject nothing",
            "diagnostics.reject: may not be called during on-watermark or finish",
        ),
    ]);
    let mut instance = opened("process reject twice-in-two-calls", Limits::default());
    let Err(CallError::Contract(how)) = instance.process(KEYED, NOW) else {
        panic!()
    };
    assert_eq!(how, "diagnostics.reject: row 0 was given up before");
}

#[test]
fn calls_that_may_not_be_made_now() {
    for when in ["on-watermark", "finish"] {
        for (action, import) in [
            ("state get-of-items", "state.get"),
            ("state clear-undeclared", "state.clear"),
            ("timers proper", "timers.set"),
            ("timers cancel-undeclared", "timers.cancel"),
        ] {
            let expected = format!("{import}: may not be called during on-watermark or finish");
            assert_eq!(breach(&format!("{when} {action}")), expected);
        }
    }
    for (action, import) in [("effects", "state.get"), ("timers proper", "timers.set")] {
        let mut instance = opened(&format!("process {action}"), Limits::default());
        let Err(CallError::Contract(how)) = instance.process(UNKEYED, NOW) else {
            panic!("{action}")
        };
        assert_eq!(
            how,
            format!("{import}: may not be called during process of an unkeyed input")
        );
        assert_eq!(instance.environment().take(), ["begin", "discard"]);
    }
    for function in ["get-entries", "put-entries", "scan"] {
        assert_eq!(
            breach(&format!("process shared-state {function}")),
            format!("shared-state.{function}: the operator declares no shared state")
        );
    }
}
