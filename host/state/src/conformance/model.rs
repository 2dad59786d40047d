//! What the contract says, in the most naive way: one map of cells and one list of timers for the
//! whole job.

use std::collections::BTreeMap;

use crate::hash::{key_group, key_hash};
use crate::{GroupRange, Schema, StateKind, TimeDomain};

type Bytes = Vec<u8>;
/// State, key, namespace.
pub(super) type Cell = (u32, Bytes, Option<Bytes>);

#[derive(Clone, Debug)]
struct Stored {
    bytes: Bytes,
    expiry: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timer {
    pub(super) time: i64,
    pub(super) hash: u64,
    pub(super) key: Bytes,
    pub(super) timer: u32,
    pub(super) namespace: Bytes,
}

#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) schema: Schema,
    pub(super) max_parallelism: u16,
    pub(super) now: i64,
    /// Values under the empty name, entries under theirs, items under their number.
    cells: BTreeMap<Cell, BTreeMap<Bytes, Stored>>,
    items_appended: u64,
    /// With the `until` of the advance whose end it waits for.
    timers: Vec<(Timer, Option<i64>)>,
}

impl Model {
    pub(super) fn new(schema: Schema, max_parallelism: u16) -> Model {
        Model {
            schema,
            max_parallelism,
            now: 0,
            cells: BTreeMap::new(),
            items_appended: 0,
            timers: Vec::new(),
        }
    }

    pub(super) fn owns(&self, range: GroupRange, key: &[u8]) -> bool {
        range.contains(key_group(key_hash(key), self.max_parallelism))
    }

    pub(super) fn put(&mut self, cell: Cell, name: &[u8], value: Option<&[u8]>) {
        let expiry = self.schema.states[cell.0 as usize]
            .ttl
            .map(|ttl| self.now + ttl.millis as i64);
        let contents = self.cells.entry(cell).or_default();
        match value {
            Some(bytes) => drop(contents.insert(
                name.to_vec(),
                Stored {
                    bytes: bytes.to_vec(),
                    expiry,
                },
            )),
            None => drop(contents.remove(name)),
        }
    }

    pub(super) fn append(&mut self, cell: Cell, item: &[u8]) {
        self.items_appended += 1;
        let number = self.items_appended.to_be_bytes();
        self.put(cell, &number, Some(item));
    }

    /// All that a call sees in a cell, by name.
    pub(super) fn contents(&self, cell: &Cell) -> Vec<(Bytes, Bytes)> {
        let live = |stored: &&Stored| stored.expiry.is_none_or(|expiry| self.now < expiry);
        let contents = self.cells.get(cell).into_iter().flatten();
        contents
            .filter(|(_, stored)| live(stored))
            .map(|(name, stored)| (name.clone(), stored.bytes.clone()))
            .collect()
    }

    pub(super) fn get(&self, cell: &Cell, name: &[u8]) -> Option<Bytes> {
        self.contents(cell)
            .into_iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)
    }

    pub(super) fn clear(&mut self, cell: &Cell, range: (Option<&[u8]>, Option<&[u8]>)) {
        if let Some(contents) = self.cells.get_mut(cell) {
            contents.retain(|name, _| !in_range(name, range));
        }
    }

    pub(super) fn touch(&mut self, cell: &Cell) {
        let now = self.now;
        let Some(ttl) = self.schema.states[cell.0 as usize]
            .ttl
            .filter(|ttl| ttl.renew_on_access)
        else {
            return;
        };
        for stored in self
            .cells
            .get_mut(cell)
            .into_iter()
            .flat_map(|contents| contents.values_mut())
        {
            let Some(expiry) = stored.expiry else {
                continue;
            };
            let renewed = now + ttl.millis as i64;
            if now < expiry && renewed - expiry >= (ttl.millis / 16) as i64 {
                stored.expiry = Some(renewed);
            }
        }
    }

    fn domain(&self, timer: u32) -> TimeDomain {
        self.schema.timers[timer as usize].domain
    }

    /// `fired` is the timer that the key's call fired for and its advance's `until`.
    pub(super) fn set(&mut self, timer: Timer, fired: Option<(&Timer, i64)>) {
        if self.timers.iter().any(|(known, _)| *known == timer) {
            return;
        }
        let waits = fired.filter(|(fired, until)| {
            self.domain(fired.timer) == self.domain(timer.timer)
                && timer.time <= *until
                && timer.time <= fired.time
        });
        self.timers.push((timer, waits.map(|(_, until)| until)));
    }

    pub(super) fn cancel(&mut self, timer: &Timer) {
        self.timers.retain(|(known, _)| known != timer);
    }

    pub(super) fn due(
        &self,
        domain: TimeDomain,
        until: i64,
        range: GroupRange,
        limit: usize,
    ) -> Vec<Timer> {
        let due = |(timer, waits): &&(Timer, Option<i64>)| {
            self.domain(timer.timer) == domain
                && timer.time <= until
                && waits.is_none()
                && self.owns(range, &timer.key)
        };
        let mut due: Vec<Timer> = self
            .timers
            .iter()
            .filter(due)
            .map(|(timer, _)| timer.clone())
            .collect();
        due.sort();
        let repeats = (0..due.len()).find(|row| {
            due[..*row]
                .iter()
                .any(|earlier| earlier.key == due[*row].key)
        });
        due.truncate(repeats.unwrap_or(due.len()).min(limit));
        due
    }

    /// Ends the wait of timers whose advance is over.
    pub(super) fn release(
        &mut self,
        domain: TimeDomain,
        range: GroupRange,
        over: impl Fn(i64) -> bool,
    ) {
        for index in 0..self.timers.len() {
            let (timer, waits) = &self.timers[index];
            if self.domain(timer.timer) == domain
                && self.owns(range, &timer.key)
                && waits.is_some_and(&over)
            {
                self.timers[index].1 = None;
            }
        }
    }

    pub(super) fn next_timer(&self, domain: TimeDomain, range: GroupRange) -> Option<i64> {
        let of_range = |(timer, _): &&(Timer, Option<i64>)| {
            self.domain(timer.timer) == domain && self.owns(range, &timer.key)
        };
        self.timers
            .iter()
            .filter(of_range)
            .map(|(timer, _)| timer.time)
            .min()
    }

    pub(super) fn timer_count(&self) -> u64 {
        self.timers.len() as u64
    }

    pub(super) fn kind(&self, state: u32) -> StateKind {
        self.schema.states[state as usize].kind
    }
}

pub(super) fn in_range(name: &[u8], (start, end): (Option<&[u8]>, Option<&[u8]>)) -> bool {
    start.is_none_or(|start| start <= name) && end.is_none_or(|end| name < end)
}
