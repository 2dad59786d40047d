//! One run of a job: everything that is checked before it starts, its attempts, its end.
//!
//! A run owns the job on this machine from its first to its last attempt. Each attempt is recovered by
//! [`crate::checkpoint::Driver`], started by [`crate::attempt`] and supervised by `supervise`; between two stands the restart
//! strategy. All the while it is on display in [`crate::control`].

mod compatible;
mod counted;
mod drift;
mod failure;
mod guarantee;
#[cfg_attr(not(feature = "kafka"), path = "without_kafka.rs")]
mod kafka;
mod outputs;
mod own;
mod positions;
mod restore;
mod room;
mod snapshots;
mod summary;
mod supervise;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, atomic};
use std::time::Duration;

use weir_operator::Engine;

use crate::attempt::{Beginning, Blueprint};
use crate::checkpoint::manifest::Identity;
use crate::checkpoint::{self, Driver, Manifest, Ownership, Refusal, Verdict};
use crate::clock::{ProcessingClock, Reading};
use crate::control::board::Stage;
use crate::control::{self, Board, Control};
use crate::diagnostic::{self, Diagnostic, ExitCode};
use crate::job::model::{CheckpointSettings, Job, Restart, SinkConnector};
use crate::memory::StateBudget;
use crate::metrics::Origins;
use crate::progress::Progress;
use crate::restart::Decision;
use crate::signals::Requests;
use crate::stages::Costs;
use crate::units::ByteSize;
use crate::{clock, log, start};
use counted::CountedRestarts;
use drift::Drift;
use failure::Failure;
pub use guarantee::Guarantee;
use kafka::Kafka;
#[cfg(feature = "kafka")]
pub(crate) use kafka::check_kafka;
use positions::Positions;
use room::Room;
pub use summary::Totals;
use supervise::{Ended, Supervisor};

/// What a run was asked for beyond the job file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Start a new lineage even if there is something to resume.
    pub fresh: bool,
    /// With `fresh`: although committed output stays beside the new one.
    pub accept_duplicates: bool,
    /// The wall clock is right, whatever the last checkpoint says.
    pub accept_clock: bool,
    /// The data directory, if not the default.
    pub data_dir: Option<PathBuf>,
    /// Show progress on a terminal.
    pub progress: bool,
    /// Where metrics and probes are served, instead of what the job file says.
    pub metrics: Option<SocketAddr>,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Report {
    /// What the process exits with.
    pub code: ExitCode,
    /// What was done, for people: some lines.
    pub summary: String,
    /// What the last attempt counted.
    pub totals: Totals,
    /// How long the last attempt's tasks ran.
    pub running: Duration,
    /// Where their time went.
    pub costs: Costs,
}

/// Why a run did not start, or gave up.
#[derive(Clone, Debug)]
pub struct Refused {
    /// What is wrong.
    pub problems: Vec<Diagnostic>,
    /// What the process exits with.
    pub code: ExitCode,
}

impl Refused {
    fn one(problem: Diagnostic, code: ExitCode) -> Refused {
        Refused {
            problems: vec![problem],
            code,
        }
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        let problem = Diagnostic::error_of(refusal.code(), &refusal.to_string());
        let code = match refusal.exit_code() {
            4 => ExitCode::OwnedElsewhere,
            75 => ExitCode::DependencyUnavailable,
            _ => ExitCode::StartRefused,
        };
        Refused::one(problem, code)
    }
}

/// Ticks the engine's deadline clock until dropped.
pub(crate) struct Ticker {
    stop: Arc<atomic::AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Ticker {
    pub(crate) fn start(engine: &Engine) -> std::io::Result<Ticker> {
        let stop = Arc::new(atomic::AtomicBool::new(false));
        let (engine, stopped) = (engine.clone(), stop.clone());
        let thread = std::thread::Builder::new()
            .name("epoch".into())
            .spawn(move || {
                while !stopped.load(atomic::Ordering::Relaxed) {
                    std::thread::sleep(weir_operator::TICK);
                    engine.tick();
                }
            })?;
        Ok(Ticker {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.store(true, atomic::Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It cannot panic; and if it did, it is over.
            let _ = thread.join();
        }
    }
}

fn internal(what: &str, error: impl std::fmt::Display) -> Refused {
    Refused::one(
        Diagnostic::error("W0301", format!("{what}: {error}")),
        ExitCode::Internal,
    )
}

/// Runs `job` until its input ends, one of `requests` asks for an end, or it gives up.
///
/// # Errors
/// [`Refused`]: nothing was started, or it gave up.
pub fn run(job: Job, options: &Options, requests: Requests) -> Result<Report, Refused> {
    let data_dir = start::data_dir(&job, options.data_dir.clone());
    let guarantee =
        Guarantee::of(&job).map_err(|problem| Refused::one(problem, ExitCode::InvalidJob))?;
    let mut ownership = own::data_dir(&job, &data_dir, guarantee.checkpoints())?;
    let place = control::Place {
        data_dir: ownership.is_some().then_some(&data_dir),
        checkpoint_dir: guarantee
            .checkpoints()
            .then(|| start::checkpoint_dir(&job, &data_dir)),
        metrics: options.metrics.or(job.metrics),
    };
    let Requests {
        stop,
        stopper,
        report,
        asked,
        ..
    } = requests;
    let control = Control::open(job.name.as_str(), place, &stopper, report)
        .map_err(|(problem, code)| Refused::one(*problem, code))?;
    let ended = on_display(
        job,
        options,
        (&stop, &asked),
        guarantee,
        &data_dir,
        &mut ownership,
        control.board(),
    );
    let farewell = match &ended {
        Ok(report) => control.end(report.code, &report.summary),
        Err(refused) => control.end(refused.code, &diagnostic::render(&refused.problems)),
    };
    // Whoever was told that the job has ended may run it again.
    drop(ownership);
    farewell.say();
    ended
}

fn on_display(
    job: Job,
    options: &Options,
    (stop, asked): (&mpsc::Receiver<Duration>, &Arc<atomic::AtomicBool>),
    guarantee: Guarantee,
    data_dir: &Path,
    ownership: &mut Option<Ownership>,
    board: &Board,
) -> Result<Report, Refused> {
    let engine =
        start::engine(Some(data_dir)).map_err(|error| internal("cannot start wasmtime", error))?;
    let _ticker =
        Ticker::start(&engine).map_err(|error| internal("cannot start a thread", error))?;
    let parallelism = start::parallelism(&job);
    let checkpoints = start::checkpoint_dir(&job, data_dir);
    let checked =
        start::check(&job, &engine, parallelism, &checkpoints).map_err(|problems| Refused {
            problems,
            code: ExitCode::InvalidJob,
        })?;
    start::warn_of_cache(checked.operators.iter().map(|loaded| &loaded.component));
    start::check_directories(&job, true).map_err(|problems| Refused {
        problems,
        code: ExitCode::StartRefused,
    })?;

    let mut blueprint = Blueprint {
        plan: checked.plan,
        operators: checked.operators,
        state_files: None,
        blocking: guarantee.blocks(),
        memory: Arc::new(StateBudget::new(job.memory)),
        clock: Arc::new(ProcessingClock::new()),
        #[cfg(feature = "kafka")]
        kafka: Arc::default(),
        job,
    };
    let mut kafka = Kafka::new(asked.clone());
    let decided = kafka.look_up(&mut blueprint, &guarantee)?;
    let Some(ownership) = ownership.as_mut().filter(|_| guarantee.checkpoints()) else {
        return volatile(blueprint, &guarantee, options, stop, board);
    };
    board.takes_checkpoints();
    let settings = blueprint.job.checkpoint.clone().unwrap_or_default();
    let (mut driver, mut identity) =
        own::storage(&blueprint, &settings, options, data_dir, ownership, decided)?;
    let strategy = if guarantee.restarts() {
        blueprint.job.restart.clone()
    } else {
        Restart::None
    };
    let mut restarts = CountedRestarts::open(strategy, data_dir, options.fresh);
    let mut progress = Progress::new(options.progress);
    let watched = written_to(&blueprint.job, data_dir);
    let mut positions = Positions::of(&blueprint.job);
    let mut attempts = 0_u64;
    let mut drift = Drift::default();
    loop {
        if attempts > 0 {
            drift.look(&blueprint.job, &blueprint.operators);
        }
        board.stage(Stage::Recovering);
        let resume_clock = attempts == 0 && !options.accept_clock;
        // The first was looked up before anything was owned.
        let ready = if attempts == 0 {
            Ok(())
        } else {
            kafka.look_up(&mut blueprint, &guarantee).map(|decided| {
                identity.commit_point = decided.commit_point;
                identity.topics = decided.topics;
                driver.identify(&identity);
            })
        };
        let begun = ready.and_then(|()| {
            recover(
                &mut driver,
                &identity,
                &mut blueprint,
                &guarantee,
                board,
                resume_clock,
            )
        });
        attempts += 1;
        let failure = match begun {
            // At the first start whoever started it should know at once; later it may come back.
            Err(refused) if refused.code == ExitCode::DependencyUnavailable && attempts > 1 => {
                Failure::unavailable(refused.problems)
            }
            Err(refused) => return Err(refused),
            Ok(Begun::Finished(report)) => return Ok(report),
            Ok(Begun::Attempt(mut beginning, setup)) => {
                kafka.lend(&mut beginning.0);
                // Each attempt's sources begin unpaused.
                let mut room = Room::new(watched.clone(), settings.reserve);
                let supervisor = Supervisor {
                    blueprint: Arc::new(blueprint),
                    settings: &settings,
                    stop,
                    progress: &mut progress,
                    room: &mut room,
                    restarts: &mut restarts,
                    positions: &mut positions,
                    board,
                };
                let shared = supervisor.blueprint.clone();
                let ended = supervisor.run(beginning.0, Some((&mut driver, setup)), &beginning.1);
                // Every task is gone with the attempt, so this is the only one left.
                blueprint =
                    Arc::try_unwrap(shared).unwrap_or_else(|shared| Blueprint::clone(&shared));
                match ended {
                    Ended::Report(report) => return Ok(*report),
                    Ended::Failed {
                        failure,
                        stopping: true,
                    } => {
                        failure.log();
                        log::warn(
                            "stopped without a last checkpoint; the next run resumes at the last one",
                        );
                        return Ok(summary::stopped_between_attempts());
                    }
                    Ended::Failed {
                        failure,
                        stopping: false,
                    } => failure,
                }
            }
        };
        // A host that has the job now shuts us out of what we write: that is no failure to count, and nothing to pause for.
        if !failure.is_taken_over()
            && let Some(refusal) = driver.taken_over()
        {
            failure.log();
            return Err(refusal.into());
        }
        match restarts.failed(&failure.failed()) {
            Decision::GiveUp(why) => {
                let refused = failure.give_up(&why);
                // Another host that has the job now may count in this very file.
                if refused.code != ExitCode::OwnedElsewhere {
                    restarts.gave_up();
                }
                return Err(refused);
            }
            Decision::Restart { after, in_a_row } => {
                failure.warn(after, in_a_row);
                board.restarting(failure.summary(), in_a_row, after);
                match stop.recv_timeout(after) {
                    Err(RecvTimeoutError::Timeout) => {}
                    // Nobody can ask for a stop any more.
                    Err(RecvTimeoutError::Disconnected) => std::thread::sleep(after),
                    Ok(_) => {
                        log::warn(
                            "stopped while waiting to restart; the next run resumes at the last checkpoint",
                        );
                        return Ok(summary::stopped_between_attempts());
                    }
                }
            }
        }
    }
}

/// A job without checkpoints: one attempt, nothing to come back to.
fn volatile(
    blueprint: Blueprint,
    guarantee: &Guarantee,
    options: &Options,
    stop: &mpsc::Receiver<Duration>,
    board: &Board,
) -> Result<Report, Refused> {
    log::info(&format!("fresh start; {guarantee}"));
    let (splits, origins) = restore::splits(&blueprint.job, None)?;
    let beginning = Beginning {
        attempt: 0,
        lineage: "00000000".into(),
        next_n: 1,
        manifest: None,
        splits,
        #[cfg(feature = "kafka")]
        transactions: None,
    };
    let mut progress = Progress::new(options.progress);
    let mut restarts = CountedRestarts::none();
    let shared = Arc::new(blueprint);
    let supervisor = Supervisor {
        blueprint: shared.clone(),
        settings: &CheckpointSettings::default(),
        stop,
        progress: &mut progress,
        room: &mut Room::new(Vec::new(), None),
        restarts: &mut restarts,
        positions: &mut Positions::of(&shared.job),
        board,
    };
    match supervisor.run(beginning, None, &origins) {
        Ended::Report(report) => Ok(*report),
        Ended::Failed { failure, .. } => Err(failure.without_checkpoints()),
    }
}

/// The directories that the job writes to.
fn written_to(job: &Job, data_dir: &Path) -> Vec<PathBuf> {
    let mut dirs = vec![start::checkpoint_dir(job, data_dir), data_dir.to_owned()];
    dirs.extend(job.sinks.iter().filter_map(|sink| match &sink.connector {
        SinkConnector::File { dir, .. } => Some(dir.clone()),
        SinkConnector::Stdout | SinkConnector::Blackhole | SinkConnector::Kafka(_) => None,
    }));
    dirs
}

/// What a recovery led to.
enum Begun {
    /// The job had finished; nothing is left to do.
    Finished(Report),
    /// An attempt can start, its splits' names beside it.
    Attempt(
        Box<(Beginning, Arc<Origins>)>,
        checkpoint::coordinator::Setup,
    ),
}

/// Whether the state of a checkpoint fits into memory.
fn fits(manifest: &Manifest, memory: &StateBudget) -> Result<(), Refused> {
    let subtasks = manifest.operators.iter().flat_map(|it| &it.subtasks);
    let held: u64 = subtasks.map(|subtask| subtask.held).sum();
    if held <= memory.limit() {
        return Ok(());
    }
    let title = format!(
        "the state of checkpoint {} does not fit into memory: it takes up {}, and the limit is {} (three quarters of `memory`)",
        manifest.n,
        ByteSize(held).rounded(),
        ByteSize(memory.limit()).rounded()
    );
    let problem = Diagnostic::error("W0405", title).help(format!(
        "set `memory` to {} or more, or give the container or machine more than that",
        // A quarter is for all else, and state grows.
        ByteSize((held / 3).saturating_mul(5)).rounded()
    ));
    Err(Refused::one(problem, ExitCode::StartRefused))
}

/// Recovers: who we are, where the job stands, what its sources go on from; with `resume_clock`, what time it is.
fn recover(
    driver: &mut Driver,
    identity: &Identity,
    blueprint: &mut Blueprint,
    guarantee: &Guarantee,
    board: &Board,
    resume_clock: bool,
) -> Result<Begun, Refused> {
    let recovered = driver.recover(clock::wall_millis())?;
    let restored = recovered.manifest.as_ref().map(|manifest| {
        let millis = clock::wall_millis().saturating_sub(manifest.taken_at);
        (
            manifest.n,
            Duration::from_millis(millis.max(0).unsigned_abs()),
        )
    });
    board.claimed(recovered.attempt, &recovered.lineage.to_string(), restored);
    log::attempt(recovered.attempt, restored.is_some());
    let at = format!(
        "attempt {}, lineage {}; {guarantee}",
        recovered.attempt, recovered.lineage
    );
    log::info(&format!("{}; {at}", recovered.verdict));
    if let Verdict::Finished { n } = recovered.verdict {
        return Ok(Begun::Finished(summary::finished_already(
            &blueprint.job,
            n,
        )));
    }
    // What attempts that failed have written must not add up.
    if let Err(error) = driver.collect(recovered.confirmed) {
        log::warn(&format!(
            "what earlier attempts left could not be removed, trying again after the next checkpoint: {error}"
        ));
    }
    if let Some(manifest) = &recovered.manifest {
        let (job, components) = (&blueprint.job, &identity.components);
        compatible::compatible(job, components, manifest, &driver.location()).map_err(
            |problems| Refused {
                problems,
                code: ExitCode::StartRefused,
            },
        )?;
        compatible::log_changed(components, manifest);
        fits(manifest, &blueprint.memory)?;
        if resume_clock {
            blueprint.clock.resume(Reading {
                wall: manifest.taken_at,
                processing: manifest.processing_time,
            });
        }
    }
    let (splits, origins) = restore::splits(&blueprint.job, recovered.manifest.as_ref())?;
    blueprint.state_files = Some(driver.state_files());
    let settings = blueprint.job.checkpoint.clone().unwrap_or_default();
    let setup = checkpoint::coordinator::Setup {
        identity: identity.clone(),
        settings,
        lineage: recovered.lineage.clone(),
        attempt: recovered.attempt,
        confirmed: recovered.confirmed,
        next_n: recovered.next_n,
        tasks: Vec::new(),
        carried: recovered.carried,
        transactional: !identity.commit_point.is_storage(),
    };
    let beginning = Beginning {
        attempt: recovered.attempt,
        lineage: recovered.lineage.to_string(),
        next_n: recovered.next_n,
        manifest: recovered.manifest,
        splits,
        #[cfg(feature = "kafka")]
        transactions: None,
    };
    Ok(Begun::Attempt(Box::new((beginning, origins)), setup))
}
