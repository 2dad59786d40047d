//! An operator on the raw contract, without the SDK, that does what its configuration says: a few
//! proper things, and everything that an operator may not do. The host's tests load it and see that
//! nothing but the call is harmed.
//!
//! The configuration is `WHERE ACTION`, bare or as a JSON string: the call in which to act (`describe`, `open`, `process`,
//! `on-timers`, `on-watermark`, `finish`) and one of the actions in `act`; all other calls do
//! nothing and return ok.

mod bindings {
    #![allow(
        missing_docs,
        unreachable_pub,
        unused_qualifications,
        unsafe_op_in_unsafe_fn,
        clippy::undocumented_unsafe_blocks,
        reason = "generated code"
    )]
    wit_bindgen::generate!({ path: "../../../wit/operator.wit", world: "operator" });
    use super::Probe;
    export!(Probe);
}

mod malformed;

use std::cell::RefCell;
use std::hint::black_box;

use bindings::exports::weir::operator::lifecycle::Guest;
use bindings::weir::operator::diagnostics::{Level, last_words, log, reject};
use bindings::weir::operator::output::{self, Rows};
use bindings::weir::operator::state::{self, Cells};
use bindings::weir::operator::timers;
use bindings::weir::operator::types::{
    Batch, Column, Description, Dictionary, Fault, Firing, InputDecl, InputKind, Now, Nullable,
    OutputDecl, OutputKeys, StateDecl, StateKind, TimeDomain, TimerDecl,
};

struct Probe;

thread_local! {
    static CONFIG: RefCell<String> = const { RefCell::new(String::new()) };
    /// What a guest must not rely on: it is gone with the instance.
    static CALLS: RefCell<u32> = const { RefCell::new(0) };
}

/// The rows of the call under way, as far as actions need them.
#[derive(Default)]
struct Call {
    rows: u32,
    key_of_row: Vec<u32>,
    keys: u32,
}

impl Guest for Probe {
    fn describe(config: Option<String>) -> Result<Description, String> {
        let mut description = description();
        let Some(action) = config
            .as_deref()
            .and_then(|config| bare(config).strip_prefix("describe "))
        else {
            return Ok(description);
        };
        match action {
            "refuse" => return Err("`min_flights` is missing".to_owned()),
            "two-inputs-of-a-name" => {
                description.inputs[1].name = description.inputs[0].name.clone()
            }
            "headers" => description
                .inputs
                .iter_mut()
                .for_each(|input| input.headers = true),
            "broadcast" => description.inputs[0].kind = InputKind::Broadcast,
            "large" => description.version = "9".repeat(2 << 20),
            _ => {
                act(action, &Call::default()).map_err(|fault| fault.message)?;
            }
        }
        Ok(description)
    }

    fn open(config: String) -> Result<(), String> {
        std::panic::set_hook(Box::new(|panic| {
            last_words(&Fault {
                row: None,
                message: panic.to_string(),
            })
        }));
        CONFIG.set(bare(&config).to_owned());
        match action_in("open").as_deref() {
            Some("refuse") => Err("`min_flights` is missing".to_owned()),
            Some(action) => act(action, &Call::default()).map_err(|fault| fault.message),
            None => Ok(()),
        }
    }

    fn process(batch: Batch, now: Now) -> Result<(), Fault> {
        let rows = batch.times.len() as u32;
        let keys = batch.keys.distinct.offsets.len() as u32 - 1;
        let key_of_row = if batch.keys.index.is_empty() {
            (0..rows).collect()
        } else {
            batch.keys.index.clone()
        };
        if let Some(action) = action_in("process")
            && let Some(action) = action.strip_prefix("bad-records ")
        {
            // Effects first, so that a failure has some to withhold.
            echo(rows);
            let call = Call {
                rows,
                key_of_row,
                keys,
            };
            let bad = batch.values.data.windows(5).any(|part| part == b"\"bad\"");
            return if bad { act(action, &call) } else { Ok(()) };
        }
        match action_in("process").as_deref() {
            Some("echo") => {
                echo(rows);
                Ok(())
            }
            Some("echo-all") => {
                emit(
                    1,
                    Rows {
                        origins: (0..rows).collect(),
                        keys: Some(batch.keys),
                        values: Some(batch.values),
                        times: Some(batch.times),
                        headers: batch.headers,
                    },
                );
                log(
                    Level::Info,
                    &format!(
                        "watermark {}, processing time {}",
                        now.watermark, now.processing_time
                    ),
                );
                Ok(())
            }
            Some("count") => {
                count(&key_of_row, keys);
                Ok(())
            }
            Some(action) => act(
                action,
                &Call {
                    rows,
                    key_of_row,
                    keys,
                },
            ),
            None => Ok(()),
        }
    }

    fn on_timers(due: Firing, _now: Now) -> Result<(), Fault> {
        let rows = due.times.len() as u32;
        match action_in("on-timers") {
            Some(action) => act(
                &action,
                &Call {
                    rows,
                    key_of_row: (0..rows).collect(),
                    keys: rows,
                },
            ),
            None => Ok(()),
        }
    }

    fn on_watermark(_now: Now) -> Result<(), Fault> {
        action_in("on-watermark").map_or(Ok(()), |action| act(&action, &Call::default()))
    }

    fn finish(_now: Now) -> Result<(), Fault> {
        action_in("finish").map_or(Ok(()), |action| act(&action, &Call::default()))
    }

    fn migrate(_: String, _: u32, _: Option<Column>, _: Column) -> Result<Nullable, Fault> {
        Err(fault("there is nothing to migrate from"))
    }
}

/// A job file's `config: process trap` comes as a JSON string.
fn bare(config: &str) -> &str {
    config.trim_matches('"')
}

/// The configured action, if this is the call in which to act.
fn action_in(call: &str) -> Option<String> {
    CONFIG.with_borrow(|config| {
        config
            .strip_prefix(call)?
            .strip_prefix(' ')
            .map(str::to_owned)
    })
}

fn act(action: &str, call: &Call) -> Result<(), Fault> {
    match action {
        "trap" => std::process::abort(),
        "panic" => panic!("no field `dep_delay`"),
        "loop" => loop {
            black_box(());
        },
        "loop-of-logs" => loop {
            log(Level::Debug, "again");
        },
        "recurse" => {
            black_box(recurse(black_box(0)));
        }
        "recurse-with-arrays" => {
            black_box(recurse_with_arrays(black_box(0)));
        }
        "grow" => {
            // Allocators in Rust abort when memory is refused.
            let mut hoard = Vec::new();
            loop {
                hoard.push(black_box(vec![1_u8; 1 << 20]));
            }
        }
        "hold" => std::mem::forget(black_box(vec![1_u8; 8 << 20])),
        "fault" => return Err(fault("the record is odd")),
        "fault-in-last-row" => {
            return Err(Fault {
                row: Some(call.rows - 1),
                message: "the record is odd".to_owned(),
            });
        }
        "fault-beyond" => {
            return Err(Fault {
                row: Some(call.rows),
                message: "the record is odd".to_owned(),
            });
        }
        "fault-not-text" => return Err(fault(&not_text())),
        "log-not-text" => log(Level::Warn, &not_text()),
        "fault-at-length" => return Err(fault(&"é".repeat(1 << 20))),
        "log" => log(Level::Warn, &"é".repeat(1 << 15)),
        "last-words-then-ok" => last_words(&fault("not the end")),
        "last-words-beyond" => {
            last_words(&Fault {
                row: Some(call.rows),
                message: "here".to_owned(),
            });
            std::process::abort();
        }
        "calls" => CALLS.with_borrow_mut(|calls| {
            *calls += 1;
            log(Level::Info, &format!("call {calls}"));
        }),
        "effects-then-trap" => {
            effects(call);
            std::process::abort();
        }
        "effects-then-fault" => {
            effects(call);
            return Err(fault("the record is odd"));
        }
        "effects" => effects(call),
        _ => malformed::act(action, call),
    }
    Ok(())
}

/// Emits every row as it came.
fn echo(rows: u32) {
    emit(
        0,
        Rows {
            origins: (0..rows).collect(),
            keys: None,
            values: None,
            times: None,
            headers: None,
        },
    );
}

/// Bytes that are no text, as a guest in a language without checked strings may pass them on.
fn not_text() -> String {
    let bytes = black_box(vec![b'a', 0xff, 0xfe]);
    // SAFETY: it is not UTF-8, which is the point. Nothing in this guest looks at it: it goes
    // straight to the host.
    unsafe { String::from_utf8_unchecked(bytes) }
}

/// One of each thing a keyed call may do, for its first row.
fn effects(call: &Call) {
    let at = || Cells {
        keys: vec![call.key_of_row[0]],
        namespaces: Some(column(&["w"])),
    };
    let names = || column(&["n"]);
    let open = || nullable(&[None]);
    let value = || nullable(&[Some("v")]);
    state::get(0, &at());
    state::put(0, &at(), &value());
    state::append(1, &at(), &names());
    state::get_items(1, &at());
    state::get_entries(2, &at(), &names());
    state::put_entries(2, &at(), &names(), &value());
    state::scan(2, &at(), &open(), &open(), true, 7);
    state::clear_entries(2, &at(), &open(), &open());
    state::clear(1, &at());
    state::touch(0, &at());
    timers::set(0, &at(), &[5]);
    timers::cancel(1, &at(), &[6]);
    emit(
        0,
        Rows {
            origins: vec![0],
            keys: None,
            values: Some(value()),
            times: None,
            headers: None,
        },
    );
    reject(&[Fault {
        row: Some(call.rows - 1),
        message: "odd".to_owned(),
    }]);
}

/// Counts records by key, and emits each row with its key's count.
fn count(key_of_row: &[u32], keys: u32) {
    let at = Cells {
        keys: (0..keys).collect(),
        namespaces: None,
    };
    let stored = state::get(0, &at);
    let mut counts: Vec<u64> = (0..keys as usize)
        .map(|key| {
            let bytes =
                &stored.data[stored.offsets[key] as usize..stored.offsets[key + 1] as usize];
            bytes.try_into().map_or(0, u64::from_le_bytes)
        })
        .collect();
    let mut values = Nullable {
        present: Vec::new(),
        offsets: Vec::with_capacity(key_of_row.len() + 1),
        data: Vec::with_capacity(key_of_row.len() * 8),
    };
    values.offsets.push(0);
    for &key in key_of_row {
        counts[key as usize] += 1;
        values
            .data
            .extend_from_slice(&counts[key as usize].to_le_bytes());
        values.offsets.push(values.data.len() as u32);
    }
    let stored = Nullable {
        present: Vec::new(),
        offsets: (0..=keys).map(|key| key * 8).collect(),
        data: counts
            .iter()
            .flat_map(|count| count.to_le_bytes())
            .collect(),
    };
    state::put(0, &at, &stored);
    let origins = (0..key_of_row.len() as u32).collect();
    emit(
        0,
        Rows {
            origins,
            keys: None,
            values: Some(values),
            times: None,
            headers: None,
        },
    );
}

fn emit(output: u32, rows: Rows) {
    output::emit(output, &rows);
}

/// Ends at the host's stack.
#[expect(unconditional_recursion, reason = "to exhaust the stack")]
fn recurse(depth: u64) -> u64 {
    recurse(depth + 1).rotate_left(3) ^ black_box(depth)
}

/// Ends at the stack that the compiler keeps in linear memory for what has an address.
#[expect(unconditional_recursion, reason = "to exhaust the stack")]
fn recurse_with_arrays(depth: u64) -> u64 {
    let here = black_box([depth; 64]);
    recurse_with_arrays(depth + 1) + here[(depth % 64) as usize]
}

fn fault(message: &str) -> Fault {
    Fault {
        row: None,
        message: message.to_owned(),
    }
}

fn column(strings: &[&str]) -> Column {
    let Nullable { offsets, data, .. } = nullable(
        &strings
            .iter()
            .map(|string| Some(*string))
            .collect::<Vec<_>>(),
    );
    Column { offsets, data }
}

fn nullable(strings: &[Option<&str>]) -> Nullable {
    let mut built = Nullable {
        present: Vec::new(),
        offsets: vec![0],
        data: Vec::new(),
    };
    for string in strings {
        built
            .data
            .extend_from_slice(string.unwrap_or_default().as_bytes());
        built.offsets.push(built.data.len() as u32);
    }
    if strings.contains(&None) {
        built.present = strings
            .iter()
            .map(|string| u8::from(string.is_some()))
            .collect();
    }
    built
}

fn description() -> Description {
    let input = |name: &str, kind| InputDecl {
        name: name.to_owned(),
        kind,
        headers: false,
        options: vec![],
    };
    let output = |name: &str, keys| OutputDecl {
        name: name.to_owned(),
        keys,
        options: vec![],
    };
    let state = |name: &str, kind| StateDecl {
        name: name.to_owned(),
        kind,
        version: 1,
        migrates_from: vec![],
        ttl: None,
        value_encoding: "utf8".to_owned(),
        entry_encoding: String::new(),
        options: vec![],
    };
    let timer = |name: &str, domain| TimerDecl {
        name: name.to_owned(),
        domain,
        options: vec![],
    };
    Description {
        name: "probe".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        inputs: vec![
            input("keyed", InputKind::Keyed),
            input("unkeyed", InputKind::Unkeyed),
        ],
        outputs: vec![
            output("kept", OutputKeys::Kept),
            output("given", OutputKeys::Given),
            output("absent", OutputKeys::Absent),
        ],
        states: vec![
            state("value", StateKind::Value),
            state("items", StateKind::Items),
            state("entries", StateKind::Entries),
        ],
        timers: vec![
            timer("event", TimeDomain::Event),
            timer("processing", TimeDomain::Processing),
        ],
        on_watermark: true,
        options: vec![],
    }
}

/// Keys of output rows: each row its own.
fn keys(keys: &[Option<&str>]) -> Dictionary {
    Dictionary {
        distinct: nullable(keys),
        index: (0..keys.len() as u32).collect(),
    }
}
