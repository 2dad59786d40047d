//! The loop around one attempt: tasks' events in, the coordinator's actions carried out, until the attempt ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::Report;
use super::counted::CountedRestarts;
use super::failure::Failure;
use super::positions::Positions;
use super::room::{Change, Room};
use super::snapshots::{Handover, SnapshotThread};
use super::summary::{self, Ending, Totals};
use crate::attempt::{Attempt, Beginning, Blueprint, TaskEvent};
use crate::channel::Barrier;
use crate::checkpoint::coordinator::{self, Action, Coordinator, Event, Setup};
use crate::checkpoint::{Digest, Driver};
use crate::control::Board;
use crate::control::board::{Cost, Stage};
use crate::job::model::CheckpointSettings;
use crate::log::{Level, Line};
use crate::metrics::Origins;
use crate::progress::{Progress, Sample};
use crate::task::Frozen;
use crate::{clock, log};

/// How often a request to stop is looked for.
const POLL: Duration = Duration::from_millis(50);

/// What the supervisor waits for.
pub(super) enum Message {
    /// From a task.
    Task(TaskEvent),
    /// A snapshot was stored, or not, as the event says; bytes of state written.
    Stored(Event, u64),
    /// The final state of a task could not be stored.
    Lost(String),
    /// Whether the transaction that carries a checkpoint was committed, with the digest of its manifest.
    Marked(u64, Digest, Result<(), String>),
}

impl From<TaskEvent> for Message {
    fn from(event: TaskEvent) -> Self {
        Message::Task(event)
    }
}

/// How an attempt ended.
pub(super) enum Ended {
    /// The job is over.
    Report(Box<Report>),
    /// The attempt is.
    Failed {
        /// Why.
        failure: Failure,
        /// Whether a stop had been asked for: then nothing is started again.
        stopping: bool,
    },
}

/// Supervises one attempt.
pub(super) struct Supervisor<'a> {
    /// The job.
    pub(super) blueprint: Arc<Blueprint>,
    /// Its checkpoints.
    pub(super) settings: &'a CheckpointSettings,
    /// A message here asks for a clean stop within a time.
    pub(super) stop: &'a mpsc::Receiver<Duration>,
    /// The progress line.
    pub(super) progress: &'a mut Progress,
    /// Asked whether there is room for checkpoints.
    pub(super) room: &'a mut Room,
    /// Told of confirmed checkpoints.
    pub(super) restarts: &'a mut CountedRestarts,
    /// Told of stored and confirmed checkpoints.
    pub(super) positions: &'a mut Positions,
    /// Where it says how it stands.
    pub(super) board: &'a Board,
}

/// An attempt's coordination, if it takes checkpoints.
struct Coordination<'a> {
    coordinator: Coordinator,
    driver: &'a mut Driver,
    snapshots: SnapshotThread,
    /// For answers of threads that work for the coordinator.
    sender: mpsc::Sender<Message>,
    /// Whether a checkpoint that cannot be stored is tried again.
    transactional: bool,
    /// Bytes of state stored since the last confirmed checkpoint.
    bytes: u64,
    /// When the checkpoint in flight began: at its barrier or, for the last one, which has none, at its manifest.
    since: Option<Instant>,
    /// When its commit was begun.
    committing: Option<Instant>,
    /// Records that its barriers found sent to Kafka since the last one.
    sent: u64,
}

impl Coordination<'_> {
    /// Hands what a task holds to the thread that stores it.
    fn store(&mut self, task: usize, barrier: Option<Barrier>, frozen: Frozen) {
        let sent = frozen.sinks.iter().map(|(_, _, prepared)| prepared.sent);
        self.sent += sent.sum::<u64>();
        self.snapshots.store(Handover {
            task,
            barrier,
            frozen,
        });
    }
}

/// A stop that was asked for.
struct Stopping {
    /// When a last checkpoint is given up.
    by: Instant,
    /// How long that was from the request.
    within: Duration,
    /// What was waited for then.
    waited_for: Option<String>,
}

/// What carrying out actions led to.
enum Outcome {
    Ending(Ending),
    Failed(Failure),
}

impl Supervisor<'_> {
    /// Runs the attempt to its end.
    pub(super) fn run(
        mut self,
        beginning: Beginning,
        checkpoints: Option<(&mut Driver, Setup)>,
        origins: &Arc<Origins>,
    ) -> Ended {
        let began = clock::now();
        let resumed = beginning.manifest.is_some();
        let (sender, messages) = mpsc::channel();
        let mut attempt = match Attempt::start(&self.blueprint, beginning, origins, &sender) {
            Ok(attempt) => attempt,
            Err(error) => {
                return Ended::Failed {
                    failure: Failure::of_system(&format!("cannot start a thread: {error}")),
                    stopping: false,
                };
            }
        };
        self.board.attempt(&attempt.meters);
        let coordination = match checkpoints {
            None => Ok(None),
            Some((driver, setup)) => self
                .coordinate(driver, setup, &attempt, sender.clone())
                .map(Some),
        };
        drop(sender);
        let mut coordination = match coordination {
            Ok(coordination) => coordination,
            Err(error) => {
                return Ended::Failed {
                    failure: Failure::of_system(&format!("cannot start a thread: {error}")),
                    stopping: false,
                };
            }
        };
        let mut stopping = None;
        let outcome = self.watch(&attempt, &messages, &mut coordination, began, &mut stopping);
        if matches!(outcome, Outcome::Failed(_)) {
            self.board.stage(Stage::Recovering);
        }
        drop(messages);
        let running = clock::now().saturating_duration_since(began);
        let totals = Totals::of(&attempt.meters);
        let costs = attempt.meters.stages.costs();
        if matches!(outcome, Outcome::Ending(Ending::StoppedWithoutCheckpoint)) {
            attempt.abandon();
        } else {
            attempt.cancel();
        }
        match outcome {
            Outcome::Failed(failure) => Ended::Failed {
                failure,
                stopping: stopping.is_some(),
            },
            Outcome::Ending(ending) => {
                let confirmed =
                    coordination.map(|coordination| coordination.coordinator.confirmed());
                let job = &self.blueprint.job;
                let mut report =
                    summary::report(job, ending, totals, (running, costs), confirmed, resumed);
                if let Some(text) = stopping.and_then(|stopping| stopping.waited_for) {
                    report.summary.push_str(&format!("  {text}\n"));
                }
                Ended::Report(Box::new(report))
            }
        }
    }

    fn coordinate<'d>(
        &self,
        driver: &'d mut Driver,
        mut setup: Setup,
        attempt: &Attempt,
        sender: mpsc::Sender<Message>,
    ) -> std::io::Result<Coordination<'d>> {
        let is_source = |task: usize| attempt.sources.iter().any(|(source, _)| *source == task);
        setup.tasks = attempt
            .meters
            .tasks
            .iter()
            .enumerate()
            .map(|(task, meter)| coordinator::Task {
                id: coordinator::TaskId(task as u32),
                name: meter.name.clone(),
                source: is_source(task),
            })
            .collect();
        setup.settings = self.settings.clone();
        // A checkpoint whose output is in a transaction has no second one.
        let transactional = setup.transactional;
        let patience = transactional.then_some(setup.settings.timeout);
        let snapshots = SnapshotThread::start(driver.state_files(), patience, sender.clone())?;
        Ok(Coordination {
            coordinator: Coordinator::new(setup),
            driver,
            snapshots,
            sender,
            transactional,
            bytes: 0,
            since: None,
            committing: None,
            sent: 0,
        })
    }

    fn watch(
        &mut self,
        attempt: &Attempt,
        messages: &mpsc::Receiver<Message>,
        coordination: &mut Option<Coordination<'_>>,
        began: Instant,
        stopping: &mut Option<Stopping>,
    ) -> Outcome {
        let mut running = attempt.meters.tasks.len();
        let mut events = VecDeque::new();
        loop {
            self.board.beat();
            let now = clock::now();
            let mut wait = POLL;
            if let Some(coordination) = coordination
                && let Some(deadline) = coordination.coordinator.next_deadline()
            {
                let deadline = began.checked_add(deadline);
                wait = deadline.map_or(wait, |at| wait.min(at.saturating_duration_since(now)));
            }
            match messages.recv_timeout(wait) {
                Ok(Message::Task(TaskEvent::Failed(_, error))) => {
                    return Outcome::Failed(Failure::of_task(&error));
                }
                Ok(Message::Task(TaskEvent::Passed(task, barrier, frozen))) => {
                    if let Some(coordination) = coordination {
                        coordination.store(task, Some(barrier), frozen);
                    }
                }
                Ok(Message::Task(TaskEvent::Ended(task, frozen))) => {
                    running -= 1;
                    match coordination {
                        Some(coordination) => coordination.store(task, None, frozen),
                        None if running == 0 => return Outcome::Ending(Ending::Finished),
                        None => {}
                    }
                }
                Ok(Message::Stored(event, bytes)) => {
                    if let Some(coordination) = coordination {
                        coordination.bytes += bytes;
                    }
                    if let Event::Ack { n, task, .. } = &event
                        && let Some(meter) = attempt.meters.tasks.get(task.0 as usize)
                    {
                        meter.set_stored(*n);
                    }
                    events.push_back(event);
                }
                Ok(Message::Lost(why)) => {
                    return Outcome::Failed(Failure::of_system(&format!(
                        "a final snapshot could not be stored: {why}"
                    )));
                }
                Ok(Message::Marked(n, digest, marked)) => {
                    if let Some(coordination) = coordination {
                        events.push_back(match marked {
                            Ok(()) => coordination.driver.commit(n, digest),
                            Err(why) => Event::CommitFailed { n, why },
                        });
                    }
                }
                Err(RecvTimeoutError::Timeout) => events.push_back(Event::Tick),
                // Every task is gone without a word; each reports how it ends, so this cannot be.
                Err(RecvTimeoutError::Disconnected) => {
                    return Outcome::Failed(Failure::of_system(
                        "every task ended without a report",
                    ));
                }
            }
            while let Ok(within) = self.stop.try_recv() {
                if coordination.is_none() {
                    return Outcome::Ending(Ending::StoppedWithoutCheckpoint);
                }
                if stopping.is_none() {
                    log::info("stopping after a last checkpoint; a second signal stops at once");
                    events.push_back(Event::Stop);
                    self.board.stage(Stage::Stopping);
                }
                more_impatient(stopping, within);
            }
            if let Some(complaint) = self.blueprint.clock.complaint() {
                log::write(Line::new(Level::Warn, complaint).code("W0528"));
            }
            if coordination.is_some()
                && let Some(change) = self.room.look(clock::now())
            {
                for (_, control) in &attempt.sources {
                    control.pause(matches!(change, Change::Low(_)));
                }
                let why = match change {
                    Change::Low(what) => Some(format!("too little {what}")),
                    Change::Enough => None,
                };
                self.board.paused(why.clone());
                events.push_back(why.map_or(Event::Released, |why| Event::Held { why }));
            }
            if let Some(coordination) = coordination {
                while let Some(event) = events.pop_front() {
                    let now = clock::now().saturating_duration_since(began);
                    for action in coordination.coordinator.handle(now, event) {
                        if let Some(outcome) = self.act(attempt, coordination, action, &mut events)
                        {
                            return outcome;
                        }
                    }
                }
            }
            if let Some(coordination) = coordination {
                let coordinator = &coordination.coordinator;
                self.board
                    .coordinating(coordinator.flight(), coordinator.failed_in_a_row());
            }
            if let Some(stopping) = stopping
                && clock::now() >= stopping.by
            {
                let text = format!(
                    "no last checkpoint within {} s: {}",
                    stopping.within.as_secs_f64(),
                    self.board.facts().waits_for().replace('\n', "\n  ")
                );
                log::warn(&text);
                stopping.waited_for = Some(text);
                return Outcome::Ending(Ending::StoppedWithoutCheckpoint);
            }
            self.progress.show(&Sample {
                read: attempt.meters.read(),
                share: attempt.meters.share(),
                checkpoint: coordination
                    .as_ref()
                    .map(|c| c.coordinator.confirmed())
                    .filter(|n| *n > 0),
            });
        }
    }

    fn act(
        &mut self,
        attempt: &Attempt,
        coordination: &mut Coordination<'_>,
        action: Action,
        events: &mut VecDeque<Event>,
    ) -> Option<Outcome> {
        let driver = &mut *coordination.driver;
        match action {
            Action::InjectBarrier { n, last } => {
                coordination.since = Some(clock::now());
                let base = coordination.coordinator.confirmed();
                for (_, control) in &attempt.sources {
                    control.inject(Barrier { n, last, base });
                }
            }
            Action::StoreManifest { manifest } => {
                coordination.since.get_or_insert_with(clock::now);
                self.positions.stored(&manifest);
                let event = driver.store_manifest(*manifest, self.blueprint.clock.reading());
                if let Event::ManifestFailed { n, why } = &event
                    && coordination.transactional
                {
                    log::warn(&format!(
                        "checkpoint {n} could not be stored, trying again: {why}"
                    ));
                }
                events.push_back(event);
            }
            Action::CommitSlot { n, digest } => {
                coordination.committing = Some(clock::now());
                match driver.marker(n, digest) {
                    None => events.push_back(driver.commit(n, digest)),
                    Some((markers, marker)) => {
                        let sender = coordination.sender.clone();
                        // A broker that does not answer must not keep the supervisor from anything else.
                        let commits = move || {
                            let marked = markers.commit(&marker);
                            // The attempt is over: recovery finds out what came of it.
                            let _ = sender.send(Message::Marked(n, digest, marked));
                        };
                        let thread = std::thread::Builder::new().name("commit".into());
                        if let Err(error) = thread.spawn(commits) {
                            let why = format!("cannot start a thread: {error}");
                            return Some(Outcome::Failed(Failure::of_system(&why)));
                        }
                    }
                }
            }
            Action::Publish { n, parts } => {
                let committing = coordination.committing.take();
                let committed_in =
                    committing.map(|since| clock::now().saturating_duration_since(since));
                let published = driver.publish(n, &parts);
                if matches!(published, Event::Published { .. }) {
                    if let Some(took) = committed_in {
                        attempt.meters.stages.committed(took);
                    }
                    let in_parts: u64 = parts.iter().map(|part| part.records).sum();
                    let records = in_parts + std::mem::take(&mut coordination.sent);
                    let since = coordination.since.take().unwrap_or_else(clock::now);
                    let took = clock::now().saturating_duration_since(since);
                    let bytes = std::mem::take(&mut coordination.bytes);
                    let text = format!(
                        "checkpoint {n} committed: records {records}, parts {}, state {bytes} bytes, {} ms",
                        parts.len(),
                        took.as_millis()
                    );
                    self.progress.note(n, &text);
                    let cost = Cost {
                        took,
                        committed_in,
                        state_bytes: bytes,
                        records,
                        parts: parts.len() as u64,
                    };
                    self.board.committed(n, cost);
                    log::caught_up();
                    self.positions.confirmed(n);
                    self.restarts.confirmed();
                    if self.restarts.in_a_row() == 0 {
                        self.board.healthy();
                    }
                }
                events.push_back(published);
            }
            Action::Collect { n } => {
                if let Err(error) = driver.collect(n) {
                    log::warn(&format!(
                        "old checkpoints could not be removed, trying again after the next one: {error}"
                    ));
                }
            }
            Action::Warn(warning) => {
                let line = Line::new(Level::Warn, warning.to_string());
                log::write(line.code(warning.code()).checkpoint(warning.n));
                self.board.checkpoint_failed(warning.why);
            }
            Action::FailAttempt { why, permanent } => {
                return Some(Outcome::Failed(Failure::of_coordinator(&why, permanent)));
            }
            Action::Finished { .. } => return Some(Outcome::Ending(Ending::Finished)),
            Action::Stopped { .. } => return Some(Outcome::Ending(Ending::Stopped)),
        }
        None
    }
}

/// Notes another request to stop; the one that wants it soonest counts.
fn more_impatient(stopping: &mut Option<Stopping>, within: Duration) {
    // A time beyond the clock's reach is as good as none: whoever waits so long may ask again.
    let now = clock::now();
    let by = now.checked_add(within).unwrap_or(now);
    if stopping.as_ref().is_none_or(|stopping| by < stopping.by) {
        *stopping = Some(Stopping {
            by,
            within,
            waited_for: None,
        });
    }
}
