//! Random operations on a job of one to five subtasks, against the model.

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

use super::model::{Cell, Model, Timer, in_range};
use super::*;

const KEYS: [&[u8]; 7] = [b"", b"\0", b"a", b"a\0", b"a\0\x01", b"b", b"\xFF"];
const NAMES: [&[u8]; 5] = [b"", b"\0", b"m", b"m\0", b"\xFF"];

/// A row of an operation, with all that any operation may need of it.
#[derive(Clone, Debug)]
struct Row {
    key: usize,
    namespace: usize,
    name: usize,
    end: Option<usize>,
    value: Option<u8>,
    time: i64,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Read,
    Write,
    Scan { descending: bool, limit: u32 },
    ClearRange,
    Clear,
    Touch,
    Set,
    Cancel,
}

#[derive(Clone, Debug)]
struct Op {
    what: What,
    /// A state or a timer.
    target: u32,
    namespaced: bool,
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
enum Step {
    Call {
        keys: Vec<usize>,
        ops: Vec<Op>,
        apply: bool,
        passes: i64,
    },
    /// The reactions, in turn, are what firings do; `false` discards instead, once.
    Advance {
        domain: TimeDomain,
        by: i64,
        limits: Vec<usize>,
        reactions: Vec<(Op, bool)>,
        stop_after: Option<usize>,
    },
    Rescale {
        parallelism: u16,
    },
}

fn row() -> impl Strategy<Value = Row> {
    let range = (0..NAMES.len(), prop::option::of(0..NAMES.len()));
    (
        0..KEYS.len(),
        0..NAMES.len(),
        range,
        prop::option::weighted(0.8, any::<u8>()),
        -5i64..40,
    )
        .prop_map(|(key, namespace, (name, end), value, time)| Row {
            key,
            namespace,
            name,
            end,
            value,
            time,
        })
}

fn op() -> impl Strategy<Value = Op> {
    let what = prop_oneof![
        3 => Just(What::Read),
        6 => Just(What::Write),
        3 => (any::<bool>(), 0..4u32)
            .prop_map(|(descending, limit)| What::Scan { descending, limit }),
        1 => Just(What::ClearRange),
        1 => Just(What::Clear),
        2 => Just(What::Touch),
        4 => Just(What::Set),
        2 => Just(What::Cancel),
    ];
    (
        what,
        any::<u32>(),
        any::<bool>(),
        prop::collection::vec(row(), 0..6),
    )
        .prop_map(|(what, target, namespaced, rows)| {
            let entries = [ENTRIES, BRIEF_ENTRIES];
            let target = match what {
                What::Set | What::Cancel => target % 3,
                What::Scan { .. } | What::ClearRange => entries[target as usize % 2],
                _ => target % 7,
            };
            Op {
                what,
                target,
                namespaced,
                rows,
            }
        })
}

fn step() -> impl Strategy<Value = Step> {
    let call = (
        prop::collection::vec(0..KEYS.len(), 1..10),
        prop::collection::vec(op(), 0..8),
        prop::bool::weighted(0.8),
        0..60i64,
    )
        .prop_map(|(keys, ops, apply, passes)| Step::Call {
            keys,
            ops,
            apply,
            passes,
        });
    let domain = prop_oneof![Just(TimeDomain::Event), Just(TimeDomain::Processing)];
    let reactions = prop::collection::vec((op(), prop::bool::weighted(0.8)), 0..12);
    let advance = (
        domain,
        0..15i64,
        prop::collection::vec(1..5usize, 1..4),
        reactions,
        prop::option::weighted(0.2, 0..4usize),
    )
        .prop_map(
            |(domain, by, limits, reactions, stop_after)| Step::Advance {
                domain,
                by,
                limits,
                reactions,
                stop_after,
            },
        );
    let rescale = (1..6u16).prop_map(|parallelism| Step::Rescale { parallelism });
    prop_oneof![6 => call, 3 => advance, 1 => rescale]
}

struct Job<'a> {
    make: &'a Make,
    model: Model,
    instances: Vec<(GroupRange, Box<dyn KeyedState>)>,
    clocks: [i64; 2],
}

pub(crate) fn agrees_with_a_naive_model(make: &Make) {
    let config = ProptestConfig {
        cases: 400,
        rng_seed: RngSeed::Fixed(4711),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let result = TestRunner::new(config).run(&prop::collection::vec(step(), 1..25), |steps| {
        let mut job = Job {
            make,
            model: Model::new(schema(), MAX_PARALLELISM),
            instances: Vec::new(),
            clocks: [0; 2],
        };
        job.rescale(2);
        for step in steps {
            job.step(step);
        }
        job.compare();
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

impl Job<'_> {
    fn step(&mut self, step: Step) {
        match step {
            Step::Call {
                keys,
                ops,
                apply,
                passes,
            } => {
                self.model.now += passes;
                self.call(&keys, &ops, apply);
            }
            Step::Advance {
                domain,
                by,
                limits,
                reactions,
                stop_after,
            } => {
                self.clocks[domain as usize] += by;
                let until = self.clocks[domain as usize];
                self.advance(domain, until, &limits, &reactions, stop_after);
                if stop_after.is_some() {
                    // A barrier between two firings; the advance goes on in other instances.
                    self.rescale(self.instances.len() as u16 % 3 + 1);
                    self.advance(domain, until, &limits, &[], None);
                }
            }
            Step::Rescale { parallelism } => self.rescale(parallelism),
        }
    }

    fn call(&mut self, keys: &[usize], ops: &[Op], apply: bool) {
        for (range, state) in &mut self.instances {
            let batch: Vec<&[u8]> = keys
                .iter()
                .map(|key| KEYS[*key])
                .filter(|key| self.model.owns(*range, key))
                .collect();
            let hashes: Vec<u64> = batch.iter().map(|key| key_hash(key)).collect();
            state
                .intern(batch.iter().collect::<Column>().as_ref(), &hashes)
                .unwrap();
            state.begin(self.model.now);
            let before = self.model.clone();
            for op in ops {
                run(&mut self.model, state.as_mut(), op, &[], 0);
            }
            if apply {
                state.apply().unwrap();
            } else {
                state.discard();
                self.model = before;
            }
        }
    }

    fn advance(
        &mut self,
        domain: TimeDomain,
        until: i64,
        limits: &[usize],
        reactions: &[(Op, bool)],
        stop_after: Option<usize>,
    ) {
        for (range, state) in &mut self.instances {
            state.begin_advance(domain, until);
            self.model.release(domain, *range, |over| over < until);
            let mut reactions = reactions.iter();
            for turn in 0.. {
                assert_eq!(
                    state.next_timer(domain),
                    self.model.next_timer(domain, *range)
                );
                if stop_after == Some(turn) {
                    break;
                }
                let limit = limits[turn % limits.len()];
                let expected = self.model.due(domain, until, *range, limit);
                let Some(firing) = state.pop_due(limit).unwrap() else {
                    assert_eq!(expected, [], "an advance ended early");
                    break;
                };
                let rows = (0..firing.len()).map(|row| Timer {
                    time: firing.times[row],
                    hash: firing.hashes[row],
                    key: firing.keys.get(row).to_vec(),
                    timer: firing.timers[row],
                    namespace: firing.namespaces.get(row).to_vec(),
                });
                assert_eq!(rows.collect::<Vec<_>>(), expected);

                state.begin(self.model.now);
                let before = self.model.clone();
                expected.iter().for_each(|timer| self.model.cancel(timer));
                let (op, apply) = reactions
                    .next()
                    .map_or((None, true), |(op, apply)| (Some(op), *apply));
                if let Some(op) = op {
                    run(&mut self.model, state.as_mut(), op, &expected, until);
                }
                if apply {
                    state.apply().unwrap();
                } else {
                    state.discard();
                    self.model = before;
                }
            }
            if stop_after.is_none() {
                state.end_advance();
                self.model.release(domain, *range, |over| over <= until);
            }
        }
    }

    fn rescale(&mut self, parallelism: u16) {
        let mut files = Vec::new();
        for (_, state) in &mut self.instances {
            let mut file = Vec::new();
            state.snapshot().write(&mut file).unwrap();
            files.push(file);
        }
        self.instances.clear();
        for subtask in 0..parallelism {
            let range = group_range(subtask, parallelism, MAX_PARALLELISM);
            let mut state = (self.make)(schema(), range, MAX_PARALLELISM);
            for file in &files {
                state.restore(&mut file.as_slice(), "a file").unwrap();
            }
            self.instances.push((range, state));
        }
        self.compare();
    }

    /// Compares all that a call can see.
    fn compare(&mut self) {
        let timers: u64 = self
            .instances
            .iter()
            .map(|(_, state)| state.stats().timers)
            .sum();
        assert_eq!(timers, self.model.timer_count());
        let rows: Vec<Row> = (0..KEYS.len())
            .flat_map(|key| (0..NAMES.len()).map(move |namespace| (key, namespace)))
            .map(|(key, namespace)| Row {
                key,
                namespace,
                name: 0,
                end: None,
                value: None,
                time: 0,
            })
            .collect();
        let ops: Vec<Op> = (0..7)
            .flat_map(|target| [false, true].map(|namespaced| (target, namespaced)))
            .map(|(target, namespaced)| {
                let entries = self.model.kind(target) == StateKind::Entries;
                let what = if entries {
                    What::Scan {
                        descending: false,
                        limit: 99,
                    }
                } else {
                    What::Read
                };
                Op {
                    what,
                    target,
                    namespaced,
                    rows: rows.clone(),
                }
            })
            .collect();
        let keys: Vec<usize> = (0..KEYS.len()).collect();
        self.call(&keys, &ops, false);
    }
}

/// Runs an operation on one instance and on the model and compares what they answer. Rows of keys
/// that the call does not have are left out.
fn run(model: &mut Model, state: &mut dyn KeyedState, op: &Op, firing: &[Timer], until: i64) {
    let distinct: Vec<Vec<u8>> = state.distinct().iter().map(<[u8]>::to_vec).collect();
    let index = |row: &&Row| {
        distinct
            .iter()
            .position(|key| key == KEYS[row.key])
            .map(|index| index as u32)
    };
    let rows: Vec<&Row> = op.rows.iter().filter(|row| index(row).is_some()).collect();
    let keys: Vec<u32> = rows.iter().filter_map(index).collect();
    let spaces: Column = rows.iter().map(|row| NAMES[row.namespace]).collect();
    let at = Cells {
        keys: &keys,
        namespaces: op.namespaced.then(|| spaces.as_ref()),
    };
    let cell = |row: &Row| -> Cell {
        (
            op.target,
            KEYS[row.key].to_vec(),
            op.namespaced
                .then(|| NAMES[row.namespace].to_vec())
                .filter(|namespace| !namespace.is_empty()),
        )
    };
    let names: Column = rows.iter().map(|row| NAMES[row.name]).collect();
    let ends: Nullable = rows
        .iter()
        .map(|row| row.end.map(|end| NAMES[end]))
        .collect();
    let starts: Nullable = rows
        .iter()
        .map(|row| (row.name > 0).then(|| NAMES[row.name]))
        .collect();
    let values: Nullable = rows
        .iter()
        .map(|row| row.value.map(|value| vec![value; usize::from(value % 4)]))
        .collect();
    let target = op.target;
    match op.what {
        What::Read => match model.kind(target) {
            StateKind::Value => {
                let expected: Nullable =
                    rows.iter().map(|row| model.get(&cell(row), b"")).collect();
                assert_eq!(state.get(target, at).unwrap(), expected);
            }
            StateKind::Items => {
                let mut expected = crate::ItemLists::default();
                for row in &rows {
                    model
                        .contents(&cell(row))
                        .iter()
                        .for_each(|(_, item)| expected.items.push(item));
                    expected.ends.push(expected.items.len() as u32);
                }
                assert_eq!(state.get_items(target, at).unwrap(), expected);
            }
            StateKind::Entries => {
                let expected: Nullable = rows
                    .iter()
                    .map(|row| model.get(&cell(row), NAMES[row.name]))
                    .collect();
                assert_eq!(
                    state.get_entries(target, at, names.as_ref()).unwrap(),
                    expected
                );
            }
        },
        What::Write => match model.kind(target) {
            StateKind::Value => {
                state.put(target, at, values.as_ref()).unwrap();
                rows.iter()
                    .zip(values.iter())
                    .for_each(|(row, value)| model.put(cell(row), b"", value));
            }
            StateKind::Items => {
                let items: Column = values.iter().map(Option::unwrap_or_default).collect();
                state.append(target, at, items.as_ref()).unwrap();
                rows.iter()
                    .zip(items.iter())
                    .for_each(|(row, item)| model.append(cell(row), item));
            }
            StateKind::Entries => {
                state
                    .put_entries(target, at, names.as_ref(), values.as_ref())
                    .unwrap();
                rows.iter()
                    .zip(values.iter())
                    .for_each(|(row, value)| model.put(cell(row), NAMES[row.name], value));
            }
        },
        What::Scan { descending, limit } => {
            let mut expected = crate::Page::default();
            for (index, row) in rows.iter().enumerate() {
                let mut entries = model.contents(&cell(row));
                entries.retain(|(name, _)| in_range(name, (starts.get(index), ends.get(index))));
                if descending {
                    entries.reverse();
                }
                expected.more.push(u8::from(entries.len() > limit as usize));
                for (name, value) in entries.iter().take(limit as usize) {
                    expected.names.push(name);
                    expected.values.push(value);
                }
                expected.ends.push(expected.names.len() as u32);
            }
            assert_eq!(
                state
                    .scan(
                        target,
                        at,
                        starts.as_ref(),
                        ends.as_ref(),
                        descending,
                        limit
                    )
                    .unwrap(),
                expected
            );
        }
        What::ClearRange => {
            state
                .clear_entries(target, at, starts.as_ref(), ends.as_ref())
                .unwrap();
            for (index, row) in rows.iter().enumerate() {
                model.clear(&cell(row), (starts.get(index), ends.get(index)));
            }
        }
        What::Clear => {
            state.clear(target, at).unwrap();
            rows.iter()
                .for_each(|row| model.clear(&cell(row), (None, None)));
        }
        What::Touch => {
            state.touch(target, at).unwrap();
            rows.iter().for_each(|row| model.touch(&cell(row)));
        }
        What::Set | What::Cancel => {
            // A time near that of the firing, if there is one.
            let fired: Vec<Option<&Timer>> = rows
                .iter()
                .map(|row| firing.iter().find(|fired| fired.key == KEYS[row.key]))
                .collect();
            let times: Vec<i64> = rows
                .iter()
                .zip(&fired)
                .map(|(row, fired)| fired.map_or(row.time, |fired| fired.time + row.time % 6))
                .collect();
            match op.what {
                What::Set => state.set_timers(target, at, &times).unwrap(),
                _ => state.cancel_timers(target, at, &times).unwrap(),
            }
            for ((row, time), fired) in rows.iter().zip(times).zip(fired) {
                let namespace = if op.namespaced {
                    NAMES[row.namespace]
                } else {
                    b""
                };
                let key = KEYS[row.key].to_vec();
                let timer = Timer {
                    time,
                    hash: key_hash(&key),
                    key,
                    timer: target,
                    namespace: namespace.to_vec(),
                };
                match op.what {
                    What::Set => model.set(timer, fired.map(|fired| (fired, until))),
                    _ => model.cancel(&timer),
                }
            }
        }
    }
}
