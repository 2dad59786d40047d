//! One attempt: the tasks of a job on their threads, from restored snapshots until they end, fail or are cancelled.
//!
//! [`Attempt::start`] wires inboxes and threads by the [`Plan`]; from then on tasks talk to each other over channels and to the
//! coordinator by [`TaskEvent`]s. Everything slow (instances, state to restore, files to open) happens on the task's own thread.

mod wiring;
mod worker;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use weir_operator::{Component, Description, Limits};

use crate::cancel::Cancel;
use crate::channel::{Barrier, Closer};
use crate::checkpoint::Manifest;
use crate::checkpoint::state_file::StateFiles;
use crate::clock::{self, ProcessingClock};
use crate::graph::{Plan, Role};
use crate::job::model::Job;
#[cfg(feature = "kafka")]
use crate::kafka;
use crate::memory::StateBudget;
use crate::metrics::{Meters, Origins};
use crate::source::{self, SplitState};
use crate::task::source::SourceControl;
use crate::task::{Error, Frozen, Step, Task};
use wiring::Wiring;
pub(crate) use worker::schema;
use worker::{Dealt, Worker};

/// A task's number, dense from 0.
pub type TaskId = usize;

/// What a task tells the coordinator.
pub enum TaskEvent {
    /// It passed a barrier.
    Passed(TaskId, Barrier, Frozen),
    /// It has ended.
    Ended(TaskId, Frozen),
    /// It failed; the attempt is over.
    Failed(TaskId, Error),
}

/// An operator's component, compiled, with what it said of itself.
#[derive(Clone)]
pub struct LoadedOperator {
    /// The component.
    pub component: Component,
    /// The bytes it was loaded from.
    pub bytes: Arc<[u8]>,
    /// Its description under the job's configuration.
    pub description: Description,
    /// What its instances may use up.
    pub limits: Limits,
}

/// What every attempt of a run has in common.
#[derive(Clone)]
pub struct Blueprint {
    /// The job.
    pub job: Job,
    /// Its plan.
    pub plan: Plan,
    /// Its operators' components, in the order of the job.
    pub operators: Vec<LoadedOperator>,
    /// Where state files are, if the job takes checkpoints.
    pub state_files: Option<StateFiles>,
    /// Whether alignment blocks channels: under exactly once.
    pub blocking: bool,
    /// What state may take up.
    pub memory: Arc<StateBudget>,
    /// Processing time.
    pub clock: Arc<ProcessingClock>,
    /// What the job's Kafka sinks write to.
    #[cfg(feature = "kafka")]
    pub kafka: Arc<kafka::Outputs>,
}

/// Where an attempt begins.
pub struct Beginning {
    /// Number of the attempt, 0 for a job without checkpoints.
    pub attempt: u64,
    /// Short name of the lineage for part files.
    pub lineage: String,
    /// Number of the attempt's first checkpoint.
    pub next_n: u64,
    /// What is restored.
    pub manifest: Option<Manifest>,
    /// All splits of each source, in the order of the job, as of the manifest or as found.
    pub splits: Vec<Vec<SplitState>>,
    /// What carries the output of the job's exactly-once Kafka sinks, if it has any.
    #[cfg(feature = "kafka")]
    pub transactions: Option<Arc<kafka::Transactions>>,
}

/// A running attempt.
pub struct Attempt {
    /// Source tasks and the coordinator's line to each.
    pub sources: Vec<(TaskId, Arc<SourceControl>)>,
    /// What its tasks count and measure, by task.
    pub meters: Arc<Meters>,
    closers: Vec<Closer>,
    cancel: Cancel,
    threads: Vec<JoinHandle<()>>,
}

/// The text of a panic.
fn panic_text(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a task panicked".to_owned())
}

/// Builds a task and runs its steps until it ends, reporting what it passes.
fn drive<M: From<TaskEvent>, T: Task>(
    task: TaskId,
    meters: &Meters,
    events: &mpsc::Sender<M>,
    build: impl FnOnce() -> Result<T, Error>,
) {
    // The coordinator is gone: the attempt is over.
    let send = |event: TaskEvent| events.send(event.into()).map_err(|_| Error::Closed);
    let run = || -> Result<(), Error> {
        let meter = &meters.tasks[task];
        let mut built = build()?;
        meter.built();
        loop {
            match built.step()? {
                Step::Continue => {}
                Step::Snapshot(barrier, frozen) => {
                    meter.set_passed(barrier.n);
                    send(TaskEvent::Passed(task, barrier, frozen))?;
                }
                Step::Ended(frozen) => {
                    let is_source = meter.inbox().is_none();
                    meters.stages.add_cpu(is_source, clock::thread_cpu());
                    meter.ended();
                    return send(TaskEvent::Ended(task, frozen));
                }
            }
        }
    };
    let result = catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|payload| Err(Error::Panic(panic_text(payload.as_ref()))));
    match result {
        Ok(()) | Err(Error::Closed) => {}
        Err(error) => {
            // The coordinator is gone: the attempt is over already.
            let _ = send(TaskEvent::Failed(task, error));
        }
    }
}

impl Attempt {
    /// Starts every task.
    ///
    /// # Errors
    /// The system refuses a thread; what was started is cancelled.
    pub fn start<M: From<TaskEvent> + Send + 'static>(
        blueprint: &Arc<Blueprint>,
        beginning: Beginning,
        origins: &Arc<Origins>,
        events: &mpsc::Sender<M>,
    ) -> std::io::Result<Attempt> {
        let beginning = Arc::new(beginning);
        let plan = &blueprint.plan;
        let limits = blueprint.operators.iter().map(|loaded| &loaded.limits);
        let limits: Vec<_> = limits.map(|limits| limits.memory_bytes as u64).collect();
        let meters = Arc::new(Meters::new(plan, &limits));
        let mut wiring = Wiring::new(blueprint, &meters);
        let mut attempt = Attempt {
            sources: Vec::new(),
            meters: meters.clone(),
            closers: wiring.closers.clone(),
            cancel: Cancel::default(),
            threads: Vec::new(),
        };
        for (c, chain) in plan.chains.iter().enumerate() {
            let role = plan.nodes[chain.nodes[0]].role;
            let mut dealt = match role {
                Role::Source(i) => {
                    deal(&blueprint.job, &beginning, i, chain.parallelism).into_iter()
                }
                _ => Vec::new().into_iter(),
            };
            for subtask in 0..chain.parallelism {
                let task = meters.task(c, subtask);
                let outlets = wiring.outlets(chain, subtask);
                let worker = Worker {
                    blueprint: blueprint.clone(),
                    beginning: beginning.clone(),
                    meters: meters.clone(),
                    task,
                    origins: origins.clone(),
                    chain: c,
                    subtask,
                    #[cfg(feature = "kafka")]
                    cancel: attempt.cancel.clone(),
                };
                let (events, meters) = (events.clone(), meters.clone());
                // The system cuts a thread's name to 15 bytes.
                let name = meters.tasks[task].name.chars().take(15).collect();
                let thread = std::thread::Builder::new().name(name);
                let spawned = if let (Role::Source(i), Some(dealt)) = (role, dealt.next()) {
                    let waits = meters.tasks[task].waits.clone();
                    let control = Arc::new(SourceControl::new(waits));
                    attempt.sources.push((task, control.clone()));
                    thread.spawn(move || {
                        drive(task, &meters, &events, || {
                            worker.source(i, dealt, outlets, control)
                        });
                    })
                } else {
                    let (inbox, inputs) = wiring.inbox(c, subtask);
                    thread.spawn(move || {
                        drive(task, &meters, &events, || {
                            worker.operator_task(inbox, inputs, outlets)
                        });
                    })
                };
                // An error drops the attempt, which cancels what was started.
                attempt.threads.push(spawned?);
            }
        }
        Ok(attempt)
    }

    /// Cancels what still runs without waiting for it: for an end of the process. Nothing that a task does from now on can be
    /// committed.
    pub fn abandon(&mut self) {
        self.close();
        self.threads.clear();
    }

    /// Cancels what still runs and waits for it. A guest call in progress is waited for; its deadline bounds that.
    pub fn cancel(&mut self) {
        self.close();
        for thread in self.threads.drain(..) {
            // Panics were caught and reported inside.
            let _ = thread.join();
        }
    }
}

impl Attempt {
    fn close(&self) {
        for (_, control) in &self.sources {
            control.close();
        }
        for closer in &self.closers {
            closer.close();
        }
        self.cancel.cancel();
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// Deals the splits of source `i` to its subtasks.
fn deal(job: &Job, beginning: &Beginning, i: usize, parallelism: u16) -> Vec<Dealt> {
    let first_split = beginning.splits[..i]
        .iter()
        .map(|splits| splits.len() as u32)
        .sum();
    let splits = beginning.splits[i].clone();
    let dealt = source::deal(&job.sources[i], splits, usize::from(parallelism));
    let reads = |splits: &&Vec<SplitState>| splits.iter().any(|split| !split.done);
    let reading = dealt.iter().filter(reads).count();
    dealt
        .into_iter()
        .map(|splits| Dealt {
            splits,
            first_split,
            reading,
        })
        .collect()
}
