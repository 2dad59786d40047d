//! What the run loop knows of itself, on display: it writes, the control socket, `/metrics` and the watchdog read.
//!
//! Everything here is a few words under a lock that is never held over input or output, so that no reader can hold up the run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::checkpoint::coordinator::Flight;
use crate::clock;
use crate::metrics::{Meters, NodeMeter, Phase, TaskMeter};

/// A run loop that has not come round for so long hangs.
const HEARTBEAT_BOUND: Duration = Duration::from_secs(60);

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Components are compiled and checked, directories looked at.
    Starting,
    /// Checkpoint storage is read, an attempt is claimed, what was committed is published.
    Recovering,
    /// The tasks of an attempt are there.
    Attempt,
    /// A stop was asked for: a last checkpoint is being taken.
    Stopping,
    /// An attempt failed, and the next one begins at this time.
    Restarting(Instant),
    /// Nothing follows.
    Ended,
}

/// The last committed checkpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Committed {
    /// Its number.
    pub n: u64,
    /// How old its barrier was when it was noted, and when that was.
    noted: (Duration, Instant),
    /// What it took and wrote; `None` for the one that the run began with.
    pub cost: Option<Cost>,
}

impl Committed {
    /// The age of its barrier.
    pub fn age(&self) -> Duration {
        let (then, at) = self.noted;
        then + clock::now().saturating_duration_since(at)
    }
}

/// What a checkpoint took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// From its barrier until its output was visible.
    pub took: Duration,
    /// Of that, its commit; `None` for one that could not be timed.
    pub committed_in: Option<Duration>,
    /// Bytes of state written.
    pub state_bytes: u64,
    /// Records that became visible.
    pub records: u64,
    /// Parts that became visible.
    pub parts: u64,
}

/// Why an attempt or a checkpoint failed, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mishap {
    /// What was said.
    pub text: String,
    /// When.
    pub at: Instant,
}

/// Everything on display.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Where the run stands.
    pub stage: Stage,
    /// The attempt, 0 before the first and for a job without checkpoints.
    pub attempt: u64,
    /// Short name of the lineage, if there is one.
    pub lineage: Option<String>,
    /// What the attempt counts.
    pub meters: Option<Arc<Meters>>,
    /// Why sources pause and no checkpoint is begun, if that is so.
    pub paused: Option<String>,
    /// Whether checkpoints are taken.
    pub checkpoints: bool,
    /// The last committed one.
    pub committed: Option<Committed>,
    /// Committed by this process.
    pub commits: u64,
    /// The one being taken.
    pub flight: Option<Flight>,
    /// Failed since the last committed one.
    pub failed_in_a_row: u32,
    /// Failed in this process.
    pub failed: u64,
    /// Why the last one did.
    pub last_failed: Option<Mishap>,
    /// Restarts of this process.
    pub restarts: u64,
    /// Restarts since the job was last in good health.
    pub restarts_in_a_row: u32,
    /// Why the last attempt failed.
    pub last_error: Option<Mishap>,
}

/// See the module.
#[derive(Debug)]
pub struct Board {
    /// The job.
    pub job: String,
    /// When the process began to run it.
    pub began: Instant,
    facts: Mutex<Facts>,
    /// When the run loop last came round, on [`clock::nanos`].
    beat: AtomicU64,
}

impl Board {
    /// The board of a run that starts now.
    pub fn new(job: &str) -> Board {
        Board {
            job: job.to_owned(),
            began: clock::now(),
            facts: Mutex::new(Facts {
                stage: Stage::Starting,
                attempt: 0,
                lineage: None,
                meters: None,
                paused: None,
                checkpoints: false,
                committed: None,
                commits: 0,
                flight: None,
                failed_in_a_row: 0,
                failed: 0,
                last_failed: None,
                restarts: 0,
                restarts_in_a_row: 0,
                last_error: None,
            }),
            beat: AtomicU64::new(clock::nanos()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is on display now.
    pub fn facts(&self) -> Facts {
        self.lock().clone()
    }

    /// The run loop came round.
    pub fn beat(&self) {
        self.beat.store(clock::nanos(), Ordering::Relaxed);
    }

    /// How long ago the run loop last came round.
    pub fn heartbeat(&self) -> Duration {
        let beat = self.beat.load(Ordering::Relaxed);
        Duration::from_nanos(clock::nanos().saturating_sub(beat))
    }

    /// Whether the run is alive: its loop comes round, or it is where there is no loop yet.
    ///
    /// Compiling and recovering take as long as they take; whoever wants to bound that looks at [`Board::ready`].
    ///
    /// # Errors
    /// Why it is not.
    pub fn alive(&self) -> Result<(), String> {
        let stage = self.lock().stage;
        let heartbeat = self.heartbeat();
        if hangs(stage, heartbeat) {
            return Err(format!(
                "the coordinator has not answered for {} s",
                heartbeat.as_secs()
            ));
        }
        Ok(())
    }

    /// Whether the job is restored and runs.
    ///
    /// # Errors
    /// What it does instead.
    pub fn ready(&self) -> Result<(), &'static str> {
        match self.lock().state() {
            "running" => Ok(()),
            other => Err(other),
        }
    }

    /// The run stands elsewhere now.
    pub fn stage(&self, stage: Stage) {
        self.beat();
        self.lock().stage = stage;
    }

    /// The job takes checkpoints.
    pub fn takes_checkpoints(&self) {
        self.lock().checkpoints = true;
    }

    /// An attempt goes on from checkpoint `restored`, if that is not `None`, whose barrier is so old.
    pub fn claimed(&self, attempt: u64, lineage: &str, restored: Option<(u64, Duration)>) {
        let mut facts = self.lock();
        facts.attempt = attempt;
        facts.lineage = Some(lineage.to_owned());
        // What this process committed itself is known better.
        if let Some((n, age)) = restored
            && facts.committed.is_none_or(|committed| committed.n != n)
        {
            facts.committed = Some(Committed {
                n,
                noted: (age, clock::now()),
                cost: None,
            });
        }
    }

    /// The tasks of an attempt are there.
    pub fn attempt(&self, meters: &Arc<Meters>) {
        self.beat();
        let mut facts = self.lock();
        facts.stage = Stage::Attempt;
        facts.meters = Some(meters.clone());
        facts.flight = None;
        facts.paused = None;
        facts.failed_in_a_row = 0;
    }

    /// Sources pause for this reason, or go on.
    pub fn paused(&self, why: Option<String>) {
        self.lock().paused = why;
    }

    /// How the coordinator stands.
    pub fn coordinating(&self, flight: Option<Flight>, failed_in_a_row: u32) {
        let mut facts = self.lock();
        facts.flight = flight;
        facts.failed_in_a_row = failed_in_a_row;
    }

    /// Checkpoint `n` is committed, its output visible.
    pub fn committed(&self, n: u64, cost: Cost) {
        let mut facts = self.lock();
        facts.commits += 1;
        facts.committed = Some(Committed {
            n,
            noted: (cost.took, clock::now()),
            cost: Some(cost),
        });
    }

    /// A checkpoint failed.
    pub fn checkpoint_failed(&self, why: String) {
        let at = clock::now();
        let mut facts = self.lock();
        facts.failed += 1;
        facts.last_failed = Some(Mishap { text: why, at });
    }

    /// The attempt failed; the next one begins after a pause.
    pub fn restarting(&self, why: String, in_a_row: u32, after: Duration) {
        let at = clock::now();
        let mut facts = self.lock();
        facts.stage = Stage::Restarting(at.checked_add(after).unwrap_or(at));
        facts.flight = None;
        facts.restarts += 1;
        facts.restarts_in_a_row = in_a_row;
        facts.last_error = Some(Mishap { text: why, at });
    }

    /// Restarts in a row begin anew.
    pub fn healthy(&self) {
        self.lock().restarts_in_a_row = 0;
    }
}

/// Whether a run loop hangs that last came round so long ago.
fn hangs(stage: Stage, heartbeat: Duration) -> bool {
    let loops = matches!(stage, Stage::Attempt | Stage::Stopping);
    loops && heartbeat > HEARTBEAT_BOUND
}

/// What a task does that has been in one call for a while.
fn long_call(task: &TaskMeter) -> Option<String> {
    const WHILE: Duration = Duration::from_millis(500);
    let call = |node: &NodeMeter| {
        let time = node.counters.in_call_for().filter(|time| *time >= WHILE)?;
        Some(format!(
            "has been in a call of `{}` for {:.1} s",
            node.id,
            time.as_secs_f64()
        ))
    };
    task.nodes.iter().find_map(call)
}

impl Facts {
    /// The state in a word, one of [`super::status::STATES`].
    pub fn state(&self) -> &'static str {
        match self.stage {
            Stage::Starting => "starting",
            Stage::Recovering => "recovering",
            Stage::Attempt => {
                let starting = |meters: &Arc<Meters>| {
                    let mut tasks = meters.tasks.iter();
                    tasks.any(|task| task.phase() == Phase::Starting)
                };
                if self.meters.as_ref().is_some_and(starting) {
                    "restoring"
                } else {
                    "running"
                }
            }
            Stage::Stopping => "stopping",
            Stage::Restarting(_) => "restarting",
            Stage::Ended => "ended",
        }
    }

    /// Tasks that have not yet made durable what belongs to the checkpoint in flight, and how far each is with it.
    pub fn awaited(&self) -> Vec<String> {
        let (Some(flight), Some(meters)) = (&self.flight, &self.meters) else {
            return Vec::new();
        };
        let left = meters.tasks.iter().filter(|task| {
            task.stored() < flight.n && task.phase() != Phase::Ended && flight.aligning()
        });
        left.map(|task| {
            let how = if task.phase() == Phase::Starting {
                "is still restoring".to_owned()
            } else if let Some(call) = long_call(task) {
                call
            } else if task.passed() < flight.n {
                "has not passed its barrier".to_owned()
            } else {
                "is storing its state".to_owned()
            };
            format!("{} {how}", task.name)
        })
        .collect()
    }

    /// Tasks that still work off what sources, which have all ended, have sent: no checkpoint is begun before they are done.
    fn draining(&self) -> Vec<String> {
        let tasks = self.meters.iter().flat_map(|meters| &meters.tasks);
        let mut left: Vec<_> = tasks.filter(|task| task.phase() != Phase::Ended).collect();
        // A source has no inbox.
        if left.iter().any(|task| task.inbox().is_none()) {
            left.clear();
        }
        let works = || "works off its input".to_owned();
        left.iter()
            .map(|task| format!("{} {}", task.name, long_call(task).unwrap_or_else(works)))
            .collect()
    }

    /// What the checkpoint in flight, or the next try of one, waits for; in a line or more.
    pub fn waits_for(&self) -> String {
        /// Tasks named; a wide job has thousands.
        const NAMED: usize = 5;
        let (mut text, awaited) = match &self.flight {
            Some(flight) => {
                let text = format!("checkpoint {} {}", flight.n, flight.doing());
                (text, self.awaited())
            }
            None => ("no checkpoint is being taken".to_owned(), self.draining()),
        };
        if !awaited.is_empty() {
            let named = &awaited[..awaited.len().min(NAMED)];
            text.push_str(&format!(": {}", named.join(", ")));
            if awaited.len() > NAMED {
                text.push_str(&format!(" and {} more", awaited.len() - NAMED));
            }
        }
        if self.failed_in_a_row > 0
            && let Some(failed) = &self.last_failed
        {
            let times = self.failed_in_a_row;
            text.push_str(&format!(
                "\n{times} failed in a row, the last one: {}",
                failed.text
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_does_not_come_round_hangs_and_what_has_no_loop_does_not() {
        let (just, long) = (HEARTBEAT_BOUND, HEARTBEAT_BOUND * 2);
        for stage in [Stage::Attempt, Stage::Stopping] {
            assert!(!hangs(stage, just) && hangs(stage, long), "{stage:?}");
        }
        let later = Stage::Restarting(clock::now());
        for stage in [Stage::Starting, Stage::Recovering, later, Stage::Ended] {
            assert!(!hangs(stage, long), "{stage:?}");
        }
    }

    #[test]
    fn states_follow_the_run_and_each_is_a_known_one() {
        let board = Board::new("j");
        let seen = |stage| {
            board.stage(stage);
            let state = board.facts().state();
            assert!(super::super::status::STATES.contains(&state), "{state}");
            (state, board.ready().is_ok())
        };
        assert_eq!(seen(Stage::Starting), ("starting", false));
        assert_eq!(seen(Stage::Recovering), ("recovering", false));
        assert_eq!(seen(Stage::Attempt), ("running", true));
        assert_eq!(seen(Stage::Stopping), ("stopping", false));
        assert_eq!(seen(Stage::Restarting(clock::now())), ("restarting", false));
        assert_eq!(seen(Stage::Ended), ("ended", false));
    }

    #[test]
    fn a_checkpoint_ages_from_its_barrier_and_what_was_restored_from_its_manifest() {
        let board = Board::new("j");
        board.claimed(2, "338a72b8", Some((41, Duration::from_secs(3_600))));
        let age = |board: &Board| board.facts().committed.expect("there is one").age();
        assert!(age(&board) >= Duration::from_secs(3_600));
        let cost = Cost {
            took: Duration::from_secs(5),
            ..Cost::default()
        };
        board.committed(42, cost);
        let fresh = age(&board);
        assert!(
            fresh >= cost.took && fresh < Duration::from_secs(3_600),
            "{fresh:?}"
        );
        // A restart from it does not make it older than it is.
        board.claimed(3, "338a72b8", Some((42, Duration::from_secs(7_200))));
        assert!(age(&board) < Duration::from_secs(3_600));
        assert_eq!(board.facts().commits, 1);
    }

    #[test]
    fn what_a_stop_waits_for_names_the_last_failure() {
        let board = Board::new("j");
        assert_eq!(board.facts().waits_for(), "no checkpoint is being taken");
        board.checkpoint_failed("manifest 7.1: no space left on device".to_owned());
        board.coordinating(None, 3);
        assert_eq!(
            board.facts().waits_for(),
            "no checkpoint is being taken\n3 failed in a row, the last one: manifest 7.1: no space left on device"
        );
    }
}
