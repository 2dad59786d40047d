//! One job, killed until it has been killed often enough, and then run to its end.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;

use super::Tally;
use super::job::{self, Input, Kind, Reference};
use crate::host::{Exit, HANGS, Host, Process};
use crate::output::{Difference, leftovers};
use crate::place::{Place, Start};
use crate::random::Random;

/// What a job goes on at after a kill.
const PARALLELISMS: [u16; 3] = [1, 2, 4];

/// A random kill comes so long after the start at most, if it is to hit the start itself.
const STARTING: Duration = Duration::from_millis(1_500);

/// A random kill comes so long after the job began to run at most, if it is to hit the job itself.
const RUNNING: Duration = Duration::from_millis(450);

/// About so long the slow input of a job lasts at the least, in seconds.
const SECONDS: u64 = 6;

/// Points that a process passes once at most.
const ONCE: [&str; 7] = [
    "before-claim",
    "after-claim",
    "after-components",
    "after-marker",
    "mid-adoption",
    "after-adoption",
    "after-last-commit",
];
/// Points that only a job that has begun from nothing passes.
const FIRST: [&str; 1] = ["after-marker"];
/// Points that only a job which writes to Kafka passes, and these do not.
const KAFKA: [&str; 8] = [
    "before-flush",
    "after-prepare",
    "after-fence",
    "after-resolve",
    "after-claim-marker",
    "marker-produced",
    "inside-commit",
    "after-transaction",
];
/// Points at the end of the input.
const LAST: [&str; 2] = ["end-of-input", "after-last-commit"];

/// The fault points that the jobs here pass.
pub fn points() -> impl Iterator<Item = &'static str> {
    let all = weir::fault_point::ALL.iter().copied();
    all.filter(|point| !KAFKA.contains(point))
}

/// What is done to a job.
#[derive(Clone, Copy, Debug)]
pub enum Manner {
    /// Killed at so many random moments.
    Random {
        /// How many.
        kills: u32,
    },
    /// Killed at every fault point, each time it passes it for the first, second, … time.
    Points {
        /// Up to which passing.
        passings: u32,
    },
    /// Endless input, killed at random moments, stopped with SIGTERM in the end.
    Unbounded {
        /// How many kills.
        kills: u32,
    },
    /// Killed while its sources end, one small job after the other.
    Endings {
        /// How many jobs.
        jobs: u32,
    },
    /// Started a second time while it runs.
    Twice,
    /// Frozen at random moments while another host, out of reach of its locks, takes the job over.
    Frozen {
        /// How often.
        times: u32,
    },
}

/// A job and what is done to it.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The job.
    pub kind: Kind,
    /// What is done to it.
    pub manner: Manner,
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let manner = match self.manner {
            Manner::Random { .. } => "random",
            Manner::Points { .. } => "points",
            Manner::Unbounded { .. } => "unbounded",
            Manner::Endings { .. } => "endings",
            Manner::Twice => "twice",
            Manner::Frozen { .. } => "frozen",
        };
        write!(f, "{}-{manner}", self.kind.name())
    }
}

/// A scenario under way.
pub(super) struct Trial<'a> {
    pub(super) place: Place,
    pub(super) random: Random,
    pub(super) reference: &'a Reference,
    pub(super) tally: Tally,
    /// Whether the input has no end, so that the undisturbed run of the whole is no measure.
    pub(super) endless: bool,
}

/// What became of a process that was to be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Killed,
    /// The job was faster.
    Finished,
}

impl<'a> Trial<'a> {
    pub(super) fn new(
        host: &'static Host,
        folder: PathBuf,
        random: Random,
        reference: &'a Reference,
    ) -> Trial<'a> {
        Trial {
            place: Place::at(host, folder),
            random,
            reference,
            tally: Tally::default(),
            endless: false,
        }
    }

    pub(super) fn into_tally(self) -> Tally {
        self.tally
    }

    pub(super) fn carry_out(&mut self, manner: Manner) -> Result<(), String> {
        match manner {
            Manner::Random { kills } => self.at_random_moments(kills),
            Manner::Points { passings } => self.at_every_point(passings),
            Manner::Unbounded { kills } => self.unbounded(kills),
            Manner::Endings { jobs } => self.endings(jobs),
            Manner::Twice => self.twice(),
            Manner::Frozen { times } => self.frozen(times),
        }
    }

    /// Writes the job file with this input.
    pub(super) fn feed(&self, input: &Input) {
        let Reference { kind, folder, .. } = self.reference;
        self.place.write_job(&job::text(*kind, input, folder));
    }

    pub(super) fn parallelism(&mut self) -> Start {
        Start::at(self.random.pick(&PARALLELISMS))
    }

    fn at_random_moments(&mut self, kills: u32) -> Result<(), String> {
        self.feed(&Input::drawn_out(self.reference.kind, SECONDS));
        for _ in 0..kills {
            if self.kill_at_random()? == Fate::Finished {
                break;
            }
        }
        self.finish()
    }

    /// Starts the job and kills it at a random moment of its start or of its work.
    pub(super) fn kill_at_random(&mut self) -> Result<Fate, String> {
        let start = self.parallelism();
        let mut process = self.place.start(&start);
        if self.random.below(4) == 0 {
            let moment = self.random.time(STARTING);
            process.within(moment);
        } else {
            process.says("attempt ", 1, HANGS);
            let moment = self.random.time(RUNNING);
            process.within(moment);
        }
        let exit = process.kill();
        self.judge(&exit)
    }

    /// Whether a process that may have been killed was, or ended well by itself; anything else is a failure.
    pub(super) fn judge(&mut self, exit: &Exit) -> Result<Fate, String> {
        if exit.killed() {
            self.tally.kills += 1;
            return self.nothing_too_early().map(|()| Fate::Killed);
        }
        match exit.code() {
            Some(0) => Ok(Fate::Finished),
            _ => Err(format!("the job ended by itself:\n{}", exit.log)),
        }
    }

    fn at_every_point(&mut self, passings: u32) -> Result<(), String> {
        let slow = Input::drawn_out(self.reference.kind, 2 * SECONDS);
        let all = points;
        // Kills before anything is committed, so that the next start is again the first.
        self.feed(&slow);
        for point in all().filter(|point| FIRST.contains(point) || ONCE[..2].contains(point)) {
            self.kill_at(point, 1)?;
        }
        // From here on there is something to restore.
        let start = self.parallelism();
        let mut process = self.place.start(&start);
        running(&mut process)?;
        // Several checkpoints, so that several sinks have parts open.
        process.says("committed", 4, HANGS);
        let exit = process.kill();
        self.judge(&exit)?;
        for passing in 1..=passings {
            for point in all().filter(|point| !FIRST.contains(point) && !LAST.contains(point)) {
                if (passing == 1 || !ONCE.contains(&point))
                    && self.kill_at(point, passing)? == Fate::Finished
                {
                    return Err(format!(
                        "the input ended before `{point}` had been passed {passing} times"
                    ));
                }
            }
        }
        self.feed(&Input::whole());
        for passing in 1..=passings {
            self.kill_at(LAST[0], passing)?;
        }
        self.kill_at(LAST[1], 1)?;
        self.finish()
    }

    fn kill_at(&mut self, point: &'static str, passing: u32) -> Result<Fate, String> {
        let mut start = self.parallelism();
        if point == "during-restore" {
            // It is passed once a subtask at least.
            start.parallelism = Some(4);
        }
        start.fault = Some((point.to_owned(), passing));
        let exit = self.place.run_with(&start);
        if exit.killed() {
            self.tally.killed_at(point);
            return self.nothing_too_early().map(|()| Fate::Killed);
        }
        self.judge(&exit)
    }

    /// Runs the job to its end and compares.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        self.feed(&Input::whole());
        let start = self.parallelism();
        let exit = self.place.run_with(&start);
        if exit.code() != Some(0) || !exit.log.contains("finished") {
            return Err(format!("the last run did not finish:\n{}", exit.log));
        }
        self.compare_all()?;
        let left = leftovers(self.place.dir());
        if !left.is_empty() {
            return Err(format!("left behind: {left:?}"));
        }
        let again = self.place.run_with(&start);
        if again.code() != Some(0) || !again.log.contains("finished already") {
            return Err(format!("a finished job run again says:\n{}", again.log));
        }
        self.compare_all()
    }

    /// Compares what every sink committed with the undisturbed run.
    pub(super) fn compare_all(&mut self) -> Result<(), String> {
        let reference = self.reference;
        for (sink, expected) in &reference.lines {
            self.compare(sink, expected)?;
        }
        Ok(())
    }

    /// Compares what one sink committed.
    pub(super) fn compare(&mut self, sink: &str, expected: &[String]) -> Result<(), String> {
        let difference = Difference::between(expected, &self.place.committed(sink));
        if difference.is_none() {
            return Ok(());
        }
        self.tally.lost += difference.lost.len() as u64;
        self.tally.doubled += difference.doubled.len() as u64;
        Err(format!(
            "sink `{sink}` differs from an undisturbed run:\n{difference}"
        ))
    }

    /// What a killed job has published so far is part of what it publishes in the end: readers need not wait for it.
    fn nothing_too_early(&mut self) -> Result<(), String> {
        if self.endless {
            return Ok(());
        }
        let reference = self.reference;
        for (sink, expected) in &reference.lines {
            let difference = Difference::between(expected, &self.place.committed(sink));
            if !difference.doubled.is_empty() {
                self.tally.doubled += difference.doubled.len() as u64;
                return Err(format!(
                    "sink `{sink}` published what it should not have:\n{difference}"
                ));
            }
        }
        Ok(())
    }

    /// Two starts of one job: the second is refused, however often, and the first does not notice.
    fn twice(&mut self) -> Result<(), String> {
        self.feed(&Input::drawn_out(self.reference.kind, SECONDS));
        for elsewhere in [false, true] {
            let mut first = self.place.start(&Start::at(2));
            running(&mut first)?;
            // Another data directory does not help: checkpoint storage is locked as well.
            let mut start = Start::at(1);
            if elsewhere {
                start.args = vec![
                    "--data-dir".to_owned(),
                    self.place.path("elsewhere").display().to_string(),
                ];
            }
            let second = self.place.run_with(&start);
            if second.code() != Some(4) || !second.log.contains("error[W0501]") {
                return Err(format!("a second start was not refused:\n{}", second.log));
            }
            let before = first.log().matches("committed").count();
            if !first.says("committed", before + 2, HANGS) {
                return Err(format!("the first one did not go on:\n{}", first.log()));
            }
            let exit = first.kill();
            self.judge(&exit)?;
        }
        self.finish()
    }
}

/// Waits until the job runs.
pub(super) fn running(process: &mut Process) -> Result<(), String> {
    if process.says("committed", 1, HANGS) {
        Ok(())
    } else {
        Err(format!("the job does not run:\n{}", process.log()))
    }
}

/// Stops the process where it is, as a virtual machine is that is being moved.
pub(super) fn freeze(process: &mut Process) {
    process.signal(Signal::STOP);
}

/// Lets it go on.
pub(super) fn thaw(process: &mut Process) {
    process.signal(Signal::CONT);
}
