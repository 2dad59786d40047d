//! The commit point: the one place that decides whether a checkpoint happened.
//!
//! For most jobs that is the commit log itself. A job that writes to Kafka exactly once cannot have its output committed in one place and its
//! checkpoint in another, so there a [`Marker`] that names the checkpoint is a record of the very transaction that carries the output. The
//! log then follows: it gets the commit once the transaction is known to have succeeded, and recovery asks the commit point whether the log
//! lacks one.
//!
//! Each claim in the log says under which commit point its attempt commits, so a job file that was changed since decides nothing about what
//! earlier attempts have committed.

use serde::{Deserialize, Serialize};

use super::log::{Commit, Entry, Log};
use super::manifest::{Lineage, Manifest};
use super::recovery::Seen;
use super::refusal::Refusal;
use super::snapshot::Digest;

/// The version of a marker that this release writes, and the only one it reads.
pub const FORMAT: u32 = 1;

/// Where it is decided whether a checkpoint happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitPoint {
    /// In the commit log.
    #[default]
    Storage,
    /// In a topic.
    Kafka(KafkaPoint),
}

impl CommitPoint {
    /// Whether it is the log.
    pub fn is_storage(&self) -> bool {
        matches!(self, CommitPoint::Storage)
    }

    /// The place in Kafka, if it is one.
    pub fn kafka(&self) -> Option<&KafkaPoint> {
        match self {
            CommitPoint::Storage => None,
            CommitPoint::Kafka(point) => Some(point),
        }
    }
}

impl std::fmt::Display for CommitPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CommitPoint::Storage => f.write_str("checkpoint storage"),
            CommitPoint::Kafka(point) => point.fmt(f),
        }
    }
}

/// A place in Kafka in which commits are decided, and whose transactions decide them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KafkaPoint {
    /// The cluster's own id.
    pub cluster: String,
    /// The commit topic.
    pub topic: String,
    /// Its id: a topic that was deleted and created again has another.
    pub topic_id: String,
    /// The partition that holds the job's markers.
    pub partition: i32,
    /// What the ids of the two transactional producers begin with; they end in `-0` and `-1`.
    pub ids: String,
}

impl KafkaPoint {
    /// The transactional id of one of the two producers.
    pub fn id(&self, producer: usize) -> String {
        KafkaPoint::id_of(&self.ids, producer)
    }

    /// The same of ids that begin with `ids`.
    pub fn id_of(ids: &str, producer: usize) -> String {
        format!("{ids}-{producer}")
    }

    /// The same place, but the topic was created again.
    fn recreated(&self, other: &KafkaPoint) -> bool {
        self.topic_id != other.topic_id
            && (&self.cluster, &self.topic) == (&other.cluster, &other.topic)
    }
}

impl std::fmt::Display for KafkaPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "partition {} of topic `{}` in cluster {}",
            self.partition, self.topic, self.cluster
        )
    }
}

/// Names the newest checkpoint that happened: the value of a record of the commit topic, whose key is the job's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Marker {
    format: u32,
    /// The history it belongs to.
    pub lineage: Lineage,
    /// Number of the checkpoint.
    pub n: u64,
    /// The attempt that wrote this marker: it took the checkpoint, or claims the job with it.
    pub attempt: u64,
    /// The attempt that took the checkpoint.
    pub taken_by: u64,
    /// Digest of its manifest.
    pub manifest: Digest,
}

impl Marker {
    /// The marker that `attempt` writes for a commit, its own or the one that it goes on from.
    pub fn new(commit: &Commit, attempt: u64) -> Marker {
        Marker {
            format: FORMAT,
            lineage: commit.lineage.clone(),
            n: commit.n,
            attempt,
            taken_by: commit.attempt,
            manifest: commit.manifest,
        }
    }

    /// The commit that it stands for.
    pub fn commit(&self) -> Commit {
        Commit {
            lineage: self.lineage.clone(),
            n: self.n,
            attempt: self.taken_by,
            manifest: self.manifest,
        }
    }

    /// The bytes of the record.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a marker is plain data")
    }

    /// Reads what [`Marker::encode`] wrote.
    ///
    /// # Errors
    /// What is wrong with it, for a message.
    pub fn decode(bytes: &[u8]) -> Result<Marker, String> {
        #[derive(Deserialize)]
        struct Probe {
            format: u32,
        }
        let probe: Probe = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if probe.format != FORMAT {
            return Err(format!(
                "it has format {}; this is Weir {} and reads format {FORMAT}",
                probe.format,
                env!("CARGO_PKG_VERSION")
            ));
        }
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }
}

/// What lies at a place: the job's newest marker, if there is one; the inner error says why it cannot be understood.
pub type MarkerFound = Option<Result<Marker, String>>;

/// The places in Kafka, `current` aside, whose markers may know of a checkpoint that the log does not have: those of every attempt that may
/// have committed since the log's newest commit. One that ended with its last checkpoint has told the log everything.
///
/// # Errors
/// One of them cannot be asked from where the job commits now.
pub(super) fn unresolved(
    job: &str,
    log: &Log,
    manifests: &[Seen],
    current: &CommitPoint,
) -> Result<Vec<KafkaPoint>, Refusal> {
    let mut points: Vec<KafkaPoint> = Vec::new();
    for claim in claims_in_question(log, manifests) {
        let Some(point) = claim.kafka() else {
            continue;
        };
        match current {
            CommitPoint::Kafka(now) if now == point => {}
            CommitPoint::Kafka(now) if now.recreated(point) => {
                return Err(Refusal::CommitTopicRecreated {
                    job: job.to_owned(),
                    topic: now.topic.clone(),
                    was: point.topic_id.clone(),
                    is: now.topic_id.clone(),
                });
            }
            CommitPoint::Kafka(now) if now.cluster == point.cluster => {
                if !points.contains(point) {
                    points.push(point.clone());
                }
            }
            _ => {
                return Err(Refusal::CommitPointElsewhere {
                    job: job.to_owned(),
                    was: point.to_string(),
                    is: current.to_string(),
                });
            }
        }
    }
    Ok(points)
}

/// An attempt that commits elsewhere than the newest commit was made notes that in the log before its first checkpoint, and one that begins a
/// lineage stores its manifest before it commits its marker. So a claim after which neither is there has committed nothing, whatever
/// came of it: a start with the wrong cluster, say, which must not stand in the way of the right one.
fn claims_in_question<'a>(
    log: &'a Log,
    manifests: &'a [Seen],
) -> impl Iterator<Item = &'a CommitPoint> {
    let newest = log.newest_commit_slot();
    let writer = newest.map_or(0, |slot| slot.entry.attempt());
    let here = of_newest_commit(log);
    let told_all = log.newest_commit().is_some_and(|commit| {
        // What was resolved by a later attempt says nothing of what that one did next.
        commit.attempt == writer && manifest_of(commit, manifests).is_some_and(|it| it.last)
    });
    let begins = |attempt| {
        let mut ids = manifests.iter().map(|seen| seen.id);
        ids.any(|id| (id.n, id.attempt) == (0, attempt))
    };
    log.claims()
        .filter(move |(attempt, point)| {
            let since = *attempt > writer || (*attempt == writer && !told_all);
            since && (here == Some(*point) || begins(*attempt))
        })
        .map(|(_, point)| point)
}

fn manifest_of<'a>(commit: &Commit, manifests: &'a [Seen]) -> Option<&'a Manifest> {
    manifests
        .iter()
        .filter_map(|seen| seen.contents.as_ref().ok())
        .find(|(manifest, digest)| {
            *digest == commit.manifest
                && (manifest.n, manifest.attempt) == (commit.n, commit.attempt)
                && manifest.lineage == commit.lineage
        })
        .map(|(manifest, _)| manifest)
}

/// Where the marker of the log's newest commit is, or [`CommitPoint::Storage`].
pub(super) fn of_newest_commit(log: &Log) -> Option<&CommitPoint> {
    match &log.newest_commit_slot()?.entry {
        Entry::Resolved { commit_point, .. } => Some(commit_point),
        Entry::Commit(Commit { attempt: by, .. }) | Entry::Claim { attempt: by, .. } => log
            .claims()
            .find(|(attempt, _)| attempt == by)
            .map(|(_, point)| point),
    }
}

/// What a marker says beside the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// The log has the newest commit.
    LogIsRight,
    /// This checkpoint happened, as the marker there says, and the log does not have it yet.
    Ahead(Commit, KafkaPoint),
}

/// What is known when markers are compared with the log.
pub(super) struct Question<'a> {
    pub(super) job: &'a str,
    pub(super) storage: &'a str,
    pub(super) log: &'a Log,
    pub(super) manifests: &'a [Seen],
    /// Whether a new lineage is to begin, whatever there is.
    pub(super) fresh: bool,
    /// Whether output may be written a second time.
    pub(super) accept_duplicates: bool,
}

/// Compares what was found `at` a place with the log. The marker and the log are written one after the other, so a crash leaves them at most one
/// checkpoint apart; anything else was done by hands.
///
/// # Errors
/// The two do not fit together.
pub(super) fn settle(
    question: &Question<'_>,
    at: &KafkaPoint,
    found: &MarkerFound,
) -> Result<Settled, Refusal> {
    let job = || question.job.to_owned();
    let storage = || question.storage.to_owned();
    let newest = question.log.newest_commit();
    let here = of_newest_commit(question.log).and_then(CommitPoint::kafka) == Some(at);
    if question.fresh && question.accept_duplicates {
        return Ok(Settled::LogIsRight);
    }
    let marker = match found {
        None if !question.fresh && here => {
            return Err(Refusal::MarkerGone {
                job: job(),
                n: newest.map_or(0, |commit| commit.n),
                place: at.to_string(),
            });
        }
        None => return Ok(Settled::LogIsRight),
        Some(Err(what)) => {
            return Err(Refusal::MarkerUnusable {
                job: job(),
                place: at.to_string(),
                what: what.clone(),
            });
        }
        Some(Ok(marker)) => marker,
    };
    if question.fresh {
        // Number 0 was committed before the first record: there is no output yet.
        return match marker.n {
            0 => Ok(Settled::LogIsRight),
            _ => Err(Refusal::FreshOverMarker {
                job: job(),
                n: marker.n,
                lineage: marker.lineage.clone(),
                place: at.to_string(),
            }),
        };
    }
    let commit = marker.commit();
    if newest == Some(&commit) {
        return Ok(Settled::LogIsRight);
    }
    let Some(newest) = newest else {
        return match manifest_of(&commit, question.manifests) {
            Some(manifest) if manifest.n == 0 => Ok(Settled::Ahead(commit, at.clone())),
            _ => Err(Refusal::NothingBesideMarker {
                job: job(),
                n: marker.n,
                lineage: marker.lineage.clone(),
                place: at.to_string(),
                storage: storage(),
            }),
        };
    };
    let manifest = manifest_of(&commit, question.manifests);
    if marker.lineage != newest.lineage {
        return match manifest {
            Some(manifest) if manifest.n == 0 && manifest.replaces.contains(&newest.lineage) => {
                Ok(Settled::Ahead(commit, at.clone()))
            }
            _ => Err(Refusal::ForeignMarker {
                place: at.to_string(),
                marker: marker.lineage.clone(),
                n: marker.n,
                storage: storage(),
                log: newest.lineage.clone(),
            }),
        };
    }
    if marker.n > newest.n {
        return match manifest {
            Some(manifest) if manifest.parent == Some(newest.n) => {
                Ok(Settled::Ahead(commit, at.clone()))
            }
            _ => Err(Refusal::LogRolledBack {
                storage: storage(),
                log: newest.n.to_string(),
                evidence: format!("the marker in {at} says checkpoint {}", marker.n),
            }),
        };
    }
    if !here {
        // The job committed here once, and elsewhere since.
        return Ok(Settled::LogIsRight);
    }
    Err(Refusal::MarkerRolledBack {
        place: at.to_string(),
        marker: marker.n,
        storage: storage(),
        log: newest.n,
    })
}
