//! Storage and output: what operations do to them, and what may never be seen on them.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;

use super::{JOB, Mutation, Violation, Work, attempt_of, position};
use crate::checkpoint::log::{self, Commit, Entry, Log, Slot};
use crate::checkpoint::manifest::{Manifest, ManifestId};
use crate::checkpoint::outputs::PartFound;
use crate::checkpoint::recovery::{Answer, Owner, Recovery, Seen, Step};
use crate::checkpoint::snapshot::Digest;
use crate::checkpoint::witness::Witness;
use crate::sink::StagedPart;

/// Storage and output.
#[derive(Clone, Default)]
pub(in crate::checkpoint::tests) struct Disk {
    pub(super) owner: bool,
    pub(super) slots: BTreeMap<u64, Slot>,
    pub(super) manifests: BTreeMap<ManifestId, (Rc<Manifest>, Digest)>,
    pub(super) state: BTreeMap<String, u64>,
    pub(super) witness: Option<Witness>,
    /// Parts by name with the record in each.
    pub(super) staged: BTreeMap<String, u64>,
    pub(in crate::checkpoint::tests) published: BTreeMap<String, u64>,
    /// For the judge alone: all commits that ever succeeded and were not rolled back.
    pub(in crate::checkpoint::tests) history: Vec<Rc<Manifest>>,
    /// For the judge alone: somebody took history away.
    pub(in crate::checkpoint::tests) tampered: bool,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let manifests: Vec<_> = self
            .manifests
            .iter()
            .map(|(id, (_, digest))| (id, digest))
            .collect();
        let history: Vec<_> = self.history.iter().map(|manifest| manifest.id()).collect();
        write!(
            f,
            "{:?}",
            (
                self.owner,
                &self.slots,
                manifests,
                &self.state,
                &self.witness,
                &self.staged,
                &self.published,
                history,
                self.tampered
            )
        )
    }
}

impl Disk {
    /// The promise, as far as one look at the disk shows it.
    pub(in crate::checkpoint::tests) fn check(&self) -> Result<(), Violation> {
        let mut seen = BTreeMap::new();
        for (name, record) in &self.published {
            if let Some(other) = seen.insert(record, name) {
                return Err(format!("record {record} is doubled: in {other} and {name}"));
            }
        }
        if self.tampered {
            return Ok(());
        }
        let committed = self.history.iter().flat_map(|manifest| &manifest.staged);
        let names: Vec<&String> = committed.map(|part| &part.name).collect();
        if let Some(name) = self.published.keys().find(|name| !names.contains(name)) {
            return Err(format!("{name} is visible and was never committed"));
        }
        for name in names {
            if !self.published.contains_key(name) && !self.staged.contains_key(name) {
                return Err(format!("{name} was committed and is lost"));
            }
        }
        Ok(())
    }

    /// Whether a commit that has just been created fits what was committed before, record by record.
    pub(super) fn committed(&mut self, commit: &Commit) -> Result<(), Violation> {
        let id = ManifestId {
            n: commit.n,
            attempt: commit.attempt,
        };
        let Some((manifest, _)) = self.manifests.get(&id) else {
            return Err(format!("committed {id}, whose manifest is not there"));
        };
        let manifest = Rc::clone(manifest);
        if manifest.n == 0 && !self.published.is_empty() {
            return Err("started from nothing beside committed output".to_owned());
        }
        let fits = match self.history.last() {
            Some(last) => manifest.parent == Some(last.n) && manifest.lineage == last.lineage,
            None => manifest.parent.is_none(),
        };
        if !fits {
            let last = self.history.last().map(|last| last.id());
            return Err(format!(
                "committed {id} after {:?}, but it follows {last:?}",
                manifest.parent
            ));
        }
        let from = self.history.last().map_or(0, |last| position(last));
        let mut records = Vec::new();
        for part in &manifest.staged {
            match self
                .staged
                .get(&part.name)
                .or(self.published.get(&part.name))
            {
                Some(record) => records.push(*record),
                None => return Err(format!("{} was lost before {id} was committed", part.name)),
            }
        }
        records.sort_unstable();
        if !records.iter().copied().eq(from..position(&manifest)) {
            return Err(format!(
                "{id} commits records {records:?}, positions go from {from} to {}",
                position(&manifest)
            ));
        }
        for file in manifest.files() {
            if !self.state.contains_key(&file.name) {
                return Err(format!(
                    "{id} was committed without its state file {}",
                    file.name
                ));
            }
        }
        self.history.push(manifest);
        Ok(())
    }

    pub(super) fn log(&self, mutation: Mutation) -> Result<Log, log::Defect> {
        if mutation != Mutation::CommitPerNumber {
            return Log::new(self.slots.values().cloned());
        }
        // Claims and commits lie under keys of their own; what a reader makes of them is the order of attempts.
        let mut entries: Vec<Entry> = self.slots.values().map(|slot| slot.entry.clone()).collect();
        entries.sort_by_key(|entry| match entry {
            Entry::Claim { attempt } => (*attempt, 0, 0),
            Entry::Commit(commit) => (commit.attempt, 1, commit.n),
        });
        let mut log = Log::default();
        for entry in entries {
            let slot = match entry {
                Entry::Claim { attempt } => log.claim(attempt),
                Entry::Commit(commit) => log.commit(commit, u32::MAX),
            };
            log.push(slot);
        }
        Ok(log)
    }

    /// Creates a slot if it is absent.
    pub(super) fn create_slot(
        &mut self,
        slot: &Slot,
        mutation: Mutation,
    ) -> Result<bool, Violation> {
        let key = match (&slot.entry, mutation) {
            (Entry::Commit(commit), Mutation::CommitPerNumber) => commit.n,
            (Entry::Claim { attempt }, Mutation::CommitPerNumber) => 1_000 + attempt,
            _ => slot.index,
        };
        if self.slots.contains_key(&key) {
            return Ok(false);
        }
        self.slots.insert(key, slot.clone());
        if let Entry::Commit(commit) = &slot.entry {
            self.committed(commit)?;
        }
        Ok(true)
    }

    pub(super) fn look(&self, part: &StagedPart) -> PartFound {
        if self.staged.contains_key(&part.name) {
            PartFound::Staged
        } else if self.published.contains_key(&part.name) {
            PartFound::Published
        } else {
            PartFound::Missing
        }
    }

    pub(super) fn write_witness(&mut self, witness: &Witness, mutation: Mutation) -> Option<u64> {
        if let Some(there) = &self.witness
            && !witness.may_replace(there)
            && mutation != Mutation::WitnessBackwards
        {
            return Some(there.attempt);
        }
        self.witness = Some(witness.clone());
        None
    }

    /// One operation of a recovery.
    pub(super) fn recover(
        &mut self,
        recovery: &mut Recovery,
        work: &mut VecDeque<Work>,
        first_log: &mut Option<Log>,
        mutation: Mutation,
    ) -> Result<(), Violation> {
        if let Some(next) = work.pop_front() {
            match next {
                Work::StepDone => recovery.answer(Answer::Done),
                Work::Rename(part) => self.rename(&part)?,
                Work::DeleteManifest(id) => {
                    self.manifests.remove(&id);
                }
                other => unreachable!("recovery does not {other:?}"),
            }
            return Ok(());
        }
        let answer = match recovery.step().clone() {
            Step::ReadOwner => Answer::Owner(if self.owner {
                Owner::Job(JOB.to_owned())
            } else {
                Owner::Nobody
            }),
            Step::ReadLog => {
                let log = match (mutation, first_log.take()) {
                    (Mutation::NoSecondLook, Some(log)) => Ok(log),
                    _ => self.log(mutation),
                };
                *first_log = log.as_ref().ok().cloned();
                Answer::Log(log)
            }
            Step::ReadManifests => {
                let seen = self.manifests.iter().map(|(id, (manifest, digest))| Seen {
                    id: *id,
                    contents: Ok(((**manifest).clone(), *digest)),
                });
                let answer = Answer::Manifests(seen.collect());
                if mutation == Mutation::DeleteBeforeClaim {
                    let committed = self.history.last().map_or(0, |last| last.n);
                    self.manifests.retain(|id, _| id.n <= committed);
                }
                answer
            }
            Step::ReadWitnesses(dirs) => {
                let blind = mutation == Mutation::BlindToWitness && self.slots.is_empty();
                let witness = self.witness.clone().filter(|_| !blind);
                let found = dirs.into_iter().map(|dir| (dir, witness.clone().map(Ok)));
                Answer::Witnesses(found.collect())
            }
            Step::Look { files, parts } => Answer::Looked {
                files: files
                    .iter()
                    .map(|file| self.state.get(&file.name).copied())
                    .collect(),
                parts: parts.iter().map(|part| self.look(part)).collect(),
            },
            Step::Own => {
                if std::mem::replace(&mut self.owner, true) {
                    *first_log = None;
                    Answer::Taken
                } else {
                    Answer::Done
                }
            }
            Step::Claim(slot) | Step::CommitMarker(slot) => {
                // What follows is a new observation.
                *first_log = None;
                if self.create_slot(&slot, mutation)? {
                    Answer::Done
                } else {
                    Answer::Taken
                }
            }
            Step::CheckTail => {
                let newest = match mutation {
                    Mutation::CommitPerNumber | Mutation::NoTailCheck => {
                        recovery.clone().into_log().newest().map(|slot| slot.index)
                    }
                    _ => self.slots.keys().next_back().copied(),
                };
                Answer::Highest(newest)
            }
            Step::ListManifests => Answer::Ids(self.manifests.keys().copied().collect()),
            Step::DeleteManifests(ids) => {
                work.extend(ids.into_iter().map(Work::DeleteManifest));
                work.push_back(Work::StepDone);
                return Ok(());
            }
            Step::StoreManifest(manifest) => Answer::Stored(self.store(*manifest)?),
            Step::Publish(parts) => {
                if mutation != Mutation::NoRedo {
                    work.extend(parts.into_iter().map(Work::Rename));
                }
                work.push_back(Work::StepDone);
                return Ok(());
            }
            Step::Sweep { keep, attempt, .. } => {
                let kept = |name: &String| keep.iter().any(|part| part.name == *name);
                self.staged.retain(|name, _| {
                    let newer = attempt_of(name) >= attempt && mutation != Mutation::SweepNewer;
                    newer || kept(name)
                });
                Answer::Done
            }
            Step::WriteWitnesses { witness, .. } => match self.write_witness(&witness, mutation) {
                Some(by) => Answer::TakenOver { by },
                None => Answer::Done,
            },
            Step::Done(_) | Step::Refuse => unreachable!("the host has gone on"),
        };
        recovery.answer(answer);
        Ok(())
    }

    pub(super) fn store(&mut self, manifest: Manifest) -> Result<Digest, Violation> {
        let (_, digest) = manifest.encode();
        let id = manifest.id();
        match self.manifests.get(&id) {
            Some((_, there)) if *there != digest => Err(format!("two manifests {id}")),
            _ => {
                self.manifests.insert(id, (Rc::new(manifest), digest));
                Ok(digest)
            }
        }
    }

    pub(super) fn rename(&mut self, part: &StagedPart) -> Result<(), Violation> {
        match self.staged.remove(&part.name) {
            Some(record) => {
                self.published.insert(part.name.clone(), record);
                self.check()
            }
            None if self.published.contains_key(&part.name) => Ok(()),
            None => Err(format!("{} cannot be published", part.name)),
        }
    }
}
