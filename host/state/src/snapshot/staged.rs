//! What a restore has read: held back until the whole file is verified.

use std::collections::BTreeSet;
use std::io::Read;

use super::read::{Visitor, read};
use crate::timers::{Registration, TimerKey};
use crate::{Error, GroupRange, RestoreSummary, Schema, TimeDomain};

/// The rows and timers of the groups that an instance owns, from one verified file.
pub(crate) struct Staged {
    /// The groups, to be added to those restored.
    pub(crate) groups: Vec<u16>,
    /// Stored keys and stored values.
    pub(crate) rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// Timers of both domains.
    pub(crate) timers: Vec<(TimeDomain, TimerKey, Registration)>,
    /// What the file held.
    pub(crate) summary: RestoreSummary,
}

/// Who restores: which groups it owns, and which of them earlier files gave it.
pub(crate) struct Restorer<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) max_parallelism: u16,
    pub(crate) range: GroupRange,
    pub(crate) restored: &'a BTreeSet<u16>,
}

impl Restorer<'_> {
    /// Reads and verifies a whole file and keeps what belongs to the groups owned.
    pub(crate) fn stage(&self, reader: &mut dyn Read, name: &str) -> Result<Staged, Error> {
        let mut rows = Owned {
            range: self.range,
            restored: self.restored,
            file: name,
            groups: Vec::new(),
            rows: Vec::new(),
            timers: Vec::new(),
        };
        let summary = read(reader, name, self.schema, self.max_parallelism, &mut rows)?;
        Ok(Staged {
            groups: rows.groups,
            rows: rows.rows,
            timers: rows.timers,
            summary,
        })
    }
}

/// What has been read and not yet verified to the end.
struct Owned<'a> {
    range: GroupRange,
    restored: &'a BTreeSet<u16>,
    file: &'a str,
    groups: Vec<u16>,
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    timers: Vec<(TimeDomain, TimerKey, Registration)>,
}

impl Visitor for Owned<'_> {
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

    fn timer(&mut self, domain: TimeDomain, key: TimerKey, registration: Registration) {
        self.timers.push((domain, key, registration));
    }
}
