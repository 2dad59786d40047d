//! Restoring from the files of one snapshot: its own and those that it builds on.
//!
//! Rows go to the [`Target`] as they are read, so that a restore holds no more than the state it
//! makes and a row. The target must therefore be able to take all of it back: what a restore has
//! put there counts when all files are verified, not before.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::ops::Bound;

use super::read::{Change, File, Row, Undeclared, Visitor, Wanted};
use super::{Header, SectionKind};
use crate::stored_key::{StoredKey, cell_end};
use crate::stored_value::StoredValue;
use crate::timers::Registration;
use crate::{Error, GroupRange, RestoreSummary, Schema, TimeDomain};

/// A snapshot file to restore from.
pub struct RestoreFile<'a> {
    /// Its bytes, from the start.
    pub reader: &'a mut dyn Read,
    /// Its name in errors.
    pub name: &'a str,
}

/// What a restore fills: the rows of groups that held nothing before it, in such an order that each
/// row replaces the one of the same key.
pub(crate) trait Target {
    /// A value, item or entry.
    fn put_row(&mut self, hash: u64, key: &StoredKey<'_>, value: StoredValue<'_>);
    fn put_timer(&mut self, hash: u64, key: &StoredKey<'_>, registration: Registration);
    /// A row or timer goes, if it is there.
    fn remove_row(&mut self, hash: u64, key: &StoredKey<'_>);
    /// All rows of a cell of items or entries go.
    fn remove_cell(&mut self, hash: u64, key: &StoredKey<'_>);
}

/// Who restores: which groups it owns, and which of them earlier restores gave it.
pub(crate) struct Restorer<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) max_parallelism: u16,
    pub(crate) range: GroupRange,
    pub(crate) restored: &'a BTreeSet<u16>,
}

/// What the files held.
#[derive(Debug, Default)]
pub(crate) struct Restored {
    /// Groups owned, to be added to those restored.
    pub(crate) groups: BTreeSet<u16>,
    skipped_groups: BTreeSet<u16>,
    advance: Option<(TimeDomain, i64)>,
}

impl Restored {
    /// With the entries and timers that the target has more than before.
    pub(crate) fn summary(&self, entries: u64, timers: u64) -> RestoreSummary {
        RestoreSummary {
            entries,
            timers,
            groups: self.groups.len() as u32,
            skipped_groups: self.skipped_groups.len() as u32,
            advance: self.advance,
        }
    }
}

impl Restorer<'_> {
    /// Reads and verifies the files, the newest last, and fills `target` with what belongs to the
    /// groups owned.
    pub(crate) fn restore(
        &self,
        files: &mut [RestoreFile<'_>],
        target: &mut dyn Target,
    ) -> Result<Restored, Error> {
        let Some((newest, earlier)) = files.split_last_mut() else {
            return Err(Error::Misuse("restore of no file"));
        };
        // Its header says which sections of the others count.
        let newest_name = newest.name;
        let newest = File::open(newest.reader, newest.name)?;
        let header = newest.header.clone();
        if header.max_parallelism != self.max_parallelism {
            return Err(Error::MaxParallelism {
                file: newest_name.to_owned(),
                snapshot: header.max_parallelism,
                job: self.max_parallelism,
            });
        }
        if header.needs.len() != earlier.len() {
            return Err(Error::Chain {
                file: newest_name.to_owned(),
                what: format!(
                    "builds on the snapshots {:?}, and {} files were given before it",
                    header.needs,
                    earlier.len()
                ),
            });
        }
        let mut reading = Reading {
            restorer: self,
            header: &header,
            target,
            file: newest_name,
            place: 0,
            is_last: false,
            begun: BTreeSet::new(),
            restored: Restored {
                advance: header.advance,
                ..Restored::default()
            },
            undeclared: BTreeSet::new(),
            refusals: BTreeMap::new(),
        };
        for (place, earlier) in earlier.iter_mut().enumerate() {
            let file = File::open(earlier.reader, earlier.name)?;
            check_related(&file.header, &header, header.needs[place], earlier.name)?;
            reading.read(file, place, earlier.name)?;
        }
        reading.is_last = true;
        reading.read(newest, header.needs.len(), newest_name)?;
        reading.finish()
    }
}

/// Whether an earlier file is the one that the newest builds on.
fn check_related(earlier: &Header, newest: &Header, id: u64, name: &str) -> Result<(), Error> {
    let differs = |what: &str, found: String, expected: String| {
        Err(Error::Chain {
            file: name.to_owned(),
            what: format!("{what} {found}, where the snapshot that builds on it has {expected}"),
        })
    };
    if earlier.id != id {
        return differs("is snapshot", earlier.id.to_string(), id.to_string());
    }
    if (earlier.max_parallelism, earlier.range) != (newest.max_parallelism, newest.range) {
        let groups = |header: &Header| {
            let GroupRange { start, end } = header.range;
            format!("{start} to {end} of {}", header.max_parallelism)
        };
        return differs("holds key groups", groups(earlier), groups(newest));
    }
    if earlier.schema != newest.schema {
        let names = |header: &Header| {
            let Schema { states, timers } = &header.schema;
            let states = states.iter().map(|state| &state.name);
            let names: Vec<_> = states
                .chain(timers.iter().map(|timer| &timer.name))
                .collect();
            format!("{names:?}")
        };
        return differs("is of states and timers", names(earlier), names(newest));
    }
    Ok(())
}

/// A restore between its first and its last file.
struct Reading<'a> {
    restorer: &'a Restorer<'a>,
    /// Of the newest file.
    header: &'a Header,
    target: &'a mut dyn Target,
    /// The file that is read, and its place among those needed.
    file: &'a str,
    place: usize,
    is_last: bool,
    /// Groups whose base was met.
    begun: BTreeSet<u16>,
    restored: Restored,
    /// Stored keys of what cannot be restored. What a later file says is gone is no reason to
    /// refuse.
    undeclared: BTreeSet<Vec<u8>>,
    /// Why not, by table and index as they stand in the stored keys.
    refusals: BTreeMap<Vec<u8>, Error>,
}

impl<'a> Reading<'a> {
    fn read(&mut self, file: File<'_>, place: usize, name: &'a str) -> Result<(), Error> {
        (self.file, self.place) = (name, place);
        file.read(self.restorer.schema, self)
    }

    fn finish(mut self) -> Result<Restored, Error> {
        let first = self.header.range.start;
        for (group, origin) in (first..).zip(&self.header.origins) {
            let is_here = usize::from(*origin) == self.header.needs.len();
            if !is_here && !self.begun.contains(&group) {
                return Err(Error::Chain {
                    file: self.file.to_owned(),
                    what: format!(
                        "key group {group} begins in snapshot {}, which does not hold it",
                        self.header.needs[usize::from(*origin)]
                    ),
                });
            }
        }
        let refused = self.undeclared.first();
        match refused.and_then(|key| self.refusals.remove(table_and_index(key))) {
            Some(why) => Err(why),
            None => Ok(self.restored),
        }
    }
}

impl Visitor for Reading<'_> {
    fn section(&mut self, kind: SectionKind, group: u16) -> Result<Wanted, Error> {
        let origin = self.header.origins[usize::from(group - self.header.range.start)];
        let expected = match usize::from(origin).cmp(&self.place) {
            std::cmp::Ordering::Greater => return Ok(Wanted::No),
            std::cmp::Ordering::Equal => SectionKind::Base,
            std::cmp::Ordering::Less => SectionKind::Delta,
        };
        if kind != expected {
            return Ok(Wanted::Misplaced(format!(
                "key group {group} has a section of kind {kind:?} where one of kind {expected:?} \
                 belongs"
            )));
        }
        if kind == SectionKind::Base {
            self.begun.insert(group);
        }
        if !self.restorer.range.contains(group) {
            self.restored.skipped_groups.insert(group);
            return Ok(Wanted::No);
        }
        if self.restorer.restored.contains(&group) {
            return Err(Error::Overlap {
                file: self.file.to_owned(),
                group,
            });
        }
        self.restored.groups.insert(group);
        Ok(Wanted::Yes)
    }

    fn row(&mut self, row: Row<'_>) {
        let Row { hash, key, change } = row;
        match change {
            Change::Value(value) => self.target.put_row(hash, &key, value),
            Change::Timer(registration) => self.target.put_timer(hash, &key, registration),
            Change::Gone => self.target.remove_row(hash, &key),
            Change::CellGone => self.target.remove_cell(hash, &key),
        }
    }

    fn undeclared(
        &mut self,
        stored_key: &[u8],
        change: Undeclared,
        why: Error,
    ) -> Result<(), Error> {
        match change {
            // Nothing comes that could take it back.
            Undeclared::Held if self.is_last => return Err(why),
            Undeclared::Held => {
                self.undeclared.insert(stored_key.to_vec());
                let place = table_and_index(stored_key).to_vec();
                self.refusals.entry(place).or_insert(why);
            }
            Undeclared::Gone => drop(self.undeclared.remove(stored_key)),
            Undeclared::CellGone => {
                let end = cell_end(stored_key);
                let cell = (Bound::Included(stored_key), Bound::Excluded(&end[..]));
                let gone: Vec<_> = self.undeclared.range::<[u8], _>(cell).cloned().collect();
                for key in &gone {
                    self.undeclared.remove(key);
                }
            }
        }
        Ok(())
    }
}

fn table_and_index(stored_key: &[u8]) -> &[u8] {
    &stored_key[size_of::<u16>()..size_of::<u16>() + 3]
}
