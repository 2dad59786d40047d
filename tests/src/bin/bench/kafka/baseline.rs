//! What the same is without a host: one thread that polls, counts in a hash map and produces, in a transaction a second. Its
//! settings of librdkafka are those that Weir's source and sink make (`source/kafka/reader.rs`, `kafka/producers.rs`).

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::{Value, json};

use super::PARTITIONS;
use crate::Outcome;

/// Longer than any request takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a transaction lasts.
const INTERVAL: Duration = Duration::from_secs(1);

/// What a process may read ahead, and its producers may queue, in KiB: Weir's, with the memory that this machine gives it.
const READ_AHEAD_KB: &str = "32768";
const QUEUE_KB: &str = "131072";

fn consumer(brokers: &str) -> Outcome<BaseConsumer> {
    Ok(ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", "baseline")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("isolation.level", "read_committed")
        .set("enable.partition.eof", "true")
        .set("queued.max.messages.kbytes", READ_AHEAD_KB)
        .set("fetch.max.bytes", "33554432")
        .set("receive.message.max.bytes", "1000000000")
        .set("fetch.queue.backoff.ms", "10")
        .create()?)
}

fn producer(brokers: &str, output: &str) -> Outcome<BaseProducer> {
    Ok(ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("transactional.id", format!("baseline-{output}"))
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("partitioner", "murmur2_random")
        .set("queue.buffering.max.messages", "0")
        .set("queue.buffering.max.kbytes", QUEUE_KB)
        .set("linger.ms", "5")
        .set("batch.size", "1000000")
        .create()?)
}

/// Commits what was read so far, and its outputs.
fn commit(producer: &BaseProducer, consumer: &BaseConsumer, next: &[i64], input: &str) -> Outcome {
    let mut offsets = TopicPartitionList::new();
    for (partition, next) in next.iter().enumerate() {
        offsets.add_partition_offset(input, i32::try_from(partition)?, Offset::Offset(*next))?;
    }
    // Its flush waits in steps of 100 ms.
    while producer.in_flight_count() > 0 {
        producer.poll(Duration::from_millis(1));
    }
    let group = consumer.group_metadata().ok_or("no group")?;
    producer.send_offsets_to_transaction(&offsets, &group, PATIENCE)?;
    producer.commit_transaction(PATIENCE)?;
    Ok(())
}

/// Counts from one topic to another, and prints how long it took.
pub(crate) fn run(order: &Path) -> Outcome {
    let order: Value = serde_json::from_slice(&std::fs::read(order)?)?;
    let text = |name: &str| order[name].as_str().ok_or("an incomplete order");
    let (brokers, input, output) = (text("brokers")?, text("input")?, text("output")?);
    let (consumer, producer) = (consumer(brokers)?, producer(brokers, output)?);
    producer.init_transactions(PATIENCE)?;
    let mut list = TopicPartitionList::new();
    let mut ends = Vec::new();
    for partition in 0..PARTITIONS {
        list.add_partition_offset(input, partition, Offset::Beginning)?;
        ends.push(consumer.fetch_watermarks(input, partition, PATIENCE)?.1);
    }
    let began = Instant::now();
    consumer.assign(&list)?;
    let mut next = vec![0; ends.len()];
    let mut counts: HashMap<Vec<u8>, u64> = HashMap::new();
    producer.begin_transaction()?;
    let mut commit_at = began + INTERVAL;
    let mut since = 0_u32;
    while next != ends {
        since += 1;
        if since >= 1000 {
            since = 0;
            producer.poll(Duration::ZERO);
            if Instant::now() >= commit_at {
                commit(&producer, &consumer, &next, input)?;
                producer.begin_transaction()?;
                commit_at += INTERVAL;
            }
        }
        let message = match consumer.poll(Duration::from_millis(10)) {
            None | Some(Err(KafkaError::PartitionEOF(_))) => continue,
            Some(message) => message?,
        };
        let key = message.key().unwrap_or_default();
        let count = match counts.get_mut(key) {
            Some(count) => count,
            None => counts.entry(key.to_vec()).or_insert(0),
        };
        *count += 1;
        let value = count.to_le_bytes();
        let mut record = BaseRecord::to(output).key(key).payload(&value);
        if let Some(time) = message.timestamp().to_millis() {
            record = record.timestamp(time);
        }
        while let Err((error, back)) = producer.send(record) {
            if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                return Err(error.into());
            }
            producer.poll(Duration::from_millis(1));
            record = back;
        }
        next[usize::try_from(message.partition())?] = message.offset() + 1;
    }
    commit(&producer, &consumer, &next, input)?;
    let seconds = began.elapsed().as_secs_f64();
    println!("{}", json!({"seconds": seconds}));
    Ok(())
}
