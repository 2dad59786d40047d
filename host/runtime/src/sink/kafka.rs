//! Kafka topics: what becomes of a record (`shape.rs`, pure), and how it is sent.
//!
//! Under exactly once a subtask writes to the job's two transactional producers in turn. At barrier n it waits until all that it
//! sent to the one that carries checkpoint n is acknowledged, and goes on with the other one; who commits, and when, is not its
//! business. Otherwise it has a producer of its own, and a barrier is passed once everything before it is acknowledged: after a
//! failure what came after the last checkpoint is written again.
//!
//! Sending waits while the producer's queue is full, and ends with [`Error::Cancelled`] when the attempt is cancelled meanwhile.

use std::sync::Arc;
use std::time::Duration;

use super::{Author, Error, Rejected, Written};
use crate::batch::Batch;
use crate::cancel::Cancel;
use crate::job::model::KafkaSink;
use crate::kafka::acls;
use crate::kafka::outputs::Output;
use crate::kafka::producers::{Failure, Producer, Record, Sender, Transactions};
use crate::metrics::Waits;
use crate::{clock, fault_point};
use shape::Shaper;

mod partition;
mod shape;

/// What is granted on top of the time that a delivery may take: the producer itself reports what was not delivered in that time.
const GRACE: Duration = Duration::from_secs(10);

/// What a Kafka sink needs beside its settings.
#[derive(Debug)]
pub struct KafkaSurroundings {
    /// What it writes to.
    pub output: Output,
    /// What it writes in, if it is exactly once.
    pub transactions: Option<Arc<Transactions>>,
    /// Whether to give up waiting.
    pub cancel: Cancel,
    /// Where waits are accounted for.
    pub waits: Arc<Waits>,
}

/// Who carries the records.
#[derive(Debug)]
enum Carrier {
    /// The job's transactions, in turn.
    InTurn {
        /// To the producer for even checkpoints and the one for odd ones.
        senders: [Sender; 2],
        /// The checkpoint that records belong to.
        n: u64,
        /// Lent by the attempt.
        _transactions: Arc<Transactions>,
    },
    /// A producer of its own.
    Own {
        sender: Sender,
        /// Must outlive its sender's use.
        _producer: Producer,
    },
}

impl Carrier {
    fn sender(&mut self) -> &mut Sender {
        match self {
            Carrier::InTurn { senders, n, .. } => &mut senders[usize::from(*n % 2 == 1)],
            Carrier::Own { sender, .. } => sender,
        }
    }
}

/// The writer of a subtask of a Kafka sink.
#[derive(Debug)]
pub struct KafkaWriter {
    sink: String,
    settings: KafkaSink,
    output: Output,
    shaper: Shaper,
    carrier: Carrier,
    written: Written,
    /// Records written before the last barrier.
    prepared: u64,
}

impl KafkaWriter {
    /// The writer of `author` for `sink`. It connects when it first writes.
    ///
    /// # Errors
    /// [`Error::Kafka`] if no producer can be made.
    pub(super) fn open(
        sink: &str,
        settings: &KafkaSink,
        surroundings: KafkaSurroundings,
        author: &Author,
    ) -> Result<KafkaWriter, Error> {
        let KafkaSurroundings {
            output,
            transactions,
            cancel,
            waits,
        } = surroundings;
        let carrier = match transactions {
            Some(transactions) => Carrier::InTurn {
                senders: transactions
                    .senders(&cancel)
                    .map(|sender| sender.metered(&waits)),
                n: author.next_n,
                _transactions: transactions,
            },
            None => {
                let name = format!("{sink}-{}", author.subtask);
                let producer = Producer::plain(&settings.connection, &output.settings, &name)
                    .map_err(|error| Error::Kafka {
                        sink: sink.to_owned(),
                        error,
                    })?;
                Carrier::Own {
                    sender: producer.sender(&cancel).metered(&waits),
                    _producer: producer,
                }
            }
        };
        Ok(KafkaWriter {
            sink: sink.to_owned(),
            shaper: Shaper::new(settings, &output.topics, author.subtask),
            settings: settings.clone(),
            output,
            carrier,
            written: Written::default(),
            prepared: 0,
        })
    }

    /// Sends the records of `batch`, or the dead letters that they are. Gives those that cannot be written.
    ///
    /// # Errors
    /// [`Error::Delivery`] if one that was sent was not delivered, or no more can be.
    pub(super) fn write(
        &mut self,
        batch: &Batch,
        dead_letters: bool,
    ) -> Result<Vec<Rejected>, Error> {
        let mut rejected = Vec::new();
        self.shaper.begin(clock::wall_millis());
        let sender = self.carrier.sender();
        let topics = &self.output.topics;
        for row in 0..batch.len() {
            let shaped = if dead_letters {
                self.shaper.letter(topics, batch, row)
            } else {
                self.shaper.record(topics, batch, row)
            };
            let shaped = match shaped {
                Ok(shaped) => shaped,
                Err(what) => {
                    rejected.push(Rejected { row, what });
                    continue;
                }
            };
            let value = batch.values.get(row);
            let bytes = value.map_or(0, <[u8]>::len) as u64;
            let record = Record {
                topic: &topics[shaped.topic].name,
                partition: shaped.partition,
                key: shaped.key,
                value,
                timestamp: shaped.timestamp,
                headers: shaped.headers,
            };
            if let Err(failure) = sender.send(record) {
                return Err(self.error(&failure));
            }
            self.written.records += 1;
            self.written.bytes += bytes;
        }
        Ok(rejected)
    }

    /// Nothing is to be written for now. What was sent is on its way already.
    pub(super) fn idle(&mut self) {
        self.shaper.rotate();
    }

    /// Waits until everything before the barrier of checkpoint `n` is acknowledged. Gives how many records that was since the last one.
    ///
    /// # Errors
    /// [`Error::Delivery`] if some of it is not.
    pub(super) fn prepare(&mut self, n: u64) -> Result<u64, Error> {
        fault_point::pass("before-flush");
        let patience = self.output.settings.delivery_timeout + GRACE;
        if let Err(failure) = self.carrier.sender().settle(patience) {
            return Err(self.error(&failure));
        }
        fault_point::pass("after-prepare");
        if let Carrier::InTurn { n: next, .. } = &mut self.carrier {
            *next = n + 1;
        }
        let sent = self.written.records - self.prepared;
        self.prepared = self.written.records;
        Ok(sent)
    }

    /// What was sent so far.
    pub(super) fn written(&self) -> Written {
        self.written
    }

    fn error(&self, failure: &Failure) -> Error {
        if matches!(failure, Failure::Closed) {
            return Error::Cancelled;
        }
        let mut what = match failure {
            Failure::Undelivered { .. } => format!("a record was not delivered: {failure}"),
            Failure::Failed { .. } => {
                format!("{failure}; this sink or another one of the job wrote what it failed of")
            }
            _ => failure.to_string(),
        };
        if failure.is_unauthorized() {
            let needed = acls::of_sink(&self.settings, self.output.transactional);
            what.push_str(&acls::note(&needed));
        }
        Error::Delivery {
            sink: self.sink.clone(),
            what,
            permanent: failure.is_permanent(),
        }
    }
}
