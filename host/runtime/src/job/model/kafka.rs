//! Kafka in a job: how to reach a cluster, what is read, what is written.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::{CheckpointSettings, KeySelector};

/// Something that must not be shown, by reference: resolved when a client is made, never stored.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The contents of this file, without a final newline.
    File(PathBuf),
    /// The value of this environment variable.
    Env(String),
    /// A credential that the service manager hands over: the file of this name in `$CREDENTIALS_DIRECTORY`.
    Credential(String),
}

/// The reference; what it refers to is not known here.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Secret::File(path) => write!(f, "{{file: {}}}", path.display()),
            Secret::Env(name) => write!(f, "{{env: {name}}}"),
            Secret::Credential(name) => write!(f, "{{credential: {name}}}"),
        }
    }
}

/// How to reach a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KafkaConnection {
    /// Brokers to begin with, `host:port` separated by commas.
    pub brokers: String,
    /// Encryption; `None`: plain text.
    pub tls: Option<KafkaTls>,
    /// Who we are; `None`: nobody.
    pub sasl: Option<KafkaSasl>,
    /// Properties of librdkafka that are passed on as they are. None of them is one that Weir sets itself.
    pub properties: BTreeMap<String, PropertyValue>,
}

/// The value of a property of librdkafka.
#[derive(Clone, PartialEq, Eq)]
pub enum PropertyValue {
    /// As in the job file.
    Text(String),
    /// By reference.
    Secret(Secret),
}

/// Text is not shown: it may be a secret all the same.
impl fmt::Debug for PropertyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PropertyValue::Text(_) => f.write_str("…"),
            PropertyValue::Secret(secret) => write!(f, "{secret:?}"),
        }
    }
}

/// Encryption of connections to brokers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KafkaTls {
    /// PEM file of the authorities to trust; `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// PEM file of our certificate, where brokers ask for one.
    pub certificate: Option<PathBuf>,
    /// PEM file of its private key.
    pub key: Option<PathBuf>,
    /// Password of that file.
    pub key_password: Option<Secret>,
}

/// Who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaSasl {
    /// How it is proven.
    pub mechanism: SaslMechanism,
    /// The user.
    pub username: String,
    /// The password.
    pub password: Secret,
}

/// SASL mechanisms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaslMechanism {
    /// The password itself.
    Plain,
    /// Challenge and response over SHA-256.
    ScramSha256,
    /// Challenge and response over SHA-512.
    ScramSha512,
}

/// Topics that are read.
#[derive(Clone, Debug, PartialEq)]
pub struct KafkaSource {
    /// The cluster.
    pub connection: KafkaConnection,
    /// Which topics.
    pub topics: KafkaTopics,
    /// Where a partition is begun that no checkpoint knows. Partitions that appear while the job runs, or between two of its
    /// runs, are read from their beginning whatever this says.
    pub start: KafkaStart,
    /// Where reading ends; `None`: never.
    pub stop: Option<KafkaStop>,
    /// Whether records of transactions that are open or were aborted are read as well.
    pub read_uncommitted: bool,
    /// The consumer group to which positions are committed after each checkpoint, for tools that show lag. It decides nothing but
    /// where [`KafkaStart::Committed`] begins.
    pub group: String,
    /// How often new partitions (and topics, with a pattern) are looked for; `None`: never.
    pub discover: Option<Duration>,
    /// What happens where a position was removed by retention before it was read.
    pub on_gap: KafkaGap,
}

/// Which topics a source reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KafkaTopics {
    /// These.
    Names(Vec<String>),
    /// All that it matches.
    Pattern(TopicPattern),
}

impl KafkaTopics {
    /// Whether `topic` is one of them.
    pub fn contain(&self, topic: &str) -> bool {
        match self {
            KafkaTopics::Names(names) => names.iter().any(|name| name == topic),
            KafkaTopics::Pattern(pattern) => pattern.matches(topic),
        }
    }
}

/// A regular expression over whole names of topics.
#[derive(Clone)]
pub struct TopicPattern {
    text: String,
    regex: regex_lite::Regex,
}

impl TopicPattern {
    /// Bytes that a compiled pattern may take.
    const MAX_COMPILED: usize = 1 << 20;

    /// The pattern `text`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<TopicPattern, String> {
        let compile = |text: &str| {
            regex_lite::RegexBuilder::new(text)
                .size_limit(TopicPattern::MAX_COMPILED)
                .build()
                .map_err(|error| error.to_string())
        };
        // By itself first: `a)(b` would be one in parentheses.
        compile(text)?;
        Ok(TopicPattern {
            text: text.to_owned(),
            regex: compile(&format!("^(?:{text})$"))?,
        })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it matches all of `topic`, which is not an internal one.
    pub fn matches(&self, topic: &str) -> bool {
        !topic.starts_with(INTERNAL_TOPICS) && self.regex.is_match(topic)
    }
}

/// What the names of topics begin with that brokers keep for themselves.
pub const INTERNAL_TOPICS: &str = "__";

impl fmt::Debug for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

impl PartialEq for TopicPattern {
    fn eq(&self, other: &TopicPattern) -> bool {
        self.text == other.text
    }
}

impl Eq for TopicPattern {}

/// Offsets by topic and partition.
pub type KafkaOffsets = BTreeMap<String, BTreeMap<i32, i64>>;

/// Where a partition is begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KafkaStart {
    /// At its oldest record.
    Earliest,
    /// Behind its newest record as of the start.
    Latest,
    /// At its first record of this time or later, milliseconds since the epoch.
    Timestamp(i64),
    /// Where the group stands.
    Committed {
        /// For partitions that the group has no position in.
        otherwise: KafkaFallback,
    },
    /// At these; every partition must be named.
    Offsets(KafkaOffsets),
}

/// Where a partition is begun that the group has no position in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KafkaFallback {
    /// At its oldest record.
    Earliest,
    /// Behind its newest record.
    Latest,
    /// Nowhere: the job is refused.
    Fail,
}

/// Where reading ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KafkaStop {
    /// At the end of each partition as of the job's first start.
    Latest,
    /// Before these. Partitions that are not named are not read.
    Offsets(KafkaOffsets),
}

/// What happens where records were removed before they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KafkaGap {
    /// The job fails, naming the gap.
    Fail,
    /// Reading goes on at the oldest record that is left, with a warning that names the gap.
    Earliest,
    /// Reading goes on behind the newest record, with a warning.
    Latest,
}

/// A topic that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaSink {
    /// The cluster.
    pub connection: KafkaConnection,
    /// Where records go.
    pub topic: KafkaTopic,
    /// What values must be.
    pub format: KafkaFormat,
    /// What keys are.
    pub key: KafkaKey,
    /// Which partition of the topic.
    pub partition: KafkaPartition,
    /// Whether a record's own headers are written.
    pub forward_headers: bool,
    /// Headers that every record gets after its own.
    pub headers: Vec<(String, String)>,
    /// Which timestamp a record carries.
    pub timestamp: KafkaTimestamp,
    /// How batches are compressed.
    pub compression: KafkaCompression,
    /// Broker-side limit of a transaction's life; `None`: what [`KafkaSink::transaction_timeout`] says. Exactly-once only.
    pub transaction_timeout: Option<Duration>,
    /// The topic in which commits of jobs are recorded. Exactly-once only.
    pub commit_topic: String,
    /// What the ids of the job's two transactional producers begin with; they end in `-0` and `-1`. Exactly-once only.
    pub transactional_id: String,
}

impl KafkaSink {
    /// The commit topic where the job file names none.
    pub const COMMIT_TOPIC: &str = "weir-commits";

    /// What a transaction must outlive `fail_after` by at least.
    pub const TRANSACTION_MARGIN: Duration = Duration::from_secs(30);

    /// The sink that writes one topic and says nothing else, in the job `job`.
    pub fn plain(connection: KafkaConnection, topic: &str, job: &str) -> KafkaSink {
        KafkaSink {
            connection,
            topic: KafkaTopic::Fixed(topic.to_owned()),
            format: KafkaFormat::Raw,
            key: KafkaKey::Record,
            partition: KafkaPartition::Key,
            forward_headers: true,
            headers: Vec::new(),
            timestamp: KafkaTimestamp::Record,
            compression: KafkaCompression::None,
            transaction_timeout: None,
            commit_topic: KafkaSink::COMMIT_TOPIC.to_owned(),
            transactional_id: format!("weir-{job}"),
        }
    }

    /// The transaction timeout: as asked, else a minute more than `checkpoint.fail_after`.
    pub fn transaction_timeout(&self, settings: &CheckpointSettings) -> Duration {
        let default = || {
            settings
                .fail_after
                .saturating_add(2 * KafkaSink::TRANSACTION_MARGIN)
        };
        self.transaction_timeout.unwrap_or_else(default)
    }
}

/// Where records of a sink go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KafkaTopic {
    /// All into one.
    Fixed(String),
    /// Each into the one that a field of its value names.
    Field {
        /// JSON pointer of the field.
        field: String,
        /// Topics that may be named; anything else is an error of the record.
        allowed: Vec<String>,
    },
}

impl KafkaTopic {
    /// All topics that may be written.
    pub fn names(&self) -> &[String] {
        match self {
            KafkaTopic::Fixed(topic) => std::slice::from_ref(topic),
            KafkaTopic::Field { allowed, .. } => allowed,
        }
    }
}

/// What values are, in and out. The place for Confluent-framed Avro with a schema registry is a further variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KafkaFormat {
    /// Any bytes.
    Raw,
    /// UTF-8 text.
    Text,
    /// One JSON text.
    Json,
}

/// What the keys of written records are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KafkaKey {
    /// The record's key.
    Record,
    /// Made from the value, as a source makes keys.
    Selected(KeySelector),
    /// Null.
    None,
}

/// Which partition a record goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KafkaPartition {
    /// By the written key, as the Java client does (murmur2); null keys go to any.
    Key,
    /// By the bytes of what this JSON pointer finds, likewise.
    Field(String),
    /// The number that this JSON pointer finds.
    Explicit(String),
    /// To one partition a batch.
    Sticky,
}

/// Which timestamp a written record carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KafkaTimestamp {
    /// The record's, or the time of writing where it has none.
    Record,
    /// The time of writing.
    Written,
}

/// How batches of a sink are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KafkaCompression {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
    /// Snappy.
    Snappy,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
}
