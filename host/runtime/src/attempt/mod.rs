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
use std::time::Duration;

use weir_operator::{Component, Description, Limits};

use crate::channel::Closer;
use crate::checkpoint::Manifest;
use crate::checkpoint::state_file::StateFiles;
use crate::clock::{self, ProcessingClock};
use crate::graph::{Plan, Role};
use crate::job::model::Job;
use crate::memory::StateBudget;
use crate::metrics::{Counters, Origins};
use crate::source::{self, SplitState};
use crate::task::source::{Share, SourceControl};
use crate::task::{Error, Frozen, Step, Task};
use wiring::Wiring;
pub(crate) use worker::schema;
use worker::{Dealt, Worker};

/// A task's number, dense from 0.
pub type TaskId = usize;

/// What a task tells the coordinator.
pub enum TaskEvent {
    /// It passed barrier `n`.
    Passed(TaskId, u64, Frozen),
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
}

/// A running attempt.
pub struct Attempt {
    /// Source tasks and the coordinator's line to each.
    pub sources: Vec<(TaskId, Arc<SourceControl>)>,
    /// How far each source task has read.
    pub shares: Vec<Arc<Share>>,
    /// Which chain and subtask each task is, for messages.
    pub names: Vec<String>,
    /// Counters of the attempt.
    pub counters: Arc<Counters>,
    closers: Vec<Closer>,
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

/// Builds a task and runs its steps until it ends, reporting what it passes. `at_end` gets the processor time it used.
fn drive<M: From<TaskEvent>, T: Task>(
    task: TaskId,
    events: &mpsc::Sender<M>,
    at_end: impl Fn(Duration),
    build: impl FnOnce() -> Result<T, Error>,
) {
    // The coordinator is gone: the attempt is over.
    let send = |event: TaskEvent| events.send(event.into()).map_err(|_| Error::Closed);
    let run = || -> Result<(), Error> {
        let mut built = build()?;
        loop {
            match built.step()? {
                Step::Continue => {}
                Step::Snapshot(barrier, frozen) => {
                    send(TaskEvent::Passed(task, barrier.n, frozen))?;
                }
                Step::Ended(frozen) => {
                    at_end(clock::thread_cpu());
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
        let mut wiring = Wiring::new(blueprint);
        let mut attempt = Attempt {
            sources: Vec::new(),
            shares: Vec::new(),
            names: Vec::new(),
            counters: Arc::new(Counters::default()),
            closers: wiring.closers.clone(),
            threads: Vec::new(),
        };
        for (c, chain) in plan.chains.iter().enumerate() {
            let ids: Vec<&str> = chain
                .nodes
                .iter()
                .map(|node| plan.nodes[*node].id.as_str())
                .collect();
            let role = plan.nodes[chain.nodes[0]].role;
            let mut dealt = match role {
                Role::Source(i) => deal(&beginning, i, chain.parallelism).into_iter(),
                _ => Vec::new().into_iter(),
            };
            for subtask in 0..chain.parallelism {
                let task = attempt.names.len();
                attempt.names.push(format!("{}[{subtask}]", ids.join("+")));
                let outlets = wiring.outlets(chain, subtask);
                let worker = Worker {
                    blueprint: blueprint.clone(),
                    beginning: beginning.clone(),
                    counters: attempt.counters.clone(),
                    origins: origins.clone(),
                    chain: c,
                    subtask,
                };
                let events = events.clone();
                let counters = attempt.counters.clone();
                let is_source = matches!(role, Role::Source(_));
                let at_end = move |cpu| counters.stages.add_cpu(is_source, cpu);
                // The system cuts a thread's name to 15 bytes.
                let name = attempt.names[task].chars().take(15).collect();
                let thread = std::thread::Builder::new().name(name);
                let spawned = if let (Role::Source(i), Some(dealt)) = (role, dealt.next()) {
                    let control = Arc::new(SourceControl::default());
                    let share = Arc::new(Share::default());
                    attempt.sources.push((task, control.clone()));
                    attempt.shares.push(share.clone());
                    thread.spawn(move || {
                        drive(task, &events, at_end, || {
                            worker.source(i, dealt, outlets, control, share)
                        });
                    })
                } else {
                    let (inbox, inputs) = wiring.inbox(c, subtask);
                    thread.spawn(move || {
                        drive(task, &events, at_end, || {
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

    /// The share of the input that was read, 0 to 1, if every source knows.
    pub fn share(&self) -> Option<f64> {
        let (mut done, mut all) = (0, 0);
        for share in &self.shares {
            let (read, of) = share.get()?;
            done += read;
            all += of;
        }
        (all > 0).then(|| done as f64 / all as f64)
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
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// Deals the splits of source `i` to its subtasks.
fn deal(beginning: &Beginning, i: usize, parallelism: u16) -> Vec<Dealt> {
    let first_split = beginning.splits[..i]
        .iter()
        .map(|splits| splits.len() as u32)
        .sum();
    let dealt = source::assign(beginning.splits[i].clone(), usize::from(parallelism));
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
