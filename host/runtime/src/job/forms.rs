//! The forms that values of a job file take beside plain fields: durations, short forms, lists of one, sections by id.

mod kafka;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::StrDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::decode::SHAPE;
use super::file::{
    Component, DeadLetterSection, Edge, ErrorPolicyEntry, ErrorPolicyName, HeaderEntry, Input,
    PartitionEntry, PinnedComponent, SinkCompressionEntry, SinkCompressionName,
    SinkCompressionSection, StartEntry, StopEntry, TopicEntry, WatchEntry, WatchSection,
};
use crate::units;

pub(super) use kafka::{IntervalText, Named, PropertyEntry, SecretReference};

/// Reads a field and, if that fails, its default instead, so that the other fields are looked at too.
///
/// Only with [`super::decode`], which reports each error where it arises; the default never reaches anybody.
pub(super) fn lenient<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    decoder: D,
) -> Result<T, D::Error> {
    Ok(T::deserialize(decoder).unwrap_or_default())
}

/// A mapping from ids to `T`, in the order of the file.
pub(super) struct Entries<T>(pub Vec<(String, T)>);

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Entries(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        struct ById<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ById<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("entries (`id: …`)")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(id) = map.next_key()? {
                    // As in `lenient`: an entry that cannot be read is reported already, the next may hold more.
                    if let Ok(entry) = map.next_value() {
                        entries.push((id, entry));
                    }
                }
                Ok(Entries(entries))
            }
        }
        decoder.deserialize_map(ById(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Entries<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("EntriesOf{}", T::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "propertyNames": {"pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"},
            "additionalProperties": generator.subschema_for::<T>(),
        })
    }
}

/// Text of which there is a short form (a bare string) and a full one (a mapping).
trait ShortForm: Sized {
    type Full: for<'de> Deserialize<'de>;
    const EXPECTED: &'static str;

    fn short<E: Error>(text: &str) -> Result<Self, E>;
    fn full(full: Self::Full) -> Self;
}

struct Short<T>(PhantomData<T>);

impl<'de, T: ShortForm> Visitor<'de> for Short<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::short(text)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, decoder: D) -> Result<T, D::Error> {
        T::Full::deserialize(decoder).map(T::full)
    }
}

impl ShortForm for Input {
    type Full = Edge;
    const EXPECTED: &'static str = "an id (`input: clean`) or fields (`input: {from: clean}`)";

    fn short<E: Error>(text: &str) -> Result<Self, E> {
        Ok(Input::From(text.to_owned()))
    }

    fn full(full: Edge) -> Self {
        Input::Edge(full)
    }
}

impl Default for Component {
    fn default() -> Self {
        Component::Path(String::new())
    }
}

impl ShortForm for Component {
    type Full = PinnedComponent;
    const EXPECTED: &'static str = "a path, or fields (`{file: …, sha256: …}`)";

    fn short<E: Error>(text: &str) -> Result<Self, E> {
        Ok(Component::Path(text.to_owned()))
    }

    fn full(full: PinnedComponent) -> Self {
        Component::Pinned(full)
    }
}

impl ShortForm for ErrorPolicyEntry {
    type Full = DeadLetterSection;
    const EXPECTED: &'static str = "`fail`, `skip` or `{dead_letter: SINK}`";

    fn short<E: Error>(text: &str) -> Result<Self, E> {
        ErrorPolicyName::deserialize(StrDeserializer::<E>::new(text))
            .map(ErrorPolicyEntry::Policy)
            .map_err(|_: E| E::custom(format!("unknown policy `{text}`\nit is {}", Self::EXPECTED)))
    }

    fn full(full: DeadLetterSection) -> Self {
        ErrorPolicyEntry::DeadLetter(full)
    }
}

impl ShortForm for SinkCompressionEntry {
    type Full = SinkCompressionSection;
    const EXPECTED: &'static str = "`none`, `gzip`, `zstd` or `{method: zstd, level: 9}`";

    fn short<E: Error>(text: &str) -> Result<Self, E> {
        SinkCompressionName::deserialize(StrDeserializer::<E>::new(text))
            .map(SinkCompressionEntry::Method)
            .map_err(|_: E| {
                E::custom(format!(
                    "unknown compression `{text}`\nit is {}",
                    Self::EXPECTED
                ))
            })
    }

    fn full(full: SinkCompressionSection) -> Self {
        SinkCompressionEntry::Section(full)
    }
}

impl<'de> Deserialize<'de> for HeaderEntry {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        struct Entry;
        impl<'de> Visitor<'de> for Entry {
            type Value = HeaderEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true`, `false` or a list of names")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<HeaderEntry, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = list.next_element()? {
                    names.push(name);
                }
                Ok(HeaderEntry::Names(names))
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                decoder: D,
            ) -> Result<HeaderEntry, D::Error> {
                bool::deserialize(decoder).map(HeaderEntry::Switch)
            }
        }
        decoder.deserialize_newtype_struct(super::decode::LIST, Entry)
    }
}

impl<'de> Deserialize<'de> for WatchEntry {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        struct Entry;
        impl<'de> Visitor<'de> for Entry {
            type Value = WatchEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true`, `false` or fields (`{every: 1s}`)")
            }

            fn visit_bool<E: Error>(self, on: bool) -> Result<WatchEntry, E> {
                Ok(WatchEntry::Switch(on))
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                decoder: D,
            ) -> Result<WatchEntry, D::Error> {
                WatchSection::deserialize(decoder).map(WatchEntry::On)
            }
        }
        decoder.deserialize_newtype_struct(SHAPE, Entry)
    }
}

macro_rules! deserialize_short_form {
    ($($type:ty),*) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
                decoder.deserialize_newtype_struct(SHAPE, Short::<$type>(PhantomData))
            }
        }
    )*};
}
deserialize_short_form!(
    Input,
    Component,
    ErrorPolicyEntry,
    SinkCompressionEntry,
    StartEntry,
    StopEntry,
    PartitionEntry,
    TopicEntry
);

/// A `T`, or a list of them.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(super) enum OneOrMany<T> {
    /// One.
    One(T),
    /// A list.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    /// As a list, and whether it was written as one.
    pub(super) fn into_list(self) -> (Vec<T>, bool) {
        match self {
            OneOrMany::One(one) => (vec![one], false),
            OneOrMany::Many(many) => (many, true),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        struct List<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
            type Value = OneOrMany<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one or a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut many = Vec::new();
                while let Some(one) = list.next_element()? {
                    many.push(one);
                }
                Ok(OneOrMany::Many(many))
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                decoder: D,
            ) -> Result<Self::Value, D::Error> {
                T::deserialize(decoder).map(OneOrMany::One)
            }
        }
        decoder.deserialize_newtype_struct(super::decode::LIST, List(PhantomData))
    }
}

/// A duration with its unit.
pub(super) struct DurationText(pub Duration);

impl<'de> Deserialize<'de> for DurationText {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = DurationText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration like `10s`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<DurationText, E> {
                units::parse_duration(text)
                    .map(DurationText)
                    .map_err(|error| E::custom(format!("{error}\n{}", error.remedy)))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<DurationText, E> {
                self.visit_str(&number.to_string())
            }
        }
        decoder.deserialize_newtype_struct(SHAPE, Text)
    }
}

impl JsonSchema for DurationText {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A whole number with its unit: 500ms, 10s, 2m, 1h30m.",
            "type": "string",
            "pattern": r"^(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?(\d+us)?$",
            "minLength": 2,
        })
    }
}

/// A size with its unit.
pub(super) struct SizeText(pub u64);

impl<'de> Deserialize<'de> for SizeText {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = SizeText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size like `64MiB`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<SizeText, E> {
                text.parse()
                    .map(|units::ByteSize(bytes)| SizeText(bytes))
                    .map_err(|error| E::custom(format!("{error}\n{}", error.remedy)))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<SizeText, E> {
                self.visit_str(&number.to_string())
            }
        }
        decoder.deserialize_newtype_struct(SHAPE, Text)
    }
}

impl JsonSchema for SizeText {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A whole number with its unit: 100B, 64MiB, 2GB.",
            "type": "string",
            "pattern": r"^\d+(B|KiB|MiB|GiB|TiB|kB|MB|GB|TB)$",
        })
    }
}

/// A number, or `unbounded`.
#[derive(Default)]
pub(super) enum Count {
    /// So many.
    Bounded(u64),
    /// No end.
    #[default]
    Unbounded,
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number or `unbounded`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Count, E> {
                if text == "unbounded" {
                    return Ok(Count::Unbounded);
                }
                Err(E::custom(format!(
                    "`{text}` is not a number\nwrite a whole number or `unbounded`"
                )))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Count, E> {
                Ok(Count::Bounded(number))
            }
        }
        decoder.deserialize_newtype_struct(SHAPE, Number)
    }
}

impl JsonSchema for Count {
    fn schema_name() -> Cow<'static, str> {
        "Count".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A whole number, or `unbounded`.",
            "oneOf": [{"type": "integer", "minimum": 0}, {"const": "unbounded"}],
        })
    }
}
