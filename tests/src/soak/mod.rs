//! The soak: jobs are killed over and over, with SIGKILL, at random moments and at every fault point, and go on at another
//! parallelism; what they committed in the end is compared, line by line, with a run that nothing disturbed.
//!
//! A [`Plan`] is made of [`Scenario`]s, each a job in a folder of its own. They run side by side, as many as there are CPUs, each with
//! random numbers of its own, so that a seed repeats every decision (though not what the kernel's scheduler makes of it).

mod endings;
mod frozen;
mod job;
mod scenario;
mod unbounded;

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::host::Host;
use crate::random::Random;

pub use job::{Kind, Reference};
pub use scenario::{Manner, Scenario, points};

/// At most so many scenarios are added because the planned ones killed less often than was asked for.
const EXTRA: usize = 40;

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
}

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides every random moment and choice.
    pub seed: u64,
    /// Kills there must be in all; further scenarios are added until there are.
    pub kills: u64,
    /// The scenarios.
    pub scenarios: Vec<Scenario>,
}

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
        add(Kind::Net, Manner::Twice);
        add(Kind::Files, Manner::Frozen { times: 3 });
        add(Kind::Net, Manner::Frozen { times: 3 });
        Plan {
            seed,
            kills,
            scenarios,
        }
    }

    /// One kill at each fault point and some at random: what every test run can afford.
    pub fn sample(seed: u64) -> Plan {
        let scenarios = vec![
            Scenario {
                kind: Kind::Net,
                manner: Manner::Points { passings: 1 },
            },
            Scenario {
                kind: Kind::Net,
                manner: Manner::Endings { jobs: 4 },
            },
            Scenario {
                kind: Kind::Files,
                manner: Manner::Random { kills: 5 },
            },
            Scenario {
                kind: Kind::Net,
                manner: Manner::Unbounded { kills: 3 },
            },
            Scenario {
                kind: Kind::Files,
                manner: Manner::Frozen { times: 1 },
            },
        ];
        Plan {
            seed,
            kills: 0,
            scenarios,
        }
    }
}

/// What the workers share.
struct Shared {
    waiting: VecDeque<(usize, Scenario)>,
    begun: usize,
    planned: usize,
    tally: Tally,
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
    eprintln!(
        "soak: undisturbed runs took {:.1} s",
        began.elapsed().as_secs_f64()
    );
    let shared = Mutex::new(Shared {
        waiting: plan.scenarios.iter().copied().enumerate().collect(),
        begun: 0,
        planned: plan.scenarios.len(),
        tally: Tally::default(),
    });
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((number, scenario)) = next(&shared, plan.kills) {
                    let began = Instant::now();
                    let name = format!("{number:02}-{scenario}");
                    let tally = one(host, dir, &name, plan.seed, number, scenario, &references);
                    let took = began.elapsed().as_secs_f64();
                    let verdict = if tally.failures.is_empty() {
                        "exact"
                    } else {
                        "FAILED"
                    };
                    eprintln!(
                        "soak: {name}: {verdict}, {} kills, {took:.1} s",
                        tally.kills
                    );
                    lock(&shared).tally.add(tally);
                }
            });
        }
    });
    let tally = shared
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .tally;
    eprintln!(
        "soak: {} kills, {:.1} s",
        tally.kills,
        began.elapsed().as_secs_f64()
    );
    for point in points() {
        eprintln!(
            "soak:   {:3} at {point}",
            tally.points.get(point).copied().unwrap_or_default()
        );
    }
    tally
}

fn lock(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next scenario: a planned one, or, as long as too few processes were killed, another round of random moments.
fn next(shared: &Mutex<Shared>, kills: u64) -> Option<(usize, Scenario)> {
    let mut shared = lock(shared);
    let next = shared.waiting.pop_front().or_else(|| {
        let enough = shared.tally.kills >= kills || shared.begun >= shared.planned + EXTRA;
        let kind = Kind::ALL[shared.begun % Kind::ALL.len()];
        (!enough).then_some((
            shared.begun,
            Scenario {
                kind,
                manner: Manner::Random { kills: 10 },
            },
        ))
    });
    shared.begun += usize::from(next.is_some());
    next
}

/// Carries one scenario out; a panic is a failure like any other.
fn one(
    host: &'static Host,
    dir: &Path,
    name: &str,
    seed: u64,
    number: usize,
    scenario: Scenario,
    references: &BTreeMap<Kind, Reference>,
) -> Tally {
    let random = Random::new(Random::new(seed).bits() ^ (number as u64) << 32);
    let folder: PathBuf = dir.join(name);
    let reference = &references[&scenario.kind];
    let mut trial = scenario::Trial::new(host, folder.clone(), random, reference);
    let ended = catch_unwind(AssertUnwindSafe(|| trial.carry_out(scenario.manner)));
    let failure = match ended {
        Ok(Ok(())) => None,
        Ok(Err(failure)) => Some(failure),
        Err(panic) => Some(match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(panic) => panic
                .downcast_ref::<&str>()
                .copied()
                .unwrap_or("a panic")
                .to_owned(),
        }),
    };
    let mut tally = trial.into_tally();
    tally
        .failures
        .extend(failure.map(|failure| format!("{name}: {failure}\n  see {}", folder.display())));
    tally
}
