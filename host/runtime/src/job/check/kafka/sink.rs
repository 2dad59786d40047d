//! What a Kafka sink writes: where to, and what of a record.

use super::{RawConnection, below, format};
use crate::job::check::Check;
use crate::job::file::{
    HeadersSection, KafkaCompressionName, KafkaSink as RawSink, PartitionEntry, PartitionName,
    TimestampName, TopicEntry,
};
use crate::job::forms::{DurationText, Named, OneOrMany};
use crate::job::kafka_properties::Side;
use crate::job::model::{
    KafkaCompression, KafkaKey, KafkaPartition, KafkaSink, KafkaTimestamp, KafkaTopic,
    SinkConnector,
};

impl Check<'_> {
    /// The Kafka sink `id`.
    pub(in crate::job::check) fn kafka_sink(
        &self,
        id: &str,
        raw: RawSink,
    ) -> Option<SinkConnector> {
        let section = ["sinks", id, "kafka"];
        let path = |field| ["sinks", id, "kafka", field];
        self.needs_kafka(&section);
        let connection = RawConnection {
            brokers: raw.brokers,
            tls: raw.tls,
            sasl: raw.sasl,
            properties: raw.properties,
        };
        let connection = self.connection(&section, Side::Producer, connection);
        let topic = match raw.topic {
            TopicEntry::Name(name) => self.topic_name(&path("topic"), name).map(KafkaTopic::Fixed),
            TopicEntry::Field(raw) => {
                let path = path("topic");
                self.pointer(&below(&path, "field"), &raw.field);
                let allowed = self.topic_names(&below(&path, "allowed"), raw.allowed);
                allowed.map(|allowed| KafkaTopic::Field {
                    field: raw.field,
                    allowed,
                })
            }
        };
        let key = match raw.key {
            None => KafkaKey::Record,
            Some(OneOrMany::One(word)) if word == "record" => KafkaKey::Record,
            Some(OneOrMany::One(word)) if word == "none" => KafkaKey::None,
            Some(pointers) => KafkaKey::Selected(self.key(&path("key"), pointers)),
        };
        let partition = self.partition(&path("partition_by"), raw.partition_by);
        let HeadersSection { forward, add } = raw.headers.unwrap_or_default();
        let Named(headers) = add.unwrap_or_default();
        for (name, text) in &headers {
            if name.is_empty() || name.contains('\0') || text.contains('\0') {
                let path = [&path("headers")[..], &["add", name]].concat();
                self.misplaced(&path, "has no name, or a zero byte in it");
            }
        }
        let transaction_timeout = raw.transaction_timeout.map(|DurationText(timeout)| timeout);
        let commit_topic = match raw.commit_topic {
            Some(name) => self.topic_name(&path("commit_topic"), name),
            None => Some(KafkaSink::COMMIT_TOPIC.to_owned()),
        };
        let transactional_id = match raw.transactional_id {
            Some(name) => self.name(&path("transactional_id"), name),
            None => Some(format!("weir-{}", self.name)),
        };
        Some(SinkConnector::Kafka(Box::new(KafkaSink {
            connection: connection?,
            topic: topic?,
            format: format(raw.format),
            key,
            partition: partition?,
            forward_headers: forward.unwrap_or(true),
            headers,
            timestamp: match raw.timestamp {
                None | Some(TimestampName::Record) => KafkaTimestamp::Record,
                Some(TimestampName::Written) => KafkaTimestamp::Written,
            },
            compression: match raw.compression {
                None | Some(KafkaCompressionName::None) => KafkaCompression::None,
                Some(KafkaCompressionName::Gzip) => KafkaCompression::Gzip,
                Some(KafkaCompressionName::Snappy) => KafkaCompression::Snappy,
                Some(KafkaCompressionName::Lz4) => KafkaCompression::Lz4,
                Some(KafkaCompressionName::Zstd) => KafkaCompression::Zstd,
            },
            transaction_timeout,
            commit_topic: commit_topic?,
            transactional_id: transactional_id?,
        })))
    }

    fn partition(&self, path: &[&str], raw: Option<PartitionEntry>) -> Option<KafkaPartition> {
        let section = match raw {
            None | Some(PartitionEntry::Word(PartitionName::Key)) => {
                return Some(KafkaPartition::Key);
            }
            Some(PartitionEntry::Word(PartitionName::Sticky)) => {
                return Some(KafkaPartition::Sticky);
            }
            Some(PartitionEntry::Field(section)) => section,
        };
        let given = [
            ("field", section.field.is_some()),
            ("explicit", section.explicit.is_some()),
        ];
        if !self.exactly_one(path, &given) {
            return None;
        }
        let pointer = |field, pointer: String| {
            self.pointer(&below(path, field), &pointer);
            pointer
        };
        match (section.field, section.explicit) {
            (Some(field), _) => Some(KafkaPartition::Field(pointer("field", field))),
            (None, explicit) => {
                explicit.map(|explicit| KafkaPartition::Explicit(pointer("explicit", explicit)))
            }
        }
    }
}
