//! What the clusters say of the topics that a job writes: looked up before an attempt, for its sink subtasks to go by.

use std::time::Duration;

use super::producers::{ProducerSettings, queue_bytes};
use crate::job::model::{CheckpointSettings, KafkaSink};

/// A topic that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputTopic {
    /// Its name.
    pub name: String,
    /// How many partitions it has, at least 1.
    pub partitions: u32,
    /// The largest batch that it takes in bytes (`max.message.bytes`), and so the largest record.
    pub max_bytes: u64,
    /// How far ahead of the broker's clock a record's timestamp may be; `None`: any, or the broker replaces it.
    pub ahead: Option<Duration>,
}

/// What a Kafka sink writes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its topics, in the order of [`crate::job::model::KafkaTopic::names`].
    pub topics: Vec<OutputTopic>,
    /// The id of its cluster.
    pub cluster: String,
    /// Whether it is written in the job's transactions.
    pub transactional: bool,
    /// Settings of a producer of its own.
    pub settings: ProducerSettings,
}

/// What a job's Kafka sinks write to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// By sink, in the order of the job; `None` for sinks of another kind.
    pub sinks: Vec<Option<Output>>,
}

/// What Kafka takes as one batch where nothing else is set.
pub const DEFAULT_MAX_BYTES: u64 = 1_048_588;

impl Outputs {
    /// Settings of the two producers that carry the job's transactions, where it writes to Kafka exactly once: their batches fit
    /// every topic that is written in them.
    pub fn transactional(&self) -> Option<ProducerSettings> {
        let mut sinks = self.sinks.iter().flatten().filter(|it| it.transactional);
        let first = sinks.next()?.settings;
        Some(sinks.fold(first, |all, sink| {
            ProducerSettings {
                smallest_topic_limit: all
                    .smallest_topic_limit
                    .min(sink.settings.smallest_topic_limit),
                largest_topic_limit: all
                    .largest_topic_limit
                    .max(sink.settings.largest_topic_limit),
                ..all
            }
        }))
    }
}

/// Settings of a producer for `sink`, one of `producers` of a process that may use `memory` bytes. No record waits for its
/// acknowledgement longer than a checkpoint may take.
pub(super) fn settings(
    sink: &KafkaSink,
    topics: &[OutputTopic],
    checkpoint: &CheckpointSettings,
    memory: u64,
    producers: usize,
) -> ProducerSettings {
    let limits = || topics.iter().map(|topic| topic.max_bytes);
    ProducerSettings {
        queue_bytes: queue_bytes(memory, producers),
        delivery_timeout: checkpoint.timeout,
        compression: sink.compression,
        smallest_topic_limit: limits().min().unwrap_or(DEFAULT_MAX_BYTES),
        largest_topic_limit: limits().max().unwrap_or(DEFAULT_MAX_BYTES),
    }
}
