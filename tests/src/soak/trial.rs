//! One job, killed until it has been killed often enough, and then run to its end.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::Tally;
use super::subject::{Lines, Subject};
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

/// How long one of two processes is waited for before the other is looked at.
const POLL: Duration = Duration::from_millis(2);

/// About so long the slow input of a job lasts at the least, in seconds.
const SECONDS: u64 = 6;

/// Points that a process passes once at most.
const ONCE: [&str; 10] = [
    "before-claim",
    "after-claim",
    "after-components",
    "after-fence",
    "after-resolve",
    "after-claim-marker",
    "after-marker",
    "mid-adoption",
    "after-adoption",
    "after-last-commit",
];
/// Points that only a job that has begun from nothing passes.
const FIRST: [&str; 1] = ["after-marker"];
/// Points at the end of the input.
const LAST: [&str; 2] = ["end-of-input", "after-last-commit"];

/// What a host says of each checkpoint that is committed.
pub(super) const COMMITTED: &str = " committed: records ";

/// A job under trial.
pub(super) struct Trial<'a> {
    pub(super) place: Place,
    pub(super) random: Random,
    pub(super) subject: &'a dyn Subject,
    pub(super) tally: &'a RefCell<Tally>,
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
        subject: &'a dyn Subject,
        tally: &'a RefCell<Tally>,
    ) -> Trial<'a> {
        Trial {
            place: Place::at(host, folder),
            random,
            subject,
            tally,
            endless: false,
        }
    }

    /// Writes the job file with the input drawn out over so many seconds at the least, more if everything takes longer.
    pub(super) fn feed_slowly(&self, seconds: u64) {
        let seconds = seconds * u64::from(self.subject.slowness());
        self.place.write_job(&self.subject.text(Some(seconds)));
    }

    /// Writes the job file with input that is read as fast as it goes.
    pub(super) fn feed_fast(&self) {
        self.place.write_job(&self.subject.text(None));
    }

    pub(super) fn parallelism(&mut self) -> Start {
        Start::at(self.random.pick(&PARALLELISMS))
    }

    pub(super) fn at_random_moments(&mut self, kills: u32) -> Result<(), String> {
        self.feed_slowly(SECONDS);
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
            let moment = self.random.time(STARTING * self.subject.slowness());
            process.within(moment);
        } else {
            process.says("attempt ", 1, HANGS);
            let moment = self.random.time(RUNNING * self.subject.slowness());
            process.within(moment);
        }
        let exit = process.kill();
        self.judge(&exit)
    }

    /// Whether a process that may have been killed was, or ended well by itself; anything else is a failure.
    pub(super) fn judge(&mut self, exit: &Exit) -> Result<Fate, String> {
        if exit.killed() {
            self.tally.borrow_mut().kills += 1;
            return self.nothing_too_early().map(|()| Fate::Killed);
        }
        match exit.code() {
            Some(0) => Ok(Fate::Finished),
            _ => Err(format!("the job ended by itself:\n{}", exit.log)),
        }
    }

    pub(super) fn at_every_point(&mut self, passings: u32) -> Result<(), String> {
        let subject = self.subject;
        let all = || subject.points().into_iter();
        // Kills before anything is committed, so that the next start is again the first.
        self.feed_slowly(2 * SECONDS);
        for point in all().filter(|point| FIRST.contains(point) || ONCE[..2].contains(point)) {
            self.kill_at(point, 1)?;
        }
        // From here on there is something to restore.
        self.runs_for_a_while()?;
        for passing in 1..=passings {
            for point in all().filter(|point| !FIRST.contains(point) && !LAST.contains(point)) {
                if passing > 1 && ONCE.contains(&point) {
                    continue;
                }
                if point == "mid-adoption" {
                    // It is passed between two parts.
                    self.runs_for_a_while()?;
                }
                if point == "after-resolve" {
                    // It is passed if there is something that only Kafka knows: the first transaction is the claim, the second a checkpoint.
                    self.kill_at("after-transaction", 2)?;
                }
                if self.kill_at(point, passing)? == Fate::Finished {
                    return Err(format!(
                        "the input ended before `{point}` had been passed {passing} times"
                    ));
                }
            }
        }
        self.feed_fast();
        for passing in 1..=passings {
            self.kill_at(LAST[0], passing)?;
        }
        self.kill_at(LAST[1], 1)?;
        self.finish()
    }

    /// Killed when it has taken several checkpoints with several subtasks, so that there are several open parts.
    fn runs_for_a_while(&mut self) -> Result<(), String> {
        let mut process = self.place.start(&Start::at(4));
        running(&mut process)?;
        process.says(COMMITTED, 5, HANGS);
        let exit = process.kill();
        self.judge(&exit).map(|_| ())
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
            self.tally.borrow_mut().killed_at(point);
            return self.nothing_too_early().map(|()| Fate::Killed);
        }
        self.judge(&exit)
    }

    /// Runs the job to its end and compares.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        self.feed_fast();
        let start = self.parallelism();
        let exit = self.place.run_with(&start);
        if exit.code() != Some(0) || !exit.log.contains("finished") {
            return Err(format!("the last run did not finish:\n{}", exit.log));
        }
        let (found, in_order) = self.subject.committed_in_the_end(&self.place);
        self.compare_all(&found)?;
        in_order?;
        let left = leftovers(self.place.dir());
        if !left.is_empty() {
            return Err(format!("left behind: {left:?}"));
        }
        let again = self.place.run_with(&start);
        if again.code() != Some(0) || !again.log.contains("finished already") {
            return Err(format!("a finished job run again says:\n{}", again.log));
        }
        self.compare_all(&self.subject.committed(&self.place))
    }

    /// Compares what every sink committed with the undisturbed run.
    fn compare_all(&self, found: &Lines) -> Result<(), String> {
        for (sink, expected) in self.subject.expected() {
            self.compare(sink, expected, &found[sink])?;
        }
        Ok(())
    }

    /// Compares what one sink committed.
    pub(super) fn compare(
        &self,
        sink: &str,
        expected: &[String],
        found: &[String],
    ) -> Result<(), String> {
        let difference = Difference::between(expected, found);
        if difference.is_none() {
            return Ok(());
        }
        self.tally.borrow_mut().differs(&difference);
        Err(format!(
            "sink `{sink}` differs from an undisturbed run:\n{difference}"
        ))
    }

    /// What a killed job has published so far is part of what it publishes in the end: readers need not wait for it.
    pub(super) fn nothing_too_early(&self) -> Result<(), String> {
        if self.endless {
            return Ok(());
        }
        let found = self.subject.committed(&self.place);
        for (sink, expected) in self.subject.expected() {
            let Difference { doubled, .. } = Difference::between(expected, &found[sink]);
            if !doubled.is_empty() {
                let difference = Difference {
                    doubled,
                    ..Difference::default()
                };
                self.tally.borrow_mut().differs(&difference);
                return Err(format!(
                    "sink `{sink}` published what it should not have:\n{difference}"
                ));
            }
        }
        Ok(())
    }

    /// Two starts of one job: the second is refused, however often, and the first does not notice. Of two that begin at once, so many
    /// times, one is refused.
    pub(super) fn twice(&mut self, times: u32) -> Result<(), String> {
        self.feed_slowly(SECONDS);
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
            let mut second = self.place.start(&start);
            self.is_refused(&mut second, &first)?;
            goes_on(&mut first)?;
            let exit = first.kill();
            self.judge(&exit)?;
        }
        for _ in 0..times {
            let start = self.parallelism();
            let [mut one, mut other] = [self.place.start(&start), self.place.start(&start)];
            let until = Instant::now() + HANGS;
            let first_ended = loop {
                if Instant::now() >= until {
                    return Err(format!("both run:\n{}", one.log()));
                }
                if one.within(POLL).is_some() {
                    break true;
                }
                if other.within(POLL).is_some() {
                    break false;
                }
            };
            let (mut owner, mut refused) = if first_ended {
                (other, one)
            } else {
                (one, other)
            };
            self.is_refused(&mut refused, &owner)?;
            running(&mut owner)?;
            let exit = owner.kill();
            if self.judge(&exit)? == Fate::Finished {
                return Err("the input ended before two had begun at once often enough".to_owned());
            }
        }
        self.finish()
    }

    /// The process is refused because of the other one, and says so.
    fn is_refused(&self, process: &mut Process, owner: &Process) -> Result<(), String> {
        let exit = process.end();
        let named = format!("pid {},", owner.pid().as_raw_nonzero());
        let refused = exit.code() == Some(4) && exit.log.contains("error[W0501]");
        if refused && exit.log.contains(&named) {
            return Ok(());
        }
        Err(format!(
            "a second start was not refused because of {named} its log:\n{}\nthat of the other:\n{}",
            exit.log,
            owner.log()
        ))
    }
}

/// Waits until the job runs.
pub(super) fn running(process: &mut Process) -> Result<(), String> {
    if process.says(COMMITTED, 1, HANGS) {
        Ok(())
    } else {
        Err(format!("the job does not run:\n{}", process.log()))
    }
}

/// Waits until the job has committed twice more: what was in flight, and something new.
pub(super) fn goes_on(process: &mut Process) -> Result<(), String> {
    let before = process.log().matches(COMMITTED).count();
    if process.says(COMMITTED, before + 2, HANGS) {
        Ok(())
    } else {
        Err(format!("the job does not go on:\n{}", process.log()))
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
