//! Restarts, counted over the life of a job rather than of a process: a supervisor that starts a new process when one ends must not start
//! the count anew, or a record that fails for ever is tried for ever.
//!
//! The count is a file in the data directory. It is written after each failure, before the pause, and removed when it says nothing:
//! after three good checkpoints, and when the job gave up, so that whoever then starts it on purpose gets all its tries again. It is a help,
//! not a promise: a file that cannot be read or written is warned of (W0309), and the job goes on without. A process that was killed is
//! not a failure of the job and does not count.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::job::model::Restart;
use crate::log::{Level, Line};
use crate::restart::{Decision, Failed, History, Restarts};
use crate::{clock, log};

/// The file's name in the data directory.
const FILE: &str = "restarts.json";

/// The version that is written, and the only one that is read.
const FORMAT: u32 = 1;

/// Larger ones are damaged.
const MAX_BYTES: u64 = 1 << 20;

/// The file's contents.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    format: u32,
    /// By the wall clock, milliseconds since the epoch: the ages of failures count from here.
    written_at: i64,
    history: History,
}

/// See the module.
#[derive(Debug)]
pub(super) struct CountedRestarts {
    restarts: Restarts,
    /// `None` where nothing is kept.
    file: Option<PathBuf>,
    began: Instant,
    warned: bool,
}

impl CountedRestarts {
    /// For a job that is not restarted.
    pub(super) fn none() -> CountedRestarts {
        CountedRestarts {
            restarts: Restarts::new(Restart::None, 0),
            file: None,
            began: clock::now(),
            warned: false,
        }
    }

    /// Goes on with the count in `data_dir`; with `afresh` it begins again.
    pub(super) fn open(strategy: Restart, data_dir: &Path, afresh: bool) -> CountedRestarts {
        let now = clock::wall_millis();
        let mut counted = CountedRestarts {
            restarts: Restarts::new(strategy.clone(), now.unsigned_abs()),
            file: Some(data_dir.join(FILE)),
            began: clock::now(),
            warned: false,
        };
        if afresh {
            counted.keep(&History::default());
            return counted;
        }
        match read(&data_dir.join(FILE)) {
            Ok(Some(stored)) => {
                let away = u64::try_from(now.saturating_sub(stored.written_at)).unwrap_or(0);
                let history = stored.history.older(Duration::from_millis(away));
                if let Some(last) = history.describe() {
                    log::info(&format!("the count of restarts goes on: {last}"));
                }
                counted.restarts = Restarts::resume(strategy, now.unsigned_abs(), history);
            }
            Ok(None) => {}
            Err(error) => counted.warn(&format!("it starts at zero: {error}")),
        }
        counted
    }

    /// A checkpoint of the running attempt was confirmed.
    pub(super) fn confirmed(&mut self) {
        if self.restarts.confirmed() {
            self.keep_history();
        }
    }

    /// Restarts since the job was last in good health.
    pub(super) fn in_a_row(&self) -> u32 {
        self.restarts.in_a_row()
    }

    /// An attempt failed: decides what follows, and keeps the count.
    pub(super) fn failed(&mut self, failed: &Failed) -> Decision {
        let decision = self.restarts.failed(self.since(), failed);
        if matches!(decision, Decision::Restart { .. }) {
            self.keep_history();
        }
        decision
    }

    /// The job gave up; whoever starts it again does so on purpose.
    pub(super) fn gave_up(&mut self) {
        self.keep(&History::default());
    }

    fn since(&self) -> Duration {
        clock::now().saturating_duration_since(self.began)
    }

    fn keep_history(&mut self) {
        let history = self.restarts.history(self.since());
        self.keep(&history);
    }

    fn keep(&mut self, history: &History) {
        let Some(file) = &self.file else { return };
        let kept = if *history == History::default() {
            match fs::remove_file(file) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                other => other,
            }
        } else {
            write(file, history)
        };
        if let Err(error) = kept {
            self.warn(&format!("{}: {error}", file.display()));
        }
    }

    /// Once: what cannot be written now will not be next time either.
    fn warn(&mut self, what: &str) {
        if !std::mem::replace(&mut self.warned, true) {
            let text = format!("the count of restarts is not kept over processes; {what}");
            log::write(Line::new(Level::Warn, text).code("W0309"));
        }
    }
}

fn read(path: &Path) -> io::Result<Option<Stored>> {
    let bytes = match fs::metadata(path) {
        Ok(metadata) if metadata.len() > MAX_BYTES => {
            return Err(damaged(path, "it is too large"));
        }
        Ok(_) => fs::read(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    #[derive(Deserialize)]
    struct Probe {
        format: u32,
    }
    let probe: Probe = serde_json::from_slice(&bytes).map_err(|error| damaged(path, error))?;
    if probe.format != FORMAT {
        let found = probe.format;
        return Err(damaged(
            path,
            format!("it has format {found}; this release reads format {FORMAT}"),
        ));
    }
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| damaged(path, error))
}

fn damaged(path: &Path, what: impl std::fmt::Display) -> io::Error {
    let what = format!("{}: {what}", path.display());
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Whole or not at all, also if the power fails.
fn write(path: &Path, history: &History) -> io::Result<()> {
    let stored = Stored {
        format: FORMAT,
        written_at: clock::wall_millis(),
        history: history.clone(),
    };
    let bytes = serde_json::to_vec(&stored).expect("a history is plain data");
    let unfinished = path.with_extension("tmp");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)?;
    let written = file
        .write_all(&bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        // What failed first is what has to be said.
        let _ = fs::remove_file(&unfinished);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRATEGY: Restart = Restart::Fixed {
        delay: Duration::ZERO,
        give_up_after: 3,
    };

    fn failure() -> Failed {
        Failed {
            text: "trapped".to_owned(),
            position: Some("f:12".to_owned()),
            permanent: false,
        }
    }

    fn in_a_row(decision: &Decision) -> Option<u32> {
        match decision {
            Decision::Restart { in_a_row, .. } => Some(*in_a_row),
            Decision::GiveUp(_) => None,
        }
    }

    #[test]
    fn the_count_goes_on_in_the_next_process_and_giving_up_ends_it() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let open = || CountedRestarts::open(STRATEGY, dir.path(), false);
        assert_eq!(in_a_row(&open().failed(&failure())), Some(1));
        assert_eq!(in_a_row(&open().failed(&failure())), Some(2));
        let mut third = open();
        assert_eq!(in_a_row(&third.failed(&failure())), None);
        third.gave_up();
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 0);
        assert_eq!(in_a_row(&open().failed(&failure())), Some(1));
        assert_eq!(
            in_a_row(&CountedRestarts::open(STRATEGY, dir.path(), true).failed(&failure())),
            Some(1)
        );
    }

    #[test]
    fn three_confirmed_checkpoints_end_the_count_but_not_that_of_the_same_error() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let open = || CountedRestarts::open(STRATEGY, dir.path(), false);
        let somewhere = Failed {
            position: None,
            ..failure()
        };
        open().failed(&somewhere);
        let mut next = open();
        next.confirmed();
        next.confirmed();
        assert!(dir.path().join(FILE).exists());
        next.confirmed();
        assert!(!dir.path().join(FILE).exists());
        next.failed(&failure());
        let mut next = open();
        (0..3).for_each(|_| next.confirmed());
        // Counted from one again, but the record is still the same.
        assert_eq!(in_a_row(&next.failed(&failure())), Some(1));
        assert_eq!(in_a_row(&open().failed(&failure())), None);
    }

    #[test]
    fn a_file_that_cannot_be_used_is_no_reason_not_to_start() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for contents in ["", "{", "{\"format\": 9}", "{\"format\": 1}"] {
            fs::write(dir.path().join(FILE), contents).expect("written");
            let mut counted = CountedRestarts::open(STRATEGY, dir.path(), false);
            assert!(counted.warned, "{contents}");
            assert_eq!(in_a_row(&counted.failed(&failure())), Some(1), "{contents}");
        }
        let gone = dir.path().join("gone");
        let mut counted = CountedRestarts::open(STRATEGY, &gone, false);
        assert_eq!(in_a_row(&counted.failed(&failure())), Some(1));
        assert!(counted.warned);
    }
}
