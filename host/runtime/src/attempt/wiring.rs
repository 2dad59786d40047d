//! Inboxes and the exchanges that lead to them.

use std::collections::HashMap;
use std::sync::Arc;

use super::Blueprint;
use crate::channel::{self, Closer, Inbox, Sender};
use crate::exchange::Exchange;
use crate::graph::{Chain, Role};
use crate::job::model::Exchange as Kind;
use crate::metrics::{Meters, Waits};
use crate::task::chain::Outlet;

/// Where each node's output ports lead, by node.
pub(super) type Outlets = HashMap<usize, Vec<Vec<Outlet>>>;

/// All channels of an attempt, until the tasks take them.
pub(super) struct Wiring<'a> {
    blueprint: &'a Blueprint,
    meters: &'a Meters,
    /// By edge, upstream and downstream subtask.
    senders: HashMap<(usize, u16, u16), Sender>,
    /// By chain and subtask, with the input that each channel feeds.
    inboxes: HashMap<(usize, u16), (Inbox, Vec<u32>)>,
    /// One for every inbox.
    pub(super) closers: Vec<Closer>,
}

impl<'a> Wiring<'a> {
    /// Makes every inbox of the plan and gives it to the meter of its task.
    pub(super) fn new(blueprint: &'a Blueprint, meters: &'a Meters) -> Wiring<'a> {
        let plan = &blueprint.plan;
        let mut wiring = Wiring {
            blueprint,
            meters,
            senders: HashMap::new(),
            inboxes: HashMap::new(),
            closers: Vec::new(),
        };
        for (c, chain) in plan.chains.iter().enumerate() {
            if matches!(plan.nodes[chain.nodes[0]].role, Role::Source(_)) {
                continue;
            }
            for subtask in 0..chain.parallelism {
                let channels = plan.channels(chain, subtask);
                let (inbox, senders) = channel::inbox(channels.len());
                let inputs = channels
                    .iter()
                    .map(|(edge, _)| plan.edges[*edge].input)
                    .collect();
                for ((edge, from), sender) in channels.into_iter().zip(senders) {
                    wiring.senders.insert((edge, from, subtask), sender);
                }
                wiring.closers.push(inbox.closer());
                let meter = &meters.tasks[meters.task(c, subtask)];
                meter.set_inbox(inbox.gauge());
                let inbox = inbox.metered(meter.waits.clone());
                wiring.inboxes.insert((c, subtask), (inbox, inputs));
            }
        }
        wiring
    }

    /// The inbox of a chain's subtask.
    pub(super) fn inbox(&mut self, chain: usize, subtask: u16) -> (Inbox, Vec<u32>) {
        self.inboxes
            .remove(&(chain, subtask))
            .expect("each inbox is made once and taken once")
    }

    /// An edge as one upstream subtask sees it.
    fn exchange(&mut self, edge: usize, subtask: u16, waits: &Arc<Waits>) -> Exchange {
        let plan = &self.blueprint.plan;
        let kind = plan.edges[edge].exchange;
        let downstream = plan.nodes[plan.edges[edge].to].parallelism;
        let targets = match kind {
            Kind::Forward => subtask..subtask + 1,
            Kind::ByKey | Kind::Rebalance => 0..downstream,
        };
        let chain = plan.chain_of(plan.edges[edge].to);
        let senders = targets
            .map(|to| {
                let target = self.meters.task(chain, to) as u32;
                self.senders
                    .remove(&(edge, subtask, to))
                    .expect("each channel is made once and taken once")
                    .metered(waits.clone(), target)
            })
            .collect();
        Exchange::new(kind, self.blueprint.job.max_parallelism, senders)
    }

    /// Where the output ports of a chain's nodes lead from one of its subtasks.
    pub(super) fn outlets(&mut self, chain: &Chain, subtask: u16) -> Outlets {
        let plan = &self.blueprint.plan;
        // A source's task holds what follows it, not itself.
        let first = match plan.nodes[chain.nodes[0]].role {
            Role::Source(_) => 1,
            Role::Operator(_) | Role::Sink(_) => 0,
        };
        let task = self.meters.task(plan.chain_of(chain.nodes[0]), subtask);
        let waits = self.meters.tasks[task].waits.clone();
        let mut outlets = Outlets::new();
        for node in &chain.nodes {
            let mut ports = Vec::new();
            for edges in &plan.nodes[*node].outputs {
                let mut port = Vec::new();
                for edge in edges {
                    port.push(if plan.edges[*edge].chained {
                        let to = plan.edges[*edge].to;
                        let at = chain.nodes[first..].iter().position(|node| *node == to);
                        Outlet::Chained(
                            at.expect("a chained edge stays in the chain"),
                            plan.edges[*edge].input,
                        )
                    } else {
                        Outlet::Exchange(self.exchange(*edge, subtask, &waits))
                    });
                }
                ports.push(port);
            }
            outlets.insert(*node, ports);
        }
        outlets
    }
}
