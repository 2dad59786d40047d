//! A host that runs an attempt: the coordinator, the tasks and the driver.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::broker::{Fate, Sent};
use super::disk::Disk;
use super::starting::Starting;
use super::{
    Host, JOB, Move, Mutation, OPERATOR, OVER, SOURCE, Sinks, Violation, identity, part, position,
};
use crate::checkpoint::commit_point::Marker;
use crate::checkpoint::coordinator::{self, Action, Coordinator, Event, Task};
use crate::checkpoint::log::{Commit, Log};
use crate::checkpoint::manifest::{Lineage, ManifestId};
use crate::checkpoint::recovery::Outcome;
use crate::checkpoint::retention::Retention;
use crate::checkpoint::snapshot::{
    Digest, OperatorSnapshot, SinkSnapshot, SourceSnapshot, StoredFile, TaskSnapshot,
};
use crate::checkpoint::state_file::{Label, StateName};
use crate::checkpoint::witness::{self, Witness};
use crate::job::model::CheckpointSettings;
use crate::sink::StagedPart;
use crate::source::SplitState;

#[derive(Clone, Debug)]
pub(in crate::checkpoint::tests) struct Running {
    coordinator: Coordinator,
    log: Log,
    pub(super) attempt: u64,
    lineage: Lineage,
    /// Records read.
    position: u64,
    /// The part that goes on, as of the last barrier.
    part: Option<StagedPart>,
    /// Whether originals of parts that were taken over are still there.
    superseded: bool,
    source_ended: bool,
    sinks: Sinks,
    /// Epochs of the producers.
    epochs: [u32; 2],
    /// Barriers on their way to the source and to the operator.
    to_source: VecDeque<u64>,
    to_operator: VecDeque<u64>,
    /// State files by the checkpoint that they were for, in the order of a restore.
    files: BTreeMap<u64, Vec<StoredFile>>,
    /// What the driver has still to do, in order.
    work: VecDeque<Work>,
}

/// One atomic operation of a driver.
#[derive(Clone, Debug)]
pub(in crate::checkpoint::tests) enum Work {
    Act(Action),
    Rename(StagedPart),
    Witness(Witness),
    Published(u64),
    DeleteManifest(ManifestId),
    DeleteFile(String),
    DeleteSlot(u64),
    SweepOriginals,
    /// The slot of a checkpoint whose transaction is committed.
    Slot {
        n: u64,
        digest: Digest,
    },
    /// The marker of a transaction that is committed, for a mutation.
    Marker {
        n: u64,
        digest: Digest,
    },
    /// `init_transactions`.
    Init(usize),
    /// The recovery step is done once all work before it is.
    StepDone,
}

impl Running {
    pub(super) fn new(
        outcome: Outcome,
        starting: Starting,
        sinks: Sinks,
        mutation: Mutation,
    ) -> Running {
        let task = |id, name: &str| Task {
            id,
            name: name.to_owned(),
            source: id == SOURCE,
        };
        let confirmed = outcome.manifest.as_ref().map_or(0, |manifest| manifest.n);
        let mut coordinator = Coordinator::new(coordinator::Setup {
            identity: identity(sinks),
            settings: CheckpointSettings {
                interval: Duration::ZERO,
                ..CheckpointSettings::default()
            },
            lineage: outcome.lineage.clone(),
            attempt: outcome.attempt,
            confirmed,
            next_n: outcome.next_n,
            tasks: vec![task(SOURCE, "in"), task(OPERATOR, "op")],
            carried: match mutation {
                Mutation::ForgetAdopted => Vec::new(),
                _ => outcome.carried.clone(),
            },
            transactional: sinks.kafka() && mutation != Mutation::SkipWithRecords,
        });
        let actions = coordinator.handle(Duration::ZERO, Event::Tick);
        let mut running = Running {
            coordinator,
            sinks,
            epochs: starting.epochs,
            log: starting.recovery.into_log(),
            attempt: outcome.attempt,
            lineage: outcome.lineage,
            position: outcome.manifest.as_ref().map_or(0, position),
            part: None,
            superseded: !outcome.carried.is_empty(),
            source_ended: false,
            to_source: VecDeque::new(),
            to_operator: VecDeque::new(),
            files: BTreeMap::new(),
            work: VecDeque::new(),
        };
        let over = running.take(actions);
        assert!(over.is_none(), "an attempt begins with a barrier");
        running
    }

    /// The attempt as it runs, its first record on its way.
    pub(super) fn begin(self, disk: &mut Disk, records: u64, mutation: Mutation) -> Host {
        // The barrier of the first checkpoint is on its way as well.
        let n = self.to_source.front().copied().unwrap_or_default();
        let ended = self.send(disk, n, records, mutation);
        ended.unwrap_or_else(|| Host::Running(Box::new(self)))
    }

    /// The producer that carries checkpoint `n`.
    fn producer(n: u64, mutation: Mutation) -> usize {
        match mutation {
            Mutation::OneProducer => 0,
            _ => (n % 2) as usize,
        }
    }

    /// Puts the next record into the transaction of checkpoint `n`.
    fn send(&self, disk: &mut Disk, n: u64, records: u64, mutation: Mutation) -> Option<Host> {
        let broker = disk.broker.as_mut()?;
        if self.position == records {
            return None;
        }
        let id = Running::producer(n, mutation);
        let sent = broker.produce(id, self.epochs[id], self.position);
        (!sent).then_some(Host::Down {
            after: Some(self.attempt),
        })
    }

    /// Whether the next operation commits a transaction.
    pub(super) fn commits_in_kafka(&self) -> bool {
        self.sinks.kafka()
            && matches!(
                self.work.front(),
                Some(Work::Act(Action::CommitSlot { .. }))
            )
    }

    pub(super) fn moves(&self, host: usize, may_decline: bool, moves: &mut Vec<Move>) {
        if !self.work.is_empty() {
            moves.push(Move::Work(host));
        }
        if !self.to_source.is_empty() {
            moves.push(Move::Source(host));
        }
        if let Some(barrier) = self.to_operator.front() {
            // The barrier reaches the operator through the source.
            if self.source_ended || self.to_source.front().is_none_or(|front| front > barrier) {
                moves.push(Move::Operator(host));
            }
            if may_decline && !self.source_ended {
                moves.push(Move::Decline(host));
            }
        }
    }

    /// Whether the next operation touches no disk, or belongs to a collection that is one move.
    pub(super) fn next_is_one_with_the_last(&self, slow_collection: bool) -> bool {
        match self.work.front() {
            Some(Work::Published(_)) => true,
            Some(Work::Act(action)) => matches!(
                action,
                Action::Publish { .. } | Action::Finished { .. } | Action::Stopped { .. }
            ),
            Some(
                Work::DeleteManifest(_)
                | Work::DeleteFile(_)
                | Work::DeleteSlot(_)
                | Work::SweepOriginals,
            ) => !slow_collection,
            _ => false,
        }
    }

    fn feed(&mut self, event: Event) -> Option<Host> {
        let actions = self.coordinator.handle(Duration::ZERO, event);
        self.take(actions)
    }

    fn take(&mut self, actions: Vec<Action>) -> Option<Host> {
        for action in actions {
            match action {
                Action::InjectBarrier { n, .. } => {
                    self.to_source.push_back(n);
                    self.to_operator.push_back(n);
                }
                Action::Warn(_) => {}
                Action::FailAttempt {
                    permanent: true, ..
                } => return Some(OVER),
                Action::FailAttempt { .. } => {
                    return Some(Host::Down {
                        after: Some(self.attempt),
                    });
                }
                action => self.work.push_back(Work::Act(action)),
            }
        }
        None
    }

    pub(super) fn source(
        &mut self,
        disk: &mut Disk,
        records: u64,
        mutation: Mutation,
    ) -> Option<Host> {
        let n = self.to_source.pop_front().expect("a barrier");
        let mut staged = Vec::new();
        let ends = self.position == records;
        if !self.sinks.file() {
            self.position += u64::from(!ends);
        } else if !ends {
            let mut part = self.part.take().unwrap_or_else(|| {
                let part = part(self.attempt, n);
                disk.create_part(&part);
                part
            });
            disk.append(&part, self.position);
            part.bytes += 1;
            part.records += 1;
            self.position += 1;
            if self.position.is_multiple_of(2) {
                staged.push(part);
            } else {
                self.part = Some(part);
            }
        } else {
            staged.extend(self.part.take());
        }
        let late = self.to_source.front().is_some();
        if late && mutation == Mutation::ForgetLateParts {
            staged.clear();
        }
        let snapshot = TaskSnapshot {
            sources: vec![SourceSnapshot {
                id: "in".to_owned(),
                splits: vec![SplitState {
                    split: 0,
                    name: String::new(),
                    done: ends,
                    max_time: 0,
                    position: self.position.into(),
                }],
            }],
            operators: Vec::new(),
            sinks: vec![SinkSnapshot {
                id: "out".to_owned(),
                subtask: 0,
                staged,
                open: self.part.clone(),
            }],
        };
        if ends {
            self.source_ended = true;
            self.to_source.clear();
            return self.feed(Event::Ended {
                task: SOURCE,
                snapshot,
            });
        }
        let ended = self.feed(Event::Ack {
            n,
            task: SOURCE,
            snapshot,
        });
        ended.or_else(|| self.send(disk, n + 1, records, mutation))
    }

    pub(super) fn operator(&mut self, disk: &mut Disk, mutation: Mutation) -> Option<Host> {
        let n = self.to_operator.pop_front().expect("a barrier");
        // What is in the state alternates, so that equal contents come back as in a real job.
        let digest = Digest::of(&(self.position % 2).to_le_bytes());
        let label = if self.source_ended {
            Label::End
        } else {
            Label::Barrier(n)
        };
        let name = StateName {
            label,
            attempt: self.attempt,
            digest,
        };
        let name = match mutation {
            Mutation::SharedStateNames => digest.to_string(),
            _ => name.to_string(),
        };
        disk.state.insert(name.clone(), 1);
        let own = StoredFile {
            name,
            digest,
            bytes: 1,
        };
        // Every second snapshot builds on the confirmed one before it. One at the end builds on nothing, like a real one.
        let base = self.files.get(&self.coordinator.confirmed());
        let mut files = match base {
            Some(base) if base.len() == 1 && !self.source_ended => base.clone(),
            _ => Vec::new(),
        };
        files.push(own);
        self.files.insert(n, files.clone());
        let snapshot = TaskSnapshot {
            operators: vec![OperatorSnapshot {
                id: "op".to_owned(),
                subtask: 0,
                parallelism: 1,
                watermark: 0,
                files,
                held: 0,
                finished: self.source_ended,
            }],
            ..TaskSnapshot::default()
        };
        if self.source_ended {
            self.to_operator.clear();
            return self.feed(Event::Ended {
                task: OPERATOR,
                snapshot,
            });
        }
        self.feed(Event::Ack {
            n,
            task: OPERATOR,
            snapshot,
        })
    }

    /// What must not be done with the part that is open.
    pub(super) fn discard(&self, disk: &mut Disk) {
        if let Some(part) = &self.part {
            disk.unlink(&part.staged);
        }
    }

    pub(super) fn decline(&mut self) -> Option<Host> {
        let n = self.to_operator.pop_front().expect("a barrier");
        self.feed(Event::Declined {
            n,
            task: OPERATOR,
            why: "disk full".to_owned(),
            staged: Vec::new(),
        })
    }

    pub(super) fn work(
        &mut self,
        disk: &mut Disk,
        mutation: Mutation,
        fate: Fate,
    ) -> Result<Option<Host>, Violation> {
        let work = self.work.pop_front().expect("there is work");
        Ok(match work {
            Work::Act(Action::StoreManifest { manifest }) => {
                let n = manifest.n;
                if mutation == Mutation::PublishBeforeSlot {
                    manifest
                        .staged
                        .iter()
                        .try_for_each(|part| disk.rename(part))?;
                }
                let digest = disk.store(*manifest)?;
                self.feed(Event::ManifestStored { n, digest })
            }
            Work::Act(Action::CommitSlot { n, digest }) if self.sinks.kafka() => {
                if mutation == Mutation::SlotBeforeTransaction {
                    self.commit(disk, n, digest, mutation)?;
                }
                let marker = match mutation {
                    Mutation::MarkerAfterwards => None,
                    _ => Some(self.marker(n, digest)),
                };
                let next = match mutation {
                    Mutation::MarkerAfterwards => Work::Marker { n, digest },
                    _ => Work::Slot { n, digest },
                };
                let id = Running::producer(n, mutation);
                match disk.commit_transaction(id, self.epochs[id], marker, fate)? {
                    Sent::Unclear
                        if mutation == Mutation::GoOnAfterUnclear && fate == Fate::Repeated => {}
                    Sent::Done => {}
                    Sent::Unclear | Sent::Fenced => {
                        let why = "no answer".to_owned();
                        return Ok(self.feed(Event::CommitFailed { n, why }));
                    }
                }
                if mutation == Mutation::SlotBeforeTransaction {
                    self.feed(Event::Committed { n })
                } else {
                    self.work.push_front(next);
                    None
                }
            }
            Work::Marker { n, digest } => {
                let id = Running::producer(n, mutation);
                let marker = Some(self.marker(n, digest));
                match disk.commit_transaction(id, self.epochs[id], marker, Fate::Answered)? {
                    Sent::Done => {
                        self.work.push_front(Work::Slot { n, digest });
                        None
                    }
                    Sent::Unclear | Sent::Fenced => {
                        let why = "fenced".to_owned();
                        self.feed(Event::CommitFailed { n, why })
                    }
                }
            }
            Work::Act(Action::CommitSlot { n, digest }) | Work::Slot { n, digest } => {
                let event = self.commit(disk, n, digest, mutation)?;
                self.feed(event)
            }
            Work::Act(Action::Publish { n, parts }) => {
                let witness = |complete| Witness {
                    format: witness::FORMAT,
                    job: JOB.to_owned(),
                    lineage: self.lineage.clone(),
                    n,
                    complete,
                    attempt: self.attempt,
                };
                let mut works = Vec::new();
                if !parts.is_empty() && mutation != Mutation::WitnessAfterwards {
                    works.push(Work::Witness(witness(false)));
                }
                works.extend(parts.into_iter().map(Work::Rename));
                works.extend([Work::Witness(witness(true)), Work::Published(n)]);
                works.extend(self.work.drain(..));
                self.work.extend(works);
                None
            }
            Work::Act(Action::Collect { n }) => {
                let works = self.collection(disk, n, mutation);
                let rest: Vec<Work> = works.into_iter().chain(self.work.drain(..)).collect();
                self.work.extend(rest);
                None
            }
            Work::Act(Action::Finished { .. } | Action::Stopped { .. }) => Some(OVER),
            Work::Act(other) => unreachable!("{other:?} is no work for a driver"),
            Work::Rename(part) => {
                disk.rename(&part)?;
                None
            }
            Work::Witness(witness) => match disk.write_witness(&witness, mutation) {
                Some(by) => self.feed(Event::TakenOver { by }),
                None => None,
            },
            Work::Published(n) => self.feed(Event::Published { n }),
            Work::DeleteManifest(id) => {
                disk.manifests.remove(&id);
                None
            }
            Work::DeleteFile(name) => {
                disk.state.remove(&name);
                None
            }
            Work::DeleteSlot(index) => {
                disk.slots.remove(&index);
                self.log.forget(index);
                None
            }
            Work::SweepOriginals => {
                disk.sweep(&[], self.attempt, mutation);
                None
            }
            Work::Init(_) | Work::StepDone => unreachable!("that belongs to a recovery"),
        })
    }

    fn marker(&self, n: u64, digest: Digest) -> Marker {
        Marker::new(&self.commit_of(n, digest), self.attempt)
    }

    fn commit_of(&self, n: u64, digest: Digest) -> Commit {
        Commit {
            lineage: self.lineage.clone(),
            n,
            attempt: self.attempt,
            manifest: digest,
        }
    }

    fn commit(
        &mut self,
        disk: &mut Disk,
        n: u64,
        digest: Digest,
        mutation: Mutation,
    ) -> Result<Event, Violation> {
        let slot = self.log.commit(self.commit_of(n, digest), 1);
        if disk.create_slot(&slot, mutation)? {
            self.log.push(slot);
            return Ok(Event::Committed { n });
        }
        let by = disk
            .slots
            .get(&slot.index)
            .map_or(0, |there| there.entry.attempt());
        Ok(if by > self.attempt {
            Event::TakenOver { by }
        } else {
            Event::CommitFailed {
                n,
                why: format!("slot {} is attempt {by}'s", slot.index),
            }
        })
    }

    /// What a collection deletes, decided at one moment and done later, a deletion at a time.
    fn collection(&mut self, disk: &Disk, confirmed: u64, mutation: Mutation) -> Vec<Work> {
        let retention = Retention::new(&self.log, self.attempt, confirmed);
        let ids = disk.manifests.keys().copied();
        let (gone, kept): (Vec<_>, Vec<_>) = ids.partition(|id| retention.collects_manifest(*id));
        let named: Vec<&str> = kept
            .iter()
            .filter_map(|id| disk.manifests.get(id))
            .flat_map(|(manifest, _)| manifest.files())
            .map(|file| file.name.as_str())
            .collect();
        let collected = |name: &&String| {
            let over = match StateName::parse(name) {
                Some(name) => retention.collects_file(&name),
                // Only a mutation writes such names.
                None => true,
            };
            over && !named.contains(&name.as_str())
        };
        let files = disk.state.keys().filter(collected).cloned();
        let mut slots = self.log.trimmable();
        match mutation {
            Mutation::TrimClaims => {
                slots = disk
                    .slots
                    .range(..self.log.kept_from())
                    .map(|(i, _)| *i)
                    .collect()
            }
            Mutation::CommitPerNumber => slots.clear(),
            _ => {}
        }
        let originals = std::mem::take(&mut self.superseded).then_some(Work::SweepOriginals);
        gone.into_iter()
            .map(Work::DeleteManifest)
            .chain(files.map(Work::DeleteFile))
            .chain(originals)
            .chain(slots.into_iter().map(Work::DeleteSlot))
            .collect()
    }
}
