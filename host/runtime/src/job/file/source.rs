//! Sources as they are written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::KafkaSource;
use crate::job::forms::{Count, DurationText, OneOrMany, lenient};

/// A source: exactly one connector (`file`, `kafka`, `stdin` or `generator`), and how its bytes become records.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::job) struct SourceEntry {
    /// Reads files, each once and whole. Required, unless the source has another connector.
    #[serde(default, deserialize_with = "lenient")]
    pub file: Option<FileSource>,
    /// Reads topics of a Kafka cluster. Required, unless the source has another connector.
    #[serde(default, deserialize_with = "lenient")]
    pub kafka: Option<KafkaSource>,
    /// Reads standard input, which cannot be read again after a failure. Required, unless the source has another connector.
    #[serde(default, deserialize_with = "lenient")]
    pub stdin: Option<StdinSource>,
    /// Makes up JSON records, the same on every run. Required, unless the source has another connector.
    #[serde(default, deserialize_with = "lenient")]
    pub generator: Option<GeneratorSource>,
    /// Which field becomes the key: a JSON pointer like `/origin`, or a list of them. Default: none, so that every key is
    /// null, but those of a generator and of Kafka's records.
    #[serde(default, deserialize_with = "lenient")]
    pub key: Option<OneOrMany<String>>,
    /// Which field becomes the timestamp. Default: records have no time, but those of a generator.
    #[serde(default, deserialize_with = "lenient")]
    pub event_time: Option<EventTimeSection>,
    /// What happens to input that cannot be decoded. Default: fail.
    #[serde(default, deserialize_with = "lenient")]
    pub on_error: Option<ErrorPolicyEntry>,
    /// Reads at most so many records a second, all subtasks together. Default: no limit.
    #[serde(default, deserialize_with = "lenient")]
    #[schemars(range(min = 1))]
    pub rate: Option<u64>,
    /// Subtasks of this source. Default: the job's.
    #[serde(default, deserialize_with = "lenient")]
    #[schemars(range(min = 1, max = 32768))]
    pub parallelism: Option<u64>,
}

/// Files, each read once and whole, in the order of their names.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::job) struct FileSource {
    /// Paths or patterns (`*`, `?`, `[…]`, `**`), relative to the job file.
    #[serde(deserialize_with = "lenient")]
    #[schemars(length(min = 1))]
    pub paths: Vec<String>,
    /// What a record is. Default: raw.
    #[serde(default, deserialize_with = "lenient")]
    pub format: Option<FormatName>,
    /// How the files are compressed. Default: auto.
    #[serde(default, deserialize_with = "lenient")]
    pub compression: Option<CompressionName>,
    /// How CSV is written. Default: with commas and double quotes.
    #[serde(default, deserialize_with = "lenient")]
    pub csv: Option<CsvSection>,
    /// Whether files that appear later are read as well, so that the input has no end. Default: false.
    #[serde(default, deserialize_with = "lenient")]
    pub watch: Option<WatchEntry>,
}

/// Whether files that appear later are read.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(in crate::job) enum WatchEntry {
    /// Whether they are.
    Switch(bool),
    /// They are, looked for at an interval.
    On(WatchSection),
}

/// Files that appear later are read.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::job) struct WatchSection {
    /// How often to look for them. Default: 1s.
    #[serde(default, deserialize_with = "lenient")]
    pub every: Option<DurationText>,
}

/// Standard input.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::job) struct StdinSource {
    /// What a record is. Default: raw.
    #[serde(default, deserialize_with = "lenient")]
    pub format: Option<FormatName>,
    /// How CSV is written. Default: with commas and double quotes.
    #[serde(default, deserialize_with = "lenient")]
    pub csv: Option<CsvSection>,
}

/// Made up records: record number i depends on i and these settings only.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::job) struct GeneratorSource {
    /// How many records in all, or `unbounded`.
    #[serde(deserialize_with = "lenient")]
    pub records: Count,
    /// Number of distinct keys. Default: 1000.
    #[serde(default, deserialize_with = "lenient")]
    #[schemars(range(min = 1))]
    pub keys: Option<u64>,
    /// Length of a value in bytes. Default: 100.
    #[serde(default, deserialize_with = "lenient")]
    #[schemars(range(min = 16))]
    pub value_bytes: Option<u64>,
    /// Parts the sequence is dealt to: the highest useful parallelism. Default: 8.
    #[serde(default, deserialize_with = "lenient")]
    #[schemars(range(min = 1))]
    pub splits: Option<u64>,
    /// Timestamp of the first record, RFC 3339. Default: 2020-01-01T00:00:00Z.
    #[serde(default, deserialize_with = "lenient")]
    pub start: Option<String>,
    /// Time from one record to the next, whole microseconds. Default: 1ms.
    #[serde(default, deserialize_with = "lenient")]
    pub step: Option<DurationText>,
    /// Timestamps are moved back by up to this, whole milliseconds. Default: 0s.
    #[serde(default, deserialize_with = "lenient")]
    pub disorder: Option<DurationText>,
}

/// What a record is.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::job) enum FormatName {
    /// A line as it is.
    Raw,
    /// A line that is a JSON value.
    Json,
    /// A CSV row as a JSON object of strings, named by the header.
    Csv,
}

/// Compression of input files.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::job) enum CompressionName {
    /// By each file's first bytes.
    Auto,
    /// Not compressed.
    None,
    /// gzip.
    Gzip,
    /// zstd.
    Zstd,
}

/// How CSV is written.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::job) struct CsvSection {
    /// The character between fields, one of ASCII. Default: `,`.
    #[serde(default, deserialize_with = "lenient")]
    pub delimiter: Option<String>,
    /// The character around fields, one of ASCII, or `none`. Default: `"`.
    #[serde(default, deserialize_with = "lenient")]
    pub quote: Option<String>,
    /// A field with this text becomes null. Default: none does.
    #[serde(default, deserialize_with = "lenient")]
    pub null: Option<String>,
    /// Whether the first row names the columns; if not, they are `1`, `2` … or called as listed here. Default: true.
    #[serde(default, deserialize_with = "lenient")]
    pub header: Option<HeaderEntry>,
}

/// Where columns get their names from.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(in crate::job) enum HeaderEntry {
    /// Whether from the first row.
    Switch(bool),
    /// From here.
    Names(Vec<String>),
}

/// Which field becomes the timestamp, and how far out of order it comes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::job) struct EventTimeSection {
    /// JSON pointer of the field, like `/scheduled`. Required, except for a generator, which stamps its records itself, and for
    /// Kafka, where without it the timestamps of its records are meant.
    #[serde(default, deserialize_with = "lenient")]
    pub field: Option<String>,
    /// How the time is written. Required with `field`.
    #[serde(default, deserialize_with = "lenient")]
    pub format: Option<TimeFormatName>,
    /// How far behind the highest timestamp a record may come and still be in time. Default: 0s.
    #[serde(default, deserialize_with = "lenient")]
    pub out_of_order: Option<DurationText>,
    /// A part of the input with nothing to read for this long no longer holds back event time. Default: 30s.
    #[serde(default, deserialize_with = "lenient")]
    pub idle: Option<DurationText>,
}

/// How a time is written.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::job) enum TimeFormatName {
    /// RFC 3339 with offset, like 2013-01-01T05:15:00-05:00.
    #[default]
    Rfc3339,
    /// Seconds since 1970, decimals allowed.
    Seconds,
    /// Milliseconds since 1970.
    Millis,
    /// Microseconds since 1970.
    Micros,
    /// Nanoseconds since 1970.
    Nanos,
}

/// What happens to what cannot be decoded, or processed.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(in crate::job) enum ErrorPolicyEntry {
    /// By a word.
    Policy(ErrorPolicyName),
    /// To a sink.
    DeadLetter(DeadLetterSection),
}

/// What happens to input that cannot be decoded.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::job) enum ErrorPolicyName {
    /// The job fails, naming the record and where it is from.
    Fail,
    /// It is counted and left out.
    Skip,
}

/// It goes to a sink, with its place and the reason.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::job) struct DeadLetterSection {
    /// The sink's id.
    #[serde(deserialize_with = "lenient")]
    pub dead_letter: String,
}
