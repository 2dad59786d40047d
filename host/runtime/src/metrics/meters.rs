//! The meters of an attempt: one a task, with those of its nodes.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::{Counters, Share, Waits};
use crate::channel::Gauge;
use crate::graph::{Plan, Role};
use crate::stages::Stages;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A source.
    Source,
    /// An operator.
    Operator,
    /// A sink.
    Sink,
}

/// A node's subtask.
#[derive(Debug)]
pub struct NodeMeter {
    /// The node's id.
    pub id: String,
    /// What it is.
    pub kind: Kind,
    /// Bytes of memory that its guest may have; 0 if it has none.
    pub memory_limit: u64,
    /// What it counts.
    pub counters: Arc<Counters>,
}

/// How far a task has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It opens its files and instances and loads its state.
    Starting,
    /// It runs.
    Running,
    /// All its input has ended, and it has passed on everything.
    Ended,
}

/// A task: a thread that runs a source, or a chain of operators and sinks.
#[derive(Debug)]
pub struct TaskMeter {
    /// The chain's ids and the subtask: `clean+daily[1]`.
    pub name: String,
    /// Its chain in the plan.
    pub chain: usize,
    /// Its subtask.
    pub subtask: u16,
    /// Its nodes, the head first.
    pub nodes: Vec<NodeMeter>,
    /// Where its time goes.
    pub waits: Arc<Waits>,
    /// How far it has read, if it is a source's.
    pub share: Arc<Share>,
    inbox: OnceLock<Gauge>,
    phase: AtomicU8,
    passed: AtomicU64,
    stored: AtomicU64,
}

impl TaskMeter {
    /// The inbox that it reads from; a source has none.
    pub fn inbox(&self) -> Option<&Gauge> {
        self.inbox.get()
    }

    /// Names the inbox that it reads from, once.
    pub fn set_inbox(&self, gauge: Gauge) {
        // A second one cannot be: each task has one inbox.
        let _ = self.inbox.set(gauge);
    }

    /// How far it has come.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Starting,
            1 => Phase::Running,
            _ => Phase::Ended,
        }
    }

    /// It is ready to take its first step.
    pub fn built(&self) {
        self.phase.store(1, Ordering::Relaxed);
    }

    /// It has ended.
    pub fn ended(&self) {
        self.waits.end();
        self.phase.store(2, Ordering::Relaxed);
    }

    /// The last barrier that it passed.
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// It passed barrier `n`.
    pub fn set_passed(&self, n: u64) {
        self.passed.store(n, Ordering::Relaxed);
    }

    /// The last checkpoint for which its snapshot is durable.
    pub fn stored(&self) -> u64 {
        self.stored.load(Ordering::Relaxed)
    }

    /// Its snapshot for checkpoint `n` is durable.
    pub fn set_stored(&self, n: u64) {
        self.stored.store(n, Ordering::Relaxed);
    }
}

/// All meters of an attempt.
#[derive(Debug)]
pub struct Meters {
    /// By task.
    pub tasks: Vec<TaskMeter>,
    /// Where the time of operators' threads goes.
    pub stages: Arc<Stages>,
    /// For each chain the chains that feed it, once each.
    pub upstream: Vec<Vec<usize>>,
    /// For each chain its first task.
    first: Vec<usize>,
}

impl Meters {
    /// For every task of `plan`, chain by chain and subtask by subtask. `memory_limits` has the limit of each operator's guest.
    pub fn new(plan: &Plan, memory_limits: &[u64]) -> Meters {
        let mut meters = Meters {
            tasks: Vec::new(),
            stages: Arc::default(),
            upstream: vec![Vec::new(); plan.chains.len()],
            first: Vec::new(),
        };
        for (c, chain) in plan.chains.iter().enumerate() {
            meters.first.push(meters.tasks.len());
            let ids: Vec<&str> = chain
                .nodes
                .iter()
                .map(|node| plan.nodes[*node].id.as_str())
                .collect();
            for subtask in 0..chain.parallelism {
                let nodes = chain.nodes.iter().map(|node| {
                    let (kind, memory_limit) = match plan.nodes[*node].role {
                        Role::Source(_) => (Kind::Source, 0),
                        Role::Operator(i) => {
                            (Kind::Operator, memory_limits.get(i).copied().unwrap_or(0))
                        }
                        Role::Sink(_) => (Kind::Sink, 0),
                    };
                    NodeMeter {
                        id: plan.nodes[*node].id.to_string(),
                        kind,
                        memory_limit,
                        counters: Arc::default(),
                    }
                });
                meters.tasks.push(TaskMeter {
                    name: format!("{}[{subtask}]", ids.join("+")),
                    chain: c,
                    subtask,
                    nodes: nodes.collect(),
                    waits: Arc::default(),
                    share: Arc::default(),
                    inbox: OnceLock::new(),
                    phase: AtomicU8::new(0),
                    passed: AtomicU64::new(0),
                    stored: AtomicU64::new(0),
                });
            }
        }
        for edge in plan.edges.iter().filter(|edge| !edge.chained) {
            let (from, to) = (plan.chain_of(edge.from), plan.chain_of(edge.to));
            if !meters.upstream[to].contains(&from) {
                meters.upstream[to].push(from);
            }
        }
        meters
    }

    /// The number of the task of a chain's subtask.
    pub fn task(&self, chain: usize, subtask: u16) -> usize {
        self.first[chain] + usize::from(subtask)
    }

    /// Counters of all nodes.
    pub fn counters(&self) -> impl Iterator<Item = &Counters> {
        let nodes = self.tasks.iter().flat_map(|task| &task.nodes);
        nodes.map(|node| &*node.counters)
    }

    /// Records that all sources took up.
    pub fn read(&self) -> u64 {
        self.counters().map(Counters::read).sum()
    }

    /// The share of the input that was read, 0 to 1, if every source knows.
    pub fn share(&self) -> Option<f64> {
        let (mut done, mut all) = (0, 0);
        for task in self.tasks.iter().filter(|task| task.inbox().is_none()) {
            let (read, of) = task.share.get().share?;
            done += read;
            all += of;
        }
        (all > 0).then(|| done as f64 / all as f64)
    }
}
