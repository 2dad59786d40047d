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
mod line;
pub mod parts;
mod stdout;

pub use blackhole::Blackhole;
pub use file::{FileSink, PartKind};
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
}

/// The writer of a subtask of `sink`. Nothing is created before the first record; see [`parts::check_dir`] for what to check at
/// start.
///
/// # Errors
/// [`Error::Io`] if standard output is not open.
pub fn open(sink: &model::Sink, author: Author) -> Result<Writer, Error> {
    let id = sink.id.as_str();
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
        SinkConnector::Kafka(_) => {
            return Err(Error::Directory(format!(
                "sink `{id}`: this weir was built without Kafka; build it with its default features"
            )));
        }
    })
}

impl Writer {
    /// Writes the records of `batch`.
    ///
    /// # Errors
    /// See [`Error`]. Records of the batch may have been written before the one that failed.
    pub fn write(&mut self, batch: &Batch) -> Result<(), Error> {
        match self {
            Writer::File(sink) => sink.write(batch),
            Writer::Stdout(sink) => sink.write(batch),
            Writer::Blackhole(sink) => {
                sink.write(batch);
                Ok(())
            }
        }
    }

    /// Shows readers what is held back only to write it in larger pieces. To be called when input is idle.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn flush(&mut self) -> Result<(), Error> {
        match self {
            Writer::File(_) | Writer::Blackhole(_) => Ok(()),
            Writer::Stdout(sink) => sink.flush(),
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
        }
    }

    /// What was written so far.
    pub fn written(&self) -> Written {
        match self {
            Writer::File(sink) => sink.written(),
            Writer::Stdout(sink) => sink.written(),
            Writer::Blackhole(sink) => sink.written(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::NO_TIME;
    use crate::job::model::{NodeId, Place, Roll, SinkCompression, SinkFormat};

    /// Subtask 2 of attempt 1.
    fn author() -> Author {
        Author {
            lineage: "7c1e0000".to_owned(),
            attempt: 1,
            subtask: 2,
            next_n: 3,
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
        let mut writer = open(&sink(SinkConnector::Blackhole), author()).unwrap();
        writer
            .write(&batch(&[Some(b"abc"), None, Some(b"a\nb")]))
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
        let mut writer = open(&sink(connector), author()).unwrap();
        writer.write(&lines(&["a", "b"])).unwrap();
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
