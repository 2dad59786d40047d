//! The commit point in Kafka: the commit topic, the job's markers in it, and the transactions that carry them.
//!
//! A marker is a record of the very transaction that carries the output, so either both are committed or neither is. It lies in one
//! partition of the commit topic, under the job's name, and the topic is compacted, so the newest stays. What recovery asks for, and in
//! which order, is the business of [`crate::checkpoint::recovery`].

mod read;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::producers::{
    COMMIT_TIMEOUT, CommitError, Producer, ProducerSettings, Record, Sender, Transactions,
};
use super::{Cluster, Error, Topic, acls};
use crate::cancel::Cancel;
use crate::checkpoint::commit_point::MarkerFound;
use crate::checkpoint::{KafkaPoint, Marker, Markers, Standing};
use crate::job::model::{CheckpointSettings, Job, KafkaConnection, KafkaSink};
use crate::{clock, fault_point, log};

/// Partitions of a commit topic that Weir creates. Jobs share them; while a transaction of one is being committed, or has been left open,
/// starts of the others in its partition wait.
const PARTITIONS: i32 = 8;

/// How often somebody who waits is told of.
const REMINDER: Duration = Duration::from_secs(10);

/// See the module. One lives as long as the process, through all attempts.
pub struct Commits {
    job: String,
    connection: KafkaConnection,
    point: Mutex<KafkaPoint>,
    settings: ProducerSettings,
    /// What the broker allows a transaction to last.
    timeout: Duration,
    /// What grants the permissions that are needed.
    grants: String,
    /// Somebody asked the job to stop.
    asked: Arc<AtomicBool>,
    current: Mutex<Option<Current>>,
    /// Those of the attempt before, which may still be held by what is ending.
    previous: Mutex<Weak<Transactions>>,
}

/// What belongs to an attempt.
struct Current {
    transactions: Arc<Transactions>,
    /// For markers: one a producer.
    senders: [Sender; 2],
    /// The attempt that claimed the job with them, once it has: a commit of an earlier one may come late, and must not end its
    /// successor's transaction.
    attempt: Option<u64>,
}

impl Commits {
    /// The commit point of `job`, whose exactly-once sinks are like `sink`. Creates the commit topic if it is not there.
    ///
    /// # Errors
    /// The cluster cannot be reached, or does not let us.
    pub fn open(
        job: &Job,
        sink: &KafkaSink,
        settings: ProducerSettings,
        checkpoint: &CheckpointSettings,
        cluster: &Cluster,
        asked: Arc<AtomicBool>,
    ) -> Result<Commits, Error> {
        let job = job.name.as_str();
        let point = look_up(cluster, job, &sink.commit_topic, &sink.transactional_id)?;
        Ok(Commits {
            job: job.to_owned(),
            connection: sink.connection.clone(),
            point: Mutex::new(point),
            settings,
            timeout: sink.transaction_timeout(checkpoint),
            grants: acls::note(&acls::of_sink(sink, true)),
            asked,
            current: Mutex::new(None),
            previous: Mutex::new(Weak::new()),
        })
    }

    /// Where commits are decided.
    pub fn point(&self) -> KafkaPoint {
        self.point
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Looks the commit topic up again, before another attempt: it may have been deleted and created again meanwhile.
    ///
    /// # Errors
    /// As for [`Commits::open`].
    pub fn look_again(&self, cluster: &Cluster) -> Result<(), Error> {
        let was = self.point();
        let point = look_up(cluster, &self.job, &was.topic, &was.ids)?;
        *self.point.lock().unwrap_or_else(PoisonError::into_inner) = point;
        Ok(())
    }

    /// The transactions of the attempt that was recovered last.
    pub fn transactions(&self) -> Option<Arc<Transactions>> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().map(|it| it.transactions.clone())
    }

    /// Whether to go on waiting for `what`; says now and then that it does.
    fn patience(&self, what: String) -> impl Fn() -> bool {
        let reminded = Mutex::new(clock::now());
        let asked = self.asked.clone();
        move || {
            let now = clock::now();
            let mut reminded = reminded.lock().unwrap_or_else(PoisonError::into_inner);
            if now.saturating_duration_since(*reminded) >= REMINDER {
                *reminded = now;
                log::warn(&format!("waiting for Kafka: {what}"));
            }
            !asked.load(Ordering::Relaxed)
        }
    }

    /// Waits until nothing holds the producers of the attempt before any more: a producer that is still there could commit after
    /// its successor has begun.
    fn forget(&self) -> io::Result<()> {
        let current = {
            let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            current.take()
        };
        let mut previous = self.previous.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(current) = current {
            *previous = Arc::downgrade(&current.transactions);
        }
        // A commit that is under way holds them until it gives up.
        let deadline: Instant = clock::now() + 2 * COMMIT_TIMEOUT;
        while previous.strong_count() > 0 {
            if clock::now() >= deadline {
                return Err(io::Error::other(
                    "producers of the attempt before are still in use",
                ));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn begin(&self, point: &KafkaPoint) -> Result<[Producer; 2], Error> {
        let producer = |number: usize| {
            let id = point.id(number);
            let go_on = self.patience(format!("transactional id `{id}` is not ready"));
            Producer::transactional(&self.connection, &self.settings, &id, self.timeout, &go_on)
        };
        Ok([producer(0)?, producer(1)?])
    }

    /// Sends a marker into the transaction of the producer that carries checkpoint `n`, and commits that.
    fn commit_in(
        current: &mut Current,
        n: u64,
        topic: &KafkaPoint,
        job: &str,
        marker: &Marker,
    ) -> Result<(), CommitError> {
        let value = marker.encode();
        let sender = &mut current.senders[(n % 2) as usize];
        let produced = sender.send(Record {
            topic: &topic.topic,
            partition: Some(topic.partition),
            key: Some(job.as_bytes()),
            value: Some(&value),
            timestamp: None,
            headers: None,
        });
        let produced = produced.and_then(|()| sender.settle(COMMIT_TIMEOUT));
        // Nothing was asked of the coordinator yet.
        produced.map_err(|failure| {
            let what = format!("the marker could not be produced: {failure}");
            if failure.is_unauthorized() {
                CommitError::Refused(what)
            } else {
                CommitError::NotCommitted(what)
            }
        })?;
        fault_point::pass("marker-produced");
        let producer = current.transactions.for_checkpoint(n);
        fault_point::pass_soon("inside-commit");
        producer.commit(COMMIT_TIMEOUT)?;
        fault_point::pass("after-transaction");
        producer
            .begin()
            .map_err(|failure| CommitError::Unclear(format!("it is committed, but: {failure}")))
    }

    /// As recovery takes it: what is not permitted will not be by itself, and what grants it is said.
    fn told(&self, error: &Error) -> io::Error {
        match error {
            Error::Refused { .. } => self.not_permitted(error),
            error if error.may_pass() => io::Error::other(error.to_string()),
            error => io::Error::new(io::ErrorKind::PermissionDenied, error.to_string()),
        }
    }

    fn not_permitted(&self, what: impl std::fmt::Display) -> io::Error {
        let text = format!("{what}{}", self.grants);
        io::Error::new(io::ErrorKind::PermissionDenied, text)
    }
}

impl Markers for Commits {
    fn peek(&self, at: &KafkaPoint) -> io::Result<MarkerFound> {
        read::newest(&self.connection, at, &self.job, None).map_err(|error| self.told(&error))
    }

    fn fence(&self, points: &[KafkaPoint]) -> io::Result<Standing> {
        self.forget()?;
        for point in points {
            let producers = self.begin(point).map_err(|error| self.told(&error))?;
            if *point != self.point() {
                continue;
            }
            for producer in &producers {
                producer.begin().map_err(io::Error::other)?;
            }
            let [even, odd] = producers;
            let transactions = Arc::new(Transactions::new(even, odd));
            let senders = transactions.senders(&Cancel::default());
            let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            *current = Some(Current {
                transactions,
                senders,
                attempt: None,
            });
        }
        Ok(Standing::Ours)
    }

    fn read(&self, at: &KafkaPoint) -> io::Result<MarkerFound> {
        let go_on = self.patience(format!(
            "a transaction is open in {at}, of a job that was killed? Its broker ends it in time"
        ));
        read::newest(&self.connection, at, &self.job, Some(&go_on))
            .map_err(|error| self.told(&error))
    }

    fn write(&self, marker: &Marker) -> io::Result<Standing> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let current = current
            .as_mut()
            .ok_or_else(|| io::Error::other("nothing was fenced before"))?;
        // The first records go with the next checkpoint, whichever producer that is: claims take the first one.
        match Commits::commit_in(current, 0, &self.point(), &self.job, marker) {
            Ok(()) => {
                current.attempt = Some(marker.attempt);
                Ok(Standing::Ours)
            }
            Err(CommitError::Refused(what)) => Err(self.not_permitted(what)),
            Err(error) => {
                // The producers begin anew, and what is committed is read again.
                log::warn(&format!(
                    "the job could not be claimed in Kafka, trying again: {error}"
                ));
                Ok(Standing::Fenced)
            }
        }
    }

    fn commit(&self, marker: &Marker) -> Result<(), String> {
        fault_point::pass("before-marker");
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let current = current
            .as_mut()
            .filter(|current| current.attempt == Some(marker.attempt))
            .ok_or("its attempt is over")?;
        Commits::commit_in(current, marker.n, &self.point(), &self.job, marker)
            .map_err(|error| error.to_string())
    }
}

/// The commit topic, created if it is not there.
fn commit_topic(cluster: &Cluster, name: &str) -> Result<Topic, Error> {
    let names = [name.to_owned()];
    let look_up = || Ok(cluster.topics(&names)?.into_iter().next().flatten());
    if let Some(topic) = look_up()? {
        return Ok(topic);
    }
    // Small segments, so that compaction, which leaves the newest one alone, has something to do.
    let configs = [
        ("cleanup.policy", "compact"),
        ("segment.bytes", "16777216"),
        ("segment.ms", "86400000"),
        ("min.cleanable.dirty.ratio", "0.1"),
    ];
    let created = cluster.create_topic(name, PARTITIONS, &configs);
    created.map_err(|error| Error::Refused {
        what: format!("commit topic `{name}` is not there and cannot be created"),
        why: format!(
            "{error}\n  help: kafka-topics --bootstrap-server {} --create --topic {name} --partitions {PARTITIONS} --config cleanup.policy=compact",
            cluster.brokers()
        ),
    })?;
    log::info(&format!(
        "created topic `{name}`, in which commits are recorded"
    ));
    let deadline = clock::now() + COMMIT_TIMEOUT;
    loop {
        if let Some(topic) = look_up()? {
            return Ok(topic);
        }
        if clock::now() >= deadline {
            return Err(Error::Failed {
                what: format!("commit topic `{name}`"),
                why: "it was created, and is still not there".to_owned(),
            });
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Where the commits of `job` are decided.
fn look_up(cluster: &Cluster, job: &str, topic: &str, ids: &str) -> Result<KafkaPoint, Error> {
    let topic = commit_topic(cluster, topic)?;
    Ok(KafkaPoint {
        cluster: cluster.id().to_owned(),
        topic: topic.name,
        topic_id: topic.id.to_string(),
        partition: partition_of(job, &topic.partitions),
        ids: ids.to_owned(),
    })
}

/// Which partition holds the markers of `job`.
fn partition_of(job: &str, partitions: &[i32]) -> i32 {
    let count = partitions.len().max(1) as u64;
    let at = weir_state::hash::key_hash(job.as_bytes()) % count;
    partitions.get(at as usize).copied().unwrap_or(0)
}
