//! Scenarios carried out side by side, each in a folder and with random numbers of its own.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::Tally;
use crate::random::Random;

/// At most so many scenarios are added because the planned ones killed less often than was asked for.
const EXTRA: usize = 40;

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Plan<S> {
    /// Decides every random moment and choice.
    pub seed: u64,
    /// Kills there must be in all; further scenarios are added until there are.
    pub kills: u64,
    /// The scenarios.
    pub scenarios: Vec<S>,
    /// If given, only those whose names contain this.
    pub only: Option<String>,
}

/// How a plan is carried out.
pub(super) struct Work<'a, S> {
    /// What is planned.
    pub(super) plan: &'a Plan<S>,
    /// In which folder the scenarios' folders are.
    pub(super) dir: &'a Path,
    /// How many scenarios are under way at a time.
    pub(super) workers: usize,
    /// Another scenario, if the planned ones do not kill often enough; it is told how many there were.
    pub(super) more: fn(usize) -> S,
}

/// Where a scenario takes place.
pub(super) struct Scene<'a> {
    /// What it is called: unlike all others.
    pub(super) name: String,
    /// Its folder, which is not there yet.
    pub(super) folder: PathBuf,
    /// Its decisions.
    pub(super) random: Random,
    /// What it finds out.
    pub(super) tally: &'a RefCell<Tally>,
}

/// What the workers share.
struct Shared<S> {
    waiting: VecDeque<(usize, S)>,
    begun: usize,
    tally: Tally,
}

impl<S: Copy + Display + Send + Sync> Work<'_, S> {
    /// Does it all, and says on standard error how it goes. A panic is a failure like any other.
    pub(super) fn carry_out(
        &self,
        one: impl Fn(S, Scene<'_>) -> Result<(), String> + Sync,
    ) -> Tally {
        let began = Instant::now();
        let shared = Mutex::new(Shared {
            waiting: self.waiting(),
            begun: 0,
            tally: Tally::default(),
        });
        std::thread::scope(|scope| {
            for _ in 0..self.workers {
                scope.spawn(|| {
                    while let Some((number, scenario)) = self.next(&shared) {
                        let tally = self.observed(number, scenario, &one);
                        lock(&shared).tally.add(tally);
                    }
                });
            }
        });
        let tally = shared
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .tally;
        let took = began.elapsed().as_secs_f64();
        eprintln!("soak: {} kills, {took:.1} s", tally.kills);
        tally
    }

    /// What is planned, each with its number, which decides what it does.
    fn waiting(&self) -> VecDeque<(usize, S)> {
        let scenarios = self.plan.scenarios.iter().copied().enumerate();
        let only = self.plan.only.as_deref().unwrap_or_default();
        scenarios
            .filter(|(number, scenario)| name(*number, *scenario).contains(only))
            .collect()
    }

    /// The next scenario: a planned one, or, as long as too few processes were killed, another one.
    fn next(&self, shared: &Mutex<Shared<S>>) -> Option<(usize, S)> {
        let mut shared = lock(shared);
        let next = shared.waiting.pop_front().or_else(|| {
            let enough = self.plan.only.is_some() || shared.tally.kills >= self.plan.kills;
            let many = shared.begun >= self.plan.scenarios.len() + EXTRA;
            (!enough && !many).then(|| (shared.begun, (self.more)(shared.begun)))
        });
        shared.begun += usize::from(next.is_some());
        next
    }

    fn observed(
        &self,
        number: usize,
        scenario: S,
        one: &impl Fn(S, Scene<'_>) -> Result<(), String>,
    ) -> Tally {
        let began = Instant::now();
        let name = name(number, scenario);
        let folder = self.dir.join(&name);
        let tally = RefCell::default();
        let scene = Scene {
            name: name.clone(),
            folder: folder.clone(),
            random: Random::new(Random::new(self.plan.seed).bits() ^ (number as u64) << 32),
            tally: &tally,
        };
        let ended = catch_unwind(AssertUnwindSafe(|| one(scenario, scene)));
        let failure = ended.unwrap_or_else(|panic| {
            Err(match panic.downcast::<String>() {
                Ok(text) => *text,
                Err(panic) => panic
                    .downcast_ref::<&str>()
                    .copied()
                    .unwrap_or("a panic")
                    .to_owned(),
            })
        });
        let mut tally = tally.into_inner();
        tally.failures.extend(
            failure
                .err()
                .map(|failure| format!("{name}: {failure}\n  see {}", folder.display())),
        );
        let verdict = if tally.failures.is_empty() {
            "exact"
        } else {
            "FAILED"
        };
        let took = began.elapsed().as_secs_f64();
        eprintln!(
            "soak: {name}: {verdict}, {} kills, {took:.1} s",
            tally.kills
        );
        tally
    }
}

fn name(number: usize, scenario: impl Display) -> String {
    format!("{number:02}-{scenario}")
}

fn lock<S>(shared: &Mutex<Shared<S>>) -> MutexGuard<'_, Shared<S>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
