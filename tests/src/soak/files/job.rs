//! The jobs that read and write files, and what they commit when nothing disturbs them.
//!
//! Between them they have every kind of state and timer, several inputs and outputs, chained and exchanged edges, rescaled sinks, dead
//! letters, all formats and compressions, and parts that end at each checkpoint, in between, and go on over many. What they commit depends on their input alone: a key's records stay in one split, so
//! that their order is the same in every run, and no record is late.

use std::fs;
use std::io::Write;
use std::path::Path;

use super::super::subject::{Lines, Subject};
use super::points;
use crate::host::{Exit, Host};
use crate::place::{Place, Start};
use crate::random::Random;

/// Which job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Generators, a ledger, another one chained to it, and a join of two sources.
    Net,
    /// Files of two formats and three compressions, some lines malformed, through a ledger.
    Files,
}

impl Kind {
    /// Each.
    pub const ALL: [Kind; 2] = [Kind::Net, Kind::Files];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Net => "net",
            Kind::Files => "files",
        }
    }

    /// The directories of its sinks below `out`.
    pub fn sinks(self) -> &'static [&'static str] {
        match self {
            Kind::Net => &["ledger", "windows", "again", "pairs", "copy"],
            Kind::Files => &["ledger", "windows", "rejects"],
        }
    }
}

/// How long an input is, and how fast it is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input {
    /// Records of each of the three generators, if they end.
    pub(super) records: [Option<u64>; 3],
    /// Records a second of each source.
    pub(super) rate: u64,
}

/// Lines of an input file: so different that a subtask may be files ahead of another.
fn length(file: u64) -> u64 {
    if file.is_multiple_of(2) { 1_200 } else { 300 }
}

/// Faster than any machine.
const UNLIMITED: u64 = 1_000_000_000;

/// Records of the bounded generators.
const RECORDS: [u64; 3] = [6_000, 9_000, 12_000];

/// Input files of each format.
const LINE_FILES: u64 = 6;
const ROW_FILES: u64 = 4;
/// Every so many lines one is malformed.
const MALFORMED: u64 = 37;

impl Input {
    /// The whole bounded input as fast as it goes.
    pub(super) fn whole() -> Input {
        Input {
            records: RECORDS.map(Some),
            rate: UNLIMITED,
        }
    }

    /// The whole bounded input, drawn out over about `seconds`.
    pub(super) fn drawn_out(kind: Kind, seconds: u64) -> Input {
        let longest = match kind {
            Kind::Net => RECORDS[2],
            Kind::Files => (0..LINE_FILES).map(length).sum(),
        };
        Input {
            rate: longest.div_ceil(seconds),
            ..Input::whole()
        }
    }

    /// Generators without an end.
    pub(super) fn unbounded(rate: u64) -> Input {
        Input {
            records: [None; 3],
            rate,
        }
    }
}

/// The job file. Input files are in the folder `input`.
pub(super) fn text(kind: Kind, input: &Input, folder: &Path) -> String {
    let checkpoint = "version: 1
job: soak
max_parallelism: 16
checkpoint: {dir: checkpoints, interval: 50ms, retain: 2}
restart: {strategy: fixed, delay: 10ms, give_up_after: 3}
";
    let rate = input.rate;
    match kind {
        Kind::Net => {
            let [a, b, c] = input
                .records
                .map(|count| count.map_or("unbounded".to_owned(), |count| count.to_string()));
            // The join of an endless job is compared by position, which takes one split.
            let splits = if input.records[1].is_some() { 8 } else { 1 };
            format!(
                "{checkpoint}
sources:
  a:
    generator: {{records: {a}, keys: 40, splits: 1, step: 5ms, disorder: 300ms, value_bytes: 70}}
    event_time: {{out_of_order: 300ms}}
    rate: {rate}
  b:
    generator: {{records: {b}, keys: 40, splits: {splits}, step: 3ms, disorder: 200ms}}
    event_time: {{out_of_order: 200ms}}
    rate: {rate}
  c:
    generator: {{records: {c}, keys: 1000, splits: 8}}
    rate: {rate}
operators:
  ledger:
    component: @weir_guest_ledger
    input: a
    config: {{window_millis: 1000, pulse_millis: 20}}
  again:
    component: @weir_guest_ledger
    input: ledger.ledger
    config: {{window_millis: 4000, pulse_millis: 30}}
  both:
    component: @weir_guest_join
    inputs:
      left: ledger.ledger
      right: b
sinks:
  ledger-lines: {{input: ledger.ledger, file: {{dir: out/ledger, format: json, roll: {{age: 0s}}}}}}
  window-lines: {{input: ledger.windows, file: {{dir: out/windows, format: json, compression: zstd}}}}
  again-lines: {{input: [again.ledger, again.windows], parallelism: 2, file: {{dir: out/again, format: json, roll: {{size: 16KiB}}}}}}
  pairs: {{input: both, parallelism: 1, file: {{dir: out/pairs, compression: gzip}}}}
  copy: {{input: c, file: {{dir: out/copy, format: json, roll: {{age: 0s}}}}}}
"
            )
        }
        Kind::Files => {
            let folder = folder.display();
            format!(
                "{checkpoint}
sources:
  lines:
    file: {{paths: ['{folder}/lines-*'], format: json}}
    key: /key
    event_time: {{field: /time, format: millis, out_of_order: 200ms}}
    on_error: {{dead_letter: rejects}}
    rate: {rate}
  rows:
    file: {{paths: ['{folder}/rows-*'], format: csv}}
    key: /key
    event_time: {{field: /time, format: millis, out_of_order: 200ms}}
    on_error: {{dead_letter: rejects}}
    rate: {rate}
operators:
  ledger:
    component: @weir_guest_ledger
    input: [lines, rows]
    config: {{window_millis: 500, pulse_millis: 20}}
sinks:
  ledger-lines: {{input: ledger.ledger, file: {{dir: out/ledger, format: json, roll: {{size: 2KiB, age: 200ms}}}}}}
  window-lines: {{input: ledger.windows, parallelism: 3, file: {{dir: out/windows, format: json, compression: gzip}}}}
  rejects: {{file: {{dir: out/rejects, format: json, roll: {{age: 0s}}}}}}
"
            )
        }
    }
}

/// Writes the input files: the event time goes on from one to the next, each has keys of its own.
fn write_input(folder: &Path) {
    fs::create_dir_all(folder).expect("a folder can be created");
    let mut random = Random::new(7);
    for (stem, files) in [("lines", LINE_FILES), ("rows", ROW_FILES)] {
        let mut before = 0;
        for file in 0..files {
            let mut text = if stem == "rows" {
                "key,time,note\n".to_owned()
            } else {
                String::new()
            };
            for line in 0..length(file) {
                let key = format!("{stem}{file}-{}", random.below(7));
                let time = (before + line) * 10 + 1_000 - random.below(200);
                let malformed = line % MALFORMED == MALFORMED - 1;
                text.push_str(&match (stem, malformed) {
                    ("rows", false) => format!("{key},{time},\"no {line}\"\n"),
                    ("rows", true) => format!("{key},never,\"no {line}\"\n"),
                    (_, false) => format!(
                        "{{\"key\": \"{key}\", \"time\": {time}, \"note\": \"no {line}\"}}\n"
                    ),
                    (_, true) => format!("{{\"key\": \"{key}\", \"time\": \n"),
                });
            }
            before += length(file);
            let (suffix, bytes) = match file % 3 {
                0 => ("", text.into_bytes()),
                1 => (".gz", gzip(text.as_bytes())),
                _ => (
                    ".zst",
                    zstd::encode_all(text.as_bytes(), 3).expect("memory can be written"),
                ),
            };
            fs::write(folder.join(format!("{stem}-{file}{suffix}")), bytes)
                .expect("the folder can be written");
        }
    }
}

/// Two members, as `cat a.gz b.gz` makes them.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let (left, right) = bytes.split_at(bytes.len() / 3);
    let member = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder
            .write_all(bytes)
            .and_then(|()| encoder.finish())
            .expect("memory can be written")
    };
    [member(left), member(right)].concat()
}

/// What an undisturbed run of a job committed, and the job itself.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The job.
    pub kind: Kind,
    /// Where its input files are.
    pub(super) folder: std::path::PathBuf,
    /// Lines by sink.
    lines: Lines,
}

impl Reference {
    /// Runs the bounded job of this kind in a folder below `dir`, at one parallelism throughout.
    ///
    /// # Panics
    /// It fails, or what it committed is not what the input holds.
    pub fn make(host: &'static Host, dir: &Path, kind: Kind, parallelism: u16) -> Reference {
        let folder = dir.join(format!("input-{}", kind.name()));
        write_input(&folder);
        let place = Place::at(host, dir.join(format!("reference-{}", kind.name())));
        let (lines, exit) = undisturbed(kind, &place, &Input::whole(), &folder, parallelism);
        let count = |sink| {
            lines
                .get(sink)
                .map_or(0, |lines: &Vec<String>| lines.len() as u64)
        };
        match kind {
            Kind::Net => {
                assert_eq!(count("ledger"), RECORDS[0], "a line a record");
                assert_eq!(count("copy"), RECORDS[2], "every record once");
            }
            Kind::Files => {
                let files = || (0..LINE_FILES).chain(0..ROW_FILES);
                let malformed: u64 = files().map(|file| length(file) / MALFORMED).sum();
                let all: u64 = files().map(length).sum();
                assert_eq!(
                    count("rejects"),
                    malformed,
                    "a dead letter a malformed line"
                );
                assert_eq!(count("ledger"), all - malformed, "a line a record");
            }
        }
        assert!(
            lines.values().all(|lines| !lines.is_empty()),
            "every sink has something to lose"
        );
        assert!(
            exit.log.contains("late 0,"),
            "no record is late, or results would depend on timing:\n{}",
            exit.log
        );
        Reference {
            kind,
            folder,
            lines,
        }
    }

    /// What one sink committed, sorted.
    pub fn lines(&self, sink: &str) -> &[String] {
        self.lines.get(sink).map_or(&[], Vec::as_slice)
    }
}

impl Subject for Reference {
    fn text(&self, seconds: Option<u64>) -> String {
        let drawn_out = |seconds| Input::drawn_out(self.kind, seconds);
        let input = seconds.map_or_else(Input::whole, drawn_out);
        text(self.kind, &input, &self.folder)
    }

    fn points(&self) -> Vec<&'static str> {
        points().collect()
    }

    fn expected(&self) -> &Lines {
        &self.lines
    }

    fn committed(&self, place: &Place) -> Lines {
        let sinks = self.kind.sinks().iter();
        sinks.map(|sink| (*sink, place.committed(sink))).collect()
    }
}

/// Runs a bounded job with one checkpoint, its last, and returns what it committed by sink.
pub(super) fn undisturbed(
    kind: Kind,
    place: &Place,
    input: &Input,
    folder: &Path,
    parallelism: u16,
) -> (Lines, Exit) {
    place.write_job(
        &text(kind, input, folder).replace("interval: 50ms", "interval: 1h, fail_after: 2h"),
    );
    let exit = place.run_with(&Start::at(parallelism));
    exit.expect(0, &["fresh start", "finished"]);
    (
        kind.sinks()
            .iter()
            .map(|sink| (*sink, place.committed(sink)))
            .collect(),
        exit,
    )
}
