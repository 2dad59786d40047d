//! Sinks: where records go, and how output is committed.
//!
//! A sink subtask writes as records come and *prepares* at a barrier: everything before it is durable, invisible to
//! readers. What is complete by then is staged, and when the checkpoint is decided, the coordinator makes it visible
//! ([`parts::publish`]); recovery does it again, so it is idempotent. What goes on beyond the barrier is an open part, of which
//! the checkpoint records the length: after a failure the next attempt takes over that much of it ([`parts::adopt`]).

use std::path::PathBuf;

use crate::batch::{Batch, Origin};
use crate::job::model::{self, SinkConnector};

mod blackhole;
mod compress;
mod csv;
mod file;
#[cfg(feature = "kafka")]
mod kafka;
mod line;
pub mod parts;
mod stdout;

pub use blackhole::Blackhole;
pub use file::{FileSink, PartKind};
#[cfg(feature = "kafka")]
pub use kafka::{KafkaSurroundings, KafkaWriter};
pub use stdout::StdoutSink;

/// A part of a file sink's output, named by a manifest, under its hidden name.
///
/// Where the manifest stages it, it is complete and becomes visible by a rename once the checkpoint is decided. Where the
/// manifest has it open, only its first [`bytes`](StagedPart::bytes) belong to the checkpoint, and its writer goes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct StagedPart {
    /// Id of the sink.
    pub sink: String,
    /// The sink's directory, absolute.
    pub dir: PathBuf,
    /// Name while staged: begins with a dot.
    pub staged: String,
    /// Final name, given when it was begun.
    pub name: String,
    /// Length in bytes, as far as the checkpoint goes.
    pub bytes: u64,
    /// Records in so many bytes.
    pub records: u64,
}

/// What a sink subtask holds at a barrier, all of it durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Parts completed since the last barrier, each handed over once: they ride along in a later manifest if this checkpoint is
    /// skipped.
    pub staged: Vec<StagedPart>,
    /// The part that goes on beyond the barrier, as it was there.
    pub open: Option<StagedPart>,
    /// Records sent since the last barrier to where there are no parts.
    pub sent: u64,
}

/// Which subtask writes, when: what the names of its parts carry, so that none is ever given twice.
#[derive(Clone, Debug)]
pub struct Author {
    /// Short id of the lineage, hexadecimal.
    pub lineage: String,
    /// The attempt.
    pub attempt: u64,
    /// The subtask.
    pub subtask: u16,
    /// Number of the attempt's first checkpoint.
    pub next_n: u64,
}

/// What a writer needs beside its sink's settings.
#[derive(Debug)]
pub struct Surroundings {
    /// Who writes.
    pub author: Author,
    /// What a Kafka sink needs; `None` for any other.
    #[cfg(feature = "kafka")]
    pub kafka: Option<KafkaSurroundings>,
}

/// A record that cannot be written the way the sink writes; others can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its row in the batch.
    pub row: usize,
    /// Why, and the remedy.
    pub what: String,
}

/// What a sink subtask has written so far, committed or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Records.
    pub records: u64,
    /// Bytes of their values, line ends included where there are any.
    pub bytes: u64,
}

/// Why output cannot be written or committed. Every message names sink or file and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Writing failed; may pass.
    #[error("{what}: {source}")]
    Io {
        /// What was written.
        what: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A record cannot be written the way the sink writes: same again on every try.
    #[error("sink `{sink}`: {what}")]
    Value {
        /// Id of the sink.
        sink: String,
        /// Where the record came from.
        origin: Origin,
        /// Why it cannot be written, and the remedy.
        what: String,
    },
    /// The output directory cannot be used: permanent until someone corrects it.
    #[error("{0}")]
    Directory(String),
    /// Staged or published output is not what was recorded: permanent, and output may be lost.
    #[error("{0}")]
    Part(String),
    /// Records could not be delivered to Kafka.
    #[error("sink `{sink}`: {what}")]
    Delivery {
        /// Id of the sink.
        sink: String,
        /// Why; may have several lines.
        what: String,
        /// Whether it would be the same on every try.
        permanent: bool,
    },
    /// The cluster cannot be written to.
    #[cfg(feature = "kafka")]
    #[error("sink `{sink}`: {error}")]
    Kafka {
        /// Id of the sink.
        sink: String,
        /// Why.
        error: crate::kafka::Error,
    },
    /// The attempt is being cancelled; not a failure of the sink.
    #[error("cancelled")]
    Cancelled,
    /// The reader of standard output has gone: permanent.
    #[error("sink `{0}`: standard output was closed by its reader, so the job cannot go on")]
    Closed(String),
}

impl Error {
    /// The permanent code of this kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Io { .. } => "W0701",
            Error::Value { .. } => "W0702",
            Error::Directory(_) => "W0703",
            Error::Part(_) => "W0704",
            Error::Closed(_) => "W0705",
            Error::Delivery { .. } => "W0707",
            #[cfg(feature = "kafka")]
            Error::Kafka { error, .. } => error.code(),
            // Never shown.
            Error::Cancelled => "W0301",
        }
    }
}

/// The writer of one sink subtask.
///
/// After an error it is of no use: what was written since the last [`Writer::prepare`] must not be committed, and is not.
#[derive(Debug)]
pub enum Writer {
    /// Files.
    File(Box<FileSink>),
    /// Standard output.
    Stdout(StdoutSink),
    /// Nothing.
    Blackhole(Blackhole),
    /// Kafka topics.
    #[cfg(feature = "kafka")]
    Kafka(Box<KafkaWriter>),
}

/// The writer of a subtask of `sink`. Nothing is created before the first record; see [`parts::check_dir`] for what to check at
/// start.
///
/// # Errors
/// [`Error::Io`] if standard output is not open, [`Error::Kafka`] if no producer can be made.
pub fn open(sink: &model::Sink, surroundings: Surroundings) -> Result<Writer, Error> {
    let id = sink.id.as_str();
    let author = surroundings.author;
    Ok(match &sink.connector {
        SinkConnector::File {
            dir,
            format,
            roll,
            compression,
        } => {
            let kind = PartKind {
                format: format.clone(),
                compression: *compression,
            };
            Writer::File(Box::new(FileSink::new(id, dir, kind, *roll, author)))
        }
        SinkConnector::Stdout => Writer::Stdout(StdoutSink::open(id)?),
        SinkConnector::Blackhole => Writer::Blackhole(Blackhole::default()),
        #[cfg(feature = "kafka")]
        SinkConnector::Kafka(settings) => {
            let kafka = surroundings
                .kafka
                .expect("the outputs of Kafka sinks are looked up before an attempt");
            Writer::Kafka(Box::new(KafkaWriter::open(id, settings, kafka, &author)?))
        }
        #[cfg(not(feature = "kafka"))]
        SinkConnector::Kafka(_) => {
            return Err(Error::Directory(format!(
                "sink `{id}`: this weir was built without Kafka; build it with its default features"
            )));
        }
    })
}

impl Writer {
    /// Writes the records of `batch`, or the dead letters that they are. Gives those that cannot be written where others can, for
    /// the sink's policy to judge; only Kafka sinks have one.
    ///
    /// # Errors
    /// See [`Error`]. Records of the batch may have been written before the one that failed.
    pub fn write(&mut self, batch: &Batch, dead_letters: bool) -> Result<Vec<Rejected>, Error> {
        #[cfg(not(feature = "kafka"))]
        let _ = dead_letters;
        match self {
            Writer::File(sink) => sink.write(batch)?,
            Writer::Stdout(sink) => sink.write(batch)?,
            Writer::Blackhole(sink) => sink.write(batch),
            #[cfg(feature = "kafka")]
            Writer::Kafka(sink) => return sink.write(batch, dead_letters),
        }
        Ok(Vec::new())
    }

    /// Shows readers what is held back only to write it in larger pieces. To be called when input is idle.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn flush(&mut self) -> Result<(), Error> {
        match self {
            Writer::File(_) | Writer::Blackhole(_) => Ok(()),
            Writer::Stdout(sink) => sink.flush(),
            #[cfg(feature = "kafka")]
            Writer::Kafka(sink) => {
                sink.idle();
                Ok(())
            }
        }
    }

    /// Everything written so far is durable, to be committed with checkpoint `checkpoint`, when this returns. Nothing comes after
    /// the `last` one, so it leaves nothing open.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn prepare(&mut self, checkpoint: u64, last: bool) -> Result<Prepared, Error> {
        match self {
            Writer::File(sink) => sink.prepare(checkpoint, last),
            Writer::Stdout(sink) => sink.flush().map(|()| Prepared::default()),
            Writer::Blackhole(_) => Ok(Prepared::default()),
            #[cfg(feature = "kafka")]
            Writer::Kafka(sink) => sink.prepare(checkpoint).map(|sent| Prepared {
                sent,
                ..Prepared::default()
            }),
        }
    }

    /// What was written so far.
    pub fn written(&self) -> Written {
        match self {
            Writer::File(sink) => sink.written(),
            Writer::Stdout(sink) => sink.written(),
            Writer::Blackhole(sink) => sink.written(),
            #[cfg(feature = "kafka")]
            Writer::Kafka(sink) => sink.written(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::NO_TIME;
    use crate::job::model::{NodeId, Place, Roll, SinkCompression, SinkFormat};

    /// Subtask 2 of attempt 1.
    fn surroundings() -> Surroundings {
        Surroundings {
            author: Author {
                lineage: "7c1e0000".to_owned(),
                attempt: 1,
                subtask: 2,
                next_n: 3,
            },
            #[cfg(feature = "kafka")]
            kafka: None,
        }
    }

    pub(super) fn batch(values: &[Option<&[u8]>]) -> Batch {
        let mut batch = Batch::default();
        for (value, line) in values.iter().zip(1..) {
            batch.push(Some(b"key"), 1, *value, NO_TIME, Origin::new(2, line));
        }
        batch
    }

    pub(super) fn lines(lines: &[&str]) -> Batch {
        batch(
            &lines
                .iter()
                .map(|line| Some(line.as_bytes()))
                .collect::<Vec<_>>(),
        )
    }

    fn sink(connector: SinkConnector) -> model::Sink {
        model::Sink {
            id: NodeId::new("out").unwrap(),
            place: Place::default(),
            inputs: Vec::new(),
            connector,
            on_error: model::ErrorPolicy::Fail,
            parallelism: None,
        }
    }

    #[test]
    fn a_blackhole_counts() {
        let mut writer = open(&sink(SinkConnector::Blackhole), surroundings()).unwrap();
        writer
            .write(&batch(&[Some(b"abc"), None, Some(b"a\nb")]), false)
            .unwrap();
        writer.flush().unwrap();
        assert_eq!(writer.prepare(1, false).unwrap(), Prepared::default());
        assert_eq!(
            writer.written(),
            Written {
                records: 3,
                bytes: 6
            }
        );
    }

    #[test]
    fn a_file_sink_is_opened_by_its_settings() {
        let dir = tempfile::tempdir().unwrap();
        let connector = SinkConnector::File {
            dir: dir.path().to_owned(),
            format: SinkFormat::Raw,
            roll: Roll::default(),
            compression: SinkCompression::None,
        };
        let mut writer = open(&sink(connector), surroundings()).unwrap();
        writer.write(&lines(&["a", "b"]), false).unwrap();
        writer.flush().unwrap();
        let parts = writer.prepare(3, true).unwrap().staged;
        assert_eq!(parts[0].name, "part-7c1e0000-000003-002-001.txt");
        assert_eq!(
            (parts[0].sink.as_str(), parts[0].bytes, parts[0].records),
            ("out", 4, 2)
        );
        assert_eq!(
            writer.written(),
            Written {
                records: 2,
                bytes: 4
            }
        );
    }
}
