//! Reading snapshot files back.

use super::Memory;
use super::annex::cell_key;
use super::bytes::Bytes;
use super::cursor::Cursor;
use super::store::SlotId;
use super::timer_key::timer_key;
use crate::snapshot::{Restorer, Target};
use crate::stored_key::{StoredKey, Table, suffix_time};
use crate::stored_value::StoredValue;
use crate::timers::Registration;
use crate::{Error, RestoreFile, RestoreSummary};

impl Memory {
    /// Fills the slots while it reads, and empties them again if anything is wrong.
    pub(super) fn read_files(
        &mut self,
        files: &mut [RestoreFile<'_>],
    ) -> Result<RestoreSummary, Error> {
        if self.open {
            return Err(Error::Misuse("restore in an open call"));
        }
        let (schema, restored) = (self.schema.clone(), std::mem::take(&mut self.restored));
        let restorer = Restorer {
            schema: &schema,
            max_parallelism: self.max_parallelism,
            range: self.store.range,
            restored: &restored,
        };
        let before = self.store.totals;
        let result = restorer.restore(files, self);
        self.restored = restored;
        if result.is_err() {
            self.empty_unrestored();
        }
        // What was cancelled may have been the next timer.
        self.end_firing();
        let result = result?;
        let summary = result.summary(
            self.store.totals.entries - before.entries,
            self.store.totals.timers - before.timers,
        );
        self.restored.extend(result.groups);
        Ok(summary)
    }

    /// Removes all that lies in groups that were not restored.
    fn empty_unrestored(&mut self) {
        for group in 0..self.store.groups() {
            let number = self.store.range.start + group as u16;
            if self.restored.contains(&number) {
                continue;
            }
            let mut cursor = Cursor::default();
            while let Some(id) = cursor.slot(&self.store, group) {
                self.empty_slot(id);
                cursor.step();
            }
        }
    }

    fn empty_slot(&mut self, id: SlotId) {
        self.store.clear_first(id);
        let Some(annex) = self.store.annex(id) else {
            return;
        };
        let cells: Vec<Bytes> = annex.cells.iter().map(|(cell, _)| cell.into()).collect();
        let timers: Vec<Bytes> = annex.timers.iter().map(|(timer, _)| timer.into()).collect();
        let mut parts = self.store.parts(id);
        cells.iter().for_each(|cell| parts.clear_cell(cell));
        for timer in &timers {
            self.cancel(id, timer);
        }
        self.store.removed(id);
    }

    /// The slot of a key that has one.
    fn known(&self, hash: u64, key: &StoredKey<'_>) -> Option<SlotId> {
        let group = self.store.group(hash);
        self.store.find(group, hash, &key.key)
    }

    fn slot(&mut self, hash: u64, key: &StoredKey<'_>) -> SlotId {
        let group = self.store.group(hash);
        self.store.intern(group, hash, &key.key)
    }

    fn is_first(&self, key: &StoredKey<'_>) -> bool {
        key.table == Table::Value && key.namespace.is_none() && self.store.first == Some(key.index)
    }
}

fn cell_of(key: &StoredKey<'_>) -> Bytes {
    cell_key(key.index, key.namespace.as_deref())
}

fn timer_of(key: &StoredKey<'_>) -> Bytes {
    let time = suffix_time(key.suffix).expect("the reader has checked the suffix");
    timer_key(
        time,
        key.index,
        key.namespace.as_deref().unwrap_or_default(),
    )
}

impl Target for Memory {
    fn put_row(&mut self, hash: u64, key: &StoredKey<'_>, value: StoredValue<'_>) {
        let StoredValue { expiry, bytes, .. } = value;
        self.expires |= expiry.is_some();
        let id = self.slot(hash, key);
        if self.is_first(key) {
            return self.store.set_first(id, bytes, expiry);
        }
        let cell = cell_of(key);
        let mut parts = self.store.parts(id);
        match key.table {
            Table::Value => parts.set_value(&cell, bytes, expiry),
            Table::Entries => parts.set_entry(&cell, key.suffix, bytes, expiry),
            Table::Items => {
                let position = key.suffix.try_into();
                let position = position.expect("the reader has checked the suffix");
                parts.set_item(&cell, u64::from_be_bytes(position), bytes, expiry);
            }
            Table::Timers => unreachable!("the reader hands over timers apart"),
        }
    }

    fn put_timer(&mut self, hash: u64, key: &StoredKey<'_>, registration: Registration) {
        let (id, timer) = (self.slot(hash, key), timer_of(key));
        // In place of the one that is there, which may be registered otherwise.
        self.cancel(id, &timer);
        self.register(id, &timer, registration);
    }

    fn remove_row(&mut self, hash: u64, key: &StoredKey<'_>) {
        let Some(id) = self.known(hash, key) else {
            return;
        };
        if key.table == Table::Timers {
            self.cancel(id, &timer_of(key));
        } else if self.is_first(key) {
            self.store.clear_first(id);
        } else if self.store.annex(id).is_some() {
            self.store.parts(id).remove_row(&cell_of(key), key.suffix);
            self.store.removed(id);
        }
    }

    fn remove_cell(&mut self, hash: u64, key: &StoredKey<'_>) {
        if let Some(id) = self.known(hash, key)
            && self.store.annex(id).is_some()
        {
            self.store.parts(id).clear_cell(&cell_of(key));
            self.store.removed(id);
        }
    }
}
