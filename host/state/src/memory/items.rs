//! Reads and writes of items. The rules are the trait's.

use super::annex::{Cell, ITEM, Item, List, cell_key};
use super::bytes::Bytes;
use super::cells::items;
use super::overlay::{Pending, Writes};
use super::{Memory, ReadBudget, expiry};
use crate::keyed_state::{CALL_BUDGET, Cells, ItemLists};
use crate::{Column, ColumnRef, Error, StateKind};

impl Memory {
    pub(super) fn append_items(
        &mut self,
        state: u32,
        at: Cells<'_>,
        new: ColumnRef<'_>,
    ) -> Result<(), Error> {
        let state = self.target(state, StateKind::Items, at)?;
        at.check_rows("items", new.len())?;
        self.overlay.spend(at, new.data.len())?;
        for (row, (&key, item)) in at.keys.iter().zip(new.iter()).enumerate() {
            let place = (key, cell_key(state, at.namespace(row)));
            let applied = self.applied_items(&place);
            let held_before = applied.map_or(0, |list| self.held(list));
            let pending = self
                .overlay
                .cells
                .entry(place)
                .or_insert_with(|| Pending::items(false, held_before));
            let Writes::Items { appended, held } = &mut pending.writes else {
                continue;
            };
            *held += ITEM + item.len() as u64;
            if *held > CALL_BUDGET as u64 {
                return Err(Error::Budget {
                    what: "a list",
                    limit: CALL_BUDGET,
                });
            }
            appended.push(item.into());
        }
        Ok(())
    }

    /// Bytes of a list from its first item that a read would see on.
    fn held(&self, list: &List) -> u64 {
        let end = list.back().map_or(0, Item::end);
        let mut seen = list.iter().filter(|item| self.is_live(item.row.expiry));
        seen.next().map_or(0, |first| end - first.position)
    }

    pub(super) fn read_items(&self, state: u32, at: Cells<'_>) -> Result<ItemLists, Error> {
        let state = self.target(state, StateKind::Items, at)?;
        let mut lists = ItemLists {
            ends: Vec::with_capacity(at.keys.len()),
            items: Column::new(),
        };
        let mut budget = ReadBudget::default();
        for (row, &key) in at.keys.iter().enumerate() {
            let place = (key, cell_key(state, at.namespace(row)));
            let pending = self.overlay.cells.get(&place);
            let applied = self
                .applied_items(&place)
                .filter(|_| pending.is_none_or(|pending| !pending.cleared));
            for item in applied.into_iter().flatten() {
                if self.is_live(item.row.expiry) {
                    budget.spend(item.row.bytes.len())?;
                    lists.items.push(&item.row.bytes);
                }
            }
            if let Some(Writes::Items { appended, .. }) = pending.map(|pending| &pending.writes) {
                for item in appended {
                    budget.spend(item.len())?;
                    lists.items.push(item);
                }
            }
            lists.ends.push(lists.items.len() as u32);
        }
        Ok(lists)
    }

    fn applied_items(&self, (key, cell): &(u32, Bytes)) -> Option<&List> {
        let id = self.keys.slots[*key as usize];
        items(&self.store.annex(id)?.cells, cell)
    }

    /// Makes real what the call did to cells of items and entries, and returns the number of rows.
    pub(super) fn apply_cells(&mut self) -> usize {
        let mut rows = 0;
        for ((key, cell), pending) in std::mem::take(&mut self.overlay.cells) {
            let id = self.keys.slots[key as usize];
            if pending.writes.is_empty() && self.store.annex(id).is_none() {
                continue;
            }
            let (state, _) = super::annex::cell_parts(&cell);
            let ttl = self.schema.states[usize::from(state)].ttl;
            let expiry = ttl.map(|ttl| expiry(self.processing_time, ttl.millis));
            self.expires |= expiry.is_some();
            let mut parts = self.store.parts(id);
            if pending.cleared {
                parts.clear_cell(&cell);
                rows += 1;
            }
            match pending.writes {
                Writes::Items { appended, .. } => {
                    let last = match parts.cells.get(&cell) {
                        Some(Cell::Items(list)) => list.back(),
                        _ => None,
                    };
                    let mut position = last.map_or(0, Item::end);
                    for item in &appended {
                        parts.push_item(&cell, position, item, expiry);
                        position = position.saturating_add(ITEM + item.len() as u64);
                    }
                    rows += appended.len();
                }
                Writes::Entries(written) => {
                    rows += written.len();
                    for (name, value) in &written {
                        match value {
                            Some(bytes) => parts.set_entry(&cell, name, bytes, expiry),
                            None => parts.clear_entry(&cell, name),
                        }
                    }
                }
            }
            self.store.removed(id);
        }
        rows
    }
}
