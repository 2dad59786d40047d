//! The input, and what must have come of it.

use std::collections::HashMap;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use weir_tests::kafka::Broker;

use super::{KEYS, PARTITIONS, RECORDS};
use crate::Outcome;

/// The value of every record.
const VALUE: [u8; 100] = [b'v'; 100];

/// Longer than any request takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A producer that batches as much as it can.
pub(super) fn producer(broker: &Broker) -> Outcome<BaseProducer> {
    let mut config = broker.client();
    config
        .set("linger.ms", "5")
        .set("acks", "all")
        .set("queue.buffering.max.messages", "1000000");
    Ok(config.create()?)
}

/// Queues record `n`, waiting for room. Records go to the partitions in turn, and so do the keys: each is in one only.
pub(super) fn send(producer: &BaseProducer, topic: &str, n: u64) -> Outcome {
    let key = format!("key-{:06}", n % KEYS);
    let partition = i32::try_from(n % u64::from(PARTITIONS.unsigned_abs()))?;
    let record = BaseRecord::to(topic).partition(partition);
    let mut record = record.key(&key).payload(&VALUE);
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                producer.poll(Duration::from_millis(10));
                record = back;
            }
            Err((error, _)) => return Err(error.into()),
        }
    }
}

/// Writes the input.
pub(super) fn fill(broker: &Broker, topic: &str) -> Outcome {
    let producer = producer(broker)?;
    for n in 0..RECORDS {
        send(&producer, topic, n)?;
        if n % 10_000 == 0 {
            producer.poll(Duration::ZERO);
        }
    }
    Ok(producer.flush(PATIENCE)?)
}

/// A reader of what is committed to a topic, from its beginning.
pub(super) fn reader(broker: &Broker, topic: &str) -> Outcome<BaseConsumer> {
    let mut config = broker.client();
    config
        .set("group.id", "reader")
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_committed")
        .set("enable.partition.eof", "true")
        .set("fetch.wait.max.ms", "10");
    let consumer: BaseConsumer = config.create()?;
    let mut list = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        list.add_partition_offset(topic, partition, Offset::Beginning)?;
    }
    consumer.assign(&list)?;
    Ok(consumer)
}

/// Whether the output is what it must be: as many records as the input has, the last count of every key what it is.
pub(super) fn check(broker: &Broker, topic: &str) -> Outcome {
    let consumer = reader(broker, topic)?;
    let mut counts: HashMap<Vec<u8>, u64> = HashMap::new();
    let mut open = PARTITIONS;
    while open > 0 {
        match consumer.poll(PATIENCE) {
            None => return Err(format!("topic {topic} cannot be read").into()),
            Some(Err(KafkaError::PartitionEOF(_))) => open -= 1,
            Some(Err(error)) => return Err(error.into()),
            Some(Ok(message)) => {
                let key = message.key().ok_or("a record without a key")?;
                let value = message.payload().ok_or("a record without a value")?;
                let count = u64::from_le_bytes(value.try_into()?);
                let last = match counts.get_mut(key) {
                    Some(last) => last,
                    None => counts.entry(key.to_vec()).or_default(),
                };
                if count != *last + 1 {
                    let key = String::from_utf8_lossy(key);
                    return Err(format!("{topic}: {key} counts {count} after {last}").into());
                }
                *last = count;
            }
        }
    }
    let all: u64 = counts.values().sum();
    if all != RECORDS || counts.len() as u64 != KEYS {
        let keys = counts.len();
        return Err(format!("{topic}: {all} records of {keys} keys, not {RECORDS}").into());
    }
    Ok(())
}
