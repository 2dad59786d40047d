//! The contract's imports: each checks what the guest hands over and passes it to the environment.

use crate::call_error::{LOG_BYTES, shorten};
use crate::columns::{Column, ColumnRef, Headers, Nullable, NullableRef, check_count};
use crate::contract::wit::types::{ColumnResult, Fault, HeadersResult, NullableResult};
use crate::contract::wit::{diagnostics, output, shared_state, state, timers, types};
use crate::description::StateKind;
use crate::environment::{Cells, Environment, Level};
use crate::host::{Host, Kind, Refusal, check_values};

/// The kinds of state that belong to keys.
const OF_KEYS: &[StateKind] = &[StateKind::Value, StateKind::Items, StateKind::Entries];

impl<E: Environment> types::Host for Host<E> {}

impl<E: Environment> state::Host for Host<E> {
    fn get(&mut self, state: u32, at: state::Cells) -> wasmtime::Result<NullableResult> {
        self.import("state.get", |host| {
            host.state(state, &[StateKind::Value])?;
            let at = cells(&at);
            host.cells(&at)?;
            Ok(host.environment.get(state, at)?.into())
        })
    }

    fn put(
        &mut self,
        state: u32,
        at: state::Cells,
        values: NullableResult,
    ) -> wasmtime::Result<()> {
        self.import("state.put", |host| {
            host.state(state, &[StateKind::Value])?;
            let (at, values) = (cells(&at), nullable(&values));
            let count = host.cells(&at)?;
            check_values("values", values, count, host.limits.value_bytes)?;
            host.charge_write(count, bytes(&at) + values.data.len())?;
            Ok(host.environment.put(state, at, values)?)
        })
    }

    fn append(
        &mut self,
        state: u32,
        at: state::Cells,
        items: ColumnResult,
    ) -> wasmtime::Result<()> {
        self.import("state.append", |host| {
            host.state(state, &[StateKind::Items])?;
            let (at, items) = (cells(&at), column(&items));
            let count = host.cells(&at)?;
            host.column("items", items, count)?;
            host.charge_write(count, bytes(&at) + items.data.len())?;
            Ok(host.environment.append(state, at, items)?)
        })
    }

    fn get_items(&mut self, state: u32, at: state::Cells) -> wasmtime::Result<state::ItemLists> {
        self.import("state.get-items", |host| {
            host.state(state, &[StateKind::Items])?;
            let at = cells(&at);
            host.cells(&at)?;
            let lists = host.environment.get_items(state, at)?;
            Ok(state::ItemLists {
                ends: lists.ends,
                items: lists.items.into(),
            })
        })
    }

    fn get_entries(
        &mut self,
        state: u32,
        at: state::Cells,
        names: ColumnResult,
    ) -> wasmtime::Result<NullableResult> {
        self.import("state.get-entries", |host| {
            host.state(state, &[StateKind::Entries])?;
            let (at, names) = (cells(&at), column(&names));
            let count = host.cells(&at)?;
            host.column("names", names, count)?;
            Ok(host.environment.get_entries(state, at, names)?.into())
        })
    }

    fn put_entries(
        &mut self,
        state: u32,
        at: state::Cells,
        names: ColumnResult,
        values: NullableResult,
    ) -> wasmtime::Result<()> {
        self.import("state.put-entries", |host| {
            host.state(state, &[StateKind::Entries])?;
            let (at, names, values) = (cells(&at), column(&names), nullable(&values));
            let count = host.cells(&at)?;
            host.column("names", names, count)?;
            check_values("values", values, count, host.limits.value_bytes)?;
            host.charge_write(count, bytes(&at) + names.data.len() + values.data.len())?;
            Ok(host.environment.put_entries(state, at, names, values)?)
        })
    }

    fn scan(
        &mut self,
        state: u32,
        at: state::Cells,
        start: NullableResult,
        end: NullableResult,
        descending: bool,
        limit: u32,
    ) -> wasmtime::Result<state::Page> {
        self.import("state.scan", |host| {
            host.state(state, &[StateKind::Entries])?;
            let (at, start, end) = (cells(&at), nullable(&start), nullable(&end));
            let count = host.cells(&at)?;
            check_values("start", start, count, host.limits.value_bytes)?;
            check_values("end", end, count, host.limits.value_bytes)?;
            if limit == 0 {
                return Err(Refusal::Contract(
                    "`limit` is 0; it is at least 1".to_owned(),
                ));
            }
            let page = host
                .environment
                .scan(state, at, start, end, descending, limit)?;
            Ok(state::Page {
                ends: page.ends,
                names: page.names.into(),
                values: page.values.into(),
                more: page.more,
            })
        })
    }

    fn clear_entries(
        &mut self,
        state: u32,
        at: state::Cells,
        start: NullableResult,
        end: NullableResult,
    ) -> wasmtime::Result<()> {
        self.import("state.clear-entries", |host| {
            host.state(state, &[StateKind::Entries])?;
            let (at, start, end) = (cells(&at), nullable(&start), nullable(&end));
            let count = host.cells(&at)?;
            check_values("start", start, count, host.limits.value_bytes)?;
            check_values("end", end, count, host.limits.value_bytes)?;
            host.charge_write(count, bytes(&at) + start.data.len() + end.data.len())?;
            Ok(host.environment.clear_entries(state, at, start, end)?)
        })
    }

    fn clear(&mut self, state: u32, at: state::Cells) -> wasmtime::Result<()> {
        self.import("state.clear", |host| {
            host.state(state, OF_KEYS)?;
            let at = cells(&at);
            let count = host.cells(&at)?;
            host.charge_write(count, bytes(&at))?;
            Ok(host.environment.clear(state, at)?)
        })
    }

    fn touch(&mut self, state: u32, at: state::Cells) -> wasmtime::Result<()> {
        self.import("state.touch", |host| {
            host.state(state, OF_KEYS)?;
            let at = cells(&at);
            let count = host.cells(&at)?;
            host.charge_write(count, bytes(&at))?;
            Ok(host.environment.touch(state, at)?)
        })
    }
}

/// Operators with shared state are refused when they describe themselves, so nothing that is called
/// here can exist.
impl<E: Environment> shared_state::Host for Host<E> {
    fn get_entries(
        &mut self,
        _state: u32,
        _names: ColumnResult,
    ) -> wasmtime::Result<NullableResult> {
        self.import("shared-state.get-entries", |_| Err(undeclared()))
    }

    fn put_entries(
        &mut self,
        _state: u32,
        _names: ColumnResult,
        _values: NullableResult,
    ) -> wasmtime::Result<()> {
        self.import("shared-state.put-entries", |_| Err(undeclared()))
    }

    fn scan(
        &mut self,
        _state: u32,
        _start: Option<Vec<u8>>,
        _end: Option<Vec<u8>>,
        _descending: bool,
        _limit: u32,
    ) -> wasmtime::Result<state::Page> {
        self.import("shared-state.scan", |_| Err(undeclared()))
    }
}

fn undeclared() -> Refusal {
    Refusal::Contract("the operator declares no shared state".to_owned())
}

impl<E: Environment> timers::Host for Host<E> {
    fn set(&mut self, timer: u32, at: state::Cells, times: Vec<i64>) -> wasmtime::Result<()> {
        self.import("timers.set", |host| {
            let at = cells(&at);
            host.timers(timer, &at, &times)?;
            Ok(host.environment.set_timers(timer, at, &times)?)
        })
    }

    fn cancel(&mut self, timer: u32, at: state::Cells, times: Vec<i64>) -> wasmtime::Result<()> {
        self.import("timers.cancel", |host| {
            let at = cells(&at);
            host.timers(timer, &at, &times)?;
            Ok(host.environment.cancel_timers(timer, at, &times)?)
        })
    }
}

impl<E: Environment> output::Host for Host<E> {
    fn emit(&mut self, output: u32, rows: output::Rows) -> wasmtime::Result<()> {
        self.import("output.emit", |host| {
            let rows = host.rows(output, rows)?;
            match rows {
                Some(rows) => Ok(host.environment.emit(output, rows)?),
                None => Ok(()),
            }
        })
    }
}

impl<E: Environment> diagnostics::Host for Host<E> {
    fn log(&mut self, level: diagnostics::Level, message: String) -> wasmtime::Result<()> {
        self.import("diagnostics.log", |host| {
            let level = match level {
                diagnostics::Level::Debug => Level::Debug,
                diagnostics::Level::Info => Level::Info,
                diagnostics::Level::Warn => Level::Warn,
                diagnostics::Level::Error => Level::Error,
            };
            host.environment.log(level, &shorten(message, LOG_BYTES));
            Ok(())
        })
    }

    fn reject(&mut self, faults: Vec<Fault>) -> wasmtime::Result<()> {
        self.import("diagnostics.reject", |host| {
            host.allow(&[Kind::Keyed, Kind::Unkeyed, Kind::Timers])?;
            let faults = host.rejected(faults)?;
            Ok(host.environment.reject(faults)?)
        })
    }

    fn last_words(&mut self, fault: Fault) -> wasmtime::Result<()> {
        self.import("diagnostics.last-words", |host| {
            host.last_words(fault);
            Ok(())
        })
    }
}

impl<E: Environment> Host<E> {
    /// Checks a column that belongs to `count` cells.
    fn column(
        &self,
        argument: &'static str,
        column: ColumnRef<'_>,
        count: usize,
    ) -> Result<(), Refusal> {
        let found = column
            .check(self.limits.value_bytes)
            .map_err(Refusal::of(argument))?;
        check_count(found, count).map_err(Refusal::of(argument))
    }

    /// Checks and charges a timer call.
    fn timers(&mut self, timer: u32, at: &Cells<'_>, times: &[i64]) -> Result<(), Refusal> {
        self.allow(&[Kind::Keyed, Kind::Timers])?;
        let declared = self.description.timers.len();
        if timer as usize >= declared {
            return Err(Refusal::Contract(format!(
                "there is no timer {timer}; {declared} are declared"
            )));
        }
        let count = self.cells(at)?;
        check_count(times.len(), count).map_err(Refusal::of("times"))?;
        if times.contains(&i64::MIN) {
            return Err(Refusal::Contract(
                "`times`: the minimum of s64 is no time".to_owned(),
            ));
        }
        self.charge_write(count, bytes(at))
    }
}

/// Bytes of the cells' namespaces.
fn bytes(at: &Cells<'_>) -> usize {
    at.namespaces.map_or(0, |namespaces| namespaces.data.len())
}

fn cells(at: &state::Cells) -> Cells<'_> {
    Cells {
        keys: &at.keys,
        namespaces: at.namespaces.as_ref().map(column),
    }
}

pub(crate) fn column(of: &ColumnResult) -> ColumnRef<'_> {
    ColumnRef {
        offsets: &of.offsets,
        data: &of.data,
    }
}

pub(crate) fn nullable(of: &NullableResult) -> NullableRef<'_> {
    NullableRef {
        present: &of.present,
        offsets: &of.offsets,
        data: &of.data,
    }
}

impl From<Column> for ColumnResult {
    fn from(of: Column) -> Self {
        ColumnResult {
            offsets: of.offsets,
            data: of.data,
        }
    }
}

impl From<Nullable> for NullableResult {
    fn from(of: Nullable) -> Self {
        NullableResult {
            present: of.present,
            offsets: of.offsets,
            data: of.data,
        }
    }
}

impl From<NullableResult> for Nullable {
    fn from(of: NullableResult) -> Self {
        Nullable {
            present: of.present,
            offsets: of.offsets,
            data: of.data,
        }
    }
}

impl From<ColumnResult> for Column {
    fn from(of: ColumnResult) -> Self {
        Column {
            offsets: of.offsets,
            data: of.data,
        }
    }
}

impl From<HeadersResult> for Headers {
    fn from(of: HeadersResult) -> Self {
        Headers {
            ends: of.ends,
            names: of.names.into(),
            contents: of.contents.into(),
        }
    }
}
