//! Ownership: at most one process on this machine runs a job.
//!
//! An advisory lock (`flock`) on a file in the data directory and in a local checkpoint directory. The kernel drops it when the process ends,
//! however it ends. Where locks do not reach (another machine on a shared file system), the claim in the commit log decides;
//! the lock only spares people the detour.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::refusal::Refusal;

/// The name of the lock file.
const LOCK: &str = "lock";

/// How often the name of an owner is looked for, and the pause before it is looked for again: one that has just begun has the lock a
/// moment before its name is in the file.
const LOOKS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(5);

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
            return Err(Refusal::OwnedElsewhere {
                job: job.to_owned(),
                dir: dir.to_owned(),
                owner: owner(&mut file),
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

/// What the file says of the process that has it locked. That is only for the message, so what is unreadable is left out; and one that
/// cannot be found is named all the same, as it may run on another machine.
fn owner(file: &mut File) -> String {
    let mut owner = String::new();
    for look in 0..LOOKS {
        if look > 0 {
            std::thread::sleep(PAUSE);
        }
        owner.clear();
        let _ = file
            .rewind()
            .and_then(|()| Read::take(&mut *file, 256).read_to_string(&mut owner));
        if runs(&owner) {
            break;
        }
    }
    owner.trim().to_owned()
}

/// Whether the process that `owner` names runs on this machine. If not, it is the last one that had the file locked.
fn runs(owner: &str) -> bool {
    let pid = owner
        .strip_prefix("pid ")
        .and_then(|rest| rest.split_once(','))
        .and_then(|(pid, _)| pid.parse().ok())
        .and_then(Pid::from_raw);
    // One that belongs to somebody else cannot be sent signals, and is there.
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
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
    #[test]
    fn an_owner_that_has_just_begun_is_named_and_not_the_one_before() {
        let mut before = std::process::Command::new("true")
            .spawn()
            .expect("a process");
        before.wait().expect("it ends");
        for there in [String::new(), format!("pid {}, job `j`\n", before.id())] {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let path = dir.path().join(LOCK);
            std::fs::write(&path, there).expect("a file");
            let mut held = OpenOptions::new()
                .write(true)
                .open(&path)
                .expect("it is there");
            flock(&held, FlockOperation::NonBlockingLockExclusive).expect("free");
            let named = format!("pid {}, job `j`", std::process::id());
            std::thread::scope(|scope| {
                let refused = scope.spawn(|| Ownership::take(&[dir.path()], "j"));
                std::thread::sleep(4 * PAUSE);
                held.set_len(0)
                    .and_then(|()| writeln!(held, "{named}"))
                    .expect("it can be written");
                let refusal = refused.join().expect("no panic").expect_err("owned");
                assert!(refusal.to_string().contains(&named), "{refusal}");
            });
        }
    }

    #[test]
    fn an_owner_that_cannot_be_found_is_named_all_the_same() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let held = File::create(dir.path().join(LOCK)).expect("a file");
        writeln!(&held, "pid 2147483647, job `j`").expect("it can be written");
        flock(&held, FlockOperation::NonBlockingLockExclusive).expect("free");
        let refusal = Ownership::take(&[dir.path()], "j").expect_err("owned");
        assert!(refusal.to_string().contains("pid 2147483647"), "{refusal}");
    }
}
