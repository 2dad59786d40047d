//! One attempt: the tasks of a job on their threads, from restored snapshots until they end, fail or are cancelled.
//!
//! [`Attempt::start`] wires inboxes and threads by the [`Plan`]; from then on tasks talk to each other over channels and to the
//! coordinator by [`TaskEvent`]s. Everything slow (instances, state to restore, files to open) happens on the task's own thread.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use weir_operator::{Component, Description, InputKind, Limits, OutputKeys};
use weir_state::{KeyedState, Oracle, Schema};

use crate::batch::NO_TIME;
use crate::channel::{self, Closer, Sender};
use crate::checkpoint::state_file::StateFiles;
use crate::checkpoint::{Manifest, StoredFile};
use crate::exchange::Exchange;
use crate::graph::{Chain as ChainPlan, DEAD_LETTERS, Plan, Role};
use crate::job::model::{Exchange as ExchangeKind, Job};
use crate::metrics::{Counters, Origins};
use crate::source::{self, SplitState};
use crate::task::chain::{Chain, ChainNode, Outlet, SinkNode};
use crate::task::environment::OperatorEnvironment;
use crate::task::node::OperatorNode;
use crate::task::operator::OperatorTask;
use crate::task::source::{Share, SourceControl, SourceSettings, SourceTask};
use crate::task::{Error, Frozen, Step};
use crate::{fault_point, sink};

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
    /// Its description under the job's configuration.
    pub description: Description,
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
    /// Limits of guests.
    pub limits: Limits,
    /// Where state files are, if the job takes checkpoints.
    pub state_files: Option<StateFiles>,
    /// Whether alignment blocks channels: under exactly once.
    pub blocking: bool,
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

type Senders = HashMap<(usize, u16, u16), Sender>;

/// The senders of an edge from one upstream subtask.
fn exchange(blueprint: &Blueprint, senders: &mut Senders, edge: usize, subtask: u16) -> Exchange {
    let plan = &blueprint.plan;
    let kind = plan.edges[edge].exchange;
    let downstream = plan.nodes[plan.edges[edge].to].parallelism;
    let targets = match kind {
        ExchangeKind::Forward => subtask..subtask + 1,
        ExchangeKind::ByKey | ExchangeKind::Rebalance => 0..downstream,
    };
    let senders = targets
        .map(|to| {
            senders
                .remove(&(edge, subtask, to))
                .expect("each channel is made once and taken once")
        })
        .collect();
    Exchange::new(kind, blueprint.job.max_parallelism, senders)
}

/// Where each node's output ports lead.
type Outlets = HashMap<usize, Vec<Vec<Outlet>>>;

fn outlets(
    blueprint: &Blueprint,
    chain: &ChainPlan,
    senders: &mut Senders,
    subtask: u16,
) -> Outlets {
    let plan = &blueprint.plan;
    let mut all = Outlets::new();
    for node in &chain.nodes {
        let ports = plan.nodes[*node].outputs.iter().map(|edges| {
            let outlet = |edge: &usize| {
                if plan.edges[*edge].chained {
                    let to = plan.edges[*edge].to;
                    let at = chain.nodes.iter().position(|node| *node == to);
                    Outlet::Chained(
                        at.expect("a chained edge stays in the chain"),
                        plan.edges[*edge].input,
                    )
                } else {
                    Outlet::Exchange(exchange(blueprint, senders, *edge, subtask))
                }
            };
            edges.iter().map(outlet).collect()
        });
        let ports = ports.collect();
        all.insert(*node, ports);
    }
    all
}

fn exchanges(outlets: Vec<Outlet>) -> Vec<Exchange> {
    let exchange = |outlet| match outlet {
        Outlet::Exchange(exchange) => exchange,
        Outlet::Chained(..) => unreachable!("a source is a chain of its own"),
    };
    outlets.into_iter().map(exchange).collect()
}

/// The text of a panic.
fn panic_text(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a task panicked".to_owned())
}

/// Runs a task's steps until it ends, reporting what it passes.
fn drive<M: From<TaskEvent>>(
    task: TaskId,
    events: &mpsc::Sender<M>,
    step: impl FnMut() -> Result<Step, Error>,
) {
    let send = |event: TaskEvent| events.send(event.into()).map_err(|_| Error::Closed);
    let mut step = step;
    let mut run = || -> Result<(), Error> {
        loop {
            match step()? {
                Step::Continue => {}
                Step::Snapshots(all) => {
                    for (barrier, frozen) in all {
                        // The coordinator is gone: the attempt is over.
                        send(TaskEvent::Passed(task, barrier.n, frozen))?;
                    }
                }
                Step::Ended(frozen) => {
                    return send(TaskEvent::Ended(task, frozen));
                }
            }
        }
    };
    let result = catch_unwind(AssertUnwindSafe(&mut run))
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
        let mut attempt = Attempt {
            sources: Vec::new(),
            shares: Vec::new(),
            names: Vec::new(),
            counters: Arc::new(Counters::default()),
            closers: Vec::new(),
            threads: Vec::new(),
        };
        let mut senders = Senders::new();
        let mut inboxes = HashMap::new();
        for (c, chain) in plan.chains.iter().enumerate() {
            if matches!(plan.nodes[chain.nodes[0]].role, Role::Source(_)) {
                continue;
            }
            for subtask in 0..chain.parallelism {
                let channels = plan.channels(chain, subtask);
                let (inbox, own) = channel::inbox(channels.len());
                let inputs: Vec<u32> = channels
                    .iter()
                    .map(|(edge, _)| plan.edges[*edge].input)
                    .collect();
                for ((edge, from), sender) in channels.into_iter().zip(own) {
                    senders.insert((edge, from, subtask), sender);
                }
                attempt.closers.push(inbox.closer());
                inboxes.insert((c, subtask), (inbox, inputs));
            }
        }
        let mut first_split = 0;
        let mut first_splits = Vec::new();
        for splits in &beginning.splits {
            first_splits.push(first_split);
            first_split += splits.len() as u32;
        }
        for (c, chain) in plan.chains.iter().enumerate() {
            let head = chain.nodes[0];
            let names: Vec<&str> = chain
                .nodes
                .iter()
                .map(|node| plan.nodes[*node].id.as_str())
                .collect();
            let dealt = match plan.nodes[head].role {
                Role::Source(i) => {
                    source::assign(beginning.splits[i].clone(), usize::from(chain.parallelism))
                }
                _ => Vec::new(),
            };
            let reading = dealt
                .iter()
                .filter(|splits| splits.iter().any(|split| !split.done))
                .count();
            let mut dealt = dealt.into_iter();
            for subtask in 0..chain.parallelism {
                let task = attempt.names.len();
                attempt
                    .names
                    .push(format!("{}[{subtask}]", names.join("+")));
                let outlets = outlets(blueprint, chain, &mut senders, subtask);
                let worker = Worker {
                    blueprint: blueprint.clone(),
                    beginning: beginning.clone(),
                    counters: attempt.counters.clone(),
                    origins: origins.clone(),
                    chain: c,
                    subtask,
                };
                let events = events.clone();
                let name = attempt.names[task].chars().take(15).collect();
                let thread = std::thread::Builder::new().name(name);
                let spawned = match plan.nodes[head].role {
                    Role::Source(i) => {
                        let control = Arc::new(SourceControl::default());
                        attempt.sources.push((task, control.clone()));
                        let share = Arc::new(Share::default());
                        attempt.shares.push(share.clone());
                        let splits = dealt.next().unwrap_or_default();
                        let base = first_splits[i];
                        thread.spawn(move || {
                            let mut built = None;
                            let mut inputs = Some((splits, outlets, control, share));
                            drive(task, &events, || {
                                if let Some((splits, outlets, control, share)) = inputs.take() {
                                    let dealt = Dealt {
                                        splits,
                                        first_split: base,
                                        reading,
                                    };
                                    built = Some(worker.source(i, dealt, outlets, control, share)?);
                                }
                                built.as_mut().expect("built by the first step").step()
                            });
                        })
                    }
                    _ => {
                        let (inbox, inputs) = inboxes
                            .remove(&(c, subtask))
                            .expect("made above for every such chain");
                        thread.spawn(move || {
                            let mut built = None;
                            let mut parts = Some((inbox, inputs, outlets));
                            drive(task, &events, || {
                                if let Some((inbox, inputs, outlets)) = parts.take() {
                                    let chain = worker.chain(outlets)?;
                                    built = Some(OperatorTask::new(
                                        inbox,
                                        inputs,
                                        chain,
                                        worker.blueprint.blocking,
                                        worker.beginning.next_n,
                                    ));
                                }
                                built.as_mut().expect("built by the first step").step()
                            });
                        })
                    }
                };
                match spawned {
                    Ok(handle) => attempt.threads.push(handle),
                    Err(error) => {
                        attempt.cancel();
                        return Err(error);
                    }
                }
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

/// Builds a task on its own thread.
struct Worker {
    blueprint: Arc<Blueprint>,
    beginning: Arc<Beginning>,
    counters: Arc<Counters>,
    origins: Arc<Origins>,
    chain: usize,
    subtask: u16,
}

impl Worker {
    fn source(
        &self,
        i: usize,
        dealt: Dealt,
        mut outlets: Outlets,
        control: Arc<SourceControl>,
        share: Arc<Share>,
    ) -> Result<SourceTask, Error> {
        let source = &self.blueprint.job.sources[i];
        let head = self.blueprint.plan.chains[self.chain].nodes[0];
        let ports = outlets
            .remove(&head)
            .expect("made for every node of the chain");
        let mut ports = ports.into_iter();
        let records = exchanges(ports.next().unwrap_or_default());
        let dead_letters = exchanges(ports.nth(DEAD_LETTERS - 1).unwrap_or_default());
        let reader = source::open(source, dealt.splits, dealt.first_split).map_err(|error| {
            Error::Source {
                source_id: source.id.to_string(),
                error,
            }
        })?;
        let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        let settings = SourceSettings {
            id: source.id.to_string(),
            out_of_order: source
                .event_time
                .as_ref()
                .map_or(0, |time| millis(time.out_of_order)),
            idle_after: source
                .event_time
                .as_ref()
                .map_or(Duration::MAX, |time| time.idle),
            rate: source
                .rate
                .map(|rate| rate as f64 / dealt.reading.max(1) as f64),
        };
        let counters = self.counters.clone();
        Ok(SourceTask::new(
            settings,
            reader,
            records,
            dead_letters,
            control,
            counters,
            share,
        ))
    }

    fn chain(&self, mut outlets: Outlets) -> Result<Chain, Error> {
        let plan = &self.blueprint.plan;
        let mut nodes = Vec::new();
        for node in &plan.chains[self.chain].nodes {
            let outlets = outlets
                .remove(node)
                .expect("made for every node of the chain");
            nodes.push(match plan.nodes[*node].role {
                Role::Operator(i) => {
                    ChainNode::Operator(Box::new(self.operator(*node, i, outlets)?))
                }
                Role::Sink(i) => ChainNode::Sink(Box::new(self.sink(i)?)),
                Role::Source(_) => unreachable!("a source is a chain of its own"),
            });
        }
        Ok(Chain::new(
            nodes,
            self.counters.clone(),
            self.origins.clone(),
        ))
    }

    fn sink(&self, i: usize) -> Result<SinkNode, Error> {
        let sink = &self.blueprint.job.sinks[i];
        let writer = sink::open(
            sink,
            &self.beginning.lineage,
            self.beginning.attempt,
            self.subtask,
        )
        .map_err(|error| Error::Sink {
            sink: sink.id.to_string(),
            record: None,
            error,
        })?;
        Ok(SinkNode {
            id: sink.id.to_string(),
            subtask: self.subtask,
            writer,
        })
    }

    fn operator(
        &self,
        node: usize,
        i: usize,
        outlets: Vec<Vec<Outlet>>,
    ) -> Result<OperatorNode, Error> {
        let operator = &self.blueprint.job.operators[i];
        let loaded = &self.blueprint.operators[i];
        let plan = &self.blueprint.plan;
        let parallelism = plan.nodes[node].parallelism;
        let max_parallelism = self.blueprint.job.max_parallelism;
        let id = operator.id.to_string();
        let schema = schema(&loaded.description);
        let stateful = !(schema.states.is_empty() && schema.timers.is_empty());
        let range = weir_state::hash::group_range(self.subtask, parallelism, max_parallelism);
        let mut state: Box<dyn KeyedState> = Box::new(Oracle::new(schema, range, max_parallelism));
        let restored = self.restore(&id, state.as_mut(), range, parallelism)?;
        let outputs = &loaded.description.outputs;
        let keyless = outputs
            .iter()
            .map(|output| output.keys == OutputKeys::Absent)
            .collect();
        let environment =
            OperatorEnvironment::new(state, keyless, format!("{id}[{}]", self.subtask));
        let call_error = |error| Error::Call {
            operator: id.clone(),
            subtask: self.subtask,
            records: None,
            error: Box::new(error),
        };
        let mut instance = loaded
            .component
            .instantiate(
                &loaded.description,
                self.blueprint.limits.clone(),
                environment,
            )
            .map_err(call_error)?;
        instance.open(&operator.config).map_err(call_error)?;
        let inputs = &plan.nodes[node].inputs;
        Ok(OperatorNode {
            subtask: self.subtask,
            parallelism,
            instance,
            keyed: loaded
                .description
                .inputs
                .iter()
                .map(|input| input.kind == InputKind::Keyed)
                .collect(),
            null_key: operator.null_key,
            stateful,
            watermark: restored.watermark,
            finished: restored.finished,
            counts_late: inputs
                .iter()
                .any(|edge| matches!(plan.nodes[plan.edges[*edge].from].role, Role::Source(_))),
            outlets,
            id,
        })
    }

    /// Loads what the checkpoint holds of this subtask's key groups, whatever the parallelism then.
    fn restore(
        &self,
        id: &str,
        state: &mut dyn KeyedState,
        range: weir_state::GroupRange,
        parallelism: u16,
    ) -> Result<Restored, Error> {
        let fresh = Restored {
            watermark: NO_TIME,
            finished: false,
        };
        let Some(manifest) = &self.beginning.manifest else {
            return Ok(fresh);
        };
        let Some(operator) = manifest.operators.iter().find(|operator| operator.id == id) else {
            return Ok(fresh);
        };
        let subtasks = &operator.subtasks;
        for old in subtasks {
            let Some(file) = &old.file else { continue };
            if old.groups.0 < range.end && range.start < old.groups.1 {
                self.restore_file(id, state, file)?;
                fault_point::pass("during-restore");
            }
        }
        let same = (operator.parallelism == parallelism)
            .then(|| subtasks.iter().find(|old| old.subtask == self.subtask))
            .flatten();
        Ok(match same {
            Some(same) => Restored {
                watermark: same.watermark,
                finished: same.finished,
            },
            None => Restored {
                watermark: subtasks
                    .iter()
                    .map(|old| old.watermark)
                    .min()
                    .unwrap_or(NO_TIME),
                finished: subtasks.iter().all(|old| old.finished),
            },
        })
    }

    fn restore_file(
        &self,
        id: &str,
        state: &mut dyn KeyedState,
        file: &StoredFile,
    ) -> Result<(), Error> {
        let files = self
            .blueprint
            .state_files
            .as_ref()
            .expect("a manifest came from storage");
        let wrap = |error| Error::State {
            operator: id.to_owned(),
            subtask: self.subtask,
            error,
        };
        let io = |source| {
            wrap(weir_state::Error::Io {
                file: file.name.clone(),
                source,
            })
        };
        let mut reader = files.open(file).map_err(io)?;
        state
            .restore(&mut reader, &format!("state/{}", file.name))
            .map_err(wrap)?;
        reader.verify().map_err(io)
    }
}

/// A source subtask's splits.
struct Dealt {
    splits: Vec<SplitState>,
    /// The job-wide number of the source's split 0.
    first_split: u32,
    /// How many subtasks of the source have something to read: they divide its rate.
    reading: usize,
}

struct Restored {
    watermark: i64,
    finished: bool,
}

/// A description's states and timers in the state crate's terms.
pub fn schema(description: &Description) -> Schema {
    use weir_operator::{StateKind, TimeDomain, TtlRenewal};
    Schema {
        states: description
            .states
            .iter()
            .map(|state| weir_state::StateSpec {
                name: state.name.clone(),
                kind: match state.kind {
                    StateKind::Value => weir_state::StateKind::Value,
                    StateKind::Items => weir_state::StateKind::Items,
                    StateKind::Entries | StateKind::SharedEntries => weir_state::StateKind::Entries,
                },
                version: state.version,
                ttl: state.ttl.as_ref().map(|ttl| weir_state::Ttl {
                    millis: ttl.millis,
                    renew_on_access: ttl.renewal == TtlRenewal::Access,
                }),
            })
            .collect(),
        timers: description
            .timers
            .iter()
            .map(|timer| weir_state::TimerSpec {
                name: timer.name.clone(),
                domain: match timer.domain {
                    TimeDomain::Event => weir_state::TimeDomain::Event,
                    TimeDomain::Processing => weir_state::TimeDomain::Processing,
                },
            })
            .collect(),
    }
}
