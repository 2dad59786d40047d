//! From a line of input to a record: format, key selector and event time of a source, compiled into one [`Decoder`].
//!
//! File and standard input sources cut their bytes into lines (or CSV rows) and hand each to the decoder, which says
//! what record it is, or that it is none. It reads and writes nothing; what a decode error leads to (the job fails, the
//! line is skipped, it becomes a dead letter) is the source's business.
//!
//! | | raw | JSON | CSV |
//! |---|---|---|---|
//! | value | the line's bytes | the line's bytes | an object of strings by the header's names |
//! | empty line | an empty record | none (blanks only also) | none |
//! | invalid UTF-8 | passed on | decode error | decode error |
//! | missing or null key | – | null key | null key |
//! | missing or null time | – | decode error | decode error |
//!
//! A key made of several pointers is a JSON array in one spelling: strings are written the same way whichever escapes
//! the input had. Numbers keep the input's spelling, so 1 and 1.0 are different keys.

use std::ops::Range;

use crate::batch::{MAX_RECORD_BYTES, NO_TIME};
use crate::job::model::{Format, KeySelector, Source, TimeFormat};

mod csv;
pub mod dead_letter;
pub(crate) mod json;
mod time;

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use csv::tests::write_row;

/// Why input does not become a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The source's settings contradict each other: no input would do.
    #[error("{0}")]
    Settings(String),
    /// The header of a CSV file does not fit: no row of the file would do.
    #[error("{0}")]
    Header(String),
    /// This line is no record; others may be.
    #[error("{0}")]
    Record(String),
}

impl Error {
    /// The permanent code of this kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Settings(_) | Error::Header(_) => "W0604",
            Error::Record(_) => "W0602",
        }
    }
}

/// A decoded line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// The key, if the record has one.
    pub key: Option<&'a [u8]>,
    /// The value.
    pub value: &'a [u8],
    /// Milliseconds since the epoch, [`NO_TIME`] if the source has no event time.
    pub time: i64,
}

/// The header of a CSV file: what its rows are decoded by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    names: Vec<String>,
    /// A column's name as it stands in a value: `,"name":`, with a brace for the comma in the first.
    members: Vec<Vec<u8>>,
    key: Vec<usize>,
    time: Option<usize>,
}

impl Columns {
    /// The names in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

/// Turns lines into records.
#[derive(Debug)]
pub struct Decoder {
    format: Format,
    /// The key's pointers, then the time's.
    pointers: Vec<json::Pointer>,
    key: Key,
    time: Option<TimeFormat>,
    found: Vec<Option<Range<usize>>>,
    fields: Vec<csv::Field>,
    text: String,
    key_bytes: Vec<u8>,
    value_bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    None,
    One,
    /// An array of so many.
    Many(usize),
}

impl Decoder {
    /// The decoder of `source`.
    ///
    /// # Errors
    /// [`Error::Settings`] where format, key and event time do not go together.
    pub fn new(source: &Source) -> Result<Decoder, Error> {
        let (key, mut texts) = match &source.key {
            None => (Key::None, Vec::new()),
            Some(KeySelector::Pointer(pointer)) => (Key::One, vec![pointer.as_str()]),
            Some(KeySelector::Pointers(pointers)) => (
                Key::Many(pointers.len()),
                pointers.iter().map(String::as_str).collect(),
            ),
        };
        if let Some(event_time) = &source.event_time {
            texts.push(&event_time.field);
        }
        let settings = |what: String| Error::Settings(format!("source `{}`: {what}", source.id));
        match &source.format {
            Format::Raw | Format::Text if !texts.is_empty() => {
                return Err(settings(
                    "raw lines have no fields, so `key` and `event_time` need `format: json` or `format: csv`"
                        .to_owned(),
                ));
            }
            Format::Csv {
                delimiter, quote, ..
            } => {
                let quote = quote.map(|byte| ("quote", byte));
                for (name, byte) in [("delimiter", *delimiter)].into_iter().chain(quote) {
                    if !byte.is_ascii() || byte == b'\n' || byte == b'\r' {
                        return Err(settings(format!(
                            "the {name} must be one ASCII character and no line end"
                        )));
                    }
                }
                if quote.is_some_and(|(_, quote)| quote == *delimiter) {
                    return Err(settings("delimiter and quote must differ".to_owned()));
                }
            }
            Format::Raw | Format::Text | Format::Json => {}
        }
        if texts.len() > json::MAX_POINTERS {
            return Err(settings(format!(
                "{} fields for key and time, but at most {} are supported",
                texts.len(),
                json::MAX_POINTERS
            )));
        }
        let pointers: Vec<json::Pointer> = texts
            .into_iter()
            .map(json::Pointer::parse)
            .collect::<Result<_, _>>()
            .map_err(settings)?;
        if let Format::Csv { .. } = source.format
            && let Some(pointer) = pointers
                .iter()
                .find(|pointer| pointer.only_name().is_none())
        {
            return Err(settings(format!(
                "`{}` names no CSV column: write `/` and the column's name",
                pointer.as_str()
            )));
        }
        Ok(Decoder {
            format: source.format.clone(),
            pointers,
            key,
            time: source
                .event_time
                .as_ref()
                .map(|event_time| event_time.format),
            found: Vec::new(),
            fields: Vec::new(),
            text: String::new(),
            key_bytes: Vec::new(),
            value_bytes: Vec::new(),
        })
    }

    /// What makes keys from JSON texts as a source with this selector does.
    ///
    /// # Errors
    /// [`Error::Settings`] if a pointer is none, or there are too many.
    pub fn of_key(selector: &KeySelector) -> Result<Decoder, Error> {
        let (key, texts) = match selector {
            KeySelector::Pointer(pointer) => (Key::One, std::slice::from_ref(pointer)),
            KeySelector::Pointers(pointers) => (Key::Many(pointers.len()), &pointers[..]),
        };
        if texts.len() > json::MAX_POINTERS {
            let count = texts.len();
            return Err(Error::Settings(format!(
                "{count} fields for the key, but at most {} are supported",
                json::MAX_POINTERS
            )));
        }
        let pointers = texts.iter().map(|text| json::Pointer::parse(text));
        Ok(Decoder {
            format: Format::Json,
            pointers: pointers
                .collect::<Result<_, _>>()
                .map_err(Error::Settings)?,
            key,
            time: None,
            found: Vec::new(),
            fields: Vec::new(),
            text: String::new(),
            key_bytes: Vec::new(),
            value_bytes: Vec::new(),
        })
    }

    /// The format it decodes.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// Whether a line is no record by the format's rules, like a blank line between JSON texts.
    pub fn is_blank(&self, line: &[u8]) -> bool {
        match self.format {
            Format::Raw | Format::Text => false,
            Format::Json => line.iter().all(|b| matches!(b, b' ' | b'\t' | b'\r')),
            Format::Csv { .. } => line.is_empty(),
        }
    }

    /// The columns that the header row `row` declares.
    ///
    /// # Errors
    /// [`Error::Header`] if it is damaged, a name is empty or repeated, or a column for key or time is missing (which
    /// would leave each row without).
    pub fn header(&self, row: &[u8]) -> Result<Columns, Error> {
        let Format::Csv {
            delimiter, quote, ..
        } = self.format
        else {
            unreachable!("only CSV files have a header");
        };
        let row = utf8(row).map_err(|what| Error::Header(format!("the header is {what}")))?;
        let mut fields = Vec::new();
        csv::split(row, delimiter, quote, &mut fields)
            .map_err(|what| Error::Header(format!("the header is damaged: {what}")))?;
        let mut text = String::new();
        self.columns(
            fields
                .into_iter()
                .map(|field| field.text(row, quote, &mut text).to_owned())
                .collect(),
        )
    }

    /// The columns of a file whose first row is `row` and a record, called by their positions.
    ///
    /// # Errors
    /// As [`Decoder::header`].
    pub fn numbered(&self, row: &[u8]) -> Result<Columns, Error> {
        let Format::Csv {
            delimiter, quote, ..
        } = self.format
        else {
            unreachable!("only CSV files have columns");
        };
        let row = utf8(row).map_err(|what| Error::Header(format!("the first row is {what}")))?;
        let mut fields = Vec::new();
        csv::split(row, delimiter, quote, &mut fields)
            .map_err(|what| Error::Header(format!("the first row is damaged: {what}")))?;
        self.columns(
            (1..=fields.len())
                .map(|number| number.to_string())
                .collect(),
        )
    }

    /// The columns called `names`.
    ///
    /// # Errors
    /// As [`Decoder::header`].
    pub fn columns(&self, names: Vec<String>) -> Result<Columns, Error> {
        for (i, name) in names.iter().enumerate() {
            if name.is_empty() {
                return Err(Error::Header(format!(
                    "column {} has no name in the header",
                    i + 1
                )));
            }
        }
        let mut sorted: Vec<&String> = names.iter().collect();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::Header(format!(
                "two columns are called `{}`",
                time::shortened(pair[0])
            )));
        }
        let members = names
            .iter()
            .enumerate()
            .map(|(i, name)| {
                let mut member = if i == 0 { b"{".to_vec() } else { b",".to_vec() };
                push_json_string(name, &mut member);
                member.push(b':');
                member
            })
            .collect();
        let mut indices = Vec::with_capacity(self.pointers.len());
        for pointer in &self.pointers {
            let wanted = pointer
                .only_name()
                .expect("checked when the decoder was made");
            let Some(index) = names.iter().position(|name| name == wanted) else {
                let known: Vec<&str> = names
                    .iter()
                    .take(20)
                    .map(|name| time::shortened(name))
                    .collect();
                return Err(Error::Header(format!(
                    "no column `{wanted}`; the header has {}{}",
                    known.join(", "),
                    if names.len() > known.len() {
                        ", …"
                    } else {
                        ""
                    }
                )));
            };
            indices.push(index);
        }
        let time = self.time.and_then(|_| indices.pop());
        Ok(Columns {
            names,
            members,
            key: indices,
            time,
        })
    }

    /// Decodes `line`, which comes without its line end; `columns` is the header of its file where the format is CSV.
    ///
    /// # Errors
    /// [`Error::Record`]. It names fields and bytes (from 1) of the line, not the file, which the caller knows.
    pub fn decode<'a>(
        &'a mut self,
        line: &'a [u8],
        columns: Option<&Columns>,
    ) -> Result<Decoded<'a>, Error> {
        let (has_key, time, in_place) = match self.format {
            Format::Raw => (false, NO_TIME, true),
            Format::Text => {
                utf8(line).map_err(|what| Error::Record(format!("the value is {what}")))?;
                (false, NO_TIME, true)
            }
            Format::Json => {
                let (has_key, time) = self.json(line).map_err(Error::Record)?;
                (has_key, time, true)
            }
            Format::Csv { .. } => {
                let columns = columns.expect("the header is read first");
                let (has_key, time) = self.csv(line, columns).map_err(Error::Record)?;
                (has_key, time, false)
            }
        };
        let key = has_key.then_some(&self.key_bytes[..]);
        let value = if in_place {
            line
        } else {
            &self.value_bytes[..]
        };
        if value.len() + key.map_or(0, <[u8]>::len) > MAX_RECORD_BYTES {
            return Err(Error::Record(format!(
                "key and value are longer than {} MiB together",
                MAX_RECORD_BYTES >> 20
            )));
        }
        Ok(Decoded { key, value, time })
    }

    /// Checks a JSON line, and leaves the key in `key_bytes`: whether there is one, and the time.
    fn json(&mut self, line: &[u8]) -> Result<(bool, i64), String> {
        let text = utf8(line)?;
        json::walk(text, &self.pointers, &mut self.found).map_err(|fault| fault.to_string())?;
        self.key_bytes.clear();
        let has_key = match self.key {
            Key::None => false,
            Key::One => match json::scalar(text, &self.found[0]) {
                None => false,
                Some(json::Scalar::String(inner)) => {
                    json::unescape(inner.as_bytes(), &mut self.key_bytes)
                        .map_err(|json::LoneSurrogate| half_character("key", &self.pointers[0]))?;
                    true
                }
                Some(json::Scalar::Other(text)) => {
                    self.key_bytes.extend_from_slice(text.as_bytes());
                    true
                }
                Some(json::Scalar::Compound) => return Err(compound("key", &self.pointers[0])),
            },
            Key::Many(count) => {
                self.key_bytes.push(b'[');
                for i in 0..count {
                    if i > 0 {
                        self.key_bytes.push(b',');
                    }
                    match json::scalar(text, &self.found[i]) {
                        None => self.key_bytes.extend_from_slice(b"null"),
                        Some(json::Scalar::String(inner)) if !inner.contains('\\') => {
                            self.key_bytes.push(b'"');
                            self.key_bytes.extend_from_slice(inner.as_bytes());
                            self.key_bytes.push(b'"');
                        }
                        Some(json::Scalar::String(inner)) => {
                            self.value_bytes.clear();
                            json::unescape(inner.as_bytes(), &mut self.value_bytes).map_err(
                                |json::LoneSurrogate| half_character("key", &self.pointers[i]),
                            )?;
                            let inner = std::str::from_utf8(&self.value_bytes)
                                .expect("escapes stand for whole characters");
                            push_json_string(inner, &mut self.key_bytes);
                        }
                        Some(json::Scalar::Other(text)) => {
                            self.key_bytes.extend_from_slice(text.as_bytes())
                        }
                        Some(json::Scalar::Compound) => {
                            return Err(compound("key", &self.pointers[i]));
                        }
                    }
                }
                self.key_bytes.push(b']');
                true
            }
        };
        let time = match self.time {
            None => NO_TIME,
            Some(format) => {
                let i = self.pointers.len() - 1;
                let pointer = &self.pointers[i];
                let parsed = match json::scalar(text, &self.found[i]) {
                    None => return Err(no_time(pointer)),
                    Some(json::Scalar::String(inner)) if inner.contains('\\') => {
                        self.value_bytes.clear();
                        json::unescape(inner.as_bytes(), &mut self.value_bytes)
                            .map_err(|json::LoneSurrogate| half_character("time", pointer))?;
                        let inner = std::str::from_utf8(&self.value_bytes)
                            .expect("escapes stand for whole characters");
                        time::parse(format, inner)
                    }
                    Some(json::Scalar::String(inner)) => time::parse(format, inner),
                    Some(json::Scalar::Other(text)) => time::parse(format, text),
                    Some(json::Scalar::Compound) => return Err(compound("time", pointer)),
                };
                parsed.map_err(|what| format!("time `{}`: {what}", pointer.as_str()))?
            }
        };
        Ok((has_key, time))
    }

    /// Turns a CSV row into a value in `value_bytes` and a key in `key_bytes`: whether there is one, and the time.
    fn csv(&mut self, line: &[u8], columns: &Columns) -> Result<(bool, i64), String> {
        let Format::Csv {
            delimiter,
            quote,
            null,
            ..
        } = &self.format
        else {
            unreachable!("called for CSV only");
        };
        let row = utf8(line)?;
        csv::split(row, *delimiter, *quote, &mut self.fields)?;
        if self.fields.len() != columns.names.len() {
            return Err(format!(
                "{} where the header has {}",
                fields_in_words(self.fields.len()),
                columns.names.len()
            ));
        }
        let row = csv::Row {
            row,
            fields: &self.fields,
            quote: *quote,
            null: null.as_deref(),
        };

        self.value_bytes.clear();
        for (i, member) in columns.members.iter().enumerate() {
            self.value_bytes.extend_from_slice(member);
            match row.field(i, &mut self.text) {
                Some(text) => push_json_string(text, &mut self.value_bytes),
                None => self.value_bytes.extend_from_slice(b"null"),
            }
        }
        self.value_bytes.push(b'}');

        self.key_bytes.clear();
        let has_key = match self.key {
            Key::None => false,
            Key::One => match row.field(columns.key[0], &mut self.text) {
                Some(text) => {
                    self.key_bytes.extend_from_slice(text.as_bytes());
                    true
                }
                None => false,
            },
            Key::Many(_) => {
                self.key_bytes.push(b'[');
                for (i, &column) in columns.key.iter().enumerate() {
                    if i > 0 {
                        self.key_bytes.push(b',');
                    }
                    match row.field(column, &mut self.text) {
                        Some(text) => push_json_string(text, &mut self.key_bytes),
                        None => self.key_bytes.extend_from_slice(b"null"),
                    }
                }
                self.key_bytes.push(b']');
                true
            }
        };
        let time = match (self.time, columns.time) {
            (Some(format), Some(column)) => {
                let pointer = &self.pointers[self.pointers.len() - 1];
                let text = row
                    .field(column, &mut self.text)
                    .ok_or_else(|| no_time(pointer))?;
                time::parse(format, text)
                    .map_err(|what| format!("time `{}`: {what}", pointer.as_str()))?
            }
            _ => NO_TIME,
        };
        Ok((has_key, time))
    }
}

fn push_json_string(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("a string is written to memory");
}

fn utf8(line: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(line)
        .map_err(|error| format!("not valid UTF-8 at byte {}", error.valid_up_to() + 1))
}

fn compound(what: &str, pointer: &json::Pointer) -> String {
    format!(
        "{what} `{}` is an array or object; it must be a string, number or boolean",
        pointer.as_str()
    )
}

fn half_character(what: &str, pointer: &json::Pointer) -> String {
    format!(
        "{what} `{}` has a `\\u` escape for half a character",
        pointer.as_str()
    )
}

fn no_time(pointer: &json::Pointer) -> String {
    format!("time `{}` is missing or null", pointer.as_str())
}

fn fields_in_words(count: usize) -> String {
    if count == 1 {
        "1 field".to_owned()
    } else {
        format!("{count} fields")
    }
}
