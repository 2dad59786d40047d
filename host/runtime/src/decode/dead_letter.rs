//! Dead letters: input that could not be decoded, records that an operator failed on or a sink could not write, with what is needed
//! to find, mend and replay them.
//!
//! What a letter looks like depends on where it goes ([`Form`]). Files and lines get a JSON object that holds everything. A Kafka
//! topic gets the record as it was, key, value, headers and all, so that it can be replayed as it is; what went wrong is
//! said in headers after its own, whose names begin with `weir.`.

use std::borrow::Cow;

use serde::Serialize;

use crate::batch::{Batch, NO_TIME, Origin, hash_of};
use crate::headers::Header;
use crate::job::model::{ErrorPolicy, Job, SinkConnector};

/// Bytes of the offending input that a dead letter of a source carries; what is longer is cut.
pub(crate) const MAX_VALUE_BYTES: usize = 1024 * 1024;

/// Bytes of a message that a header carries: with the rest, headers must not be what makes a record too large.
const MAX_MESSAGE_BYTES: usize = 4096;

/// How letters are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// A value that is a JSON object.
    Object,
    /// The record as it was, with more headers.
    Headers {
        /// The job's name.
        job: String,
    },
}

impl Form {
    /// How letters are written under `policy`: as the sink that it names takes them.
    pub fn of(job: &Job, policy: &ErrorPolicy) -> Form {
        let ErrorPolicy::DeadLetter(target) = policy else {
            return Form::Object;
        };
        let target = job.sinks.iter().find(|sink| sink.id == *target);
        match target.map(|sink| &sink.connector) {
            Some(SinkConnector::Kafka(_)) => Form::Headers {
                job: job.name.to_string(),
            },
            _ => Form::Object,
        }
    }
}

/// Where a piece of input stands.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub enum Spot<'a> {
    /// In a file, or in `stdin`.
    Line {
        /// Path of the file.
        file: &'a str,
        /// Line it begins on, from 1.
        line: u64,
        /// Byte of the decompressed input that it begins at, from 0.
        offset: u64,
    },
    /// In a Kafka topic.
    Offset {
        /// The topic.
        topic: &'a str,
        /// The partition.
        partition: i32,
        /// The offset.
        offset: i64,
    },
}

/// Who could not go on with a record.
#[derive(Clone, Copy, Debug)]
pub enum Writer<'a> {
    /// A source, for input that it could not decode.
    Source {
        /// Its id.
        source: &'a str,
        /// Where the input stands.
        spot: Spot<'a>,
        /// Whether the value is only the beginning of what stands there.
        cut: bool,
    },
    /// An operator, for a record or a timer.
    Operator {
        /// Its id.
        operator: &'a str,
        /// SHA-256 of its component.
        component: &'a str,
        /// Where the record came from, or which timer it was.
        record: Option<&'a str>,
    },
    /// A sink.
    Sink {
        /// Its id.
        sink: &'a str,
        /// Where the record came from.
        record: Option<&'a str>,
    },
}

/// A dead letter.
#[derive(Clone, Debug)]
pub struct Letter<'a> {
    /// Who wrote it.
    pub writer: Writer<'a>,
    /// What went wrong.
    pub error: &'a str,
    /// The record's key.
    pub key: Option<&'a [u8]>,
    /// The record's value.
    pub value: Option<&'a [u8]>,
    /// The record's headers.
    pub headers: Vec<Header<'a>>,
    /// The record's timestamp.
    pub time: Option<i64>,
}

#[derive(Serialize)]
struct Input<'a> {
    source: &'a str,
    #[serde(flatten)]
    spot: Spot<'a>,
    error: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
    /// Present where the value was cut.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

impl Letter<'_> {
    /// Appends it to `letters` in the form `form`. `origin` is where the record came from.
    pub fn push(&self, form: &Form, origin: Origin, letters: &mut Batch) {
        match form {
            Form::Object => {
                let object = self.to_json();
                letters.push(None, 0, Some(&object), NO_TIME, origin);
            }
            Form::Headers { job } => {
                let context = self.context(job);
                let context = context
                    .iter()
                    .map(|(name, text)| (name.as_bytes(), Some(text.as_bytes())));
                letters.push_with_headers(
                    self.key,
                    hash_of(self.key),
                    self.value,
                    self.headers.iter().copied().chain(context),
                    self.time.unwrap_or(NO_TIME),
                    origin,
                );
            }
        }
    }

    /// The headers that say what went wrong, and where.
    fn context(&self, job: &str) -> Vec<(&'static str, Cow<'_, str>)> {
        let (code, kind, id) = match self.writer {
            Writer::Source { source, .. } => ("W0602", "weir.source", source),
            Writer::Operator { operator, .. } => ("W0401", "weir.operator", operator),
            Writer::Sink { sink, .. } => ("W0702", "weir.sink", sink),
        };
        let mut all = vec![
            ("weir.error.code", code.into()),
            (
                "weir.error.message",
                shortened(self.error, MAX_MESSAGE_BYTES).into(),
            ),
            ("weir.job", job.to_owned().into()),
            (kind, Cow::Borrowed(id)),
        ];
        let position: Option<Cow<'_, str>> = match self.writer {
            Writer::Source { spot, .. } => Some(spot.to_string().into()),
            Writer::Operator { record, .. } | Writer::Sink { record, .. } => {
                record.map(Cow::Borrowed)
            }
        };
        all.extend(position.map(|position| ("weir.position", position)));
        if let Writer::Operator { component, .. } = self.writer {
            all.push(("weir.component", component.into()));
        }
        if let Some(time) = self.time {
            all.push(("weir.timestamp", time.to_string().into()));
        }
        if let Writer::Source { cut: true, .. } = self.writer {
            all.push(("weir.cut", "true".into()));
        }
        all
    }

    /// One JSON object without a line end. Bytes that are no text stand as `key_base64` and `value_base64`; null ones are left out.
    pub fn to_json(&self) -> Vec<u8> {
        let (name, id, component, record) = match self.writer {
            Writer::Source { source, spot, cut } => return self.input(source, spot, cut),
            Writer::Operator {
                operator,
                component,
                record,
            } => ("operator", operator, Some(component), record),
            Writer::Sink { sink, record } => ("sink", sink, None, record),
        };
        let mut letter = serde_json::Map::new();
        let mut put = |name: &str, value: serde_json::Value| letter.insert(name.to_owned(), value);
        put(name, id.into());
        if let Some(component) = component {
            put("component", component.into());
        }
        if let Some(record) = record {
            put("record", record.into());
        }
        put("error", self.error.into());
        for (name, bytes) in [("key", self.key), ("value", self.value)] {
            let Some(bytes) = bytes else { continue };
            match std::str::from_utf8(bytes) {
                Ok(text) => put(name, text.into()),
                Err(_) => put(&format!("{name}_base64"), base64(bytes).into()),
            };
        }
        if let Some(time) = self.time {
            put("time", time.into());
        }
        serde_json::Value::Object(letter).to_string().into_bytes()
    }

    /// Of input that was not decoded.
    fn input(&self, source: &str, spot: Spot<'_>, already_cut: bool) -> Vec<u8> {
        let value = self.value.unwrap_or_default();
        let mut kept = &value[..value.len().min(MAX_VALUE_BYTES)];
        let cut = already_cut || kept.len() < value.len();
        let mut text = std::str::from_utf8(kept);
        if let Err(error) = text
            && cut
            && error.error_len().is_none()
        {
            // Only the cut made it invalid: it went through a character.
            kept = &kept[..error.valid_up_to()];
            text = std::str::from_utf8(kept);
        }
        let key = self.key.map(std::str::from_utf8);
        let letter = Input {
            source,
            spot,
            error: self.error,
            key: key.and_then(Result::ok),
            key_base64: match key {
                Some(Err(_)) => self.key.map(base64),
                _ => None,
            },
            value: self.value.and_then(|_| text.ok()),
            value_base64: text.is_err().then(|| base64(kept)),
            cut,
        };
        serde_json::to_vec(&letter).expect("strings and numbers are written to memory")
    }
}

impl std::fmt::Display for Spot<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Spot::Line { file, line, .. } => write!(f, "{file} line {line}"),
            Spot::Offset {
                topic,
                partition,
                offset,
            } => write!(f, "topic {topic} partition {partition} offset {offset}"),
        }
    }
}

/// As much of `text` as fits, cut between characters.
fn shortened(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// RFC 4648 base64 with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut block = [0; 4];
        block[1..=chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes(block);
        for i in 0..4 {
            if i <= chunk.len() {
                out.push(ALPHABET[(bits >> (18 - 6 * i) & 63) as usize] as char);
            } else {
                out.push('=');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPOT: Spot<'_> = Spot::Line {
        file: "/data/a.csv",
        line: 7,
        offset: 123,
    };

    fn of_source<'a>(spot: Spot<'a>, value: Option<&'a [u8]>, cut: bool) -> Letter<'a> {
        Letter {
            writer: Writer::Source {
                source: "flights",
                spot,
                cut,
            },
            error: "it \"broke\"",
            key: None,
            value,
            headers: Vec::new(),
            time: None,
        }
    }

    fn letter(value: &[u8], cut: bool) -> serde_json::Value {
        let out = of_source(SPOT, Some(value), cut).to_json();
        assert!(!out.contains(&b'\n'));
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn letters_of_kafka_name_topic_partition_and_offset() {
        let spot = Spot::Offset {
            topic: "orders",
            partition: 3,
            offset: 17,
        };
        let letter = Letter {
            key: Some(b"\xfe"),
            ..of_source(spot, None, false)
        };
        let object: serde_json::Value = serde_json::from_slice(&letter.to_json()).unwrap();
        assert_eq!(
            object,
            serde_json::json!({
                "source": "flights", "topic": "orders", "partition": 3, "offset": 17,
                "error": "it \"broke\"", "key_base64": "/g==",
            })
        );
    }

    #[test]
    fn for_a_topic_the_record_stays_as_it_was_and_headers_say_the_rest() {
        let form = Form::Headers {
            job: "night".to_owned(),
        };
        let own: [Header<'_>; 2] = [(b"h", None), (b"weir.job", Some(b"earlier"))];
        let long = "ä".repeat(MAX_MESSAGE_BYTES);
        let letters = [
            Letter {
                writer: Writer::Operator {
                    operator: "daily",
                    component: "41ab",
                    record: Some("a.csv line 9"),
                },
                error: &long,
                key: Some(b""),
                value: Some(b"\xff"),
                headers: own.to_vec(),
                time: Some(-5),
            },
            of_source(SPOT, Some(b"{"), true),
            Letter {
                writer: Writer::Sink {
                    sink: "out",
                    record: None,
                },
                ..of_source(SPOT, None, false)
            },
        ];
        let mut batch = Batch::default();
        for letter in &letters {
            letter.push(&form, Origin::new(1, 9), &mut batch);
        }
        let headers = |row: usize| -> Vec<(String, Option<String>)> {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let headers = batch.headers_of(row);
            headers
                .map(|(name, it)| (text(name), it.map(text)))
                .collect()
        };
        let some = |name: &str, text: &str| (name.to_owned(), Some(text.to_owned()));
        assert_eq!(
            (batch.keys.get(0), batch.keys.get(1)),
            (Some(&b""[..]), None)
        );
        assert_eq!(batch.values.get(0), Some(&b"\xff"[..]));
        assert_eq!(batch.values.get(2), None);
        assert_eq!((batch.times[0], batch.times[1]), (-5, NO_TIME));
        assert_eq!(batch.hashes[0], hash_of(Some(b"")));
        assert_eq!(
            headers(0),
            [
                ("h".to_owned(), None),
                some("weir.job", "earlier"),
                some("weir.error.code", "W0401"),
                some("weir.error.message", &long[..MAX_MESSAGE_BYTES]),
                some("weir.job", "night"),
                some("weir.operator", "daily"),
                some("weir.position", "a.csv line 9"),
                some("weir.component", "41ab"),
                some("weir.timestamp", "-5"),
            ]
        );
        assert_eq!(
            headers(1),
            [
                some("weir.error.code", "W0602"),
                some("weir.error.message", "it \"broke\""),
                some("weir.job", "night"),
                some("weir.source", "flights"),
                some("weir.position", "/data/a.csv line 7"),
                some("weir.cut", "true"),
            ]
        );
        assert_eq!(headers(2)[3], some("weir.sink", "out"));
    }

    #[test]
    fn text_stays_text() {
        assert_eq!(
            letter("{\"a\"\nä".as_bytes(), false),
            serde_json::json!({
                "source": "flights", "file": "/data/a.csv", "line": 7, "offset": 123,
                "error": "it \"broke\"", "value": "{\"a\"\nä",
            })
        );
    }

    #[test]
    fn other_bytes_become_base64() {
        let letter = letter(b"\xff\x00a", false);
        assert_eq!(letter["value_base64"], "/wBh");
        assert!(letter.get("value").is_none() && letter.get("cut").is_none());
    }

    #[test]
    fn long_values_are_cut_between_characters() {
        let mut value = vec![b'a'; MAX_VALUE_BYTES - 1];
        value.extend_from_slice("ä and more".as_bytes());
        let letter = letter(&value, false);
        assert_eq!(letter["value"].as_str().unwrap().len(), MAX_VALUE_BYTES - 1);
        assert_eq!(letter["cut"], true);
    }

    #[test]
    fn a_value_cut_before_says_so() {
        let letter = letter("aä".as_bytes().split_last().unwrap().1, true);
        assert_eq!(
            (&letter["value"], &letter["cut"]),
            (&"a".into(), &true.into())
        );
    }

    #[test]
    fn base64_vectors_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
