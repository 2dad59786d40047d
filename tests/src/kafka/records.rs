//! Records as tests write and read them.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Header, Headers, Message, OwnedHeaders, Timestamp};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::{ClientContext, Offset, TopicPartitionList};

use super::Broker;
use crate::host::HANGS;

/// Which records a reader sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Those of committed transactions and of none.
    Committed,
    /// Those of open and aborted transactions as well.
    Uncommitted,
}

impl Isolation {
    /// As clients of Kafka call it.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::Committed => "read_committed",
            Isolation::Uncommitted => "read_uncommitted",
        }
    }
}

/// A record. `None` is null, which is not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// Its partition.
    pub partition: i32,
    /// Its offset; not looked at when it is written.
    pub offset: i64,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Option<Vec<u8>>,
    /// Its headers, in order; a name may come more than once.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Its timestamp, in milliseconds; when it is written, `None` is now.
    pub time: Option<i64>,
}

impl Record {
    /// To partition `partition`, without key and value.
    pub fn to(partition: i32) -> Record {
        Record {
            partition,
            ..Record::default()
        }
    }

    /// With a key.
    pub fn key(mut self, key: impl Into<Vec<u8>>) -> Record {
        self.key = Some(key.into());
        self
    }

    /// With a value.
    pub fn value(mut self, value: impl Into<Vec<u8>>) -> Record {
        self.value = Some(value.into());
        self
    }

    /// With one more header.
    pub fn header(mut self, name: &str, value: Option<&[u8]>) -> Record {
        self.headers
            .push((name.to_owned(), value.map(<[u8]>::to_vec)));
        self
    }

    /// With a timestamp, in milliseconds.
    pub fn at(mut self, time: i64) -> Record {
        self.time = Some(time);
        self
    }

    /// Its value as text; the empty one if there is none.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.value.as_deref().unwrap_or_default()).into_owned()
    }

    /// Its key as text; the empty one if there is none.
    pub fn key_text(&self) -> String {
        String::from_utf8_lossy(self.key.as_deref().unwrap_or_default()).into_owned()
    }

    /// Queues it with a producer of the test's own. It need not be written yet.
    ///
    /// # Errors
    /// The producer refuses it.
    pub fn send<C>(&self, producer: &BaseProducer<C>, topic: &str) -> Result<(), KafkaError>
    where
        C: ProducerContext<DeliveryOpaque = ()>,
    {
        let mut record = BaseRecord::to(topic).partition(self.partition);
        if let Some(key) = &self.key {
            record = record.key(key.as_slice());
        }
        if let Some(value) = &self.value {
            record = record.payload(value.as_slice());
        }
        if let Some(time) = self.time {
            record = record.timestamp(time);
        }
        if !self.headers.is_empty() {
            let mut headers = OwnedHeaders::new_with_capacity(self.headers.len());
            for (key, value) in &self.headers {
                let value = value.as_deref();
                headers = headers.insert(Header { key, value });
            }
            record = record.headers(headers);
        }
        loop {
            match producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                    producer.poll(Duration::from_millis(10));
                    record = again;
                }
                Err((error, _)) => return Err(error),
            }
        }
    }
}

/// # Panics
/// The name of a header is no UTF-8: the client cannot read such.
impl From<&BorrowedMessage<'_>> for Record {
    fn from(message: &BorrowedMessage<'_>) -> Record {
        let headers = message.headers().map_or_else(Vec::new, |headers| {
            let owned = |header: Header<'_, &[u8]>| {
                (header.key.to_owned(), header.value.map(<[u8]>::to_vec))
            };
            headers.iter().map(owned).collect()
        });
        Record {
            partition: message.partition(),
            offset: message.offset(),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers,
            time: match message.timestamp() {
                Timestamp::NotAvailable => None,
                Timestamp::CreateTime(time) | Timestamp::LogAppendTime(time) => Some(time),
            },
        }
    }
}

/// A consumer that is no member of a group.
pub(super) fn consumer(broker: &Broker, isolation: Isolation) -> BaseConsumer {
    broker
        .client()
        .set("group.id", "weir-tests-reader")
        .set("enable.auto.commit", "false")
        .set("allow.auto.create.topics", "false")
        .set("enable.partition.eof", "true")
        .set("isolation.level", isolation.name())
        .set("fetch.wait.max.ms", "20")
        .create()
        .expect("these are properties of consumers")
}

/// Remembers why a record was not written.
#[derive(Default)]
struct Deliveries(Mutex<Option<KafkaError>>);

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            *self.0.lock().expect("nobody panics holding it") = Some(error.clone());
        }
    }
}

pub(super) fn produce(broker: &Broker, topic: &str, records: &[Record]) -> Result<(), String> {
    let producer: BaseProducer<Deliveries> = broker
        .client()
        .set("linger.ms", "2")
        .set("enable.idempotence", "true")
        .create_with_context(Deliveries::default())
        .expect("these are properties of producers");
    for record in records {
        record
            .send(&producer, topic)
            .map_err(|error| error.to_string())?;
    }
    let until = Instant::now() + HANGS;
    while producer.in_flight_count() > 0 {
        if Instant::now() > until {
            let left = producer.in_flight_count();
            return Err(format!("{left} records are not written yet"));
        }
        producer.poll(Duration::from_millis(1));
    }
    let failed = producer
        .context()
        .0
        .lock()
        .expect("nobody panics holding it");
    failed
        .as_ref()
        .map_or(Ok(()), |error| Err(error.to_string()))
}

pub(super) fn read(
    broker: &Broker,
    topic: &str,
    partitions: i32,
    isolation: Isolation,
) -> Result<Vec<Record>, String> {
    let consumer = consumer(broker, isolation);
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(topic, partition, Offset::Beginning)
            .map_err(|error| error.to_string())?;
    }
    consumer.assign(&list).map_err(|error| error.to_string())?;
    let mut records = Vec::new();
    let mut ended = BTreeSet::new();
    let until = Instant::now() + HANGS;
    while ended.len() < partitions as usize {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => records.push(Record::from(&message)),
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                ended.insert(partition);
            }
            // Trouble with a connection mends itself.
            Some(Err(_)) | None => {}
        }
        if Instant::now() > until {
            return Err(format!("only partitions {ended:?} have come to their end"));
        }
    }
    records.sort_by_key(|record| (record.partition, record.offset));
    Ok(records)
}
