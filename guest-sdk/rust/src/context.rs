//! The call that is being served: its key, its row, its clocks, and what is pending.

use crate::bindings::weir::operator::diagnostics;
use crate::bindings::weir::operator::types::{Column, Now};
use crate::fault::{Fault, Result};
use crate::host::Host;
use crate::output::OutputRows;
use crate::state::{EntryCells, ItemCells, ValueCells};
use crate::timer::TimerOps;

/// The kind of call that is being served, which decides what may be done in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Keyed,
    Unkeyed,
    Timers,
    Watermark,
    Finish,
}

/// How much a log line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For the operator's author.
    Debug,
    /// Worth knowing.
    Info,
    /// Unexpected, and dealt with.
    Warn,
    /// Needs somebody's attention.
    Error,
}

/// What an operator works through: state handles, timers and outputs take it as an argument.
pub struct Context {
    pub(crate) host: Box<dyn Host>,
    pub(crate) call: Call,
    pub(crate) now: Now,
    /// The row of the call's batch that is being processed.
    pub(crate) row: u32,
    /// Its key's index among the call's distinct keys, of which there are `keys`.
    pub(crate) key: u32,
    pub(crate) keys: u32,
    /// The row being processed has written, set or emitted something.
    pub(crate) effects: bool,
    /// The namespaces of the timers that fire in this call, by key index.
    pub(crate) namespaces: Column,
    pub(crate) values: Vec<ValueCells>,
    pub(crate) items: Vec<ItemCells>,
    pub(crate) entries: Vec<EntryCells>,
    pub(crate) timers: Vec<TimerOps>,
    pub(crate) outputs: Vec<OutputRows>,
}

impl Context {
    pub(crate) fn new(host: Box<dyn Host>) -> Context {
        Context {
            host,
            call: Call::Finish,
            now: Now {
                watermark: i64::MIN,
                processing_time: i64::MIN,
            },
            row: 0,
            key: 0,
            keys: 0,
            effects: false,
            namespaces: Column::empty(),
            values: Vec::new(),
            items: Vec::new(),
            entries: Vec::new(),
            timers: Vec::new(),
            outputs: Vec::new(),
        }
    }

    /// The watermark: no record at or before this time, in milliseconds since the epoch, is expected
    /// any more. `None` before the first; [`Timer::END_OF_INPUT`](crate::Timer::END_OF_INPUT) at the
    /// end.
    pub fn watermark(&self) -> Option<i64> {
        (self.now.watermark != i64::MIN).then_some(self.now.watermark)
    }

    /// The time of processing, in milliseconds since the epoch. It stands still within a call of the
    /// host, and is the only clock an operator has.
    pub fn processing_time(&self) -> i64 {
        self.now.processing_time
    }

    /// Writes to the job's log. The host limits the rate, and marks lines of work that is done again
    /// after a failure.
    pub fn log(&mut self, level: Level, message: &str) {
        let level = match level {
            Level::Debug => diagnostics::Level::Debug,
            Level::Info => diagnostics::Level::Info,
            Level::Warn => diagnostics::Level::Warn,
            Level::Error => diagnostics::Level::Error,
        };
        self.host.log(level, message);
    }

    /// The index of the current key, where there is one.
    #[inline]
    pub(crate) fn keyed(&self) -> Result<u32> {
        match self.call {
            Call::Keyed | Call::Timers => Ok(self.key),
            Call::Unkeyed | Call::Watermark | Call::Finish => Err(keyless(self.call)),
        }
    }

    /// Forgets the last call, also one that failed half-way.
    pub(crate) fn begin(&mut self, call: Call, keys: u32, now: Now) {
        self.call = call;
        self.now = now;
        self.keys = keys;
        self.row = 0;
        self.key = 0;
        self.effects = false;
        self.namespaces.clear();
        self.values.iter_mut().for_each(|cells| cells.begin(keys));
        self.items.iter_mut().for_each(ItemCells::begin);
        self.entries.iter_mut().for_each(EntryCells::begin);
        self.timers.iter_mut().for_each(|ops| ops.begin(keys));
        let has_origins = matches!(call, Call::Keyed | Call::Unkeyed | Call::Timers);
        self.outputs
            .iter_mut()
            .for_each(|rows| rows.begin(has_origins));
    }

    /// Stores and hands over what is pending.
    pub(crate) fn flush(&mut self) {
        let host = &mut *self.host;
        self.values.iter_mut().for_each(|cells| cells.flush(host));
        self.items.iter_mut().for_each(|cells| cells.flush(host));
        self.entries.iter_mut().for_each(|cells| cells.flush(host));
        self.timers.iter_mut().for_each(|ops| ops.flush(host));
        self.outputs.iter_mut().for_each(|rows| rows.flush(host));
    }

    pub(crate) fn load_wanted(&mut self) {
        let host = &mut *self.host;
        self.values
            .iter_mut()
            .for_each(|cells| cells.load_wanted(host));
        self.entries
            .iter_mut()
            .for_each(|cells| cells.load_wanted(host));
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("call", &self.call)
            .field("row", &self.row)
            .finish_non_exhaustive()
    }
}

#[cold]
fn keyless(call: Call) -> Fault {
    let place = match call {
        Call::Unkeyed => "a record of an un-keyed input",
        Call::Watermark => "`on_watermark`",
        _ => "`finish`",
    };
    Fault::new(format_args!(
        "{place} has no key, so state and timers cannot be used there"
    ))
}
