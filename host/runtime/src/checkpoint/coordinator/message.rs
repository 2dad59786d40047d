//! What goes into the coordinator and what comes out.

use std::fmt;
use std::time::Duration;

use super::human;
use crate::checkpoint::manifest::Manifest;
use crate::checkpoint::snapshot::{Digest, TaskSnapshot};
use crate::sink::StagedPart;

/// A task of a running attempt: a thread that a barrier passes as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub u32);

/// What the coordinator knows of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its id, unique in the attempt.
    pub id: TaskId,
    /// What messages call it: source `flights` subtask 1.
    pub name: String,
    /// Whether barriers are injected into it.
    pub source: bool,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// Time passed; due at [`super::Coordinator::next_deadline`], harmless at any other time.
    Tick,
    /// Barrier `n` has passed a task, and its files are durable.
    Ack {
        /// The checkpoint.
        n: u64,
        /// The task.
        task: TaskId,
        /// Its part. Its staged parts are new ones, in no earlier event.
        snapshot: TaskSnapshot,
    },
    /// Barrier `n` has passed a task, but its snapshot could not be made durable.
    Declined {
        /// The checkpoint.
        n: u64,
        /// The task.
        task: TaskId,
        /// Why, with the file.
        why: String,
        /// What its sinks staged durably all the same; it is in no other event.
        staged: Vec<StagedPart>,
    },
    /// All inputs of a task have ended and it is done.
    Ended {
        /// The task.
        task: TaskId,
        /// Its final part; staged parts as in [`Event::Ack`].
        snapshot: TaskSnapshot,
    },
    /// [`Action::StoreManifest`] succeeded.
    ManifestStored {
        /// The checkpoint.
        n: u64,
        /// Digest of the bytes stored.
        digest: Digest,
    },
    /// [`Action::StoreManifest`] failed, or its outcome is unknown, which is the same: without a slot it decides nothing.
    ManifestFailed {
        /// The checkpoint.
        n: u64,
        /// Why.
        why: String,
    },
    /// [`Action::CommitSlot`] succeeded: the checkpoint happened.
    Committed {
        /// The checkpoint.
        n: u64,
    },
    /// The outcome of [`Action::CommitSlot`] is unknown.
    CommitFailed {
        /// The checkpoint.
        n: u64,
        /// Why.
        why: String,
    },
    /// [`Action::Publish`] succeeded, witness included.
    Published {
        /// The checkpoint.
        n: u64,
    },
    /// [`Action::Publish`] failed; some of it may be done.
    PublishFailed {
        /// The checkpoint.
        n: u64,
        /// Why.
        why: String,
    },
    /// A newer attempt's trace was found where this one wanted to write.
    TakenOver {
        /// The newer attempt.
        by: u64,
    },
    /// The user wants a clean stop.
    Stop,
    /// No checkpoint can be taken for now: sources have been paused. One that is being aligned is given up; until [`Event::Released`]
    /// only those are begun that end the job, and [`Failure::NoCheckpoint`] is not counted for.
    Held {
        /// Why.
        why: String,
    },
    /// Checkpoints can be taken again; one is begun at once.
    Released,
}

/// A checkpoint being taken, for whoever asks what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// The checkpoint.
    pub n: u64,
    pub(super) step: FlightStep,
}

/// The steps of the coordinator's picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlightStep {
    Aligning,
    Storing,
    Committing,
    Publishing,
}

impl Flight {
    /// Whether it waits for tasks.
    pub fn aligning(&self) -> bool {
        self.step == FlightStep::Aligning
    }

    /// What is being done, to follow the words "checkpoint 7".
    pub fn doing(&self) -> &'static str {
        match self.step {
            FlightStep::Aligning => "waits for tasks",
            FlightStep::Storing => "is being stored",
            FlightStep::Committing => "is being committed",
            FlightStep::Publishing => "is committed, its output is being published",
        }
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Inject barrier `n` at every source task that runs.
    InjectBarrier {
        /// The checkpoint.
        n: u64,
        /// Sources emit nothing after it, and do not report that they ended.
        last: bool,
    },
    /// Create this manifest durably, then answer with [`Event::ManifestStored`] or [`Event::ManifestFailed`].
    StoreManifest {
        /// All of it but the times.
        manifest: Box<Manifest>,
    },
    /// Create the next slot of the log as the commit of `n`, then answer with [`Event::Committed`], [`Event::TakenOver`] or
    /// [`Event::CommitFailed`].
    CommitSlot {
        /// The checkpoint.
        n: u64,
        /// Digest of its manifest.
        digest: Digest,
    },
    /// Make these parts visible and update the witnesses, then answer with [`Event::Published`], [`Event::TakenOver`] or
    /// [`Event::PublishFailed`].
    Publish {
        /// The checkpoint.
        n: u64,
        /// All parts of its manifest.
        parts: Vec<StagedPart>,
    },
    /// `n` is confirmed and published. Delete what no retained checkpoint needs; no answer.
    Collect {
        /// The checkpoint.
        n: u64,
    },
    /// Tell the user (W0521).
    Warn(Warning),
    /// End the attempt; what happens then is up to the restart strategy. Nothing follows.
    FailAttempt {
        /// Why.
        why: Failure,
        /// Whether trying again is pointless.
        permanent: bool,
    },
    /// All input is processed and committed. Nothing follows.
    Finished {
        /// The last checkpoint.
        n: u64,
    },
    /// The job stopped cleanly after a last checkpoint. Nothing follows.
    Stopped {
        /// The last checkpoint.
        n: u64,
    },
}

/// A checkpoint failed and was skipped. Displayed as the message of W0521.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The checkpoint.
    pub n: u64,
    /// How many failed in a row, this one included.
    pub in_a_row: u32,
    /// Time since the barrier of the last confirmed checkpoint, or since the start.
    pub last_good: Duration,
    /// When that reaches this, the attempt fails.
    pub fail_after: Duration,
    /// The tasks that had not acknowledged it.
    pub waiting: Vec<String>,
    /// What ended it.
    pub why: String,
}

impl Warning {
    /// Its permanent code.
    pub fn code(&self) -> &'static str {
        "W0521"
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Tasks named; a wide job has thousands.
        const NAMED: usize = 5;
        write!(
            f,
            "checkpoint {} failed ({} in a row; last good {} ago; the job fails at {})\n  {}",
            self.n,
            self.in_a_row,
            human(self.last_good),
            human(self.fail_after),
            self.why
        )?;
        if !self.waiting.is_empty() {
            let named = &self.waiting[..self.waiting.len().min(NAMED)];
            write!(f, "\n  waiting for {}", named.join(", "))?;
            if self.waiting.len() > NAMED {
                write!(f, " and {} more", self.waiting.len() - NAMED)?;
            }
        }
        Ok(())
    }
}

/// Why the coordinator ends an attempt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Another host runs the job now.
    #[error("attempt {by} on another host has taken the job over")]
    TakenOver {
        /// Its attempt.
        by: u64,
    },
    /// No checkpoint for too long.
    #[error(
        "no checkpoint was confirmed for {}, and `checkpoint.fail_after` is {}; the last good one is {last_good}",
        human(*ago),
        human(*fail_after)
    )]
    NoCheckpoint {
        /// The last confirmed checkpoint.
        last_good: u64,
        /// How long ago its barrier was.
        ago: Duration,
        /// The limit.
        fail_after: Duration,
    },
    /// A checkpoint could not be taken, and it cannot be left out: its output is in a transaction that nothing else can commit.
    #[error(
        "checkpoint {n} could not be taken, and its output is in a transaction of its own: {why}"
    )]
    CheckpointLost {
        /// The checkpoint.
        n: u64,
        /// The cause.
        why: String,
    },
    /// Whether a checkpoint happened is not known; recovery finds out.
    #[error("whether checkpoint {n} was committed is not known: {why}")]
    CommitUnclear {
        /// The checkpoint.
        n: u64,
        /// The cause.
        why: String,
    },
    /// A committed checkpoint's output could not be made visible; recovery tries again.
    #[error("checkpoint {n} is committed, but its output could not be published: {why}")]
    Publish {
        /// The checkpoint.
        n: u64,
        /// The cause.
        why: String,
    },
}

impl Failure {
    /// Whether trying again is pointless.
    pub fn permanent(&self) -> bool {
        matches!(self, Failure::TakenOver { .. })
    }

    /// Its permanent code.
    pub fn code(&self) -> &'static str {
        match self {
            Failure::TakenOver { .. } => "W0502",
            Failure::NoCheckpoint { .. } => "W0522",
            Failure::CommitUnclear { .. } => "W0523",
            Failure::Publish { .. } => "W0524",
            Failure::CheckpointLost { .. } => "W0530",
        }
    }
}
