//! What a start does: a state machine without I/O that restores, starts fresh, or refuses.
//!
//! [`Recovery::step`] says what to do next and [`Recovery::answer`] takes what came of it:
//!
//! ```text
//!   read log, manifests, owner, witnesses, files ──▶ verdict ──▶ refuse (after reading the log again)
//!        ▲                                              │
//!        │ taken, or claimed in a hole                  ▼
//!        └───────────────────────────────── claim, check that it is the newest slot
//!                                                       │
//!                 ┌─────────────────────────────────────┴──────────────┐
//!                 ▼ resume, or finished but not published              ▼ fresh
//!      delete what never happened                            manifest 0, marker 0
//!      announce, publish again, sweep,                       sweep, witnesses
//!      take over open parts, witnesses
//! ```
//!
//! Where a commit point in Kafka is concerned, the claim is followed by more, because only then can no transaction of an earlier attempt
//! succeed any more:
//!
//! ```text
//!   claim ──▶ fence all producers ──▶ read the markers ──▶ look at everything anew ──▶ one knows more than the log: note that in the log
//!                                                                  ▲     │                                                   │
//!                                                                  └─────┼───────────────────────────────────────────────────┘
//!                                                                        ▼ the log is right
//!                                     write the marker as this attempt's ──▶ check that no newer attempt has claimed meanwhile
//! ```
//!
//! A fresh start looks at the marker before the claim too, so that a job that is started elsewhere with empty storage disturbs nobody.
//!
//! Nothing is written before the claim but `job.json`. Observations are made one after the other while another host may run, so they may not
//! fit together: before a refusal the log is read again, and if it moved, everything is looked at anew. A claim needs no such check: it
//! succeeds only on the very log that was read. `job.json` is written before the first slot and the first manifest, so it is read
//! after them: if it is missing then, it was missing before.

mod establish;
mod judge;
mod step;

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::commit_point::{self, CommitPoint, KafkaPoint, Marker, MarkerFound, Settled};
use super::log;
use super::log::{Commit, Log};
use super::manifest::{Identity, Lineage, Manifest};
use super::outputs::PartFound;
use super::refusal::Refusal;
use super::witness::Witness;
use crate::sink::StagedPart;

pub use step::{Answer, Outcome, Owner, Seen, Step};

/// How often an observation is begun again because the log moved. A running host moves it once an interval, an observation
/// takes milliseconds; more than this means that something else is wrong.
const OBSERVATIONS: u32 = 64;

/// What the user asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Start a new lineage even if there is something to resume.
    pub fresh: bool,
    /// Write output a second time beside committed output.
    pub accept_duplicates: bool,
}

/// What a recovery is made from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The job.
    pub identity: Identity,
    /// What the user asked for.
    pub options: Options,
    /// Drawn for a new lineage, should there be one.
    pub lineage: Lineage,
    /// The attempt that this process owned last. A newer one in the log is another host's, and is not taken over in turn.
    pub after: Option<u64>,
    /// Where checkpoint storage is, for messages.
    pub storage: String,
}

/// What was seen before the claim.
#[derive(Clone, Debug)]
struct Observed {
    owner: Owner,
    log: Result<Log, log::Defect>,
    manifests: Vec<Seen>,
    witnesses: BTreeMap<PathBuf, Option<Result<Witness, String>>>,
    files: Vec<Option<u64>>,
    parts: Vec<PartFound>,
    open: Vec<Option<u64>>,
}

/// What will be done once the claim stands.
#[derive(Clone, Debug)]
enum Plan {
    /// Start a new lineage.
    Fresh {
        /// Lineages whose witnesses it overwrites.
        replaces: Vec<Lineage>,
    },
    /// Go on from a committed checkpoint.
    Resume {
        manifest: Box<Manifest>,
        /// Directories whose witness does not say yet that it is published.
        behind: Vec<PathBuf>,
    },
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Recovery {
    setup: Setup,
    step: Step,
    seen: Observed,
    observations: u32,
    /// Why it will be refused unless the log has moved.
    doubt: Option<Refusal>,
    /// A claim that did not work out: the attempt, and the slot if one was created in a hole.
    tried: Option<(u64, Option<u64>)>,
    /// What the claim, once it stands, is for.
    plan: Option<Plan>,
    /// The commit that begins a new lineage, once its manifest is stored.
    first: Option<Commit>,
    /// Whether the claim stands.
    claimed: bool,
    /// The markers that were read, if nothing has happened since that may have changed them.
    markers: Option<Vec<(KafkaPoint, MarkerFound)>>,
    /// Whether something of an earlier attempt may still be committed in Kafka.
    fencing: bool,
    /// Whether this attempt's marker stands.
    marked: bool,
    attempt: u64,
    next_n: u64,
    carried: Vec<StagedPart>,
}

impl Recovery {
    /// At the beginning.
    pub fn new(setup: Setup) -> Recovery {
        Recovery {
            setup,
            step: Step::ReadLog,
            seen: Observed {
                owner: Owner::Nobody,
                log: Ok(Log::default()),
                manifests: Vec::new(),
                witnesses: BTreeMap::new(),
                files: Vec::new(),
                parts: Vec::new(),
                open: Vec::new(),
            },
            observations: 0,
            doubt: None,
            tried: None,
            plan: None,
            first: None,
            claimed: false,
            markers: None,
            fencing: true,
            marked: false,
            attempt: 0,
            next_n: 1,
            carried: Vec::new(),
        }
    }

    /// What to do next.
    pub fn step(&self) -> &Step {
        &self.step
    }

    /// Why it was refused, if it was.
    pub fn into_refusal(self) -> Option<Refusal> {
        match self.step {
            Step::Refuse => self.doubt,
            _ => None,
        }
    }

    /// The log as this attempt owns it.
    pub fn into_log(self) -> Log {
        self.seen.log.unwrap_or_default()
    }

    /// Takes what came of the current step.
    ///
    /// # Panics
    /// If the answer does not belong to the step.
    pub fn answer(&mut self, answer: Answer) {
        let step = std::mem::replace(&mut self.step, Step::Refuse);
        self.step = match (step, answer) {
            (Step::ReadLog, Answer::Log(log)) => self.read_log(log),
            (Step::ReadManifests, Answer::Manifests(manifests)) => {
                self.seen.manifests = manifests;
                Step::ReadOwner
            }
            (Step::ReadOwner, Answer::Owner(owner)) => {
                self.seen.owner = owner;
                Step::ReadWitnesses(judge::witness_dirs(&self.setup, &self.seen))
            }
            (Step::ReadWitnesses(_), Answer::Witnesses(witnesses)) => {
                self.seen.witnesses = witnesses;
                let judge::Needed { files, parts, open } =
                    judge::to_look_at(&self.setup, &self.seen);
                Step::Look { files, parts, open }
            }
            (Step::Look { .. }, Answer::Looked { files, parts, open }) => {
                self.seen.files = files;
                self.seen.parts = parts;
                self.seen.open = open;
                self.judge()
            }
            (Step::Own, Answer::Done) => self.approach(),
            // Somebody else begins at this very moment: look again.
            (Step::Own, Answer::Taken) => Step::ReadLog,
            (Step::Claim(slot), Answer::Done) => {
                self.tried = Some((self.attempt, Some(slot.index)));
                self.markers = None;
                // From here on a newer attempt is another host's.
                self.setup.after = Some(self.attempt);
                self.own_log().push(slot);
                Step::CheckTail
            }
            (Step::Claim(_), Answer::Taken) => {
                self.tried = Some((self.attempt, None));
                Step::ReadLog
            }
            (Step::CheckTail, Answer::Highest(highest)) => {
                let claimed = self.own_log().newest().map(|slot| slot.index);
                if highest == claimed {
                    self.claimed()
                } else if self.claimed {
                    // Nothing but a newer claim can have been created.
                    self.fenced()
                } else {
                    // The claim filled a trimmed hole, or stands and has been superseded already: the log tells.
                    Step::ReadLog
                }
            }
            (Step::Fence(points), Answer::Done) => {
                self.fencing = false;
                Step::ReadMarkers(points)
            }
            (Step::Fence(_) | Step::WriteMarker(_), Answer::Fenced) => self.fenced(),
            (Step::Peek(at), Answer::Markers(found)) => self.marked_so_far(vec![at], found),
            (Step::ReadMarkers(points), Answer::Markers(found)) => {
                self.marked_so_far(points, found)
            }
            (Step::Resolve(slot), Answer::Done) => {
                self.own_log().push(slot);
                if self.marked {
                    self.established()
                } else {
                    // What belongs to that checkpoint has not been looked at yet.
                    Step::ReadManifests
                }
            }
            (Step::Resolve(_), Answer::Taken) => self.fenced(),
            (Step::WriteMarker(_), Answer::Done) => {
                self.marked = true;
                Step::CheckTail
            }
            (Step::ListManifests, Answer::Ids(ids)) => {
                Step::DeleteManifests(self.never_happened(ids))
            }
            (Step::DeleteManifests(_), Answer::Done) => self.announce(),
            (Step::StoreManifest(manifest), Answer::Stored(digest)) => {
                let commit = Commit {
                    lineage: manifest.lineage.clone(),
                    n: 0,
                    attempt: self.attempt,
                    manifest: digest,
                };
                if self.setup.identity.commit_point.is_storage() {
                    self.begin_lineage(commit)
                } else {
                    let marker = Marker::new(&commit, self.attempt);
                    self.first = Some(commit);
                    Step::WriteMarker(marker)
                }
            }
            (Step::CommitMarker(slot), Answer::Done) => {
                self.own_log().push(slot);
                self.sweep()
            }
            (Step::CommitMarker(_), Answer::Taken) => {
                self.tried = Some((self.attempt, None));
                Step::ReadLog
            }
            (Step::Publish(_), Answer::Done) => self.sweep(),
            (Step::Sweep { .. }, Answer::Done) => self.adopt(),
            (Step::Adopt { .. }, Answer::Adopted(Ok(parts))) => {
                self.carried = parts;
                self.bear_witness()
            }
            (Step::Adopt { .. }, Answer::Adopted(Err(part))) => {
                // It was there before the claim. If a newer attempt has removed what it took over itself, the log tells.
                let n = self.manifest().map_or(0, |manifest| manifest.n);
                self.doubt = Some(Refusal::OpenPart {
                    n,
                    dir: part.dir,
                    staged: part.staged,
                    bytes: part.bytes,
                    found: "is missing or shorter".to_owned(),
                });
                Step::ReadLog
            }
            (Step::WriteWitnesses { witness, .. }, Answer::Done) => {
                if witness.complete {
                    self.done()
                } else {
                    Step::Publish(self.unpublished())
                }
            }
            (Step::WriteWitnesses { .. }, Answer::TakenOver { by }) => self.taken_over(by),
            (step, answer) => unreachable!("{answer:?} is no answer to {step:?}"),
        };
    }

    fn own_log(&mut self) -> &mut Log {
        self.seen
            .log
            .as_mut()
            .expect("a damaged log is refused before the claim")
    }

    /// It will be refused unless the log has moved.
    fn doubtful(&mut self, refusal: Refusal) -> Step {
        self.doubt = Some(refusal);
        Step::ReadLog
    }

    /// Another host has begun with our producers, or the broker has given up on them: the log tells which.
    fn fenced(&mut self) -> Step {
        self.marked = false;
        self.fencing = true;
        // Another one's lineage may have begun in the meantime.
        self.first = None;
        self.observations += 1;
        if self.observations >= OBSERVATIONS {
            return self.doubtful(Refusal::CommitPoint {
                what: format!(
                    "the job could not be claimed in {}",
                    self.setup.identity.commit_point
                ),
                why: "it was tried again and again, and failed as was said; another process may be using its transactional ids"
                    .to_owned(),
                may_pass: true,
            });
        }
        Step::ReadLog
    }

    fn taken_over(&mut self, by: u64) -> Step {
        self.doubt = Some(Refusal::TakenOver {
            job: self.setup.identity.job.clone(),
            by,
        });
        Step::Refuse
    }

    fn read_log(&mut self, log: Result<Log, log::Defect>) -> Step {
        if self.doubt.is_some() {
            if log == self.seen.log || self.observations >= OBSERVATIONS {
                return Step::Refuse;
            }
            self.doubt = None;
            self.observations += 1;
        }
        if let Ok(log) = &log {
            if let Some((attempt, slot)) = self.tried.take() {
                let by = match slot {
                    Some(index) => log.newest_attempt_except(index),
                    None => log.newest_attempt(),
                };
                if by >= attempt {
                    return self.taken_over(by);
                }
            }
            let by = log.newest_attempt();
            if self.setup.after.is_some_and(|after| by > after) {
                return self.taken_over(by);
            }
        }
        self.seen.log = log;
        self.markers = None;
        Step::ReadManifests
    }

    /// A manifest is stored before its marker is committed. So whatever a marker names is among the manifests that are read after it.
    fn marked_so_far(&mut self, points: Vec<KafkaPoint>, found: Vec<MarkerFound>) -> Step {
        self.markers = Some(points.into_iter().zip(found).collect());
        Step::ReadManifests
    }

    fn judge(&mut self) -> Step {
        let seen = &self.seen;
        let verdict = match judge::judge(&self.setup, seen) {
            Ok(verdict) => verdict,
            Err(refusal) => return self.doubtful(refusal),
        };
        let log = seen
            .log
            .as_ref()
            .map_or((0, 0), |log| (log.newest_attempt(), log.newest_number()));
        let witnesses = seen.witnesses.values().flatten().flatten();
        let ids = seen.manifests.iter().map(|manifest| manifest.id);
        let attempts = ids.clone().map(|id| id.attempt);
        let newest = attempts
            .chain(witnesses.map(|witness| witness.attempt))
            .fold(log.0, u64::max);
        self.next_n = ids.map(|id| id.n).fold(log.1, u64::max) + 1;
        if let Plan::Resume { manifest, behind } = &verdict
            && manifest.finished
            && behind.is_empty()
        {
            self.attempt = newest;
            self.plan = Some(verdict);
            return self.done();
        }
        self.plan = Some(verdict);
        if self.claimed {
            return self.fence();
        }
        self.attempt = newest + 1;
        if matches!(self.seen.owner, Owner::Nobody) {
            Step::Own
        } else {
            self.approach()
        }
    }

    /// What comes before the claim, if anything does.
    fn approach(&mut self) -> Step {
        // A start that cannot go on must not have stopped another host with its claim.
        if let Err(refusal) = self.unresolved() {
            return self.doubtful(refusal);
        }
        match (&self.plan, &self.setup.identity.commit_point, &self.markers) {
            (Some(Plan::Fresh { .. }), CommitPoint::Kafka(point), None) => {
                Step::Peek(point.clone())
            }
            (Some(Plan::Fresh { .. }), _, Some(markers)) => match self.settle(markers) {
                Ok(_) => self.claim(),
                Err(refusal) => self.doubtful(refusal),
            },
            _ => self.claim(),
        }
    }

    fn claim(&mut self) -> Step {
        let (attempt, point) = (self.attempt, self.setup.identity.commit_point.clone());
        Step::Claim(self.own_log().claim(attempt, point))
    }

    /// The claim stands: no older attempt can commit in the log any more.
    fn claimed(&mut self) -> Step {
        self.tried = None;
        self.claimed = true;
        if self.marked {
            return self.marker_stands();
        }
        self.fence()
    }

    /// Ends what could still be committed outside the log, if anything can, and finds out what was.
    fn fence(&mut self) -> Step {
        let mut points = match self.unresolved() {
            Ok(points) => points,
            Err(refusal) => return self.doubtful(refusal),
        };
        let current = &self.setup.identity.commit_point;
        points.extend(current.kafka().cloned());
        if points.is_empty() {
            return self.established();
        }
        if self.fencing {
            return Step::Fence(points);
        }
        let Some(markers) = &self.markers else {
            return Step::ReadMarkers(points);
        };
        match self.settle(markers) {
            Ok(Settled::LogIsRight) => {
                self.markers = None;
                self.mark()
            }
            Ok(Settled::Ahead(commit, at)) => {
                let attempt = self.attempt;
                let at = CommitPoint::Kafka(at);
                Step::Resolve(self.own_log().resolve(attempt, commit, at))
            }
            Err(refusal) => self.doubtful(refusal),
        }
    }

    /// Where else than at this attempt's commit point something may be committed that the log does not have.
    fn unresolved(&self) -> Result<Vec<KafkaPoint>, Refusal> {
        let Setup {
            identity, options, ..
        } = &self.setup;
        match &self.seen.log {
            Ok(log) if !(options.fresh && options.accept_duplicates) => commit_point::unresolved(
                &identity.job,
                log,
                &self.seen.manifests,
                &identity.commit_point,
            ),
            _ => Ok(Vec::new()),
        }
    }

    /// Compares what was found at some places with the log; what knows most counts.
    fn settle(&self, markers: &[(KafkaPoint, MarkerFound)]) -> Result<Settled, Refusal> {
        let empty = Log::default();
        let question = commit_point::Question {
            job: &self.setup.identity.job,
            storage: &self.setup.storage,
            log: self.seen.log.as_ref().unwrap_or(&empty),
            manifests: &self.seen.manifests,
            fresh: self.setup.options.fresh,
            accept_duplicates: self.setup.options.accept_duplicates,
        };
        let mut settled = Settled::LogIsRight;
        for (point, found) in markers {
            let here = commit_point::settle(&question, point, found)?;
            if here != Settled::LogIsRight {
                settled = here;
            }
        }
        Ok(settled)
    }

    /// The log is right. If the job commits in Kafka, it is claimed there too.
    fn mark(&mut self) -> Step {
        if self.setup.identity.commit_point.is_storage() {
            return self.established();
        }
        let newest = self.seen.log.as_ref().ok().and_then(Log::newest_commit);
        match (&self.plan, newest) {
            (Some(Plan::Resume { .. }), Some(commit)) => {
                Step::WriteMarker(Marker::new(commit, self.attempt))
            }
            // The marker of a new lineage comes with its manifest.
            _ => self.established(),
        }
    }

    /// This attempt's marker stands, and no newer attempt had claimed the log after that.
    fn marker_stands(&mut self) -> Step {
        if let Some(first) = self.first.take() {
            return self.begin_lineage(first);
        }
        let current = self.setup.identity.commit_point.clone();
        let log = self.own_log();
        match log.newest_commit() {
            // From here on the log's newest commit is one of this commit point, which must have its marker.
            Some(commit) if commit_point::of_newest_commit(log) != Some(&current) => {
                let commit = commit.clone();
                let attempt = self.attempt;
                Step::Resolve(self.own_log().resolve(attempt, commit, current))
            }
            _ => self.established(),
        }
    }
}
