//! The state of a running job as data: what `weir status --json` prints, and what its text and `/metrics` are made of.

use serde::{Deserialize, Serialize};

use super::board::{Board, Facts, Stage};
use super::bottleneck;
use super::disk::Disks;
use super::history::{History, Rates};
use crate::batch::{END_OF_TIME, NO_TIME};
use crate::channel::Queued;
use crate::clock;
use crate::metrics::{Kind, Meters, NodeMeter, Phase, Spent, TaskMeter, Waiting};

/// Every state that a job can be in.
pub const STATES: [&str; 7] = [
    "starting",
    "recovering",
    "restoring",
    "running",
    "stopping",
    "restarting",
    "ended",
];

/// A running job. Times are seconds; rates and ratios are of the last ten seconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Version of the program that runs it.
    pub weir: String,
    /// The job.
    pub job: String,
    /// Its process.
    pub pid: u32,
    /// One of [`STATES`].
    pub state: String,
    /// Why its sources pause and no checkpoint is begun, if that is so.
    pub paused: Option<String>,
    /// How long the process has run it.
    pub uptime_seconds: f64,
    /// How long ago its run loop last came round.
    pub heartbeat_seconds: f64,
    /// The attempt, 0 for a job without checkpoints.
    pub attempt: u64,
    /// Short name of the lineage.
    pub lineage: Option<String>,
    /// Its checkpoints, if it takes any.
    pub checkpoint: Option<Checkpoint>,
    /// Its restarts in this process.
    pub restarts: Restarts,
    /// Bytes of memory that the process has.
    pub resident_bytes: Option<u64>,
    /// Room left where it writes.
    pub disks: Vec<Disk>,
    /// Its tasks.
    pub tasks: Vec<Task>,
    /// What limits it, if something does.
    pub bottleneck: Option<Bottleneck>,
}

/// Checkpoints.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The last committed one.
    pub last: Option<u64>,
    /// The age of its barrier; without one, the time since the start.
    pub age_seconds: f64,
    /// From its barrier until its output was visible.
    pub took_seconds: Option<f64>,
    /// From the manifest until the commit was known: of that, what its commit took.
    pub commit_seconds: Option<f64>,
    /// Bytes of state that it wrote.
    pub state_bytes: Option<u64>,
    /// Committed in this process.
    pub committed: u64,
    /// Failed in this process.
    pub failed: u64,
    /// Failed since the last committed one.
    pub failed_in_a_row: u32,
    /// Why the last one failed.
    pub last_failure: Option<String>,
    /// The one being taken.
    pub in_flight: Option<InFlight>,
}

/// A checkpoint being taken.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InFlight {
    /// Its number.
    pub n: u64,
    /// What is being done.
    pub doing: String,
    /// Tasks that it waits for.
    pub waits_for: Vec<String>,
}

/// Restarts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Restarts {
    /// Of this process.
    pub total: u64,
    /// Since the job was last in good health.
    pub in_a_row: u32,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// How long ago.
    pub last_error_seconds: Option<f64>,
    /// Until the next attempt begins.
    pub next_in_seconds: Option<f64>,
}

/// Room on a file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// `data` or `checkpoints`.
    pub what: String,
    /// The directory.
    pub dir: String,
    /// Bytes free to this user.
    pub free_bytes: u64,
}

/// A task: a thread that runs a source, or a chain of operators and sinks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The chain's ids and the subtask.
    pub name: String,
    /// Its subtask.
    pub subtask: u16,
    /// What it does at this moment: `starting`, `working`, `calling`, `waits-for-input`, `aligning`, `waits-for-room`,
    /// `waits-for-destination` or `ended`.
    pub doing: String,
    /// For how long, where that is known.
    pub doing_seconds: Option<f64>,
    /// The task whose room it waits for.
    pub waits_for: Option<String>,
    /// Share of its time at work, 0 to 1.
    pub busy: f64,
    /// Share of its time without input.
    pub idle: f64,
    /// Share of its time without room downstream.
    pub backpressured: f64,
    /// Seconds at work since the attempt began.
    pub busy_seconds: f64,
    /// Seconds without input since then.
    pub idle_seconds: f64,
    /// Seconds without room downstream since then.
    pub backpressured_seconds: f64,
    /// Bytes that lie in its inbox.
    pub queued_bytes: u64,
    /// Input channels.
    pub channels: usize,
    /// Input channels that have delivered a barrier which others have not.
    pub channels_aligned: usize,
    /// The last barrier that it passed.
    pub passed: u64,
    /// Its nodes, the head first.
    pub nodes: Vec<Node>,
}

/// A source's, operator's or sink's subtask.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Node {
    /// The id.
    pub id: String,
    /// `source`, `operator` or `sink`.
    pub kind: String,
    /// Records that came in.
    pub records_in: u64,
    /// Records that went out; for a sink, that it wrote.
    pub records_out: u64,
    /// Bytes of keys, values and headers that came in.
    pub bytes_in: u64,
    /// Bytes of keys, values and headers that went out; for a sink, that it wrote.
    pub bytes_out: u64,
    /// Records in a second.
    pub in_rate: f64,
    /// Records out a second.
    pub out_rate: f64,
    /// Records at or behind the watermark.
    pub late: u64,
    /// What was left out by policy.
    pub skipped: u64,
    /// What went to a dead-letter sink.
    pub dead_letters: u64,
    /// Records left out for want of a key.
    pub null_keys: u64,
    /// Its watermark in milliseconds since the epoch, before the end of time.
    pub watermark_millis: Option<i64>,
    /// How far that is behind the wall clock.
    pub watermark_lag_seconds: Option<f64>,
    /// What an operator has.
    pub operator: Option<Operator>,
    /// How far a source has read, of input that has an end.
    pub source: Option<Source>,
    /// How many records a source is behind the newest, as far as is known.
    pub lag_records: Option<u64>,
}

/// What an operator's subtask has and spends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Operator {
    /// Calls.
    pub calls: u64,
    /// Seconds in them.
    pub call_seconds: f64,
    /// Bytes of memory of its guest.
    pub guest_bytes: u64,
    /// Bytes that it may have.
    pub guest_limit_bytes: u64,
    /// Bytes of keys, names and values that it holds.
    pub state_bytes: u64,
    /// Values, items and entries.
    pub state_entries: u64,
    /// Timers.
    pub timers: u64,
}

/// How far a source's subtask has read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// `bytes` (of files as they are on disk) or `records`.
    pub unit: String,
    /// Read.
    pub read: u64,
    /// Of.
    pub of: u64,
    /// Files read to their end, and files in all.
    pub files: Option<(u64, u64)>,
}

/// What limits a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// The task.
    pub task: String,
    /// Why it is that one.
    pub why: String,
}

impl Status {
    /// Whether it takes records up or waits for some: nothing else keeps it.
    pub fn is_running(&self) -> bool {
        self.state == "running"
    }
}

/// Looks at everything.
pub(super) fn look(board: &Board, history: &History, disks: &Disks) -> Status {
    let facts = board.facts();
    let now = clock::now();
    let rates = facts.meters.as_ref().map(|meters| history.rates(meters));
    let tasks = match (&facts.meters, &rates) {
        (Some(meters), Some(rates)) => tasks(meters, rates),
        _ => Vec::new(),
    };
    let bottleneck = facts
        .meters
        .as_ref()
        .filter(|_| facts.state() == "running")
        .and_then(|meters| bottleneck::find(meters, &tasks));
    let ago = |at| now.saturating_duration_since(at).as_secs_f64();
    Status {
        weir: env!("CARGO_PKG_VERSION").to_owned(),
        job: board.job.clone(),
        pid: std::process::id(),
        state: facts.state().to_owned(),
        paused: facts.paused.clone(),
        uptime_seconds: ago(board.began),
        heartbeat_seconds: board.heartbeat().as_secs_f64(),
        attempt: facts.attempt,
        lineage: facts.lineage.clone(),
        checkpoint: facts
            .checkpoints
            .then(|| checkpoint(&facts, ago(board.began))),
        restarts: Restarts {
            total: facts.restarts,
            in_a_row: facts.restarts_in_a_row,
            last_error: facts.last_error.as_ref().map(|error| error.text.clone()),
            last_error_seconds: facts.last_error.as_ref().map(|error| ago(error.at)),
            next_in_seconds: match facts.stage {
                Stage::Restarting(at) => Some(at.saturating_duration_since(now).as_secs_f64()),
                _ => None,
            },
        },
        resident_bytes: super::disk::resident_bytes(),
        disks: disks.look(),
        tasks,
        bottleneck,
    }
}

fn checkpoint(facts: &Facts, uptime: f64) -> Checkpoint {
    let cost = facts.committed.and_then(|committed| committed.cost);
    Checkpoint {
        last: facts.committed.map(|committed| committed.n),
        age_seconds: facts
            .committed
            .map_or(uptime, |committed| committed.age().as_secs_f64()),
        took_seconds: cost.map(|cost| cost.took.as_secs_f64()),
        commit_seconds: cost
            .and_then(|cost| cost.committed_in)
            .map(|took| took.as_secs_f64()),
        state_bytes: cost.map(|cost| cost.state_bytes),
        committed: facts.commits,
        failed: facts.failed,
        failed_in_a_row: facts.failed_in_a_row,
        last_failure: facts.last_failed.as_ref().map(|failed| failed.text.clone()),
        in_flight: facts.flight.as_ref().map(|flight| InFlight {
            n: flight.n,
            doing: flight.doing().to_owned(),
            waits_for: facts.awaited(),
        }),
    }
}

fn tasks(meters: &Meters, rates: &Rates) -> Vec<Task> {
    let tasks = meters.tasks.iter().enumerate();
    tasks
        .map(|(t, meter)| {
            let rate = &rates.tasks[t];
            let queued = meter.inbox().map(|inbox| inbox.look());
            let queued = queued.unwrap_or_default();
            let spent = meter.waits.look();
            let (doing, seconds) = doing(meter, &spent, &queued);
            let waits_for = match spent.waiting {
                Some((Waiting::Room(target), _)) => meters.tasks.get(target as usize),
                _ => None,
            };
            Task {
                name: meter.name.clone(),
                subtask: meter.subtask,
                doing: doing.to_owned(),
                doing_seconds: seconds,
                waits_for: waits_for.map(|task| task.name.clone()),
                busy: rate.busy,
                idle: rate.idle,
                backpressured: rate.backpressured,
                busy_seconds: spent.busy.as_secs_f64(),
                idle_seconds: spent.idle.as_secs_f64(),
                backpressured_seconds: spent.backpressured.as_secs_f64(),
                queued_bytes: queued.bytes as u64,
                channels: queued.queues,
                channels_aligned: queued.blocked,
                passed: meter.passed(),
                nodes: meter
                    .nodes
                    .iter()
                    .zip(&rate.nodes)
                    .map(|(node, (inward, outward))| self::node(meter, node, *inward, *outward))
                    .collect(),
            }
        })
        .collect()
}

fn doing(meter: &TaskMeter, spent: &Spent, queued: &Queued) -> (&'static str, Option<f64>) {
    match (meter.phase(), spent.waiting) {
        (Phase::Starting, _) => ("starting", None),
        (Phase::Ended, _) => ("ended", None),
        (Phase::Running, Some((Waiting::Room(_), since))) => {
            ("waits-for-room", Some(since.as_secs_f64()))
        }
        (Phase::Running, Some((Waiting::Destination, since))) => {
            ("waits-for-destination", Some(since.as_secs_f64()))
        }
        (Phase::Running, Some((Waiting::Input, since))) => {
            let doing = if queued.blocked > 0 {
                "aligning"
            } else {
                "waits-for-input"
            };
            (doing, Some(since.as_secs_f64()))
        }
        (Phase::Running, None) => {
            let mut nodes = meter.nodes.iter();
            match nodes.find_map(|node| node.counters.in_call_for()) {
                Some(since) => ("calling", Some(since.as_secs_f64())),
                None => ("working", None),
            }
        }
    }
}

fn node(task: &TaskMeter, meter: &NodeMeter, in_rate: f64, out_rate: f64) -> Node {
    let counters = &meter.counters;
    let watermark = counters.watermark();
    let watermark = (watermark != NO_TIME && watermark != END_OF_TIME).then_some(watermark);
    let lag = |watermark| clock::wall_millis().saturating_sub(watermark) as f64 / 1000.0;
    let sink = meter.kind == Kind::Sink;
    let reading = (meter.kind == Kind::Source).then(|| task.share.get());
    Node {
        id: meter.id.clone(),
        kind: match meter.kind {
            Kind::Source => "source",
            Kind::Operator => "operator",
            Kind::Sink => "sink",
        }
        .to_owned(),
        records_in: match meter.kind {
            Kind::Source => counters.read(),
            Kind::Operator | Kind::Sink => counters.records_in(),
        },
        records_out: if sink {
            counters.written()
        } else {
            counters.records_out()
        },
        bytes_in: counters.bytes_in(),
        bytes_out: if sink {
            counters.written_bytes()
        } else {
            counters.bytes_out()
        },
        in_rate,
        out_rate,
        late: counters.late(),
        skipped: counters.skipped(),
        dead_letters: counters.dead(),
        null_keys: counters.null_keys(),
        watermark_millis: watermark,
        watermark_lag_seconds: watermark.map(lag),
        operator: (meter.kind == Kind::Operator).then(|| {
            let state = counters.state();
            Operator {
                calls: counters.calls(),
                call_seconds: counters.call_time().as_secs_f64(),
                guest_bytes: counters.guest_memory(),
                guest_limit_bytes: meter.memory_limit,
                state_bytes: state.bytes,
                state_entries: state.entries,
                timers: state.timers,
            }
        }),
        source: reading.and_then(|reading| {
            let (read, of) = reading.share?;
            Some(Source {
                unit: if reading.files.is_some() {
                    "bytes"
                } else {
                    "records"
                }
                .to_owned(),
                read,
                of,
                files: reading.files,
            })
        }),
        lag_records: reading.and_then(|reading| reading.lag),
    }
}
