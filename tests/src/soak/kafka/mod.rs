//! Jobs that read and write Kafka, on a real broker: killed like those of files, and the broker under them as well.
//!
//! What is committed is what Apache Kafka's own console consumer sees of committed transactions: every record once, under its key, in the
//! order of its key.

mod absent;
mod elsewhere;
mod idle;
mod job;
mod outages;
mod storage;
mod wired;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::side_by_side::{self, Scene, Work};
use super::subject::Subject;
use super::trial::Trial;
use super::{Tally, say_points};
use crate::host::Host;
use crate::kafka::Broker;
use crate::output;
use crate::random::Random;
use job::Reference;
use wired::Wired;

pub use job::Kind;

/// What a host says of a commit that took long, and may have been asked for twice, before it ends the attempt: as it should, on a machine
/// that is slow.
const SLOW: &str = "the broker says that it was, after ";

/// The fault points that the jobs here pass: all.
pub fn points() -> impl Iterator<Item = &'static str> {
    weir::fault_point::ALL.iter().copied()
}

/// What is done to jobs.
#[derive(Clone, Copy, Debug)]
pub enum Scenario {
    /// Killed at so many random moments.
    Random {
        /// The job.
        kind: Kind,
        /// How many.
        kills: u32,
    },
    /// Killed at every fault point, each time it passes it for the first, second, … time.
    Points {
        /// Up to which passing.
        passings: u32,
    },
    /// Started a second time while it runs, and so many times twice at once.
    Twice {
        /// The job.
        kind: Kind,
        /// How many times.
        times: u32,
    },
    /// Frozen at random moments while another host, out of reach of its locks, takes the job over.
    TakenOver {
        /// The job.
        kind: Kind,
        /// How often.
        times: u32,
    },
    /// So many jobs are frozen or killed, and away for longer than their transactions may be open.
    Absent {
        /// How many.
        jobs: usize,
    },
    /// The broker is stopped or killed so many times under jobs of each kind, some of which are killed meanwhile.
    Outages {
        /// How many times.
        restarts: u32,
        /// And then it is frozen for longer than transactions may be open.
        frozen: bool,
    },
    /// A job with nothing to do, killed so many times.
    Idle {
        /// How many.
        kills: u32,
    },
    /// Started so many times with checkpoint storage of its own, empty or copied.
    Elsewhere {
        /// How many.
        times: u32,
    },
    /// Checkpoint storage is away so many times, for a short while and for a long one.
    Storage {
        /// How many.
        times: u32,
    },
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scenario::Random { kind, .. } => write!(f, "{}-random", kind.name()),
            Scenario::Points { .. } => f.write_str("both-points"),
            Scenario::Twice { kind, .. } => write!(f, "{}-twice", kind.name()),
            Scenario::TakenOver { kind, .. } => write!(f, "{}-taken-over", kind.name()),
            Scenario::Absent { .. } => f.write_str("absent"),
            Scenario::Outages { .. } => f.write_str("outages"),
            Scenario::Idle { .. } => f.write_str("idle"),
            Scenario::Elsewhere { .. } => f.write_str("elsewhere"),
            Scenario::Storage { .. } => f.write_str("storage"),
        }
    }
}

/// What is to be done.
pub type Plan = side_by_side::Plan<Scenario>;

impl Plan {
    /// The whole soak.
    pub fn whole(seed: u64, kills: u64) -> Plan {
        use Scenario::*;
        let mut scenarios = vec![
            Outages {
                restarts: 30,
                frozen: true,
            },
            Points { passings: 2 },
            Absent { jobs: 7 },
        ];
        for kind in Kind::ALL {
            scenarios.push(Random { kind, kills: 14 });
        }
        for kind in [Kind::Both, Kind::Copied] {
            scenarios.push(Twice { kind, times: 8 });
            scenarios.push(TakenOver { kind, times: 3 });
        }
        scenarios.push(Idle { kills: 6 });
        scenarios.push(Storage { times: 3 });
        scenarios.push(Elsewhere { times: 3 });
        Plan {
            seed,
            kills,
            scenarios,
            only: None,
        }
    }

    /// Something of each: what every test run can afford.
    pub fn sample(seed: u64) -> Plan {
        use Scenario::*;
        let scenarios = vec![
            Points { passings: 1 },
            Absent { jobs: 3 },
            Outages {
                restarts: 2,
                frozen: false,
            },
            Random {
                kind: Kind::Keyed,
                kills: 3,
            },
            Twice {
                kind: Kind::Copied,
                times: 2,
            },
            TakenOver {
                kind: Kind::Both,
                times: 1,
            },
            Idle { kills: 2 },
            Storage { times: 1 },
            Elsewhere { times: 1 },
        ];
        Plan {
            seed,
            kills: 0,
            scenarios,
            only: None,
        }
    }
}

/// What a scenario has.
struct Stage<'a> {
    host: &'static Host,
    /// Not to be harmed.
    broker: &'a Broker,
    references: &'a BTreeMap<Kind, Reference>,
    name: String,
    folder: PathBuf,
    random: Random,
    tally: &'a RefCell<Tally>,
}

impl<'a> Stage<'a> {
    fn reference(&self, kind: Kind) -> &'a Reference {
        &self.references[&kind]
    }

    /// A job in a folder of this name.
    fn trial(&self, name: &str, seed: u64, subject: &'a dyn Subject) -> Trial<'a> {
        let folder = self.folder.join(name);
        Trial::new(self.host, folder, Random::new(seed), subject, self.tally)
    }

    /// A job that is killed while nothing else happens to it: no attempt must end by itself.
    fn killed(
        &self,
        kind: Kind,
        what: impl FnOnce(&mut Trial<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let wired = Wired::new(self.reference(kind), self.broker, &self.name);
        let seed = self.random.clone().bits();
        let folder = self.folder.clone();
        let mut trial = Trial::new(self.host, folder, Random::new(seed), &wired, self.tally);
        what(&mut trial)?;
        for name in output::names(&self.folder) {
            let path = self.folder.join(&name);
            if name.starts_with("log-")
                && let Ok(log) = std::fs::read_to_string(&path)
                && log.contains("restarting in")
                && !log.contains(SLOW)
            {
                return Err(format!("an attempt ended by itself: {}", path.display()));
            }
        }
        Ok(())
    }

    fn play(&self, scenario: Scenario) -> Result<(), String> {
        match scenario {
            Scenario::Random { kind, kills } => {
                self.killed(kind, |trial| trial.at_random_moments(kills))
            }
            Scenario::Points { passings } => {
                self.killed(Kind::Both, |trial| trial.at_every_point(passings))
            }
            Scenario::Twice { kind, times } => self.killed(kind, |trial| trial.twice(times)),
            Scenario::TakenOver { kind, times } => self.killed(kind, |trial| trial.frozen(times)),
            Scenario::Absent { jobs } => absent::absent(self, jobs),
            Scenario::Outages { restarts, frozen } => outages::outages(self, restarts, frozen),
            Scenario::Idle { kills } => idle::idle(self, kills),
            Scenario::Storage { times } => storage::storage(self, times),
            Scenario::Elsewhere { times } => elsewhere::elsewhere(self, times),
        }
    }
}

/// Longer than a timeout of the broker's, which looks at them once a second.
fn at_length(timeout: Duration) -> Duration {
    timeout + Duration::from_secs(2)
}

/// Carries `plan` out on `broker`, and where that is to be harmed on others, in folders below `dir`, which is left as it is in the end. Says
/// on standard error how it goes.
///
/// # Panics
/// The undisturbed runs fail.
pub fn soak(host: &'static Host, broker: &Broker, dir: &Path, plan: &Plan) -> Tally {
    let began = Instant::now();
    let references: BTreeMap<Kind, Reference> = Kind::ALL
        .into_iter()
        .map(|kind| (kind, Reference::make(host, dir, kind)))
        .collect();
    let took = began.elapsed().as_secs_f64();
    eprintln!("soak: undisturbed runs took {took:.1} s");
    let work = Work {
        plan,
        dir,
        // Brokers and timeouts are waited for more than CPUs.
        workers: 2 + std::thread::available_parallelism().map_or(1, usize::from),
        more: |begun| Scenario::Random {
            kind: Kind::ALL[begun % Kind::ALL.len()],
            kills: 10,
        },
    };
    let tally = work.carry_out(|scenario, scene| {
        let Scene {
            name,
            folder,
            random,
            tally,
        } = scene;
        let stage = Stage {
            host,
            broker,
            references: &references,
            name,
            folder,
            random,
            tally,
        };
        stage.play(scenario)
    });
    if plan.only.is_none() {
        say_points(&tally, points());
    }
    tally
}
