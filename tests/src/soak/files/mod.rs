//! Jobs that read and write files: killed as often as is asked for, while they start, work, end, stand still.

mod endings;
mod job;
mod unbounded;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Instant;

use super::side_by_side::{self, Scene, Work};
use super::trial::Trial;
use super::{Tally, say_points};
use crate::host::Host;

pub use job::{Kind, Reference};

/// Points that only a job which writes to Kafka passes, and these do not.
const KAFKA: [&str; 9] = [
    "before-flush",
    "after-prepare",
    "after-fence",
    "after-resolve",
    "after-claim-marker",
    "before-marker",
    "marker-produced",
    "inside-commit",
    "after-transaction",
];

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
    /// Started a second time while it runs, and so many times twice at once.
    Twice {
        /// How many times.
        times: u32,
    },
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
            Manner::Twice { .. } => "twice",
            Manner::Frozen { .. } => "frozen",
        };
        write!(f, "{}-{manner}", self.kind.name())
    }
}

/// What is to be done.
pub type Plan = side_by_side::Plan<Scenario>;

impl Plan {
    /// The whole soak.
    pub fn whole(seed: u64, kills: u64) -> Plan {
        let mut scenarios = Vec::new();
        let mut add = |kind, manner| scenarios.push(Scenario { kind, manner });
        // The long ones first, so that no CPU is idle in the end.
        add(Kind::Net, Manner::Points { passings: 3 });
        add(Kind::Files, Manner::Points { passings: 3 });
        add(Kind::Net, Manner::Endings { jobs: 20 });
        for _ in 0..3 {
            add(Kind::Net, Manner::Random { kills: 14 });
            add(Kind::Files, Manner::Random { kills: 14 });
            add(Kind::Net, Manner::Unbounded { kills: 12 });
        }
        add(Kind::Net, Manner::Twice { times: 8 });
        add(Kind::Files, Manner::Frozen { times: 3 });
        add(Kind::Net, Manner::Frozen { times: 3 });
        Plan {
            seed,
            kills,
            scenarios,
            only: None,
        }
    }

    /// One kill at each fault point and some at random: what every test run can afford.
    pub fn sample(seed: u64) -> Plan {
        let mut scenarios = Vec::new();
        let mut add = |kind, manner| scenarios.push(Scenario { kind, manner });
        add(Kind::Net, Manner::Points { passings: 1 });
        add(Kind::Net, Manner::Endings { jobs: 4 });
        add(Kind::Files, Manner::Random { kills: 5 });
        add(Kind::Net, Manner::Unbounded { kills: 3 });
        add(Kind::Files, Manner::Frozen { times: 1 });
        Plan {
            seed,
            kills: 0,
            scenarios,
            only: None,
        }
    }
}

/// Carries `plan` out in folders below `dir`, which is left as it is in the end. Says on standard error how it goes.
///
/// # Panics
/// The undisturbed runs fail.
pub fn soak(host: &'static Host, dir: &Path, plan: &Plan) -> Tally {
    let began = Instant::now();
    let references: BTreeMap<Kind, Reference> = Kind::ALL
        .into_iter()
        .map(|kind| (kind, Reference::make(host, dir, kind, 2)))
        .collect();
    let took = began.elapsed().as_secs_f64();
    eprintln!("soak: undisturbed runs took {took:.1} s");
    let work = Work {
        plan,
        dir,
        workers: std::thread::available_parallelism().map_or(1, usize::from),
        more: |begun| Scenario {
            kind: Kind::ALL[begun % Kind::ALL.len()],
            manner: Manner::Random { kills: 10 },
        },
    };
    let tally = work.carry_out(|scenario, scene| {
        let reference = &references[&scenario.kind];
        let Scene {
            folder,
            random,
            tally,
            ..
        } = scene;
        let mut trial = Trial::new(host, folder, random, reference, tally);
        match scenario.manner {
            Manner::Random { kills } => trial.at_random_moments(kills),
            Manner::Points { passings } => trial.at_every_point(passings),
            Manner::Unbounded { kills } => trial.unbounded(reference, kills),
            Manner::Endings { jobs } => trial.endings(reference, jobs),
            Manner::Twice { times } => trial.twice(times),
            Manner::Frozen { times } => trial.frozen(times),
        }
    });
    if plan.only.is_none() {
        say_points(&tally, points());
    }
    tally
}
