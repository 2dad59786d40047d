//! Ownership: at most one process on this machine runs a job.
//!
//! An advisory lock (`flock`) on a file in the data directory and in a local checkpoint directory. The kernel drops it when the process ends,
//! however it ends. Where locks do not reach (another machine on a shared file system), the claim in the commit log decides;
//! the lock only spares people the detour.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::refusal::Refusal;

/// The name of the lock file.
const LOCK: &str = "lock";

/// Proof that no other process on this machine runs the job. Held for the life of the process, over all attempts.
#[derive(Debug)]
pub struct Ownership {
    /// The directories, their links resolved, and the lock of each.
    locks: Vec<(PathBuf, File)>,
}

impl Ownership {
    /// Locks each of `dirs`, which must exist; naming one directory twice is fine. `job` is written into the lock file for the
    /// message that another process gets.
    ///
    /// # Errors
    /// [`Refusal::OwnedElsewhere`], naming the process; [`Refusal::Storage`].
    pub fn take(dirs: &[&Path], job: &str) -> Result<Ownership, Refusal> {
        let mut ownership = Ownership { locks: Vec::new() };
        ownership.extend(dirs, job).map(|()| ownership)
    }

    /// Locks each of `dirs` as well; one that is locked already is fine.
    ///
    /// # Errors
    /// As [`Ownership::take`]; what was locked before stays locked.
    pub fn extend(&mut self, dirs: &[&Path], job: &str) -> Result<(), Refusal> {
        for dir in dirs {
            let failed = |error: io::Error| Refusal::Storage {
                what: format!("cannot lock {}", dir.display()),
                error: error.to_string(),
            };
            // Two locks of one file in one process would exclude each other.
            let real = dir.canonicalize().map_err(failed)?;
            if self.locks.iter().any(|(locked, _)| *locked == real) {
                continue;
            }
            let lock = lock(&real, job, dir)?.map_err(failed)?;
            self.locks.push((real, lock));
        }
        Ok(())
    }

    /// How many different directories are locked.
    pub fn directories(&self) -> usize {
        self.locks.len()
    }
}

fn lock(real: &Path, job: &str, dir: &Path) -> Result<io::Result<File>, Refusal> {
    let open = || {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(real.join(LOCK))
    };
    let mut file = match open() {
        Ok(file) => file,
        Err(error) => return Ok(Err(error)),
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let mut owner = String::new();
            // What it says is only for the message; unreadable is fine.
            let _ = file.take(256).read_to_string(&mut owner);
            return Err(Refusal::OwnedElsewhere {
                job: job.to_owned(),
                dir: dir.to_owned(),
                owner: owner.trim().to_owned(),
            });
        }
        Err(error) => return Ok(Err(error.into())),
    }
    let written = file
        .rewind()
        .and_then(|()| file.set_len(0))
        .and_then(|()| writeln!(file, "pid {}, job `{job}`", std::process::id()));
    Ok(written.map(|()| file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_owner_is_refused_with_the_first_ones_pid_and_may_follow_it() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let again = dir.path().join(".");
        let first = Ownership::take(&[dir.path(), &again], "j").expect("free");
        assert_eq!(first.directories(), 1);
        let (mut first, other) = (first, tempfile::tempdir().expect("a temporary directory"));
        first
            .extend(&[other.path(), dir.path()], "j")
            .expect("free");
        assert_eq!(first.directories(), 2);
        let refusal = Ownership::take(&[dir.path()], "j").expect_err("owned");
        assert_eq!((refusal.code(), refusal.exit_code()), ("W0501", 4));
        let pid = format!("pid {}", std::process::id());
        assert!(refusal.to_string().contains(&pid), "{refusal}");
        drop(first);
        Ownership::take(&[dir.path()], "j").expect("free again");
    }
}
