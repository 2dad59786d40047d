//! Offsets of partitions: what there is, and whether a position is still there.

use std::thread;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::client_id;
use crate::clock;
use crate::job::model::{KafkaGap, KafkaSource, KafkaStart, NodeId};
use crate::kafka::{self, Context, client};
use crate::source::Error;

/// How long one try may take.
const REQUEST: Duration = Duration::from_secs(5);

/// Between tries.
const PAUSE: Duration = Duration::from_millis(250);

/// How often a position beyond the end is looked up again before it is believed: a broker that has just started may not know its end.
const SECOND_LOOKS: u32 = 8;

/// Oldest offset of a partition, and the one behind its newest record (of those that the source may see).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) oldest: i64,
    pub(super) end: i64,
}

/// Settings of every consumer of `kafka`: what it sees, and that nothing happens by itself.
pub(super) fn settings(source: &NodeId, kafka: &KafkaSource) -> Result<ClientConfig, Error> {
    let mut config = client::config(&kafka.connection, &client_id(source)).map_err(Error::Kafka)?;
    let isolation = if kafka.read_uncommitted {
        "read_uncommitted"
    } else {
        "read_committed"
    };
    config
        .set("isolation.level", isolation)
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "error");
    Ok(config)
}

/// Asks for offsets.
pub(super) struct Offsets {
    what: String,
    consumer: BaseConsumer<Context>,
    patience: Duration,
}

impl Offsets {
    /// For questions that may take so long each, with all tries.
    pub(super) fn new(
        source: &NodeId,
        kafka: &KafkaSource,
        patience: Duration,
    ) -> Result<Offsets, Error> {
        let mut config = settings(source, kafka)?;
        // A consumer of a group looks for its coordinator, which nobody else needs.
        if let KafkaStart::Committed { .. } = kafka.start {
            config.set("group.id", &kafka.group);
        }
        let name = client_id(source);
        let consumer = BaseConsumer::from_config_and_context(&config, Context::new(&name))
            .map_err(|error| Error::Kafka(kafka::Error::client(&name, &error)))?;
        Ok(Offsets {
            what: format!(
                "source `{source}`: Kafka at {}: cannot look up offsets",
                kafka.connection.brokers
            ),
            consumer,
            patience,
        })
    }

    fn request(&self) -> Duration {
        REQUEST.min(self.patience)
    }

    /// Asks until there is an answer, or none that passes by itself.
    fn ask<T>(&self, ask: impl Fn() -> Result<T, KafkaError>) -> Result<T, Error> {
        let deadline = clock::now() + self.patience;
        loop {
            let error = match ask() {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            // Serves the log and errors.
            drop(self.consumer.poll(Duration::ZERO));
            let passes = error.rdkafka_error_code().is_some_and(is_passing);
            let refused = self.consumer.context().refusal().is_some();
            if !passes || refused || clock::now() >= deadline {
                let trouble = self.consumer.context().trouble().map(|(_, what)| what);
                return Err(Error::Kafka(kafka::Error::of(&self.what, &error, trouble)));
            }
            thread::sleep(PAUSE);
        }
    }

    /// What there is of a partition.
    pub(super) fn range(&self, topic: &str, partition: i32) -> Result<Range, Error> {
        let (oldest, end) = self.ask(|| {
            self.consumer
                .fetch_watermarks(topic, partition, self.request())
        })?;
        Ok(Range { oldest, end })
    }

    /// The offsets of the first records at `time` or later; `None` where there is none.
    pub(super) fn at_time(
        &self,
        partitions: &[(String, i32)],
        time: i64,
    ) -> Result<Vec<Option<i64>>, Error> {
        let list = list(partitions, Offset::Offset(time));
        let found = self.ask(|| {
            let found = self
                .consumer
                .offsets_for_times(list.clone(), self.request())?;
            found.elements().iter().try_for_each(|it| it.error())?;
            Ok(found)
        })?;
        Ok(numbers(&found, partitions))
    }

    /// Where the group stands; `None` where it does not.
    pub(super) fn committed(
        &self,
        partitions: &[(String, i32)],
    ) -> Result<Vec<Option<i64>>, Error> {
        let list = list(partitions, Offset::Invalid);
        let found = self.ask(|| {
            let found = self
                .consumer
                .committed_offsets(list.clone(), self.request())?;
            found.elements().iter().try_for_each(|it| it.error())?;
            Ok(found)
        })?;
        Ok(numbers(&found, partitions))
    }

    /// The offset that reading goes on at from `next`, with a warning if that is another one. See [`judge`].
    pub(super) fn check(
        &self,
        source: &NodeId,
        kafka: &KafkaSource,
        (topic, partition): (&str, i32),
        next: i64,
    ) -> Result<(i64, Option<String>), Error> {
        let who = format!("source `{source}`: {topic}-{partition}");
        let mut looks = 0;
        loop {
            let range = self.range(topic, partition)?;
            if next > range.end && looks < SECOND_LOOKS {
                looks += 1;
                thread::sleep(PAUSE);
                continue;
            }
            return Ok(match judge(&who, next, range, kafka.on_gap)? {
                None => (next, None),
                Some((to, warning)) => (to, Some(warning)),
            });
        }
    }
}

fn list(partitions: &[(String, i32)], offset: Offset) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    for (topic, partition) in partitions {
        list.add_partition_offset(topic, *partition, offset)
            .expect("an offset that is one");
    }
    list
}

fn numbers(found: &TopicPartitionList, partitions: &[(String, i32)]) -> Vec<Option<i64>> {
    let one = |(topic, partition): &(String, i32)| match found
        .find_partition(topic, *partition)?
        .offset()
    {
        Offset::Offset(offset) => Some(offset),
        _ => None,
    };
    partitions.iter().map(one).collect()
}

/// Whether asking again may help. Topics were looked up before, so one that is not known is one that its brokers do not know yet.
pub(super) fn is_passing(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    kafka::is_passing(code)
        || matches!(code, Code::UnknownTopicOrPartition | Code::UnknownPartition)
}

/// Whether `next` is still to be had; else where to go on by `on_gap`, and the warning that says so.
///
/// # Errors
/// It is not, and that is not accepted; or it is beyond the end.
pub(super) fn judge(
    who: &str,
    next: i64,
    range: Range,
    on_gap: KafkaGap,
) -> Result<Option<(i64, String)>, Error> {
    let Range { oldest, end } = range;
    if next > end {
        return Err(Error::Changed(format!(
            "{who} is to be read from offset {next}, but ends before offset {end}: records that were there are gone (an unclean election, a \
             restored backup), or the offset was never right. Correct `start`; or move output and checkpoints away and start over"
        )));
    }
    if next >= oldest {
        return Ok(None);
    }
    let gap = format!(
        "{who} is to be read from offset {next}, but its oldest record left is {oldest}: retention has removed up to {} records that were \
         not read",
        oldest - next
    );
    match on_gap {
        KafkaGap::Fail => Err(Error::Changed(format!(
            "{gap}. To go on without them, set `on_gap: earliest` (from {oldest}) or `on_gap: latest` (from {end})"
        ))),
        KafkaGap::Earliest => Ok(Some((
            oldest,
            format!("{gap}; going on from {oldest} by `on_gap`"),
        ))),
        KafkaGap::Latest => Ok(Some((
            end,
            format!("{gap}; going on from {end}, the end, by `on_gap`"),
        ))),
    }
}
