//! Parts of files: the output of one sink subtask, staged under a hidden name.
//!
//! A part is begun with the first record, goes on over as many checkpoints as the sink's [`Roll`] lets it, and is complete at a
//! barrier, or when it is large enough. At each barrier all of it is on the disk, and the checkpoint records its length: its
//! writer only ever appends, so that much of it stays what it is, whatever happens to the writer, and can be read by itself. Its final name is given when it is
//! begun and carries lineage, checkpoint, subtask and a number, none of which ever occurs again in that combination: a part that is
//! in a committed checkpoint was begun no later than that, and numbers of checkpoints are not reused.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::compress::Encoder;
use super::csv::Rows;
use super::{Author, Error, Prepared, StagedPart, Written, line, parts};
use crate::batch::Batch;
use crate::job::model::{Roll, SinkCompression, SinkFormat};
use crate::{clock, fault_point};

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

/// What kind of file a part is.
#[derive(Clone, Debug)]
pub struct PartKind {
    /// How values are written.
    pub format: SinkFormat,
    /// How the file is compressed.
    pub compression: SinkCompression,
}

/// The part that is being written.
struct Part {
    staged: String,
    name: String,
    file: Box<dyn Storage>,
    encoder: Encoder,
    records: u64,
    /// Written to the file.
    bytes: u64,
    /// Whether all that was pushed is on the disk.
    is_synced: bool,
    began: Instant,
    /// Whether a barrier found it open: then a checkpoint may need it, whatever becomes of this attempt.
    promised: bool,
}

impl Part {
    fn push(&mut self, line: &[u8]) -> io::Result<()> {
        self.is_synced = false;
        self.records += 1;
        self.encoder.push(line)?;
        self.encoder.push(b"\n")?;
        if self.encoder.ready().len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// How large the file is, or will be once it is flushed.
    fn size(&mut self) -> u64 {
        self.bytes + self.encoder.ready().len() as u64
    }

    fn flush(&mut self) -> io::Result<()> {
        let ready = self.encoder.ready();
        self.file.write_all(ready)?;
        self.bytes += ready.len() as u64;
        ready.clear();
        Ok(())
    }

    /// All of it is on the disk when this returns, and can be read as it is.
    fn sync(&mut self) -> io::Result<()> {
        if !self.is_synced {
            self.encoder.end_frame()?;
            self.flush()?;
            self.file.flush()?;
            self.file.sync()?;
            self.is_synced = true;
        }
        Ok(())
    }
}

/// The writer of one file sink subtask.
///
/// Dropping it removes the parts that were never found by a barrier, and no other.
pub struct FileSink {
    sink: String,
    dir: PathBuf,
    kind: PartKind,
    /// Makes rows of values, where they are not lines as they are.
    rows: Option<Rows>,
    /// The row that is being made.
    row: Vec<u8>,
    roll: Roll,
    author: Author,
    create: Create,
    part: Option<Part>,
    /// Complete since the last barrier, and whether an earlier one found it open.
    complete: Vec<(StagedPart, bool)>,
    /// Whether names were created that may not be on the disk yet.
    names_unsynced: bool,
    /// Parts begun in this attempt, for their staged names.
    begun: u64,
    /// Parts begun since the last barrier, for their final names.
    begun_since: u64,
    /// Whether an error ended it.
    failed: bool,
    written: Written,
}

impl std::fmt::Debug for FileSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileSink")
            .field("sink", &self.sink)
            .field("dir", &self.dir)
            .field("author", &self.author)
            .field("part", &self.part.as_ref().map(|part| &part.staged))
            .finish_non_exhaustive()
    }
}

impl FileSink {
    /// The writer of a subtask of the sink called `sink`, into `dir`, which exists by the time that something is written.
    pub fn new(sink: &str, dir: &Path, kind: PartKind, roll: Roll, author: Author) -> FileSink {
        FileSink {
            sink: sink.to_owned(),
            dir: dir.to_owned(),
            rows: match &kind.format {
                SinkFormat::Csv(output) => Some(Rows::new(output.clone())),
                SinkFormat::Raw | SinkFormat::Json => None,
            },
            row: Vec::new(),
            kind,
            roll,
            author,
            create,
            part: None,
            complete: Vec::new(),
            names_unsynced: false,
            begun: 0,
            begun_since: 0,
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

    /// Makes everything written so far durable, for checkpoint `checkpoint`. A part that is due is complete with that; after the
    /// `last` checkpoint none goes on.
    ///
    /// # Errors
    /// [`Error::Io`]: nothing since the last barrier is staged.
    pub fn prepare(&mut self, checkpoint: u64, last: bool) -> Result<Prepared, Error> {
        self.check_sound()?;
        let result = self.try_prepare(checkpoint, last);
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
        for row in 0..batch.len() {
            let mut made = std::mem::take(&mut self.row);
            made.clear();
            let line = match &mut self.rows {
                Some(rows) => {
                    rows.row(&self.sink, batch, row, &mut made)?;
                    &made[..]
                }
                None => line::value(&self.sink, &self.kind.format, batch, row)?,
            };
            let part = match &mut self.part {
                Some(part) => part,
                None => {
                    let part = self.begin()?;
                    self.part.insert(part)
                }
            };
            part.push(line)
                .map_err(|cause| cannot_write(&self.sink, &self.dir.join(&part.staged), cause))?;
            self.written.records += 1;
            self.written.bytes += line.len() as u64 + 1;
            self.row = made;
            if part.size() >= self.roll.size {
                self.complete()?;
                fault_point::pass("mid-interval");
            }
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<Part, Error> {
        self.begun_since += 1;
        self.begun += 1;
        let staged = parts::staged_name(&self.author, self.begun, &self.kind);
        let path = self.dir.join(&staged);
        let file = (self.create)(&path).map_err(|cause| cannot_write(&self.sink, &path, cause))?;
        self.names_unsynced = true;
        let mut encoder = Encoder::new(self.kind.compression);
        if let Some(rows) = &self.rows {
            let mut header = Vec::new();
            rows.header(&mut header);
            encoder
                .push(&header)
                .map_err(|cause| cannot_write(&self.sink, &path, cause))?;
        }
        Ok(Part {
            staged,
            name: parts::final_name(&self.author, self.begun_since, &self.kind),
            file,
            encoder,
            records: 0,
            bytes: 0,
            is_synced: true,
            began: clock::now(),
            promised: false,
        })
    }

    /// The part as it is, all of it on the disk.
    fn synced(&mut self) -> Result<Option<StagedPart>, Error> {
        let Some(part) = &mut self.part else {
            return Ok(None);
        };
        part.sync()
            .map_err(|cause| cannot_write(&self.sink, &self.dir.join(&part.staged), cause))?;
        Ok(Some(StagedPart {
            sink: self.sink.clone(),
            dir: self.dir.clone(),
            staged: part.staged.clone(),
            name: part.name.clone(),
            bytes: part.bytes,
            records: part.records,
        }))
    }

    /// Nothing is added to the part any more.
    fn complete(&mut self) -> Result<(), Error> {
        if let Some(staged) = self.synced()? {
            let promised = self.part.take().is_some_and(|part| part.promised);
            self.complete.push((staged, promised));
        }
        Ok(())
    }

    fn try_prepare(&mut self, checkpoint: u64, last: bool) -> Result<Prepared, Error> {
        let age = self.roll.age;
        let is_due = |part: &Part| clock::now().saturating_duration_since(part.began) >= age;
        if last || self.part.as_ref().is_some_and(is_due) {
            self.complete()?;
        }
        let open = self.synced()?;
        if std::mem::take(&mut self.names_unsynced) {
            parts::sync_dir(&self.dir)?;
        }
        if let Some(part) = &mut self.part {
            part.promised = true;
        }
        self.author.next_n = checkpoint + 1;
        self.begun_since = 0;
        let complete = std::mem::take(&mut self.complete).into_iter();
        Ok(Prepared {
            staged: complete.map(|(part, _)| part).collect(),
            open,
            sent: 0,
        })
    }

    /// Removes the parts that no checkpoint can need.
    fn discard(&mut self) {
        let part = self.part.take().map(|part| (part.staged, part.promised));
        let complete = std::mem::take(&mut self.complete).into_iter();
        let complete = complete.map(|(part, promised)| (part.staged, promised));
        for (staged, _) in part.into_iter().chain(complete).filter(|(_, kept)| !kept) {
            // What cannot be removed now is swept at the next start.
            let _ = fs::remove_file(self.dir.join(staged));
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
            " (nothing since the last checkpoint is published; free some space)"
        }
        ErrorKind::NotFound => " (the output directory was removed while the job ran)",
        _ => "",
    };
    Error::Io {
        what: format!("sink `{sink}`: cannot write {}{remedy}", path.display()),
        source: cause,
    }
}
