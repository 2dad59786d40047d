//! From a message of Kafka's to a record: what becomes of key, value and time.
//!
//! Null values (tombstones) pass every format as they are. They have no fields, so a key that is selected from the value is null, and an
//! event time that is a field is missing.

use super::fetch::Message;
use crate::batch::{MAX_RECORD_BYTES, NO_TIME};
use crate::decode::Decoder;
use crate::decode::dead_letter::{Letter, Spot, Writer};
use crate::headers::Header;
use crate::job::model::{self, ErrorPolicy, Format};
use crate::source::Error;

/// Where a record's timestamp comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    /// Kafka, and it means nothing here.
    Carried,
    /// Kafka.
    Event,
    /// A field of the value.
    Field,
}

/// A source's way to decode.
#[derive(Debug)]
pub(super) struct Decoding {
    source: String,
    /// `None` where values are passed on as they are.
    decoder: Option<Decoder>,
    selects_key: bool,
    time: Time,
    policy: ErrorPolicy,
}

/// What a record is made of beside its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decoded<'a> {
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    pub(super) time: i64,
}

impl Decoding {
    pub(super) fn new(source: &model::Source) -> Result<Decoding, Error> {
        let mut fields = source.clone();
        let time = match &source.event_time {
            None => Time::Carried,
            Some(event_time) if event_time.field.is_empty() => {
                fields.event_time = None;
                Time::Event
            }
            Some(_) => Time::Field,
        };
        let decoder = match source.format {
            Format::Raw if fields.key.is_none() && fields.event_time.is_none() => None,
            _ => Some(Decoder::new(&fields).map_err(|error| Error::Invalid(error.to_string()))?),
        };
        Ok(Decoding {
            source: source.id.to_string(),
            decoder,
            selects_key: source.key.is_some(),
            time,
            policy: source.on_error.clone(),
        })
    }

    /// What record a message with this key, value and timestamp is.
    ///
    /// # Errors
    /// Why it is none.
    pub(super) fn decode<'a>(
        &'a mut self,
        key: Option<&'a [u8]>,
        value: Option<&'a [u8]>,
        timestamp: Option<i64>,
    ) -> Result<Decoded<'a>, String> {
        let mut decoded = Decoded {
            key: key.filter(|_| !self.selects_key),
            value,
            time: timestamp.unwrap_or(NO_TIME),
        };
        if let (Some(decoder), Some(value)) = (&mut self.decoder, value) {
            let fields = decoder.decode(value, None).map_err(|it| it.to_string())?;
            if self.selects_key {
                decoded.key = fields.key;
            }
            if self.time == Time::Field {
                decoded.time = fields.time;
            }
        } else if self.time == Time::Field {
            return Err("the value is null, so it has no time".to_owned());
        }
        if self.time == Time::Event && timestamp.is_none() {
            return Err("it has no timestamp in Kafka to be its event time".to_owned());
        }
        let len = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        if len(decoded.key) + len(value) > MAX_RECORD_BYTES {
            return Err(format!(
                "key and value are longer than {} MiB together",
                MAX_RECORD_BYTES >> 20
            ));
        }
        Ok(decoded)
    }

    /// What becomes of a message that is no record.
    ///
    /// # Errors
    /// It fails the job.
    pub(super) fn refuse<'a>(
        &'a self,
        (topic, partition): (&'a str, i32),
        message: &'a Message,
        what: &'a str,
    ) -> Result<Option<Letter<'a>>, Error> {
        match &self.policy {
            ErrorPolicy::Fail => Err(Error::Record {
                name: format!("{topic}-{partition}"),
                offset: message.offset(),
                what: format!(
                    "{what}; go on without such records with `on_error: skip` or `on_error: {{dead_letter: SINK}}` under source `{}`",
                    self.source
                ),
            }),
            ErrorPolicy::Skip => Ok(None),
            ErrorPolicy::DeadLetter(_) => Ok(Some(Letter {
                writer: Writer::Source {
                    source: &self.source,
                    spot: Spot::Offset {
                        topic,
                        partition,
                        offset: message.offset(),
                    },
                    cut: false,
                },
                error: what,
                key: message.key(),
                value: message.value(),
                headers: message.headers().collect::<Vec<Header<'a>>>(),
                time: message.timestamp(),
            })),
        }
    }
}
