//! Watching: files that appear while the job runs.
//!
//! Each subtask looks at the directories itself, at an interval, and takes the files whose names hash to it, so that who reads a file
//! does not depend on when it appeared. Nothing is recorded of a file before the first record of it: until then it is found again.
//!
//! **Once.** What was read to its end goes into a [`Ledger`]. A file of which the ledger knows name, size and time of change is the one
//! that was read. If size or time differ, its beginning decides: another beginning is another file that has taken the name, and
//! is read; the same beginning and more behind it is a file that was taken before it was complete, and stops the job, for its last line may
//! have been half a record.
//!
//! **Forgetting.** A file that is gone is forgotten, or the ledger would grow for ever; but a directory whose files are all gone may just not
//! be mounted. So a file is forgotten only where the directory that it was seen in, by device and inode, is there and has been listed
//! without it. Directories that a pattern finds are not known one by one: below those nothing is forgotten.
//!
//! **Complete.** Whoever puts files here should move them here when they are complete. As a help against those who do not, a file is
//! taken only if two looks in a row found it with the same size and time of change.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::identity::{self, Identity};
use super::ledger::{self, Finished, Ledger, Stamp};
use super::{Position, find};
use crate::batch::NO_TIME;
use crate::job::model::NodeId;
use crate::source::{Error, SplitState, position};
use crate::{clock, log};

/// The next look comes after so many times what the last one took, at the least: large directories are looked at less often.
const REST: u32 = 10;

/// Of the one split of each subtask that stands for all files it has read.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LedgerPosition {
    /// No place in an input.
    at: u64,
    watch: Share,
}

/// What a subtask has read of what is watched.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Share {
    subtask: u32,
    /// Subtasks there are.
    of: u32,
    /// The directories that the patterns begin with.
    dirs: Vec<String>,
    /// See [`Ledger::text`].
    finished: String,
}

/// Whether a split stands for files that were read.
pub(super) fn is_ledger(split: &SplitState) -> bool {
    split.position.get("watch").is_some()
}

/// The directory that `pattern` looks into, or in which it begins to look, and whether all it finds is right in it.
fn base(pattern: &str) -> (PathBuf, bool) {
    let path = Path::new(pattern);
    let is_pattern = |part: &Component<'_>| {
        let bytes = part.as_os_str().as_encoded_bytes();
        bytes.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
    };
    let parts: Vec<Component<'_>> = path.components().collect();
    let last = parts.len().saturating_sub(1);
    let first = parts.iter().position(is_pattern).unwrap_or(last);
    (parts[..first].iter().collect(), first == last)
}

fn dirs(paths: &[String]) -> BTreeSet<String> {
    let bases = paths.iter().map(|path| base(path).0);
    bases.map(|dir| dir.display().to_string()).collect()
}

/// What a directory is known by as long as it is the same one. Never 0.
fn dir_id(metadata: &Metadata) -> u64 {
    let id = [metadata.dev().to_le_bytes(), metadata.ino().to_le_bytes()];
    xxhash_rust::xxh3::xxh3_64(&id.concat()) | 1
}

fn stamp(metadata: &Metadata) -> Stamp {
    let seconds = metadata.mtime().saturating_mul(1_000_000_000);
    Stamp {
        size: metadata.len(),
        modified: seconds.saturating_add(metadata.mtime_nsec()),
    }
}

/// Checks what is watched before a job first starts: a directory that is missing then is a mistake.
pub(super) fn discover(source: &NodeId, paths: &[String]) -> Result<(), Error> {
    for path in paths {
        let (dir, _) = base(path);
        if !dir.is_dir() {
            return Err(Error::Invalid(format!(
                "source `{source}`: `{path}` is to be watched, but there is no directory {}; create it or correct the path",
                dir.display()
            )));
        }
        find::matches(source, path)?;
    }
    Ok(())
}

/// Checks that what was read is still what is watched. Paths are what files are known by: under other ones all of them would be
/// read again.
pub(super) fn resume(
    source: &NodeId,
    paths: &[String],
    splits: &[SplitState],
) -> Result<(), Error> {
    let now = dirs(paths);
    let some = splits
        .iter()
        .any(|split| !is_ledger(split) && (split.done || split.is_begun()));
    for split in splits.iter().filter(|split| is_ledger(split)) {
        let share = position::<LedgerPosition>(source, split)?.watch;
        let Some(ledger) = Ledger::parse(&share.finished) else {
            return Err(Error::Changed(format!(
                "source `{source}`: the recorded list of files that were read is damaged; restore checkpoint storage"
            )));
        };
        let moved = share.dirs.iter().find(|dir| !now.contains(*dir));
        let new = now.iter().find(|dir| !share.dirs.contains(*dir));
        if let (Some(old), Some(new), false) = (moved, new, ledger.is_empty() && !some) {
            return Err(Error::Changed(format!(
                "source `{source}`: files were read from {old}, and now `paths` lead to {new} instead. If these are the same files, they \
                 would be read again: give them their old path back. If they are others, add the new path and keep the old one"
            )));
        }
    }
    Ok(())
}

/// Deals what is recorded to `parallelism` subtasks, whatever the number was and whether or not files were watched then.
pub(in crate::source) fn deal(
    source: &NodeId,
    paths: &[String],
    mut splits: Vec<SplitState>,
    parallelism: usize,
) -> Vec<Vec<SplitState>> {
    let of = parallelism as u32;
    let mut ledgers = vec![Ledger::default(); parallelism];
    let mut dealt = vec![Vec::new(); parallelism];
    splits.sort_by_key(|split| split.split);
    for mut split in splits {
        if is_ledger(&split) {
            let share = position::<LedgerPosition>(source, &split).ok();
            if let Some(ledger) = share.and_then(|it| Ledger::parse(&it.watch.finished)) {
                ledger.deal(of, &mut ledgers);
            }
            continue;
        }
        let key = ledger::key(&split.name);
        let subtask = ledger::subtask(key, of) as usize;
        match position::<Position>(source, &split) {
            // Of a time when nothing was watched. When it was changed is not known, so its beginning will be compared.
            Ok(position) if split.done => {
                let finished = Finished {
                    stamp: Stamp {
                        size: position.identity.size,
                        modified: 0,
                    },
                    head: position.identity.head,
                    dir: 0,
                };
                ledgers[subtask].insert(key, finished);
            }
            // It will be found again.
            Ok(position) if position.at == 0 => {}
            // Whoever opens it reports what is wrong with its position.
            Ok(_) | Err(_) => {
                let before = dealt[subtask].len() as u32;
                split.split = (2 + before) * of + subtask as u32;
                dealt[subtask].push(split);
            }
        }
    }
    let dirs: Vec<String> = dirs(paths).into_iter().collect();
    for (subtask, (ledger, dealt)) in (0..).zip(ledgers.iter().zip(&mut dealt)) {
        dealt.push(ledger_split(subtask, of, &dirs, ledger));
    }
    dealt
}

fn ledger_split(subtask: u32, of: u32, dirs: &[String], ledger: &Ledger) -> SplitState {
    let position = LedgerPosition {
        at: 0,
        watch: Share {
            subtask,
            of,
            dirs: dirs.to_vec(),
            finished: ledger.text().to_owned(),
        },
    };
    SplitState {
        split: subtask,
        name: "files that were read".to_owned(),
        done: false,
        max_time: NO_TIME,
        position: serde_json::to_value(&position).expect("a position is plain data"),
    }
}

/// A file to be read.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) file: File,
    pub(super) identity: Identity,
    /// The directory that it was seen in, 0 if that is not known.
    pub(super) dir: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Watch {
    source: NodeId,
    paths: Vec<String>,
    every: Duration,
    subtask: u32,
    of: u32,
    ledger: Ledger,
    /// To be opened, in order, each with its directory.
    pending: VecDeque<(String, u64)>,
    /// What the last look found and did not take yet.
    unsettled: HashMap<String, Stamp>,
    /// When to look again; `None`: at once.
    next_look: Option<Instant>,
    /// What the log was told of and still holds.
    troubles: BTreeSet<String>,
}

impl Watch {
    /// Watches `paths` on behalf of the subtask that the split `ledger` was dealt to.
    pub(super) fn new(
        source: &NodeId,
        paths: &[String],
        every: Duration,
        ledger: &SplitState,
    ) -> Result<Watch, Error> {
        let share = position::<LedgerPosition>(source, ledger)?.watch;
        Ok(Watch {
            source: source.clone(),
            paths: paths.to_vec(),
            every,
            subtask: share.subtask,
            of: share.of,
            ledger: Ledger::parse(&share.finished).unwrap_or_default(),
            pending: VecDeque::new(),
            unsettled: HashMap::new(),
            next_look: None,
            troubles: BTreeSet::new(),
        })
    }

    /// The number of the split that files are read as, one after the other.
    pub(super) fn split(&self) -> u32 {
        self.of + self.subtask
    }

    /// What a checkpoint records of files that were read.
    pub(super) fn state(&self) -> SplitState {
        let dirs: Vec<String> = dirs(&self.paths).into_iter().collect();
        ledger_split(self.subtask, self.of, &dirs, &self.ledger)
    }

    /// The file `name` was read to its end.
    pub(super) fn finished(&mut self, name: &str, read: Identity, metadata: &Metadata, dir: u64) {
        let finished = Finished {
            stamp: Stamp {
                size: read.size,
                modified: stamp(metadata).modified,
            },
            head: read.head,
            dir,
        };
        self.ledger.insert(ledger::key(name), finished);
    }

    /// The next file, or `None` if there is none just now.
    pub(super) fn next(&mut self) -> Result<Option<Found>, Error> {
        if self.pending.is_empty() && self.next_look.is_none_or(|at| clock::now() >= at) {
            self.look()?;
        }
        while let Some((name, dir)) = self.pending.pop_front() {
            let unreadable = |cause| identity::unreadable(&self.source, &name, cause);
            let file = match File::open(&name) {
                Ok(file) => file,
                // Nothing was promised of it yet.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(unreadable(error)),
            };
            let identity = Identity::of(&file).map_err(unreadable)?;
            return Ok(Some(Found {
                name,
                file,
                identity,
                dir,
            }));
        }
        Ok(None)
    }

    /// Looks for files that were not read yet. Called when all that was found is read, so there is no other.
    fn look(&mut self) -> Result<(), Error> {
        let began = clock::now();
        let mut troubles = BTreeSet::new();
        // Directories that were listed from beginning to end.
        let mut listed = HashSet::new();
        let mut present = BTreeMap::new();
        for path in &self.paths {
            let (dir, is_all_in_it) = base(path);
            let id = || fs::metadata(&dir).map(|metadata| dir_id(&metadata));
            let before = match id() {
                Ok(id) => id,
                Err(error) => {
                    troubles.insert(format!("{} cannot be looked at: {error}", dir.display()));
                    continue;
                }
            };
            let (found, wrong) = find::present(path);
            // The same directory afterwards: none was mounted or unmounted meanwhile.
            if is_all_in_it && wrong.is_empty() && id().is_ok_and(|after| after == before) {
                listed.insert(before);
            }
            troubles.extend(wrong);
            let dir = if is_all_in_it { before } else { 0 };
            let found = found.into_iter();
            present.extend(found.map(|(name, metadata)| {
                let file = find::file_id(&metadata);
                (name, (stamp(&metadata), dir, file))
            }));
        }
        let mut names: HashMap<_, String> = HashMap::new();
        let mut seen = HashSet::new();
        let mut unsettled = HashMap::new();
        for (name, (stamp, dir, file)) in present {
            let key = ledger::key(&name);
            if let Some(other) = names.get(&file) {
                troubles.insert(format!("{name} is {other} once more, so it is not read"));
                seen.insert(key);
                continue;
            }
            names.insert(file, name.clone());
            if ledger::subtask(key, self.of) != self.subtask {
                continue;
            }
            seen.insert(key);
            if self.was_read(key, &name, stamp, dir)? {
                continue;
            }
            if self.unsettled.get(&name) == Some(&stamp) {
                self.pending.push_back((name, dir));
            } else {
                unsettled.insert(name, stamp);
            }
        }
        self.unsettled = unsettled;
        self.tell(troubles);
        self.ledger
            .retain(|key, finished| seen.contains(&key) || !listed.contains(&finished.dir));
        let now = clock::now();
        let took = now.saturating_duration_since(began);
        self.next_look = now.checked_add(self.every.max(took.saturating_mul(REST)));
        Ok(())
    }

    /// Whether the file `name`, as it is now, is one that was read.
    fn was_read(&mut self, key: u128, name: &str, now: Stamp, dir: u64) -> Result<bool, Error> {
        let Some(finished) = self.ledger.get(key) else {
            return Ok(false);
        };
        let seen = Finished {
            stamp: now,
            dir,
            ..finished
        };
        if finished.stamp == now {
            self.ledger.insert(key, seen);
            return Ok(true);
        }
        let unreadable = |cause| identity::unreadable(&self.source, name, cause);
        let file = match File::open(name) {
            Ok(file) => file,
            // Gone again; the next look will tell.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(unreadable(error)),
        };
        let size = file.metadata().map_err(unreadable)?.len();
        let read = finished.stamp.size;
        let begins_alike =
            || Ok(Identity::up_to(&file, read).map_err(unreadable)?.head == finished.head);
        // Of an empty one nothing was read, so whatever it has now is new.
        if read == 0 && size > 0 || size < read || !begins_alike()? {
            self.ledger.remove(key);
            return Ok(false);
        }
        if size == read {
            self.ledger.insert(key, seen);
            return Ok(true);
        }
        Err(Error::Changed(format!(
            "source `{}`: {name} grew from {read} to {size} bytes after it was read to its end, so its last line may have been half a record; \
             files must be complete when they appear: write them under another name and rename them. \
             Move this one away, and put what was added into a file of its own",
            self.source
        )))
    }

    /// Says what cannot be looked at, once, and when that is over.
    fn tell(&mut self, troubles: BTreeSet<String>) {
        let source = &self.source;
        for trouble in troubles.difference(&self.troubles) {
            log::warn(&format!(
                "[W0605] source `{source}`: {trouble}; the job goes on, and looks again each {}",
                crate::units::format_duration(self.every)
            ));
        }
        for trouble in self.troubles.difference(&troubles) {
            log::info(&format!("source `{source}`: no longer: {trouble}"));
        }
        self.troubles = troubles;
    }
}

#[cfg(test)]
mod tests;
