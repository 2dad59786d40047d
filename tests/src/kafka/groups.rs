//! What consumer groups have committed, and whether coordinators of groups and transactions answer.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::Broker;

/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(5);

/// Tries until it works or the time is over.
pub(super) fn retried<T>(
    patience: Duration,
    mut attempt: impl FnMut() -> KafkaResult<T>,
) -> Result<T, String> {
    let until = Instant::now() + patience;
    loop {
        match attempt() {
            Ok(value) => return Ok(value),
            Err(error) if Instant::now() > until => return Err(error.to_string()),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// The positions that a group has committed for the partitions of a topic; those without one are left out.
///
/// # Panics
/// The broker does not say.
pub fn committed(broker: &Broker, group: &str, topic: &str) -> BTreeMap<i32, i64> {
    let consumer: BaseConsumer = broker
        .client()
        .set("group.id", group)
        .create()
        .expect("these are properties of consumers");
    let partitions = super::topics::partitions(broker, topic);
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition(topic, partition);
    }
    let committed = retried(crate::host::HANGS, || {
        consumer.committed_offsets(list.clone(), REQUEST)
    })
    .unwrap_or_else(|why| {
        panic!(
            "what has group {group} committed of {topic}? {why}; {}",
            broker.log()
        )
    });
    let mut offsets = BTreeMap::new();
    for element in committed.elements() {
        if let Offset::Offset(offset) = element.offset() {
            offsets.insert(element.partition(), offset);
        }
    }
    offsets
}

/// Waits until coordinators answer: those of transactions, and those of groups. A cluster that is new or was restarted takes a while.
pub(super) fn coordinators_answer(config: &ClientConfig, patience: Duration) -> Result<(), String> {
    let until = Instant::now() + patience;
    let left = || until.saturating_duration_since(Instant::now());
    let producer: BaseProducer = config
        .clone()
        .set("transactional.id", "weir-tests-is-it-up")
        .create()
        .map_err(|error| error.to_string())?;
    retried(left(), || producer.init_transactions(REQUEST))?;
    let consumer: BaseConsumer = config
        .clone()
        .set("group.id", "weir-tests-is-it-up")
        .create()
        .map_err(|error| error.to_string())?;
    let mut list = TopicPartitionList::new();
    list.add_partition("weir-tests-is-it-up", 0);
    retried(left(), || consumer.committed_offsets(list.clone(), REQUEST))?;
    Ok(())
}
