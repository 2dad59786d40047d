//! Whether a file is still the one that was read.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};

use crate::job::model::NodeId;
use crate::source::Error;
use crate::source::framer::HISTORY;

/// What a file looked like on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    /// Bytes; it may have more by now.
    pub(super) size: u64,
    /// XXH3-64 of the first 64 KiB of them.
    #[serde(with = "hex")]
    pub(super) head: u64,
}

impl Identity {
    pub(super) fn of(file: &File) -> io::Result<Identity> {
        Identity::up_to(file, file.metadata()?.len())
    }

    /// Of the first `size` bytes.
    pub(super) fn up_to(file: &File, size: u64) -> io::Result<Identity> {
        let mut head = vec![0; size.min(HISTORY as u64) as usize];
        let mut read = 0;
        while read < head.len() {
            match file.read_at(&mut head[read..], read as u64) {
                Ok(0) => break,
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Identity {
            size,
            head: xxhash_rust::xxh3::xxh3_64(&head[..read]),
        })
    }
}

/// Hashes as 16 hexadecimal digits: JSON numbers have 53 bits.
pub(super) mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(in crate::source::file) fn serialize<S: Serializer>(
        hash: &u64,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        out.collect_str(&format_args!("{hash:016x}"))
    }

    pub(in crate::source::file) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<u64, D::Error> {
        let text = String::deserialize(from)?;
        u64::from_str_radix(&text, 16).map_err(de::Error::custom)
    }
}

/// Opens an input file.
pub(super) fn open(source: &NodeId, name: &str) -> Result<File, Error> {
    File::open(name).map_err(|cause| unreadable(source, name, cause))
}

/// Checks that the file `name` still begins as recorded and is no shorter. Returns its size, `None` if it is `done` and gone.
pub(super) fn check(
    source: &NodeId,
    name: &str,
    recorded: Identity,
    done: bool,
) -> Result<Option<u64>, Error> {
    let file = match File::open(name) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound && done => return Ok(None),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Error::Changed(format!(
                "source `{source}`: {name} is gone, but was not read to its end ({} bytes when the job first started); \
                 put it back, or move the output away and start over with `--fresh`",
                recorded.size
            )));
        }
        Err(error) => return Err(unreadable(source, name, error)),
    };
    let unreadable = |cause| unreadable(source, name, cause);
    let size = file.metadata().map_err(unreadable)?.len();
    if size < recorded.size {
        return Err(changed(
            source,
            name,
            &format!("it had {} bytes, now {size}", recorded.size),
        ));
    }
    let now = Identity::up_to(&file, recorded.size).map_err(unreadable)?;
    if now.head != recorded.head {
        return Err(changed(
            source,
            name,
            &format!(
                "its first {} bytes had the hash {:016x}, now {:016x}",
                recorded.size.min(HISTORY as u64),
                recorded.head,
                now.head
            ),
        ));
    }
    Ok(Some(size))
}

/// The file `name` is not what it was.
pub(super) fn changed(source: &NodeId, name: &str, what: &str) -> Error {
    Error::Changed(format!(
        "source `{source}`: {name} was changed while the job depends on it: {what}; \
         put the old file back, or move the output away and start over with `--fresh`"
    ))
}

/// The file `name` cannot be read.
pub(super) fn unreadable(source: &NodeId, name: &str, cause: io::Error) -> Error {
    Error::Io {
        what: format!("source `{source}`: cannot read {name}"),
        source: cause,
    }
}
