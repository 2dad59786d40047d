//! Where the time of an attempt's threads goes: a sum a stage, added to once a batch, read by the benchmarks.
//!
//! The stages are those of an operator's thread, which is the bottleneck of most jobs. Beside them stands the processor time of
//! whole tasks, which a busy machine does not distort.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::clock;

/// What an operator's thread does with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Interning keys, which builds the dictionary.
    Intern,
    /// Entering the guest, lowering and lifting, the guest's own code: a call less what the next two take.
    Guest,
    /// Imports that read and write state and timers.
    State,
    /// Making a call's effects real, its output included.
    Apply,
    /// Handing output to the next task, waiting for room included.
    Send,
    /// Writing to a sink.
    Write,
    /// Freezing at a barrier, preparing sinks, forwarding it.
    Freeze,
    /// Collecting frozen state.
    Collect,
}

impl Stage {
    /// All, in the order of a batch's way.
    pub const ALL: [Stage; 8] = [
        Stage::Intern,
        Stage::Guest,
        Stage::State,
        Stage::Apply,
        Stage::Send,
        Stage::Write,
        Stage::Freeze,
        Stage::Collect,
    ];

    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Intern => "intern",
            Stage::Guest => "guest",
            Stage::State => "state",
            Stage::Apply => "apply",
            Stage::Send => "send",
            Stage::Write => "write",
            Stage::Freeze => "freeze",
            Stage::Collect => "collect",
        }
    }
}

/// Checkpoints of which times are kept.
const KEPT: usize = 10_000;

/// The sums of one attempt.
#[derive(Debug, Default)]
pub struct Stages {
    nanos: [AtomicU64; Stage::ALL.len()],
    source_cpu: AtomicU64,
    operator_cpu: AtomicU64,
    pauses: Mutex<Vec<Duration>>,
    commits: Mutex<Vec<Duration>>,
}

impl Stages {
    /// Adds to a stage.
    pub fn add(&self, stage: Stage, spent: Duration) {
        self.nanos[stage as usize].fetch_add(nanos(spent), Ordering::Relaxed);
    }

    /// Adds what has passed since `began`.
    pub fn since(&self, stage: Stage, began: Instant) {
        self.add(stage, clock::now().saturating_duration_since(began));
    }

    /// A barrier held a chain up for so long.
    pub fn paused(&self, pause: Duration) {
        self.add(Stage::Freeze, pause);
        keep(&self.pauses, pause);
    }

    /// The commit of a checkpoint, from its manifest on until it was known, took so long.
    pub fn committed(&self, took: Duration) {
        keep(&self.commits, took);
    }

    /// A task has ended, having used so much of a processor.
    pub fn add_cpu(&self, is_source: bool, spent: Duration) {
        let sum = if is_source {
            &self.source_cpu
        } else {
            &self.operator_cpu
        };
        sum.fetch_add(nanos(spent), Ordering::Relaxed);
    }

    /// As counted so far.
    pub fn costs(&self) -> Costs {
        let load = |sum: &AtomicU64| Duration::from_nanos(sum.load(Ordering::Relaxed));
        Costs {
            stages: Stage::ALL.map(|stage| (stage, load(&self.nanos[stage as usize]))),
            source_cpu: load(&self.source_cpu),
            operator_cpu: load(&self.operator_cpu),
            pauses: kept(&self.pauses),
            commits: kept(&self.commits),
        }
    }
}

fn keep(times: &Mutex<Vec<Duration>>, time: Duration) {
    let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
    if times.len() < KEPT {
        times.push(time);
    }
}

fn kept(times: &Mutex<Vec<Duration>>) -> Vec<Duration> {
    let times = times.lock().unwrap_or_else(PoisonError::into_inner);
    times.clone()
}

/// What [`Stages`] hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Time by stage, of all operator chains together.
    pub stages: [(Stage, Duration); Stage::ALL.len()],
    /// Processor time of the source tasks that have ended.
    pub source_cpu: Duration,
    /// Processor time of the operator tasks that have ended.
    pub operator_cpu: Duration,
    /// How long each barrier held an operator chain up, of the first ones.
    pub pauses: Vec<Duration>,
    /// How long the commit of each checkpoint took, of the first ones.
    pub commits: Vec<Duration>,
}

impl Default for Costs {
    fn default() -> Self {
        Stages::default().costs()
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
