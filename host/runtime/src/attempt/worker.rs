//! Builds a task from the blueprint, on the task's own thread: its reader, instances, writers, and the state they go on from.

use std::sync::Arc;
use std::time::Duration;

use weir_operator::{Description, InputKind, OutputKeys};
use weir_state::{KeyedState, Memory, Schema};

use super::wiring::{Outlets, exchanges};
use super::{Beginning, Blueprint};
use crate::batch::NO_TIME;
use crate::channel::Inbox;
use crate::checkpoint::StoredFile;
use crate::graph::{DEAD_LETTERS, Role};
use crate::metrics::{Counters, Origins};
use crate::source::{self, SplitState};
use crate::task::Error;
use crate::task::chain::{Chain, ChainNode, Outlet, SinkNode};
use crate::task::environment::OperatorEnvironment;
use crate::task::node::OperatorNode;
use crate::task::operator::OperatorTask;
use crate::task::source::{Share, SourceControl, SourceSettings, SourceTask};
use crate::{fault_point, sink};

/// Builds a task on its own thread.
pub(super) struct Worker {
    pub(super) blueprint: Arc<Blueprint>,
    pub(super) beginning: Arc<Beginning>,
    pub(super) counters: Arc<Counters>,
    pub(super) origins: Arc<Origins>,
    pub(super) chain: usize,
    pub(super) subtask: u16,
}

impl Worker {
    pub(super) fn source(
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

    /// The task of a chain whose head reads `inbox`; channel i feeds its input `inputs[i]`.
    pub(super) fn operator_task(
        &self,
        inbox: Inbox,
        inputs: Vec<u32>,
        outlets: Outlets,
    ) -> Result<OperatorTask, Error> {
        let chain = self.chain(outlets)?;
        let (blocking, next_n) = (self.blueprint.blocking, self.beginning.next_n);
        let clock = self.blueprint.clock.clone();
        Ok(OperatorTask::new(
            inbox, inputs, chain, blocking, next_n, clock,
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
        let mut state: Box<dyn KeyedState> = Box::new(Memory::new(schema, range, max_parallelism));
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
            .instantiate(&loaded.description, loaded.limits.clone(), environment)
            .map_err(call_error)?;
        instance.open(&operator.config).map_err(call_error)?;
        let inputs = &plan.nodes[node].inputs;
        let mut node = OperatorNode {
            subtask: self.subtask,
            parallelism,
            component: loaded.component.sha256().to_owned(),
            instance: Some(instance),
            memory_mark: loaded.limits.memory_bytes / 2,
            timers: loaded
                .description
                .timers
                .iter()
                .map(|timer| timer.name.clone())
                .collect(),
            on_error: operator.on_error.clone(),
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
            counters: self.counters.clone(),
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
