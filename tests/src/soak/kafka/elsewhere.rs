//! The same job started with checkpoint storage of its own, where no lock and no claim of the other is seen: only Kafka knows of both.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::super::trial::{COMMITTED, Fate, freeze, goes_on, running, thaw};
use super::Stage;
use super::job::Kind;
use super::wired::Wired;
use crate::host::{Exit, HANGS, Process};
use crate::output;
use crate::place::Place;

/// So many times the job is started with empty storage, which is refused and disturbs nobody; and with a copy, as from a backup, while the first one
/// stands still, which takes it over: the first one must notice that what it knows is not the newest.
pub(super) fn elsewhere(stage: &Stage<'_>, times: u32) -> Result<(), String> {
    let kind = Kind::Keyed;
    let wired = Wired::new(stage.reference(kind), stage.broker, "elsewhere");
    let mut random = stage.random.clone();
    let mut trial = stage.trial("first", random.bits(), &wired);
    trial.feed_slowly(6 + 6 * u64::from(times));
    let mut start = trial.parallelism();
    let mut old = trial.place.start(&start);
    for time in 0..times {
        running(&mut old)?;
        let before = restarts(&old);
        let empty = Place::at(stage.host, stage.folder.join(format!("empty-{time}")));
        fs::copy(trial.place.job(), empty.job()).map_err(|error| error.to_string())?;
        is_refused(&empty.run())?;
        goes_on(&mut old)?;
        if restarts(&old) > before {
            return Err(format!("a refused start disturbed it:\n{}", old.log()));
        }

        old.within(random.time(Duration::from_millis(200)));
        freeze(&mut old);
        let other = Place::at(stage.host, stage.folder.join(format!("copy-{time}")));
        copy(&trial.place.path("checkpoints"), &other.path("checkpoints"));
        fs::copy(trial.place.job(), other.job()).map_err(|error| error.to_string())?;
        start = trial.parallelism();
        let mut new = other.start(&start);
        if !new.says(COMMITTED, 2, HANGS) {
            return Err(format!("the copy does not run:\n{}", new.log()));
        }
        thaw(&mut old);
        is_refused(&old.end())?;
        // It has shut the other one out while it found that out.
        goes_on(&mut new)?;
        trial.place = other;
        old = new;
    }
    let exit = old.kill();
    if trial.judge(&exit)? == Fate::Finished {
        return Err("the input ended before it was started often enough".to_owned());
    }
    trial.finish()
}

/// How often it has said that an attempt is over.
fn restarts(process: &Process) -> usize {
    process.log().matches("restarting in").count()
}

/// It must not go on: what Kafka knows is newer than what it knows.
fn is_refused(exit: &Exit) -> Result<(), String> {
    let named = exit.log.contains("error[W05");
    match (exit.code(), named) {
        (Some(3), true) => Ok(()),
        _ => Err(format!("it was not refused:\n{}", exit.log)),
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder can be created");
    for name in output::names(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).expect("a file can be copied");
        }
    }
}
