//! Snapshots: one subtask's state and timers in a file.
//!
//! ```text
//! magic      "WEIRSNAP"
//! version    u32
//! header     u32 length, the bytes below, u64 checksum of them
//!              max parallelism u16, first group u16, last group + 1 u16
//!              advance in progress: u8 (0 none, 1 event time, 2 processing time), i64 until
//!              states: u16 count, each u16 length and name, kind u8 (table tag), version u32
//!              timers: u16 count, each u16 length and name, domain u8 (1 or 2, as above)
//! sections   one a key group that holds anything, by rising group:
//!              u8 1, group u16, entries u64, timers u64, bytes of the rows u64
//!              rows by rising key: u32 key length, u32 value length, stored key, stored value
//!              u64 checksum of the section up to here
//! footer     u8 2, sections u32, entries u64, timers u64, bytes of all rows u64
//!            u64 checksum of the file up to here
//! ```
//!
//! Integers are little endian, checksums XXH3-64. Keys and values are those of
//! [`stored_key`](crate::stored_key) and [`stored_value`](crate::stored_value); the index in a key
//! counts the header's tables, which match an operator's declarations by name. The same contents
//! give the same bytes. Nothing in it depends on the implementation that wrote it, on where it
//! lies, or on the parallelism that reads it.

mod group_rows;
mod header;
mod read;
mod staged;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeMap;
use std::io;
use std::io::Write;
use std::sync::Arc;

use crate::hash::key_group;
use crate::stored_key::{StoredKey, Table, group_of, time_suffix};
use crate::stored_value::encode_timer;
use crate::timers::Timers;
use crate::{CALL_BUDGET, TimeDomain};

pub(crate) use group_rows::GroupRows;
pub(crate) use header::Header;
pub(crate) use staged::Restorer;

const MAGIC: [u8; 8] = *b"WEIRSNAP";
const VERSION: u32 = 1;
/// Bounds a row's key and value together. A call writes at most its budget, and escaping at most
/// doubles a key.
const MAX_ROW: usize = 2 * CALL_BUDGET + 64;
const SECTION: u8 = 1;
const FOOTER: u8 = 2;

/// Stored rows by stored key.
pub(crate) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A subtask's state and timers, frozen.
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) header: Header,
    pub(crate) contents: Contents,
}

/// What is frozen.
#[derive(Debug)]
pub(crate) enum Contents {
    /// Shared with the live state until either changes.
    Maps {
        /// The rows of each group of the range.
        rows: Vec<Arc<Rows>>,
        /// Event time, processing time.
        timers: [Arc<Timers>; 2],
    },
    /// Copies, in no order, of each group of the range.
    Groups(Vec<GroupRows>),
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// Values, items and entries.
    pub entries: u64,
    /// Timers.
    pub timers: u64,
    /// Length of the file.
    pub bytes: u64,
}

/// What was restored from one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreSummary {
    /// Values, items and entries of groups that this instance owns.
    pub entries: u64,
    /// Timers of groups that this instance owns.
    pub timers: u64,
    /// Groups with contents in the file that this instance owns.
    pub groups: u32,
    /// Groups with contents in the file that belong to others.
    pub skipped_groups: u32,
    /// The advance that was in progress when the snapshot was taken, with its `until`.
    pub advance: Option<(TimeDomain, i64)>,
}

impl Snapshot {
    /// Writes the file. Takes few large writes; `out` need not be buffered.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(self, out: &mut dyn Write) -> io::Result<SnapshotSummary> {
        let mut writer = write::Writer::new(out, &self.header)?;
        let first = self.header.range.start;
        match self.contents {
            Contents::Maps { rows, timers } => {
                let timers = timer_rows(&timers, self.header.max_parallelism);
                let mut timers = timers.iter().peekable();
                for (group, rows) in (first..).zip(&rows) {
                    // The timers' tag is the highest, so within a group they follow all else.
                    let mut all: Vec<_> =
                        rows.iter().map(|(key, value)| (&**key, &**value)).collect();
                    let next = || timers.next_if(|(key, _)| group_of(key) == group);
                    all.extend(std::iter::from_fn(next).map(|(key, value)| (&**key, &**value)));
                    let of_timers = (all.len() - rows.len()) as u64;
                    writer.section(group, of_timers, &all)?;
                }
            }
            Contents::Groups(groups) => {
                // A group goes when it is written.
                for (group, rows) in (first..).zip(groups) {
                    writer.section(group, rows.timers(), &rows.sorted())?;
                }
            }
        }
        writer.finish()
    }
}

fn timer_rows(timers: &[Arc<Timers>], max_parallelism: u16) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    for (key, registration) in timers.iter().flat_map(|timers| timers.iter()) {
        let stored = StoredKey {
            group: key_group(key.hash, max_parallelism),
            table: Table::Timers,
            index: u16::try_from(key.timer).expect("a schema has at most 65,536 timers"),
            key: (&*key.key).into(),
            namespace: Some((&*key.namespace).into()),
            suffix: &time_suffix(key.time),
        };
        rows.push((
            stored.encode(),
            encode_timer(registration.chain, registration.waits),
        ));
    }
    rows.sort_unstable();
    rows
}
