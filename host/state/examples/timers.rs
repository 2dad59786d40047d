//! What timers cost: ns to register one under each key and to fire it, without a namespace and with
//! that of a window.
//!
//! `cargo run --release -p weir-state --example timers [KEYS...]`

use std::time::Instant;

use weir_state::hash::{group_range, key_hash};
use weir_state::{
    Cells, Column, KeyedState, Memory, Nullable, Schema, StateKind, StateSpec, TimeDomain,
    TimerSpec,
};

const BATCH: u64 = 1_024;
const MAX_PARALLELISM: u16 = 128;

fn main() {
    let sizes = std::env::args().skip(1);
    let mut sizes: Vec<u64> = sizes
        .map(|size| size.parse().expect("numbers of keys"))
        .collect();
    if sizes.is_empty() {
        sizes = vec![10_000, 1_000_000];
    }
    for keys in sizes {
        println!("{keys} keys, a timer each, batches of {BATCH}, ns a timer");
        let (mut state, batches) = filled(keys);
        measure("plain", &mut state, &batches, false);
        measure("window", &mut state, &batches, true);
    }
}

struct Batch {
    keys: Column,
    hashes: Vec<u64>,
    cells: Vec<u32>,
    /// In the next ten seconds.
    times: Vec<i64>,
    /// The windows that they close.
    spaces: Column,
}

/// An instance with a count under each key, and the keys in no order.
fn filled(keys: u64) -> (Memory, Vec<Batch>) {
    let mut ids: Vec<u64> = (0..keys).collect();
    let mut seed = 4_711u64;
    for place in (1..ids.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ids.swap(place, ((u128::from(seed) * place as u128) >> 64) as usize);
    }
    let schema = Schema {
        states: vec![StateSpec {
            name: "count".into(),
            kind: StateKind::Value,
            version: 1,
            ttl: None,
        }],
        timers: vec![TimerSpec {
            name: "window".into(),
            domain: TimeDomain::Event,
        }],
    };
    let range = group_range(0, 1, MAX_PARALLELISM);
    let mut state = Memory::new(schema, range, MAX_PARALLELISM);
    let batch = |ids: &[u64]| {
        let keys: Column = ids.iter().map(|id| format!("user-{id:07}")).collect();
        let hashes: Vec<u64> = keys.iter().map(key_hash).collect();
        let times = hashes.iter().map(|hash| (hash % 10_000) as i64);
        Batch {
            cells: (0..ids.len() as u32).collect(),
            spaces: times.clone().map(i64::to_be_bytes).collect(),
            times: times.collect(),
            keys,
            hashes,
        }
    };
    let batches: Vec<Batch> = ids.chunks(BATCH as usize).map(batch).collect();
    for batch in &batches {
        open(&mut state, batch);
        let ones: Nullable = batch
            .cells
            .iter()
            .map(|_| Some(1u64.to_le_bytes()))
            .collect();
        state
            .put(0, cells(batch, false), ones.as_ref())
            .expect("a value state");
        state.apply().expect("an open call");
    }
    (state, batches)
}

fn open(state: &mut Memory, batch: &Batch) {
    state
        .intern(batch.keys.as_ref(), &batch.hashes)
        .expect("all keys are owned");
    state.begin(0);
}

fn cells(batch: &Batch, spaced: bool) -> Cells<'_> {
    Cells {
        keys: &batch.cells,
        namespaces: spaced.then(|| batch.spaces.as_ref()),
    }
}

/// Registers all and fires all, a few times. Medians of batches count, since others use the machine
/// too.
fn measure(name: &str, state: &mut Memory, batches: &[Batch], spaced: bool) {
    let keys: usize = batches.iter().map(|batch| batch.cells.len()).sum();
    let (mut set, mut fire) = (Vec::new(), Vec::new());
    for _ in 0..(1_000_000 / keys).clamp(3, 50) {
        for batch in batches {
            open(state, batch);
            let started = Instant::now();
            state
                .set_timers(0, cells(batch, spaced), &batch.times)
                .expect("a declared timer");
            state.apply().expect("an open call");
            set.push(started.elapsed().as_nanos() as f64 / batch.cells.len() as f64);
        }
        state.begin_advance(TimeDomain::Event, i64::MAX);
        loop {
            let started = Instant::now();
            let firing = state.pop_due(BATCH as usize).expect("an advance");
            let Some(firing) = firing else {
                break;
            };
            state.begin(0);
            state.apply().expect("an open call");
            fire.push(started.elapsed().as_nanos() as f64 / firing.len() as f64);
        }
        state.end_advance();
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let (set, fire) = (median(&mut set), median(&mut fire));
    println!("  {name:8} set {set:.1}, fire {fire:.1}: {:.1}", set + fire);
}
