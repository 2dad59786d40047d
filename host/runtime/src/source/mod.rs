//! Sources: where records come from, and how a source is replayed.
//!
//! A source is made of *splits* (a file, a share of a generated sequence), each with a position. Splits are found once,
//! by [`discover`] when a job starts fresh, dealt to subtasks by [`deal`], and their positions are part of every
//! checkpoint; on recovery, at whatever parallelism, the recorded splits are checked by [`resume`] and dealt again, and
//! each goes on from its position. A source that watches directories, or topics for new partitions, finds further ones while it runs.

use crate::batch::Origin;
use crate::decode::dead_letter::Letter;
use crate::headers::Header;
use crate::job::model::{self, SourceConnector};

mod assign;
mod file;
mod framer;
mod generator;
#[cfg(feature = "kafka")]
mod kafka;
mod records;
mod stdin;

#[cfg(test)]
mod collected;

use assign::assign;
#[cfg(feature = "kafka")]
pub use kafka::GroupOffsets;

/// A split and how far it was read: part of a checkpoint.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SplitState {
    /// Number of the split within its source. Those that an attempt begins with are dense from 0 and keep their numbers until it ends.
    pub split: u32,
    /// What it is, for messages: a path, `generator 3`, `stdin`.
    pub name: String,
    /// Whether it was read to its end.
    pub done: bool,
    /// The highest timestamp read from it, [`crate::batch::NO_TIME`] before the first: what its watermark derives from.
    pub max_time: i64,
    /// The reader's own position (offset, line, hashes of what was read …). An object, whose member `at` is how far the
    /// split was read in the reader's unit, 0 before anything was.
    pub position: serde_json::Value,
}

impl SplitState {
    /// Whether something of it was read.
    pub fn is_begun(&self) -> bool {
        self.position
            .get("at")
            .and_then(serde_json::Value::as_u64)
            .is_some_and(|at| at > 0)
    }
}

/// What a reader found when asked for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It emitted something and may have more at once.
    More,
    /// Nothing to read just now; ask again after a short while.
    Idle,
    /// There is or may be something, but it cannot be had just now: ask again after a short while. Unlike [`Progress::Idle`], it says
    /// nothing about time.
    Waiting,
    /// Every split of this subtask is done.
    Ended,
}

/// Where a reader puts what it reads. Implemented by the source subtask, which routes, builds batches, tracks timestamps
/// for watermarks and counts.
pub trait Emit {
    /// A record of split number `split`, of a source whose records have no headers.
    fn record(
        &mut self,
        split: u32,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        time: i64,
        origin: Origin,
    );
    /// A record of split number `split` with `headers`, which are read once; there may be none.
    fn record_with_headers(
        &mut self,
        split: u32,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &mut dyn Iterator<Item = Header<'_>>,
        time: i64,
        origin: Origin,
    );
    /// Input that could not be decoded and is left out by policy.
    fn skipped(&mut self, split: u32);
    /// Input that could not be decoded and goes to the dead-letter sink.
    fn dead_letter(&mut self, split: u32, letter: &Letter<'_>, origin: Origin);
    /// From now on `split` holds the watermark back (it was opened).
    fn opened(&mut self, split: u32);
    /// `split` is done and holds the watermark no longer.
    fn done(&mut self, split: u32);
    /// `split` has had nothing to read for `event_time.idle`, while others may have: it does not hold the watermark until its next record.
    fn idle(&mut self, split: u32) {
        let _ = split;
    }
    /// A number for the [`Origin`]s of records of an input called `name` that was not known when the job started, in which a place is
    /// called `unit`. Origins are for messages only: where there are no names, there is no need for a number of its own.
    fn origin(&mut self, name: &str, unit: &'static str) -> u32 {
        let _ = (name, unit);
        u32::MAX
    }
    /// Whether the reader should return now (a batch is full, or the allowance of `rate:` is used up). Checked before each record.
    fn full(&self) -> bool;
}

/// One source subtask's reader: steppable, single-threaded.
pub trait Reader: Send {
    /// Reads some records (until `emit.full()`, or nothing is left) and returns, after a few megabytes of input at the
    /// latest. Never blocks longer than local disk reads; standard input waits at most 50 ms.
    ///
    /// Splits that were begun before a restart are reported as opened by the first call, all at once: they held the
    /// watermark then, and hold it until they are done, even while another one is read.
    ///
    /// # Errors
    /// Input that cannot be read or, under the fail policy, decoded; file and line are in the message. The reader is
    /// of no use after that.
    fn read(&mut self, emit: &mut dyn Emit) -> Result<Progress, Error>;

    /// The positions of all splits of this subtask, done ones included, as of the last record emitted.
    fn splits(&self) -> Vec<SplitState>;

    /// How much was read, and of how much in all, in a unit that suits the connector (bytes of files as they are on
    /// disk, records); `None` if there is no end to tell of.
    fn share(&self) -> Option<(u64, u64)> {
        None
    }

    /// Records, or places for some, between what was read and the end of its splits as far as is known; `None` for what has no end or
    /// was not looked at yet.
    fn lag(&self) -> Option<u64> {
        None
    }

    /// Files read to their end, and files in all; `None` for what is not made of files.
    fn files(&self) -> Option<(u64, u64)> {
        None
    }
}

/// Why a source stopped the job. Every message names the source's file or split and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading failed; may pass.
    #[error("{what}: {source}")]
    Io {
        /// What was read.
        what: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A record could not be decoded: same again on every try.
    #[error("{name} line {line}: {what}")]
    Decode {
        /// The file.
        name: String,
        /// Line, from 1.
        line: u64,
        /// What is wrong with it, and the remedy.
        what: String,
    },
    /// A record could not be decoded: same again on every try.
    #[error("{name} offset {offset}: {what}")]
    Record {
        /// Topic and partition.
        name: String,
        /// Its offset.
        offset: i64,
        /// What is wrong with it, and the remedy.
        what: String,
    },
    /// A Kafka cluster does not answer, or not as it should.
    #[cfg(feature = "kafka")]
    #[error("{0}")]
    Kafka(crate::kafka::Error),
    /// Input is not what the checkpoint was taken over, or is missing: permanent.
    #[error("{0}")]
    Changed(String),
    /// The source's settings do not fit what is there: permanent.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// The permanent code of this kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Io { .. } => "W0601",
            Error::Decode { .. } | Error::Record { .. } => "W0602",
            #[cfg(feature = "kafka")]
            Error::Kafka(error) => error.code(),
            Error::Changed(_) => "W0603",
            Error::Invalid(_) => "W0604",
        }
    }

    /// Whether trying again later may help.
    pub fn may_pass(&self) -> bool {
        match self {
            Error::Io { .. } => true,
            #[cfg(feature = "kafka")]
            Error::Kafka(error) => error.may_pass(),
            _ => false,
        }
    }
}

/// The splits of `source`, none of them read: what a fresh job begins with.
///
/// # Errors
/// A pattern without a match, a file that cannot be read; settings that the source cannot work with.
pub fn discover(source: &model::Source) -> Result<Vec<SplitState>, Error> {
    match &source.connector {
        SourceConnector::File { paths, watch, .. } => {
            file::discover(&source.id, paths, watch.is_some())
        }
        SourceConnector::Stdin => Ok(vec![stdin::split()]),
        SourceConnector::Generator(settings) => generator::discover(&source.id, settings),
        #[cfg(feature = "kafka")]
        SourceConnector::Kafka(settings) => kafka::discover(&source.id, settings),
        #[cfg(not(feature = "kafka"))]
        SourceConnector::Kafka(_) => Err(without_kafka(source)),
    }
}

/// Checks the recorded `splits` of `source` against what is there now, before a job goes on from them. Returns what it goes on from, which
/// may be more than was recorded, and warnings: what is there and will not be read.
///
/// # Errors
/// [`Error::Changed`] if the splits could not be gone on with, [`Error::Io`] if that cannot be told.
pub fn resume(
    source: &model::Source,
    splits: Vec<SplitState>,
) -> Result<(Vec<SplitState>, Vec<String>), Error> {
    let warnings = match &source.connector {
        SourceConnector::File { paths, watch, .. } => {
            file::resume(&source.id, paths, watch.is_some(), &splits)
        }
        SourceConnector::Stdin => stdin::resume(&source.id, &splits),
        SourceConnector::Generator(settings) => generator::resume(&source.id, settings, &splits),
        #[cfg(feature = "kafka")]
        SourceConnector::Kafka(settings) => return kafka::resume(&source.id, settings, splits),
        #[cfg(not(feature = "kafka"))]
        SourceConnector::Kafka(_) => Err(without_kafka(source)),
    }?;
    Ok((splits, warnings))
}

/// Deals the recorded or discovered `splits` of `source` to `parallelism` subtasks (at least 1), the same way each time.
pub fn deal(
    source: &model::Source,
    splits: Vec<SplitState>,
    parallelism: usize,
) -> Vec<Vec<SplitState>> {
    match &source.connector {
        SourceConnector::File {
            paths,
            watch: Some(_),
            ..
        } => file::deal_watched(&source.id, paths, splits, parallelism),
        _ => assign(splits, parallelism),
    }
}

/// Which of a source's subtasks a reader is for.
#[derive(Clone, Copy, Debug)]
pub struct Subtask<'a> {
    /// Its number.
    pub number: u32,
    /// Subtasks there are.
    pub of: u32,
    /// The job-wide number of the source's split 0, for [`Origin`]s.
    pub first_split: u32,
    /// The splits of all subtasks, as the attempt begins.
    pub all: &'a [SplitState],
    /// Bytes that it may read ahead, where it does.
    pub read_ahead: u64,
}

/// The reader of one subtask, for the `splits` that it was dealt.
///
/// # Errors
/// Settings that the source cannot work with, or positions that are not this connector's.
pub fn open(
    source: &model::Source,
    splits: Vec<SplitState>,
    subtask: Subtask<'_>,
) -> Result<Box<dyn Reader>, Error> {
    let first_split = subtask.first_split;
    Ok(match &source.connector {
        SourceConnector::File { .. } => Box::new(file::Files::open(source, splits, first_split)?),
        SourceConnector::Stdin => Box::new(stdin::Stdin::open(source, splits, first_split)?),
        SourceConnector::Generator(settings) => Box::new(generator::Sequence::open(
            &source.id,
            settings,
            splits,
            first_split,
        )?),
        #[cfg(feature = "kafka")]
        SourceConnector::Kafka(settings) => {
            Box::new(kafka::Partitions::open(source, settings, splits, subtask)?)
        }
        #[cfg(not(feature = "kafka"))]
        SourceConnector::Kafka(_) => return Err(without_kafka(source)),
    })
}

#[cfg(not(feature = "kafka"))]
fn without_kafka(source: &model::Source) -> Error {
    Error::Invalid(format!(
        "source `{}`: this weir was built without Kafka; build it with its default features",
        source.id
    ))
}

/// The `position` of `split`, of the kind that the connector of source `source` records.
fn position<P: serde::de::DeserializeOwned>(
    source: &model::NodeId,
    split: &SplitState,
) -> Result<P, Error> {
    serde_json::from_value(split.position.clone()).map_err(|error| {
        Error::Changed(format!(
            "source `{source}`: the recorded position in {} is not one of this kind of source ({error}); \
             has the source been changed to another kind? Undo that, or move output and checkpoints away and start over",
            split.name
        ))
    })
}
