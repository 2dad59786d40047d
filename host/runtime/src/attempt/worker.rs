//! Builds a task from the blueprint, on the task's own thread: its reader, instances, writers, and the state they go on from.

use std::sync::Arc;
use std::time::Duration;

use weir_operator::{Description, InputKind, OutputKeys};
use weir_state::{KeyedState, Memory, RestoreFile, Schema};

use super::wiring::Outlets;
use super::{Beginning, Blueprint};
use crate::batch::NO_TIME;
#[cfg(feature = "kafka")]
use crate::cancel::Cancel;
use crate::channel::Inbox;
use crate::checkpoint::StoredFile;
use crate::decode::dead_letter::Form;
use crate::fault_point;
use crate::graph::{DEAD_LETTERS, Role};
use crate::job::model::SourceConnector;
use crate::metrics::{Counters, Meters, Origins};
use crate::sink::{self, Surroundings};
use crate::source::{self, SplitState};
use crate::task::Error;
use crate::task::chain::{Chain, ChainNode, Outlet};
use crate::task::environment::OperatorEnvironment;
use crate::task::node::OperatorNode;
use crate::task::operator::OperatorTask;
use crate::task::sink_node::{SinkNode, sink_error};
use crate::task::source::{SourceControl, SourceOutlets, SourceSettings, SourceTask};

/// The subtasks of a source together may read ahead this part of the process's memory.
const READ_AHEAD: u64 = 16;

/// Builds a task on its own thread.
pub(super) struct Worker {
    pub(super) blueprint: Arc<Blueprint>,
    pub(super) beginning: Arc<Beginning>,
    pub(super) meters: Arc<Meters>,
    /// The task's number.
    pub(super) task: usize,
    pub(super) origins: Arc<Origins>,
    pub(super) chain: usize,
    pub(super) subtask: u16,
    /// Whether the attempt is being cancelled.
    #[cfg(feature = "kafka")]
    pub(super) cancel: Cancel,
}

impl Worker {
    pub(super) fn source(
        &self,
        i: usize,
        dealt: Dealt,
        mut outlets: Outlets,
        control: Arc<SourceControl>,
    ) -> Result<SourceTask, Error> {
        let source = &self.blueprint.job.sources[i];
        let head = self.blueprint.plan.chains[self.chain].nodes[0];
        let ports = outlets
            .remove(&head)
            .expect("made for every node of the chain");
        let mut ports = ports.into_iter();
        let outlets = SourceOutlets {
            records: ports.next().unwrap_or_default(),
            dead_letters: ports.nth(DEAD_LETTERS - 1).unwrap_or_default(),
            chain: self.chain(1, outlets)?,
        };
        let of = self.blueprint.plan.chains[self.chain].parallelism;
        let subtask = source::Subtask {
            number: u32::from(self.subtask),
            of: u32::from(of),
            first_split: dealt.first_split,
            all: &self.beginning.splits[i],
            read_ahead: self.blueprint.memory.process() / READ_AHEAD / u64::from(of),
        };
        let reader =
            source::open(source, dealt.splits, subtask).map_err(|error| Error::Source {
                source_id: source.id.to_string(),
                error,
            })?;
        let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        let settings = SourceSettings {
            id: source.id.to_string(),
            letter_form: Form::of(&self.blueprint.job, &source.on_error),
            // A generator's records have times only where they are asked for.
            has_event_time: source.event_time.is_some()
                || !matches!(source.connector, SourceConnector::Kafka(_)),
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
            next_n: self.beginning.next_n,
            origins: self.origins.clone(),
        };
        let meter = &self.meters.tasks[self.task];
        let counters = meter.nodes[0].counters.clone();
        Ok(SourceTask::new(
            settings,
            reader,
            outlets,
            control,
            counters,
            meter.share.clone(),
        ))
    }

    /// The task of a chain whose head reads `inbox`; channel i feeds its input `inputs[i]`.
    pub(super) fn operator_task(
        &self,
        inbox: Inbox,
        inputs: Vec<u32>,
        outlets: Outlets,
    ) -> Result<OperatorTask, Error> {
        let chain = self.chain(0, outlets)?;
        let (blocking, next_n) = (self.blueprint.blocking, self.beginning.next_n);
        let clock = self.blueprint.clock.clone();
        Ok(OperatorTask::new(
            inbox, inputs, chain, blocking, next_n, clock,
        ))
    }

    /// The chain's nodes from number `first` on.
    fn chain(&self, first: usize, mut outlets: Outlets) -> Result<Chain, Error> {
        let plan = &self.blueprint.plan;
        let mut nodes = Vec::new();
        let mut counters = Vec::new();
        let meters = &self.meters.tasks[self.task].nodes[first..];
        for (node, meter) in plan.chains[self.chain].nodes[first..].iter().zip(meters) {
            counters.push(meter.counters.clone());
            let outlets = outlets
                .remove(node)
                .expect("made for every node of the chain");
            nodes.push(match plan.nodes[*node].role {
                Role::Operator(i) => {
                    let counters = meter.counters.clone();
                    ChainNode::Operator(Box::new(self.operator(*node, i, outlets, counters)?))
                }
                Role::Sink(i) => ChainNode::Sink(Box::new(self.sink(i, outlets)?)),
                Role::Source(_) => unreachable!("a source is the first of its chain"),
            });
        }
        let stages = self.meters.stages.clone();
        Ok(Chain::new(nodes, counters, stages, self.origins.clone()))
    }

    fn sink(&self, i: usize, outlets: Vec<Vec<Outlet>>) -> Result<SinkNode, Error> {
        let sink = &self.blueprint.job.sinks[i];
        let author = sink::Author {
            lineage: self.beginning.lineage.clone(),
            attempt: self.beginning.attempt,
            subtask: self.subtask,
            next_n: self.beginning.next_n,
        };
        let surroundings = Surroundings {
            #[cfg(feature = "kafka")]
            kafka: self.kafka(i),
            author,
        };
        let writer = sink::open(sink, surroundings)
            .map_err(|error| sink_error(sink.id.as_str(), error, &self.origins))?;
        Ok(SinkNode {
            id: sink.id.to_string(),
            subtask: self.subtask,
            writer,
            on_error: sink.on_error.clone(),
            letter_form: Form::of(&self.blueprint.job, &sink.on_error),
            faults_logged: 0,
            outlets,
        })
    }

    /// What sink `i` needs if it writes to Kafka.
    #[cfg(feature = "kafka")]
    fn kafka(&self, i: usize) -> Option<sink::KafkaSurroundings> {
        let output = self.blueprint.kafka.sinks.get(i)?.as_ref()?;
        let transactions = output.transactional.then(|| {
            let made = self.beginning.transactions.clone();
            made.expect("recovery makes the transactions of a job that is exactly once")
        });
        Some(sink::KafkaSurroundings {
            output: output.clone(),
            transactions,
            cancel: self.cancel.clone(),
            waits: self.meters.tasks[self.task].waits.clone(),
        })
    }

    fn operator(
        &self,
        node: usize,
        i: usize,
        outlets: Vec<Vec<Outlet>>,
        counters: Arc<Counters>,
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
        let mut state: Box<dyn KeyedState> = Box::new(Memory::new(schema, range, max_parallelism));
        let restored = self.restore(&id, state.as_mut(), range, parallelism)?;
        let outputs = &loaded.description.outputs;
        let keyless = outputs
            .iter()
            .map(|output| output.keys == OutputKeys::Absent)
            .collect();
        let environment = OperatorEnvironment::new(state, keyless, id.clone(), self.subtask);
        let call_error = |error| Error::Call {
            operator: id.clone(),
            subtask: self.subtask,
            records: None,
            error: Box::new(error),
        };
        let mut instance = loaded
            .component
            .instantiate(&id, &loaded.description, loaded.limits.clone(), environment)
            .map_err(call_error)?;
        instance.open(&operator.config).map_err(call_error)?;
        let inputs = &plan.nodes[node].inputs;
        let mut node = OperatorNode {
            subtask: self.subtask,
            parallelism,
            component: loaded.component.sha256().to_owned(),
            instance: Some(instance),
            call_time: loaded.limits.call_time,
            memory_mark: loaded.limits.memory_bytes / 2,
            timers: loaded
                .description
                .timers
                .iter()
                .map(|timer| timer.name.clone())
                .collect(),
            on_error: operator.on_error.clone(),
            letter_form: Form::of(&self.blueprint.job, &operator.on_error),
            dead_letters: loaded.description.outputs.len(),
            faults_logged: 0,
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
            account: self.blueprint.memory.account(),
            clock: self.blueprint.clock.clone(),
            counters,
            stages: self.meters.stages.clone(),
            outlets,
            id,
        };
        // What was restored.
        node.count_memory()?;
        Ok(node)
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
            let overlaps = old.groups.0 < range.end && range.start < old.groups.1;
            if overlaps && !old.files.is_empty() {
                self.restore_files(id, state, &old.files)?;
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

    fn restore_files(
        &self,
        id: &str,
        state: &mut dyn KeyedState,
        stored: &[StoredFile],
    ) -> Result<(), Error> {
        let storage = self
            .blueprint
            .state_files
            .as_ref()
            .expect("a manifest came from storage");
        let wrap = |error| Error::State {
            operator: id.to_owned(),
            subtask: self.subtask,
            error,
        };
        let io = |file: &StoredFile, source| {
            wrap(weir_state::Error::Io {
                file: file.name.clone(),
                source,
            })
        };
        let names: Vec<String> = stored
            .iter()
            .map(|file| format!("state/{}", file.name))
            .collect();
        let mut readers: Vec<_> = stored.iter().map(|file| storage.reader(file)).collect();
        let mut files: Vec<RestoreFile<'_>> = readers
            .iter_mut()
            .zip(&names)
            .map(|(reader, name)| RestoreFile { reader, name })
            .collect();
        state.restore_files(&mut files).map_err(wrap)?;
        for (reader, file) in readers.into_iter().zip(stored) {
            reader.verify().map_err(|source| io(file, source))?;
        }
        Ok(())
    }
}

/// A source subtask's splits.
pub(super) struct Dealt {
    pub(super) splits: Vec<SplitState>,
    /// The job-wide number of the source's split 0.
    pub(super) first_split: u32,
    /// How many subtasks of the source have something to read: they divide its rate.
    pub(super) reading: usize,
}

struct Restored {
    watermark: i64,
    finished: bool,
}

/// A description's states and timers in the state crate's terms.
pub(crate) fn schema(description: &Description) -> Schema {
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
