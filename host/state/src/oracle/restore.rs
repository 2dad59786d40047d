//! Reading snapshot files back.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Oracle;
use crate::snapshot::{Restorer, Rows, Target};
use crate::stored_key::{StoredKey, Table, cell_end, suffix_time};
use crate::stored_value::StoredValue;
use crate::timers::{Registration, TimerKey};
use crate::{Error, RestoreFile, RestoreSummary};

/// What has been read and not yet verified to the end.
#[derive(Default)]
struct Staged {
    rows: Rows,
    timers: BTreeMap<TimerKey, Registration>,
}

impl Oracle {
    pub(super) fn read_files(
        &mut self,
        files: &mut [RestoreFile<'_>],
    ) -> Result<RestoreSummary, Error> {
        if self.open {
            return Err(Error::Misuse("restore in an open call"));
        }
        let restorer = Restorer {
            schema: &self.schema,
            max_parallelism: self.max_parallelism,
            range: self.range,
            restored: &self.restored,
        };
        let mut staged = Staged::default();
        let restored = restorer.restore(files, &mut staged)?;
        let summary = restored.summary(staged.rows.len() as u64, staged.timers.len() as u64);
        self.restored.extend(restored.groups);
        for (key, value) in staged.rows {
            let expires = StoredValue::decode(&value).is_some_and(|value| value.expiry.is_some());
            self.sweep.needed |= expires;
            self.insert(key, value);
        }
        for (key, registration) in staged.timers {
            let domain = self.schema.timers[key.timer as usize].domain;
            Arc::make_mut(&mut self.timers[domain as usize]).insert(key, registration);
        }
        Ok(summary)
    }
}

fn timer_key(hash: u64, key: &StoredKey<'_>) -> TimerKey {
    TimerKey {
        time: suffix_time(key.suffix).expect("the reader has checked the suffix"),
        hash,
        key: (*key.key).into(),
        timer: u32::from(key.index),
        namespace: key.namespace.as_deref().unwrap_or_default().into(),
    }
}

impl Target for Staged {
    fn put_row(&mut self, _hash: u64, key: &StoredKey<'_>, value: StoredValue<'_>) {
        self.rows.insert(key.encode(), value.encode());
    }

    fn put_timer(&mut self, hash: u64, key: &StoredKey<'_>, registration: Registration) {
        self.timers.insert(timer_key(hash, key), registration);
    }

    fn remove_row(&mut self, hash: u64, key: &StoredKey<'_>) {
        if key.table == Table::Timers {
            self.timers.remove(&timer_key(hash, key));
        } else {
            self.rows.remove(&key.encode());
        }
    }

    fn remove_cell(&mut self, _hash: u64, key: &StoredKey<'_>) {
        let cell = key.encode();
        let end = cell_end(&cell);
        let gone: Vec<_> = self
            .rows
            .range(cell..end)
            .map(|(key, _)| key.clone())
            .collect();
        for key in &gone {
            self.rows.remove(key);
        }
    }
}
