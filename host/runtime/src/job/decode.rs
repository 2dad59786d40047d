//! From the marked tree to the raw types, by serde, with every mistake reported where it stands.
//!
//! Serde stops at the first error, and knows no places. Two things mend that. The decoder itself reports an error, with
//! place and path, where it arises, and what it hands to serde is only the fact ([`Fault::Reported`]); so whoever can do
//! without a value ([`super::forms::lenient`], [`super::forms::Entries`]) drops that fact and goes on. And fields that do
//! not exist are found before serde sees the mapping, all of them, from the list of fields that a derived type asks for.

mod fault;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};

pub(super) use fault::Fault;

use super::later;
use super::model::Place;
use super::report::Report;
use super::scalar::{Scalar, resolve};
use super::suggest::nearest;
use super::tree::{Entry, Node, Value, shorten};
use super::wording;

/// Name under which a newtype asks for the value in whichever form it has: a scalar is visited as such, a mapping as a
/// newtype, whose content is then decoded as a struct.
pub(super) const SHAPE: &str = "$weir::Shape";

/// The same, but a list is visited as one and everything else as a newtype.
pub(super) const LIST: &str = "$weir::List";

/// Name under which a newtype asks for what may be a secret, so that no message shows it: a scalar is visited as its text,
/// whatever it looks like, a mapping as a newtype.
pub(super) const SECRET: &str = "$weir::Secret";

#[derive(Clone, Copy)]
enum Segment<'a> {
    Key(&'a str),
    Index(usize),
}

/// The way to a value, a link a mapping or list.
#[derive(Clone, Copy)]
struct Path<'a> {
    link: Option<(&'a Path<'a>, Segment<'a>)>,
}

impl Path<'_> {
    fn segments(&self) -> Vec<String> {
        let mut segments = Vec::new();
        let mut path = self;
        while let Some((parent, segment)) = path.link {
            segments.push(match segment {
                Segment::Key(key) => shorten(key),
                Segment::Index(index) => index.to_string(),
            });
            path = parent;
        }
        segments.reverse();
        segments
    }

    fn words(&self, wording: fn(&[&str]) -> String) -> String {
        let segments = self.segments();
        wording(&segments.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// Decodes one node.
#[derive(Clone, Copy)]
pub(super) struct Decoder<'a> {
    node: &'a Node,
    path: Path<'a>,
    /// Where its key stands; its own place at the root and in lists.
    key_place: Place,
    report: &'a Report,
}

impl<'a> Decoder<'a> {
    /// For a whole job file.
    pub(super) fn new(root: &'a Node, report: &'a Report) -> Decoder<'a> {
        Decoder {
            node: root,
            path: Path { link: None },
            key_place: root.place,
            report,
        }
    }

    /// What the node is, for "must be …, not …".
    fn found(&self) -> String {
        match &self.node.value {
            Value::Scalar {
                substituted: true, ..
            } => "a value from the environment".to_owned(),
            Value::Scalar {
                text, plain: true, ..
            } => match resolve(text) {
                Scalar::Text => format!("the text `{}`", shorten(text)),
                Scalar::Bool(_) => format!("`{text}`"),
                Scalar::Null => "nothing".to_owned(),
                _ => format!("the number {}", shorten(text)),
            },
            Value::Scalar { text, .. } => format!("the text `{}`", shorten(text)),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "fields".to_owned(),
            Value::Broken => "something unreadable".to_owned(),
        }
    }

    fn scalar(&self) -> Option<Scalar> {
        match &self.node.value {
            Value::Scalar {
                text, plain: true, ..
            } => Some(resolve(text)),
            Value::Scalar { .. } => Some(Scalar::Text),
            _ => None,
        }
    }

    /// Reports that something else was expected.
    fn expected(&self, expected: &str) -> Fault {
        if matches!(self.node.value, Value::Broken) {
            return Fault::Reported;
        }
        let subject = self.path.words(wording::subject);
        let error = |title| self.report.error("W0105", self.node.place, title);
        let error = match self.scalar() {
            Some(Scalar::Null) => {
                let help = format!("write {expected}, or leave the field out");
                error(format!("{subject} has no value")).help(help)
            }
            scalar => {
                let error = error(format!(
                    "{subject} must be {expected}, not {}",
                    self.found()
                ));
                let number = "a whole number";
                match (scalar, &self.node.value) {
                    (
                        Some(Scalar::Text),
                        Value::Scalar {
                            text, plain: false, ..
                        },
                    ) if expected.starts_with(number)
                        && matches!(resolve(text), Scalar::Unsigned(_)) =>
                    {
                        error.help("without quotes it is a number")
                    }
                    (Some(scalar), _) if expected == "text" && scalar != Scalar::Text => {
                        error.help("in quotes it is text")
                    }
                    _ => error,
                }
            }
        };
        self.report.push(error);
        Fault::Reported
    }

    fn missing(&self, field: &str) {
        let title = format!(
            "missing field `{field}` in {}",
            self.path.words(wording::owner)
        );
        self.report
            .push(self.report.error("W0104", self.key_place, title));
    }

    /// Sees to it that an error of this node is reported.
    fn settle<T>(&self, result: Result<T, Fault>) -> Result<T, Fault> {
        result.map_err(|fault| match fault {
            Fault::Reported => Fault::Reported,
            Fault::Expected(expected) => self.expected(&expected),
            Fault::Missing(field) => {
                self.missing(field);
                Fault::Reported
            }
            Fault::Message(message) => {
                let (what, help) = message.split_once('\n').unwrap_or((&message, ""));
                let title = format!("{}: {what}", self.path.words(wording::subject));
                let error = self.report.error("W0109", self.node.place, title);
                self.report.push(if help.is_empty() {
                    error
                } else {
                    error.help(help)
                });
                Fault::Reported
            }
        })
    }

    fn any<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match (&self.node.value, self.scalar()) {
            (Value::List(items), _) => self.list(items, visitor),
            (Value::Map(entries), _) => self.fields(entries, visitor),
            (_, Some(Scalar::Null)) => visitor.visit_unit(),
            (_, Some(Scalar::Bool(value))) => visitor.visit_bool(value),
            (_, Some(Scalar::Unsigned(number))) => visitor.visit_u64(number),
            (_, Some(Scalar::Negative(number))) => visitor.visit_i64(number),
            (_, Some(Scalar::Float(number))) => visitor.visit_f64(number),
            (Value::Scalar { text, .. }, Some(Scalar::Text)) => visitor.visit_str(text),
            (_, Some(Scalar::Unrepresentable)) => {
                Err(self.expected("a number of at most 64 bits, or text in quotes"))
            }
            (_, _) => Err(Fault::Reported),
        }
    }

    fn list<'de, V: Visitor<'de>>(self, items: &[Node], visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_seq(Items {
            decoder: self,
            items: items.iter().enumerate(),
        })
    }

    fn fields<'de, V: Visitor<'de>>(
        self,
        entries: &[Entry],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let entries = entries.iter().collect::<Vec<_>>().into_iter();
        visitor.visit_map(Fields {
            decoder: self,
            entries,
            value: None,
        })
    }

    /// Reports that `entry` is no field of `owner`, whose `fields` are given. Returns the one that was meant.
    fn unknown_field(
        &self,
        entry: &Entry,
        owner: &'static str,
        fields: &'static [&'static str],
        is_first: bool,
    ) -> Option<&'static str> {
        let (key, place) = (entry.key.as_str(), entry.key_place);
        let whose = self.path.words(wording::owner);
        if let Some(remedy) = later::field(owner, key) {
            let title = format!("`{key}` in {whose} is not supported yet");
            self.report
                .push(self.report.error("W0103", place, title).help(remedy));
            return None;
        }
        let meant = nearest(key, fields.iter().copied());
        let title = format!("unknown field `{}` in {whose}", shorten(key));
        let error = self.report.error("W0102", place, title);
        self.report.push(match meant {
            Some(field) => match super::schema::values(owner, field) {
                values if values.is_empty() => error.note(format!("did you mean `{field}`?")),
                values => error.note(format!("did you mean `{field}`? ({})", values.join(", "))),
            },
            None if fields.is_empty() => error.note("it has no fields: write `{}`"),
            // Said once for each mapping.
            None if is_first => error.note(format!("fields here: {}", fields.join(", "))),
            None => error,
        });
        meant
    }
}

impl<'de> Deserializer<'de> for Decoder<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.settle(self.any(visitor))
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.scalar() {
            Some(Scalar::Unsigned(number)) => self.settle(visitor.visit_u64(number)),
            _ => Err(self.expected("a whole number")),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match (&self.node.value, self.scalar()) {
            (Value::Scalar { text, .. }, Some(Scalar::Text)) => {
                self.settle(visitor.visit_str(text))
            }
            _ => Err(self.expected("text")),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    /// A field that is there is `Some`: one without a value is a mistake, not a field left out.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let result = match (name, &self.node.value) {
            (LIST, Value::List(items)) => self.list(items, visitor),
            (SHAPE, Value::Scalar { .. } | Value::List(_) | Value::Broken) => self.any(visitor),
            (SECRET, Value::Scalar { text, .. }) if self.scalar() != Some(Scalar::Null) => {
                visitor.visit_str(text)
            }
            // Their own text is not shown in any case.
            (SECRET, Value::Scalar { .. } | Value::List(_) | Value::Broken) => visitor.visit_unit(),
            (_, _) => visitor.visit_newtype_struct(self),
        };
        self.settle(result)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::List(items) => self.settle(self.list(items, visitor)),
            _ => Err(self.expected("a list (`[…]`)")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::Map(entries) => self.settle(self.fields(entries, visitor)),
            _ => Err(self.expected("entries (`id: …`)")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let Value::Map(entries) = &self.node.value else {
            let expected = match (fields, super::schema::required(name).is_empty()) {
                ([], _) => "`{}`",
                (_, true) => "fields (`{}`, `{name: value}`)",
                (_, false) => "fields (`{name: value}`)",
            };
            return Err(self.expected(expected));
        };
        let (good, bad): (Vec<_>, Vec<_>) = entries
            .iter()
            .partition(|entry| fields.contains(&entry.key.as_str()));
        let mut present: Vec<&str> = good.iter().map(|entry| entry.key.as_str()).collect();
        for (index, entry) in bad.into_iter().enumerate() {
            // What is misspelt is not missing as well.
            present.extend(self.unknown_field(entry, name, fields, index == 0));
        }
        let entries = good.into_iter();
        match visitor.visit_map(Fields {
            decoder: self,
            entries,
            value: None,
        }) {
            // Serde names the first one only.
            Err(Fault::Missing(_)) => {
                for field in super::schema::required(name) {
                    if !present.contains(&field.as_str()) {
                        self.missing(&field);
                    }
                }
                Err(Fault::Reported)
            }
            result => self.settle(result),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let subject = self.path.words(wording::subject);
        let later = |place, value: &str, remedy| {
            let title = format!("{subject}: `{value}` is not supported yet");
            self.report
                .push(self.report.error("W0103", place, title).help(remedy));
            Err(Fault::Reported)
        };
        match (&self.node.value, self.scalar()) {
            (Value::Map(entries), _) => {
                let remedy = |entry: &Entry| later::value(name, &entry.key);
                match entries
                    .iter()
                    .find_map(|entry| Some((entry, remedy(entry)?)))
                {
                    Some((entry, remedy)) => later(entry.key_place, &entry.key, remedy),
                    None => Err(self.expected(&format!("one of {}", variants.join(", ")))),
                }
            }
            (Value::Scalar { text, .. }, Some(Scalar::Text)) => {
                let place = self.node.place;
                if let Some(remedy) = later::value(name, text) {
                    return later(place, text, remedy);
                }
                if !variants.contains(&text.as_str()) {
                    let title = format!("{subject}: unknown value `{}`", shorten(text));
                    let all = variants.join(", ");
                    let note = match nearest(text, variants.iter().copied()) {
                        Some(meant) => format!("did you mean `{meant}`? ({all})"),
                        None => format!("values here: {all}"),
                    };
                    self.report
                        .push(self.report.error("W0109", place, title).note(note));
                    return Err(Fault::Reported);
                }
                let text: StrDeserializer<'_, Fault> = text.as_str().into_deserializer();
                self.settle(visitor.visit_enum(text))
            }
            _ => Err(self.expected(&format!("one of {}", variants.join(", ")))),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 f64 char bytes byte_buf unit unit_struct tuple
        tuple_struct identifier ignored_any
    }
}

struct Items<'a, I> {
    decoder: Decoder<'a>,
    items: I,
}

impl<'de, 'a, I: Iterator<Item = (usize, &'a Node)>> SeqAccess<'de> for Items<'a, I> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some((index, node)) = self.items.next() else {
            return Ok(None);
        };
        let path = Path {
            link: Some((&self.decoder.path, Segment::Index(index))),
        };
        let report = self.decoder.report;
        seed.deserialize(Decoder {
            node,
            path,
            key_place: node.place,
            report,
        })
        .map(Some)
    }
}

struct Fields<'a> {
    decoder: Decoder<'a>,
    entries: std::vec::IntoIter<&'a Entry>,
    value: Option<&'a Entry>,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        self.value = self.entries.next();
        let Some(entry) = self.value else {
            return Ok(None);
        };
        let key: StrDeserializer<'_, Fault> = entry.key.as_str().into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let entry = self
            .value
            .take()
            .expect("serde asks for a value after its key");
        let path = Path {
            link: Some((&self.decoder.path, Segment::Key(&entry.key))),
        };
        let Decoder { report, .. } = self.decoder;
        seed.deserialize(Decoder {
            node: &entry.node,
            path,
            key_place: entry.key_place,
            report,
        })
    }
}
