//! Keyed state over ordered maps of stored keys.
//!
//! A map a key group holds its values, items and entries, a map a time domain its timers. Both are
//! shared with snapshots and copied when they are written to while a snapshot still holds them. So
//! freezing is cheap, and what it costs later is a copy of each key group that is written to, and
//! of the timers.

mod cells;
mod overlay;
mod restore;
mod sweep;
mod timers;

use std::collections::BTreeSet;
use std::sync::Arc;

use overlay::{Overlay, View};
use sweep::Sweep;

use crate::dictionary::Dictionary;
use crate::hash::key_group;
use crate::keyed_state::{Cells, Firing, ItemLists, KeyedState, Page, Progress, Stats};
use crate::snapshot::{Contents, Header, Rows};
use crate::stored_key::group_of;
use crate::timers::{Chain, TimerKey, Timers};
use crate::{
    ColumnRef, Error, GroupRange, Nullable, NullableRef, RestoreFile, RestoreSummary, Schema,
    Snapshot, TimeDomain,
};

/// The simplest implementation of [`KeyedState`], and the one that others are judged by.
#[derive(Debug)]
pub struct Oracle {
    schema: Schema,
    range: GroupRange,
    max_parallelism: u16,
    /// Values, items and entries, by group of the range.
    rows: Vec<Arc<Rows>>,
    /// Event time, processing time.
    timers: [Arc<Timers>; 2],
    /// Number of rows, and bytes of their keys and values.
    entries: u64,
    bytes: u64,
    sweep: Sweep,
    advance: Option<(TimeDomain, i64)>,
    /// Groups that a file was restored into.
    restored: BTreeSet<u16>,
    /// Shared, not copied, so it is done when it begins.
    frozen: Option<Snapshot>,

    keys: Dictionary,
    /// The timers that the current keys were popped for, until that call is over.
    popped: Option<Popped>,
    open: bool,
    processing_time: i64,
    overlay: Overlay,
}

/// The timers of a firing; row i is key i of the call.
#[derive(Debug)]
struct Popped {
    domain: TimeDomain,
    until: i64,
    timers: Vec<(TimerKey, Option<Chain>)>,
}

impl Oracle {
    /// Empty state of the subtask that owns `range`.
    ///
    /// # Panics
    /// If the schema has more than 65,536 states or timers, or the range reaches beyond
    /// `max_parallelism`.
    pub fn new(schema: Schema, range: GroupRange, max_parallelism: u16) -> Oracle {
        let most = usize::from(u16::MAX) + 1;
        assert!(
            schema.states.len() <= most && schema.timers.len() <= most,
            "at most {most} states and timers"
        );
        assert!(
            range.end <= max_parallelism,
            "{range:?} of {max_parallelism} key groups"
        );
        Oracle {
            schema,
            range,
            max_parallelism,
            rows: (0..range.len()).map(|_| Arc::default()).collect(),
            timers: Default::default(),
            entries: 0,
            bytes: 0,
            sweep: Sweep::default(),
            advance: None,
            restored: BTreeSet::new(),
            frozen: None,
            keys: Dictionary::default(),
            popped: None,
            open: false,
            processing_time: i64::MIN,
            overlay: Overlay::default(),
        }
    }

    fn view(&self, group: u16) -> View<'_> {
        View {
            base: &self.rows[self.slot(group)],
            overlay: &self.overlay.rows,
        }
    }

    /// The position of an owned group in `rows`.
    fn slot(&self, group: u16) -> usize {
        usize::from(group - self.range.start)
    }

    fn insert(&mut self, key: Vec<u8>, value: Vec<u8>) {
        let slot = self.slot(group_of(&key));
        let (key_len, value_len) = (key.len() as u64, value.len() as u64);
        self.bytes += value_len;
        match Arc::make_mut(&mut self.rows[slot]).insert(key, value) {
            Some(old) => self.bytes -= old.len() as u64,
            None => {
                self.entries += 1;
                self.bytes += key_len;
            }
        }
    }

    fn remove(&mut self, key: &[u8]) {
        let slot = self.slot(group_of(key));
        // A look first: what is not there must not make a shared map be copied.
        if self.rows[slot].contains_key(key)
            && let Some(old) = Arc::make_mut(&mut self.rows[slot]).remove(key)
        {
            self.entries -= 1;
            self.bytes -= (key.len() + old.len()) as u64;
        }
    }
}

impl KeyedState for Oracle {
    fn intern(&mut self, keys: ColumnRef<'_>, hashes: &[u64]) -> Result<(), Error> {
        if self.open {
            return Err(Error::Misuse("intern in an open call"));
        }
        if keys.len() != hashes.len() {
            return Err(Error::Shape {
                what: "hashes",
                found: hashes.len(),
                expected: keys.len(),
            });
        }
        self.popped = None;
        self.keys.build(keys, hashes);
        for hash in &self.keys.hashes {
            let group = key_group(*hash, self.max_parallelism);
            if !self.range.contains(group) {
                self.keys.clear();
                return Err(Error::NotOwned {
                    group,
                    start: self.range.start,
                    end: self.range.end,
                });
            }
        }
        Ok(())
    }

    fn distinct(&self) -> ColumnRef<'_> {
        self.keys.distinct.as_ref()
    }

    fn distinct_hashes(&self) -> &[u64] {
        &self.keys.hashes
    }

    fn index(&self) -> &[u32] {
        &self.keys.index
    }

    fn begin(&mut self, processing_time: i64) {
        self.overlay.clear();
        self.open = true;
        self.processing_time = processing_time;
    }

    fn apply(&mut self) -> Result<(), Error> {
        if !self.open {
            return Err(Error::Misuse("apply outside of a call"));
        }
        if let Err(error) = self.check_generations() {
            self.discard();
            return Err(error);
        }
        self.open = false;
        self.apply_timers();
        let rows = std::mem::take(&mut self.overlay.rows);
        let written = rows.len();
        for (key, value) in rows {
            match value {
                Some(value) => self.insert(key, value),
                None => self.remove(&key),
            }
        }
        self.overlay.clear();
        self.sweep(written);
        Ok(())
    }

    fn discard(&mut self) {
        if self.open {
            self.open = false;
            self.popped = None;
            self.overlay.clear();
        }
    }

    fn get(&mut self, state: u32, at: Cells<'_>) -> Result<Nullable, Error> {
        self.read_values(state, at)
    }

    fn put(&mut self, state: u32, at: Cells<'_>, values: NullableRef<'_>) -> Result<(), Error> {
        self.write_values(state, at, values)
    }

    fn append(&mut self, state: u32, at: Cells<'_>, items: ColumnRef<'_>) -> Result<(), Error> {
        self.append_items(state, at, items)
    }

    fn get_items(&mut self, state: u32, at: Cells<'_>) -> Result<ItemLists, Error> {
        self.read_items(state, at)
    }

    fn get_entries(
        &mut self,
        state: u32,
        at: Cells<'_>,
        names: ColumnRef<'_>,
    ) -> Result<Nullable, Error> {
        self.read_entries(state, at, names)
    }

    fn put_entries(
        &mut self,
        state: u32,
        at: Cells<'_>,
        names: ColumnRef<'_>,
        values: NullableRef<'_>,
    ) -> Result<(), Error> {
        self.write_entries(state, at, names, values)
    }

    fn scan(
        &mut self,
        state: u32,
        at: Cells<'_>,
        start: NullableRef<'_>,
        end: NullableRef<'_>,
        descending: bool,
        limit: u32,
    ) -> Result<Page, Error> {
        self.scan_entries(state, at, start, end, descending, limit)
    }

    fn clear_entries(
        &mut self,
        state: u32,
        at: Cells<'_>,
        start: NullableRef<'_>,
        end: NullableRef<'_>,
    ) -> Result<(), Error> {
        self.clear_range(state, at, start, end)
    }

    fn clear(&mut self, state: u32, at: Cells<'_>) -> Result<(), Error> {
        self.clear_cells(state, at)
    }

    fn touch(&mut self, state: u32, at: Cells<'_>) -> Result<(), Error> {
        self.touch_cells(state, at)
    }

    fn set_timers(&mut self, timer: u32, at: Cells<'_>, times: &[i64]) -> Result<(), Error> {
        self.change_timers(timer, at, times, timers::Change::Set)
    }

    fn cancel_timers(&mut self, timer: u32, at: Cells<'_>, times: &[i64]) -> Result<(), Error> {
        self.change_timers(timer, at, times, timers::Change::Cancel)
    }

    fn next_timer(&self, domain: TimeDomain) -> Option<i64> {
        self.timers[domain as usize].next()
    }

    fn begin_advance(&mut self, domain: TimeDomain, until: i64) {
        self.end_advance();
        self.advance = Some((domain, until));
        // Timers that waited when a snapshot was taken go on waiting if this is still the same
        // advance.
        self.release(domain, |waited_in| waited_in < until);
    }

    fn pop_due(&mut self, limit: usize) -> Result<Option<Firing>, Error> {
        self.pop_timers(limit.max(1))
    }

    fn end_advance(&mut self) {
        if let Some((domain, until)) = self.advance.take() {
            self.release(domain, |waited_in| waited_in <= until);
        }
    }

    fn drop_timers(&mut self, domain: TimeDomain) -> u64 {
        std::mem::take(&mut self.timers[domain as usize]).len()
    }

    /// Always in full, whatever it might be based on.
    fn freeze(&mut self, id: u64, _base: Option<u64>) {
        self.frozen = Some(Snapshot {
            header: Header {
                max_parallelism: self.max_parallelism,
                range: self.range,
                id,
                needs: Vec::new(),
                origins: vec![0; self.range.len()],
                advance: self.advance,
                schema: self.schema.clone(),
            },
            contents: Contents::Maps {
                rows: self.rows.clone(),
                timers: self.timers.clone(),
            },
        });
    }

    fn advance_snapshot(&mut self, _budget: usize) -> Result<Progress, Error> {
        let frozen = self.frozen.take();
        frozen
            .map(Progress::Done)
            .ok_or(Error::Misuse("advance_snapshot of nothing frozen"))
    }

    fn restore_files(&mut self, files: &mut [RestoreFile<'_>]) -> Result<RestoreSummary, Error> {
        self.read_files(files)
    }

    fn stats(&self) -> Stats {
        let of_timers =
            |count: fn(&Timers) -> u64| self.timers.iter().map(|timers| count(timers)).sum::<u64>();
        Stats {
            entries: self.entries,
            timers: of_timers(Timers::len),
            bytes: self.bytes + of_timers(Timers::bytes),
        }
    }
}
