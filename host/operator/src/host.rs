//! The host's side of a guest's call: what the call may do, how far it has got, and the checks of
//! what it hands over.

use std::collections::BTreeSet;
use std::sync::Arc;

use wasmtime::{Store, Trap};

use crate::call_error::{CallError, Fault, LOG_BYTES, MESSAGE_BYTES, shorten};
use crate::columns::{Batch, Firing, HeadersRef, Malformed, NullableRef, check_count};
use crate::contract::wit::types as wit;
use crate::description::{Description, InputKind, StateKind};
use crate::engine::Clock;
use crate::environment::{Cells, Environment, HostError, Level};
use crate::limits::{Limits, Memory, ROW_BYTES};
use crate::wasi::{HANDLES, Wasi};

/// A store's data: the environment and the call under way.
pub(crate) struct Host<E> {
    pub(crate) environment: E,
    pub(crate) description: Arc<Description>,
    pub(crate) limits: Limits,
    pub(crate) memory: Memory,
    pub(crate) wasi: Wasi,
    pub(crate) call: Call,
    /// Which operator of the job this is.
    pub(crate) operator: String,
    clock: Clock,
    ticks_per_call: u64,
    /// Of the next call alone, if it is to have fewer.
    pub(crate) hurried: Option<u64>,
    /// The tick at which the call under way is over.
    deadline: u64,
}

/// Sets the deadline of the call that follows: for compiled code by the epoch, for imports by the
/// clock.
pub(crate) fn arm<E>(store: &mut Store<Host<E>>) {
    let host = store.data_mut();
    let ticks = host.hurried.take().unwrap_or(host.ticks_per_call);
    let ticks = ticks.min(host.ticks_per_call);
    host.deadline = host.clock.ticks() + ticks;
    store.set_epoch_deadline(ticks);
}

/// What is being called, which decides what it may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `describe`, `open` and start functions: nothing but diagnostics.
    Quiet,
    /// `process` of a keyed input.
    Keyed,
    /// `process` of an unkeyed input.
    Unkeyed,
    /// `on-timers`.
    Timers,
    /// `on-watermark` and `finish`.
    Moment,
}

/// The call under way. Its vectors are kept from call to call.
pub(crate) struct Call {
    pub(crate) kind: Kind,
    /// Rows of the batch or firing.
    pub(crate) rows: usize,
    /// Distinct keys that cells may name.
    keys: usize,
    /// What output rows inherit, as lengths: copied, since the batch itself is borrowed only by the
    /// call.
    pub(crate) key_index: Vec<u32>,
    pub(crate) key_offsets: Vec<u32>,
    pub(crate) value_offsets: Vec<u32>,
    /// What the headers of the rows before each row cost, and last those of all; empty if no row has any.
    pub(crate) header_costs: Vec<u64>,
    emitted: u64,
    written: u64,
    rejected: BTreeSet<u32>,
    last_words: Option<Fault>,
    /// Why an import stopped the call. What the guest's trap looks like then says nothing.
    stopped: Option<CallError>,
}

/// Why an import refuses to go on.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The guest broke the contract.
    Contract(String),
    /// The call does more than it may carry.
    Output,
    /// The environment failed.
    Host(HostError),
    /// The guest has ended itself.
    Trap(String),
}

impl From<HostError> for Refusal {
    fn from(error: HostError) -> Self {
        if error.is_over_budget() {
            Refusal::Output
        } else {
            Refusal::Host(error)
        }
    }
}

impl Refusal {
    /// Says which argument is malformed.
    pub(crate) fn of(argument: &'static str) -> impl Fn(Malformed) -> Refusal {
        move |malformed| Refusal::Contract(format!("`{argument}`: {malformed}"))
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Quiet => "describe or open",
            Kind::Keyed => "process of a keyed input",
            Kind::Unkeyed => "process of an unkeyed input",
            Kind::Timers => "on-timers",
            Kind::Moment => "on-watermark or finish",
        }
    }
}

impl<E: Environment> Host<E> {
    pub(crate) fn new(
        environment: E,
        operator: String,
        description: Arc<Description>,
        limits: Limits,
        clock: Clock,
    ) -> Self {
        Host {
            environment,
            description,
            memory: Memory::new(limits.memory_bytes),
            wasi: Wasi::new(&operator),
            operator,
            ticks_per_call: Clock::ticks_in(limits.call_time),
            hurried: None,
            limits,
            deadline: 0,
            clock,
            call: Call {
                kind: Kind::Quiet,
                rows: 0,
                keys: 0,
                key_index: Vec::new(),
                key_offsets: vec![0],
                value_offsets: vec![0],
                header_costs: Vec::new(),
                emitted: 0,
                written: 0,
                rejected: BTreeSet::new(),
                last_words: None,
                stopped: None,
            },
        }
    }

    /// A call without rows begins, at a time of the wall clock.
    pub(crate) fn start(&mut self, kind: Kind, processing_time: i64) {
        self.wasi.time.wall = processing_time;
        let call = &mut self.call;
        call.kind = kind;
        call.rows = 0;
        call.keys = 0;
        call.key_index.clear();
        call.key_offsets.clear();
        call.value_offsets.clear();
        call.header_costs.clear();
        call.emitted = 0;
        call.written = 0;
        call.rejected.clear();
        call.last_words = None;
        call.stopped = None;
        self.memory.take_refused();
    }

    /// A `process` begins.
    ///
    /// # Panics
    ///
    /// If the batch names an input that is not declared.
    pub(crate) fn start_batch(&mut self, batch: &Batch<'_>, processing_time: i64) {
        let input = self.description.inputs.get(batch.input as usize);
        let kind = match input.expect("a batch comes from a declared input").kind {
            InputKind::Keyed => Kind::Keyed,
            InputKind::Unkeyed | InputKind::Broadcast => Kind::Unkeyed,
        };
        self.start(kind, processing_time);
        let call = &mut self.call;
        call.rows = batch.times.len();
        if kind == Kind::Keyed {
            call.keys = batch.distinct.offsets.len().saturating_sub(1);
        }
        call.key_index.extend_from_slice(batch.index);
        call.key_offsets.extend_from_slice(batch.distinct.offsets);
        call.value_offsets.extend_from_slice(batch.values.offsets);
        if let Some(HeadersRef {
            ends,
            names,
            contents,
        }) = batch.headers
        {
            let before = |end: &u32| {
                let end = *end as usize;
                let bytes = u64::from(names.offsets[end]) + u64::from(contents.offsets[end]);
                cost(end, bytes)
            };
            call.header_costs
                .extend([&0].into_iter().chain(ends).map(before));
        }
    }

    /// An `on-timers` begins.
    pub(crate) fn start_firing(&mut self, due: &Firing<'_>, processing_time: i64) {
        self.start(Kind::Timers, processing_time);
        let call = &mut self.call;
        call.rows = due.times.len();
        call.keys = call.rows;
        call.key_offsets.extend_from_slice(due.keys.offsets);
    }

    /// Runs an import unless the call is past its deadline, and stops the call if it refuses.
    pub(crate) fn import<R>(
        &mut self,
        name: &str,
        body: impl FnOnce(&mut Self) -> Result<R, Refusal>,
    ) -> wasmtime::Result<R> {
        let why = if self.clock.ticks() >= self.deadline {
            CallError::Deadline {
                limit: self.limits.call_time,
            }
        } else {
            match body(self) {
                Ok(result) => return Ok(result),
                Err(Refusal::Contract(how)) => CallError::Contract(format!("{name}: {how}")),
                Err(Refusal::Output) => CallError::Output {
                    limit: self.limits.output_bytes,
                },
                Err(Refusal::Host(error)) => CallError::Host(error),
                Err(Refusal::Trap(message)) => return Err(wasmtime::Error::msg(message)),
            }
        };
        self.call.stopped = Some(why);
        Err(wasmtime::Error::msg("stopped by the host"))
    }

    /// Logs what the guest wrote to standard output and standard error in the call that is over, a
    /// line at a time.
    pub(crate) fn log_written(&mut self) {
        for (level, written) in [
            (Level::Info, &mut self.wasi.stdout),
            (Level::Warn, &mut self.wasi.stderr),
        ] {
            for line in written.take().lines() {
                self.environment
                    .log(level, &shorten(line.to_owned(), LOG_BYTES));
            }
        }
    }

    /// Why a call into the guest failed.
    pub(crate) fn why(&mut self, error: &wasmtime::Error) -> CallError {
        if let Some(stopped) = self.call.stopped.take() {
            return stopped;
        }
        let trap = error.downcast_ref::<Trap>();
        if trap == Some(&Trap::Interrupt) {
            return CallError::Deadline {
                limit: self.limits.call_time,
            };
        }
        // Allocators that are refused memory abort, which looks like any other trap; but a panic is
        // what it says.
        if let (Some(asked), None) = (self.memory.take_refused(), &self.call.last_words) {
            return CallError::Memory {
                limit: self.limits.memory_bytes,
                asked,
            };
        }
        let message = error.root_cause().to_string();
        if message.contains(HOSTCALL_FUEL) {
            return CallError::Output {
                limit: self.limits.output_bytes,
            };
        }
        if message.contains(HANDLE_LIMIT) {
            return CallError::Contract(format!(
                "it holds more than {HANDLES} handles of resources"
            ));
        }
        CallError::Trap {
            message: message
                .strip_prefix("wasm trap: ")
                .unwrap_or(&message)
                .to_owned(),
            last_words: self.call.last_words.take(),
            stderr: self.wasi.stderr.take(),
            backtrace: backtrace(error),
        }
    }

    /// Checks a fault that the guest returned.
    pub(crate) fn returned(&self, fault: wit::Fault) -> CallError {
        let fault = Fault {
            row: fault.row,
            message: shorten(fault.message, MESSAGE_BYTES),
        };
        match fault.row {
            Some(row) if row as usize >= self.call.rows => CallError::Contract(format!(
                "it reports a fault in row {row} of a call that has {} rows: {}",
                self.call.rows, fault.message
            )),
            _ => CallError::Fault(fault),
        }
    }

    /// Refuses imports that the call under way may not use.
    pub(crate) fn allow(&self, kinds: &[Kind]) -> Result<(), Refusal> {
        if kinds.contains(&self.call.kind) {
            return Ok(());
        }
        Err(Refusal::Contract(format!(
            "may not be called during {}",
            self.call.kind.name()
        )))
    }

    /// Checks a state call up to its columns: when it is made, which state it names and of which
    /// kind that is.
    pub(crate) fn state(&self, state: u32, kinds: &[StateKind]) -> Result<(), Refusal> {
        self.allow(&[Kind::Keyed, Kind::Timers])?;
        let states = &self.description.states;
        let Some(declared) = states.get(state as usize) else {
            return Err(Refusal::Contract(format!(
                "there is no state {state}; {} are declared",
                states.len()
            )));
        };
        if kinds.contains(&declared.kind) {
            return Ok(());
        }
        Err(Refusal::Contract(format!(
            "state `{}` is of kind {}",
            declared.name, declared.kind
        )))
    }

    /// Checks the cells of a state or timer call, and returns how many there are.
    pub(crate) fn cells(&self, at: &Cells<'_>) -> Result<usize, Refusal> {
        let keys = self.call.keys;
        if let Some(key) = at.keys.iter().find(|key| **key as usize >= keys) {
            return Err(Refusal::Contract(format!(
                "there is no key {key}; the call has {keys}"
            )));
        }
        if let Some(namespaces) = at.namespaces {
            let count = namespaces
                .check(self.limits.value_bytes)
                .map_err(Refusal::of("namespaces"))?;
            check_count(count, at.keys.len()).map_err(Refusal::of("namespaces"))?;
        }
        Ok(at.keys.len())
    }

    /// Charges the call for something it writes: `count` cells, timers or rejects with `bytes` of
    /// contents.
    pub(crate) fn charge_write(&mut self, count: usize, bytes: usize) -> Result<(), Refusal> {
        self.call.written += cost(count, bytes as u64);
        if self.call.written > self.limits.output_bytes as u64 {
            Err(Refusal::Output)
        } else {
            Ok(())
        }
    }

    /// Charges the call for rows it emits, with `bytes` of keys, values and headers.
    pub(crate) fn charge_output(&mut self, rows: usize, bytes: u64) -> Result<(), Refusal> {
        self.call.emitted = self.call.emitted.saturating_add(cost(rows, bytes));
        if self.call.emitted > self.limits.output_bytes as u64 {
            Err(Refusal::Output)
        } else {
            Ok(())
        }
    }

    /// Checks rows that the guest gives up.
    pub(crate) fn rejected(&mut self, faults: Vec<wit::Fault>) -> Result<Vec<Fault>, Refusal> {
        let rows = self.call.rows;
        let mut checked = Vec::with_capacity(faults.len());
        for fault in faults {
            let row = fault
                .row
                .ok_or_else(|| Refusal::Contract("a fault names no row".to_owned()))?;
            if row as usize >= rows {
                return Err(Refusal::Contract(format!(
                    "there is no row {row}; the call has {rows}"
                )));
            }
            if !self.call.rejected.insert(row) {
                return Err(Refusal::Contract(format!("row {row} was given up before")));
            }
            checked.push(Fault {
                row: Some(row),
                message: shorten(fault.message, MESSAGE_BYTES),
            });
        }
        self.charge_write(
            checked.len(),
            checked.iter().map(|fault| fault.message.len()).sum(),
        )?;
        Ok(checked)
    }

    /// Keeps what the guest says before it traps. A row that the call does not have is dropped, not
    /// the message.
    pub(crate) fn last_words(&mut self, fault: wit::Fault) {
        let row = fault.row.filter(|row| (*row as usize) < self.call.rows);
        self.call.last_words = Some(Fault {
            row,
            message: shorten(fault.message, MESSAGE_BYTES),
        });
    }
}

/// How wasmtime says that a guest hands over more than [`Limits::import_bytes`]; its error type is
/// not public.
const HOSTCALL_FUEL: &str = "fuel allocated for hostcalls has been exhausted";

/// How wasmtime says that a guest holds more than [`HANDLES`].
const HANDLE_LIMIT: &str = "store handle limit exceeded";

/// What rows, headers or cells with `bytes` of contents count for.
pub(crate) fn cost(count: usize, bytes: u64) -> u64 {
    bytes.saturating_add(count as u64 * ROW_BYTES)
}

/// Checks a column of values that belongs to `count` cells or rows.
pub(crate) fn check_values(
    argument: &'static str,
    values: NullableRef<'_>,
    count: usize,
    longest: usize,
) -> Result<(), Refusal> {
    let found = values.check(longest).map_err(Refusal::of(argument))?;
    check_count(found, count).map_err(Refusal::of(argument))
}

/// Functions on the guest's stack, innermost first.
fn backtrace(error: &wasmtime::Error) -> Vec<String> {
    let Some(trace) = error.downcast_ref::<wasmtime::WasmBacktrace>() else {
        return Vec::new();
    };
    let name = |frame: &wasmtime::FrameInfo| match frame.func_name() {
        Some(name) => format!("{:#}", rustc_demangle::demangle(name)),
        None => format!("function {}", frame.func_index()),
    };
    trace.frames().iter().map(name).collect()
}

#[cfg(test)]
mod tests;
