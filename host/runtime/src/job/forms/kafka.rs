//! The forms that Kafka's values take: words or places, secrets by reference, properties, names of anybody's choice.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::StrDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::{DurationText, ShortForm};
use crate::job::decode::{SECRET, SHAPE};
use crate::job::file::{
    PartitionEntry, PartitionName, PartitionSection, SecretSection, StartEntry, StartName,
    StartSection, StopEntry, StopName, StopSection, TlsEntry, TlsSection, TopicEntry,
    TopicFieldSection, TopicPatternSection, TopicsEntry,
};
use crate::job::tree::shorten;

/// One of the words of `T`.
fn word<'de, T: Deserialize<'de>, E: Error>(text: &'de str, expected: &str) -> Result<T, E> {
    T::deserialize(StrDeserializer::<E>::new(text)).map_err(|_: E| {
        E::custom(format!(
            "unknown value `{}`\nit is {expected}",
            shorten(text)
        ))
    })
}

impl ShortForm for StartEntry {
    type Full = StartSection;
    const EXPECTED: &'static str = "`earliest`, `latest`, `committed`, `{timestamp: …}`, \
        `{committed: {otherwise: …}}` or `{offsets: …}`";

    fn short<E: Error>(text: &str) -> Result<Self, E> {
        word::<StartName, E>(text, Self::EXPECTED).map(StartEntry::Word)
    }

    fn full(full: StartSection) -> Self {
        StartEntry::Place(full)
    }
}

impl ShortForm for StopEntry {
    type Full = StopSection;
    const EXPECTED: &'static str = "`never`, `latest` or `{offsets: …}`";

    fn short<E: Error>(text: &str) -> Result<Self, E> {
        word::<StopName, E>(text, Self::EXPECTED).map(StopEntry::Word)
    }

    fn full(full: StopSection) -> Self {
        StopEntry::Place(full)
    }
}

impl ShortForm for PartitionEntry {
    type Full = PartitionSection;
    const EXPECTED: &'static str = "`key`, `sticky`, `{field: /POINTER}` or `{explicit: /POINTER}`";

    fn short<E: Error>(text: &str) -> Result<Self, E> {
        word::<PartitionName, E>(text, Self::EXPECTED).map(PartitionEntry::Word)
    }

    fn full(full: PartitionSection) -> Self {
        PartitionEntry::Field(full)
    }
}

impl Default for TopicEntry {
    fn default() -> Self {
        TopicEntry::Name(String::new())
    }
}

impl ShortForm for TopicEntry {
    type Full = TopicFieldSection;
    const EXPECTED: &'static str = "a topic, or `{field: /POINTER, allowed: [TOPIC]}`";

    fn short<E: Error>(text: &str) -> Result<Self, E> {
        Ok(TopicEntry::Name(text.to_owned()))
    }

    fn full(full: TopicFieldSection) -> Self {
        TopicEntry::Field(full)
    }
}

impl<'de> Deserialize<'de> for TlsEntry {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        struct Entry;
        impl<'de> Visitor<'de> for Entry {
            type Value = TlsEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`true`, `false` or fields (`{ca: FILE}`)")
            }

            fn visit_bool<E: Error>(self, on: bool) -> Result<TlsEntry, E> {
                Ok(TlsEntry::Switch(on))
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                decoder: D,
            ) -> Result<TlsEntry, D::Error> {
                TlsSection::deserialize(decoder).map(TlsEntry::Settings)
            }
        }
        decoder.deserialize_newtype_struct(SHAPE, Entry)
    }
}

impl<'de> Deserialize<'de> for TopicsEntry {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        struct Entry;
        impl<'de> Visitor<'de> for Entry {
            type Value = TopicsEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list (`[orders]`) or a pattern (`{pattern: \"orders-.*\"}`)")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<TopicsEntry, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = list.next_element()? {
                    names.push(name);
                }
                Ok(TopicsEntry::Names(names))
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                decoder: D,
            ) -> Result<TopicsEntry, D::Error> {
                TopicPatternSection::deserialize(decoder).map(TopicsEntry::Pattern)
            }
        }
        decoder.deserialize_newtype_struct(SHAPE, Entry)
    }
}

/// A reference to a secret. The secret itself in its place is refused, and not shown.
#[derive(Default)]
pub(in crate::job) struct SecretReference(pub SecretSection);

impl<'de> Deserialize<'de> for SecretReference {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        struct Reference;
        impl<'de> Visitor<'de> for Reference {
            type Value = SecretReference;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`{file: PATH}`, `{env: NAME}` or `{credential: NAME}`")
            }

            fn visit_str<E: Error>(self, _: &str) -> Result<SecretReference, E> {
                Err(E::custom(
                    "a secret does not belong in a job file\nsay where it is: `{file: PATH}`, `{env: NAME}` or `{credential: NAME}`",
                ))
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                decoder: D,
            ) -> Result<SecretReference, D::Error> {
                SecretSection::deserialize(decoder).map(SecretReference)
            }
        }
        decoder.deserialize_newtype_struct(SECRET, Reference)
    }
}

/// The value of a property of librdkafka. Messages do not show it.
pub(in crate::job) enum PropertyEntry {
    /// A word, a number, whatever the property takes, as it is written.
    Text(String),
    /// By reference.
    Secret(SecretSection),
}

impl<'de> Deserialize<'de> for PropertyEntry {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        struct Entry;
        impl<'de> Visitor<'de> for Entry {
            type Value = PropertyEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one value, or where a secret is (`{file: PATH}`)")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<PropertyEntry, E> {
                Ok(PropertyEntry::Text(text.to_owned()))
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                decoder: D,
            ) -> Result<PropertyEntry, D::Error> {
                SecretSection::deserialize(decoder).map(PropertyEntry::Secret)
            }
        }
        decoder.deserialize_newtype_struct(SECRET, Entry)
    }
}

impl JsonSchema for PropertyEntry {
    fn schema_name() -> Cow<'static, str> {
        "Property".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The value of a property, or where the secret is that is one.",
            "anyOf": [
                {"type": "string"},
                {"type": "integer"},
                {"type": "boolean"},
                generator.subschema_for::<SecretSection>(),
            ],
        })
    }
}

/// A mapping from names that are not ids, such as those of topics and headers, in the order of the file.
pub(in crate::job) struct Named<T>(pub Vec<(String, T)>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Named(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        struct ByName<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ByName<T> {
            type Value = Named<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("fields (`{name: value}`)")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named<T>, A::Error> {
                let mut values = Vec::new();
                while let Some(name) = map.next_key()? {
                    // As in `lenient`: what cannot be read is reported already, the next may hold more.
                    if let Ok(value) = map.next_value() {
                        values.push((name, value));
                    }
                }
                Ok(Named(values))
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                decoder: D,
            ) -> Result<Named<T>, D::Error> {
                decoder.deserialize_map(self)
            }
        }
        decoder.deserialize_newtype_struct(SHAPE, ByName(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Named<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("NamedOf{}", T::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "additionalProperties": generator.subschema_for::<T>(),
        })
    }
}

/// A duration with its unit, or `never`.
pub(in crate::job) struct IntervalText(pub Option<Duration>);

impl<'de> Deserialize<'de> for IntervalText {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = IntervalText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration like `10s`, or `never`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<IntervalText, E> {
                if text == "never" {
                    return Ok(IntervalText(None));
                }
                let DurationText(duration) =
                    DurationText::deserialize(StrDeserializer::<E>::new(text))?;
                Ok(IntervalText(Some(duration)))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<IntervalText, E> {
                self.visit_str(&number.to_string())
            }
        }
        decoder.deserialize_newtype_struct(SHAPE, Text)
    }
}

impl JsonSchema for IntervalText {
    fn schema_name() -> Cow<'static, str> {
        "Interval".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A duration, or `never`.",
            "anyOf": [generator.subschema_for::<DurationText>(), {"const": "never"}],
        })
    }
}
