//! Hosts that do nothing for longer than brokers let a transaction be open: they stand still, or are not there.

use std::thread;
use std::time::Duration;

use super::super::trial::{COMMITTED, Fate, Trial, freeze, goes_on, thaw};
use super::job::{Kind, Times};
use super::wired::Wired;
use super::{Stage, at_length};
use crate::host::{HANGS, Process};
use crate::place::Start;

/// How a host stops doing anything.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// With SIGSTOP, at a random moment.
    Frozen,
    /// With SIGKILL, at a random moment.
    Killed,
    /// At a fault point of its third checkpoint or so.
    KilledAt(&'static str),
}

/// The first ones say most.
const JOBS: [(Kind, Way); 7] = [
    (Kind::Both, Way::Frozen),
    (Kind::Keyed, Way::KilledAt("marker-produced")),
    (Kind::Copied, Way::Killed),
    (Kind::Keyed, Way::Frozen),
    (Kind::Both, Way::KilledAt("inside-commit")),
    (Kind::Copied, Way::Frozen),
    (Kind::Copied, Way::KilledAt("after-prepare")),
];

/// A job that is away.
struct Away<'a> {
    called: String,
    trial: Trial<'a>,
    /// If it stands still.
    process: Option<Process>,
}

impl Away<'_> {
    fn leaves(&mut self, way: Way) -> Result<(), String> {
        let mut start = self.trial.parallelism();
        if let Way::KilledAt(point) = way {
            start.fault = Some((point.to_owned(), 4));
            let exit = self.trial.place.run_with(&start);
            if self.trial.judge(&exit)? == Fate::Finished {
                return Err(format!("it was not killed at {point}:\n{}", exit.log));
            }
            return Ok(());
        }
        let mut process = self.trial.place.start(&start);
        if !process.says(COMMITTED, 3, HANGS) {
            return Err(format!("the job does not run:\n{}", process.log()));
        }
        let moment = self.trial.random.time(Duration::from_millis(300));
        process.within(moment);
        if let Way::Frozen = way {
            freeze(&mut process);
            self.process = Some(process);
            return Ok(());
        }
        let exit = process.kill();
        self.trial.judge(&exit).map(|_| ())
    }

    fn returns(&mut self) -> Result<(), String> {
        let mut process = match self.process.take() {
            Some(mut process) => {
                thaw(&mut process);
                process
            }
            None => self.trial.place.start(&Start::default()),
        };
        goes_on(&mut process)?;
        let exit = process.kill();
        self.trial.judge(&exit)?;
        self.trial.finish()
    }
}

/// So many jobs are away at once, and must go on by themselves.
pub(super) fn absent(stage: &Stage<'_>, jobs: usize) -> Result<(), String> {
    let mut random = stage.random.clone();
    let jobs = &JOBS[..jobs.min(JOBS.len())];
    let wired: Vec<_> = jobs
        .iter()
        .map(|(kind, _)| Wired::new(stage.reference(*kind), stage.broker, "absent"))
        .collect();
    let mut away = Vec::new();
    for (number, ((kind, way), wired)) in jobs.iter().zip(&wired).enumerate() {
        let called = format!("{number}-{}", kind.name());
        let mut job = Away {
            trial: stage.trial(&called, random.bits(), wired),
            called: format!("{}, {way:?}", kind.name()),
            process: None,
        };
        job.trial.feed_slowly(30);
        job.leaves(*way)
            .map_err(|why| format!("{}: {why}", job.called))?;
        away.push(job);
    }
    thread::sleep(at_length(Times::SHORT.transaction()));
    for job in &mut away {
        job.returns()
            .map_err(|why| format!("{}: {why}", job.called))?;
    }
    Ok(())
}
