//! Kafka sources and sinks, written out again. Secrets are references, so they can be shown.

use super::{Map, Out, path, texts, word, write_flow};
use crate::job::model::{
    CheckpointSettings, KafkaCompression, KafkaConnection, KafkaFallback, KafkaFormat, KafkaGap,
    KafkaKey, KafkaOffsets, KafkaPartition, KafkaSink, KafkaSource, KafkaStart, KafkaStop,
    KafkaTimestamp, KafkaTls, KafkaTopic, KafkaTopics, PropertyValue, SaslMechanism, Secret,
};

fn secret(secret: &Secret) -> Out {
    match secret {
        Secret::File(file) => Map::default().with("file", path(file)),
        Secret::Env(name) => Map::default().with("env", name.as_str()),
        Secret::Credential(name) => Map::default().with("credential", name.as_str()),
    }
    .into()
}

fn boolean(value: bool) -> Out {
    word(if value { "true" } else { "false" })
}

fn tls(tls: Option<&KafkaTls>) -> Out {
    let Some(tls) = tls else {
        return boolean(false);
    };
    Map::default()
        .maybe("ca", tls.ca.as_deref().map(path))
        .maybe("certificate", tls.certificate.as_deref().map(path))
        .maybe("key", tls.key.as_deref().map(path))
        .maybe("key_password", tls.key_password.as_ref().map(secret))
        .into()
}

fn properties(connection: &KafkaConnection) -> Out {
    let properties = connection.properties.iter();
    Out::Map(
        properties
            .map(|(name, value)| {
                let value = match value {
                    PropertyValue::Text(text) => Out::from(text.as_str()),
                    PropertyValue::Secret(reference) => secret(reference),
                };
                (name.clone(), value)
            })
            .collect(),
    )
}

fn connection(connection: &KafkaConnection) -> Map {
    let sasl = connection.sasl.as_ref().map(|sasl| {
        Map::default()
            .with(
                "mechanism",
                word(match sasl.mechanism {
                    SaslMechanism::Plain => "PLAIN",
                    SaslMechanism::ScramSha256 => "SCRAM-SHA-256",
                    SaslMechanism::ScramSha512 => "SCRAM-SHA-512",
                }),
            )
            .with("username", sasl.username.as_str())
            .with("password", secret(&sasl.password))
    });
    Map::default()
        .with("brokers", connection.brokers.as_str())
        .with("tls", tls(connection.tls.as_ref()))
        .maybe("sasl", sasl)
        .with("properties", properties(connection))
}

fn offsets(offsets: &KafkaOffsets) -> Out {
    let topics = offsets.iter().map(|(topic, partitions)| {
        let partitions = partitions
            .iter()
            .map(|(partition, offset)| (partition.to_string(), word(&offset.to_string())))
            .collect();
        (topic.clone(), Out::Map(partitions))
    });
    Map::default()
        .with("offsets", Out::Map(topics.collect()))
        .into()
}

pub(super) fn source(source: &KafkaSource) -> Map {
    let topics = match &source.topics {
        KafkaTopics::Names(names) => texts(names),
        KafkaTopics::Pattern(pattern) => Map::default().with("pattern", pattern.as_str()).into(),
    };
    let start = match &source.start {
        KafkaStart::Earliest => word("earliest"),
        KafkaStart::Latest => word("latest"),
        KafkaStart::Timestamp(millis) => {
            let time = jiff::Timestamp::from_millisecond(*millis)
                .map_or_else(|_| millis.to_string(), |time| time.to_string());
            Map::default().with("timestamp", time.as_str()).into()
        }
        KafkaStart::Committed { otherwise } => {
            let otherwise = word(match otherwise {
                KafkaFallback::Fail => "fail",
                KafkaFallback::Earliest => "earliest",
                KafkaFallback::Latest => "latest",
            });
            let committed = Map::default().with("otherwise", otherwise);
            Map::default().with("committed", committed).into()
        }
        KafkaStart::Offsets(places) => offsets(places),
    };
    let stop = match &source.stop {
        None => word("never"),
        Some(KafkaStop::Latest) => word("latest"),
        Some(KafkaStop::Offsets(places)) => offsets(places),
    };
    connection(&source.connection)
        .with("topics", topics)
        .with("start", start)
        .with("stop", stop)
        .with(
            "isolation",
            word(if source.read_uncommitted {
                "read-uncommitted"
            } else {
                "read-committed"
            }),
        )
        .with("group", source.group.as_str())
        .with(
            "discover",
            source.discover.map_or_else(|| word("never"), Out::from),
        )
        .with(
            "on_gap",
            word(match source.on_gap {
                KafkaGap::Fail => "fail",
                KafkaGap::Earliest => "earliest",
                KafkaGap::Latest => "latest",
            }),
        )
}

fn compression(compression: KafkaCompression) -> Out {
    word(match compression {
        KafkaCompression::None => "none",
        KafkaCompression::Gzip => "gzip",
        KafkaCompression::Snappy => "snappy",
        KafkaCompression::Lz4 => "lz4",
        KafkaCompression::Zstd => "zstd",
    })
}

/// The sink of a job that takes checkpoints by `settings`. Without them it is not exactly once.
pub(super) fn sink(sink: &KafkaSink, settings: Option<&CheckpointSettings>) -> Map {
    let topic = match &sink.topic {
        KafkaTopic::Fixed(topic) => Out::from(topic.as_str()),
        KafkaTopic::Field { field, allowed } => Map::default()
            .with("field", field.as_str())
            .with("allowed", texts(allowed))
            .into(),
    };
    let key = match &sink.key {
        KafkaKey::Record => word("record"),
        KafkaKey::None => word("none"),
        KafkaKey::Selected(selector) => super::key(selector),
    };
    let partition = match &sink.partition {
        KafkaPartition::Key => word("key"),
        KafkaPartition::Sticky => word("sticky"),
        KafkaPartition::Field(field) => Map::default().with("field", field.as_str()).into(),
        KafkaPartition::Explicit(field) => Map::default().with("explicit", field.as_str()).into(),
    };
    let added = sink.headers.iter();
    let added = added.map(|(name, text)| (name.clone(), Out::from(text.as_str())));
    let headers = Map::default()
        .with("forward", boolean(sink.forward_headers))
        .with("add", Out::Map(added.collect()));
    let timestamp = match sink.timestamp {
        KafkaTimestamp::Record => "record",
        KafkaTimestamp::Written => "written",
    };
    let map = connection(&sink.connection)
        .with("topic", topic)
        .with("format", format(sink.format))
        .with("key", key)
        .with("partition_by", partition)
        .with("headers", headers)
        .with("timestamp", word(timestamp))
        .with("compression", compression(sink.compression));
    match settings {
        None => map,
        Some(settings) => map
            .with("transaction_timeout", sink.transaction_timeout(settings))
            .with("commit_topic", sink.commit_topic.as_str())
            .with("transactional_id", sink.transactional_id.as_str()),
    }
}

fn format(format: KafkaFormat) -> Out {
    word(match format {
        KafkaFormat::Raw => "raw",
        KafkaFormat::Text => "string",
        KafkaFormat::Json => "json",
    })
}

/// What the exactly-once sinks of a job must have in common: each field and its value, in a form that can be compared and shown.
pub(crate) fn agreed(
    sink: &KafkaSink,
    settings: &CheckpointSettings,
) -> Vec<(&'static str, String)> {
    let mut brokers: Vec<_> = sink.connection.brokers.split(',').collect();
    brokers.sort_unstable();
    brokers.dedup();
    let Map(connection) = connection(&sink.connection);
    let sasl = connection.into_iter().find(|(name, _)| name == "sasl");
    let sasl = sasl.map_or_else(|| word("nobody"), |(_, sasl)| sasl);
    let fields = [
        ("brokers", word(&brokers.join(","))),
        ("tls", tls(sink.connection.tls.as_ref())),
        ("sasl", sasl),
        ("properties", properties(&sink.connection)),
        ("compression", compression(sink.compression)),
        (
            "transaction_timeout",
            sink.transaction_timeout(settings).into(),
        ),
        ("commit_topic", word(&sink.commit_topic)),
        ("transactional_id", word(&sink.transactional_id)),
    ];
    let shown = |value: &Out| {
        let mut text = String::new();
        write_flow(&mut text, value);
        format!("`{text}`")
    };
    fields.map(|(field, value)| (field, shown(&value))).into()
}
