//! Snapshots: one subtask's state and timers in files.
//!
//! ```text
//! magic      "WEIRSNAP"
//! version    u32
//! header     u32 length, the bytes below, u64 checksum of them
//!              max parallelism u16, first group u16, last group + 1 u16
//!              id u64 (0 if nothing builds on it)
//!              needs: u16 count, each the id u64 of an earlier snapshot, rising
//!              origins: one u16 a group of the range: the place in `needs` of the file that the
//!                group's rows begin in, or their count for this file
//!              advance in progress: u8 (0 none, 1 event time, 2 processing time), i64 until
//!              states: u16 count, each u16 length and name, kind u8 (table tag), version u32
//!              timers: u16 count, each u16 length and name, domain u8 (1 or 2, as above)
//! sections   at most one a key group, by rising group:
//!              u8 1 (base: all rows of the group) or 2 (delta: what changed), group u16,
//!              entries u64, timers u64, removals u64, bytes of the rows u64
//!              rows by rising key: u32 key length, u32 value length, stored key, stored value;
//!                in a delta a value length of 2^32 - 1 says that the row is gone, 2^32 - 2 that
//!                all rows of the cell are gone that the key names (before any that follow), and
//!                no value follows
//!              u64 checksum of the section up to here
//! footer     u8 3, sections u32, entries u64, timers u64, removals u64, bytes of all rows u64
//!            u64 checksum of the file up to here
//! ```
//!
//! Integers are little endian, checksums XXH3-64. Keys and values are those of
//! [`stored_key`](crate::stored_key) and [`stored_value`](crate::stored_value); the index in a key
//! counts the header's tables, which match an operator's declarations by name. Nothing in it
//! depends on the implementation that wrote it, on where it lies, or on the parallelism that reads
//! it. The same contents give the same base sections.
//!
//! # Files that build on others
//! The rows of a group are those of the base section in the file that `origins` names, changed by
//! the deltas in the files behind it, the file itself last. Sections before the origin are stale: a
//! restore verifies and skips them. A group whose origin is the file itself and that has no section
//! in it holds nothing. So the newest file's header alone says what counts, and a group that was
//! emptied needs no mark in any file. A delta may name rows as gone that no file holds; it never
//! leaves out one that changed.

mod declared;
mod group_rows;
mod header;
mod read;
mod restore;
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

pub use restore::RestoreFile;

pub(crate) use group_rows::{GroupRows, Place};
pub(crate) use header::Header;
pub(crate) use restore::{Restorer, Target};

const MAGIC: [u8; 8] = *b"WEIRSNAP";
const VERSION: u32 = 1;
/// Bounds a row's key and value together. A call writes at most its budget, and escaping at most
/// doubles a key.
const MAX_ROW: usize = 2 * CALL_BUDGET + 64;
const FOOTER: u8 = 3;
/// Value lengths that stand for a removal.
const GONE: u32 = u32::MAX;
const CELL_GONE: u32 = u32::MAX - 1;

/// The id of a snapshot that no other builds on.
pub(crate) const STANDALONE: u64 = 0;

/// Stored rows by stored key.
pub(crate) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a section says of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SectionKind {
    /// All rows.
    Base = 1,
    /// The rows that changed, and which went.
    Delta = 2,
}

/// What a row of a section says of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowValue<'a> {
    /// All rows of the cell went that the key names, before what follows.
    CellGone,
    /// A stored value.
    Is(&'a [u8]),
    /// The row went.
    Gone,
}

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
    Groups(Vec<GroupChanges>),
}

/// What a snapshot says of a group.
#[derive(Debug)]
pub(crate) struct GroupChanges {
    pub(crate) kind: SectionKind,
    pub(crate) rows: GroupRows,
    /// What went, of a delta. A row that is also in `rows` came back.
    pub(crate) gone: Vec<Arc<GroupRows>>,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// Values, items and entries in the file.
    pub entries: u64,
    /// Timers in the file.
    pub timers: u64,
    /// Rows and cells that it says are gone.
    pub removals: u64,
    /// Length of the file.
    pub bytes: u64,
}

/// What was restored from the files of one snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreSummary {
    /// Values, items and entries of groups that this instance owns.
    pub entries: u64,
    /// Timers of groups that this instance owns.
    pub timers: u64,
    /// Groups with contents in the files that this instance owns.
    pub groups: u32,
    /// Groups with contents in the files that belong to others.
    pub skipped_groups: u32,
    /// The advance that was in progress when the snapshot was taken, with its `until`.
    pub advance: Option<(TimeDomain, i64)>,
}

impl GroupChanges {
    /// Rows and their bytes.
    pub(crate) fn size(&self) -> (u64, u64) {
        let all = std::iter::once(&self.rows).chain(self.gone.iter().map(Arc::as_ref));
        all.fold((0, 0), |(rows, bytes), some| {
            (rows + some.len() as u64, bytes + some.bytes() as u64)
        })
    }
}

impl Snapshot {
    /// Its id, as [`freeze`](crate::KeyedState::freeze) was given it.
    pub fn id(&self) -> u64 {
        self.header.id
    }

    /// The earlier snapshots of the same instance whose files a restore needs besides its own,
    /// oldest first. All of them were needed by, or were, the one that it was based on.
    pub fn needs(&self) -> &[u64] {
        &self.header.needs
    }

    /// Writes the file. Takes few large writes; `out` need not be buffered. What failed may be tried again from the beginning.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<SnapshotSummary> {
        let mut writer = write::Writer::new(out, &self.header)?;
        let first = self.header.range.start;
        match &self.contents {
            Contents::Maps { rows, timers } => {
                let timers = timer_rows(timers, self.header.max_parallelism);
                let mut timers = timers.iter().peekable();
                for (group, rows) in (first..).zip(rows) {
                    // The timers' tag is the highest, so within a group they follow all else.
                    let next = || timers.next_if(|(key, _)| group_of(key) == group);
                    let of_timers = std::iter::from_fn(next).map(|(key, value)| (key, value));
                    let all: Vec<_> = rows
                        .iter()
                        .chain(of_timers)
                        .map(|(key, value)| (&**key, RowValue::Is(value)))
                        .collect();
                    let of_timers = (all.len() - rows.len()) as u64;
                    writer.section(SectionKind::Base, group, of_timers, &all)?;
                }
            }
            Contents::Groups(groups) => {
                for (group, changes) in (first..).zip(groups) {
                    let rows = changes.rows.sorted(&changes.gone);
                    writer.section(changes.kind, group, changes.rows.timers(), &rows)?;
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
