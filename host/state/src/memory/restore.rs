//! Reading snapshot files back.

use std::collections::BTreeSet;
use std::io::Read;

use super::Memory;
use super::annex::cell_key;
use super::timer_key::timer_key;
use crate::hash::key_hash;
use crate::snapshot::{Visitor, read};
use crate::stored_key::{StoredKey, Table};
use crate::stored_value::StoredValue;
use crate::timers::{Registration, TimerKey};
use crate::{Error, GroupRange, RestoreSummary, TimeDomain};

impl Memory {
    pub(super) fn restore_file(
        &mut self,
        reader: &mut dyn Read,
        name: &str,
    ) -> Result<RestoreSummary, Error> {
        if self.open {
            return Err(Error::Misuse("restore in an open call"));
        }
        let mut staged = Staged {
            range: self.store.range(),
            restored: &self.restored,
            file: name,
            groups: Vec::new(),
            rows: Vec::new(),
            timers: Vec::new(),
        };
        let summary = read(
            reader,
            name,
            &self.schema,
            self.max_parallelism,
            &mut staged,
        )?;
        let Staged {
            groups,
            rows,
            timers,
            ..
        } = staged;
        self.restored.extend(groups);
        for (key, value) in rows {
            self.restore_row(&key, &value);
        }
        for (timer, registration) in timers {
            let group = self.store.group(timer.hash);
            let slot = self.store.intern(group, timer.hash, &timer.key);
            let key = timer_key(timer.time, timer.timer as u16, &timer.namespace);
            self.register(slot, &key, registration);
        }
        Ok(summary)
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

/// What a restore has read and not yet verified to the end.
struct Staged<'a> {
    range: GroupRange,
    restored: &'a BTreeSet<u16>,
    file: &'a str,
    groups: Vec<u16>,
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    timers: Vec<(TimerKey, Registration)>,
}

impl Visitor for Staged<'_> {
    fn group(&mut self, group: u16) -> Result<bool, Error> {
        if !self.range.contains(group) {
            return Ok(false);
        }
        if self.restored.contains(&group) {
            return Err(Error::Overlap {
                file: self.file.to_owned(),
                group,
            });
        }
        self.groups.push(group);
        Ok(true)
    }

    fn row(&mut self, _group: u16, key: Vec<u8>, value: Vec<u8>) {
        self.rows.push((key, value));
    }

    fn timer(&mut self, _domain: TimeDomain, key: TimerKey, registration: Registration) {
        self.timers.push((key, registration));
    }
}
