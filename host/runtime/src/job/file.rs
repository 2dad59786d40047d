//! A job file as it is written: raw types, one a mapping of the file.
//!
//! Their doc comments are the descriptions in the JSON Schema. They hold what the file says and nothing else: defaults
//! and rules between fields are [`super::check`]'s, features of later releases are refused by [`super::later`].
//! Optional fields go through [`lenient`], so that a mistake in one does not hide those in the others.

mod kafka;
mod source;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::forms::{DurationText, Entries, OneOrMany, SizeText, lenient};

pub(super) use kafka::*;
pub(super) use source::*;

/// A Weir job: where records come from, which operators they pass, and where they go.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Weir job file")]
pub(super) struct JobFile {
    /// Version of the format: 1. Every later release reads it.
    #[serde(deserialize_with = "lenient")]
    #[schemars(range(min = 1, max = 1))]
    pub version: u64,
    /// The job's name, its identity: checkpoints and output are matched by it. Letters, digits, `-`, `_`, `.`; at most 64.
    #[serde(deserialize_with = "lenient")]
    pub job: String,
    /// What is promised of the output. Default: the strongest that each path from source to sink can give.
    #[serde(default, deserialize_with = "lenient")]
    pub delivery: Option<DeliveryName>,
    /// Subtasks of each source, operator and sink. Default: the CPUs of the machine or container.
    #[serde(default, deserialize_with = "lenient")]
    #[schemars(range(min = 1, max = 32768))]
    pub parallelism: Option<u64>,
    /// Highest parallelism the job can ever have; fixed for its life. Default: 128.
    #[serde(default, deserialize_with = "lenient")]
    #[schemars(range(min = 1, max = 32768))]
    pub max_parallelism: Option<u64>,
    /// Memory that the process may use; three quarters of it are for state. Default: 75 % of the limit of its container or of
    /// the machine's memory.
    #[serde(default, deserialize_with = "lenient")]
    pub memory: Option<SizeText>,
    /// Where working state lives. Default: `{backend: memory}`.
    #[serde(default, deserialize_with = "lenient")]
    #[expect(
        dead_code,
        reason = "the one backend there is needs no settings; naming it is allowed"
    )]
    pub state: Option<StateSection>,
    /// When and where checkpoints are taken. Default: none are taken, unless a sink writes files.
    #[serde(default, deserialize_with = "lenient")]
    pub checkpoint: Option<CheckpointSection>,
    /// What happens when the job fails. Default: `{strategy: exponential}`.
    #[serde(default, deserialize_with = "lenient")]
    pub restart: Option<RestartSection>,
    /// Where metrics and probes are served. Default: nowhere.
    #[serde(default, deserialize_with = "lenient")]
    pub metrics: Option<MetricsSection>,
    /// Sources by id. An id is what state is matched by across runs: letters, digits, `-`, `_`; at most 64.
    #[serde(deserialize_with = "lenient")]
    pub sources: Entries<SourceEntry>,
    /// Operators by id. Default: there are none.
    #[serde(default, deserialize_with = "lenient")]
    pub operators: Entries<OperatorEntry>,
    /// Sinks by id.
    #[serde(deserialize_with = "lenient")]
    pub sinks: Entries<SinkEntry>,
}

/// What is promised of the output.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(
    clippy::enum_variant_names,
    reason = "these are the words of the field"
)]
pub(super) enum DeliveryName {
    /// An effect may be lost on failure, never repeated.
    AtMostOnce,
    /// Nothing is lost; after a failure effects may be repeated.
    AtLeastOnce,
    /// Every effect is committed once.
    ExactlyOnce,
}

/// Where working state lives.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StateSection {
    /// The state backend.
    #[expect(
        dead_code,
        reason = "the one backend there is needs no settings; naming it is allowed"
    )]
    #[serde(deserialize_with = "lenient")]
    pub backend: StateBackend,
}

/// The state backend.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum StateBackend {
    /// In the process's memory.
    #[default]
    Memory,
}

/// When and where checkpoints are taken.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckpointSection {
    /// Directory of checkpoint storage. Default: `checkpoints` in the data directory.
    #[serde(default, deserialize_with = "lenient")]
    pub dir: Option<String>,
    /// From the start of one checkpoint to the next. Default: 10s.
    #[serde(default, deserialize_with = "lenient")]
    pub interval: Option<DurationText>,
    /// A checkpoint not finished within this is given up. Default: 2m.
    #[serde(default, deserialize_with = "lenient")]
    pub timeout: Option<DurationText>,
    /// The job fails when it had no good checkpoint for so long; at least `interval` and `timeout` together. Default: 8m.
    #[serde(default, deserialize_with = "lenient")]
    pub fail_after: Option<DurationText>,
    /// Checkpoints kept. Default: 3.
    #[serde(default, deserialize_with = "lenient")]
    #[schemars(range(min = 1, max = 1000))]
    pub retain: Option<u64>,
    /// Space that stays free where the job writes: with less, sources pause and no checkpoint is begun. Default: 1GiB, or a
    /// twentieth of a file system if that is less.
    #[serde(default, deserialize_with = "lenient")]
    pub reserve: Option<SizeText>,
}

/// Where metrics and probes are served, read-only, over HTTP.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MetricsSection {
    /// IP address and port, as in `127.0.0.1:9090`. Whoever reaches it can read the metrics.
    #[serde(deserialize_with = "lenient")]
    pub listen: String,
}

/// What happens when the job fails. Which other fields belong here depends on `strategy`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RestartSection {
    /// When to try again, and when to give up; which other fields belong here depends on it.
    #[serde(deserialize_with = "lenient")]
    pub strategy: RestartStrategy,
    /// `fixed`, `failure-rate`: pause before each restart. Default: 1s.
    #[serde(default, deserialize_with = "lenient")]
    pub delay: Option<DurationText>,
    /// `exponential`: first pause; each further one is twice as long. Default: 1s.
    #[serde(default, deserialize_with = "lenient")]
    pub first: Option<DurationText>,
    /// `exponential`: longest pause. Default: 2m.
    #[serde(default, deserialize_with = "lenient")]
    pub max: Option<DurationText>,
    /// `fixed`, `exponential`: restarts in a row, without good checkpoints between, before giving up. Default: 10.
    #[serde(default, deserialize_with = "lenient")]
    #[schemars(range(min = 1))]
    pub give_up_after: Option<u64>,
    /// `failure-rate`: gives up when more failures than this happen in the time `within`. Required with `failure-rate`.
    #[serde(default, deserialize_with = "lenient")]
    #[schemars(range(min = 1))]
    pub failures: Option<u64>,
    /// `failure-rate`: the time in which failures are counted. Required with `failure-rate`.
    #[serde(default, deserialize_with = "lenient")]
    pub within: Option<DurationText>,
}

/// When to try again, and when to give up.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RestartStrategy {
    /// The first failure ends the job.
    #[default]
    None,
    /// The same pause before each restart.
    Fixed,
    /// Pauses that double.
    Exponential,
    /// The same pause, until failures come too often.
    FailureRate,
}

/// An operator: a WebAssembly component and what feeds it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OperatorEntry {
    /// The component's file, relative to the job file.
    #[serde(deserialize_with = "lenient")]
    pub component: Component,
    /// What feeds the component's only input: one, or a list. Required, unless there are `inputs`.
    #[serde(default, deserialize_with = "lenient")]
    pub input: Option<OneOrMany<Input>>,
    /// What feeds each of the component's inputs, by their names. Required, unless there is `input`.
    #[serde(default, deserialize_with = "lenient")]
    pub inputs: Option<Entries<OneOrMany<Input>>>,
    /// Handed to the component, which declares what belongs here. Default: null.
    #[serde(default, deserialize_with = "lenient")]
    pub config: Option<Value>,
    /// What happens to a record that the component fails on. Default: fail.
    #[serde(default, deserialize_with = "lenient")]
    pub on_error: Option<ErrorPolicyEntry>,
    /// What the component may use up. Default: what its fields say.
    #[serde(default, deserialize_with = "lenient")]
    pub limits: Option<LimitsSection>,
    /// What happens to a record without a key where keys are needed. Default: fail.
    #[serde(default, deserialize_with = "lenient")]
    pub null_key: Option<NullKeyName>,
    /// Subtasks of this operator. Default: the job's.
    #[serde(default, deserialize_with = "lenient")]
    #[schemars(range(min = 1, max = 32768))]
    pub parallelism: Option<u64>,
}

/// A component's file.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(super) enum Component {
    /// Its path.
    Path(String),
    /// Its path and what it must contain.
    Pinned(PinnedComponent),
}

/// A component's file and what it must contain.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PinnedComponent {
    /// The path.
    #[serde(deserialize_with = "lenient")]
    pub file: String,
    /// SHA-256 of the file, 64 hexadecimal digits. Default: it may contain anything.
    #[serde(default, deserialize_with = "lenient")]
    pub sha256: Option<String>,
}

/// What one instance of a component may use up.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitsSection {
    /// Its memory. Default: 512MiB.
    #[serde(default, deserialize_with = "lenient")]
    pub memory: Option<SizeText>,
    /// Time a call may take, a call being a batch of up to 1,024 records. Default: 30s.
    #[serde(default, deserialize_with = "lenient")]
    pub call_time: Option<DurationText>,
    /// What a call may emit, and apart from that what it may write to state. Default: 64MiB.
    #[serde(default, deserialize_with = "lenient")]
    pub output: Option<SizeText>,
    /// A single key, value, item, name or namespace. Default: 64MiB.
    #[serde(default, deserialize_with = "lenient")]
    pub value: Option<SizeText>,
}

/// What happens to a record without a key where keys are needed.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum NullKeyName {
    /// The job fails, naming the record.
    Fail,
    /// It is counted and left out.
    Skip,
}

/// What feeds an operator or sink.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(super) enum Input {
    /// The id of a source or operator; `operator.output` for one of several outputs.
    From(String),
    /// The same, and how records are dealt to subtasks.
    Edge(Edge),
}

/// What feeds an operator or sink, and how.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Edge {
    /// The id of a source or operator; `operator.output` for one of several outputs.
    #[serde(deserialize_with = "lenient")]
    pub from: String,
    /// How records are dealt to subtasks. Default: `by-key` for inputs that need keys, else `forward` where the parallelism is the same, else `rebalance`.
    #[serde(default, deserialize_with = "lenient")]
    pub exchange: Option<ExchangeName>,
}

/// How records are dealt to subtasks.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ExchangeName {
    /// Each subtask feeds its counterpart; both sides have the same parallelism.
    Forward,
    /// Records of the same key go to the same subtask.
    ByKey,
    /// In turn.
    Rebalance,
}

/// A sink: exactly one connector (`file`, `kafka`, `stdout` or `blackhole`), and what feeds it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SinkEntry {
    /// What feeds it: one, or a list. Required, unless it takes only dead letters.
    #[serde(default, deserialize_with = "lenient")]
    pub input: Option<OneOrMany<Input>>,
    /// Writes files that appear whole and once. Required, unless the sink has another connector.
    #[serde(default, deserialize_with = "lenient")]
    pub file: Option<FileSink>,
    /// Writes topics of a Kafka cluster. Required, unless the sink has another connector.
    #[serde(default, deserialize_with = "lenient")]
    pub kafka: Option<KafkaSink>,
    /// Writes lines to standard output. Required, unless the sink has another connector.
    #[serde(default, deserialize_with = "lenient")]
    pub stdout: Option<Nothing>,
    /// Counts records and drops them. Required, unless the sink has another connector.
    #[serde(default, deserialize_with = "lenient")]
    pub blackhole: Option<Nothing>,
    /// What happens to a record that cannot be written; for `kafka` only. Default: fail.
    #[serde(default, deserialize_with = "lenient")]
    pub on_error: Option<ErrorPolicyEntry>,
    /// Subtasks of this sink. Default: the job's.
    #[serde(default, deserialize_with = "lenient")]
    #[schemars(range(min = 1, max = 32768))]
    pub parallelism: Option<u64>,
}

/// Files that appear whole and once.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FileSink {
    /// The directory, relative to the job file. It belongs to this sink alone, and is created if its parent is there.
    #[serde(deserialize_with = "lenient")]
    pub dir: String,
    /// What a value is. Default: raw.
    #[serde(default, deserialize_with = "lenient")]
    pub format: Option<SinkFormatName>,
    /// How CSV is written. Required with `format: csv`.
    #[serde(default, deserialize_with = "lenient")]
    pub csv: Option<SinkCsvSection>,
    /// When a file is complete and another is begun. Default: `{size: 128MiB, age: 10m}`.
    #[serde(default, deserialize_with = "lenient")]
    pub roll: Option<RollSection>,
    /// How the files are compressed. Default: none.
    #[serde(default, deserialize_with = "lenient")]
    pub compression: Option<SinkCompressionEntry>,
}

/// How files are compressed.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(super) enum SinkCompressionEntry {
    /// By a word, at the default level.
    Method(SinkCompressionName),
    /// At a level.
    Section(SinkCompressionSection),
}

/// How files are compressed.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SinkCompressionName {
    /// Not compressed.
    #[default]
    None,
    /// gzip.
    Gzip,
    /// zstd.
    Zstd,
}

/// How files are compressed, and how hard.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SinkCompressionSection {
    /// gzip or zstd.
    #[serde(deserialize_with = "lenient")]
    pub method: SinkCompressionName,
    /// From fast to small: 1 to 9 for gzip, 1 to 19 for zstd. Default: 6 for gzip, 3 for zstd.
    #[serde(default, deserialize_with = "lenient")]
    #[schemars(range(min = 1, max = 19))]
    pub level: Option<u64>,
}

/// When a file is complete and another is begun.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RollSection {
    /// When it has so many bytes. Default: 128MiB.
    #[serde(default, deserialize_with = "lenient")]
    pub size: Option<SizeText>,
    /// At the first checkpoint at which it is so old; `0s`: at each. Where `checkpoint.interval` is set, 60 times that. Default: 10m.
    #[serde(default, deserialize_with = "lenient")]
    pub age: Option<DurationText>,
}

/// What a written value is.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SinkFormatName {
    /// A line as it is.
    Raw,
    /// A line that is a JSON value.
    Json,
    /// A JSON object, written as a CSV row.
    Csv,
}

/// How CSV is written.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SinkCsvSection {
    /// The members of each value that are written, in order.
    #[serde(deserialize_with = "lenient")]
    #[schemars(length(min = 1))]
    pub columns: Vec<String>,
    /// The character between fields. Default: a comma.
    #[serde(default, deserialize_with = "lenient")]
    pub delimiter: Option<String>,
    /// The character around fields that need it, or `none`. Default: a double quote.
    #[serde(default, deserialize_with = "lenient")]
    pub quote: Option<String>,
    /// What is written for null. Default: nothing.
    #[serde(default, deserialize_with = "lenient")]
    pub null: Option<String>,
    /// Whether each file begins with the names of its columns. Default: true.
    #[serde(default, deserialize_with = "lenient")]
    pub header: Option<bool>,
    /// What happens to a value without one of the members. Default: fail.
    #[serde(default, deserialize_with = "lenient")]
    pub missing: Option<MissingName>,
}

/// What happens to a value without one of the members.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum MissingName {
    /// The job fails.
    Fail,
    /// It is written as null is.
    Empty,
}

/// No settings: `{}`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}
