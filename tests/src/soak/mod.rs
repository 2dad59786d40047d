//! The soak: jobs are killed over and over, with SIGKILL, at random moments and at every fault point, and go on at another
//! parallelism; what they committed in the end is compared, line by line, with a run that nothing disturbed.
//!
//! It has two parts: [`files`], and with the feature of that name `kafka`, where brokers are killed, too. A plan of either is made of scenarios,
//! each of jobs in folders of their own. They run side by side, each with random numbers of its own, so that a seed repeats every
//! decision (though not what the kernel's scheduler makes of it).

pub mod files;
mod frozen;
#[cfg(feature = "kafka")]
pub mod kafka;
mod side_by_side;
mod subject;
mod trial;

use std::collections::BTreeMap;

use crate::output::Difference;

/// What a soak found out.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Processes killed with SIGKILL, whoever sent it.
    pub kills: u64,
    /// How often each fault point killed.
    pub points: BTreeMap<String, u64>,
    /// Lines that were not committed, though they should have been.
    pub lost: u64,
    /// Lines that were committed too often.
    pub doubled: u64,
    /// What went wrong, scenario by scenario.
    pub failures: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.kills += other.kills;
        for (point, times) in other.points {
            *self.points.entry(point).or_default() += times;
        }
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.failures.extend(other.failures);
    }

    fn killed_at(&mut self, point: &str) {
        self.kills += 1;
        *self.points.entry(point.to_owned()).or_default() += 1;
    }

    fn differs(&mut self, difference: &Difference) {
        self.lost += difference.lost.len() as u64;
        self.doubled += difference.doubled.len() as u64;
    }

    /// Fault points among `points` that never killed: nothing is known about them.
    pub fn missed<'p>(&self, points: impl Iterator<Item = &'p str>) -> Vec<&'p str> {
        points
            .filter(|point| !self.points.contains_key(*point))
            .collect()
    }
}

/// Says how often each of `points` killed.
fn say_points<'p>(tally: &Tally, points: impl Iterator<Item = &'p str>) {
    for point in points {
        let times = tally.points.get(point).copied().unwrap_or_default();
        eprintln!("soak:   {times:3} at {point}");
    }
}
