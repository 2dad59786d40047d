//! Sinks: where records go, and how output is committed.
//!
//! A sink subtask writes as records come and *prepares* at a barrier: everything before it is staged durably, invisible to
//! readers. When the checkpoint is decided, the coordinator commits what was staged ([`parts::publish`]); recovery does it
//! again, so it is idempotent.

use std::path::PathBuf;

use crate::batch::{Batch, Origin};
use crate::job::model::{self, SinkConnector};

mod blackhole;
mod file;
mod line;
pub mod parts;
mod stdout;

pub use blackhole::Blackhole;
pub use file::FileSink;
pub use stdout::StdoutSink;

/// A staged file, named by a manifest, that becomes visible by a rename once the checkpoint is decided.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct StagedPart {
    /// Id of the sink.
    pub sink: String,
    /// The sink's directory, absolute.
    pub dir: PathBuf,
    /// Name while staged: begins with a dot.
    pub staged: String,
    /// Final name.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Records in it.
    pub records: u64,
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
    File(FileSink),
    /// Standard output.
    Stdout(StdoutSink),
    /// Nothing.
    Blackhole(Blackhole),
}

/// The writer of subtask `subtask` of `sink`, in attempt `attempt` of the lineage whose short id is `lineage`
/// (hexadecimal). Nothing is created before the first record; see [`parts::check_dir`] for what to check at start.
///
/// # Errors
/// [`Error::Io`] if standard output is not open.
pub fn open(
    sink: &model::Sink,
    lineage: &str,
    attempt: u64,
    subtask: u16,
) -> Result<Writer, Error> {
    let id = sink.id.as_str();
    Ok(match &sink.connector {
        SinkConnector::File { dir, format } => {
            Writer::File(FileSink::new(id, dir, *format, lineage, attempt, subtask))
        }
        SinkConnector::Stdout => Writer::Stdout(StdoutSink::open(id)?),
        SinkConnector::Blackhole => Writer::Blackhole(Blackhole::default()),
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

    /// Everything written so far is durable, to be committed with checkpoint `checkpoint`, when this returns. The parts
    /// are this call's; they ride along in a later manifest if that checkpoint is skipped.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn prepare(&mut self, checkpoint: u64) -> Result<Vec<StagedPart>, Error> {
        match self {
            Writer::File(sink) => sink.prepare(checkpoint),
            Writer::Stdout(sink) => sink.flush().map(|()| Vec::new()),
            Writer::Blackhole(_) => Ok(Vec::new()),
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
    use crate::job::model::{NodeId, Place, SinkFormat};

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
            parallelism: None,
        }
    }

    #[test]
    fn a_blackhole_counts() {
        let mut writer = open(&sink(SinkConnector::Blackhole), "7c1e0000", 1, 0).unwrap();
        writer
            .write(&batch(&[Some(b"abc"), None, Some(b"a\nb")]))
            .unwrap();
        writer.flush().unwrap();
        assert_eq!(writer.prepare(1).unwrap(), []);
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
        };
        let mut writer = open(&sink(connector), "7c1e0000", 1, 2).unwrap();
        writer.write(&lines(&["a", "b"])).unwrap();
        writer.flush().unwrap();
        let parts = writer.prepare(3).unwrap();
        assert_eq!(parts[0].name, "part-7c1e0000-000003-002.txt");
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
