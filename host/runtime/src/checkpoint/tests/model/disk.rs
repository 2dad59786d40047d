//! Storage and output: what operations do to them, and what may never be seen on them.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use super::broker::{Broker, Fate, Sent};
use super::{Mutation, Sinks, Violation, adopted, attempt_of, position};
use crate::checkpoint::commit_point::Marker;
use crate::checkpoint::log::{self, Commit, Entry, Log, Slot};
use crate::checkpoint::manifest::{Manifest, ManifestId};
use crate::checkpoint::outputs::PartFound;
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
    /// Files of parts by staged and by final name. A file has one name at a time; it is called what it was called first, so that a
    /// writer that has it open finds it under whatever name.
    pub(super) staged: BTreeMap<String, String>,
    pub(super) published: BTreeMap<String, String>,
    /// The records in each file. Appending to one that has no name any more changes nothing that anybody sees.
    pub(super) files: BTreeMap<String, Vec<u64>>,
    /// The cluster, if the job has a Kafka sink.
    pub(in crate::checkpoint::tests) broker: Option<Broker>,
    /// For the judge alone: all commits that ever succeeded and were not rolled back.
    pub(in crate::checkpoint::tests) history: Vec<Rc<Manifest>>,
    /// For the judge alone: the records in open parts of the last of them.
    pub(super) open_records: Vec<u64>,
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
                &self.files,
                &self.broker,
                (history, &self.open_records),
                self.tampered
            )
        )
    }
}

impl Disk {
    /// The promise, as far as one look at the disk shows it.
    pub(in crate::checkpoint::tests) fn check(&self) -> Result<(), Violation> {
        if let Some(Broker { output, .. }) = &self.broker
            && !output.iter().copied().eq(0..output.len() as u64)
        {
            return Err(format!("the topic has records {output:?}: doubled or lost"));
        }
        let mut seen = BTreeMap::new();
        for (name, file) in &self.published {
            for record in &self.files[file] {
                if let Some(other) = seen.insert(record, name) {
                    return Err(format!("record {record} is doubled: in {other} and {name}"));
                }
            }
        }
        if self.tampered {
            return Ok(());
        }
        let committed = self.history.iter().flat_map(|manifest| &manifest.staged);
        let committed: Vec<&StagedPart> = committed.collect();
        let is_committed = |name: &&String| committed.iter().any(|part| part.name == **name);
        if let Some(name) = self.published.keys().find(|name| !is_committed(name)) {
            return Err(format!("{name} is visible and was never committed"));
        }
        for part in committed {
            let found = self.find(part);
            let file = found.ok_or_else(|| format!("{} was committed and is lost", part.name))?;
            let (length, bytes) = (file.len() as u64, part.bytes);
            if length != bytes {
                let name = &part.name;
                return Err(format!(
                    "{name} has {length} records where {bytes} were committed"
                ));
            }
        }
        for part in self
            .history
            .iter()
            .next_back()
            .map_or(&[][..], |last| &last.open)
        {
            let file = self.staged.get(&part.staged);
            let length = file.map(|file| self.files[file].len() as u64);
            if length.is_none_or(|length| length < part.bytes) {
                return Err(format!("{} was committed and is lost", part.staged));
            }
        }
        Ok(())
    }

    /// The records that readers of each sink see: those in files sorted, those in the topic as they are.
    pub(in crate::checkpoint::tests) fn visible(&self, sinks: Sinks) -> Vec<Vec<u64>> {
        let mut visible = Vec::new();
        if sinks.file() {
            let files = self.published.values();
            let mut records: Vec<u64> = files.flat_map(|file| &self.files[file]).copied().collect();
            records.sort_unstable();
            visible.push(records);
        }
        visible.extend(self.broker.as_ref().map(|broker| broker.output.clone()));
        visible
    }

    /// The contents of a complete part, under whichever of its names.
    fn find(&self, part: &StagedPart) -> Option<&Vec<u64>> {
        let published = self.published.get(&part.name);
        let file = published.or_else(|| self.staged.get(&part.staged))?;
        self.files.get(file)
    }

    pub(super) fn create_part(&mut self, part: &StagedPart) {
        self.staged.insert(part.staged.clone(), part.staged.clone());
        self.files.insert(part.staged.clone(), Vec::new());
    }

    /// Adds a record to a file, through the hands of the writer that created it.
    pub(super) fn append(&mut self, part: &StagedPart, record: u64) {
        if let Some(file) = self.files.get_mut(&part.staged) {
            file.push(record);
        }
    }

    pub(super) fn unlink(&mut self, staged: &str) {
        if let Some(file) = self.staged.remove(staged) {
            self.files.remove(&file);
        }
    }

    pub(super) fn sweep(&mut self, keep: &[StagedPart], attempt: u64, mutation: Mutation) {
        let kept = |staged: &String| keep.iter().any(|part| part.staged == *staged);
        let newer =
            |staged: &str| attempt_of(staged) >= attempt && mutation != Mutation::SweepNewer;
        let all = self.staged.keys();
        let gone: Vec<String> = all
            .filter(|staged| !newer(staged) && !kept(staged))
            .cloned()
            .collect();
        gone.iter().for_each(|staged| self.unlink(staged));
    }

    /// Takes an open part over.
    pub(super) fn adopt(
        &mut self,
        part: StagedPart,
        attempt: u64,
        mutation: Mutation,
    ) -> Result<StagedPart, StagedPart> {
        let staged = adopted(&part.staged, attempt);
        let Some(file) = self.staged.get(&part.staged).cloned() else {
            return Err(part);
        };
        if mutation == Mutation::AdoptByRename {
            self.staged.remove(&part.staged);
            self.staged.insert(staged.clone(), file);
        } else {
            let contents = self.files[&file][..part.bytes as usize].to_vec();
            self.staged.insert(staged.clone(), staged.clone());
            self.files.insert(staged.clone(), contents);
            if mutation == Mutation::DropOriginals {
                self.unlink(&part.staged);
            }
        }
        Ok(StagedPart { staged, ..part })
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
        let in_topic = self.broker.as_ref().map_or(0, |it| it.output.len() as u64);
        if manifest.n == 0 && !(self.published.is_empty() && in_topic == 0) {
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
        if self.broker.is_some() && in_topic != position(&manifest) {
            return Err(format!(
                "{id} is at position {} and the topic has {in_topic} records",
                position(&manifest)
            ));
        }
        let from = self.history.last().map_or(0, |last| position(last));
        let contents = |part: &StagedPart| match self.find(part) {
            Some(file) if file.len() as u64 >= part.bytes => {
                Ok(file[..part.bytes as usize].to_vec())
            }
            _ => Err(format!(
                "{} was lost before {id} was committed",
                part.staged
            )),
        };
        let staged = manifest.staged.iter().map(contents);
        let mut records = staged.collect::<Result<Vec<_>, _>>()?.concat();
        let open = manifest.open.iter().map(contents);
        let open = open.collect::<Result<Vec<_>, _>>()?.concat();
        records.extend(&open);
        records.sort_unstable();
        let mut expected = std::mem::replace(&mut self.open_records, open);
        expected.extend(from..position(&manifest));
        expected.sort_unstable();
        if records != expected && !manifest.sinks.is_empty() {
            return Err(format!(
                "{id} commits records {records:?} and not {expected:?}"
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
            Entry::Claim { attempt, .. } => (*attempt, 0, 0),
            Entry::Commit(commit) | Entry::Resolved { commit, .. } => {
                (entry.attempt(), 1, commit.n)
            }
        });
        let mut log = Log::default();
        for entry in entries {
            let slot = match entry {
                Entry::Claim {
                    attempt,
                    commit_point,
                } => log.claim(attempt, commit_point),
                Entry::Commit(commit) => log.commit(commit, u32::MAX),
                Entry::Resolved {
                    attempt,
                    commit,
                    commit_point,
                } => log.resolve(attempt, commit, commit_point),
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
            (Entry::Claim { attempt, .. }, Mutation::CommitPerNumber) => 1_000 + attempt,
            _ => slot.index,
        };
        if self.slots.contains_key(&key) {
            return Ok(false);
        }
        self.slots.insert(key, slot.clone());
        if let Entry::Commit(commit) = &slot.entry
            && self.broker.is_none()
        {
            self.committed(commit)?;
        }
        Ok(true)
    }

    /// A transaction is committed, with a marker if there is one.
    pub(super) fn commit_transaction(
        &mut self,
        id: usize,
        epoch: u32,
        marker: Option<Marker>,
        fate: Fate,
    ) -> Result<Sent, Violation> {
        let broker = self.broker.as_mut().expect("there is a cluster");
        if broker.epoch(id) != epoch {
            return Ok(Sent::Fenced);
        }
        if let Some(marker) = marker {
            broker.produce_marker(id, epoch, marker);
        }
        if matches!(fate, Fate::Late | Fate::Repeated) {
            broker.send_late(id, epoch);
        }
        if fate != Fate::Late {
            self.end_transaction(id, epoch)?;
        }
        Ok(match fate {
            Fate::Answered => Sent::Done,
            Fate::Lost | Fate::Late | Fate::Repeated => Sent::Unclear,
        })
    }

    pub(super) fn arrives(&mut self, k: usize) -> Result<(), Violation> {
        let broker = self.broker.as_mut().expect("there is a cluster");
        let (id, epoch) = broker.arrives(k);
        self.end_transaction(id, epoch)
    }

    /// A marker that names the newest commit again is a claim; any other is a commit.
    fn end_transaction(&mut self, id: usize, epoch: u32) -> Result<(), Violation> {
        let broker = self.broker.as_mut().expect("there is a cluster");
        if let Some(marker) = broker.commit(id, epoch) {
            let newest = self.history.last().map(|last| last.id());
            let commit = marker.commit();
            let named = ManifestId {
                n: commit.n,
                attempt: commit.attempt,
            };
            if newest != Some(named) {
                self.committed(&commit)?;
            }
        }
        self.check()
    }

    pub(super) fn look(&self, part: &StagedPart) -> PartFound {
        if self.staged.contains_key(&part.staged) {
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
        match self.staged.remove(&part.staged) {
            Some(file) => {
                self.published.insert(part.name.clone(), file);
                self.check()
            }
            None if self.published.contains_key(&part.name) => Ok(()),
            None => Err(format!("{} cannot be published", part.name)),
        }
    }
}
