//! What librdkafka tells of a producer: deliveries, which are counted for whoever sent them, and its log.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::ProducerContext;

use super::failure::Failure;
use super::heard::{Cause, Heard};
use crate::kafka::Context;

/// The log of a commit comes by the producer's thread, as a rule at once. Without it no commit is a clean one.
pub(super) const HEAR_WAIT: Duration = Duration::from_secs(1);

/// Nobody waits.
pub(super) const NOBODY: u64 = u64::MAX;

/// What a sender has been told of its deliveries. The sender counts what it sends; this is written by whoever serves the producer's
/// events.
#[derive(Debug)]
pub(super) struct Deliveries {
    /// Good reports and bad ones.
    pub(super) reported: AtomicU64,
    /// Whether there was a bad one.
    pub(super) failed: AtomicBool,
    /// The first bad one.
    first: Mutex<Option<Failure>>,
    /// Somebody waits until so many are reported.
    pub(super) awaited: AtomicU64,
    pub(super) settled: Condvar,
}

impl Deliveries {
    pub(super) fn new() -> Deliveries {
        Deliveries {
            reported: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            first: Mutex::new(None),
            awaited: AtomicU64::new(NOBODY),
            settled: Condvar::new(),
        }
    }

    pub(super) fn first(&self) -> MutexGuard<'_, Option<Failure>> {
        // Set once as a whole: a panic leaves nothing half done.
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, result: &DeliveryResult<'_>) {
        if let Err((error, message)) = result {
            let code = error
                .rdkafka_error_code()
                .unwrap_or(RDKafkaErrorCode::Unknown);
            self.first().get_or_insert_with(|| Failure::Undelivered {
                topic: message.topic().to_owned(),
                partition: message.partition(),
                reason: code.to_string(),
                code,
            });
            self.failed.store(true, Ordering::Release);
        }
        let reported = self.reported.fetch_add(1, Ordering::SeqCst) + 1;
        if reported == self.awaited.load(Ordering::SeqCst) {
            // Under the lock, so that whoever has looked and is about to sleep is woken as well.
            let _first = self.first();
            self.settled.notify_all();
        }
    }
}

/// The context of a producer: passes reports on to the senders that they concern.
pub(super) struct Reports {
    pub(super) context: Context,
    heard: Mutex<Heard>,
    /// Of the first transaction that failed.
    cause: Mutex<Option<Cause>>,
    caused: Condvar,
    hears: Condvar,
    /// By the number that a sender's records carry.
    pub(super) senders: RwLock<Vec<Option<Arc<Deliveries>>>>,
}

impl Reports {
    pub(super) fn new(context: Context) -> Reports {
        Reports {
            context,
            heard: Mutex::default(),
            cause: Mutex::default(),
            caused: Condvar::new(),
            hears: Condvar::new(),
            senders: RwLock::default(),
        }
    }

    pub(super) fn heard(&self) -> MutexGuard<'_, Heard> {
        // Three numbers: a panic leaves nothing half done that matters.
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was heard once more than `ended` commits have come to an end; what there is after [`HEAR_WAIT`].
    pub(super) fn heard_after(&self, ended: u64) -> Heard {
        let heard = self.heard();
        let waited = self
            .hears
            .wait_timeout_while(heard, HEAR_WAIT, |heard| heard.ended <= ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    pub(super) fn cause(&self) -> MutexGuard<'_, Option<Cause>> {
        // Set once as a whole: a panic leaves nothing half done.
        self.cause.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a transaction has failed, of which it is known that it has. What is said of records may come before what is said of it.
    pub(super) fn why(&self) -> Option<Cause> {
        let waited = self
            .caused
            .wait_timeout_while(self.cause(), HEAR_WAIT, |cause| cause.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

impl ClientContext for Reports {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        if !matches!(level, RDKafkaLogLevel::Debug) {
            if let Some(cause) = Cause::of(facility, message) {
                self.cause().get_or_insert(cause);
                self.caused.notify_all();
            }
            self.context.log(level, facility, message);
            return;
        }
        let mut heard = self.heard();
        let before = *heard;
        heard.line(facility, message);
        if heard.ended != before.ended {
            self.hears.notify_all();
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.context.error(error, reason);
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, sender: usize) {
        let senders = self.senders.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(Some(deliveries)) = senders.get(sender) {
            deliveries.report(result);
        }
    }
}
