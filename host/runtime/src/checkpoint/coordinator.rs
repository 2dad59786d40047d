//! The checkpoint coordinator of a running attempt: a state machine without I/O, threads or clock.
//!
//! [`Coordinator::handle`] takes an event and the time, and returns what is to be done. The life of checkpoint N:
//!
//! ```text
//!           InjectBarrier      StoreManifest     CommitSlot         Publish
//!  waiting ───────────────▶ aligning ─────▶ storing ─────▶ committing ─────▶ publishing ──▶ waiting
//!                              │ declined,     │ failed,       │ unclear: the    │ failed: the
//!                              ▼ timeout       ▼ timeout       ▼ attempt ends    ▼ attempt ends
//!                              N is skipped, its parts go into the next one
//! ```
//!
//! **Which parts belong to N.** Those of every acknowledgement for N or an earlier number, and those of tasks that ended without having
//! passed barrier N. A task that acknowledged N and *then* ended staged its last parts after barrier N: publishing them with N would
//! repeat them after a restore. They wait for N+1.
//!
//! **Open parts** are as each task's snapshot for N has them: a later snapshot has the same part longer, or stages it. So those of a
//! checkpoint that fails need not be kept.
//!
//! **What tasks must keep.** A task's events arrive in the order in which it passed barriers, its `Ended` last. A task whose inputs ended
//! before barrier N reached it answers with `Ended` alone; an ended input counts as aligned once its last record is processed.

mod message;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use message::FlightStep;
pub use message::{Action, Event, Failure, Flight, Task, TaskId, Warning};

use super::manifest::{Header, Identity, Lineage, Manifest, ManifestId};
use super::snapshot::TaskSnapshot;
use crate::job::model::CheckpointSettings;
use crate::sink::StagedPart;

/// A stop checkpoint that failed is tried again after this, or after the interval if that is shorter; so is any other, where it
/// doubles from one failure to the next up to the interval.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// What a coordinator is made from: the job, what recovery found, and the tasks.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What goes into each manifest.
    pub identity: Identity,
    /// Interval, timeout and the time to give up after; the rest is the driver's.
    pub settings: CheckpointSettings,
    /// The history that goes on.
    pub lineage: Lineage,
    /// This attempt.
    pub attempt: u64,
    /// The checkpoint restored, 0 for a fresh start.
    pub confirmed: u64,
    /// The first number not seen in storage.
    pub next_n: u64,
    /// All tasks.
    pub tasks: Vec<Task>,
    /// Parts that go into the first checkpoint: what recovery took over of parts that an earlier attempt had open.
    pub carried: Vec<StagedPart>,
    /// Whether output goes into a transaction a checkpoint.
    pub transactional: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Coordinator {
    identity: Identity,
    lineage: Lineage,
    attempt: u64,
    interval: Duration,
    timeout: Duration,
    fail_after: Duration,
    tasks: BTreeMap<TaskId, TaskState>,
    phase: Phase,
    next_n: u64,
    confirmed: u64,
    /// The barrier of the last confirmed checkpoint, or the start.
    confirmed_at: Duration,
    /// What `fail_after` counts from: `confirmed_at`, or the end of input if that is later.
    fail_from: Duration,
    failed_in_a_row: u32,
    /// Parts that go into the next checkpoint: of an earlier attempt, of checkpoints that failed, and of tasks that ended since the
    /// last barrier.
    carried: Vec<StagedPart>,
    /// Whether output goes into a transaction a checkpoint. Then a barrier that was injected cannot be taken back: what was written before it
    /// is in its transaction, and what comes after it in the next one.
    transactional: bool,
    stopping: bool,
    held: bool,
}

#[derive(Clone, Debug)]
struct TaskState {
    name: String,
    source: bool,
    /// The highest number it acknowledged or declined: a repeated event must not count its parts twice.
    answered: u64,
    /// Its final snapshot, without the parts.
    ended: Option<TaskSnapshot>,
}

#[derive(Clone, Debug)]
enum Phase {
    Waiting {
        next_barrier: Duration,
    },
    Aligning {
        n: u64,
        since: Duration,
        last: bool,
        acks: BTreeMap<TaskId, TaskSnapshot>,
        staged: Vec<StagedPart>,
    },
    Storing(InFlight),
    Committing(InFlight),
    Publishing(InFlight),
    Over,
}

/// A checkpoint whose manifest is put together.
#[derive(Clone, Debug)]
struct InFlight {
    n: u64,
    since: Duration,
    last: bool,
    finished: bool,
    staged: Vec<StagedPart>,
    /// Its manifest, if it may have to be stored again.
    manifest: Option<Box<Manifest>>,
    /// When it is stored again, and why that is necessary.
    retry: Option<(Duration, String)>,
}

impl Coordinator {
    /// A coordinator at time zero, the start of the attempt.
    pub fn new(setup: Setup) -> Coordinator {
        let tasks = setup.tasks.into_iter().map(|task| {
            let state = TaskState {
                name: task.name,
                source: task.source,
                answered: 0,
                ended: None,
            };
            (task.id, state)
        });
        Coordinator {
            identity: setup.identity,
            lineage: setup.lineage,
            attempt: setup.attempt,
            interval: setup.settings.interval,
            timeout: setup.settings.timeout,
            fail_after: setup.settings.fail_after,
            tasks: tasks.collect(),
            phase: Phase::Waiting {
                next_barrier: setup.settings.interval,
            },
            next_n: setup.next_n.max(setup.confirmed + 1),
            confirmed: setup.confirmed,
            confirmed_at: Duration::ZERO,
            fail_from: Duration::ZERO,
            failed_in_a_row: 0,
            carried: setup.carried,
            transactional: setup.transactional,
            stopping: false,
            held: false,
        }
    }

    /// The last confirmed checkpoint; 0 before the first.
    pub fn confirmed(&self) -> u64 {
        self.confirmed
    }

    /// The time of the barrier of the last confirmed checkpoint, or zero.
    pub fn confirmed_at(&self) -> Duration {
        self.confirmed_at
    }

    /// The checkpoint being taken, if one is.
    pub fn flight(&self) -> Option<Flight> {
        let flight = |flight: &InFlight, step| Some(Flight { n: flight.n, step });
        match &self.phase {
            Phase::Aligning { n, .. } => Some(Flight {
                n: *n,
                step: FlightStep::Aligning,
            }),
            Phase::Storing(it) => flight(it, FlightStep::Storing),
            Phase::Committing(it) => flight(it, FlightStep::Committing),
            Phase::Publishing(it) => flight(it, FlightStep::Publishing),
            Phase::Waiting { .. } | Phase::Over => None,
        }
    }

    /// How many checkpoints failed since the last confirmed one.
    pub fn failed_in_a_row(&self) -> u32 {
        self.failed_in_a_row
    }

    /// When a [`Event::Tick`] is due if nothing else happens before; `None` if time changes nothing.
    pub fn next_deadline(&self) -> Option<Duration> {
        let phase = match &self.phase {
            Phase::Waiting { next_barrier } => {
                let possible = self.a_source_runs() || self.all_ended();
                (possible && self.may_begin()).then_some(*next_barrier)
            }
            Phase::Aligning { since, .. } => Some(since.saturating_add(self.timeout)),
            Phase::Storing(InFlight { since, retry, .. }) => {
                let retry = retry.iter().map(|(at, _)| *at);
                retry.chain([since.saturating_add(self.timeout)]).min()
            }
            Phase::Committing(_) | Phase::Publishing(_) => None,
            Phase::Over => return None,
        };
        phase.into_iter().chain(self.fail_at()).min()
    }

    /// Takes an event at time `now` (monotonic, since the start of the attempt) and says what to do, in this order.
    pub fn handle(&mut self, now: Duration, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        if matches!(self.phase, Phase::Over) {
            return actions;
        }
        match event {
            Event::Tick => {}
            Event::Stop => self.stop(now),
            Event::Held { why } => self.hold(now, why, &mut actions),
            Event::Released => self.release(now),
            Event::Ack { n, task, snapshot } => self.acknowledged(n, task, snapshot),
            Event::Declined {
                n,
                task,
                why,
                staged,
            } => {
                self.declined(now, n, task, why, staged, &mut actions);
            }
            Event::Ended { task, snapshot } => self.ended(now, task, snapshot),
            Event::ManifestStored { n, digest } => self.stored(n, digest, &mut actions),
            Event::ManifestFailed { n, why } => {
                if matches!(&self.phase, Phase::Storing(flight) if flight.n == n) {
                    self.not_stored(now, why, &mut actions);
                }
            }
            Event::Committed { n } => self.committed(n, &mut actions),
            Event::CommitFailed { n, why } => {
                if matches!(&self.phase, Phase::Committing(flight) if flight.n == n) {
                    self.fail(Failure::CommitUnclear { n, why }, &mut actions);
                }
            }
            Event::Published { n } => self.published(now, n, &mut actions),
            Event::PublishFailed { n, why } => {
                if matches!(&self.phase, Phase::Publishing(flight) if flight.n == n) {
                    self.fail(Failure::Publish { n, why }, &mut actions);
                }
            }
            Event::TakenOver { by } => self.fail(Failure::TakenOver { by }, &mut actions),
        }
        self.advance(now, &mut actions);
        actions
    }

    /// What follows from the state and the time alone, whatever the event was.
    fn advance(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Over) {
            return;
        }
        self.complete_alignment(actions);
        let timed_out = match &self.phase {
            Phase::Aligning { since, .. } | Phase::Storing(InFlight { since, .. }) => {
                now >= since.saturating_add(self.timeout)
            }
            _ => false,
        };
        if timed_out {
            let mut why = format!("it took longer than {}", human(self.timeout));
            if let Phase::Storing(InFlight {
                retry: Some((_, cause)),
                ..
            }) = &self.phase
            {
                why = format!("{why}: {cause}");
            }
            self.skip(now, why, actions);
        }
        if let Phase::Storing(flight) = &mut self.phase
            && let Some(manifest) = &flight.manifest
            && flight.retry.take_if(|(at, _)| now >= *at).is_some()
        {
            let manifest = manifest.clone();
            actions.push(Action::StoreManifest { manifest });
        }
        if matches!(self.phase, Phase::Over) {
            return;
        }
        if self.fail_at().is_some_and(|at| now >= at) {
            let failure = Failure::NoCheckpoint {
                last_good: self.confirmed,
                ago: now.saturating_sub(self.confirmed_at),
                fail_after: self.fail_after,
            };
            self.fail(failure, actions);
            return;
        }
        if matches!(&self.phase, Phase::Waiting { next_barrier } if now >= *next_barrier)
            && self.may_begin()
        {
            self.begin(now, actions);
        }
    }

    fn begin(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let all_ended = self.all_ended();
        if !all_ended && !self.a_source_runs() {
            // Barriers come from sources. What drains downstream now ends by itself, and then the last checkpoint is taken.
            return;
        }
        let n = self.next_n;
        self.next_n += 1;
        let last = self.stopping;
        self.phase = Phase::Aligning {
            n,
            since: now,
            last,
            acks: BTreeMap::new(),
            staged: std::mem::take(&mut self.carried),
        };
        if all_ended {
            self.complete_alignment(actions);
        } else {
            actions.push(Action::InjectBarrier { n, last });
        }
    }

    /// Held, only a checkpoint with which the job ends is begun: there is nothing to wait for after it.
    fn may_begin(&self) -> bool {
        !self.held || self.stopping || self.all_ended()
    }

    fn hold(&mut self, now: Duration, why: String, actions: &mut Vec<Action>) {
        self.held = true;
        if matches!(&self.phase, Phase::Aligning { last: false, .. }) && !self.transactional {
            self.skip(now, why, actions);
        }
        if self.confirmed > 0 {
            actions.push(Action::Collect { n: self.confirmed });
        }
    }

    fn release(&mut self, now: Duration) {
        self.held = false;
        self.fail_from = self.fail_from.max(now);
        if let Phase::Waiting { next_barrier } = &mut self.phase {
            *next_barrier = now;
        }
    }

    fn stop(&mut self, now: Duration) {
        self.stopping = true;
        if self.held {
            // Time that was held does not count, and the last checkpoint has all of it again.
            self.fail_from = self.fail_from.max(now);
        }
        if let Phase::Waiting { next_barrier } = &mut self.phase {
            *next_barrier = now;
        }
    }

    /// Whether an answer to barrier `n` is the task's first. Everything a task hands over is taken up exactly once.
    fn first_answer(&mut self, task: TaskId, n: u64) -> bool {
        match self.tasks.get_mut(&task) {
            Some(state) if state.ended.is_none() && state.answered < n && n < self.next_n => {
                state.answered = n;
                true
            }
            _ => false,
        }
    }

    /// Parts staged before the barrier in flight, if there is one that is still being aligned.
    fn take_up(&mut self, parts: Vec<StagedPart>) {
        match &mut self.phase {
            Phase::Aligning { staged, .. } => staged.extend(parts),
            _ => self.carried.extend(parts),
        }
    }

    fn acknowledged(&mut self, n: u64, task: TaskId, mut snapshot: TaskSnapshot) {
        if !self.first_answer(task, n) {
            return;
        }
        let parts = snapshot.take_staged();
        // A late one is for a checkpoint that failed; its parts come before the barrier in flight.
        self.take_up(parts);
        if let Phase::Aligning {
            n: current, acks, ..
        } = &mut self.phase
            && *current == n
        {
            acks.insert(task, snapshot);
        }
    }

    fn declined(
        &mut self,
        now: Duration,
        n: u64,
        task: TaskId,
        why: String,
        staged: Vec<StagedPart>,
        actions: &mut Vec<Action>,
    ) {
        if !self.first_answer(task, n) {
            return;
        }
        self.take_up(staged);
        if matches!(&self.phase, Phase::Aligning { n: current, .. } if *current == n) {
            let name = self.tasks.get(&task).map_or("", |state| &state.name);
            let why = format!("{name}: {why}");
            self.skip(now, why, actions);
        }
    }

    fn ended(&mut self, now: Duration, task: TaskId, mut snapshot: TaskSnapshot) {
        let Some(state) = self.tasks.get_mut(&task) else {
            return;
        };
        if state.ended.is_some() {
            return;
        }
        let parts = snapshot.take_staged();
        state.ended = Some(snapshot);
        match &mut self.phase {
            Phase::Aligning { acks, staged, .. } if !acks.contains_key(&task) => {
                staged.extend(parts);
            }
            _ => self.carried.extend(parts),
        }
        if self.all_ended() {
            self.fail_from = self.fail_from.max(now);
            if let Phase::Waiting { next_barrier } = &mut self.phase {
                *next_barrier = now;
            }
        }
    }

    fn complete_alignment(&mut self, actions: &mut Vec<Action>) {
        let Phase::Aligning { acks, .. } = &self.phase else {
            return;
        };
        let complete = self
            .tasks
            .iter()
            .all(|(id, state)| state.ended.is_some() || acks.contains_key(id));
        if !complete {
            return;
        }
        let Phase::Aligning {
            n,
            since,
            last,
            acks,
            staged,
        } = std::mem::replace(&mut self.phase, Phase::Over)
        else {
            unreachable!("matched above");
        };
        let header = Header {
            lineage: self.lineage.clone(),
            id: ManifestId {
                n,
                attempt: self.attempt,
            },
            parent: Some(self.confirmed),
            // Only if no snapshot in it is from a barrier: then nothing comes after it.
            finished: acks.is_empty(),
            last: last || acks.is_empty(),
        };
        let finished = header.finished;
        let snapshots = self
            .tasks
            .iter()
            .filter_map(|(id, state)| acks.get(id).or(state.ended.as_ref()));
        let manifest = Manifest::assemble(&self.identity, header, snapshots, staged.clone());
        let manifest = Box::new(manifest);
        self.phase = Phase::Storing(InFlight {
            n,
            since,
            last,
            finished,
            staged,
            manifest: self.transactional.then(|| manifest.clone()),
            retry: None,
        });
        actions.push(Action::StoreManifest { manifest });
    }

    fn stored(&mut self, n: u64, digest: super::snapshot::Digest, actions: &mut Vec<Action>) {
        if let Phase::Storing(flight) = &self.phase
            && flight.n == n
        {
            self.phase = Phase::Committing(flight.clone());
            actions.push(Action::CommitSlot { n, digest });
        }
    }

    fn committed(&mut self, n: u64, actions: &mut Vec<Action>) {
        if let Phase::Committing(flight) = &self.phase
            && flight.n == n
        {
            let parts = flight.staged.clone();
            self.phase = Phase::Publishing(flight.clone());
            actions.push(Action::Publish { n, parts });
        }
    }

    fn published(&mut self, now: Duration, n: u64, actions: &mut Vec<Action>) {
        let Phase::Publishing(flight) = &self.phase else {
            return;
        };
        if flight.n != n {
            return;
        }
        let (since, last, finished) = (flight.since, flight.last, flight.finished);
        self.confirmed = n;
        self.confirmed_at = since;
        self.fail_from = self.fail_from.max(since);
        self.failed_in_a_row = 0;
        actions.push(Action::Collect { n });
        if finished || last {
            self.phase = Phase::Over;
            actions.push(if finished {
                Action::Finished { n }
            } else {
                Action::Stopped { n }
            });
            return;
        }
        let at_once = self.stopping || self.all_ended();
        let next_barrier = if at_once {
            now
        } else {
            since.saturating_add(self.interval)
        };
        self.phase = Phase::Waiting { next_barrier };
    }

    /// A manifest could not be stored. One that belongs to a transaction is tried again until the checkpoint's time is over.
    fn not_stored(&mut self, now: Duration, why: String, actions: &mut Vec<Action>) {
        if !self.transactional {
            return self.skip(now, why, actions);
        }
        if let Phase::Storing(flight) = &mut self.phase {
            flight.retry = Some((now.saturating_add(FIRST_PAUSE), why));
        }
    }

    /// Gives the checkpoint in flight up and keeps its parts for the next one. Never after its slot was sent for.
    fn skip(&mut self, now: Duration, why: String, actions: &mut Vec<Action>) {
        if self.transactional
            && let Some(Flight { n, step }) = self.flight()
            && matches!(step, FlightStep::Aligning | FlightStep::Storing)
        {
            return self.fail(Failure::CheckpointLost { n, why }, actions);
        }
        let (n, since, waiting, staged) = match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Aligning {
                n,
                since,
                acks,
                staged,
                ..
            } => (n, since, self.waiting_for(&acks), staged),
            Phase::Storing(flight) => (flight.n, flight.since, Vec::new(), flight.staged),
            other => {
                self.phase = other;
                return;
            }
        };
        // What was carried meanwhile came after these.
        let later = std::mem::replace(&mut self.carried, staged);
        self.carried.extend(later);
        self.failed_in_a_row += 1;
        actions.push(Action::Warn(Warning {
            n,
            in_a_row: self.failed_in_a_row,
            last_good: now.saturating_sub(self.confirmed_at),
            fail_after: self.fail_after,
            waiting,
            why,
        }));
        let doublings = (self.failed_in_a_row - 1).min(16);
        let pause = (FIRST_PAUSE * (1 << doublings)).min(self.interval);
        let retry = now.saturating_add(if self.stopping {
            FIRST_PAUSE.min(self.interval)
        } else {
            pause
        });
        let next_barrier = if self.stopping || self.all_ended() {
            retry
        } else {
            retry.max(since.saturating_add(self.interval))
        };
        self.phase = Phase::Waiting { next_barrier };
    }

    fn fail(&mut self, why: Failure, actions: &mut Vec<Action>) {
        self.phase = Phase::Over;
        let permanent = why.permanent();
        actions.push(Action::FailAttempt { why, permanent });
    }

    fn waiting_for(&self, acks: &BTreeMap<TaskId, TaskSnapshot>) -> Vec<String> {
        let names: BTreeSet<&str> = self
            .tasks
            .iter()
            .filter(|(id, state)| state.ended.is_none() && !acks.contains_key(id))
            .map(|(_, state)| state.name.as_str())
            .collect();
        names.into_iter().map(str::to_owned).collect()
    }

    fn all_ended(&self) -> bool {
        self.tasks.values().all(|state| state.ended.is_some())
    }

    fn a_source_runs(&self) -> bool {
        self.tasks
            .values()
            .any(|state| state.source && state.ended.is_none())
    }

    /// When the attempt fails for want of a checkpoint. Not while only operators drain: no barrier can reach them, so ending the
    /// attempt would repeat the same work for ever. Nor while no checkpoint can be begun.
    fn fail_at(&self) -> Option<Duration> {
        ((self.a_source_runs() || self.all_ended()) && self.may_begin())
            .then(|| self.fail_from.saturating_add(self.fail_after))
    }
}

/// A duration as messages say it: `950 ms`, `12s`, `1m12s`, `2h03m`.
pub(crate) fn human(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0) => format!("{} ms", duration.as_millis()),
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, 0) => format!("{minutes}m"),
        (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
        (hours, minutes, _) => format!("{hours}h{minutes:02}m"),
    }
}
