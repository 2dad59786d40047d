//! A host that starts: the recovery, and what its steps do to the world.

use std::collections::VecDeque;

use super::broker::{self, Broker, Fate, Sent};
use super::disk::Disk;
use super::running::Work;
use super::{JOB, Mutation, Violation};
use crate::checkpoint::commit_point::{Marker, MarkerFound};
use crate::checkpoint::log::Log;
use crate::checkpoint::recovery::{Answer, Owner, Recovery, Seen, Step};

#[derive(Clone, Debug)]
pub(in crate::checkpoint::tests) struct Starting {
    pub(super) recovery: Recovery,
    /// What belongs to the current step and is still to be done.
    work: VecDeque<Work>,
    /// Epochs of the producers.
    pub(super) epochs: [u32; 2],
    /// For mutations: the log as it was read first, the marker as it was before the fence, and whether its own is written.
    first_log: Option<Log>,
    first_marker: MarkerFound,
    marked: bool,
}

/// Whether a start goes on.
pub(super) enum Progress {
    Going,
    /// Storage or cluster did not answer, once the claim stood: the process begins anew.
    Failed {
        attempt: u64,
    },
}

impl Starting {
    pub(super) fn new(recovery: Recovery) -> Starting {
        Starting {
            recovery,
            work: VecDeque::new(),
            epochs: [0; 2],
            first_log: None,
            first_marker: None,
            marked: false,
        }
    }

    /// Whether the next operation commits a transaction.
    pub(super) fn commits_in_kafka(&self) -> bool {
        self.work.is_empty() && matches!(self.recovery.step(), Step::WriteMarker(_))
    }

    /// Whether the next operation is empty, or reads what never changes again.
    pub(super) fn nothing_to_see(&self, disk: &Disk) -> bool {
        if let Some(next) = self.work.front() {
            return matches!(next, Work::StepDone);
        }
        match self.recovery.step() {
            Step::ReadOwner => disk.owner,
            Step::Look { files, parts, open } => {
                files.is_empty() && parts.is_empty() && open.is_empty()
            }
            Step::DeleteManifests(ids) => ids.is_empty(),
            Step::Publish(parts) => parts.is_empty(),
            Step::ReadWitnesses(dirs)
            | Step::Sweep { dirs, .. }
            | Step::WriteWitnesses { dirs, .. } => dirs.is_empty(),
            _ => false,
        }
    }
}

fn own_tail(recovery: &Recovery) -> Option<u64> {
    recovery.clone().into_log().newest().map(|slot| slot.index)
}

impl Disk {
    /// One operation of a recovery.
    pub(super) fn recover(
        &mut self,
        starting: &mut Starting,
        mutation: Mutation,
        fate: Fate,
    ) -> Result<Progress, Violation> {
        let Starting {
            recovery,
            work,
            first_log,
            epochs,
            first_marker,
            marked,
        } = starting;
        if let Some(next) = work.pop_front() {
            match next {
                Work::StepDone => recovery.answer(Answer::Done),
                Work::Rename(part) => self.rename(&part)?,
                Work::DeleteManifest(id) => {
                    self.manifests.remove(&id);
                }
                Work::Init(id) => {
                    let broker = self.broker.as_mut().expect("there is a cluster");
                    epochs[id] = match (mutation, id) {
                        (Mutation::NoFence, _) | (Mutation::FenceOne, 1) => broker.epoch(id),
                        _ => broker.init(id),
                    };
                }
                other => unreachable!("recovery does not {other:?}"),
            }
            return Ok(Progress::Going);
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
            Step::Look { files, parts, open } => Answer::Looked {
                files: files
                    .iter()
                    .map(|file| self.state.get(&file.name).copied())
                    .collect(),
                parts: parts.iter().map(|part| self.look(part)).collect(),
                open: open
                    .iter()
                    .map(|part| Some(self.files.get(self.staged.get(&part.staged)?)?.len() as u64))
                    .collect(),
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
                    Mutation::CommitPerNumber | Mutation::NoTailCheck => own_tail(recovery),
                    Mutation::NoLastCheck if *marked => own_tail(recovery),
                    _ => self.slots.keys().next_back().copied(),
                };
                Answer::Highest(newest)
            }
            Step::ListManifests => Answer::Ids(self.manifests.keys().copied().collect()),
            Step::DeleteManifests(ids) => {
                work.extend(ids.into_iter().map(Work::DeleteManifest));
                work.push_back(Work::StepDone);
                return Ok(Progress::Going);
            }
            Step::StoreManifest(manifest) => Answer::Stored(self.store(*manifest)?),
            Step::Publish(parts) => {
                if mutation != Mutation::NoRedo {
                    work.extend(parts.into_iter().map(Work::Rename));
                }
                work.push_back(Work::StepDone);
                return Ok(Progress::Going);
            }
            Step::Sweep {
                mut keep, attempt, ..
            } => {
                if mutation == Mutation::SweepOpen {
                    let last = self.history.last();
                    keep.retain(|part| last.is_none_or(|last| !last.open.contains(part)));
                }
                self.sweep(&keep, attempt, mutation);
                Answer::Done
            }
            Step::Adopt { open, attempt } => {
                let parts = open.into_iter();
                let adopted = parts.map(|part| self.adopt(part, attempt, mutation));
                Answer::Adopted(adopted.collect())
            }
            Step::WriteWitnesses { dirs, .. } if dirs.is_empty() => Answer::Done,
            Step::WriteWitnesses { witness, .. } => match self.write_witness(&witness, mutation) {
                Some(by) => Answer::TakenOver { by },
                None => Answer::Done,
            },
            Step::Peek(_) => Answer::Markers(vec![self.marker()]),
            Step::Fence(points) => {
                assert_eq!(points, [broker::point()], "the job commits in one place");
                *first_marker = self.marker();
                *marked = false;
                work.extend([Work::Init(0), Work::Init(1), Work::StepDone]);
                return Ok(Progress::Going);
            }
            Step::ReadMarkers(_) => Answer::Markers(vec![match mutation {
                Mutation::ReadBeforeFence => first_marker.clone(),
                Mutation::TrustLog => {
                    let log = recovery.clone().into_log();
                    let newest = log.newest_commit();
                    newest.map(|newest| Ok(Marker::new(newest, newest.attempt)))
                }
                _ => self.marker(),
            }]),
            Step::Resolve(slot) => {
                *first_log = None;
                if self.create_slot(&slot, mutation)? {
                    Answer::Done
                } else {
                    Answer::Taken
                }
            }
            Step::WriteMarker(marker) => {
                let claim = marker.attempt != marker.commit().attempt;
                let attempt = marker.attempt;
                let sent = if claim && mutation == Mutation::NoClaimMarker {
                    Sent::Done
                } else {
                    self.commit_transaction(0, epochs[0], Some(marker), fate)?
                };
                *marked = true;
                match sent {
                    Sent::Done => Answer::Done,
                    Sent::Unclear
                        if mutation == Mutation::GoOnAfterUnclear && fate == Fate::Repeated =>
                    {
                        Answer::Done
                    }
                    Sent::Fenced => Answer::Fenced,
                    Sent::Unclear => return Ok(Progress::Failed { attempt }),
                }
            }
            Step::Done(_) | Step::Refuse => unreachable!("the host has gone on"),
        };
        recovery.answer(answer);
        Ok(Progress::Going)
    }

    fn marker(&self) -> MarkerFound {
        self.broker.as_ref().and_then(Broker::read)
    }
}
