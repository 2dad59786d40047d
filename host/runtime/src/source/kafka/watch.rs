//! Looks for partitions that appear while the job runs, and for topics that are not what they were. On a thread of its own: a broker
//! may be slow to answer, and reading goes on meanwhile.

use std::collections::{BTreeSet, HashMap};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::find::deleted;
use super::offsets::Offsets;
use super::{Position, client_id, owner, recreated};
use crate::job::model::{KafkaSource, KafkaTopics, NodeId};
use crate::kafka::{Cluster, TopicId};
use crate::source::Error;
use crate::{clock, log};

/// How long a cluster may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often topics are compared with what they were where no partitions are looked for.
const COMPARE: Duration = Duration::from_secs(60);

/// How long a topic must be missing before it counts as deleted: a broker that has just started may not know all of them, and one
/// that is deleted may be on its way to be created again.
const MISSING: Duration = Duration::from_secs(5);

/// Between looks while one is missing.
const SECOND_LOOK: Duration = Duration::from_secs(2);

/// Something that a look has found.
pub(super) enum News {
    /// A partition that this subtask is to read.
    Found(Position),
    /// A topic of a pattern was deleted.
    Gone(String),
    /// The job cannot go on.
    Failed(Error),
}

/// The thread, until this is dropped.
pub(super) struct Watch {
    look: Sender<()>,
    news: Receiver<News>,
}

/// What the thread works with.
struct Watcher {
    source: NodeId,
    kafka: KafkaSource,
    subtask: u32,
    of: u32,
    known: HashMap<String, Known>,
    /// Kept while it answers.
    cluster: Option<Cluster>,
}

struct Known {
    id: TopicId,
    partitions: BTreeSet<i32>,
    /// Since when looks have not found it.
    missing: Option<Instant>,
}

impl Watch {
    /// Looks at intervals. `all` is what the attempt began with, of all subtasks.
    pub(super) fn start(
        source: &NodeId,
        kafka: &KafkaSource,
        (subtask, of): (u32, u32),
        all: &[Position],
    ) -> Result<Watch, Error> {
        let mut known: HashMap<String, Known> = HashMap::new();
        for position in all {
            let topic = known
                .entry(position.topic.clone())
                .or_insert_with(|| Known {
                    id: position.topic_id.clone(),
                    partitions: BTreeSet::new(),
                    missing: None,
                });
            topic.partitions.insert(position.partition);
        }
        known.retain(|topic, _| kafka.topics.contain(topic));
        let mut watcher = Watcher {
            source: source.clone(),
            kafka: kafka.clone(),
            subtask,
            of,
            known,
            cluster: None,
        };
        let (look, asked) = mpsc::channel();
        let (tell, news) = mpsc::channel();
        thread::Builder::new()
            .name(format!("{source}-watch").chars().take(15).collect())
            .spawn(move || watcher.run(&asked, &tell))
            .map_err(|cause| Error::Io {
                what: format!("source `{source}`: cannot start a thread"),
                source: cause,
            })?;
        Ok(Watch { look, news })
    }

    /// Asks for a look out of turn.
    pub(super) fn look(&self) {
        // One that has failed has said so.
        let _ = self.look.send(());
    }

    pub(super) fn news(&self) -> Option<News> {
        self.news.try_recv().ok()
    }
}

impl Watcher {
    fn run(&mut self, asked: &Receiver<()>, tell: &Sender<News>) {
        let mut in_trouble = false;
        let every = self.kafka.discover.unwrap_or(COMPARE);
        let mut wait = every;
        loop {
            match asked.recv_timeout(wait) {
                Ok(()) => while asked.try_recv().is_ok() {},
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            wait = every;
            let looked = self.look(tell);
            match &self.cluster {
                Some(cluster) if looked.is_ok() => cluster.serve(),
                _ => self.unclear(),
            }
            match looked {
                Ok(()) if in_trouble => {
                    in_trouble = false;
                    log::info(&format!(
                        "source `{}`: topics and partitions can be looked up again",
                        self.source
                    ));
                }
                Ok(()) => {}
                Err(error @ Error::Changed(_)) => {
                    // Nobody listens any more: the attempt is over.
                    let _ = tell.send(News::Failed(error));
                    return;
                }
                Err(error) if !in_trouble => {
                    in_trouble = true;
                    log::warn(&format!(
                        "[{}] source `{}`: new partitions cannot be looked for: {error}; the job goes on, and looks again each {}",
                        error.code(),
                        self.source,
                        crate::units::format_duration(every)
                    ));
                }
                Err(_) => {}
            }
            if self.known.values().any(|topic| topic.missing.is_some()) {
                wait = SECOND_LOOK.min(every);
            }
        }
    }

    /// A look has failed: what is not known of brokers now does not count as missing.
    fn unclear(&mut self) {
        self.cluster = None;
        for topic in self.known.values_mut() {
            topic.missing = None;
        }
    }

    fn look(&mut self, tell: &Sender<News>) -> Result<(), Error> {
        let cluster = match &self.cluster {
            Some(cluster) => cluster,
            None => {
                let connection = &self.kafka.connection;
                let connected = Cluster::connect(connection, &client_id(&self.source), PATIENCE);
                self.cluster.insert(connected.map_err(Error::Kafka)?)
            }
        };
        let found = match &self.kafka.topics {
            KafkaTopics::Names(names) => {
                let found = cluster.topics(names).map_err(Error::Kafka)?;
                found.into_iter().flatten().collect()
            }
            KafkaTopics::Pattern(pattern) => cluster.matching(pattern).map_err(Error::Kafka)?,
        };
        let mut gone = Vec::new();
        for (name, known) in &mut self.known {
            match found.iter().find(|topic| topic.name == *name) {
                Some(topic) if topic.id != known.id => {
                    return Err(recreated(&self.source, name, &known.id, &topic.id));
                }
                Some(_) => known.missing = None,
                None => {
                    let now = clock::now();
                    let since = *known.missing.get_or_insert(now);
                    if now.saturating_duration_since(since) >= MISSING {
                        gone.push(name.clone());
                    }
                }
            }
        }
        for name in gone {
            if let KafkaTopics::Names(_) = self.kafka.topics {
                return Err(deleted(&self.source, &name));
            }
            self.known.remove(&name);
            let _ = tell.send(News::Gone(name));
        }
        if self.kafka.discover.is_none() {
            return Ok(());
        }
        let mut offsets = None;
        for topic in found {
            let known = self
                .known
                .entry(topic.name.clone())
                .or_insert_with(|| Known {
                    id: topic.id.clone(),
                    partitions: BTreeSet::new(),
                    missing: None,
                });
            for partition in topic.partitions {
                if known.partitions.contains(&partition) {
                    continue;
                }
                if owner(&topic.name, partition, self.of) == self.subtask {
                    let offsets = match &mut offsets {
                        Some(offsets) => offsets,
                        none => none.insert(Offsets::new(&self.source, &self.kafka, PATIENCE)?),
                    };
                    let oldest = offsets.range(&topic.name, partition)?.oldest;
                    let position = Position::begin(&topic.name, &topic.id, partition, oldest);
                    let _ = tell.send(News::Found(position));
                }
                known.partitions.insert(partition);
            }
        }
        Ok(())
    }
}
