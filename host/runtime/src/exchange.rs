//! The sending side of an edge: which subtask a record goes to, and when a half filled batch is sent.
//!
//! Records are appended straight to one builder a target subtask; there is no partition pass over finished batches. A builder is sent when it
//! is full, when its producer has nothing to read, when its consumer has nothing to do, and before a control element, so a
//! lone record is never held back to wait for company.

use weir_state::hash;

use crate::batch::{Batch, Origin};
use crate::channel::{Closed, Element, Sender};
use crate::headers::Header;
use crate::job::model::Exchange as Kind;

/// One edge, seen from one upstream subtask.
pub struct Exchange {
    kind: Kind,
    max_parallelism: u16,
    targets: Vec<Target>,
    /// The target of the next batch under rebalance.
    turn: usize,
}

struct Target {
    sender: Sender,
    builder: Batch,
}

impl Target {
    /// Sends what lies in the builder and says whether there was anything.
    fn send(&mut self) -> Result<bool, Closed> {
        if self.builder.is_empty() {
            return Ok(false);
        }
        let next = Batch::with_capacity_of(&self.builder);
        let batch = std::mem::replace(&mut self.builder, next);
        self.sender.send(Element::Batch(batch)).map(|()| true)
    }
}

impl Exchange {
    /// An edge to `senders`: under forward the one of the same subtask, else one for each downstream subtask in order.
    pub fn new(kind: Kind, max_parallelism: u16, senders: Vec<Sender>) -> Exchange {
        let targets = senders.into_iter().map(|sender| Target {
            sender,
            builder: Batch::default(),
        });
        Exchange {
            kind,
            max_parallelism,
            targets: targets.collect(),
            turn: 0,
        }
    }

    fn target_of(&self, hash: u64) -> usize {
        match self.kind {
            _ if self.targets.len() == 1 => 0,
            Kind::Forward => 0,
            Kind::ByKey => {
                let group = hash::key_group(hash, self.max_parallelism);
                usize::from(hash::owner(
                    group,
                    self.targets.len() as u16,
                    self.max_parallelism,
                ))
            }
            Kind::Rebalance => self.turn,
        }
    }

    /// Sends a target's builder. Under rebalance the next one gets the next batch.
    fn send(&mut self, target: usize) -> Result<(), Closed> {
        if self.targets[target].send()? && target == self.turn {
            self.turn = (self.turn + 1) % self.targets.len();
        }
        Ok(())
    }

    /// Appends a record; its builder is sent if that fills it.
    pub fn push<'a>(
        &mut self,
        key: Option<&[u8]>,
        hash: u64,
        value: Option<&[u8]>,
        headers: impl IntoIterator<Item = Header<'a>>,
        time: i64,
        origin: Origin,
    ) -> Result<(), Closed> {
        let target = self.target_of(hash);
        self.targets[target]
            .builder
            .push_with_headers(key, hash, value, headers, time, origin);
        if self.targets[target].builder.is_full() {
            self.send(target)
        } else {
            Ok(())
        }
    }

    /// Appends a whole batch.
    pub fn push_batch(&mut self, batch: Batch) -> Result<(), Closed> {
        if self.targets.len() > 1 && self.kind == Kind::ByKey {
            for row in 0..batch.len() {
                let target = self.target_of(batch.hashes[row]);
                self.targets[target].builder.push_row(&batch, row);
                if self.targets[target].builder.is_full() {
                    self.send(target)?;
                }
            }
            return Ok(());
        }
        let target = self.target_of(0);
        let builder = &mut self.targets[target].builder;
        if builder.is_empty() {
            *builder = batch;
        } else {
            builder.extend(&batch);
        }
        if builder.is_full() || self.kind == Kind::Rebalance {
            self.send(target)
        } else {
            Ok(())
        }
    }

    /// Sends what lies in the builders: all of it, or only to consumers that have nothing to do.
    pub fn flush(&mut self, only_parked: bool) -> Result<(), Closed> {
        for target in 0..self.targets.len() {
            if !only_parked || self.targets[target].sender.consumer_is_parked() {
                self.send(target)?;
            }
        }
        Ok(())
    }

    /// Sends a control element to every target, after what lies in the builders.
    pub fn control(&mut self, element: &Element) -> Result<(), Closed> {
        for target in 0..self.targets.len() {
            self.send(target)?;
            self.targets[target].sender.send(element.clone())?;
        }
        Ok(())
    }
}
