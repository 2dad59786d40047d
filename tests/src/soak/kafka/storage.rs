//! Checkpoint storage that cannot be written for a while.

use std::fs;
use std::time::Duration;

use super::super::trial::{Fate, goes_on, running};
use super::Stage;
use super::job::Kind;
use super::wired::Wired;
use crate::host::HANGS;

/// What says that an attempt is over.
const RESTARTS: &str = "restarting in ";

/// So many times for less than a checkpoint may take, which the job sits out, and so many times for longer, which ends its attempt.
pub(super) fn storage(stage: &Stage<'_>, times: u32) -> Result<(), String> {
    let kind = Kind::Both;
    let wired = Wired::new(stage.reference(kind), stage.broker, "storage");
    let mut random = stage.random.clone();
    let mut trial = stage.trial("job", random.bits(), &wired);
    // Root may write where the mode forbids it, so the folder is put aside.
    let folder = trial.place.path("checkpoints/manifests");
    let aside = trial.place.path("aside");
    let moved = |from, to| fs::rename(from, to).map_err(|error| format!("a folder: {error}"));
    trial.feed_slowly(40);
    for _ in 0..times {
        let start = trial.parallelism();
        let mut process = trial.place.start(&start);
        running(&mut process)?;
        moved(&folder, &aside)?;
        process.within(Duration::from_millis(300) + random.time(Duration::from_secs(1)));
        moved(&aside, &folder)?;
        goes_on(&mut process)?;
        if process.log().contains(RESTARTS) {
            return Err(format!("it did not sit it out:\n{}", process.log()));
        }
        moved(&folder, &aside)?;
        let ended = process.says(RESTARTS, 1, HANGS);
        moved(&aside, &folder)?;
        if !ended {
            return Err(format!("its attempt does not end:\n{}", process.log()));
        }
        goes_on(&mut process)?;
        let exit = process.kill();
        if trial.judge(&exit)? == Fate::Finished {
            return Err("the input ended before storage was away often enough".to_owned());
        }
    }
    trial.finish()
}
