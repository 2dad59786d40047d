//! From a checked job and the descriptions of its components to a physical plan: nodes, edges, chains.
//!
//! Everything that needs a component's ports is checked here: named outputs and inputs exist, every declared input is
//! fed, exchanges fit the kind of the input. Then forward edges to nodes with no other input become *chains*: both ends share a
//! thread a subtask, and records pass between them by a function call.

use weir_operator::{Description, InputKind, OutputKeys};

use crate::job::model::{
    ErrorPolicy, Exchange, Input, Job, NodeId, Place, SinkConnector, SourceConnector,
};

/// What a node is, with its index in the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `job.sources[i]`. Its port 0 carries records, its port 1 dead letters.
    Source(usize),
    /// `job.operators[i]`.
    Operator(usize),
    /// `job.sinks[i]`.
    Sink(usize),
}

/// A logical node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// What it is.
    pub role: Role,
    /// Its subtasks.
    pub parallelism: u16,
    /// Edges into it.
    pub inputs: Vec<usize>,
    /// Edges out of it, a list an output port.
    pub outputs: Vec<Vec<usize>>,
    place: Place,
}

/// An edge between nodes.
#[derive(Clone, Debug)]
pub struct Edge {
    /// Upstream node.
    pub from: usize,
    /// Its output port.
    pub port: usize,
    /// Downstream node.
    pub to: usize,
    /// The downstream's input that it feeds.
    pub input: u32,
    /// How records are dealt out.
    pub exchange: Exchange,
    /// Whether both ends share a thread.
    pub chained: bool,
}

/// Nodes that share a thread a subtask: a tree, its root first, each before what it feeds.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Nodes in the order in which a barrier passes them.
    pub nodes: Vec<usize>,
    /// Subtasks of each.
    pub parallelism: u16,
}

/// The physical plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Sources, operators and sinks of the job, in this order.
    pub nodes: Vec<Node>,
    /// Edges.
    pub edges: Vec<Edge>,
    /// Chains. A source is the first of its chain.
    pub chains: Vec<Chain>,
}

/// Something in the job file that does not fit the components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where in the job file.
    pub place: Place,
    /// Permanent code.
    pub code: &'static str,
    /// What is wrong.
    pub title: String,
    /// The remedy.
    pub help: String,
}

/// Port of a source that carries dead letters. An operator's is the one behind its outputs, a sink's the only one.
pub const DEAD_LETTERS: usize = 1;

/// Input of a sink that takes dead letters; what it is there for is its input 0.
pub const DEAD_LETTER_INPUT: u32 = 1;

struct Builder<'a> {
    job: &'a Job,
    descriptions: &'a [Description],
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    problems: Vec<Problem>,
}

/// Builds the plan. `descriptions[i]` is that of `job.operators[i]`; `parallelism` is what nodes have that do not say their own.
///
/// # Errors
/// Everything that does not fit, not only the first.
pub fn plan(
    job: &Job,
    descriptions: &[Description],
    parallelism: u16,
) -> Result<Plan, Vec<Problem>> {
    let mut builder = Builder {
        job,
        descriptions,
        nodes: Vec::new(),
        edges: Vec::new(),
        problems: Vec::new(),
    };
    builder.add_nodes(parallelism);
    builder.add_edges();
    builder.check_fed();
    if !builder.problems.is_empty() {
        return Err(builder.problems);
    }
    builder.settle_exchanges();
    if !builder.problems.is_empty() {
        return Err(builder.problems);
    }
    Ok(builder.chain())
}

impl Builder<'_> {
    fn problem(&mut self, place: Place, code: &'static str, title: String, help: String) {
        self.problems.push(Problem {
            place,
            code,
            title,
            help,
        });
    }

    fn add_nodes(&mut self, parallelism: u16) {
        for (i, source) in self.job.sources.iter().enumerate() {
            let only_one = matches!(source.connector, SourceConnector::Stdin);
            let own = if only_one {
                Some(1)
            } else {
                source.parallelism
            };
            self.nodes.push(Node {
                id: source.id.clone(),
                role: Role::Source(i),
                parallelism: own.unwrap_or(parallelism),
                inputs: Vec::new(),
                outputs: vec![Vec::new(); 2],
                place: source.place,
            });
        }
        for (i, operator) in self.job.operators.iter().enumerate() {
            self.nodes.push(Node {
                id: operator.id.clone(),
                role: Role::Operator(i),
                parallelism: operator.parallelism.unwrap_or(parallelism),
                inputs: Vec::new(),
                // One port more than it declares, for dead letters.
                outputs: vec![Vec::new(); self.descriptions[i].outputs.len() + 1],
                place: operator.place,
            });
        }
        for (i, sink) in self.job.sinks.iter().enumerate() {
            let only_one = matches!(sink.connector, SinkConnector::Stdout);
            let own = if only_one { Some(1) } else { sink.parallelism };
            self.nodes.push(Node {
                id: sink.id.clone(),
                role: Role::Sink(i),
                parallelism: own.unwrap_or(parallelism),
                inputs: Vec::new(),
                // For dead letters.
                outputs: vec![Vec::new()],
                place: sink.place,
            });
        }
    }

    fn node(&self, id: &NodeId) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == *id)
    }

    fn add_edges(&mut self) {
        let job = self.job;
        for operator in &job.operators {
            let to = self.node(&operator.id).expect("added from the same list");
            for input in &operator.inputs {
                let Some((from, port)) = self.upstream(input) else {
                    continue;
                };
                let Some(number) = self.input_port(to, input) else {
                    continue;
                };
                self.add_edge(from, port, to, number, input.exchange);
            }
        }
        for sink in &job.sinks {
            let to = self.node(&sink.id).expect("added from the same list");
            for input in &sink.inputs {
                if let Some((from, port)) = self.upstream(input) {
                    self.add_edge(from, port, to, 0, input.exchange);
                }
            }
        }
        let sources = job
            .sources
            .iter()
            .map(|source| (&source.id, &source.on_error));
        let operators = job
            .operators
            .iter()
            .map(|operator| (&operator.id, &operator.on_error));
        let sinks = job.sinks.iter().map(|sink| (&sink.id, &sink.on_error));
        for (id, policy) in sources.chain(operators).chain(sinks) {
            if let ErrorPolicy::DeadLetter(sink) = policy
                && let (Some(from), Some(to)) = (self.node(id), self.node(sink))
            {
                let port = self.nodes[from].outputs.len() - 1;
                self.add_edge(from, port, to, DEAD_LETTER_INPUT, None);
            }
        }
    }

    fn add_edge(
        &mut self,
        from: usize,
        port: usize,
        to: usize,
        input: u32,
        asked: Option<Exchange>,
    ) {
        let edge = self.edges.len();
        // Settled below; the marker for "not asked for" is kept apart in `asked`.
        let exchange = asked.unwrap_or_else(|| self.default_exchange(from, port, to, input));
        self.edges.push(Edge {
            from,
            port,
            to,
            input,
            exchange,
            chained: false,
        });
        self.nodes[from].outputs[port].push(edge);
        self.nodes[to].inputs.push(edge);
    }

    fn upstream(&mut self, input: &Input) -> Option<(usize, usize)> {
        let Some(from) = self.node(&input.from) else {
            self.problem(
                input.place,
                "W0112",
                format!("input from `{}`, which does not exist", input.from),
                "name a source or an operator".into(),
            );
            return None;
        };
        let port = match (self.nodes[from].role, &input.output) {
            (Role::Sink(_), _) => {
                self.problem(
                    input.place,
                    "W0112",
                    format!("input from sink `{}`: a sink has no output", input.from),
                    "name a source or an operator".into(),
                );
                return None;
            }
            (Role::Operator(_), None) if self.nodes[from].outputs.len() == 1 => {
                self.problem(
                    input.place,
                    "W0220",
                    format!("operator `{}` has no output", input.from),
                    "its component declares none; see `weir inspect`".into(),
                );
                return None;
            }
            (_, None) => 0,
            (Role::Source(_), Some(name)) => {
                self.problem(
                    input.place,
                    "W0220",
                    format!("source `{}` has no output named `{name}`", input.from),
                    format!("write `{}`", input.from),
                );
                return None;
            }
            (Role::Operator(i), Some(name)) => {
                let outputs = &self.descriptions[i].outputs;
                let Some(port) = outputs.iter().position(|output| output.name == *name) else {
                    let names: Vec<_> = outputs.iter().map(|o| o.name.clone()).collect();
                    self.problem(
                        input.place,
                        "W0220",
                        format!("operator `{}` has no output named `{name}`", input.from),
                        format!("its outputs: {}", names.join(", ")),
                    );
                    return None;
                };
                port
            }
        };
        Some((from, port))
    }

    fn input_port(&mut self, to: usize, input: &Input) -> Option<u32> {
        let Role::Operator(i) = self.nodes[to].role else {
            return Some(0);
        };
        let inputs = &self.descriptions[i].inputs;
        let names = || {
            inputs
                .iter()
                .map(|i| i.name.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let found = match &input.port {
            None if inputs.len() == 1 => Some(0),
            None => None,
            Some(port) => inputs.iter().position(|declared| declared.name == *port),
        };
        if found.is_none() {
            let id = self.nodes[to].id.clone();
            let (title, help) = match &input.port {
                None => (
                    format!(
                        "operator `{id}` has {} inputs; which one is meant?",
                        inputs.len()
                    ),
                    format!("write `inputs:` with one entry each for: {}", names()),
                ),
                Some(port) => (
                    format!("operator `{id}` has no input named `{port}`"),
                    format!("its inputs: {}", names()),
                ),
            };
            self.problem(input.place, "W0221", title, help);
        }
        found.map(|port| port as u32)
    }

    fn check_fed(&mut self) {
        for node in 0..self.nodes.len() {
            let Role::Operator(i) = self.nodes[node].role else {
                continue;
            };
            let description = &self.descriptions[i];
            let id = self.nodes[node].id.clone();
            let place = self.nodes[node].place;
            let unfed: Vec<String> = description
                .inputs
                .iter()
                .enumerate()
                .filter(|(port, _)| {
                    !self.nodes[node]
                        .inputs
                        .iter()
                        .any(|e| self.edges[*e].input == *port as u32)
                })
                .map(|(_, input)| input.name.clone())
                .collect();
            let keyed = description
                .inputs
                .iter()
                .any(|input| input.kind == InputKind::Keyed);
            let stateful = !description.states.is_empty() || !description.timers.is_empty();
            let keyless = stateful && !keyed;
            for name in unfed {
                self.problem(
                    place,
                    "W0222",
                    format!("nothing feeds input `{name}` of operator `{id}`"),
                    format!("add it: `inputs: {{{name}: <source or operator>}}`"),
                );
            }
            if keyless {
                self.problem(
                    place,
                    "W0223",
                    format!(
                        "operator `{id}` declares keyed state or timers and has no keyed input"
                    ),
                    "its component must declare a keyed input: state belongs to keys".into(),
                );
            }
        }
    }

    fn keyed(&self, to: usize, input: u32) -> bool {
        match self.nodes[to].role {
            Role::Operator(i) => {
                self.descriptions[i].inputs[input as usize].kind == InputKind::Keyed
            }
            _ => false,
        }
    }

    /// Whether the records of this output already lie where their key's group belongs.
    fn keeps_partitioning(&self, from: usize, port: usize) -> bool {
        match self.nodes[from].role {
            Role::Operator(i) => {
                let output = self.descriptions[i].outputs.get(port);
                output.is_some_and(|output| output.keys == OutputKeys::Kept)
                    && self.descriptions[i]
                        .inputs
                        .iter()
                        .all(|input| input.kind == InputKind::Keyed)
            }
            _ => false,
        }
    }

    fn default_exchange(&self, from: usize, port: usize, to: usize, input: u32) -> Exchange {
        let same = self.nodes[from].parallelism == self.nodes[to].parallelism;
        match (self.keyed(to, input), same) {
            (true, true) if self.keeps_partitioning(from, port) => Exchange::Forward,
            (true, _) => Exchange::ByKey,
            (false, true) => Exchange::Forward,
            (false, false) => Exchange::Rebalance,
        }
    }

    fn settle_exchanges(&mut self) {
        for edge in 0..self.edges.len() {
            let Edge {
                from,
                port,
                to,
                input,
                exchange,
                ..
            } = self.edges[edge];
            let (upstream, downstream) = (&self.nodes[from], &self.nodes[to]);
            let (a, b) = (upstream.parallelism, downstream.parallelism);
            let place = downstream.place;
            let (from_id, to_id) = (upstream.id.clone(), downstream.id.clone());
            let keyed = self.keyed(to, input);
            if exchange == Exchange::Forward && a != b {
                self.problem(
                    place,
                    "W0224",
                    format!(
                        "`exchange: forward` from `{from_id}` (parallelism {a}) to `{to_id}` ({b})"
                    ),
                    "forward needs the same parallelism on both sides; use `rebalance` or `by-key`"
                        .into(),
                );
            } else if keyed
                && (exchange == Exchange::Rebalance
                    || (exchange == Exchange::Forward && !self.keeps_partitioning(from, port)))
            {
                self.problem(
                    place,
                    "W0225",
                    format!("the keyed input of `{to_id}` cannot take `{from_id}` unexchanged"),
                    "records of one key must meet in one subtask: leave `exchange` out, or write `by-key`".into(),
                );
            }
        }
    }

    fn chain(mut self) -> Plan {
        for edge in 0..self.edges.len() {
            let Edge { to, exchange, .. } = self.edges[edge];
            self.edges[edge].chained =
                exchange == Exchange::Forward && self.nodes[to].inputs.len() == 1;
        }
        let mut chains = Vec::new();
        for head in 0..self.nodes.len() {
            if self.nodes[head]
                .inputs
                .iter()
                .any(|edge| self.edges[*edge].chained)
            {
                continue;
            }
            let mut nodes = Vec::new();
            let mut stack = vec![head];
            while let Some(node) = stack.pop() {
                nodes.push(node);
                let fed = self.nodes[node].outputs.iter().flatten();
                stack.extend(
                    fed.filter(|e| self.edges[**e].chained)
                        .map(|e| self.edges[*e].to),
                );
            }
            chains.push(Chain {
                nodes,
                parallelism: self.nodes[head].parallelism,
            });
        }
        Plan {
            nodes: self.nodes,
            edges: self.edges,
            chains,
        }
    }
}

impl Plan {
    /// The node with this id.
    pub fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id.as_str() == id)
    }

    /// The chain that the node is in.
    pub fn chain_of(&self, node: usize) -> usize {
        let chain = self
            .chains
            .iter()
            .position(|chain| chain.nodes.contains(&node));
        chain.expect("each node is in a chain")
    }

    /// The input channels of a chain's subtask: (edge, upstream subtask), in the order of its inbox's queues.
    pub fn channels(&self, chain: &Chain, subtask: u16) -> Vec<(usize, u16)> {
        let mut channels = Vec::new();
        for edge in &self.nodes[chain.nodes[0]].inputs {
            if self.edges[*edge].exchange == Exchange::Forward {
                channels.push((*edge, subtask));
            } else {
                let upstream = self.nodes[self.edges[*edge].from].parallelism;
                channels.extend((0..upstream).map(|from| (*edge, from)));
            }
        }
        channels
    }
}

#[cfg(test)]
mod tests;
