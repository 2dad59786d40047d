//! Reads and writes of values. The rules are the trait's.

use super::annex::cell_key;
use super::cells::value;
use super::slot::VALUE;
use super::{Memory, ReadBudget, expiry};
use crate::keyed_state::{CALL_BUDGET, Cells};
use crate::{Error, Nullable, NullableRef, StateKind};

impl Memory {
    pub(super) fn read_values(&mut self, state: u32, at: Cells<'_>) -> Result<Nullable, Error> {
        let state = self.target(state, StateKind::Value, at)?;
        let written = self.overlay.index(state, self.keys.slots.len());
        if !written && at.namespaces.is_none() && self.store.first == Some(state) {
            return self.read_first(at.keys);
        }
        let (mut out, mut budget) = (Nullable::new(), ReadBudget::default());
        for (cell, &key) in at.keys.iter().enumerate() {
            let namespace = at.namespace(cell);
            let of_call = written
                .then(|| self.overlay.value(state, key, namespace))
                .flatten();
            let value = match of_call {
                Some(written) => written,
                None => self.applied_value(state, key, namespace),
            };
            budget.spend(value.map_or(0, <[u8]>::len))?;
            out.push(value);
        }
        Ok(out)
    }

    /// The values that lie in the slots: all that most operators ever read.
    fn read_first(&self, keys: &[u32]) -> Result<Nullable, Error> {
        let mut out = Nullable::new();
        out.offsets.reserve(keys.len());
        let expected = self.first_size * keys.len() + VALUE;
        out.data.reserve(expected.min(CALL_BUDGET));
        let mut budget = ReadBudget::default();
        for &key in keys {
            let id = self.keys.slots[key as usize];
            if let Some((length, room)) = self.store.slot(id).plain_first() {
                budget.spend(length)?;
                // A copy of known length and a cut are cheaper than a copy of any length.
                let end = out.data.len() + length;
                out.data.extend_from_slice(room);
                out.data.truncate(end);
                out.offsets.push(end as u32);
                if !out.present.is_empty() {
                    out.present.push(1);
                }
                continue;
            }
            let value = self.store.first(id);
            let value = value.filter(|(_, expiry)| self.is_live(*expiry));
            budget.spend(value.map_or(0, |(bytes, _)| bytes.len()))?;
            out.push(value.map(|(bytes, _)| bytes));
        }
        Ok(out)
    }

    fn applied_value(&self, state: u16, key: u32, namespace: Option<&[u8]>) -> Option<&[u8]> {
        let id = self.keys.slots[key as usize];
        let (bytes, expiry) = if namespace.is_none() && self.store.first == Some(state) {
            self.store.first(id)?
        } else {
            let row = value(&self.store.annex(id)?.cells, &cell_key(state, namespace))?;
            (&*row.bytes, row.expiry)
        };
        self.is_live(expiry).then_some(bytes)
    }

    pub(super) fn write_values(
        &mut self,
        state: u32,
        at: Cells<'_>,
        values: NullableRef<'_>,
    ) -> Result<(), Error> {
        let state = self.target(state, StateKind::Value, at)?;
        at.check_rows("values", values.len())?;
        self.overlay.spend(at, values.data.len())?;
        self.overlay.log(state, at, Some(values));
        Ok(())
    }

    /// Makes the log real, in order, and returns the number of rows.
    pub(super) fn apply_values(&mut self) -> usize {
        let mut rows = 0;
        for block in self.overlay.blocks() {
            let ttl = self.schema.states[usize::from(block.state)].ttl;
            let expiry = ttl.map(|ttl| expiry(self.processing_time, ttl.millis));
            self.expires |= expiry.is_some();
            rows += block.keys.len();
            let in_slots = self.store.first == Some(block.state);
            if in_slots && !block.is_namespaced() {
                for (row, &key) in block.keys.iter().enumerate() {
                    let id = self.keys.slots[key as usize];
                    match block.values.get(row) {
                        Some(bytes) => self.store.set_first(id, bytes, expiry),
                        None => self.store.clear_first(id),
                    }
                }
                if !block.keys.is_empty() {
                    // About what the next read will find.
                    self.first_size = block.values.data.len() / block.keys.len() + 1;
                }
                continue;
            }
            for (row, &key) in block.keys.iter().enumerate() {
                let id = self.keys.slots[key as usize];
                let namespace = block.namespace(row);
                match block.values.get(row) {
                    Some(bytes) if in_slots && namespace.is_none() => {
                        self.store.set_first(id, bytes, expiry);
                    }
                    None if in_slots && namespace.is_none() => self.store.clear_first(id),
                    Some(bytes) => {
                        let cell = cell_key(block.state, namespace);
                        self.store.parts(id).set_value(&cell, bytes, expiry);
                    }
                    None => {
                        if self.store.annex(id).is_some() {
                            let cell = cell_key(block.state, namespace);
                            self.store.parts(id).clear_value(&cell);
                            self.store.removed(id);
                        }
                    }
                }
            }
        }
        rows
    }
}
