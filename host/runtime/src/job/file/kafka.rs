//! Kafka sources and sinks as they are written.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::job::forms::{
    DurationText, IntervalText, Named, OneOrMany, PropertyEntry, SecretReference, lenient,
};

/// Topics of a Kafka cluster. Where reading goes on is part of each checkpoint.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::job) struct KafkaSource {
    /// Brokers to begin with, `host:port`, separated by commas; the others are found through them.
    #[serde(deserialize_with = "lenient")]
    pub brokers: String,
    /// How connections are encrypted: `true`, or settings. Default: false.
    #[serde(default, deserialize_with = "lenient")]
    pub tls: Option<TlsEntry>,
    /// Who we are. Default: nobody, without authentication.
    #[serde(default, deserialize_with = "lenient")]
    pub sasl: Option<SaslSection>,
    /// Properties of librdkafka by their names, for consumers; those that Weir sets itself are refused. Default: none.
    #[serde(default, deserialize_with = "lenient")]
    pub properties: Option<Named<PropertyEntry>>,
    /// The topic that is read. Required, unless there are `topics`.
    #[serde(default, deserialize_with = "lenient")]
    pub topic: Option<String>,
    /// The topics that are read: a list, or all that a pattern matches. Required, unless there is `topic`.
    #[serde(default, deserialize_with = "lenient")]
    pub topics: Option<TopicsEntry>,
    /// Where a partition is begun that no checkpoint knows. One that appears later is read from its oldest record in any case.
    /// Default: earliest.
    #[serde(default, deserialize_with = "lenient")]
    pub start: Option<StartEntry>,
    /// Where reading ends. Default: never.
    #[serde(default, deserialize_with = "lenient")]
    pub stop: Option<StopEntry>,
    /// Which records of transactions are read. Default: read-committed.
    #[serde(default, deserialize_with = "lenient")]
    pub isolation: Option<IsolationName>,
    /// The consumer group to which positions are committed after each checkpoint, for tools that show lag. Default: `weir-` and
    /// the job's name.
    #[serde(default, deserialize_with = "lenient")]
    pub group: Option<String>,
    /// How often new partitions, and with a pattern new topics, are looked for; or `never`, as with `stop` in any case. Default: 1m.
    #[serde(default, deserialize_with = "lenient")]
    pub discover: Option<IntervalText>,
    /// What happens where retention removed records before they were read. Default: fail.
    #[serde(default, deserialize_with = "lenient")]
    pub on_gap: Option<GapName>,
    /// What a value is. Default: raw.
    #[serde(default, deserialize_with = "lenient")]
    pub format: Option<KafkaFormatName>,
}

/// How connections to brokers are encrypted.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(in crate::job) enum TlsEntry {
    /// Whether they are.
    Switch(bool),
    /// They are, so.
    Settings(TlsSection),
}

/// How connections to brokers are encrypted. All files are PEM, and relative to the job file.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::job) struct TlsSection {
    /// The authorities that brokers' certificates must be signed by. Default: those of the system.
    #[serde(default, deserialize_with = "lenient")]
    pub ca: Option<String>,
    /// Our own certificate. Default: none, which does where brokers ask for none.
    #[serde(default, deserialize_with = "lenient")]
    pub certificate: Option<String>,
    /// Its private key. Required with `certificate`.
    #[serde(default, deserialize_with = "lenient")]
    pub key: Option<String>,
    /// The password of the private key, by reference. Default: it has none.
    #[serde(default, deserialize_with = "lenient")]
    #[schemars(with = "Option<SecretSection>")]
    pub key_password: Option<SecretReference>,
}

/// Who we are, and how that is proven.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::job) struct SaslSection {
    /// How the password is proven.
    #[serde(deserialize_with = "lenient")]
    pub mechanism: SaslMechanismName,
    /// The user.
    #[serde(deserialize_with = "lenient")]
    pub username: String,
    /// The password, by reference.
    #[serde(deserialize_with = "lenient")]
    #[schemars(with = "SecretSection")]
    pub password: SecretReference,
}

/// How a password is proven.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
pub(in crate::job) enum SaslMechanismName {
    /// By sending it, which only `tls` makes safe.
    #[default]
    #[serde(rename = "PLAIN")]
    Plain,
    /// By challenge and response over SHA-256.
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    /// By challenge and response over SHA-512.
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
}

/// Where a secret is: exactly one of these. A secret itself has no place in a job file. It is read when the job starts.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::job) struct SecretSection {
    /// A file that holds it, relative to the job file; a newline at its end does not count. Required, unless it is elsewhere.
    #[serde(default, deserialize_with = "lenient")]
    pub file: Option<String>,
    /// An environment variable that holds it. Required, unless it is elsewhere.
    #[serde(default, deserialize_with = "lenient")]
    pub env: Option<String>,
    /// A credential that the service manager hands over: a file of this name in `$CREDENTIALS_DIRECTORY`. Required, unless it is
    /// elsewhere.
    #[serde(default, deserialize_with = "lenient")]
    pub credential: Option<String>,
}

/// The topics that are read.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(in crate::job) enum TopicsEntry {
    /// These.
    Names(Vec<String>),
    /// Those that a pattern matches.
    Pattern(TopicPatternSection),
}

/// Topics by a pattern.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::job) struct TopicPatternSection {
    /// A regular expression over whole names. Topics that begin with `__` are never read.
    #[serde(deserialize_with = "lenient")]
    pub pattern: String,
}

/// Where a partition is begun.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(in crate::job) enum StartEntry {
    /// By a word.
    Word(StartName),
    /// At a place.
    Place(StartSection),
}

/// Where a partition is begun.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::job) enum StartName {
    /// At its oldest record.
    Earliest,
    /// Behind its newest record as of the job's first start.
    Latest,
    /// Where the group stands; a partition that the group has no offset for is refused.
    Committed,
}

/// Where a partition is begun: exactly one of these.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::job) struct StartSection {
    /// At its first record with this timestamp or a later one; RFC 3339. Required, unless there is another.
    #[serde(default, deserialize_with = "lenient")]
    pub timestamp: Option<String>,
    /// Where the group stands. Required, unless there is another.
    #[serde(default, deserialize_with = "lenient")]
    pub committed: Option<CommittedSection>,
    /// At these offsets, by topic and partition. Required, unless there is another.
    #[serde(default, deserialize_with = "lenient")]
    pub offsets: Option<Named<Named<u64>>>,
}

/// Where the group stands.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::job) struct CommittedSection {
    /// What happens with a partition that the group has no offset for. Default: fail.
    #[serde(default, deserialize_with = "lenient")]
    pub otherwise: Option<FallbackName>,
}

/// What happens with a partition that the group has no offset for.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::job) enum FallbackName {
    /// The job is refused.
    Fail,
    /// It is begun at its oldest record.
    Earliest,
    /// It is begun behind its newest record.
    Latest,
}

/// Where reading ends.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(in crate::job) enum StopEntry {
    /// By a word.
    Word(StopName),
    /// At offsets.
    Place(StopSection),
}

/// Where reading ends.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::job) enum StopName {
    /// It does not.
    Never,
    /// At the end of each partition as of the job's first start.
    Latest,
}

/// Where reading ends.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::job) struct StopSection {
    /// Before these offsets, by topic and partition; a partition that is not named is not read.
    #[serde(deserialize_with = "lenient")]
    pub offsets: Named<Named<u64>>,
}

/// Which records of transactions are read.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::job) enum IsolationName {
    /// Those of committed ones; records behind an open one wait for its end.
    ReadCommitted,
    /// All, those of aborted ones too.
    ReadUncommitted,
}

/// What happens where records were removed before they were read.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::job) enum GapName {
    /// The job fails, naming the gap.
    Fail,
    /// Reading goes on at the oldest record that is left, with a warning.
    Earliest,
    /// Reading goes on behind the newest record, with a warning.
    Latest,
}

/// What a value is.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::job) enum KafkaFormatName {
    /// Any bytes.
    Raw,
    /// UTF-8 text.
    String,
    /// One JSON text.
    Json,
}

/// A topic of a Kafka cluster that is written.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::job) struct KafkaSink {
    /// Brokers to begin with, `host:port`, separated by commas; the others are found through them.
    #[serde(deserialize_with = "lenient")]
    pub brokers: String,
    /// How connections are encrypted: `true`, or settings. Default: false.
    #[serde(default, deserialize_with = "lenient")]
    pub tls: Option<TlsEntry>,
    /// Who we are. Default: nobody, without authentication.
    #[serde(default, deserialize_with = "lenient")]
    pub sasl: Option<SaslSection>,
    /// Properties of librdkafka by their names, for producers; those that Weir sets itself are refused. Default: none.
    #[serde(default, deserialize_with = "lenient")]
    pub properties: Option<Named<PropertyEntry>>,
    /// The topic, which must be there; or a field of each value that names one.
    #[serde(deserialize_with = "lenient")]
    pub topic: TopicEntry,
    /// What a value must be. Default: raw.
    #[serde(default, deserialize_with = "lenient")]
    pub format: Option<KafkaFormatName>,
    /// The key: `record` for the record's own, `none`, or a field of the value (or a list of them), as for sources. Default: record.
    #[serde(default, deserialize_with = "lenient")]
    pub key: Option<OneOrMany<String>>,
    /// Which partition a record goes to. Default: key.
    #[serde(default, deserialize_with = "lenient")]
    pub partition_by: Option<PartitionEntry>,
    /// The headers of a record. Default: its own.
    #[serde(default, deserialize_with = "lenient")]
    pub headers: Option<HeadersSection>,
    /// Which timestamp a record gets. Default: record.
    #[serde(default, deserialize_with = "lenient")]
    pub timestamp: Option<TimestampName>,
    /// How batches are compressed. Default: none.
    #[serde(default, deserialize_with = "lenient")]
    pub compression: Option<KafkaCompressionName>,
    /// Exactly once: how long a transaction may stay open before the broker aborts it; at least 30s more than
    /// `checkpoint.fail_after`. Default: a minute more than `checkpoint.fail_after`.
    #[serde(default, deserialize_with = "lenient")]
    pub transaction_timeout: Option<DurationText>,
    /// Exactly once: the topic in which commits are recorded. Default: weir-commits.
    #[serde(default, deserialize_with = "lenient")]
    pub commit_topic: Option<String>,
    /// Exactly once: what the ids of the job's two producers begin with; they end in `-0` and `-1`. Default: `weir-` and the job's
    /// name.
    #[serde(default, deserialize_with = "lenient")]
    pub transactional_id: Option<String>,
}

/// Where records go.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(in crate::job) enum TopicEntry {
    /// Into one topic.
    Name(String),
    /// Each into the one that it names.
    Field(TopicFieldSection),
}

/// A topic that each value names.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::job) struct TopicFieldSection {
    /// JSON pointer of the field that names it.
    #[serde(deserialize_with = "lenient")]
    pub field: String,
    /// The topics that it may name.
    #[serde(deserialize_with = "lenient")]
    #[schemars(length(min = 1))]
    pub allowed: Vec<String>,
}

/// Which partition a record goes to.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(in crate::job) enum PartitionEntry {
    /// By a word.
    Word(PartitionName),
    /// By a field.
    Field(PartitionSection),
}

/// Which partition a record goes to.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::job) enum PartitionName {
    /// By its key, as Kafka's own clients do; without a key to any.
    Key,
    /// Batch by batch to another, whatever the key.
    Sticky,
}

/// Which partition a record goes to, by a field of its value: exactly one of these.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::job) struct PartitionSection {
    /// JSON pointer of a field that is used as a key would be. Required, unless there is `explicit`.
    #[serde(default, deserialize_with = "lenient")]
    pub field: Option<String>,
    /// JSON pointer of a field that holds the partition's number. Required, unless there is `field`.
    #[serde(default, deserialize_with = "lenient")]
    pub explicit: Option<String>,
}

/// The headers of a record.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::job) struct HeadersSection {
    /// Whether a record's own headers are written. Default: true.
    #[serde(default, deserialize_with = "lenient")]
    pub forward: Option<bool>,
    /// Headers that every record gets after its own. Default: none.
    #[serde(default, deserialize_with = "lenient")]
    pub add: Option<Named<String>>,
}

/// Which timestamp a record gets.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::job) enum TimestampName {
    /// Its own, or the time of writing where it has none.
    Record,
    /// The time of writing.
    Written,
}

/// How batches are compressed.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::job) enum KafkaCompressionName {
    /// Not compressed.
    None,
    /// gzip.
    Gzip,
    /// Snappy.
    Snappy,
    /// LZ4.
    Lz4,
    /// zstd.
    Zstd,
}
