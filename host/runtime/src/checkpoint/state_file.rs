//! State files: written and read as streams, hashed on the way.
//!
//! A file is called `<n>-<attempt>-<sha256>`. The digest makes it verifiable; number and attempt make deleting safe. If files of equal
//! contents shared a name, an attempt that was replaced could, waking in the middle of its collection, delete a file that its
//! successor has just written again and named in a manifest. As it is, an attempt deletes only files of its own up to its last
//! confirmed checkpoint and files of older attempts, and only if no retained manifest names them.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;

use super::snapshot::{Digest, Hasher, StoredFile};
use super::storage::{CheckpointStorage, Key, Upload};
use crate::fault_point;

/// Bytes that are gathered before they are hashed and written.
const BUFFER_BYTES: usize = 256 * 1024;

/// What a state file is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    /// A barrier.
    Barrier(u64),
    /// The end of a task's inputs. Named in every later manifest of the attempt, so never collected by it.
    End,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Label::Barrier(n) => write!(f, "{n}"),
            Label::End => f.write_str("end"),
        }
    }
}

/// What a state file's name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StateName {
    pub(super) label: Label,
    pub(super) attempt: u64,
    pub(super) digest: Digest,
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.label, self.attempt, self.digest)
    }
}

impl StateName {
    /// `None` for anything else that may lie in the folder.
    pub(super) fn parse(text: &str) -> Option<StateName> {
        let mut parts = text.split('-');
        let label = match parts.next()? {
            "end" => Label::End,
            n => Label::Barrier(n.parse().ok()?),
        };
        let attempt = parts.next()?.parse().ok()?;
        let digest = Digest::parse(parts.next()?)?;
        let name = StateName {
            label,
            attempt,
            digest,
        };
        (name.to_string() == text).then_some(name)
    }
}

/// Writes and reads state files for one attempt. Cheap to clone; for writer threads.
#[derive(Clone)]
pub struct StateFiles {
    storage: Arc<dyn CheckpointStorage>,
    attempt: u64,
}

impl StateFiles {
    pub(super) fn new(storage: Arc<dyn CheckpointStorage>, attempt: u64) -> StateFiles {
        StateFiles { storage, attempt }
    }

    /// Starts a file. Dropped without [`StateWriter::finish`], it leaves nothing behind.
    ///
    /// # Errors
    /// Storage cannot be written.
    pub fn create(&self, label: Label) -> io::Result<StateWriter> {
        Ok(StateWriter {
            upload: self.storage.upload()?,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            hasher: Hasher::default(),
            bytes: 0,
            label,
            attempt: self.attempt,
        })
    }

    /// A reader of a file that a manifest names, of whatever attempt. It is opened when it is first read and closed at its end: a restore
    /// has many of them.
    pub fn reader(&self, file: &StoredFile) -> StateReader {
        StateReader {
            storage: Arc::clone(&self.storage),
            inner: Opened::NotYet,
            hasher: Hasher::default(),
            bytes: 0,
            expected: file.clone(),
        }
    }
}

/// A state file being written.
pub struct StateWriter {
    upload: Box<dyn Upload>,
    buffer: Vec<u8>,
    hasher: Hasher,
    bytes: u64,
    label: Label,
    attempt: u64,
}

impl StateWriter {
    /// Makes the file durable under its name.
    ///
    /// # Errors
    /// It may be there or not; it counts only if a manifest names it.
    pub fn finish(mut self) -> io::Result<StoredFile> {
        self.drain()?;
        let digest = self.hasher.finish();
        let name = StateName {
            label: self.label,
            attempt: self.attempt,
            digest,
        }
        .to_string();
        let key = Key::state(&name).expect("digits, letters and hyphens");
        self.upload.finish(&key)?;
        fault_point::pass("after-state");
        Ok(StoredFile {
            name,
            digest,
            bytes: self.bytes,
        })
    }

    fn drain(&mut self) -> io::Result<()> {
        self.upload.write_all(&self.buffer)?;
        self.hasher.update(&self.buffer);
        self.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl Write for StateWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.drain()?;
        }
        let taken = &bytes[..bytes.len().min(BUFFER_BYTES)];
        self.buffer.extend_from_slice(taken);
        Ok(taken.len())
    }

    /// Does nothing: only [`StateWriter::finish`] makes anything durable.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A state file being read. What was read may be used only after [`StateReader::verify`].
pub struct StateReader {
    storage: Arc<dyn CheckpointStorage>,
    inner: Opened,
    hasher: Hasher,
    bytes: u64,
    expected: StoredFile,
}

enum Opened {
    NotYet,
    Open(Box<dyn Read + Send>),
    Read,
}

impl StateReader {
    fn place(&self) -> String {
        format!(
            "state/{} in {}",
            self.expected.name,
            self.storage.location()
        )
    }

    fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        let missing = || {
            let what = format!("{} is missing", self.place());
            io::Error::new(io::ErrorKind::NotFound, what)
        };
        let key = Key::state(&self.expected.name).ok_or_else(missing)?;
        self.storage.open(&key)?.ok_or_else(missing)
    }

    /// Reads what is left and compares length and digest with the manifest's.
    ///
    /// # Errors
    /// It cannot be read; or, as [`io::ErrorKind::InvalidData`] and naming the file, it is not what was written.
    pub fn verify(mut self) -> io::Result<()> {
        io::copy(&mut self, &mut io::sink())?;
        let damaged = |what: String| {
            let what = format!("{} is damaged: {what}", self.place());
            Err(io::Error::new(io::ErrorKind::InvalidData, what))
        };
        if self.bytes != self.expected.bytes {
            return damaged(format!(
                "it has {} bytes, the manifest says {}",
                self.bytes, self.expected.bytes
            ));
        }
        let found = self.hasher.clone().finish();
        if found != self.expected.digest {
            return damaged(format!(
                "its SHA-256 is {found}, the manifest says {}",
                self.expected.digest
            ));
        }
        Ok(())
    }
}

impl Read for StateReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if matches!(self.inner, Opened::NotYet) {
            self.inner = Opened::Open(self.open()?);
        }
        let count = match &mut self.inner {
            Opened::Open(inner) => inner.read(buffer)?,
            Opened::NotYet | Opened::Read => 0,
        };
        if count == 0 && !buffer.is_empty() {
            self.inner = Opened::Read;
        }
        self.hasher.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::super::LocalDirectory;
    use super::*;

    #[test]
    fn a_file_is_read_as_written_and_a_flipped_byte_is_found() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let storage = Arc::new(LocalDirectory::open(dir.path()).expect("it opens"));
        let files = StateFiles::new(storage, 4);
        let contents: Vec<u8> = (0..3 * BUFFER_BYTES + 17)
            .map(|i| (i % 251) as u8)
            .collect();
        let mut writer = files.create(Label::Barrier(9)).expect("started");
        for piece in contents.chunks(100_003) {
            writer.write_all(piece).expect("written");
        }
        let stored = writer.finish().expect("durable");
        assert_eq!(stored.bytes, contents.len() as u64);
        assert_eq!(stored.digest, Digest::of(&contents));
        assert_eq!(stored.name, format!("9-4-{}", stored.digest));

        let mut read = Vec::new();
        let mut reader = files.reader(&stored);
        reader.read_to_end(&mut read).expect("read");
        reader.verify().expect("undamaged");
        assert!(read == contents);

        let path = dir.path().join("state").join(&stored.name);
        let mut damaged = contents.clone();
        damaged[300_000] ^= 1;
        std::fs::write(&path, &damaged).expect("written");
        let error = files.reader(&stored).verify().expect_err("damaged");
        assert!(error.to_string().contains(&stored.name), "{error}");
        std::fs::write(&path, &contents[1..]).expect("written");
        assert!(files.reader(&stored).verify().is_err());
        std::fs::remove_file(&path).expect("removed");
        let error = files.reader(&stored).verify().expect_err("missing");
        assert!(error.to_string().contains("is missing"), "{error}");
    }

    #[test]
    fn names_say_what_may_be_deleted_and_foreign_ones_say_nothing() {
        let digest = Digest::of(b"x");
        for label in [Label::Barrier(12), Label::End] {
            let name = StateName {
                label,
                attempt: 3,
                digest,
            };
            assert_eq!(StateName::parse(&name.to_string()), Some(name));
        }
        for text in [
            "",
            "12-3",
            "012-3-ab",
            &format!("12-3-{digest}-x"),
            &format!("x-3-{digest}"),
        ] {
            assert_eq!(StateName::parse(text), None, "{text}");
        }
    }
}
