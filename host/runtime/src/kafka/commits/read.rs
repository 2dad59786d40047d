//! Reading the newest marker of a job.
//!
//! What is asked for is the newest *committed* marker of all that were written before the question. A reader with `read_committed` sees
//! nothing behind the first transaction that is still open, whichever job's it is, and would take an older marker for the newest. So the end of
//! the partition is asked for first, by a reader that sees everything, and the answer waits until all before it is decided.

use std::time::Duration;

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};

use crate::checkpoint::commit_point::MarkerFound;
use crate::checkpoint::{KafkaPoint, Marker};
use crate::clock;
use crate::job::model::KafkaConnection;
use crate::kafka::error::is_refusal;
use crate::kafka::{Context, Error, client};

/// How long one answer may take.
const REQUEST: Duration = Duration::from_secs(10);

/// How often an open transaction is looked after.
const PAUSE: Duration = Duration::from_millis(100);

/// How long reading may stand still.
const STILL: Duration = Duration::from_secs(60);

/// Offsets that are read at first; each time nothing is found, four times as many.
const TAIL: i64 = 1_000;

/// The newest marker of `job` at `at`. With `go_on`, waits until everything before the end is decided; without, takes what can be
/// read at once.
///
/// # Errors
/// The cluster does not answer, or `go_on` said no.
pub(super) fn newest(
    connection: &KafkaConnection,
    at: &KafkaPoint,
    job: &str,
    go_on: Option<&dyn Fn() -> bool>,
) -> Result<MarkerFound, Error> {
    let reader = |isolation| consumer(connection, at, isolation);
    let committed = reader("read_committed")?;
    let (mut low, mut end) = watermarks(&committed, at)?;
    if let Some(go_on) = go_on {
        let (_, all) = watermarks(&reader("read_uncommitted")?, at)?;
        while end < all {
            if !go_on() {
                return Err(Error::Failed {
                    what: cannot_read(at),
                    why: "the job was asked to stop while a transaction was open in it".to_owned(),
                });
            }
            std::thread::sleep(PAUSE);
            (low, end) = watermarks(&committed, at)?;
        }
    }
    let mut tail = TAIL;
    loop {
        let from = (end - tail).max(low);
        let found = newest_from(&committed, at, job, from)?;
        if found.is_some() || from == low {
            return Ok(found);
        }
        tail = tail.saturating_mul(4);
    }
}

fn consumer(
    connection: &KafkaConnection,
    at: &KafkaPoint,
    isolation: &str,
) -> Result<BaseConsumer<Context>, Error> {
    let name = format!("reader of `{}`", at.topic);
    let mut config = client::config(connection, &at.ids)?;
    config
        // It joins no group; librdkafka wants a name all the same.
        .set("group.id", &at.ids)
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        // The last fetch, which tells of the end, is one that finds nothing: a start waits for it.
        .set("fetch.wait.max.ms", "20")
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", isolation);
    BaseConsumer::from_config_and_context(&config, Context::new(&name))
        .map_err(|error| Error::client(&name, &error))
}

/// The first offset and the end. A topic that is not there is empty.
fn watermarks(consumer: &BaseConsumer<Context>, at: &KafkaPoint) -> Result<(i64, i64), Error> {
    let deadline = clock::now() + STILL;
    loop {
        let error = match consumer.fetch_watermarks(&at.topic, at.partition, REQUEST) {
            Ok(found) => return Ok(found),
            Err(error) => error,
        };
        match error.rdkafka_error_code() {
            Some(
                RDKafkaErrorCode::UnknownTopicOrPartition
                | RDKafkaErrorCode::UnknownTopic
                | RDKafkaErrorCode::UnknownPartition,
            ) => return Ok((0, 0)),
            Some(code) if is_refusal(code) => return Err(failed(consumer, at, &error)),
            _ if clock::now() < deadline => std::thread::sleep(PAUSE),
            _ => return Err(failed(consumer, at, &error)),
        }
    }
}

fn cannot_read(at: &KafkaPoint) -> String {
    format!("cannot read {at}")
}

fn failed(consumer: &BaseConsumer<Context>, at: &KafkaPoint, error: &KafkaError) -> Error {
    let trouble = consumer.context().trouble().map(|(_, what)| what);
    Error::of(&cannot_read(at), error, trouble)
}

/// Whether an error is a no to reading. We may not use the group that librdkafka wants a name of, and need not.
fn concerns_us(code: RDKafkaErrorCode) -> bool {
    is_refusal(code) && code != RDKafkaErrorCode::GroupAuthorizationFailed
}

fn newest_from(
    consumer: &BaseConsumer<Context>,
    at: &KafkaPoint,
    job: &str,
    from: i64,
) -> Result<MarkerFound, Error> {
    let mut found = None;
    let mut assignment = TopicPartitionList::new();
    assignment
        .add_partition_offset(&at.topic, at.partition, Offset::Offset(from))
        .and_then(|()| consumer.assign(&assignment))
        .map_err(|error| failed(consumer, at, &error))?;
    let (_, end) = watermarks(consumer, at)?;
    if end <= from {
        return Ok(None);
    }
    let mut deadline = clock::now() + STILL;
    loop {
        match consumer.poll(PAUSE) {
            Some(Ok(message)) => {
                deadline = clock::now() + STILL;
                if message.key() == Some(job.as_bytes()) {
                    // A tombstone takes the marker away.
                    found = message.payload().map(Marker::decode);
                }
                // Where jobs commit all the time the end is never reached, but was seen to be here.
                if message.offset() + 1 >= end {
                    return Ok(found);
                }
            }
            Some(Err(KafkaError::PartitionEOF(_))) => return Ok(found),
            Some(Err(error))
                if clock::now() >= deadline
                    || error.rdkafka_error_code().is_some_and(concerns_us) =>
            {
                return Err(failed(consumer, at, &error));
            }
            None if clock::now() >= deadline => {
                let trouble = consumer.context().trouble();
                let trouble = trouble.map_or_else(String::new, |(_, what)| format!(" ({what})"));
                return Err(Error::Failed {
                    what: cannot_read(at),
                    why: format!("it has stood still for {} s{trouble}", STILL.as_secs()),
                });
            }
            Some(Err(_)) | None => {}
        }
    }
}
