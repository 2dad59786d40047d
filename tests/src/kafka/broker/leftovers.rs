//! Folders of brokers: each belongs to a process, which holds a lock in it. The shared broker's is never dropped, and tests may be
//! killed; what dead processes left is removed by the next that starts a broker. Until then their logs can be read.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use tempfile::TempDir;

const PREFIX: &str = "weir-broker-";
const OWNER: &str = "owner";

/// A folder of a broker.
#[derive(Debug)]
pub(super) struct Folder {
    dir: TempDir,
    /// Locked.
    _owner: File,
}

impl Folder {
    /// A new one.
    pub(super) fn create() -> io::Result<Folder> {
        remove_leftovers(&std::env::temp_dir());
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir()?;
        let owner = File::create(dir.path().join(OWNER))?;
        owner.lock()?;
        Ok(Folder { dir, _owner: owner })
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A failing test's broker has a log that is worth reading.
        self.dir.disable_cleanup(std::thread::panicking());
    }
}

/// What cannot be removed or looked at is somebody else's.
fn remove_leftovers(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // A folder without the file is one that is just being made.
        if let Ok(owner) = File::open(entry.path().join(OWNER))
            && owner.try_lock().is_ok()
            && fs::metadata(entry.path().join("log")).is_ok()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_removed_when_its_owner_is_gone_and_not_before() {
        let parent = tempfile::tempdir().unwrap();
        let broker = parent.path().join(format!("{PREFIX}x"));
        fs::create_dir(&broker).unwrap();
        remove_leftovers(parent.path());
        assert!(broker.exists(), "it has no owner yet");

        let owner = File::create(broker.join(OWNER)).unwrap();
        fs::write(broker.join("log"), "").unwrap();
        owner.lock().unwrap();
        remove_leftovers(parent.path());
        assert!(broker.exists(), "its owner lives");

        drop(owner);
        remove_leftovers(parent.path());
        assert!(!broker.exists());
    }

    #[test]
    fn other_folders_are_let_alone() {
        let parent = tempfile::tempdir().unwrap();
        let other = parent.path().join("mine");
        fs::create_dir(&other).unwrap();
        fs::write(other.join(OWNER), "").unwrap();
        fs::write(other.join("log"), "").unwrap();
        remove_leftovers(parent.path());
        assert!(other.exists());
    }
}
