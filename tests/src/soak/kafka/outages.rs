//! A broker that is stopped, killed and frozen under jobs that run, some of which are killed at the same time.

use std::thread;
use std::time::{Duration, Instant};

use super::super::trial::{Trial, goes_on};
use super::job::{Kind, Times};
use super::wired::Wired;
use super::{Stage, at_length};
use crate::host::Process;
use crate::kafka::{Broker, Options, OwnBroker};
use crate::random::Random;

/// A job that runs all the time.
struct Running<'a> {
    kind: Kind,
    trial: Trial<'a>,
    process: Process,
}

impl Running<'_> {
    fn is_killed(&mut self) -> Result<(), String> {
        let exit = self.process.kill();
        if !exit.killed() {
            return Err(format!(
                "{}: it ended by itself:\n{}",
                self.kind.name(),
                exit.log
            ));
        }
        self.trial.tally.borrow_mut().kills += 1;
        Ok(())
    }

    fn starts(&mut self) {
        let start = self.trial.parallelism();
        self.process = self.trial.place.start(&start);
    }

    /// It goes on by itself. Only one that was started while there was no broker may have ended, and has said that it may be started again.
    fn resumes(&mut self, started_without: bool) -> Result<(), String> {
        let went_on = goes_on(&mut self.process).or_else(|why| {
            let exit = self.process.within(Duration::ZERO);
            if started_without && exit.is_some_and(|exit| exit.code() == Some(75)) {
                self.starts();
                return goes_on(&mut self.process);
            }
            Err(why)
        });
        went_on.map_err(|why| format!("{}: {why}", self.kind.name()))
    }
}

/// What happens to the broker, and perhaps to a host.
fn outage(broker: &OwnBroker, random: &mut Random, jobs: &mut [Running<'_>]) -> Result<(), String> {
    thread::sleep(random.time(Duration::from_millis(500)));
    let victim = random.below(2 * jobs.len() as u64) as usize;
    let victim = (victim < jobs.len()).then_some(victim);
    let before = random.below(2) == 0;
    if let Some(victim) = victim.filter(|_| before) {
        jobs[victim].is_killed()?;
    }
    if random.below(2) == 0 {
        broker.kill();
    } else {
        broker.stop();
    }
    if let Some(victim) = victim.filter(|_| !before) {
        thread::sleep(random.time(Duration::from_millis(500)));
        jobs[victim].is_killed()?;
    }
    let without = random.below(2) == 0;
    if let Some(victim) = victim.filter(|_| without) {
        jobs[victim].starts();
    }
    thread::sleep(random.time(Duration::from_secs(1)));
    broker.restart();
    if let Some(victim) = victim.filter(|_| !without) {
        jobs[victim].starts();
    }
    for (number, job) in jobs.iter_mut().enumerate() {
        job.resumes(without && victim == Some(number))?;
    }
    victim.map_or(Ok(()), |victim| jobs[victim].trial.nothing_too_early())
}

/// Jobs of each kind on a broker of their own, which is restarted so many times and then, if it is to be, frozen for longer than it lets
/// most of their transactions be open.
pub(super) fn outages(stage: &Stage<'_>, restarts: u32, frozen: bool) -> Result<(), String> {
    let Some(broker) = Broker::own(&Options::default()) else {
        return Ok(());
    };
    let mut random = stage.random.clone();
    let wired: Vec<_> = Kind::ALL
        .iter()
        .map(|kind| {
            let wired = Wired::new(stage.reference(*kind), &broker, kind.name());
            // One of them waits for the broker, the others begin anew.
            let times = match kind {
                Kind::Both => Times::LONG,
                _ => Times::SHORT,
            };
            (*kind, wired.with(times))
        })
        .collect();
    let mut jobs = Vec::new();
    for (kind, wired) in &wired {
        let mut trial = stage.trial(kind.name(), random.bits(), wired);
        trial.feed_slowly(u64::from(restarts) * 10 + 60);
        let start = trial.parallelism();
        let process = trial.place.start(&start);
        jobs.push(Running {
            kind: *kind,
            trial,
            process,
        });
    }
    for job in &mut jobs {
        job.resumes(false)?;
    }
    let mut longest = Duration::ZERO;
    for number in 1..=restarts {
        let began = Instant::now();
        outage(&broker, &mut random, &mut jobs)
            .map_err(|why| format!("outage {number}: {why}\n{}", broker.log()))?;
        longest = longest.max(began.elapsed());
    }
    if frozen {
        broker.freeze();
        thread::sleep(at_length(Times::SHORT.transaction()));
        broker.thaw();
        for job in &mut jobs {
            job.resumes(false)
                .map_err(|why| format!("the broker was frozen: {why}\n{}", broker.log()))?;
        }
    }
    let longest = longest.as_secs_f64();
    eprintln!(
        "soak: {}: {restarts} restarts of the broker, each over after {longest:.1} s at most",
        stage.name
    );
    for job in &mut jobs {
        job.is_killed()?;
        job.trial
            .finish()
            .map_err(|why| format!("{}: {why}\n{}", job.kind.name(), broker.log()))?;
    }
    Ok(())
}
