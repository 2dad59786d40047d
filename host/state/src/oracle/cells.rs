//! Reads and writes of values, items and entries. The rules are the trait's.
//!
//! An item's position is the number of bytes that its list took before it, four a item counted for
//! its length. So positions rise, and the difference of the last and the first is the size of the
//! list, without a row to keep it.

use super::Oracle;
use super::overlay::View;
use crate::hash::key_group;
use crate::keyed_state::{CALL_BUDGET, Cells, ItemLists, Page};
use crate::stored_key::{Table, cell_end, write_cell};
use crate::stored_value::StoredValue;
use crate::{Column, ColumnRef, Error, Nullable, NullableRef, StateKind};

/// A state that an operation was checked for.
#[derive(Clone, Copy)]
struct Target {
    index: u16,
    table: Table,
}

/// What a row takes of a budget beside its bytes: its offset.
const OFFSET: usize = size_of::<u32>();

/// The bytes that one read may still return.
struct ReadBudget(usize);

impl ReadBudget {
    fn spend(&mut self, bytes: usize) -> Result<(), Error> {
        let left = self.0.checked_sub(OFFSET + bytes);
        self.0 = left.ok_or(Error::Budget {
            what: "what the call reads at once",
            limit: CALL_BUDGET,
        })?;
        Ok(())
    }
}

impl Oracle {
    pub(super) fn read_values(&self, state: u32, at: Cells<'_>) -> Result<Nullable, Error> {
        let target = self.target(state, StateKind::Value, at)?;
        let (mut out, mut key, mut budget) = (Nullable::new(), Vec::new(), ReadBudget(CALL_BUDGET));
        for cell in 0..at.keys.len() {
            let view = self.locate(&mut key, target, at, cell);
            let value = view.get(&key).and_then(|stored| self.live(stored));
            budget.spend(value.map_or(0, |value| value.bytes.len()))?;
            out.push(value.map(|value| value.bytes));
        }
        Ok(out)
    }

    pub(super) fn write_values(
        &mut self,
        state: u32,
        at: Cells<'_>,
        values: NullableRef<'_>,
    ) -> Result<(), Error> {
        let target = self.target(state, StateKind::Value, at)?;
        at.check_rows("values", values.len())?;
        let mut key = Vec::new();
        for (cell, value) in values.iter().enumerate() {
            self.locate(&mut key, target, at, cell);
            self.write(target, &key, value)?;
        }
        Ok(())
    }

    pub(super) fn append_items(
        &mut self,
        state: u32,
        at: Cells<'_>,
        items: ColumnRef<'_>,
    ) -> Result<(), Error> {
        let target = self.target(state, StateKind::Items, at)?;
        at.check_rows("items", items.len())?;
        let mut key = Vec::new();
        for (cell, item) in items.iter().enumerate() {
            let view = self.locate(&mut key, target, at, cell);
            let end = cell_end(&key);
            let position = |row: &[u8]| {
                let position = row[key.len()..]
                    .try_into()
                    .expect("an item's suffix is checked when it is restored");
                u64::from_be_bytes(position)
            };
            let last = view.range(&key, &end, true).next();
            let next = last.map_or(0, |(row, stored)| {
                let item = StoredValue::decode(stored).map_or(0, |item| item.bytes.len());
                position(row).saturating_add((OFFSET + item) as u64)
            });
            let first = view
                .range(&key, &end, false)
                .find(|(_, stored)| self.live(stored).is_some());
            let held = first.map_or(0, |(row, _)| next - position(row));
            if held.saturating_add((OFFSET + item.len()) as u64) > CALL_BUDGET as u64 {
                return Err(Error::Budget {
                    what: "a list",
                    limit: CALL_BUDGET,
                });
            }
            key.extend_from_slice(&next.to_be_bytes());
            self.write(target, &key, Some(item))?;
        }
        Ok(())
    }

    pub(super) fn read_items(&self, state: u32, at: Cells<'_>) -> Result<ItemLists, Error> {
        let target = self.target(state, StateKind::Items, at)?;
        let mut lists = ItemLists {
            ends: Vec::with_capacity(at.keys.len()),
            items: Column::new(),
        };
        let (mut key, mut budget) = (Vec::new(), ReadBudget(CALL_BUDGET));
        for cell in 0..at.keys.len() {
            let view = self.locate(&mut key, target, at, cell);
            for (_, stored) in view.range(&key, &cell_end(&key), false) {
                if let Some(item) = self.live(stored) {
                    budget.spend(item.bytes.len())?;
                    lists.items.push(item.bytes);
                }
            }
            lists.ends.push(lists.items.len() as u32);
        }
        Ok(lists)
    }

    pub(super) fn read_entries(
        &self,
        state: u32,
        at: Cells<'_>,
        names: ColumnRef<'_>,
    ) -> Result<Nullable, Error> {
        let target = self.target(state, StateKind::Entries, at)?;
        at.check_rows("names", names.len())?;
        let (mut out, mut key, mut budget) = (Nullable::new(), Vec::new(), ReadBudget(CALL_BUDGET));
        for (cell, name) in names.iter().enumerate() {
            let view = self.locate(&mut key, target, at, cell);
            key.extend_from_slice(name);
            let value = view.get(&key).and_then(|stored| self.live(stored));
            budget.spend(value.map_or(0, |value| value.bytes.len()))?;
            out.push(value.map(|value| value.bytes));
        }
        Ok(out)
    }

    pub(super) fn write_entries(
        &mut self,
        state: u32,
        at: Cells<'_>,
        names: ColumnRef<'_>,
        values: NullableRef<'_>,
    ) -> Result<(), Error> {
        let target = self.target(state, StateKind::Entries, at)?;
        at.check_rows("names", names.len())?;
        at.check_rows("values", values.len())?;
        let mut key = Vec::new();
        for (cell, (name, value)) in names.iter().zip(values.iter()).enumerate() {
            self.locate(&mut key, target, at, cell);
            key.extend_from_slice(name);
            self.write(target, &key, value)?;
        }
        Ok(())
    }

    pub(super) fn scan_entries(
        &self,
        state: u32,
        at: Cells<'_>,
        start: NullableRef<'_>,
        end: NullableRef<'_>,
        descending: bool,
        limit: u32,
    ) -> Result<Page, Error> {
        let target = self.target(state, StateKind::Entries, at)?;
        at.check_rows("start", start.len())?;
        at.check_rows("end", end.len())?;
        let (mut page, mut key, mut budget) =
            (Page::default(), Vec::new(), ReadBudget(CALL_BUDGET));
        for (cell, (start, end)) in start.iter().zip(end.iter()).enumerate() {
            let view = self.locate(&mut key, target, at, cell);
            let (from, to) = entry_range(&key, start, end);
            let mut live = view
                .range(&from, &to, descending)
                .filter_map(|(row, stored)| self.live(stored).map(|value| (row, value.bytes)));
            for (row, value) in live.by_ref().take(limit as usize) {
                let name = &row[key.len()..];
                budget.spend(OFFSET + name.len() + value.len())?;
                page.names.push(name);
                page.values.push(value);
            }
            page.ends.push(page.names.len() as u32);
            page.more.push(u8::from(live.next().is_some()));
        }
        Ok(page)
    }

    pub(super) fn clear_range(
        &mut self,
        state: u32,
        at: Cells<'_>,
        start: NullableRef<'_>,
        end: NullableRef<'_>,
    ) -> Result<(), Error> {
        let target = self.target(state, StateKind::Entries, at)?;
        at.check_rows("start", start.len())?;
        at.check_rows("end", end.len())?;
        let mut key = Vec::new();
        for (cell, (start, end)) in start.iter().zip(end.iter()).enumerate() {
            let view = self.locate(&mut key, target, at, cell);
            let (from, to) = entry_range(&key, start, end);
            let doomed: Vec<_> = view
                .range(&from, &to, false)
                .map(|(row, _)| row.to_vec())
                .collect();
            self.overlay
                .rows
                .extend(doomed.into_iter().map(|row| (row, None)));
        }
        Ok(())
    }

    pub(super) fn clear_cells(&mut self, state: u32, at: Cells<'_>) -> Result<(), Error> {
        let target = self.target_of_any_kind(state, at)?;
        let mut key = Vec::new();
        for cell in 0..at.keys.len() {
            let view = self.locate(&mut key, target, at, cell);
            let doomed: Vec<_> = view
                .range(&key, &cell_end(&key), false)
                .map(|(row, _)| row.to_vec())
                .collect();
            self.overlay
                .rows
                .extend(doomed.into_iter().map(|row| (row, None)));
        }
        Ok(())
    }

    pub(super) fn touch_cells(&mut self, state: u32, at: Cells<'_>) -> Result<(), Error> {
        let target = self.target_of_any_kind(state, at)?;
        let Some(ttl) = self.schema.states[state as usize]
            .ttl
            .filter(|ttl| ttl.renew_on_access)
        else {
            return Ok(());
        };
        let expiry = expiry(self.processing_time, ttl.millis);
        let mut key = Vec::new();
        for cell in 0..at.keys.len() {
            let view = self.locate(&mut key, target, at, cell);
            let mut renewed = Vec::new();
            for (row, stored) in view.range(&key, &cell_end(&key), false) {
                let Some(value) = self.live(stored) else {
                    continue;
                };
                let worth_it = value.expiry.is_none_or(|old| {
                    let gain = i128::from(expiry) - i128::from(old);
                    gain > 0 && gain >= i128::from(ttl.millis / 16)
                });
                if worth_it {
                    let value = StoredValue {
                        expiry: Some(expiry),
                        ..value
                    };
                    renewed.push((row.to_vec(), Some(value.encode())));
                }
            }
            self.sweep.needed |= !renewed.is_empty();
            self.overlay.rows.extend(renewed);
        }
        Ok(())
    }

    /// Writes or deletes a row.
    fn write(&mut self, target: Target, key: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        self.overlay
            .spend(key.len() + value.map_or(0, <[u8]>::len))?;
        let spec = &self.schema.states[usize::from(target.index)];
        let stored = value.map(|bytes| {
            let expiry = spec.ttl.map(|ttl| expiry(self.processing_time, ttl.millis));
            self.sweep.needed |= expiry.is_some();
            StoredValue {
                version: spec.version,
                expiry,
                bytes,
            }
            .encode()
        });
        self.overlay.rows.insert(key.to_vec(), stored);
        Ok(())
    }

    /// The value, if the open call sees it.
    fn live<'a>(&self, stored: &'a [u8]) -> Option<StoredValue<'a>> {
        let value = StoredValue::decode(stored)
            .expect("values are encoded here and checked when they are restored");
        value.is_live(self.processing_time).then_some(value)
    }

    /// Puts the stored key of a cell into `key`; the view is on its group.
    fn locate(&self, key: &mut Vec<u8>, target: Target, at: Cells<'_>, cell: usize) -> View<'_> {
        let index = at.keys[cell] as usize;
        let group = key_group(self.keys.hashes[index], self.max_parallelism);
        write_cell(
            key,
            group,
            target.table,
            target.index,
            self.keys.distinct.get(index),
            at.namespace(cell),
        );
        self.view(group)
    }

    fn target(&self, state: u32, kind: StateKind, at: Cells<'_>) -> Result<Target, Error> {
        match self.schema.states.get(state as usize) {
            Some(spec) if spec.kind == kind => self.target_of_any_kind(state, at),
            _ => Err(Error::NoSuchState {
                state,
                kind: kind.as_str(),
            }),
        }
    }

    fn target_of_any_kind(&self, state: u32, at: Cells<'_>) -> Result<Target, Error> {
        let spec = self
            .schema
            .states
            .get(state as usize)
            .ok_or(Error::NoSuchState { state, kind: "any" })?;
        self.check_cells(at)?;
        Ok(Target {
            index: state as u16,
            table: spec.kind.table(),
        })
    }

    pub(super) fn check_cells(&self, at: Cells<'_>) -> Result<(), Error> {
        if !self.open {
            return Err(Error::Misuse("state or timers used outside of a call"));
        }
        let distinct = self.keys.hashes.len();
        if let Some(&index) = at.keys.iter().find(|index| **index as usize >= distinct) {
            return Err(Error::KeyIndex { index, distinct });
        }
        at.namespaces.map_or(Ok(()), |namespaces| {
            at.check_rows("namespaces", namespaces.len())
        })
    }
}

fn expiry(processing_time: i64, millis: u64) -> i64 {
    processing_time.saturating_add_unsigned(millis)
}

/// The stored keys of the entries of a cell whose names lie in `start..end`.
fn entry_range(cell: &[u8], start: Option<&[u8]>, end: Option<&[u8]>) -> (Vec<u8>, Vec<u8>) {
    let entry = |name: &[u8]| [cell, name].concat();
    (
        entry(start.unwrap_or_default()),
        end.map_or_else(|| cell_end(cell), entry),
    )
}
