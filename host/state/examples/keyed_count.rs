//! What state costs a keyed count: ns a record to intern a batch, read and write the counts of its
//! keys, and apply, beside the oracle and beside a plain hash map of keys and values.
//!
//! `cargo run --release -p weir-state --example keyed_count [alone] [KEYS...]`; `alone` leaves the
//! others out.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use weir_state::hash::{group_range, key_hash};
use weir_state::{
    Cells, Column, KeyDictionary, KeyedState, Memory, Nullable, Oracle, Progress, Schema,
    StateKind, StateSpec,
};

const BATCH: usize = 1_024;
/// Batches that are counted.
const TURNS: usize = 2_000;
const MAX_PARALLELISM: u16 = 128;

fn main() {
    let (alone, sizes): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|word| word == "alone");
    let mut sizes: Vec<u64> = sizes
        .iter()
        .map(|size| size.parse().expect("numbers of keys"))
        .collect();
    if sizes.is_empty() {
        sizes = vec![10_000, 1_000_000];
    }
    for keys in sizes {
        let batches = batches(keys);
        println!("{keys} keys, batches of {BATCH}, ns a record");
        let mut memory = Memory::new(
            schema(),
            group_range(0, 1, MAX_PARALLELISM),
            MAX_PARALLELISM,
        );
        report("memory", &mut memory, &mut all_keys(keys), &batches, TURNS);
        snapshots(&mut memory, &batches);
        report(
            "noted",
            &mut memory,
            &mut std::iter::empty(),
            &batches,
            TURNS,
        );
        if !alone.is_empty() {
            continue;
        }
        let mut oracle = Oracle::new(
            schema(),
            group_range(0, 1, MAX_PARALLELISM),
            MAX_PARALLELISM,
        );
        report(
            "oracle",
            &mut oracle,
            &mut all_keys(keys),
            &batches,
            TURNS / 20,
        );
        println!(
            "  {:8} {:6.1}",
            "hash map",
            hash_map(&mut all_keys(keys), &batches)
        );
    }
}

fn schema() -> Schema {
    Schema {
        states: vec![StateSpec {
            name: "count".into(),
            kind: StateKind::Value,
            version: 1,
            ttl: None,
        }],
        timers: Vec::new(),
    }
}

struct Batch {
    keys: Column,
    hashes: Vec<u64>,
}

fn batch(ids: impl Iterator<Item = u64>) -> Batch {
    let keys: Column = ids.map(|id| format!("user-{id:07}")).collect();
    let hashes = keys.iter().map(key_hash).collect();
    Batch { keys, hashes }
}

fn batches(keys: u64) -> Vec<Batch> {
    let mut seed = 4_711u64;
    let mut id = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((u128::from(seed) * u128::from(keys)) >> 64) as u64
    };
    // Enough to meet every key, and no more: a batch comes from a cache, not from memory.
    let count = (2 * keys as usize / BATCH).clamp(50, TURNS);
    (0..count)
        .map(|_| batch((0..BATCH).map(|_| id())))
        .collect()
}

fn all_keys(keys: u64) -> impl Iterator<Item = Batch> {
    (0..keys)
        .step_by(BATCH)
        .map(move |first| batch(first..keys.min(first + BATCH as u64)))
}

/// Nanoseconds a batch by stage: intern, get, put, apply. Medians count, since others use the
/// machine too.
type Stages = [Vec<f64>; 4];

fn medians(stages: &mut Stages) -> [f64; 4] {
    stages.each_mut().map(|times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2] / BATCH as f64
    })
}

fn count(state: &mut dyn KeyedState, batch: &Batch, buffers: &mut Buffers, stages: &mut Stages) {
    let started = Instant::now();
    state
        .intern(batch.keys.as_ref(), &batch.hashes)
        .expect("all keys are owned");
    state.swap_dictionary(&mut buffers.dictionary);
    state.begin(0);
    let interned = Instant::now();
    let distinct = buffers.dictionary.distinct.len() as u32;
    buffers.cells.clear();
    buffers.cells.extend(0..distinct);
    let at = Cells {
        keys: &buffers.cells,
        namespaces: None,
    };
    let before = state.get(0, at).expect("a value state");
    let read = Instant::now();
    // What the operator does.
    let counts = &mut buffers.counts;
    counts.clear();
    counts.extend(before.iter().map(|count| {
        count.map_or(0, |count| {
            u64::from_le_bytes(count.try_into().expect("a count"))
        })
    }));
    for key in &buffers.dictionary.index {
        counts[*key as usize] += 1;
    }
    buffers.values.clear();
    for count in counts {
        buffers.values.data.extend_from_slice(&count.to_le_bytes());
        buffers
            .values
            .offsets
            .push(buffers.values.data.len() as u32);
    }
    let computed = Instant::now();
    state
        .put(0, at, buffers.values.as_ref())
        .expect("a value state");
    let written = Instant::now();
    state.apply().expect("an open call");
    let applied = Instant::now();
    let times = [
        interned - started,
        read - interned,
        written - computed,
        applied - written,
    ];
    for (stage, time) in stages.iter_mut().zip(times) {
        stage.push(time.as_nanos() as f64);
    }
}

#[derive(Default)]
struct Buffers {
    dictionary: KeyDictionary,
    cells: Vec<u32>,
    counts: Vec<u64>,
    values: Nullable,
}

fn report(
    name: &str,
    state: &mut dyn KeyedState,
    all: &mut dyn Iterator<Item = Batch>,
    batches: &[Batch],
    turns: usize,
) {
    let mut buffers = Buffers::default();
    let mut filled = Stages::default();
    for batch in all {
        count(state, &batch, &mut buffers, &mut filled);
    }
    let mut stages = Stages::default();
    for batch in batches.iter().cycle().take(turns) {
        count(state, batch, &mut buffers, &mut stages);
    }
    let [intern, get, put, apply] = medians(&mut stages);
    print!(
        "  {name:8} {:6.1}  intern {intern:.1}, get {get:.1}, put {put:.1}, apply {apply:.1}",
        intern + get + put + apply,
    );
    if filled[0].is_empty() {
        println!();
    } else {
        let new = medians(&mut filled).iter().sum::<f64>();
        println!("; a new key {new:.1}");
    }
}

/// Snapshots with calls in between: the barrier's pause, and what the steps add to a record. First
/// in full, then of what changed when only a hundredth of the batches comes in again and again.
fn snapshots(state: &mut dyn KeyedState, batches: &[Batch]) {
    snapshot(state, batches, 1, None);
    let few = &batches[..1 + batches.len() / 100];
    for id in 2..5 {
        let (mut buffers, mut stages) = (Buffers::default(), Stages::default());
        for batch in few {
            count(state, batch, &mut buffers, &mut stages);
        }
        snapshot(state, few, id, Some(id - 1));
    }
}

fn snapshot(state: &mut dyn KeyedState, batches: &[Batch], id: u64, base: Option<u64>) {
    let mut buffers = Buffers::default();
    let mut stages = Stages::default();
    let started = Instant::now();
    state.freeze(id, base);
    let pause = started.elapsed();
    let (mut steps, mut longest, mut spent) = (0usize, Duration::ZERO, Duration::ZERO);
    let snapshot = loop {
        let started = Instant::now();
        let progress = state.advance_snapshot(1_000).expect("it is frozen");
        let step = started.elapsed();
        (longest, spent, steps) = (longest.max(step), spent + step, steps + 1);
        if let Progress::Done(snapshot) = progress {
            break snapshot;
        }
        count(
            state,
            &batches[steps % batches.len()],
            &mut buffers,
            &mut stages,
        );
    };
    count(state, &batches[0], &mut buffers, &mut stages);
    let needs = snapshot.needs().len();
    let started = Instant::now();
    let summary = snapshot
        .write(&mut std::io::sink())
        .expect("a sink takes everything");
    println!(
        "  snapshot of {} rows and {needs} files more: pause {pause:.1?}, {steps} steps, longest \
         {longest:.1?}, {:.1} ns a row; records meanwhile {:.1} ns; written in {:.1} ns a row",
        summary.entries,
        spent.as_nanos() as f64 / summary.entries as f64,
        medians(&mut stages).iter().sum::<f64>(),
        started.elapsed().as_nanos() as f64 / summary.entries as f64,
    );
}

fn hash_map(all: &mut dyn Iterator<Item = Batch>, batches: &[Batch]) -> f64 {
    let mut map: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    for batch in all {
        map.extend(batch.keys.iter().map(|key| (key.to_vec(), vec![0; 8])));
    }
    let mut times = Stages::default();
    for batch in batches.iter().cycle().take(TURNS) {
        let started = Instant::now();
        for key in batch.keys.iter() {
            let value = map.get_mut(key).expect("all keys are there");
            let count = u64::from_le_bytes(value[..].try_into().expect("a count")) + 1;
            value.copy_from_slice(&count.to_le_bytes());
        }
        let time = started.elapsed().as_nanos() as f64;
        times.iter_mut().for_each(|stage| stage.push(time));
    }
    black_box(&map);
    medians(&mut times)[0]
}
