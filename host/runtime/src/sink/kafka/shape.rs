//! What becomes of a record: topic, partition, key, timestamp, headers, and whether it may be written at all. No I/O.

use std::ops::Range;

use rdkafka::message::{Header as KafkaHeader, OwnedHeaders};

use super::partition;
use crate::batch::{Batch, NO_TIME};
use crate::decode::{Decoder, json};
use crate::headers::Header;
use crate::job::model::{
    KafkaFormat, KafkaKey, KafkaPartition, KafkaSink, KafkaTimestamp, KafkaTopic,
};
use crate::kafka::outputs::OutputTopic;

/// A sticky partition is left after so many bytes.
const STICKY_BYTES: usize = 16 * 1024;

/// Bytes of a key, or of a field that names a topic or partition, that a message shows.
const SHOWN_BYTES: usize = 64;

/// What a batch has around its records: Kafka measures a topic's limit with it.
const BATCH_HEADER_BYTES: u64 = 61;

/// What a record becomes, its value aside.
#[derive(Debug)]
pub(super) struct Shaped<'a> {
    /// Number of the topic.
    pub(super) topic: usize,
    /// Where in it; `None`: by the key, any for a null key.
    pub(super) partition: Option<i32>,
    pub(super) key: Option<&'a [u8]>,
    /// Above 0; `None`: the time of writing.
    pub(super) timestamp: Option<i64>,
    /// `None` if there are none.
    pub(super) headers: Option<OwnedHeaders>,
}

/// Makes records of a batch into what is written.
#[derive(Debug)]
pub(super) struct Shaper {
    format: KafkaFormat,
    /// Whether each record says its topic: by the first of `pointers`, and one of these.
    topics_by_field: bool,
    key: Key,
    partition: Partition,
    timestamp: KafkaTimestamp,
    forward_headers: bool,
    added_headers: Vec<(String, String)>,
    /// Of the topic, if that is by field, then of the partition, if that is.
    pointers: Vec<json::Pointer>,
    found: Vec<Option<Range<usize>>>,
    /// Text of a field.
    text: Vec<u8>,
    /// For sticky partitions: which, and how many bytes went there.
    sticky: u32,
    sticky_bytes: usize,
    /// Time of writing, milliseconds.
    now: i64,
}

#[derive(Debug)]
enum Key {
    Record,
    Selected(Box<Decoder>),
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Partition {
    Key,
    Field,
    Explicit,
    Sticky,
}

impl Shaper {
    /// By `settings`, of which the job file's check has seen that their pointers are some. Subtasks begin at different partitions.
    pub(super) fn new(settings: &KafkaSink, topics: &[OutputTopic], subtask: u16) -> Shaper {
        debug_assert_eq!(settings.topic.names().len(), topics.len());
        let parse = |text: &str| json::Pointer::parse(text).expect("the job file was checked");
        let mut pointers = Vec::new();
        if let KafkaTopic::Field { field, .. } = &settings.topic {
            pointers.push(parse(field));
        }
        let partition = match &settings.partition {
            KafkaPartition::Key => Partition::Key,
            KafkaPartition::Sticky => Partition::Sticky,
            KafkaPartition::Field(field) => {
                pointers.push(parse(field));
                Partition::Field
            }
            KafkaPartition::Explicit(field) => {
                pointers.push(parse(field));
                Partition::Explicit
            }
        };
        Shaper {
            format: settings.format,
            topics_by_field: matches!(settings.topic, KafkaTopic::Field { .. }),
            key: match &settings.key {
                KafkaKey::Record => Key::Record,
                KafkaKey::None => Key::None,
                KafkaKey::Selected(selector) => Key::Selected(Box::new(
                    Decoder::of_key(selector).expect("the job file was checked"),
                )),
            },
            partition,
            timestamp: settings.timestamp,
            forward_headers: settings.forward_headers,
            added_headers: settings.headers.clone(),
            pointers,
            found: Vec::new(),
            text: Vec::new(),
            sticky: subtask.into(),
            sticky_bytes: 0,
            now: 0,
        }
    }

    /// Records are written at `now` from here on, milliseconds since the epoch.
    pub(super) fn begin(&mut self, now: i64) {
        self.now = now;
    }

    /// The sticky partition is left.
    pub(super) fn rotate(&mut self) {
        if self.sticky_bytes > 0 {
            self.sticky = self.sticky.wrapping_add(1);
            self.sticky_bytes = 0;
        }
    }

    /// What record `row` of `batch` becomes.
    ///
    /// # Errors
    /// Why it cannot be written, and the remedy.
    pub(super) fn record<'a>(
        &'a mut self,
        topics: &[OutputTopic],
        batch: &'a Batch,
        row: usize,
    ) -> Result<Shaped<'a>, String> {
        let value = batch.values.get(row);
        let text = self.checked(value)?;
        let topic = if self.topics_by_field {
            self.topic(topics, text)?
        } else {
            0
        };
        let partitions = topics[topic].partitions;
        let partition = match self.partition {
            Partition::Key => None,
            Partition::Sticky => Some(self.stuck(partitions, value)),
            Partition::Field | Partition::Explicit => Some(self.partition(partitions, text)?),
        };
        let timestamp = match (self.timestamp, batch.times[row]) {
            (KafkaTimestamp::Written, _) | (KafkaTimestamp::Record, NO_TIME) => None,
            (KafkaTimestamp::Record, time) => Some(self.time(&topics[topic], time)?),
        };
        let forwarded = if self.forward_headers {
            Some(batch.headers_of(row))
        } else {
            None
        };
        let forwarded = forwarded.into_iter().flatten();
        let headers = headers(forwarded.clone(), &self.added_headers)?;
        let key = match &mut self.key {
            Key::Record => batch.keys.get(row),
            Key::None => None,
            Key::Selected(decoder) => {
                let text = value.ok_or_else(no_value)?;
                decoder
                    .decode(text, None)
                    .map_err(|error| format!("its key cannot be made of its value: {error}"))?
                    .key
            }
        };
        let size = size(key, value, forwarded, &self.added_headers);
        fits(&topics[topic], key, size)?;
        Ok(Shaped {
            topic,
            partition,
            key,
            timestamp,
            headers,
        })
    }

    /// What dead letter `row` of `batch` becomes: the record as it was, whatever the sink does with others.
    ///
    /// # Errors
    /// As [`Shaper::record`]; only too large a record has one, and one with a header that Kafka does not take.
    pub(super) fn letter<'a>(
        &'a mut self,
        topics: &[OutputTopic],
        batch: &'a Batch,
        row: usize,
    ) -> Result<Shaped<'a>, String> {
        let (key, value) = (batch.keys.get(row), batch.values.get(row));
        let size = size(key, value, batch.headers_of(row), &self.added_headers);
        fits(&topics[0], key, size)?;
        Ok(Shaped {
            topic: 0,
            partition: None,
            key,
            // One that Kafka does not take is in a header.
            timestamp: self.time(&topics[0], batch.times[row]).ok(),
            headers: headers(batch.headers_of(row), &self.added_headers)?,
        })
    }

    /// Checks a value by the format, and looks up the fields that are needed. The text that they are in, if some are.
    fn checked<'b>(&mut self, value: Option<&'b [u8]>) -> Result<&'b str, String> {
        let needs_fields = !self.pointers.is_empty();
        let Some(value) = value else {
            return if needs_fields {
                Err(no_value())
            } else {
                Ok("")
            };
        };
        if self.format == KafkaFormat::Raw && !needs_fields {
            return Ok("");
        }
        let text = std::str::from_utf8(value).map_err(|error| {
            let at = error.valid_up_to() + 1;
            format!("its value is not valid UTF-8 at byte {at}; correct it in the operator before, or write any bytes with `format: raw`")
        })?;
        if self.format == KafkaFormat::Json || needs_fields {
            json::walk(text, &self.pointers, &mut self.found).map_err(|fault| {
                format!("its value is {fault}; correct it in the operator before")
            })?;
        }
        Ok(text)
    }

    /// The topic that a record names.
    fn topic(&mut self, topics: &[OutputTopic], text: &str) -> Result<usize, String> {
        self.field(text, 0, "topic")?;
        let named = topics
            .iter()
            .position(|topic| topic.name.as_bytes() == self.text);
        named.ok_or_else(|| {
            format!(
                "its topic `{}` (field `{}`) is not one of `allowed`",
                shown(&self.text),
                self.pointers[0].as_str()
            )
        })
    }

    /// The partition that a record's field says.
    fn partition(&mut self, partitions: u32, text: &str) -> Result<i32, String> {
        let at = self.pointers.len() - 1;
        self.field(text, at, "partition")?;
        if self.partition == Partition::Field {
            return Ok(partition::of_key(&self.text, partitions));
        }
        let number = std::str::from_utf8(&self.text)
            .ok()
            .and_then(|text| text.parse::<u32>().ok());
        match number {
            // Kafka numbers partitions by signed numbers of 32 bits.
            Some(number) if number < partitions => Ok(number as i32),
            _ => Err(format!(
                "its partition `{}` (field `{}`) is not one of 0 to {}",
                shown(&self.text),
                self.pointers[at].as_str(),
                partitions - 1
            )),
        }
    }

    /// The text of the field that pointer `at` names, into `self.text`.
    fn field(&mut self, text: &str, at: usize, what: &str) -> Result<(), String> {
        let pointer = self.pointers[at].as_str();
        self.text.clear();
        match json::scalar(text, &self.found[at]) {
            None => Err(format!("its {what} (field `{pointer}`) is missing or null")),
            Some(json::Scalar::Compound) => Err(format!(
                "its {what} (field `{pointer}`) is an array or object; it must be a string or number"
            )),
            Some(json::Scalar::Other(number)) => {
                self.text.extend_from_slice(number.as_bytes());
                Ok(())
            }
            Some(json::Scalar::String(inner)) => json::unescape(inner.as_bytes(), &mut self.text)
                .map_err(|json::LoneSurrogate| {
                    format!(
                        "its {what} (field `{pointer}`) has a `\\u` escape for half a character"
                    )
                }),
        }
    }

    /// The sticky partition.
    fn stuck(&mut self, partitions: u32, value: Option<&[u8]>) -> i32 {
        if self.sticky_bytes >= STICKY_BYTES {
            self.rotate();
        }
        self.sticky_bytes += value.map_or(0, <[u8]>::len) + 16;
        // Kafka numbers partitions by signed numbers of 32 bits.
        (self.sticky % partitions) as i32
    }

    /// A timestamp that Kafka takes.
    fn time(&self, topic: &OutputTopic, time: i64) -> Result<i64, String> {
        if time <= 0 {
            return Err(format!(
                "its timestamp {time} cannot be written to Kafka, which has none before 1970 and takes 0 for none; use `timestamp: written`"
            ));
        }
        let ahead = topic.ahead.map_or(i64::MAX, |ahead| {
            i64::try_from(ahead.as_millis()).unwrap_or(i64::MAX)
        });
        if time.saturating_sub(self.now) > ahead {
            return Err(format!(
                "its timestamp {time} is further ahead of the clock than topic `{}` takes ({} s); raise the topic's `message.timestamp.after.max.ms`, or use `timestamp: written`",
                topic.name,
                ahead / 1000
            ));
        }
        Ok(time)
    }
}

fn no_value() -> String {
    "it has no value (a deletion), and so no fields that say its key, topic or partition".to_owned()
}

/// Bytes as messages show them.
fn shown(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let dots = if cut.len() < bytes.len() { "…" } else { "" };
    format!("{}{dots}", cut.escape_ascii())
}

/// The headers of a record with those that every record gets.
fn headers<'a>(
    own: impl Iterator<Item = Header<'a>>,
    added: &[(String, String)],
) -> Result<Option<OwnedHeaders>, String> {
    let mut all: Option<OwnedHeaders> = None;
    let mut add = |key: &str, value: Option<&[u8]>| {
        let headers = all.take().unwrap_or_default();
        all = Some(headers.insert(KafkaHeader { key, value }));
    };
    for (name, value) in own {
        let name = std::str::from_utf8(name).map_err(|_| {
            format!(
                "the name of its header `{}` is not UTF-8, as Kafka demands",
                shown(name)
            )
        })?;
        add(name, value);
    }
    for (name, value) in added {
        add(name, Some(value.as_bytes()));
    }
    Ok(all)
}

/// Bytes of a batch of this record alone, not compressed.
fn size<'a>(
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    own: impl Iterator<Item = Header<'a>>,
    added: &[(String, String)],
) -> u64 {
    let mut count = 0;
    // Attributes and two deltas of a byte each.
    let mut bytes = 3 + field(key) + field(value);
    for (name, value) in own {
        count += 1;
        bytes += field(Some(name)) + field(value);
    }
    for (name, value) in added {
        count += 1;
        bytes += field(Some(name.as_bytes())) + field(Some(value.as_bytes()));
    }
    bytes += varint(count);
    BATCH_HEADER_BYTES + varint(bytes) + bytes
}

/// Bytes of a field with its length before it.
fn field(bytes: Option<&[u8]>) -> u64 {
    let length = bytes.map_or(0, <[u8]>::len) as u64;
    // Null is the length -1, which takes a byte as 0 does.
    varint(length) + length
}

/// Bytes of a length as Kafka writes it: zigzag, seven bits a byte.
fn varint(length: u64) -> u64 {
    let zigzag = length << 1;
    u64::from(64 - (zigzag | 1).leading_zeros()).div_ceil(7)
}

/// Whether a topic takes a record of so many bytes.
fn fits(topic: &OutputTopic, key: Option<&[u8]>, size: u64) -> Result<(), String> {
    if size <= topic.max_bytes {
        return Ok(());
    }
    let key = key.map_or("none".to_owned(), |key| format!("`{}`", shown(key)));
    Err(format!(
        "with {size} bytes (key: {key}) it is larger than topic `{}` takes, {} bytes (its `max.message.bytes`)",
        topic.name, topic.max_bytes
    ))
}

#[cfg(test)]
mod tests;
