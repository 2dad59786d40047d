//! The jobs that read and write Kafka, and what they commit when nothing disturbs them.
//!
//! What that is, the same jobs say with files in the place of topics: so neither a broker nor a client of Kafka's has a part in what is taken
//! for right.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::super::subject::Lines;
use crate::host::Host;
use crate::kafka::{Record, Topics};
use crate::place::{Place, Start};
use crate::random::Random;

/// How long things may take, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// A checkpoint.
    checkpoint: u64,
    /// From one good checkpoint to the next.
    fail_after: u64,
    /// A transaction.
    transaction: u64,
}

impl Times {
    /// As short as a job may have them: an attempt does not wait long for a broker.
    pub(super) const SHORT: Times = Times {
        checkpoint: 4,
        fail_after: 15,
        transaction: 45,
    };

    /// So long that an attempt sits out that a broker is started again.
    pub(super) const LONG: Times = Times {
        checkpoint: 60,
        fail_after: 75,
        transaction: 105,
    };

    /// How long a broker lets a transaction be open.
    pub(super) fn transaction(self) -> Duration {
        Duration::from_secs(self.transaction)
    }

    /// The job file's section `checkpoint`, but for the interval.
    pub(super) fn checkpoint(self) -> String {
        format!(
            "timeout: {}s, fail_after: {}s",
            self.checkpoint, self.fail_after
        )
    }
}

/// Partitions of the topic that is read.
const PARTITIONS: i32 = 4;
/// Partitions of the topic that is written.
const WRITTEN: i32 = 3;
/// Records in each partition.
const LENGTH: u64 = 2_000;
/// Records that are made up.
const MADE_UP: u64 = 20_000;
/// Splits that they are dealt to.
const SPLITS: u64 = 4;

/// Which job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Made-up records to a topic, without an operator in between.
    Copied,
    /// A topic through a ledger, with keyed state, to a topic that two sinks write to.
    Keyed,
    /// The same, and to files as well.
    Both,
}

impl Kind {
    /// Each.
    pub const ALL: [Kind; 3] = [Kind::Copied, Kind::Keyed, Kind::Both];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Copied => "copied",
            Kind::Keyed => "keyed",
            Kind::Both => "both",
        }
    }

    /// Directories of its file sinks below `out`.
    pub(super) fn file_sinks(self) -> &'static [&'static str] {
        match self {
            Kind::Copied | Kind::Keyed => &[],
            Kind::Both => &["ledger", "copy"],
        }
    }

    /// Records a second for the input to last about so long.
    fn rate(self, seconds: u64) -> u64 {
        let records = match self {
            Kind::Copied => MADE_UP,
            Kind::Keyed | Kind::Both => LENGTH * PARTITIONS as u64,
        };
        records.div_ceil(seconds)
    }

    /// Which of the lines must come in order with this one, and where in that order it is: a key's records come in the order in which they
    /// were read, and so do its windows.
    pub(super) fn order(self, line: &str) -> Option<(String, String, u64)> {
        let value: Value = serde_json::from_str(line).ok()?;
        let key = value["key"].as_str()?;
        let (stream, number) = match (self, &value["n"], &value["window"]) {
            // A key's records are in several splits, which know nothing of each other.
            (Kind::Copied, n, _) => (n.as_u64()? % SPLITS, n),
            (_, n, Value::Null) => (0, n),
            (_, _, window) => (1, window),
        };
        Some((key.to_owned(), format!("{key} {stream}"), number.as_u64()?))
    }
}

/// Where a job reads and writes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ends<'t> {
    /// Topics.
    Topics(&'t Topics<'t>, Times),
    /// Files in a folder, for the undisturbed run.
    Folder(&'t Path),
}

impl Ends<'_> {
    fn source(self) -> String {
        match self {
            Ends::Topics(topics, _) => format!(
                "kafka: {{brokers: '{}', topic: '{}', format: json, stop: latest}}",
                topics.broker().address(),
                topics.name("in")
            ),
            Ends::Folder(folder) => format!(
                "file: {{paths: ['{}/in-*.jsonl'], format: json}}\n    key: /key",
                folder.display()
            ),
        }
    }

    fn sink(self) -> String {
        match self {
            Ends::Topics(topics, times) => format!(
                "kafka: {{brokers: '{}', topic: '{}', format: json, commit_topic: '{}', transaction_timeout: {}s}}",
                topics.broker().address(),
                topics.name("out"),
                topics.name("commits"),
                times.transaction
            ),
            Ends::Folder(_) => "file: {dir: out/out, format: json}".to_owned(),
        }
    }
}

/// Faster than any machine.
const UNLIMITED: u64 = 1_000_000_000;

/// The job file, with the input drawn out over so many seconds or read as fast as it goes.
pub(super) fn text(kind: Kind, ends: Ends<'_>, seconds: Option<u64>) -> String {
    let rate = seconds.map_or(UNLIMITED, |seconds| kind.rate(seconds));
    let (job, checkpoint) = match ends {
        Ends::Topics(topics, times) => (
            topics.name("job"),
            format!("interval: 100ms, {}", times.checkpoint()),
        ),
        // Only the last one.
        Ends::Folder(_) => (
            "undisturbed".to_owned(),
            "interval: 1h, fail_after: 2h".to_owned(),
        ),
    };
    let (source, sink) = (ends.source(), ends.sink());
    let mut text = format!(
        "version: 1
job: {job}
max_parallelism: 16
checkpoint: {{dir: checkpoints, {checkpoint}, retain: 2}}
restart: {{strategy: fixed, delay: 1s, give_up_after: 60}}
"
    );
    if kind == Kind::Copied {
        write!(
            text,
            "
sources:
  in:
    generator: {{records: {MADE_UP}, keys: 50, splits: {SPLITS}}}
    rate: {rate}
sinks:
  copies:
    input: in
    {sink}
"
        )
        .expect("a string takes everything");
        return text;
    }
    write!(
        text,
        "
sources:
  in:
    {source}
    event_time: {{field: /time, format: millis, out_of_order: 200ms}}
    rate: {rate}
operators:
  ledger:
    component: @weir_guest_ledger
    input: in
    config: {{window_millis: 500, pulse_millis: 20}}
sinks:
"
    )
    .expect("a string takes everything");
    text.push_str(&match ends {
        Ends::Topics(..) => format!(
            "  ledger-lines:
    input: ledger.ledger
    {sink}
  window-lines:
    input: {{from: ledger.windows, exchange: by-key}}
    parallelism: 2
    {sink}
"
        ),
        Ends::Folder(_) => format!(
            "  lines:
    input: [ledger.ledger, ledger.windows]
    {sink}
"
        ),
    });
    if kind == Kind::Both {
        text.push_str(
            "  ledger-files: {input: ledger.ledger, file: {dir: out/ledger, format: json, roll: {age: 0s}}}
  copy-files: {input: in, file: {dir: out/copy, format: json, roll: {size: 16KiB}}}
",
        );
    }
    text
}

/// What is in a partition: keys of its own, times that go on.
fn values(partition: i32) -> Vec<(String, String)> {
    let mut random = Random::new(partition as u64);
    let value = |n: u64| {
        let key = format!("p{partition}-{}", random.below(7));
        let time = n * 10 + 1_000 - random.below(200);
        let value = format!("{{\"key\":\"{key}\",\"time\":{time},\"note\":\"no {n}\"}}");
        (key, value)
    };
    (0..LENGTH).map(value).collect()
}

/// Creates the topics and fills the one that is read.
pub(super) fn prepare(kind: Kind, topics: &Topics<'_>) {
    topics.create("out", WRITTEN);
    topics.create_with("commits", 1, &[("cleanup.policy", "compact")]);
    if kind == Kind::Copied {
        return;
    }
    topics.create("in", PARTITIONS);
    let mut records = Vec::new();
    for partition in 0..PARTITIONS {
        for (key, value) in values(partition) {
            records.push(Record::to(partition).key(key).value(value));
        }
    }
    topics.produce("in", &records);
}

/// What an undisturbed run of a job committed, and the job itself.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub(super) kind: Kind,
    /// Those of the topic under the name `out`.
    pub(super) lines: Lines,
}

impl Reference {
    /// Runs the job with files, in a folder below `dir`.
    ///
    /// # Panics
    /// It fails, or what it committed is not what the input holds.
    pub(super) fn make(host: &'static Host, dir: &Path, kind: Kind) -> Reference {
        let folder: PathBuf = dir.join(format!("input-{}", kind.name()));
        fs::create_dir_all(&folder).expect("a folder can be created");
        for partition in 0..PARTITIONS {
            let mut text = String::new();
            for (_, value) in values(partition) {
                writeln!(text, "{value}").expect("a string takes everything");
            }
            fs::write(folder.join(format!("in-{partition}.jsonl")), text)
                .expect("the folder can be written");
        }
        let place = Place::at(host, dir.join(format!("reference-{}", kind.name())));
        place.write_job(&text(kind, Ends::Folder(&folder), None));
        // All files are read at the same time, as partitions are: none is so far ahead that records of another one are late.
        let exit = place.run_with(&Start::at(PARTITIONS as u16));
        exit.expect(0, &["fresh start", "finished", "late 0,"]);
        let mut lines = Lines::new();
        for sink in kind.file_sinks().iter().chain(&["out"]) {
            lines.insert(sink, place.committed(sink));
        }
        let all = LENGTH * PARTITIONS as u64;
        let written = lines["out"].len() as u64;
        match kind {
            Kind::Copied => assert_eq!(written, MADE_UP, "every record once"),
            Kind::Keyed | Kind::Both => {
                assert!(written > all, "a line a record, and a line a window");
            }
        }
        for sink in kind.file_sinks() {
            assert_eq!(lines[sink].len() as u64, all, "a line a record");
        }
        Reference { kind, lines }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_their_place_in_the_order_of_their_key() {
        let place = |kind: Kind, line| {
            let (key, stream, number) = kind.order(line).expect("a line of that job");
            assert!(stream.starts_with(&key));
            (stream, number)
        };
        let ledger = place(Kind::Keyed, r#"{"key":"a","n":7,"sum":5}"#);
        assert_eq!(ledger, ("a 0".to_owned(), 7));
        let window = place(Kind::Both, r#"{"key":"a","window":500,"records":1}"#);
        assert_eq!(window, ("a 1".to_owned(), 500));
        let copied = place(Kind::Copied, r#"{"n":7,"key":"k3"}"#);
        assert_eq!(copied, ("k3 3".to_owned(), 7));
        assert_eq!(Kind::Keyed.order("{}"), None);
        assert_eq!(Kind::Keyed.order(r#"{"key":"a"}"#), None);
        assert_eq!(Kind::Keyed.order("no JSON"), None);
    }
}
