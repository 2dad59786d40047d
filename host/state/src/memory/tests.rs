//! Histories at random against the oracle: the same answers, the same timers, and files that say
//! the same, whatever they build on.

mod incremental;

use std::collections::BTreeMap;

use super::rotation::FILES;
use crate::hash::{group_range, key_hash};
use crate::{
    Cells, Column, Error, Firing, KeyDictionary, KeyedState, Memory, Nullable, Oracle, Progress,
    RestoreFile, RestoreSummary, Schema, Snapshot, StateKind, StateSpec, TimeDomain, TimerSpec,
    Ttl,
};

const MAX_PARALLELISM: u16 = 8;
const KEYS: u64 = 150;
/// Enough to outgrow what a key holds in a vector.
const NAMES: u64 = 70;

fn schema(ttl: Option<Ttl>) -> Schema {
    let kinds = [
        StateKind::Items,
        StateKind::Value,
        StateKind::Entries,
        StateKind::Value,
    ];
    let state = |(number, kind): (usize, StateKind)| StateSpec {
        name: format!("state {number}"),
        kind,
        version: 3,
        ttl: ttl.filter(|_| number != 3),
    };
    let domains = [TimeDomain::Event, TimeDomain::Processing, TimeDomain::Event];
    let timer = |(number, domain): (usize, TimeDomain)| TimerSpec {
        name: format!("timer {number}"),
        domain,
    };
    Schema {
        states: kinds.into_iter().enumerate().map(state).collect(),
        timers: domains.into_iter().enumerate().map(timer).collect(),
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((u128::from(self.0 ^ (self.0 >> 29)).wrapping_mul(u128::from(bound))) >> 64) as u64
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Of many lengths around what lies inside a slot and a short byte string, with zeros in it.
    fn bytes(&mut self, number: u64) -> Vec<u8> {
        let mut bytes = number.to_string().into_bytes();
        bytes.resize(bytes.len() + (number * 7 % 41) as usize, (number % 3) as u8);
        bytes
    }

    /// Some small numbers far more often than others.
    fn skewed(&mut self, bound: u64) -> u64 {
        let bound = if self.one_in(2) {
            bound
        } else {
            1 + bound / 20
        };
        self.below(bound)
    }

    fn column(&mut self, rows: usize, bound: u64) -> Column {
        (0..rows)
            .map(|_| {
                let number = self.skewed(bound);
                self.bytes(number)
            })
            .collect()
    }

    fn nullable(&mut self, rows: usize, bound: u64, nulls: u64) -> Nullable {
        (0..rows)
            .map(|_| {
                let number = self.skewed(bound);
                (!self.one_in(nulls)).then(|| self.bytes(number))
            })
            .collect()
    }

    fn times(&mut self, rows: usize, around: i64) -> Vec<i64> {
        (0..rows)
            .map(|_| match self.below(40) {
                0 => i64::MAX,
                1 => i64::MIN,
                2..10 => around,
                _ => around.saturating_add(self.below(4_000) as i64 - 300),
            })
            .collect()
    }
}

struct Pair {
    memory: Memory,
    oracle: Oracle,
    random: Random,
    ttl: Option<Ttl>,
    now: i64,
    clocks: [i64; 2],
    /// What the snapshot under way must become.
    expected: Option<Vec<u8>>,
    storage: Storage,
    id: u64,
    seen: Seen,
}

/// What was compared.
#[derive(Debug, Default)]
struct Seen {
    snapshots: usize,
    /// Of them those that needed other files.
    incremental: usize,
    restored: usize,
}

/// Files of one instance's snapshots, by id, and what each needs.
#[derive(Debug, Default)]
struct Storage {
    files: BTreeMap<u64, (Vec<u8>, Vec<u64>)>,
    /// The newest that is durable.
    durable: Option<u64>,
}

impl Storage {
    fn put(&mut self, snapshot: Snapshot) -> u64 {
        let (id, needs) = (snapshot.id(), snapshot.needs().to_vec());
        let mut file = Vec::new();
        snapshot.write(&mut file).unwrap();
        self.files.insert(id, (file, needs));
        id
    }

    /// The newest is durable now. What it does not need goes, as it does in a job.
    fn confirm(&mut self, id: u64) {
        let needs = self.files[&id].1.clone();
        self.files
            .retain(|known, _| *known >= id || needs.contains(known));
        self.durable = Some(id);
    }

    /// It never will be.
    fn abort(&mut self, id: u64) {
        self.files.remove(&id);
    }

    fn list(&self, id: u64) -> Vec<Vec<u8>> {
        let ids = self.files[&id].1.iter().chain([&id]);
        ids.map(|id| self.files[id].0.clone()).collect()
    }
}

/// Restores one snapshot.
fn read(state: &mut dyn KeyedState, list: &[Vec<u8>]) -> Result<RestoreSummary, Error> {
    let names: Vec<_> = (0..list.len()).map(|file| format!("file {file}")).collect();
    let mut readers: Vec<_> = list.iter().map(Vec::as_slice).collect();
    let mut files: Vec<_> = readers
        .iter_mut()
        .zip(&names)
        .map(|(reader, name)| RestoreFile { reader, name })
        .collect();
    state.restore_files(&mut files)
}

/// A snapshot that stands alone, with the advance that the instance was restored into.
fn whole_file(state: &mut dyn KeyedState, advance: Option<(TimeDomain, i64)>) -> Vec<u8> {
    if let Some((domain, until)) = advance {
        state.begin_advance(domain, until);
    }
    let mut file = Vec::new();
    state.snapshot().write(&mut file).unwrap();
    file
}

impl Pair {
    fn new(seed: u64, ttl: Option<Ttl>) -> Pair {
        Pair {
            memory: empty_memory(ttl),
            oracle: empty_oracle(ttl),
            random: Random(seed),
            ttl,
            now: 0,
            clocks: [0; 2],
            expected: None,
            storage: Storage::default(),
            id: 0,
            seen: Seen::default(),
        }
    }

    fn step(&mut self) {
        self.now += self.random.below(30) as i64;
        match self.random.below(40) {
            0..6 => self.advance(),
            6 => self.restore(),
            7..16 if self.expected.is_none() => self.freeze(),
            _ => self.call(),
        }
        self.collect();
        let (memory, oracle) = (self.memory.stats(), self.oracle.stats());
        assert_eq!(memory.timers, oracle.timers);
        if self.ttl.is_none() {
            assert_eq!(memory.entries, oracle.entries);
        }
        for domain in [TimeDomain::Event, TimeDomain::Processing] {
            assert_eq!(
                self.memory.next_timer(domain),
                self.oracle.next_timer(domain)
            );
        }
    }

    fn call(&mut self) {
        let rows = 1 + self.random.below(600).min(self.random.below(600)) as usize;
        let keys = self.random.column(rows, KEYS);
        let hashes: Vec<u64> = keys.iter().map(key_hash).collect();
        self.memory.intern(keys.as_ref(), &hashes).unwrap();
        self.oracle.intern(keys.as_ref(), &hashes).unwrap();
        let turns = 1 + self.random.below(2);
        for _ in 0..turns {
            self.same_keys();
            self.begin();
            for _ in 0..self.random.below(6) {
                self.operation(self.clocks[0]);
                if self.random.one_in(80) {
                    self.freeze();
                }
            }
            self.end();
        }
    }

    fn same_keys(&mut self) {
        let mut lent = KeyDictionary::default();
        assert_eq!(self.memory.distinct_hashes(), self.oracle.distinct_hashes());
        if self.random.one_in(2) {
            self.memory.swap_dictionary(&mut lent);
            let mut other = KeyDictionary::default();
            self.oracle.swap_dictionary(&mut other);
            assert_eq!(lent, other);
            // Back again, to be compared in the next turn.
            self.memory.swap_dictionary(&mut lent);
        }
        assert_eq!(self.memory.distinct(), self.oracle.distinct());
        assert_eq!(self.memory.index(), self.oracle.index());
    }

    fn begin(&mut self) {
        self.memory.begin(self.now);
        self.oracle.begin(self.now);
    }

    fn end(&mut self) {
        if self.random.one_in(8) {
            self.memory.discard();
            self.oracle.discard();
        } else {
            self.memory.apply().unwrap();
            self.oracle.apply().unwrap();
        }
    }

    /// Runs one operation on both and compares the answers.
    fn operation(&mut self, around: i64) {
        let random = &mut self.random;
        let rows = random.below(30) as usize;
        let distinct = self.oracle.distinct_hashes().len() as u64;
        let keys: Vec<u32> = (0..rows).map(|_| random.below(distinct) as u32).collect();
        let spaces: Column = (0..rows)
            .map(|_| match random.below(5) {
                0 => Vec::new(),
                number => random.bytes(number * 9),
            })
            .collect();
        let at = Cells {
            keys: &keys,
            namespaces: random.one_in(2).then(|| spaces.as_ref()),
        };
        let names = random.column(rows, NAMES);
        let values = random.nullable(rows, 200, 5);
        let (start, end) = (
            random.nullable(rows, NAMES, 3),
            random.nullable(rows, NAMES, 3),
        );
        let (start, end) = (start.as_ref(), end.as_ref());
        let (items, entries, value) = (0, 2, 1 + 2 * random.below(2) as u32);
        let any = random.below(4) as u32;
        let (limit, descending) = (random.below(40) as u32, random.one_in(2));
        let (timer, times) = (random.below(3) as u32, random.times(rows, around));
        let what = random.below(14);
        let run = |state: &mut dyn KeyedState| {
            let result = match what {
                0 | 1 => state.get(value, at).map(|read| format!("{read:?}")),
                2 | 3 => state
                    .put(value, at, values.as_ref())
                    .map(|()| String::new()),
                4 => state
                    .append(items, at, names.as_ref())
                    .map(|()| String::new()),
                5 => state.get_items(items, at).map(|read| format!("{read:?}")),
                6 => state
                    .get_entries(entries, at, names.as_ref())
                    .map(|read| format!("{read:?}")),
                7 | 8 => state
                    .put_entries(entries, at, names.as_ref(), values.as_ref())
                    .map(|()| String::new()),
                9 => state
                    .scan(entries, at, start, end, descending, limit)
                    .map(|page| format!("{page:?}")),
                10 if descending => state
                    .clear_entries(entries, at, start, end)
                    .map(|()| String::new()),
                10 => state.clear(any, at).map(|()| String::new()),
                11 => state.touch(any, at).map(|()| String::new()),
                12 => state.set_timers(timer, at, &times).map(|()| String::new()),
                _ => state
                    .cancel_timers(timer, at, &times)
                    .map(|()| String::new()),
            };
            result.unwrap()
        };
        assert_eq!(
            run(&mut self.memory),
            run(&mut self.oracle),
            "operation {what}"
        );
    }

    fn advance(&mut self) {
        let domain = if self.random.one_in(2) {
            TimeDomain::Event
        } else {
            TimeDomain::Processing
        };
        let clock = &mut self.clocks[domain as usize];
        *clock += self.random.below(1_500) as i64;
        let until = *clock;
        self.memory.begin_advance(domain, until);
        self.oracle.begin_advance(domain, until);
        loop {
            let limit = 1 + self.random.below(20) as usize;
            let firing: Option<Firing> = self.memory.pop_due(limit).unwrap();
            assert_eq!(firing, self.oracle.pop_due(limit).unwrap());
            let Some(firing) = firing else {
                break;
            };
            self.same_keys();
            if self.random.one_in(20) {
                // A firing that is never begun fires again, after a call or not.
                if self.random.one_in(2) {
                    self.call();
                }
                continue;
            }
            self.begin();
            for _ in 0..self.random.below(3) {
                self.operation(firing.times[0]);
            }
            self.end();
            self.collect();
            if self.random.one_in(80) {
                self.freeze();
            }
        }
        self.memory.end_advance();
        self.oracle.end_advance();
        if self.random.one_in(40) {
            assert_eq!(
                self.memory.drop_timers(domain),
                self.oracle.drop_timers(domain)
            );
        }
    }

    /// What is left of a snapshot under way is given up.
    fn freeze(&mut self) {
        self.id += 1 + self.random.below(3);
        // Now and then in full.
        let base = self.storage.durable.filter(|_| !self.random.one_in(25));
        self.memory.freeze(self.id, base);
        self.expected = Some(whole_file(&mut self.oracle, None));
    }

    /// A step of the snapshot under way.
    fn collect(&mut self) {
        let Some(expected) = &self.expected else {
            assert!(self.memory.advance_snapshot(1).is_err());
            return;
        };
        let budget = 1 + self.random.below(400) as usize;
        let Progress::Done(snapshot) = self.memory.advance_snapshot(budget).unwrap() else {
            return;
        };
        assert!(snapshot.needs().len() < FILES);
        self.seen.snapshots += 1;
        self.seen.incremental += usize::from(!snapshot.needs().is_empty());
        let id = self.storage.put(snapshot);
        let list = self.storage.list(id);
        let mut memory = empty_memory(self.ttl);
        let advance = read(&mut memory, &list).unwrap().advance;
        let mut oracle = empty_oracle(self.ttl);
        read(&mut oracle, &list).unwrap();
        let held = |state: &dyn KeyedState| (state.stats().entries, state.stats().timers);
        assert_eq!(held(&memory), held(&oracle));
        let file = whole_file(&mut memory, advance);
        assert!(file == whole_file(&mut oracle, advance));
        // What has expired may or may not have been cleaned up.
        if self.ttl.is_none() {
            assert!(file == *expected, "frozen, and yet changed");
        }
        if self.random.one_in(3) {
            self.storage.abort(id);
        } else {
            self.storage.confirm(id);
        }
        self.expected = None;
    }

    /// Each goes on from the other's files, at another parallelism in between.
    fn restore(&mut self) {
        self.id += 1;
        self.memory.freeze(self.id, self.storage.durable);
        let Progress::Done(snapshot) = self.memory.advance_snapshot(usize::MAX).unwrap() else {
            panic!("unfinished");
        };
        let id = self.storage.put(snapshot);
        let lists = [
            vec![whole_file(&mut self.oracle, None)],
            self.storage.list(id),
        ];
        let before = self.memory.stats();
        let subtasks = 1 + self.random.below(4) as u16;
        let parts: Vec<_> = (0..subtasks)
            .map(|subtask| {
                let range = group_range(subtask, subtasks, MAX_PARALLELISM);
                let mut part = Memory::new(schema(self.ttl), range, MAX_PARALLELISM);
                read(&mut part, &lists[1]).unwrap();
                whole_file(&mut part, None)
            })
            .collect();
        self.memory = empty_memory(self.ttl);
        self.oracle = empty_oracle(self.ttl);
        if self.random.one_in(2) {
            for part in parts {
                read(&mut self.memory, &[part]).unwrap();
            }
        } else {
            read(&mut self.memory, &lists[0]).unwrap();
        }
        read(&mut self.oracle, &lists[1]).unwrap();
        if self.ttl.is_none() {
            assert_eq!(self.memory.stats(), before);
        }
        self.seen.restored += 1;
        self.expected = None;
        // Snapshots of the instance that is gone are of no use to this one.
        self.storage = Storage {
            durable: self.storage.durable,
            ..Storage::default()
        };
    }
}

fn empty_memory(ttl: Option<Ttl>) -> Memory {
    Memory::new(
        schema(ttl),
        group_range(0, 1, MAX_PARALLELISM),
        MAX_PARALLELISM,
    )
}

fn empty_oracle(ttl: Option<Ttl>) -> Oracle {
    Oracle::new(
        schema(ttl),
        group_range(0, 1, MAX_PARALLELISM),
        MAX_PARALLELISM,
    )
}

fn histories(ttl: Option<Ttl>) {
    let mut all = Seen::default();
    for seed in 0..12 {
        let mut pair = Pair::new(seed, ttl);
        for _ in 0..150 {
            pair.step();
        }
        all.snapshots += pair.seen.snapshots;
        all.incremental += pair.seen.incremental;
        all.restored += pair.seen.restored;
    }
    assert!(
        all.snapshots > 40 && all.incremental > 20 && all.restored > 20,
        "{all:?}"
    );
}

#[test]
fn answers_and_files_are_the_oracle_s() {
    histories(None);
}

#[test]
fn what_expires_is_seen_as_the_oracle_sees_it() {
    histories(Some(Ttl {
        millis: 400,
        renew_on_access: true,
    }));
}
