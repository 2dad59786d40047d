//! Checkpoint storage: where snapshots, manifests and the commit log lie.
//!
//! Everything rests on one operation, *create if absent with durable contents*: of two hosts that create the same key exactly
//! one succeeds, and when it returns, a power cut no longer undoes it. Contents never change after that; nothing is overwritten.
//!
//! [`LocalDirectory`] is a small implementation of our own, because the local store of the `object_store` crate does not fsync
//! files and directories, which is the whole point here. S3-compatible stores will come through `object_store`, behind this
//! same trait: their conditional put (`If-None-Match: *`) is exactly [`CheckpointStorage::create`].
//!
//! ```text
//! job.json                       whose directory this is
//! lock                           held while a process owns it (see `ownership`)
//! log/<slot, 20 digits>          the commit log
//! manifests/<n>-<attempt>.json
//! state/<n>-<attempt>-<sha256>
//! components/<attempt>-<sha256>
//! ```

mod local;

use std::fmt;
use std::io::{self, Read, Write};

pub use local::LocalDirectory;
pub(in crate::checkpoint) use local::{random_bits, sync_dir};

use super::component::ComponentName;
use super::manifest::ManifestId;

/// Log slots, manifests and the owner file are read whole; one larger than this is damaged.
pub const MAX_OBJECT_BYTES: u64 = 256 * 1024 * 1024;

/// A folder of checkpoint storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folder {
    /// The commit log.
    Log,
    /// Manifests.
    Manifests,
    /// State files.
    State,
    /// Components.
    Components,
}

impl Folder {
    /// All of them.
    pub const ALL: [Folder; 4] = [
        Folder::Log,
        Folder::Manifests,
        Folder::State,
        Folder::Components,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Folder::Log => "log",
            Folder::Manifests => "manifests",
            Folder::State => "state",
            Folder::Components => "components",
        }
    }
}

/// Where something lies in checkpoint storage: a relative path with `/` between its parts. One constructor for each kind of
/// thing, so that each path is built in one place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key(String);

impl Key {
    /// The file that says whose directory this is.
    pub fn owner() -> Key {
        Key("job.json".to_owned())
    }

    /// A slot of the commit log.
    pub fn slot(index: u64) -> Key {
        Key(format!("{}/{index:020}", Folder::Log.name()))
    }

    /// The slot that a file in the folder `log` holds; `None` for anything else that may lie there.
    pub fn slot_index(file_name: &str) -> Option<u64> {
        let index = file_name.parse().ok()?;
        (format!("{index:020}") == file_name).then_some(index)
    }

    /// A manifest.
    pub fn manifest(id: ManifestId) -> Key {
        Key(format!("{}/{id}", Folder::Manifests.name()))
    }

    /// A state file, by its name in the folder `state`. `None` for a name that would lead out of it.
    pub fn state(name: &str) -> Option<Key> {
        let plain =
            !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-');
        plain.then(|| Key(format!("{}/{name}", Folder::State.name())))
    }

    /// A component.
    pub(super) fn component(name: ComponentName) -> Key {
        Key(format!("{}/{name}", Folder::Components.name()))
    }

    /// The relative path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What became of a conditional create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// It is there, durable, and ours.
    New,
    /// Something was there already, and is unchanged.
    Taken,
}

/// Where snapshots go. Implementations are shared by the coordinator's and all writer threads.
///
/// An error of a writing method means that the outcome is not known: the object may be there or may appear later. A caller
/// that must know reads it back; one that cannot ends the attempt.
pub trait CheckpointStorage: Send + Sync {
    /// Where it is, for messages.
    fn location(&self) -> String;

    /// Creates `key` with `contents`, all at once, if nothing is there. On return both contents and name are durable, also when
    /// it is [`Created::Taken`]: whoever loses may rely on what won.
    ///
    /// # Errors
    /// Outcome unknown.
    fn create(&self, key: &Key, contents: &[u8]) -> io::Result<Created>;

    /// The contents of `key`, or `None` if nothing is there.
    ///
    /// # Errors
    /// It cannot be read, or is larger than [`MAX_OBJECT_BYTES`].
    fn get(&self, key: &Key) -> io::Result<Option<Vec<u8>>>;

    /// A reader of `key`, for files of any size, or `None` if nothing is there.
    ///
    /// # Errors
    /// It cannot be opened.
    fn open(&self, key: &Key) -> io::Result<Option<Box<dyn Read + Send>>>;

    /// Length in bytes, or `None` if nothing is there.
    ///
    /// # Errors
    /// It cannot be asked.
    fn size(&self, key: &Key) -> io::Result<Option<u64>>;

    /// The names in a folder, in no order, without unfinished writes. While others write, an object created during the call may
    /// be missing although a later one is listed; one that was there before the call and still is, is listed.
    ///
    /// # Errors
    /// It cannot be listed; a folder that is gone is an error, not empty.
    fn list(&self, folder: Folder) -> io::Result<Vec<String>>;

    /// Removes `key`; nothing there is fine. Need not be durable: whoever finds it again removes it again.
    ///
    /// # Errors
    /// It may still be there.
    fn delete(&self, key: &Key) -> io::Result<()>;

    /// Starts writing a file of any size. Dropping the upload abandons it and leaves nothing behind.
    ///
    /// # Errors
    /// It cannot be started.
    fn upload(&self) -> io::Result<Box<dyn Upload>>;

    /// Removes what writes by other processes left unfinished. Only for the owner, after its claim.
    ///
    /// # Errors
    /// Something may remain.
    fn sweep(&self) -> io::Result<()>;
}

/// A file on its way into checkpoint storage.
pub trait Upload: Write + Send {
    /// Gives it its name, conditionally and durably like [`CheckpointStorage::create`]. Something there already counts as success:
    /// names of state files contain the digest.
    ///
    /// # Errors
    /// Outcome unknown.
    fn finish(self: Box<Self>, key: &Key) -> io::Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lead_nowhere_else() {
        assert_eq!(Key::slot(7).as_str(), "log/00000000000000000007");
        assert_eq!(Key::slot_index("00000000000000000007"), Some(7));
        for name in [
            "7",
            "0000000000000000000x",
            ".tmp-1",
            "00000000000000000007 ",
        ] {
            assert_eq!(Key::slot_index(name), None, "{name}");
        }
        assert!(Key::state("12-1-abc").is_some());
        for name in ["", "../job", "a/b", ".", "a.b"] {
            assert_eq!(Key::state(name), None, "{name}");
        }
    }
}
