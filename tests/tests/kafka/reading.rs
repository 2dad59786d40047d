//! A Kafka source, opened in this process: what it emits, and what it refuses.

use std::time::{Duration, Instant};

use weir::batch::{Batch, Origin};
use weir::decode::dead_letter::{Form, Letter};
use weir::headers::Header;
use weir::job::model::Job;
use weir::source::{self, Emit, Error, Progress, Reader, SplitState, Subtask};

use crate::fixture::Scene;

/// Nothing takes so long, unless it hangs.
pub(crate) const HANGS: Duration = Duration::from_secs(60);

/// A record as it was emitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) split: u32,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    pub(crate) time: i64,
    pub(crate) offset: u64,
}

impl Row {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.value.clone().unwrap_or_default()).expect("text")
    }
}

/// What a reader emitted.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) rows: Vec<Row>,
    pub(crate) letters: Vec<serde_json::Value>,
    /// `open 1`, `idle 1`, `done 1`, `skip 1`, in order.
    pub(crate) events: Vec<String>,
    /// Names of inputs that were found.
    pub(crate) found: Vec<String>,
    /// Records after which it is full; 0 for no end.
    pub(crate) room: usize,
}

impl Seen {
    pub(crate) fn texts(&self) -> Vec<String> {
        self.rows.iter().map(Row::text).collect()
    }

    /// Reads to the end of a bounded source.
    #[track_caller]
    pub(crate) fn read_all(&mut self, reader: &mut dyn Reader) -> Result<(), Error> {
        self.until(reader, "it has ended", |_| false)
    }

    /// Reads until so many records were seen, or the source ends.
    #[track_caller]
    pub(crate) fn read(&mut self, reader: &mut dyn Reader, count: usize) -> Result<(), Error> {
        self.until(reader, &format!("{count} records"), |seen| {
            seen.rows.len() >= count
        })
    }

    /// Reads until `enough`, or the source ends.
    #[track_caller]
    pub(crate) fn until(
        &mut self,
        reader: &mut dyn Reader,
        what: &str,
        enough: impl Fn(&Seen) -> bool,
    ) -> Result<(), Error> {
        let begun = Instant::now();
        while !enough(self) {
            match reader.read(self)? {
                Progress::Ended => return Ok(()),
                Progress::More => {}
                Progress::Idle | Progress::Waiting => std::thread::sleep(Duration::from_millis(5)),
            }
            assert!(begun.elapsed() < HANGS, "no {what}: {self:#?}");
        }
        Ok(())
    }

    /// Reads for a while.
    pub(crate) fn watch(&mut self, reader: &mut dyn Reader, time: Duration) -> Result<(), Error> {
        let begun = Instant::now();
        self.until(reader, "time", |_| begun.elapsed() >= time)
    }
}

impl Emit for Seen {
    fn record(
        &mut self,
        _split: u32,
        _key: Option<&[u8]>,
        _value: Option<&[u8]>,
        _time: i64,
        _origin: Origin,
    ) {
        panic!("the headers are missing");
    }

    fn record_with_headers(
        &mut self,
        split: u32,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &mut dyn Iterator<Item = Header<'_>>,
        time: i64,
        origin: Origin,
    ) {
        self.rows.push(Row {
            split,
            key: key.map(<[u8]>::to_vec),
            value: value.map(<[u8]>::to_vec),
            headers: headers
                .map(|(name, contents)| (name.to_vec(), contents.map(<[u8]>::to_vec)))
                .collect(),
            time,
            offset: origin.split_and_place().expect("it has an origin").1,
        });
    }

    fn skipped(&mut self, split: u32) {
        self.events.push(format!("skip {split}"));
    }

    fn dead_letter(&mut self, _split: u32, letter: &Letter<'_>, origin: Origin) {
        let mut batch = Batch::default();
        letter.push(&Form::Object, origin, &mut batch);
        let letter = batch.values.get(0).expect("it has a value");
        self.letters
            .push(serde_json::from_slice(letter).expect("a letter is JSON"));
    }

    fn opened(&mut self, split: u32) {
        self.events.push(format!("open {split}"));
    }

    fn done(&mut self, split: u32) {
        self.events.push(format!("done {split}"));
    }

    fn idle(&mut self, split: u32) {
        self.events.push(format!("idle {split}"));
    }

    fn origin(&mut self, name: &str, unit: &'static str) -> u32 {
        assert_eq!(unit, "offset");
        self.found.push(name.to_owned());
        1_000 + self.found.len() as u32
    }

    fn full(&self) -> bool {
        self.room > 0 && self.rows.len() >= self.room
    }
}

/// A job with the source `in` that has these settings; `kafka` is what stands in its `kafka:` beside the brokers.
pub(crate) fn job(scene: &Scene<'_>, kafka: &str, more: &str) -> Job {
    let bad = if more.contains("dead_letter") {
        "  bad: {blackhole: {}}\n"
    } else {
        ""
    };
    scene.write_job(&format!(
        "version: 1
job: reading
sources:
  in: {{kafka: {{brokers: '<brokers>', group: <group>, {kafka}}}{more}}}
sinks:
  out: {{input: in, blackhole: {{}}}}
{bad}"
    ));
    weir::job::load(&scene.place.job(), &|_| None)
        .unwrap_or_else(|problems| panic!("the job is refused: {problems:#?}"))
}

pub(crate) fn discover(job: &Job) -> Result<Vec<SplitState>, Error> {
    source::discover(&job.sources[0])
}

/// The readers of all subtasks, as an attempt opens them.
pub(crate) fn open(job: &Job, splits: &[SplitState], of: usize) -> Vec<Box<dyn Reader>> {
    let source = &job.sources[0];
    let dealt = source::deal(source, splits.to_vec(), of);
    let one = |(number, dealt)| {
        let subtask = Subtask {
            number,
            of: of as u32,
            first_split: 0,
            all: splits,
            read_ahead: 8 << 20,
        };
        source::open(source, dealt, subtask).expect("it can be opened")
    };
    (0..).zip(dealt).map(one).collect()
}

/// The only reader of a job that starts.
pub(crate) fn start(job: &Job) -> Box<dyn Reader> {
    let splits = discover(job).unwrap_or_else(|error| panic!("{error}"));
    open(job, &splits, 1).remove(0)
}

/// What a job goes on from, and the warnings.
pub(crate) fn resume(
    job: &Job,
    splits: Vec<SplitState>,
) -> Result<(Vec<SplitState>, Vec<String>), Error> {
    source::resume(&job.sources[0], splits)
}

/// The message of an error.
#[track_caller]
pub(crate) fn refused<T>(result: Result<T, Error>, code: &str) -> String {
    match result {
        Ok(_) => panic!("it is not refused"),
        Err(error) => {
            assert_eq!(error.code(), code, "{error}");
            error.to_string()
        }
    }
}
