//! Reading snapshot files back.

use std::io::Read;

use super::Memory;
use super::annex::cell_key;
use super::timer_key::timer_key;
use crate::hash::key_hash;
use crate::snapshot::Restorer;
use crate::stored_key::{StoredKey, Table};
use crate::stored_value::StoredValue;
use crate::{Error, RestoreSummary};

impl Memory {
    pub(super) fn restore_file(
        &mut self,
        reader: &mut dyn Read,
        name: &str,
    ) -> Result<RestoreSummary, Error> {
        if self.open {
            return Err(Error::Misuse("restore in an open call"));
        }
        let restorer = Restorer {
            schema: &self.schema,
            max_parallelism: self.max_parallelism,
            range: self.store.range(),
            restored: &self.restored,
        };
        let staged = restorer.stage(reader, name)?;
        self.restored.extend(staged.groups);
        for (key, value) in staged.rows {
            self.restore_row(&key, &value);
        }
        for (_, timer, registration) in staged.timers {
            let group = self.store.group(timer.hash);
            let slot = self.store.intern(group, timer.hash, &timer.key);
            let key = timer_key(timer.time, timer.timer as u16, &timer.namespace);
            self.register(slot, &key, registration);
        }
        Ok(staged.summary)
    }

    fn restore_row(&mut self, stored: &[u8], value: &[u8]) {
        let parts = StoredKey::decode(stored).expect("the reader has checked the key");
        let StoredValue { expiry, bytes, .. } =
            StoredValue::decode(value).expect("the reader has checked the value");
        self.expires |= expiry.is_some();
        let hash = key_hash(&parts.key);
        let group = self.store.group(hash);
        let id = self.store.intern(group, hash, &parts.key);
        let namespace = parts.namespace.as_deref();
        if parts.table == Table::Value
            && namespace.is_none()
            && self.store.first == Some(parts.index)
        {
            return self.store.set_first(id, bytes, expiry);
        }
        let cell = cell_key(parts.index, namespace);
        let mut key = self.store.parts(id);
        match parts.table {
            Table::Value => key.set_value(&cell, bytes, expiry),
            Table::Entries => key.set_entry(&cell, parts.suffix, bytes, expiry),
            Table::Items => {
                let position = parts.suffix.try_into();
                let position = position.expect("the reader has checked the suffix");
                key.push_item(&cell, u64::from_be_bytes(position), bytes, expiry);
            }
            Table::Timers => unreachable!("the reader hands over timers apart"),
        }
    }
}
