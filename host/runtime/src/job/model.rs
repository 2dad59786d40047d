//! A job as the runtime sees it: checked, defaults filled in, paths absolute.
//!
//! [`crate::job::load`] reads the YAML into raw types and converts them into these. Nothing here can
//! hold an invalid combination that the job file alone could show; what needs components or the
//! file system (ports, states, existing inputs) is checked later, in [`crate::graph`] and by the connectors.

mod kafka;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use kafka::*;

/// The identity of a job: state, locks and output witnesses carry it.
///
/// 1 to 64 characters of `a-z`, `A-Z`, `0-9`, `-`, `_` and `.`, the first a letter or digit.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobName(String);

/// The id of a source, operator or sink: what its state is matched by across runs.
///
/// Same alphabet as [`JobName`], without the dot, which separates an operator from its output in `from: clean.ok`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(String);

fn is_name(text: &str, extra: &[char]) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || extra.contains(&c))
}

impl JobName {
    /// The name, or `None` if it breaks the alphabet or is longer than 64 characters.
    pub fn new(text: impl Into<String>) -> Option<JobName> {
        let text = text.into();
        is_name(&text, &['-', '_', '.']).then_some(JobName(text))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl NodeId {
    /// The id, or `None` if it breaks the alphabet or is longer than 64 characters.
    pub fn new(text: impl Into<String>) -> Option<NodeId> {
        let text = text.into();
        is_name(&text, &['-', '_']).then_some(NodeId(text))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// A place in a job file, for messages about what is found wrong after parsing. Lines and columns count from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Line, from 1; 0 where there is none (a job built in code).
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

/// Where a value of an operator's `config:` stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigPlace {
    /// Of its field's name, or of the value itself in a list.
    pub key: Place,
    /// Of the value.
    pub value: Place,
    /// Whether messages must not show it: a variable went into it, or its name says so.
    pub secret: bool,
}

/// What a job promises of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Delivery {
    /// An effect may be lost on failure, never repeated: output goes out at once, and a restart goes on with new input.
    AtMostOnce,
    /// Nothing is lost; after a failure effects since the last checkpoint may be repeated.
    AtLeastOnce,
    /// An effect is committed once, whatever is killed when.
    ExactlyOnce,
}

/// A whole job.
#[derive(Clone, Debug)]
pub struct Job {
    /// Identity.
    pub name: JobName,
    /// The job file, absolute.
    pub file: PathBuf,
    /// The folder of the job file, absolute: what its relative paths were resolved against.
    pub dir: PathBuf,
    /// The delivery asked for; `None` asks for the strongest that each path can give.
    pub delivery: Option<Delivery>,
    /// Subtasks of every operator and source, unless its own `parallelism` says otherwise. `None`: the CPUs of the cgroup, decided at start.
    pub parallelism: Option<u16>,
    /// Number of key groups, fixed for the job's life.
    pub max_parallelism: u16,
    /// Bytes that the process may use; `None`: by the limits of its container or machine, decided at start.
    pub memory: Option<u64>,
    /// Checkpointing as asked for; `None` where the file has no `checkpoint:`.
    pub checkpoint: Option<CheckpointSettings>,
    /// What happens when an attempt fails.
    pub restart: Restart,
    /// Where metrics and probes are served; `None`: nowhere.
    pub metrics: Option<SocketAddr>,
    /// Sources in file order.
    pub sources: Vec<Source>,
    /// Operators in file order.
    pub operators: Vec<Operator>,
    /// Sinks in file order.
    pub sinks: Vec<Sink>,
}

/// When and where checkpoints are taken.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckpointSettings {
    /// Checkpoint storage; `None`: `checkpoints` under the data directory.
    pub dir: Option<PathBuf>,
    /// From the confirmation of one checkpoint's barrier to the next barrier.
    pub interval: Duration,
    /// A checkpoint not finished within this is given up.
    pub timeout: Duration,
    /// The attempt fails when so long has passed since the barrier of the last confirmed checkpoint.
    pub fail_after: Duration,
    /// Confirmed checkpoints kept, at least 1.
    pub retain: u32,
    /// Bytes that stay free where the job writes; `None`: by the size of each file system.
    pub reserve: Option<u64>,
}

impl Default for CheckpointSettings {
    fn default() -> Self {
        CheckpointSettings {
            dir: None,
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(120),
            fail_after: Duration::from_secs(480),
            retain: 3,
            reserve: None,
        }
    }
}

/// Restart strategies, Flink's.
#[derive(Clone, Debug, PartialEq)]
pub enum Restart {
    /// The first failure ends the job.
    None,
    /// A constant pause before each of at most `give_up_after` restarts in a row.
    Fixed {
        /// The pause.
        delay: Duration,
        /// Restarts in a row (without a confirmed checkpoint between) before giving up.
        give_up_after: u32,
    },
    /// A pause that doubles from `first` to `max`, with jitter.
    Exponential {
        /// First pause.
        first: Duration,
        /// Longest pause.
        max: Duration,
        /// Restarts in a row before giving up.
        give_up_after: u32,
    },
    /// Gives up when more than `failures` happen within `within`.
    FailureRate {
        /// Failures tolerated.
        failures: u32,
        /// The sliding interval.
        within: Duration,
        /// Pause before each restart.
        delay: Duration,
    },
}

impl Default for Restart {
    fn default() -> Self {
        Restart::Exponential {
            first: Duration::from_secs(1),
            max: Duration::from_secs(120),
            give_up_after: 10,
        }
    }
}

/// A source: a connector and how its bytes become records.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its id.
    pub id: NodeId,
    /// Where the id stands.
    pub place: Place,
    /// Where bytes come from.
    pub connector: SourceConnector,
    /// How bytes become values.
    pub format: Format,
    /// What becomes the key; `None`: every key is null, or with Kafka that of its record.
    pub key: Option<KeySelector>,
    /// What becomes the timestamp; `None`: records carry none and the watermark stays at its minimum until the end.
    pub event_time: Option<EventTime>,
    /// What happens to input that cannot be decoded.
    pub on_error: ErrorPolicy,
    /// At most so many records a second over all subtasks.
    pub rate: Option<u64>,
    /// Own parallelism, if not the job's.
    pub parallelism: Option<u16>,
}

/// Where a source's bytes come from.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceConnector {
    /// Files, read whole, each once.
    File {
        /// Absolute paths or glob patterns.
        paths: Vec<String>,
        /// How they are compressed.
        compression: Compression,
        /// How often to look for files that have appeared; `None`: those that are there at the start are all.
        watch: Option<Duration>,
    },
    /// Standard input; cannot be replayed.
    Stdin,
    /// Made up records, the same on every run.
    Generator(Generator),
    /// Topics of a Kafka cluster.
    Kafka(Box<KafkaSource>),
}

/// Compression of input files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// By the file's first bytes (gzip and zstd magic numbers).
    Auto,
    /// None.
    Plain,
    /// gzip, members concatenated.
    Gzip,
    /// zstd, frames concatenated.
    Zstd,
}

/// Made up records: record `i` is a pure function of `i` and these settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Generator {
    /// How many in all; `None` never ends.
    pub records: Option<u64>,
    /// Distinct keys.
    pub keys: u64,
    /// Length of a value in bytes, at least 16.
    pub value_bytes: usize,
    /// Number of splits the sequence is dealt to: the highest useful parallelism of the source.
    pub splits: u32,
    /// Timestamp of record 0, milliseconds since the epoch.
    pub start: i64,
    /// Timestamps grow by this many microseconds a record.
    pub step_micros: u64,
    /// Timestamps are moved back by up to this many milliseconds, pseudo-randomly: disorder.
    pub disorder: u64,
}

/// How a source's bytes become values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// A line is a value, its bytes unchanged (without the line's end).
    Raw,
    /// As raw, and each value must be UTF-8. Kafka only.
    Text,
    /// As raw, and each line must be a JSON value; key and time pointers work.
    Json,
    /// A row is a JSON object of strings by the header's names.
    Csv {
        /// Between fields.
        delimiter: u8,
        /// Around fields; `None`: nothing is quoted, so a row is a line.
        quote: Option<u8>,
        /// A field equal to this becomes null.
        null: Option<String>,
        /// Where columns get their names from.
        header: Header,
    },
}

/// Where the columns of a CSV file get their names from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Header {
    /// From its first row.
    First,
    /// From the job file; the first row is a record.
    Names(Vec<String>),
    /// From their positions: `1`, `2` … The first row is a record and says how many there are.
    Numbered,
}

/// What becomes the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySelector {
    /// One JSON pointer (RFC 6901): the string's bytes, or the JSON text of another scalar. Missing or null: a null key.
    Pointer(String),
    /// Several: a JSON array of their values, null where missing.
    Pointers(Vec<String>),
}

/// What becomes the timestamp, and how far out of order it comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventTime {
    /// JSON pointer of the field; empty for a generator, which stamps its records itself, and for Kafka where the timestamps of
    /// its records are meant.
    pub field: String,
    /// How it is written.
    pub format: TimeFormat,
    /// The watermark is the highest timestamp seen less this, less 1 ms.
    pub out_of_order: Duration,
    /// A split with nothing to read for this long no longer holds the watermark.
    pub idle: Duration,
}

/// How a timestamp is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeFormat {
    /// RFC 3339 text with offset.
    Rfc3339,
    /// Seconds since the epoch, integer or decimal, number or string.
    Seconds,
    /// Milliseconds since the epoch, number or string.
    Millis,
    /// Microseconds since the epoch, rounded down to milliseconds.
    Micros,
    /// Nanoseconds since the epoch, rounded down to milliseconds.
    Nanos,
}

/// What happens to input that cannot be decoded (malformed, key or time of the wrong sort), and to records that an operator fails on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorPolicy {
    /// The job fails with file and line.
    Fail,
    /// It is counted and left out.
    Skip,
    /// It goes to this sink with its context.
    DeadLetter(NodeId),
}

/// An operator.
#[derive(Clone, Debug)]
pub struct Operator {
    /// Its id.
    pub id: NodeId,
    /// Where the id stands.
    pub place: Place,
    /// The component's file, absolute.
    pub component: PathBuf,
    /// SHA-256 the file must have, lower-case hex.
    pub sha256: Option<String>,
    /// Its inputs. One without `port` feeds the component's only input.
    pub inputs: Vec<Input>,
    /// JSON text handed to the component; `null` where there is no `config:`.
    pub config: String,
    /// Where the values in `config:` stand, by JSON pointer; the whole has the empty one.
    pub config_places: BTreeMap<String, ConfigPlace>,
    /// Own parallelism, if not the job's.
    pub parallelism: Option<u16>,
    /// A null key at a keyed input.
    pub null_key: NullKey,
    /// What an instance of the component may use up.
    pub limits: Limits,
    /// What happens to a record that the component fails on.
    pub on_error: ErrorPolicy,
}

/// What an instance of a component may use up. What is not set has the loader's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of its memory.
    pub memory: Option<u64>,
    /// Time of a call.
    pub call_time: Option<Duration>,
    /// Bytes that a call may emit, and apart from that write to state.
    pub output: Option<u64>,
    /// Bytes of a single key, value, item, name or namespace.
    pub value: Option<u64>,
}

/// A null key at a keyed input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NullKey {
    /// The job fails, naming the record.
    Fail,
    /// It is counted and left out.
    Skip,
}

/// One edge into an operator or sink.
#[derive(Clone, Debug)]
pub struct Input {
    /// The component's input that it feeds; `None`: its only one.
    pub port: Option<String>,
    /// The upstream node.
    pub from: NodeId,
    /// The upstream's named output; `None`: its first.
    pub output: Option<String>,
    /// How records are dealt out; `None`: by the input's kind (keyed: by key, else forward).
    pub exchange: Option<Exchange>,
    /// Where it stands.
    pub place: Place,
}

/// How an edge's records are dealt to the downstream's subtasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// Subtask i to subtask i; both sides have the same parallelism.
    Forward,
    /// By the key's group.
    ByKey,
    /// Batches in turn.
    Rebalance,
}

/// A sink.
#[derive(Clone, Debug)]
pub struct Sink {
    /// Its id.
    pub id: NodeId,
    /// Where the id stands.
    pub place: Place,
    /// Its inputs; empty only where it takes dead letters alone.
    pub inputs: Vec<Input>,
    /// Where bytes go.
    pub connector: SinkConnector,
    /// What happens to a record that cannot be written. Other than by failing with Kafka only.
    pub on_error: ErrorPolicy,
    /// Own parallelism, if not the job's (standard output is always 1).
    pub parallelism: Option<u16>,
}

/// Where a sink's bytes go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkConnector {
    /// Files in a directory, exactly once.
    File {
        /// The directory, absolute; created if its parent exists.
        dir: PathBuf,
        /// How values are written.
        format: SinkFormat,
        /// When a part is complete.
        roll: Roll,
        /// How parts are compressed.
        compression: SinkCompression,
    },
    /// Standard output, one value a line.
    Stdout,
    /// Counts and drops.
    Blackhole,
    /// A topic of a Kafka cluster, exactly once.
    Kafka(Box<KafkaSink>),
}

/// How the parts of a file sink are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkCompression {
    /// Not at all.
    None,
    /// gzip, a member a checkpoint; files end in `.gz`.
    Gzip {
        /// 1 to 9.
        level: u8,
    },
    /// zstd, a frame a checkpoint; files end in `.zst`.
    Zstd {
        /// 1 to 19.
        level: u8,
    },
}

/// When a part of a file sink is complete, and the next record begins another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roll {
    /// As soon as it has so many bytes.
    pub size: u64,
    /// At the first checkpoint at which its first record was written so long ago; zero: at each.
    pub age: Duration,
}

impl Roll {
    /// So many checkpoint intervals make the age of a part, unless the job file says otherwise.
    pub const INTERVALS: u32 = 60;

    /// What holds where the job file says nothing and a checkpoint is taken each `interval`.
    pub fn every(interval: Duration) -> Roll {
        Roll {
            size: 128 << 20,
            age: interval.saturating_mul(Self::INTERVALS),
        }
    }
}

impl Default for Roll {
    /// At the default interval.
    fn default() -> Self {
        Roll::every(CheckpointSettings::default().interval)
    }
}

/// How a file sink writes values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkFormat {
    /// The value and a newline; a value that contains a newline is an error. Files end in `.txt`.
    Raw,
    /// As raw, and each value must be one JSON text. Files end in `.jsonl`.
    Json,
    /// Each value is a JSON object, of which some members become a row. Files end in `.csv`.
    Csv(CsvOutput),
}

/// How rows are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvOutput {
    /// Names of the members that are written, in order.
    pub columns: Vec<String>,
    /// Between fields.
    pub delimiter: u8,
    /// Around fields that need it; `None`: such a field is refused.
    pub quote: Option<u8>,
    /// What stands for null.
    pub null: String,
    /// Whether each file begins with the names of its columns.
    pub header: bool,
    /// Whether a member that is missing is written as null; otherwise the record is refused.
    pub missing_is_null: bool,
}
