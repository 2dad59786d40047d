//! A sink subtask's line to a producer.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::OwnedHeaders;
use rdkafka::producer::{BaseRecord, Producer as _};

use super::Shared;
use super::failure::Failure;
use super::reports::{Deliveries, NOBODY};
use crate::cancel::Cancel;
use crate::clock;
use crate::metrics::{Waiting, Waits};

/// How long a sender sleeps before it tries a full queue again. The queue holds far more than is sent in this time.
const FULL_QUEUE_WAIT: Duration = Duration::from_millis(1);

/// How often somebody who waits for deliveries looks whether waiting has become pointless.
const SETTLE_WAIT: Duration = Duration::from_millis(20);

/// A record to send.
#[derive(Debug)]
pub struct Record<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition; `None`: by the key as the Java client does, any for a null key.
    pub partition: Option<i32>,
    /// The key. Null and empty are different.
    pub key: Option<&'a [u8]>,
    /// The value. Null and empty are different.
    pub value: Option<&'a [u8]>,
    /// Milliseconds since the epoch, above 0; `None`: the time of sending.
    pub timestamp: Option<i64>,
    /// Headers; `None` where there are none.
    pub headers: Option<OwnedHeaders>,
}

/// A sink subtask's line to a [`super::Producer`].
pub struct Sender {
    pub(super) shared: Arc<Shared>,
    /// What its records carry.
    pub(super) number: usize,
    pub(super) deliveries: Arc<Deliveries>,
    pub(super) sent: u64,
    pub(super) cancel: Cancel,
    /// Where its waits are accounted for.
    pub(super) waits: Arc<Waits>,
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("producer", &self.shared.name)
            .field("sent", &self.sent)
            .finish_non_exhaustive()
    }
}

impl Sender {
    /// The same, accounting for its waits in `waits`.
    pub fn metered(mut self, waits: &Arc<Waits>) -> Sender {
        self.waits = waits.clone();
        self
    }

    /// Queues `record`. Waits while the queue is full.
    ///
    /// # Errors
    /// Nothing more can be sent: one of this sender's records was not delivered, the producer is shut out or gone, or the attempt is
    /// being cancelled.
    pub fn send(&mut self, record: Record<'_>) -> Result<(), Failure> {
        if self.deliveries.failed.load(Ordering::Acquire) {
            return Err(self.first_failure());
        }
        let mut next = BaseRecord::<[u8], [u8], usize> {
            topic: record.topic,
            partition: record.partition,
            payload: record.value,
            key: record.key,
            timestamp: record.timestamp,
            headers: record.headers,
            delivery_opaque: self.number,
        };
        loop {
            match self.shared.producer.send(next) {
                Ok(()) => {
                    self.sent += 1;
                    return Ok(());
                }
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), returned)) => {
                    next = returned;
                    self.go_on()?;
                    self.waits.during(Waiting::Destination, || {
                        std::thread::sleep(FULL_QUEUE_WAIT);
                    });
                }
                Err((error, returned)) => {
                    self.go_on()?;
                    return Err(Failure::Undelivered {
                        topic: returned.topic.to_owned(),
                        partition: returned.partition.unwrap_or(-1),
                        reason: error.to_string(),
                        code: error
                            .rdkafka_error_code()
                            .unwrap_or(RDKafkaErrorCode::Unknown),
                    });
                }
            }
        }
    }

    /// Waits until everything that was sent has been acknowledged.
    ///
    /// # Errors
    /// As [`Sender::send`]; not all was within `patience`.
    pub fn settle(&mut self, patience: Duration) -> Result<(), Failure> {
        let until = clock::now().checked_add(patience);
        let deliveries = self.deliveries.clone();
        deliveries.awaited.store(self.sent, Ordering::SeqCst);
        let settled = self.waits.during(Waiting::Destination, || {
            self.wait(&deliveries, until, patience)
        });
        deliveries.awaited.store(NOBODY, Ordering::SeqCst);
        settled
    }

    fn wait(
        &self,
        deliveries: &Deliveries,
        until: Option<Instant>,
        patience: Duration,
    ) -> Result<(), Failure> {
        loop {
            if deliveries.failed.load(Ordering::Acquire) {
                return Err(self.first_failure());
            }
            let waiting = self.waiting();
            if waiting == 0 {
                return Ok(());
            }
            self.go_on()?;
            if until.is_some_and(|until| clock::now() >= until) {
                return Err(Failure::Unacknowledged {
                    waiting,
                    patience,
                    trouble: self.shared.trouble(),
                });
            }
            let first = deliveries.first();
            if self.waiting() > 0 {
                drop(deliveries.settled.wait_timeout(first, SETTLE_WAIT));
            }
        }
    }

    /// How many records were sent and not reported yet.
    pub fn waiting(&self) -> u64 {
        let reported = self.deliveries.reported.load(Ordering::SeqCst);
        self.sent.saturating_sub(reported)
    }

    /// Whether waiting makes sense.
    fn go_on(&self) -> Result<(), Failure> {
        if self.cancel.is_cancelled() {
            return Err(Failure::Closed);
        }
        if self.deliveries.failed.load(Ordering::Acquire) {
            return Err(self.first_failure());
        }
        if let Some(fatal) = self.shared.fatal() {
            return Err(fatal);
        }
        if self.shared.closed.load(Ordering::Relaxed) {
            return Err(Failure::Closed);
        }
        Ok(())
    }

    /// Why the first record that failed did so: where the whole producer or its transaction failed, that is the reason.
    fn first_failure(&self) -> Failure {
        let first = self.deliveries.first().clone();
        let failure = self
            .shared
            .fatal()
            .or(first)
            .unwrap_or_else(|| Failure::Unusable("a record was not delivered".to_owned()));
        match failure {
            Failure::Undelivered {
                topic,
                partition,
                reason,
                code: code @ (RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight),
            } => {
                let cause = self.shared.producer.client().context().why();
                match cause {
                    // Another sink of the job may be to blame, so this one's topic is not.
                    Some(cause) => Failure::Failed {
                        reason: cause.reason,
                        code: cause.code,
                    },
                    None => Failure::Undelivered {
                        topic,
                        partition,
                        reason,
                        code,
                    },
                }
            }
            other => other,
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // Reports that are still to come must not reach whoever gets the number next.
        if self.waiting() > 0 {
            return;
        }
        let reports = self.shared.producer.client().context();
        let mut senders = reports
            .senders
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        senders[self.number] = None;
    }
}
