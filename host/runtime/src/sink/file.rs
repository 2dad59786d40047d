//! Parts of files: the output of one sink subtask between two checkpoints, staged under a hidden name.
//!
//! A part is begun with the first record after a barrier and closed by the next, so an interval without records leaves
//! none. Its final name carries lineage, checkpoint and subtask, none of which ever occurs again in that combination
//! (checkpoint numbers are not reused), so it can be published whenever its manifest is, also by a later one.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::{Error, StagedPart, Written, line, parts};
use crate::batch::Batch;
use crate::job::model::SinkFormat;

#[cfg(test)]
mod tests;

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 256 * 1024;

/// A file that a part is written to. A trait, so that tests can fail where disks do.
trait Storage: Write + Send {
    /// Everything written is on the disk when this returns.
    fn sync(&mut self) -> io::Result<()>;
}

impl Storage for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// Creates a file that is not there yet.
type Create = fn(&Path) -> io::Result<Box<dyn Storage>>;

fn create(path: &Path) -> io::Result<Box<dyn Storage>> {
    Ok(Box::new(
        File::options().write(true).create_new(true).open(path)?,
    ))
}

/// The part that is being written.
struct Part {
    staged: String,
    file: Box<dyn Storage>,
    buffer: Vec<u8>,
    /// In the file and the buffer.
    written: Written,
}

/// The writer of one file sink subtask.
///
/// Dropping it removes the part that was not prepared, and no other.
pub struct FileSink {
    sink: String,
    dir: PathBuf,
    format: SinkFormat,
    lineage: String,
    attempt: u64,
    subtask: u16,
    create: Create,
    part: Option<Part>,
    /// Parts begun, for their staged names.
    begun: u64,
    /// Whether an error ended it.
    failed: bool,
    written: Written,
}

impl std::fmt::Debug for FileSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileSink")
            .field("sink", &self.sink)
            .field("dir", &self.dir)
            .field("subtask", &self.subtask)
            .field("part", &self.part.as_ref().map(|part| &part.staged))
            .finish_non_exhaustive()
    }
}

impl FileSink {
    /// The writer of subtask `subtask` of the sink called `sink`, into `dir`, which exists by the time that something is
    /// written. `lineage` is the lineage's short id, hexadecimal; `attempt` keeps staged names of a killed process apart.
    pub fn new(
        sink: &str,
        dir: &Path,
        format: SinkFormat,
        lineage: &str,
        attempt: u64,
        subtask: u16,
    ) -> FileSink {
        FileSink {
            sink: sink.to_owned(),
            dir: dir.to_owned(),
            format,
            lineage: lineage.to_owned(),
            attempt,
            subtask,
            create,
            part: None,
            begun: 0,
            failed: false,
            written: Written::default(),
        }
    }

    /// Writes the values of `batch`, a line each.
    ///
    /// # Errors
    /// [`Error::Value`] for a value that is no line of the sink's format; [`Error::Io`], on a full disk for one.
    pub fn write(&mut self, batch: &Batch) -> Result<(), Error> {
        self.check_sound()?;
        let result = self.try_write(batch);
        self.note(result)
    }

    /// Closes the part, if one was begun, and stages it durably for checkpoint `checkpoint`.
    ///
    /// # Errors
    /// [`Error::Io`]: nothing is staged.
    pub fn prepare(&mut self, checkpoint: u64) -> Result<Vec<StagedPart>, Error> {
        self.check_sound()?;
        let result = self.try_prepare(checkpoint);
        self.note(result)
    }

    /// What was written so far, committed or not.
    pub fn written(&self) -> Written {
        self.written
    }

    fn check_sound(&self) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Part(format!(
                "sink `{}`: output since the last checkpoint is incomplete after an earlier error, and is not committed",
                self.sink
            )));
        }
        Ok(())
    }

    fn note<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if result.is_err() {
            self.failed = true;
            self.discard();
        }
        result
    }

    fn try_write(&mut self, batch: &Batch) -> Result<(), Error> {
        if batch.is_empty() {
            return Ok(());
        }
        let part = match &mut self.part {
            Some(part) => part,
            None => {
                let part = self.begin()?;
                self.part.insert(part)
            }
        };
        for row in 0..batch.len() {
            let value = line::value(&self.sink, self.format, batch, row)?;
            part.buffer.extend_from_slice(value);
            part.buffer.push(b'\n');
            for written in [&mut part.written, &mut self.written] {
                written.records += 1;
                written.bytes += value.len() as u64 + 1;
            }
            if part.buffer.len() >= BUFFER_BYTES {
                part.file.write_all(&part.buffer).map_err(|cause| {
                    cannot_write(&self.sink, &self.dir.join(&part.staged), cause)
                })?;
                part.buffer.clear();
            }
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<Part, Error> {
        loop {
            self.begun += 1;
            let staged = parts::staged_name(
                &self.lineage,
                self.attempt,
                self.subtask,
                self.begun,
                self.format,
            );
            let path = self.dir.join(&staged);
            match (self.create)(&path) {
                Ok(file) => {
                    let buffer = Vec::with_capacity(BUFFER_BYTES);
                    return Ok(Part {
                        staged,
                        file,
                        buffer,
                        written: Written::default(),
                    });
                }
                // A part of this attempt from before a restart within the process. It may have been promised.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(cannot_write(&self.sink, &path, error)),
            }
        }
    }

    fn try_prepare(&mut self, checkpoint: u64) -> Result<Vec<StagedPart>, Error> {
        let Some(part) = &mut self.part else {
            return Ok(Vec::new());
        };
        let path = self.dir.join(&part.staged);
        part.file
            .write_all(&part.buffer)
            .and_then(|()| part.file.flush())
            .and_then(|()| part.file.sync())
            .map_err(|cause| cannot_write(&self.sink, &path, cause))?;
        parts::sync_dir(&self.dir)?;
        let staged = StagedPart {
            sink: self.sink.clone(),
            dir: self.dir.clone(),
            staged: part.staged.clone(),
            name: parts::final_name(&self.lineage, checkpoint, self.subtask, self.format),
            bytes: part.written.bytes,
            records: part.written.records,
        };
        self.part = None;
        Ok(vec![staged])
    }

    /// Removes the part that was not prepared.
    fn discard(&mut self) {
        if let Some(part) = self.part.take() {
            // What cannot be removed now is swept at the next start.
            let _ = fs::remove_file(self.dir.join(part.staged));
        }
    }
}

impl Drop for FileSink {
    fn drop(&mut self) {
        self.discard();
    }
}

fn cannot_write(sink: &str, path: &Path, cause: io::Error) -> Error {
    let remedy = match cause.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            " (nothing of this interval is published; free some space)"
        }
        ErrorKind::NotFound => " (the output directory was removed while the job ran)",
        _ => "",
    };
    Error::Io {
        what: format!("sink `{sink}`: cannot write {}{remedy}", path.display()),
        source: cause,
    }
}
