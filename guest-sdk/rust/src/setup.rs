//! Declarations: what an operator reads, keeps and emits, told to the host before a job starts.

use std::time::Duration;

use crate::bindings::weir::operator::types::{
    Description, InputDecl, InputKind, OutputDecl, OutputKeys, StateDecl, StateKind, TimeDomain,
    TimerDecl, Ttl, TtlRenewal,
};
use crate::codec::{Codec, EntryName};
use crate::context::Context;
use crate::output::{AbsentOutput, GivenOutput, KeptOutput, OutputRows};
use crate::state::{Entries, EntryCells, ItemCells, Items, Value, ValueCells};
use crate::timer::{Timer, TimerOps};

/// A declared input, to compare with [`Record::input`](crate::Record::input).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    pub(crate) index: u32,
}

/// When the time to live of a state's values starts anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// When they are written.
    Write,
    /// When they are written, and when the operator calls a handle's `touch`.
    Access,
}

/// What a state can declare beyond its name and types.
#[derive(Clone, Debug)]
pub struct StateOptions {
    version: u32,
    migrates_from: Vec<u32>,
    ttl: Option<Ttl>,
}

impl Default for StateOptions {
    fn default() -> StateOptions {
        StateOptions {
            version: 1,
            migrates_from: Vec::new(),
            ttl: None,
        }
    }
}

impl StateOptions {
    /// Schema version 1, kept for ever.
    pub fn new() -> StateOptions {
        StateOptions::default()
    }

    /// The schema version of what is written, and the versions from which
    /// [`Operator::migrate`](crate::Operator::migrate) can make it.
    pub fn version(
        mut self,
        version: u32,
        migrates_from: impl IntoIterator<Item = u32>,
    ) -> StateOptions {
        self.version = version;
        self.migrates_from = migrates_from.into_iter().collect();
        self
    }

    /// Values disappear after this much processing time. The job file may say otherwise.
    pub fn ttl(mut self, ttl: Duration, renewal: Renewal) -> StateOptions {
        let renewal = match renewal {
            Renewal::Write => TtlRenewal::Write,
            Renewal::Access => TtlRenewal::Access,
        };
        self.ttl = Some(Ttl {
            millis: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
            renewal,
        });
        self
    }
}

/// Collects an operator's declarations. Names are how the job file and stored state refer to them, so
/// they stay the same from version to version.
#[derive(Debug)]
pub struct Setup {
    description: Description,
    values: Vec<ValueCells>,
    items: Vec<ItemCells>,
    entries: Vec<EntryCells>,
}

impl Setup {
    pub(crate) fn new(name: &str, version: &str) -> Setup {
        Setup {
            description: Description {
                name: name.to_owned(),
                version: version.to_owned(),
                inputs: Vec::new(),
                outputs: Vec::new(),
                states: Vec::new(),
                timers: Vec::new(),
                on_watermark: false,
                options: Vec::new(),
            },
            values: Vec::new(),
            items: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// An input whose records come by key, so that state and timers can be used.
    pub fn keyed_input(&mut self, name: &str) -> Input {
        self.input(name, InputKind::Keyed)
    }

    /// An input whose records come as they come: no state, no timers, and keys may be null.
    pub fn unkeyed_input(&mut self, name: &str) -> Input {
        self.input(name, InputKind::Unkeyed)
    }

    /// Asks for the headers of an input's records, which
    /// [`Record::headers`](crate::Record::headers) then has. An operator that only passes headers on
    /// need not ask: rows have the headers of the record that they come from.
    pub fn read_headers(&mut self, input: Input) {
        self.description.inputs[input.index as usize].headers = true;
    }

    fn input(&mut self, name: &str, kind: InputKind) -> Input {
        let index = self.description.inputs.len() as u32;
        self.description.inputs.push(InputDecl {
            name: name.to_owned(),
            kind,
            headers: false,
            options: Vec::new(),
        });
        Input { index }
    }

    /// An output whose rows keep their record's key.
    pub fn kept_output(&mut self, name: &str) -> KeptOutput {
        KeptOutput {
            index: self.output(name, OutputKeys::Kept),
        }
    }

    /// An output whose rows are given a key.
    pub fn given_output(&mut self, name: &str) -> GivenOutput {
        GivenOutput {
            index: self.output(name, OutputKeys::Given),
        }
    }

    /// An output whose rows have no key.
    pub fn absent_output(&mut self, name: &str) -> AbsentOutput {
        AbsentOutput {
            index: self.output(name, OutputKeys::Absent),
        }
    }

    fn output(&mut self, name: &str, keys: OutputKeys) -> usize {
        self.description.outputs.push(OutputDecl {
            name: name.to_owned(),
            keys,
            options: Vec::new(),
        });
        self.description.outputs.len() - 1
    }

    /// State with one value a key.
    pub fn value<T: Codec>(&mut self, name: &str) -> Value<T> {
        self.value_with(name, StateOptions::new())
    }

    /// State with one value a key, with options.
    pub fn value_with<T: Codec>(&mut self, name: &str, options: StateOptions) -> Value<T> {
        let state = self.state(name, StateKind::Value, options, T::ENCODING, "");
        self.values.push(ValueCells::new(state));
        Value::new(self.values.len() - 1)
    }

    /// State with a list a key.
    pub fn items<T: Codec>(&mut self, name: &str) -> Items<T> {
        self.items_with(name, StateOptions::new())
    }

    /// State with a list a key, with options.
    pub fn items_with<T: Codec>(&mut self, name: &str, options: StateOptions) -> Items<T> {
        let state = self.state(name, StateKind::Items, options, T::ENCODING, "");
        self.items.push(ItemCells::new(state));
        Items::new(self.items.len() - 1)
    }

    /// State with a map a key, ordered by name.
    pub fn entries<N: EntryName, T: Codec>(&mut self, name: &str) -> Entries<N, T> {
        self.entries_with(name, StateOptions::new())
    }

    /// State with a map a key, ordered by name, with options.
    pub fn entries_with<N: EntryName, T: Codec>(
        &mut self,
        name: &str,
        options: StateOptions,
    ) -> Entries<N, T> {
        let state = self.state(name, StateKind::Entries, options, T::ENCODING, N::ENCODING);
        self.entries.push(EntryCells::new(state));
        Entries::new(self.entries.len() - 1)
    }

    fn state(
        &mut self,
        name: &str,
        kind: StateKind,
        options: StateOptions,
        value: &str,
        entry: &str,
    ) -> u32 {
        let index = self.description.states.len() as u32;
        self.description.states.push(StateDecl {
            name: name.to_owned(),
            kind,
            version: options.version,
            migrates_from: options.migrates_from,
            ttl: options.ttl,
            value_encoding: value.to_owned(),
            entry_encoding: entry.to_owned(),
            options: Vec::new(),
        });
        index
    }

    /// A timer that is due when the watermark reaches its time.
    pub fn event_timer(&mut self, name: &str) -> Timer {
        self.timer(name, TimeDomain::Event)
    }

    /// A timer that is due when the clock reaches its time. What is still pending when the input ends
    /// is dropped.
    pub fn processing_timer(&mut self, name: &str) -> Timer {
        self.timer(name, TimeDomain::Processing)
    }

    fn timer(&mut self, name: &str, domain: TimeDomain) -> Timer {
        let index = self.description.timers.len();
        self.description.timers.push(TimerDecl {
            name: name.to_owned(),
            domain,
            options: Vec::new(),
        });
        Timer { index }
    }

    /// Asks for [`Operator::on_watermark`](crate::Operator::on_watermark).
    pub fn on_watermark(&mut self) {
        self.description.on_watermark = true;
    }

    pub(crate) fn describe(self) -> Description {
        self.description
    }

    /// Gives the context what stands behind the handles.
    pub(crate) fn install(self, cx: &mut Context) -> Description {
        cx.values = self.values;
        cx.items = self.items;
        cx.entries = self.entries;
        cx.timers = (0..self.description.timers.len() as u32)
            .map(TimerOps::new)
            .collect();
        let outputs = (0..).zip(&self.description.outputs);
        cx.outputs = outputs
            .map(|(index, output)| OutputRows::new(index, output.keys == OutputKeys::Given))
            .collect();
        self.description
    }
}
