//! A job file as it is written: raw types, one a mapping of the file.
//!
//! Their doc comments are the descriptions in the JSON Schema. They hold what the file says and nothing else: defaults
//! and rules between fields are [`super::check`]'s, features of later releases are refused by [`super::later`].
//! Optional fields go through [`lenient`], so that a mistake in one does not hide those in the others.

mod source;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::forms::{DurationText, Entries, OneOrMany, SizeText, lenient};

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
    /// Where working state lives.
    #[serde(default, deserialize_with = "lenient")]
    #[expect(
        dead_code,
        reason = "the one backend there is needs no settings; naming it is allowed"
    )]
    pub state: Option<StateSection>,
    /// When and where checkpoints are taken.
    #[serde(default, deserialize_with = "lenient")]
    pub checkpoint: Option<CheckpointSection>,
    /// What happens when the job fails. Default: exponential.
    #[serde(default, deserialize_with = "lenient")]
    pub restart: Option<RestartSection>,
    /// Sources by id. An id is what state is matched by across runs: letters, digits, `-`, `_`; at most 64.
    #[serde(deserialize_with = "lenient")]
    pub sources: Entries<SourceEntry>,
    /// Operators by id.
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

/// What happens when the job fails. Which other fields belong here depends on `strategy`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RestartSection {
    /// When to try again, and when to give up.
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
    /// `failure-rate`: gives up when more than so many failures happen …
    #[serde(default, deserialize_with = "lenient")]
    #[schemars(range(min = 1))]
    pub failures: Option<u64>,
    /// `failure-rate`: … in this time.
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
    /// What feeds the component's only input.
    #[serde(default, deserialize_with = "lenient")]
    pub input: Option<OneOrMany<Input>>,
    /// What feeds each of the component's inputs, by their names.
    #[serde(default, deserialize_with = "lenient")]
    pub inputs: Option<Entries<OneOrMany<Input>>>,
    /// Handed to the component, which declares what belongs here.
    #[serde(default, deserialize_with = "lenient")]
    pub config: Option<Value>,
    /// What happens to a record that the component fails on. Default: fail.
    #[serde(default, deserialize_with = "lenient")]
    pub on_error: Option<ErrorPolicyEntry>,
    /// What the component may use up.
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
    /// SHA-256 of the file, 64 hexadecimal digits.
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
    /// How records are dealt to subtasks. Default: by-key for inputs that need keys, else forward.
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

/// A sink: exactly one connector (`file`, `stdout` or `blackhole`), and what feeds it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SinkEntry {
    /// What feeds it. Left out where it takes only dead letters.
    #[serde(default, deserialize_with = "lenient")]
    pub input: Option<OneOrMany<Input>>,
    /// Writes files that appear whole and once.
    #[serde(default, deserialize_with = "lenient")]
    pub file: Option<FileSink>,
    /// Writes lines to standard output.
    #[serde(default, deserialize_with = "lenient")]
    pub stdout: Option<Nothing>,
    /// Counts records and drops them.
    #[serde(default, deserialize_with = "lenient")]
    pub blackhole: Option<Nothing>,
    /// Subtasks of this sink. Default: the job's.
    #[serde(default, deserialize_with = "lenient")]
    #[schemars(range(min = 1, max = 32768))]
    pub parallelism: Option<u64>,
}

/// Files that appear whole and once.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FileSink {
    /// The directory, relative to the job file. It belongs to this sink alone.
    #[serde(deserialize_with = "lenient")]
    pub dir: String,
    /// What a value is. Default: raw.
    #[serde(default, deserialize_with = "lenient")]
    pub format: Option<SinkFormatName>,
}

/// What a written value is.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SinkFormatName {
    /// A line as it is.
    Raw,
    /// A line that is a JSON value.
    Json,
}

/// No settings: `{}`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}
