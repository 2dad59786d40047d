//! The verdict over what was seen: pure functions.

use std::path::{Path, PathBuf};

use super::{Observed, Owner, Plan, Setup};
use crate::checkpoint::commit_point::{self, CommitPoint};
use crate::checkpoint::log::{Commit, Log};
use crate::checkpoint::manifest::{Defect, Identity, Manifest, ManifestId, TopicEntry};
use crate::checkpoint::outputs::PartFound;
use crate::checkpoint::refusal::Refusal;
use crate::checkpoint::snapshot::StoredFile;
use crate::checkpoint::witness::{self, Witness};
use crate::sink::StagedPart;

/// The directories of the job's file sinks and of those that a manifest names, each once. Parts of a sink that the job no longer
/// has may be in others: its last attempt had them open.
pub(super) fn dirs(identity: &Identity, manifest: Option<&Manifest>) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    let manifest = manifest.into_iter();
    let recorded = manifest.clone().flat_map(|manifest| &manifest.sinks);
    let sinks = identity.sinks.iter().chain(recorded).map(|sink| &sink.dir);
    let parts = manifest.flat_map(|manifest| manifest.staged.iter().chain(&manifest.open));
    for dir in sinks.chain(parts.map(|part| &part.dir)) {
        if !dirs.contains(dir) {
            dirs.push(dir.clone());
        }
    }
    dirs
}

/// The parts of a manifest that lie in some directories.
pub(super) fn parts_in(manifest: &Manifest, dirs: &[PathBuf]) -> Vec<StagedPart> {
    let parts = manifest
        .staged
        .iter()
        .filter(|part| dirs.contains(&part.dir));
    parts.cloned().collect()
}

/// Where to look for witnesses.
pub(super) fn witness_dirs(setup: &Setup, seen: &Observed) -> Vec<PathBuf> {
    dirs(&setup.identity, resumable(setup, seen).ok().flatten())
}

/// What a manifest needs.
#[derive(Default)]
pub(super) struct Needed {
    /// Files that must be there.
    pub(super) files: Vec<StoredFile>,
    /// Parts that may not be published yet.
    pub(super) parts: Vec<StagedPart>,
    /// Parts that must be there as far as they are committed.
    pub(super) open: Vec<StagedPart>,
}

/// What is to be looked at.
pub(super) fn to_look_at(setup: &Setup, seen: &Observed) -> Needed {
    let Ok(Some(manifest)) = resumable(setup, seen) else {
        return Needed::default();
    };
    let parts = match behind(setup, seen, manifest) {
        Ok(behind) => parts_in(manifest, &behind),
        Err(_) => Vec::new(),
    };
    // A finished job restores nothing.
    let files = manifest.files().filter(|_| !manifest.finished);
    Needed {
        files: files.cloned().collect(),
        parts,
        open: manifest.open.clone(),
    }
}

/// What is to be done, or why it is refused.
pub(super) fn judge(setup: &Setup, seen: &Observed) -> Result<Plan, Refusal> {
    let storage = || setup.storage.clone();
    match &seen.owner {
        Owner::Job(owner) if *owner != setup.identity.job => {
            return Err(Refusal::ForeignJob {
                storage: storage(),
                owner: owner.clone(),
                job: setup.identity.job.clone(),
            });
        }
        Owner::Unusable(what) => {
            return Err(Refusal::Owner {
                storage: storage(),
                what: what.clone(),
            });
        }
        _ => {}
    }
    let log = usable_log(setup, seen)?;
    if setup.options.fresh {
        return fresh(setup, seen, log);
    }
    if matches!(seen.owner, Owner::Nobody) && !(log.is_empty() && seen.manifests.is_empty()) {
        return Err(Refusal::HalfDeleted {
            storage: storage(),
            what: "`job.json` is not there, though commit log or manifests are".to_owned(),
        });
    }
    let Some(manifest) = resumable(setup, seen)? else {
        return nothing_committed(setup, seen, log);
    };
    rolled_back(setup, seen, log, manifest)?;
    if manifest.max_parallelism != setup.identity.max_parallelism {
        return Err(Refusal::MaxParallelism {
            n: manifest.n,
            checkpoint: manifest.max_parallelism,
            job: setup.identity.max_parallelism,
        });
    }
    topics_are_the_same(setup, manifest)?;
    let behind = behind(setup, seen, manifest)?;
    everything_there(setup, seen, manifest)?;
    Ok(Plan::Resume {
        manifest: Box::new(manifest.clone()),
        behind,
    })
}

fn usable_log<'a>(setup: &Setup, seen: &'a Observed) -> Result<&'a Log, Refusal> {
    seen.log.as_ref().map_err(|defect| Refusal::Log {
        storage: setup.storage.clone(),
        defect: defect.clone(),
    })
}

/// The manifest that the newest commit names, if there is a commit.
fn resumable<'a>(setup: &Setup, seen: &'a Observed) -> Result<Option<&'a Manifest>, Refusal> {
    let Some(commit) = usable_log(setup, seen)?.newest_commit() else {
        return Ok(None);
    };
    let storage = setup.storage.clone();
    let id = ManifestId {
        n: commit.n,
        attempt: commit.attempt,
    };
    let Some(found) = seen.manifests.iter().find(|manifest| manifest.id == id) else {
        return Err(Refusal::ManifestMissing { storage, id });
    };
    let unusable = |defect| Refusal::ManifestUnusable {
        storage: setup.storage.clone(),
        id,
        defect,
    };
    match &found.contents {
        Err(defect) => Err(unusable(defect.clone())),
        Ok((_, digest)) if *digest != commit.manifest => Err(unusable(Defect::Damaged(format!(
            "its SHA-256 is {digest}, but {} was committed",
            commit.manifest
        )))),
        Ok((manifest, _)) if !fits(manifest, commit, &setup.identity) => {
            Err(unusable(Defect::Damaged(format!(
                "it is of job `{}`, lineage {}; committed was lineage {}",
                manifest.job, manifest.lineage, commit.lineage
            ))))
        }
        Ok((manifest, _)) => Ok(Some(manifest)),
    }
}

fn fits(manifest: &Manifest, commit: &Commit, identity: &Identity) -> bool {
    manifest.lineage == commit.lineage && manifest.job == identity.job
}

/// The witness in `dir`, if there is one.
fn witness<'a>(
    setup: &Setup,
    seen: &'a Observed,
    dir: &Path,
) -> Result<Option<&'a Witness>, Refusal> {
    match seen.witnesses.get(dir) {
        Some(Some(Ok(witness))) => Ok(Some(witness)),
        Some(Some(Err(what))) => Err(Refusal::Witness {
            dir: dir.to_owned(),
            witness: witness_name(setup, dir),
            what: what.clone(),
        }),
        Some(None) | None => Ok(None),
    }
}

fn witness_name(setup: &Setup, dir: &Path) -> String {
    let path = witness::path(dir, &setup.identity.job);
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The user wants a new lineage: only beside output that was never committed to, unless duplicates are accepted.
fn fresh(setup: &Setup, seen: &Observed, log: &Log) -> Result<Plan, Refusal> {
    let mut replaces = Vec::new();
    if let Some(commit) = log.newest_commit() {
        if commit.n > 0
            && !setup.options.accept_duplicates
            && let Some(point) = commit_point::of_newest_commit(log).and_then(CommitPoint::kafka)
        {
            return Err(Refusal::FreshOverMarker {
                job: setup.identity.job.clone(),
                n: commit.n,
                lineage: commit.lineage.clone(),
                place: point.to_string(),
            });
        }
        if setup.identity.commit_point.kafka().is_some() {
            replaces.push(commit.lineage.clone());
        }
    }
    for dir in dirs(&setup.identity, None) {
        let Some(witness) = witness(setup, seen, &dir)? else {
            continue;
        };
        // The log may have been rolled back, and the witness is behind it for a moment: both must say so.
        let nothing_yet = log
            .newest_commit()
            .is_some_and(|commit| commit.n == 0 && commit.lineage == witness.lineage)
            && witness.n == 0;
        if !nothing_yet && !setup.options.accept_duplicates {
            return Err(Refusal::FreshOverOutput {
                job: setup.identity.job.clone(),
                n: witness.n,
                lineage: witness.lineage.clone(),
                dir,
            });
        }
        if !replaces.contains(&witness.lineage) {
            replaces.push(witness.lineage.clone());
        }
    }
    Ok(Plan::Fresh { replaces })
}

/// The log knows no commit. That is a first start, or the log is gone.
fn nothing_committed(setup: &Setup, seen: &Observed, log: &Log) -> Result<Plan, Refusal> {
    let later = seen
        .manifests
        .iter()
        .map(|manifest| manifest.id)
        .find(|id| id.n > 0);
    if log.is_empty()
        && let Some(manifest) = seen.manifests.first()
    {
        return Err(Refusal::HalfDeleted {
            storage: setup.storage.clone(),
            what: format!("manifest {} is there, but no commit log", manifest.id),
        });
    }
    if let Some(id) = later {
        return Err(Refusal::LogRolledBack {
            storage: setup.storage.clone(),
            log: "nothing".to_owned(),
            evidence: format!("manifest {id} is there"),
        });
    }
    for dir in dirs(&setup.identity, None) {
        let Some(witness) = witness(setup, seen, &dir)? else {
            continue;
        };
        return Err(if log.is_empty() {
            Refusal::EmptyBesideOutput {
                job: setup.identity.job.clone(),
                n: witness.n,
                lineage: witness.lineage.clone(),
                dir,
                storage: setup.storage.clone(),
            }
        } else {
            Refusal::LogRolledBack {
                storage: setup.storage.clone(),
                log: "nothing".to_owned(),
                evidence: format!(
                    "the witness in {} says checkpoint {}",
                    dir.display(),
                    witness.n
                ),
            }
        });
    }
    Ok(Plan::Fresh {
        replaces: Vec::new(),
    })
}

/// Whether some manifest can only exist if the log once went further.
fn rolled_back(
    setup: &Setup,
    seen: &Observed,
    log: &Log,
    restored: &Manifest,
) -> Result<(), Refusal> {
    let back = |evidence| {
        Err(Refusal::LogRolledBack {
            storage: setup.storage.clone(),
            log: restored.n.to_string(),
            evidence,
        })
    };
    for found in &seen.manifests {
        let id = found.id;
        // A manifest is written after its attempt's claim, and claims are never deleted.
        if id.attempt > log.newest_attempt() {
            let claimed = log.newest_attempt();
            return back(format!(
                "manifest {id} is of attempt {}, and the newest claim is of attempt {claimed}",
                id.attempt
            ));
        }
        // Written before the checkpoint that is restored, by whatever lineage: it knows of nothing later.
        if (id.attempt, id.n) <= (restored.attempt, restored.n) {
            continue;
        }
        let manifest = match &found.contents {
            Ok((manifest, _)) => manifest,
            // What never happened matters only as evidence, and this one cannot be read for any.
            Err(defect) => {
                return Err(Refusal::ManifestUnusable {
                    storage: setup.storage.clone(),
                    id,
                    defect: defect.clone(),
                });
            }
        };
        let parent_unknown = if manifest.lineage == restored.lineage {
            manifest.parent > Some(restored.n)
        } else {
            // A lineage that came after this one and has gone on from its marker.
            manifest.n > 0
        };
        if parent_unknown {
            let parent = manifest.parent.unwrap_or_default();
            return back(format!("manifest {id} was taken after checkpoint {parent}"));
        }
    }
    Ok(())
}

/// Whether each Kafka sink still writes to the topics that it has committed to. One that was pointed to another topic by its job file
/// writes there from now on.
fn topics_are_the_same(setup: &Setup, restored: &Manifest) -> Result<(), Refusal> {
    let place = |topic: &TopicEntry| format!("{} in cluster {}", topic.topic_id, topic.cluster);
    for was in &restored.topics {
        let same = |is: &&TopicEntry| (&is.sink, &is.topic) == (&was.sink, &was.topic);
        if let Some(is) = setup.identity.topics.iter().find(same)
            && (&is.cluster, &is.topic_id) != (&was.cluster, &was.topic_id)
        {
            return Err(Refusal::TopicRecreated {
                sink: was.sink.clone(),
                topic: was.topic.clone(),
                n: restored.n,
                was: place(was),
                is: place(is),
            });
        }
    }
    Ok(())
}

/// The directories whose witness does not say yet that the restored checkpoint is published. Refused if one says something that
/// cannot be.
fn behind(setup: &Setup, seen: &Observed, restored: &Manifest) -> Result<Vec<PathBuf>, Refusal> {
    let ours = dirs(&setup.identity, None);
    let recorded: Vec<&Path> = restored
        .sinks
        .iter()
        .map(|sink| sink.dir.as_path())
        .collect();
    let mut behind = Vec::new();
    for dir in dirs(&setup.identity, Some(restored)) {
        let is_recorded = recorded.contains(&dir.as_path());
        let found = match witness(setup, seen, &dir)? {
            Some(found) => found,
            // Nothing was committed to it yet: the lineage has just begun, or the sink is new in the job.
            None if restored.n == 0 || !is_recorded => {
                behind.push(dir);
                continue;
            }
            // A sink that the job no longer has: its directory may go, unless something is still to be published there.
            None if !ours.contains(&dir) => {
                if restored.staged.iter().any(|part| part.dir == dir) {
                    behind.push(dir);
                }
                continue;
            }
            None => {
                return Err(Refusal::OutputGone {
                    witness: witness_name(setup, &dir),
                    dir,
                    log: restored.n,
                });
            }
        };
        if found.lineage != restored.lineage {
            if restored.n == 0 && restored.replaces.contains(&found.lineage) {
                behind.push(dir);
                continue;
            }
            return Err(Refusal::ForeignLineage {
                dir,
                output: found.lineage.clone(),
                n: found.n,
                storage: setup.storage.clone(),
                log: restored.lineage.clone(),
            });
        }
        if found.n > restored.n {
            return Err(Refusal::LogRolledBack {
                storage: setup.storage.clone(),
                log: restored.n.to_string(),
                evidence: format!(
                    "the witness in {} says checkpoint {}",
                    dir.display(),
                    found.n
                ),
            });
        }
        if found.n == restored.n && found.complete {
            continue;
        }
        // One commit behind is a crash between slot and witness. A sink that comes back may be further behind.
        let just_before = Some(found.n) == restored.parent && found.complete;
        if found.n != restored.n && !just_before && is_recorded && ours.contains(&dir) {
            return Err(Refusal::OutputRolledBack {
                dir,
                witness: found.n,
                log: restored.n,
            });
        }
        behind.push(dir);
    }
    Ok(behind)
}

/// Whether the state files, the parts that are still to be published and those that were open are there.
fn everything_there(setup: &Setup, seen: &Observed, restored: &Manifest) -> Result<(), Refusal> {
    let Needed { files, parts, open } = to_look_at(setup, seen);
    for (file, found) in files.iter().zip(&seen.files) {
        let found = match found {
            Some(bytes) if *bytes == file.bytes => continue,
            Some(bytes) => format!("has {bytes} bytes"),
            None => "is missing".to_owned(),
        };
        return Err(Refusal::StateFile {
            storage: setup.storage.clone(),
            n: restored.n,
            name: file.name.clone(),
            bytes: file.bytes,
            found,
        });
    }
    for (part, found) in parts.iter().zip(&seen.parts) {
        let found = match found {
            PartFound::Staged | PartFound::Published => continue,
            PartFound::Length { found } => format!("it has {found} bytes"),
            PartFound::Missing => "it is missing".to_owned(),
        };
        return Err(Refusal::PartMissing {
            n: restored.n,
            dir: part.dir.clone(),
            name: part.name.clone(),
            staged: part.staged.clone(),
            bytes: part.bytes,
            found,
        });
    }
    for (part, found) in open.iter().zip(&seen.open) {
        let found = match found {
            Some(length) if *length >= part.bytes => continue,
            Some(length) => format!("has only {length} bytes"),
            None => "is missing".to_owned(),
        };
        return Err(Refusal::OpenPart {
            n: restored.n,
            dir: part.dir.clone(),
            staged: part.staged.clone(),
            bytes: part.bytes,
            found,
        });
    }
    Ok(())
}
