//! An operator's environment that notes what each call changes.

use weir_operator::{
    Cells, ColumnRef, Description, Environment, Fault, HostError, ItemLists, Level, Nullable,
    NullableRef, Page, Rows,
};

use super::shown::Shown;
use crate::task::environment::OperatorEnvironment;

/// The environment of a job's operator, with an ear.
pub(super) struct Traced {
    pub(super) inner: OperatorEnvironment,
    /// What successful calls changed, until it is taken.
    pub(super) changes: Vec<Shown>,
    /// What the call in progress would change.
    pending: Vec<Shown>,
    description: Description,
}

impl Traced {
    pub(super) fn new(inner: OperatorEnvironment, description: Description) -> Traced {
        Traced {
            inner,
            changes: Vec::new(),
            pending: Vec::new(),
            description,
        }
    }

    /// Notes a change of cell `cell` of `at`; `more` adds what is special about it.
    fn note_state(
        &mut self,
        state: u32,
        at: Cells<'_>,
        cell: usize,
        change: &str,
        more: impl FnOnce(Shown, &weir_operator::StateDecl) -> Shown,
    ) {
        let declared = &self.description.states[state as usize];
        let shown = Shown::new("state")
            .text("state", &declared.name)
            .text("change", change);
        let shown = more(self.with_cell(shown, at, cell), declared);
        self.pending.push(shown);
    }

    fn note_timers(&mut self, timer: u32, at: Cells<'_>, times: &[i64], change: &str) {
        for (cell, time) in times.iter().enumerate() {
            let shown = Shown::new("timer")
                .text("timer", &self.description.timers[timer as usize].name)
                .text("change", change);
            let shown = self.with_cell(shown, at, cell).time("time", *time);
            self.pending.push(shown);
        }
    }

    /// Key and namespace of a cell.
    fn with_cell(&self, shown: Shown, at: Cells<'_>, cell: usize) -> Shown {
        let key = self.inner.state.distinct().get(at.keys[cell] as usize);
        let shown = shown.bytes("key", Some(key));
        match at.namespaces.map(|column| row(column, cell)) {
            Some(namespace) if !namespace.is_empty() => shown.bytes("namespace", Some(namespace)),
            _ => shown,
        }
    }
}

fn row(column: ColumnRef<'_>, row: usize) -> &[u8] {
    &column.data[column.offsets[row] as usize..column.offsets[row + 1] as usize]
}

fn nullable_row(column: NullableRef<'_>, row: usize) -> Option<&[u8]> {
    if !column.present.is_empty() && column.present[row] == 0 {
        return None;
    }
    Some(&column.data[column.offsets[row] as usize..column.offsets[row + 1] as usize])
}

impl Environment for Traced {
    fn begin(&mut self) {
        self.pending.clear();
        self.inner.begin();
    }

    fn apply(&mut self) -> Result<(), HostError> {
        self.inner.apply()?;
        self.changes.append(&mut self.pending);
        Ok(())
    }

    fn discard(&mut self) {
        self.pending.clear();
        self.inner.discard();
    }

    fn get(&mut self, state: u32, at: Cells<'_>) -> Result<Nullable, HostError> {
        self.inner.get(state, at)
    }

    fn put(&mut self, state: u32, at: Cells<'_>, values: NullableRef<'_>) -> Result<(), HostError> {
        self.inner.put(state, at, values)?;
        for cell in 0..at.keys.len() {
            match nullable_row(values, cell) {
                None => self.note_state(state, at, cell, "delete", |shown, _| shown),
                Some(value) => self.note_state(state, at, cell, "set", |shown, declared| {
                    shown.encoded("value", &declared.value_encoding, value)
                }),
            }
        }
        Ok(())
    }

    fn append(&mut self, state: u32, at: Cells<'_>, items: ColumnRef<'_>) -> Result<(), HostError> {
        self.inner.append(state, at, items)?;
        for cell in 0..at.keys.len() {
            self.note_state(state, at, cell, "append", |shown, declared| {
                shown.encoded("value", &declared.value_encoding, row(items, cell))
            });
        }
        Ok(())
    }

    fn get_items(&mut self, state: u32, at: Cells<'_>) -> Result<ItemLists, HostError> {
        self.inner.get_items(state, at)
    }

    fn get_entries(
        &mut self,
        state: u32,
        at: Cells<'_>,
        names: ColumnRef<'_>,
    ) -> Result<Nullable, HostError> {
        self.inner.get_entries(state, at, names)
    }

    fn put_entries(
        &mut self,
        state: u32,
        at: Cells<'_>,
        names: ColumnRef<'_>,
        values: NullableRef<'_>,
    ) -> Result<(), HostError> {
        self.inner.put_entries(state, at, names, values)?;
        for cell in 0..at.keys.len() {
            let value = nullable_row(values, cell);
            let change = if value.is_some() { "set" } else { "delete" };
            self.note_state(state, at, cell, change, |shown, declared| {
                let shown = shown.encoded("entry", &declared.entry_encoding, row(names, cell));
                match value {
                    Some(value) => shown.encoded("value", &declared.value_encoding, value),
                    None => shown,
                }
            });
        }
        Ok(())
    }

    fn scan(
        &mut self,
        state: u32,
        at: Cells<'_>,
        start: NullableRef<'_>,
        end: NullableRef<'_>,
        descending: bool,
        limit: u32,
    ) -> Result<Page, HostError> {
        self.inner.scan(state, at, start, end, descending, limit)
    }

    fn clear_entries(
        &mut self,
        state: u32,
        at: Cells<'_>,
        start: NullableRef<'_>,
        end: NullableRef<'_>,
    ) -> Result<(), HostError> {
        self.inner.clear_entries(state, at, start, end)?;
        for cell in 0..at.keys.len() {
            self.note_state(state, at, cell, "clear", |shown, declared| {
                let bound = |shown: Shown, name: &str, bound: Option<&[u8]>| match bound {
                    Some(bound) => shown.encoded(name, &declared.entry_encoding, bound),
                    None => shown,
                };
                let shown = bound(shown, "from", nullable_row(start, cell));
                bound(shown, "to", nullable_row(end, cell))
            });
        }
        Ok(())
    }

    fn clear(&mut self, state: u32, at: Cells<'_>) -> Result<(), HostError> {
        self.inner.clear(state, at)?;
        for cell in 0..at.keys.len() {
            self.note_state(state, at, cell, "clear", |shown, _| shown);
        }
        Ok(())
    }

    fn touch(&mut self, state: u32, at: Cells<'_>) -> Result<(), HostError> {
        self.inner.touch(state, at)
    }

    fn set_timers(&mut self, timer: u32, at: Cells<'_>, times: &[i64]) -> Result<(), HostError> {
        self.inner.set_timers(timer, at, times)?;
        self.note_timers(timer, at, times, "set");
        Ok(())
    }

    fn cancel_timers(&mut self, timer: u32, at: Cells<'_>, times: &[i64]) -> Result<(), HostError> {
        self.inner.cancel_timers(timer, at, times)?;
        self.note_timers(timer, at, times, "cancel");
        Ok(())
    }

    fn emit(&mut self, output: u32, rows: Rows) -> Result<(), HostError> {
        self.inner.emit(output, rows)
    }

    fn log(&mut self, level: Level, message: &str) {
        self.inner.log(level, message);
    }

    fn reject(&mut self, faults: Vec<Fault>) -> Result<(), HostError> {
        self.inner.reject(faults)
    }
}
