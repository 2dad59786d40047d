//! A chain's subtask: operators and sinks that share a thread, and how elements pass through them.

use std::sync::Arc;

use weir_state::{Progress, TimeDomain};

use super::isolate::Fired;
use super::node::OperatorNode;
use super::sink_node::{SinkNode, sink_error};
use super::{Error, Frozen};
use crate::batch::{Batch, END_OF_TIME, NO_TIME};
use crate::channel::{Barrier, Closed, Element};
use crate::clock;
use crate::exchange::Exchange;
use crate::fault_point;
use crate::metrics::{Counters, Origins};
use crate::stages::{Stage, Stages};

/// Timers that fire in one guest call at most.
const TIMERS_A_CALL: usize = crate::batch::MAX_ROWS;

/// Where an output port leads.
pub enum Outlet {
    /// To a node of the same chain, by its index in it, and that node's input.
    Chained(usize, u32),
    /// Over channels.
    Exchange(Exchange),
}

/// A node of a chain.
pub enum ChainNode {
    /// An operator.
    Operator(Box<OperatorNode>),
    /// A sink.
    Sink(Box<SinkNode>),
}

impl ChainNode {
    fn operator_mut(&mut self) -> Option<&mut OperatorNode> {
        match self {
            ChainNode::Operator(operator) => Some(operator),
            ChainNode::Sink(_) => None,
        }
    }

    /// Where its output ports lead; a sink's only one is for dead letters.
    fn outlets(&self) -> &Vec<Vec<Outlet>> {
        match self {
            ChainNode::Operator(operator) => &operator.outlets,
            ChainNode::Sink(sink) => &sink.outlets,
        }
    }

    fn outlets_mut(&mut self) -> &mut Vec<Vec<Outlet>> {
        match self {
            ChainNode::Operator(operator) => &mut operator.outlets,
            ChainNode::Sink(sink) => &mut sink.outlets,
        }
    }
}

/// What a barrier froze, while state is collected.
struct Collecting {
    barrier: Barrier,
    frozen: Frozen,
    /// How many operators are done.
    operators: usize,
}

/// The nodes of a chain's subtask, the head first, each before what it feeds.
pub struct Chain {
    nodes: Vec<ChainNode>,
    /// The nodes that are not fed by others of the chain: the head, or those that a source of the same thread feeds.
    roots: Vec<usize>,
    collecting: Option<Collecting>,
    /// By node.
    counters: Vec<Arc<Counters>>,
    stages: Arc<Stages>,
    origins: Arc<Origins>,
}

impl Chain {
    /// Of these nodes, each with its counters. `origins` turns a record's origin into words.
    pub fn new(
        nodes: Vec<ChainNode>,
        counters: Vec<Arc<Counters>>,
        stages: Arc<Stages>,
        origins: Arc<Origins>,
    ) -> Chain {
        let fed: Vec<usize> = nodes
            .iter()
            .flat_map(|node| chained(node.outlets()))
            .collect();
        Chain {
            roots: (0..nodes.len()).filter(|at| !fed.contains(at)).collect(),
            nodes,
            collecting: None,
            counters,
            stages,
            origins,
        }
    }

    /// The head's watermark.
    pub fn watermark(&self) -> i64 {
        match &self.nodes[0] {
            ChainNode::Operator(operator) => operator.watermark,
            ChainNode::Sink(_) => NO_TIME,
        }
    }

    /// Records for input `input` of node `at`.
    pub fn records(&mut self, at: usize, input: u32, batch: Batch) -> Result<(), Error> {
        let counters = &self.counters[at];
        counters.add_records_in(batch.len() as u64);
        counters.add_bytes_in(batch.data_bytes() as u64);
        match &mut self.nodes[at] {
            ChainNode::Sink(sink) => {
                let began = clock::now();
                let letters = sink.write(input, &batch, counters, &self.origins);
                self.stages.since(Stage::Write, began);
                match letters? {
                    Some(letters) => self.route(at, 0, letters),
                    None => Ok(()),
                }
            }
            ChainNode::Operator(operator) => {
                counters.timed(|| operator.process(input, batch, &self.origins))?;
                called(operator, counters);
                self.pass_on(at)
            }
        }
    }

    /// Passes on what the operator `at` has produced.
    fn pass_on(&mut self, at: usize) -> Result<(), Error> {
        let ChainNode::Operator(operator) = &mut self.nodes[at] else {
            return Ok(());
        };
        let dead_letters = operator.dead_letters;
        for (port, batch) in std::mem::take(&mut operator.environment().produced) {
            if port < dead_letters {
                self.counters[at].add_records_out(batch.len() as u64);
                self.counters[at].add_bytes_out(batch.data_bytes() as u64);
            }
            for piece in batch.pieces() {
                self.route(at, port, piece)?;
            }
        }
        Ok(())
    }

    fn route(&mut self, at: usize, port: usize, batch: Batch) -> Result<(), Error> {
        let mut left = Some(batch);
        let outlets = self.nodes[at].outlets()[port].len();
        for i in 0..outlets {
            let batch = if i + 1 == outlets {
                left.take()
            } else {
                left.clone()
            };
            let batch = batch.expect("taken by the last outlet only");
            match &mut self.nodes[at].outlets_mut()[port][i] {
                Outlet::Exchange(exchange) => {
                    let began = clock::now();
                    exchange.push_batch(batch)?;
                    self.stages.since(Stage::Send, began);
                }
                Outlet::Chained(to, input) => {
                    let (to, input) = (*to, *input);
                    self.records(to, input, batch)?;
                }
            }
        }
        Ok(())
    }

    /// The nodes that `at` feeds within the chain.
    fn fed(&self, at: usize) -> Vec<usize> {
        chained(self.nodes[at].outlets())
    }

    fn control(&mut self, at: usize, element: &Element) -> Result<(), Closed> {
        for outlet in self.nodes[at].outlets_mut().iter_mut().flatten() {
            if let Outlet::Exchange(exchange) = outlet {
                exchange.control(element)?;
            }
        }
        Ok(())
    }

    /// Advances event time: of each node its timers, then `on-watermark`, then on to the next.
    pub fn advance(&mut self, watermark: i64) -> Result<(), Error> {
        (0..self.roots.len()).try_for_each(|root| self.advance_node(self.roots[root], watermark))
    }

    fn advance_node(&mut self, at: usize, watermark: i64) -> Result<(), Error> {
        if let ChainNode::Operator(operator) = &mut self.nodes[at] {
            // A node restored further ahead than its upstream, from another plan, does not go back.
            let watermark = watermark.max(operator.watermark);
            operator.watermark = watermark;
            self.counters[at].set_watermark(watermark);
            self.fire(at, TimeDomain::Event, watermark)?;
            let ChainNode::Operator(operator) = &mut self.nodes[at] else {
                return Ok(());
            };
            self.counters[at].timed(|| operator.on_watermark())?;
            self.pass_on(at)?;
            self.control(at, &Element::Watermark(watermark))?;
            for to in self.fed(at) {
                self.advance_node(to, watermark)?;
            }
        }
        Ok(())
    }

    /// Records come again after [`Chain::idle`]: what was said of time last holds, and holds consumers back again.
    pub fn active(&mut self, watermark: i64) -> Result<(), Error> {
        self.all(&Element::Watermark(watermark))
    }

    /// Nothing is to be expected for now.
    pub fn idle(&mut self) -> Result<(), Error> {
        self.all(&Element::Idle)
    }

    /// Sends a control element over every exchange of every node.
    fn all(&mut self, element: &Element) -> Result<(), Error> {
        for at in 0..self.nodes.len() {
            self.control(at, element)?;
        }
        Ok(())
    }

    /// Fires the timers of one domain that are due at `until`.
    fn fire(&mut self, at: usize, domain: TimeDomain, until: i64) -> Result<(), Error> {
        let ChainNode::Operator(operator) = &mut self.nodes[at] else {
            return Ok(());
        };
        if operator
            .environment()
            .state
            .next_timer(domain)
            .is_none_or(|time| time > until)
        {
            return Ok(());
        }
        operator.environment().state.begin_advance(domain, until);
        let mut limit = TIMERS_A_CALL;
        loop {
            let ChainNode::Operator(operator) = &mut self.nodes[at] else {
                return Ok(());
            };
            let popped = operator.environment().state.pop_due(limit);
            let Some(firing) = popped.map_err(|error| operator.state_error(error))? else {
                break;
            };
            let counters = &self.counters[at];
            let fired = counters.timed(|| operator.on_timers(firing, &self.origins))?;
            called(operator, counters);
            limit = match fired {
                Fired::Done => TIMERS_A_CALL.min(limit * 2),
                Fired::Fewer(fewer) => fewer,
            };
            self.pass_on(at)?;
        }
        let ChainNode::Operator(operator) = &mut self.nodes[at] else {
            return Ok(());
        };
        operator.environment().state.end_advance();
        operator.count_memory()
    }

    /// When the next processing-time timer is due, in wall-clock milliseconds.
    pub fn next_processing_timer(&mut self) -> Option<i64> {
        self.nodes
            .iter_mut()
            .filter_map(|node| match node {
                ChainNode::Operator(operator) if operator.stateful && !operator.finished => {
                    operator
                        .environment()
                        .state
                        .next_timer(TimeDomain::Processing)
                }
                _ => None,
            })
            .min()
    }

    /// Fires processing-time timers that are due at `wall`.
    pub fn fire_processing_timers(&mut self, wall: i64) -> Result<(), Error> {
        for at in 0..self.nodes.len() {
            self.fire(at, TimeDomain::Processing, wall)?;
        }
        Ok(())
    }

    /// Freezes what every node holds for the checkpoint and passes the barrier on. The state is collected by [`Chain::collect`].
    ///
    /// # Panics
    /// If the collection for the last barrier is not over.
    pub fn barrier(&mut self, barrier: Barrier) -> Result<(), Error> {
        let began = clock::now();
        self.freeze(barrier)?;
        self.all(&Element::Barrier(barrier))?;
        if !self.nodes.is_empty() {
            let pause = clock::now().saturating_duration_since(began);
            self.stages.paused(pause);
        }
        Ok(())
    }

    /// Whether frozen state is being collected.
    pub fn is_collecting(&self) -> bool {
        self.collecting.is_some()
    }

    /// Collects about `budget` more rows of the state that the last barrier froze. Gives what the chain held at the barrier when it
    /// is complete.
    pub fn collect(&mut self, budget: usize) -> Result<Option<(Barrier, Frozen)>, Error> {
        let Some(mut collecting) = self.collecting.take() else {
            return Ok(None);
        };
        let began = clock::now();
        let nodes = self.nodes.iter_mut().filter_map(ChainNode::operator_mut);
        for operator in nodes.skip(collecting.operators) {
            if operator.stateful {
                match operator.collect(budget)? {
                    Progress::More => {
                        self.stages.since(Stage::Collect, began);
                        self.collecting = Some(collecting);
                        return Ok(None);
                    }
                    Progress::Done(state) => {
                        collecting.frozen.operators[collecting.operators].1 = Some(state);
                    }
                }
            }
            collecting.operators += 1;
        }
        self.stages.since(Stage::Collect, began);
        Ok(Some((collecting.barrier, collecting.frozen)))
    }

    /// Collects all that is left; `None` if nothing was frozen.
    pub fn collect_all(&mut self) -> Result<Option<(Barrier, Frozen)>, Error> {
        while self.is_collecting() {
            if let Some(complete) = self.collect(usize::MAX)? {
                return Ok(Some(complete));
            }
        }
        Ok(None)
    }

    /// Freezes what every node holds now, and begins to collect the operators' state.
    fn freeze(&mut self, barrier: Barrier) -> Result<(), Error> {
        assert!(self.collecting.is_none(), "one collection at a time");
        let base = Some(barrier.base).filter(|base| *base > 0);
        let mut frozen = Frozen::default();
        for node in &mut self.nodes {
            match node {
                ChainNode::Operator(operator) => {
                    frozen
                        .operators
                        .push((operator.freeze(barrier.n, base)?, None));
                }
                ChainNode::Sink(sink) => {
                    fault_point::pass("before-prepare");
                    let prepared = sink
                        .writer
                        .prepare(barrier.n, barrier.last)
                        .map_err(|error| sink_error(&sink.id, error, &self.origins))?;
                    let entry = (sink.id.clone(), sink.subtask, prepared);
                    frozen.sinks.push(entry);
                    fault_point::pass("after-parts");
                }
            }
        }
        self.collecting = Some(Collecting {
            barrier,
            frozen,
            operators: 0,
        });
        Ok(())
    }

    /// All input has ended: the last advance, `finish`, and the end passed on. `n` numbers what sinks stage now.
    ///
    /// # Panics
    /// As [`Chain::barrier`].
    pub fn end(&mut self, n: u64) -> Result<Frozen, Error> {
        assert!(self.collecting.is_none(), "one collection at a time");
        for root in 0..self.roots.len() {
            self.end_node(self.roots[root])?;
        }
        fault_point::pass("end-of-input");
        let barrier = Barrier {
            n,
            last: true,
            // It builds on nothing: what this task knows to be confirmed may have been collected since.
            base: 0,
        };
        self.freeze(barrier)?;
        // Nothing waits for this thread any more, so it may take as long as it takes.
        let complete = self.collect_all()?;
        let (_, frozen) = complete.expect("it was frozen just now");
        Ok(frozen)
    }

    fn end_node(&mut self, at: usize) -> Result<(), Error> {
        if let ChainNode::Operator(operator) = &mut self.nodes[at]
            && !operator.finished
        {
            operator.watermark = END_OF_TIME;
            self.counters[at].set_watermark(END_OF_TIME);
            loop {
                self.fire(at, TimeDomain::Event, END_OF_TIME)?;
                let ChainNode::Operator(operator) = &mut self.nodes[at] else {
                    return Ok(());
                };
                if operator
                    .environment()
                    .state
                    .next_timer(TimeDomain::Event)
                    .is_none()
                {
                    break;
                }
            }
            let ChainNode::Operator(operator) = &mut self.nodes[at] else {
                return Ok(());
            };
            self.counters[at].timed(|| operator.on_watermark())?;
            self.pass_on(at)?;
            let ChainNode::Operator(operator) = &mut self.nodes[at] else {
                return Ok(());
            };
            let dropped = operator
                .environment()
                .state
                .drop_timers(TimeDomain::Processing);
            self.counters[at].add_timers_dropped(dropped);
            self.counters[at].timed(|| operator.finish())?;
            operator.finished = true;
            self.pass_on(at)?;
        }
        self.control(at, &Element::End)?;
        for to in self.fed(at) {
            self.end_node(to)?;
        }
        Ok(())
    }

    /// Sends what lies in builders; see [`Exchange::flush`].
    pub fn flush(&mut self, only_parked: bool) -> Result<(), Closed> {
        for at in 0..self.nodes.len() {
            for outlet in self.nodes[at].outlets_mut().iter_mut().flatten() {
                if let Outlet::Exchange(exchange) = outlet {
                    exchange.flush(only_parked)?;
                }
            }
        }
        Ok(())
    }

    /// The inbox is empty: a good moment for sinks that buffer to let go.
    pub fn quiet(&mut self) -> Result<(), Error> {
        for node in &mut self.nodes {
            if let ChainNode::Sink(sink) = node {
                sink.writer
                    .flush()
                    .map_err(|error| sink_error(&sink.id, error, &self.origins))?;
            }
        }
        Ok(())
    }
}

/// The nodes of the same chain that outlets lead to.
fn chained(outlets: &[Vec<Outlet>]) -> Vec<usize> {
    let to = |outlet: &Outlet| match outlet {
        Outlet::Chained(to, _) => Some(*to),
        Outlet::Exchange(_) => None,
    };
    outlets.iter().flatten().filter_map(to).collect()
}

/// Counts a call, and notes what the operator has after it.
fn called(operator: &mut OperatorNode, counters: &Counters) {
    counters.add_calls(1);
    let memory = operator.instance().memory_bytes();
    counters.set_held(memory, operator.environment().state.stats());
}
