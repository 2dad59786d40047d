//! Keyed state in memory, at the speed of memory.
//!
//! A key is *interned*: its group's [`directory`] leads from the carried hash to the number of a
//! [`slot`], a cache line with the key, its first value and the index of the key in the current
//! call. Interning a batch therefore builds its dictionary on the way, with one probe a row and the
//! lines of the next rows under way ([`interned`]); reads and writes of the call then go from index
//! to slot and probe nothing. What few keys have, or what is large, lies in the key's [`annex`]:
//! long keys and values, cells with a namespace or of further states, timers. Stored keys exist only
//! in snapshots.
//!
//! An open call's writes are logged as they came ([`overlay`]) and made real at its end. Slots that
//! hold nothing then are freed when the next keys are interned.
//!
//! A barrier moves a stamp on and stops nothing. A cursor then copies what it has frozen, a step
//! after each batch ([`capture`]), and a write that comes first copies the old row itself
//! ([`keeper`]). What changed since a barrier is noted by key group ([`dirty`]), and the next
//! snapshot holds just that of most groups ([`rotation`]).
//!
//! Timers lie with their key; a [`queue`] of hints says when to look ([`timers`]).

mod annex;
mod annexes;
mod bytes;
mod capture;
mod cells;
mod cursor;
mod directory;
mod dirty;
mod entries;
mod interned;
mod items;
mod keeper;
mod overlay;
mod prefetch;
mod queue;
mod restore;
mod rotation;
mod slot;
mod sorted;
mod store;
#[cfg(test)]
mod tests;
mod timer_key;
mod timer_map;
mod timers;
mod values;

use std::collections::BTreeSet;

use annex::cell_key;
use interned::Interned;
use overlay::{Overlay, Pending};
use queue::Queue;
use store::Store;
use timers::Popped;

use crate::keyed_state::{
    CALL_BUDGET, Cells, Firing, ItemLists, KeyDictionary, KeyedState, Page, Progress, Stats,
};
use crate::{
    ColumnRef, Error, GroupRange, Nullable, NullableRef, RestoreFile, RestoreSummary, Schema,
    StateKind, TimeDomain,
};

/// Rows that the sweep visits after a call, beyond two for each that it wrote; so the sweep
/// overtakes any growth.
const SWEEP: usize = 32;

/// Keyed state over interned slots: the implementation that jobs run on.
#[derive(Debug)]
pub struct Memory {
    schema: Schema,
    /// Of each declared timer.
    domains: Vec<TimeDomain>,
    max_parallelism: u16,
    store: Store,
    /// Event time, processing time.
    queues: [Queue; 2],
    advance: Option<(TimeDomain, i64)>,
    /// Groups that a file was restored into.
    restored: BTreeSet<u16>,
    /// Whether any row may expire at all.
    expires: bool,
    /// About the bytes of a value in a slot.
    first_size: usize,

    keys: Interned,
    /// The timers that the current keys were popped for, until that call is over.
    popped: Option<Popped>,
    open: bool,
    processing_time: i64,
    overlay: Overlay,
}

impl Memory {
    /// Empty state of the subtask that owns `range`.
    ///
    /// # Panics
    /// If the schema has more than 65,536 states or timers, or the range reaches beyond
    /// `max_parallelism`.
    pub fn new(schema: Schema, range: GroupRange, max_parallelism: u16) -> Memory {
        let most = usize::from(u16::MAX) + 1;
        assert!(
            schema.states.len() <= most && schema.timers.len() <= most,
            "at most {most} states and timers"
        );
        assert!(
            range.end <= max_parallelism,
            "{range:?} of {max_parallelism} key groups"
        );
        let first = schema
            .states
            .iter()
            .position(|state| state.kind == StateKind::Value)
            .map(|state| state as u16);
        Memory {
            domains: schema.timers.iter().map(|timer| timer.domain).collect(),
            schema,
            max_parallelism,
            store: Store::new(range, max_parallelism, first),
            queues: Default::default(),
            advance: None,
            restored: BTreeSet::new(),
            expires: false,
            first_size: 0,
            keys: Interned::default(),
            popped: None,
            open: false,
            processing_time: i64::MIN,
            overlay: Overlay::default(),
        }
    }

    /// Whether the open call sees a row with this expiry.
    #[inline]
    fn is_live(&self, expiry: Option<i64>) -> bool {
        expiry.is_none_or(|expiry| self.processing_time < expiry)
    }

    /// Checks an operation on a state of a kind and returns its index.
    fn target(&self, state: u32, kind: StateKind, at: Cells<'_>) -> Result<u16, Error> {
        match self.schema.states.get(state as usize) {
            Some(spec) if spec.kind == kind => {
                self.check_cells(at)?;
                Ok(state as u16)
            }
            _ => Err(Error::NoSuchState {
                state,
                kind: kind.as_str(),
            }),
        }
    }

    fn check_cells(&self, at: Cells<'_>) -> Result<(), Error> {
        if !self.open {
            return Err(Error::Misuse("state or timers used outside of a call"));
        }
        let distinct = self.keys.slots.len();
        // The largest first, which is many at a time.
        if at
            .keys
            .iter()
            .max()
            .is_some_and(|index| *index as usize >= distinct)
            && let Some(&index) = at.keys.iter().find(|index| **index as usize >= distinct)
        {
            return Err(Error::KeyIndex { index, distinct });
        }
        at.namespaces.map_or(Ok(()), |namespaces| {
            at.check_rows("namespaces", namespaces.len())
        })
    }

    fn clear_cells(&mut self, state: u32, at: Cells<'_>) -> Result<(), Error> {
        let Some(spec) = self.schema.states.get(state as usize) else {
            return Err(Error::NoSuchState { state, kind: "any" });
        };
        let kind = spec.kind;
        let state = self.target(state, kind, at)?;
        self.overlay.spend(at, 0)?;
        if kind == StateKind::Value {
            self.overlay.log(state, at, None);
            return Ok(());
        }
        for (row, &key) in at.keys.iter().enumerate() {
            let cleared = match kind {
                StateKind::Items => Pending::items(true, 0),
                _ => Pending::entries(true),
            };
            let place = (key, cell_key(state, at.namespace(row)));
            self.overlay.cells.insert(place, cleared);
        }
        Ok(())
    }

    fn touch_cells(&mut self, state: u32, at: Cells<'_>) -> Result<(), Error> {
        let Some(spec) = self.schema.states.get(state as usize) else {
            return Err(Error::NoSuchState { state, kind: "any" });
        };
        let ttl = spec.ttl;
        let state = self.target(state, spec.kind, at)?;
        if ttl.is_some_and(|ttl| ttl.renew_on_access) {
            self.overlay.spend(at, 0)?;
            for (row, &key) in at.keys.iter().enumerate() {
                let place = (key, cell_key(state, at.namespace(row)));
                self.overlay.touched.push(place);
            }
        }
        Ok(())
    }

    /// Renews the expiry of the cells that were touched.
    fn apply_touched(&mut self) {
        for (key, cell) in std::mem::take(&mut self.overlay.touched) {
            let id = self.keys.slots[key as usize];
            let (state, namespace) = annex::cell_parts(&cell);
            let Some(ttl) = self.schema.states[usize::from(state)].ttl else {
                continue;
            };
            self.expires = true;
            let (now, new) = (
                self.processing_time,
                expiry(self.processing_time, ttl.millis),
            );
            let renewed = |old: Option<i64>| {
                let worth_it = old.is_none_or(|old| {
                    let gain = i128::from(new) - i128::from(old);
                    now < old && gain > 0 && gain >= i128::from(ttl.millis / 16)
                });
                worth_it.then_some(new)
            };
            if namespace.is_none() && self.store.first == Some(state) {
                self.store.renew_first(id, renewed);
            } else if self.store.annex(id).is_some() {
                self.store.parts(id).renew(&cell, renewed);
            }
        }
    }
}

/// What a row takes of a budget beside its bytes: its offset.
const OFFSET: usize = size_of::<u32>();

/// The bytes that one read may still return.
struct ReadBudget(usize);

impl Default for ReadBudget {
    fn default() -> Self {
        ReadBudget(CALL_BUDGET)
    }
}

impl ReadBudget {
    #[inline]
    fn spend(&mut self, bytes: usize) -> Result<(), Error> {
        let left = self.0.checked_sub(OFFSET + bytes);
        self.0 = left.ok_or(Error::Budget {
            what: "what the call reads at once",
            limit: CALL_BUDGET,
        })?;
        Ok(())
    }
}

fn expiry(processing_time: i64, millis: u64) -> i64 {
    processing_time.saturating_add_unsigned(millis)
}

impl KeyedState for Memory {
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
        self.end_firing();
        self.store.free_idle();
        self.keys
            .build(&mut self.store, self.max_parallelism, keys, hashes)
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

    fn swap_dictionary(&mut self, with: &mut KeyDictionary) {
        std::mem::swap(&mut self.keys.distinct, &mut with.distinct);
        std::mem::swap(&mut self.keys.index, &mut with.index);
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
        self.apply_touched();
        let written = self.apply_values() + self.apply_cells();
        self.overlay.clear();
        if self.expires {
            let now = self.processing_time;
            let steps = SWEEP + 2 * written;
            self.store.sweep(steps, |expiry| expiry <= now);
        }
        Ok(())
    }

    fn discard(&mut self) {
        if self.open {
            self.open = false;
            self.end_firing();
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
        self.change_timers(timer, at, times, true)
    }

    fn cancel_timers(&mut self, timer: u32, at: Cells<'_>, times: &[i64]) -> Result<(), Error> {
        self.change_timers(timer, at, times, false)
    }

    fn next_timer(&self, domain: TimeDomain) -> Option<i64> {
        self.queues[domain as usize].earliest()
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
        self.remove_timers(domain)
    }

    fn freeze(&mut self, id: u64, base: Option<u64>) {
        let (schema, advance) = (self.schema.clone(), self.advance);
        self.store.freeze((id, base), schema, advance);
    }

    fn advance_snapshot(&mut self, budget: usize) -> Result<Progress, Error> {
        let progress = self.store.advance_capture(budget.max(1));
        progress.ok_or(Error::Misuse("advance_snapshot of nothing frozen"))
    }

    fn restore_files(&mut self, files: &mut [RestoreFile<'_>]) -> Result<RestoreSummary, Error> {
        self.read_files(files)
    }

    fn stats(&self) -> Stats {
        let totals = self.store.totals;
        Stats {
            entries: totals.entries,
            timers: totals.timers,
            bytes: totals.bytes,
        }
    }
}
