//! Topics of a Kafka cluster, read partition by partition.
//!
//! A partition is a split. Subtasks are assigned partitions by us, never by a consumer group, and where they stand is part of every
//! checkpoint: the offset of the next record. Where reading begins and, for a bounded source, ends is looked up once, when
//! the job first starts, and is a number from then on ([`find`]). A partition has been read to its end when the consumer stands
//! there, whatever the last record's offset was: what ends a transaction takes an offset too, and is no record.
//!
//! Partitions that appear later are read from their beginning, also where the source began at the newest records: nothing that
//! is produced after the start is missed. Each subtask looks for them itself ([`watch`]) and takes those that hash to it. Between two
//! runs they are found by [`resume`].
//!
//! Kafka keeps records for a while only, and topics can be deleted and created again under the same name. Both would be losses that
//! nobody notices, so offsets that are gone are judged by `on_gap` ([`offsets`]), and a topic must have the id that it had.
//!
//! Brokers that do not answer are waited for: librdkafka connects again by itself. [`fetch`] hands its messages over in batches.

use serde::{Deserialize, Serialize};

use super::{Error, SplitState, position};
use crate::job::model::{KafkaSource, KafkaTopics, NodeId};
use crate::kafka::{self, TopicId, acls};

mod decode;
mod fetch;
mod find;
mod group;
mod offsets;
mod reader;
mod trouble;
mod watch;

#[cfg(test)]
mod tests;

pub use group::GroupOffsets;

pub(super) use reader::Partitions;

/// The partitions of the topics of `source`, none of them read.
pub(super) fn discover(source: &NodeId, kafka: &KafkaSource) -> Result<Vec<SplitState>, Error> {
    find::discover(source, kafka).map_err(|error| told(kafka, error))
}

/// Checks the recorded partitions, and finds those that have appeared since.
pub(super) fn resume(
    source: &NodeId,
    kafka: &KafkaSource,
    splits: Vec<SplitState>,
) -> Result<(Vec<SplitState>, Vec<String>), Error> {
    find::resume(source, kafka, splits).map_err(|error| told(kafka, error))
}

/// A partition's position as checkpoints record it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    /// Records that were read of it.
    at: u64,
    topic: String,
    topic_id: TopicId,
    partition: i32,
    /// Where reading began.
    first: i64,
    /// Offset of the next record, or of something that is none and stands before it.
    next: i64,
    /// Nothing from this offset on is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stop: Option<i64>,
}

impl Position {
    /// Of a partition of which nothing was read yet.
    fn begin(topic: &str, topic_id: &TopicId, partition: i32, at: i64) -> Position {
        Position {
            at: 0,
            topic: topic.to_owned(),
            topic_id: topic_id.clone(),
            partition,
            first: at,
            next: at,
            stop: None,
        }
    }

    /// The position that a checkpoint recorded.
    fn of(source: &NodeId, split: &SplitState) -> Result<Position, Error> {
        position(source, split)
    }

    /// What messages call the partition.
    fn name(&self) -> String {
        format!("{}-{}", self.topic, self.partition)
    }

    fn is_at_stop(&self) -> bool {
        self.stop.is_some_and(|stop| self.next >= stop)
    }

    fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("a position is plain data")
    }
}

/// The subtask of `of` that reads a partition which appeared after the start. Partitions of a topic are spread evenly.
fn owner(topic: &str, partition: i32, of: u32) -> u32 {
    let hash = xxhash_rust::xxh3::xxh3_64(topic.as_bytes());
    let place = hash.wrapping_add(u64::from(partition.unsigned_abs()));
    (place % u64::from(of.max(1))) as u32
}

/// The text of a message that is about a topic which is not the one that was read.
fn recreated(source: &NodeId, topic: &str, recorded: &TopicId, now: &TopicId) -> Error {
    Error::Changed(format!(
        "source `{source}`: topic `{topic}` had the id {recorded} when it was read and now has {now}: it was deleted and created again, \
         or this is another cluster, so recorded offsets mean nothing in it. Restore the topic; or, to read the new one from its \
         beginning, move output and checkpoints away and start over"
    ))
}

/// An error of `kafka`'s; where something is not permitted, with what grants it.
fn told(kafka: &KafkaSource, error: Error) -> Error {
    match error {
        Error::Kafka(kafka::Error::Refused { what, why }) => Error::Kafka(kafka::Error::Refused {
            what,
            why: format!("{why}{}", acls::note(&grants(kafka))),
        }),
        other => other,
    }
}

/// The line that grants the use of the group.
fn granting_group(kafka: &KafkaSource) -> String {
    let group = grants(kafka).pop();
    group.expect("the last one is that of the group")
}

/// The lines that grant what `kafka` needs.
fn grants(kafka: &KafkaSource) -> Vec<String> {
    let topics = match &kafka.topics {
        KafkaTopics::Names(names) => names.clone(),
        // Which it is to match, only its author knows.
        KafkaTopics::Pattern(_) => vec!["*".to_owned()],
    };
    acls::of_source(&kafka.connection, &topics, &kafka.group)
}

/// What a client of `source` calls itself.
fn client_id(source: &NodeId) -> String {
    format!("weir-{source}")
}
