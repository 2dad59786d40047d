//! Producers: librdkafka's, with deliveries that are counted for whoever sent them, and the pair that carries a job's transactions.
//!
//! A [`Producer`] may be shared by many sink subtasks. Each has a [`Sender`] of its own, which waits while the producer's queue is full
//! (that is backpressure), counts what it sent, and at a barrier waits until so much was acknowledged ([`Sender::settle`]). A
//! record that could not be delivered is the sender's next error: nothing is lost unnoticed. A thread of the producer's own serves
//! its events, so that deliveries are counted, and a fenced producer noticed, while nobody sends.
//!
//! Commits follow one rule: after [`Producer::commit`] has returned anything but `Ok` the producer is of no use any more. It has
//! asked the broker for something and does not know what became of it; a copy of that request may still arrive and end the next
//! transaction of the same producer. Only `init_transactions` of a new producer with the same id puts an end to that, and that is
//! how [`Producer::transactional`] begins. librdkafka itself asks again when a connection is lost, says yes in the end, and reports no
//! error; what it does say of each answer is in its debug log of transactions, so that is listened to.

mod failure;
mod heard;
mod reports;
mod sender;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, Producer as _};

use super::{Context, Error, client};
use crate::cancel::Cancel;
use crate::clock;
use crate::job::model::{KafkaCompression, KafkaConnection};
use failure::{Circumstances, fences, judge};
use reports::{Deliveries, Reports};

pub use failure::{CommitError, Failure};
pub use sender::{Record, Sender};

/// How long a record waits for company before it is sent.
const LINGER: Duration = Duration::from_millis(5);

/// Bytes of a batch, unless a topic takes less.
const BATCH_BYTES: u64 = 1_000_000;

/// A request of a transactional producer that was not answered in this time is in doubt. Commits take milliseconds.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a commit may take before it is in doubt: what [`Producer::commit`] is to be given.
pub const COMMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// A commit that took longer was retried, or may have been.
const CLEAN_COMMIT: Duration = Duration::from_secs(1);

/// `init_transactions` is asked for in pieces of this length, so that somebody can call it off.
const INIT_SLICE: Duration = Duration::from_millis(500);

/// How long the thread that serves events looks at a time: how long it takes to end.
const SERVE: Duration = Duration::from_millis(50);

/// Settings of a producer beside its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerSettings {
    /// Bytes that its queue may hold; more than that waits. See [`queue_bytes`].
    pub queue_bytes: u64,
    /// A record that was not acknowledged for so long is not delivered.
    pub delivery_timeout: Duration,
    /// How batches are compressed.
    pub compression: KafkaCompression,
    /// The least that a topic of it takes as one batch (`max.message.bytes`): batches are not larger.
    pub smallest_topic_limit: u64,
    /// The most that a topic of it takes: no record is larger.
    pub largest_topic_limit: u64,
}

/// Bytes for the queue of each of `producers` producers of a process that may use `memory` bytes: together a thirty-second of it,
/// and each something that is worth sending.
pub fn queue_bytes(memory: u64, producers: usize) -> u64 {
    const LEAST: u64 = 2 << 20;
    const MOST: u64 = 256 << 20;
    (memory / 32 / producers.max(1) as u64).clamp(LEAST, MOST)
}

struct Shared {
    producer: BaseProducer<Reports>,
    /// Who it is, for messages: its transactional id, or whose it is.
    name: String,
    /// It must not be used any more: dropped, or in doubt.
    closed: AtomicBool,
}

impl Shared {
    fn context(&self) -> &Context {
        &self.producer.client().context().context
    }

    /// Why nothing can be sent any more, if that is so.
    fn fatal(&self) -> Option<Failure> {
        let (code, text) = self.producer.client().fatal_error()?;
        Some(if fences(code) {
            Failure::Fenced(text)
        } else {
            Failure::Unusable(text)
        })
    }

    fn trouble(&self) -> Option<String> {
        self.context().trouble().map(|(_, text)| text)
    }
}

/// A producer. Dropping it drops what is queued, and ends what its senders wait for.
pub struct Producer {
    shared: Arc<Shared>,
    /// Serves events until `closed`.
    server: Option<JoinHandle<()>>,
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("name", &self.shared.name)
            .finish_non_exhaustive()
    }
}

fn millis(duration: Duration) -> String {
    // What librdkafka takes at most.
    duration.as_millis().min(2_147_483_647).to_string()
}

fn configured(
    connection: &KafkaConnection,
    settings: &ProducerSettings,
    client_id: &str,
) -> Result<ClientConfig, Error> {
    /// What librdkafka allows for `message.max.bytes`.
    const MESSAGE_BYTES: std::ops::RangeInclusive<u64> = 1_000..=1_000_000_000;
    let clamp = |bytes: u64| bytes.clamp(*MESSAGE_BYTES.start(), *MESSAGE_BYTES.end());
    let compression = match settings.compression {
        KafkaCompression::None => "none",
        KafkaCompression::Gzip => "gzip",
        KafkaCompression::Snappy => "snappy",
        KafkaCompression::Lz4 => "lz4",
        KafkaCompression::Zstd => "zstd",
    };
    let queue_kilobytes = (settings.queue_bytes / 1024).max(1);
    let mut config = client::config(connection, client_id)?;
    // Is for consumers, and librdkafka warns of it.
    config.remove("allow.auto.create.topics");
    config
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("partitioner", "murmur2_random")
        .set("compression.type", compression)
        .set("message.timeout.ms", millis(settings.delivery_timeout))
        // Bounded by bytes alone.
        .set("queue.buffering.max.messages", "0")
        .set("queue.buffering.max.kbytes", queue_kilobytes.to_string())
        .set("statistics.interval.ms", "0");
    let batch = clamp(settings.smallest_topic_limit).min(BATCH_BYTES);
    let message = clamp(settings.largest_topic_limit);
    default(
        &mut config,
        connection,
        &["linger.ms", "queue.buffering.max.ms"],
        millis(LINGER),
    );
    default(&mut config, connection, &["batch.size"], batch.to_string());
    default(
        &mut config,
        connection,
        &["message.max.bytes"],
        message.to_string(),
    );
    Ok(config)
}

/// Sets what the job file may set as well, under any of `names`, and has not.
fn default(config: &mut ClientConfig, connection: &KafkaConnection, names: &[&str], value: String) {
    if !names
        .iter()
        .any(|name| connection.properties.contains_key(*name))
    {
        config.set(names[0], value);
    }
}

impl Producer {
    /// An idempotent producer without transactions, for the sink or part called `name`. It does not connect before it is used.
    ///
    /// # Errors
    /// Settings that librdkafka does not take, a secret that cannot be read.
    pub fn plain(
        connection: &KafkaConnection,
        settings: &ProducerSettings,
        name: &str,
    ) -> Result<Producer, Error> {
        let config = configured(connection, settings, name)?;
        Producer::create(&config, name)
    }

    /// A transactional producer with the id `id`, initialized: what another instance with this id had open is aborted, what it was
    /// committing is completed, and it is shut out for good. The instance that this one follows in the same process must have been
    /// dropped before, with all its senders. `timeout` is what the broker allows a transaction to last.
    ///
    /// Goes on trying for as long as `go_on` says so: a broker may be away, a coordinator may be moving.
    ///
    /// # Errors
    /// As [`Producer::plain`]; the broker refuses, or `go_on` said no, with what was in the way last.
    pub fn transactional(
        connection: &KafkaConnection,
        settings: &ProducerSettings,
        id: &str,
        timeout: Duration,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Producer, Error> {
        let settings = ProducerSettings {
            // librdkafka refuses a record that may outlive its transaction.
            delivery_timeout: settings.delivery_timeout.min(timeout),
            ..*settings
        };
        let mut config = configured(connection, &settings, id)?;
        config
            .set("transactional.id", id)
            .set("transaction.timeout.ms", millis(timeout))
            // Some lines a transaction, none a record.
            .set("debug", "eos")
            .set_log_level(RDKafkaLogLevel::Debug);
        let request = millis(REQUEST_TIMEOUT.min(timeout));
        default(&mut config, connection, &["socket.timeout.ms"], request);
        let producer = Producer::create(&config, id)?;
        producer.initialize(go_on)?;
        Ok(producer)
    }

    fn create(config: &ClientConfig, name: &str) -> Result<Producer, Error> {
        let reports = Reports::new(Context::new(format!("producer `{name}`")));
        let producer = BaseProducer::from_config_and_context(config, reports)
            .map_err(|error| Error::client(name, &error))?;
        let shared = Arc::new(Shared {
            producer,
            name: name.to_owned(),
            closed: AtomicBool::new(false),
        });
        let served = shared.clone();
        let server = std::thread::Builder::new()
            .name("kafka-producer".into())
            .spawn(move || {
                while !served.closed.load(Ordering::Relaxed) {
                    served.producer.poll(SERVE);
                }
            })
            .map_err(|error| Error::thread(name, &error))?;
        Ok(Producer {
            shared,
            server: Some(server),
        })
    }

    fn initialize(&self, go_on: &dyn Fn() -> bool) -> Result<(), Error> {
        loop {
            let error = match self.shared.producer.init_transactions(INIT_SLICE) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let passing = matches!(&error, KafkaError::Transaction(error) if error.is_retriable());
            if !passing || !go_on() {
                let trouble = self.shared.trouble().filter(|_| passing);
                return Err(Error::initialize(&self.shared.name, &error, trouble));
            }
        }
    }

    /// A line to this producer for one subtask, which gives up when `cancel` says so.
    pub fn sender(&self, cancel: &Cancel) -> Sender {
        let deliveries = Arc::new(Deliveries::new());
        let reports = self.shared.producer.client().context();
        let mut senders = reports
            .senders
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let free = senders.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            senders.push(None);
            senders.len() - 1
        });
        senders[number] = Some(deliveries.clone());
        drop(senders);
        Sender {
            shared: self.shared.clone(),
            number,
            deliveries,
            sent: 0,
            cancel: cancel.clone(),
            waits: Arc::default(),
        }
    }

    /// Begins a transaction; it is open at the broker from its first record on. To be called after initialization and after each
    /// commit, before anybody sends.
    ///
    /// # Errors
    /// The producer is shut out or in doubt.
    pub fn begin(&self) -> Result<(), Failure> {
        self.usable()?;
        self.shared
            .producer
            .begin_transaction()
            .map_err(|error| self.failure(&error))
    }

    /// Commits the transaction. All that was sent in it must have been [settled](Sender::settle), and nobody may be sending.
    ///
    /// `Ok` means committed, and without anything on the way that could have left a copy of the request behind: no answer was
    /// waited for in vain, no connection lost, and it took less than a second.
    ///
    /// # Errors
    /// See [`CommitError`]; the producer refuses everything from then on.
    pub fn commit(&self, patience: Duration) -> Result<(), CommitError> {
        self.usable().map_err(|failure| match failure {
            Failure::Fenced(text) => CommitError::Fenced(text),
            other => CommitError::Unclear(other.to_string()),
        })?;
        let reports = self.shared.producer.client().context();
        let context = &reports.context;
        let (began, troubles, before) = (clock::now(), context.troubles(), *reports.heard());
        let result = self.shared.producer.commit_transaction(patience);
        let took = clock::now().saturating_duration_since(began);
        let after = reports.heard_after(before.ended);
        let trouble = if context.troubles() != troubles {
            Some(self.shared.trouble().unwrap_or_default())
        } else if after.ended == before.ended {
            Some("librdkafka does not say how it went".to_owned())
        } else if after.bad != before.bad || after.answers > before.answers + 1 {
            Some("it was asked for more than once".to_owned())
        } else {
            None
        };
        let circumstances = Circumstances {
            clean: trouble.is_none() && took < CLEAN_COMMIT,
            asked: after.answers != before.answers,
            text: match trouble {
                Some(trouble) => format!(
                    "after {:.1} s, with trouble on the way: {trouble}",
                    took.as_secs_f64()
                ),
                None => format!("after {:.1} s", took.as_secs_f64()),
            },
        };
        let outcome = judge(&result, &circumstances);
        if outcome.is_err() {
            self.shared.closed.store(true, Ordering::Relaxed);
        }
        outcome
    }

    fn usable(&self) -> Result<(), Failure> {
        if let Some(fatal) = self.shared.fatal() {
            return Err(fatal);
        }
        if self.shared.closed.load(Ordering::Relaxed) {
            let text = "a commit of this producer was in doubt; it must be initialized anew";
            return Err(Failure::Unusable(text.to_owned()));
        }
        Ok(())
    }

    fn failure(&self, error: &KafkaError) -> Failure {
        self.shared
            .fatal()
            .unwrap_or_else(|| Failure::Unusable(error.to_string()))
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Relaxed);
        if let Some(server) = self.server.take() {
            // It does nothing that could panic; and if it did, it is over.
            let _ = server.join();
        }
        // Records that are still queued are dropped with librdkafka's own producer, which does not wait for the broker then.
    }
}

/// The two transactional producers of an attempt. They work in turn, so that what follows a barrier is sent while what precedes it
/// is committed.
#[derive(Debug)]
pub struct Transactions {
    producers: [Producer; 2],
}

impl Transactions {
    /// Of two initialized producers, whose ids end in `-0` and `-1`.
    pub fn new(even: Producer, odd: Producer) -> Transactions {
        Transactions {
            producers: [even, odd],
        }
    }

    /// The producer whose transaction carries checkpoint `n`.
    pub fn for_checkpoint(&self, n: u64) -> &Producer {
        &self.producers[usize::from(n % 2 == 1)]
    }

    /// A line to both for one subtask: to the one for even checkpoints, and to the one for odd ones.
    pub fn senders(&self, cancel: &Cancel) -> [Sender; 2] {
        self.producers
            .each_ref()
            .map(|producer| producer.sender(cancel))
    }
}

#[cfg(test)]
mod tests;
