//! What the system says of the process: room where it writes, and memory that it has.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::status::Disk;

/// How often file systems are asked.
const EVERY: Duration = Duration::from_secs(10);

/// How often, until all of them are there.
const AT_FIRST: Duration = Duration::from_secs(1);

/// Room on the file systems that the job writes to, as last asked for.
///
/// A file system that hangs hangs whoever asks it, so a thread of its own does: status must be told when storage cannot be.
#[derive(Debug, Default)]
pub(super) struct Disks(Mutex<Vec<Disk>>);

impl Disks {
    /// Watches `dirs`, each with what it is for, until dropped.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(super) fn watch(dirs: Vec<(&'static str, PathBuf)>) -> std::io::Result<Arc<Disks>> {
        let disks = Arc::new(Disks::default());
        let watched = Arc::downgrade(&disks);
        std::thread::Builder::new()
            .name("disks".into())
            .spawn(move || watch(&watched, &dirs))?;
        Ok(disks)
    }

    /// What was found last; nothing where a directory is not there.
    pub(super) fn look(&self) -> Vec<Disk> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

fn watch(watched: &Weak<Disks>, dirs: &[(&'static str, PathBuf)]) {
    loop {
        let found: Vec<Disk> = dirs
            .iter()
            .filter_map(|(what, dir)| {
                let free_bytes = free_bytes(dir)?;
                Some(Disk {
                    what: (*what).to_owned(),
                    dir: dir.display().to_string(),
                    free_bytes,
                })
            })
            .collect();
        let Some(disks) = watched.upgrade() else {
            return;
        };
        let wait = if found.len() < dirs.len() {
            AT_FIRST
        } else {
            EVERY
        };
        *disks.0.lock().unwrap_or_else(PoisonError::into_inner) = found;
        drop(disks);
        std::thread::sleep(wait);
    }
}

fn free_bytes(dir: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(dir).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Bytes of memory that the process has, where the system says.
pub(super) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_room_and_a_missing_one_is_left_out() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        assert!(free_bytes(dir.path()).is_some_and(|bytes| bytes > 0));
        assert_eq!(free_bytes(&dir.path().join("missing")), None);
    }

    #[test]
    fn this_process_has_some_memory() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
