//! What recovery asks for, what it is told, and what comes of it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::checkpoint::commit_point::{KafkaPoint, Marker, MarkerFound};
use crate::checkpoint::log::{self, Log, Slot};
use crate::checkpoint::manifest::{self, Lineage, Manifest, ManifestId};
use crate::checkpoint::outputs::{Adoption, PartFound};
use crate::checkpoint::snapshot::{Digest, StoredFile};
use crate::checkpoint::witness::Witness;
use crate::sink::StagedPart;

/// Whose checkpoint storage this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// `job.json` is not there.
    Nobody,
    /// A job.
    Job(String),
    /// It cannot be understood.
    Unusable(String),
}

/// A manifest as found.
#[derive(Clone)]
pub struct Seen {
    /// Its name.
    pub id: ManifestId,
    /// Its contents and digest.
    pub contents: Result<(Manifest, Digest), manifest::Defect>,
}

/// Name and digest only: the contents may be large.
impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.contents {
            Ok((_, digest)) => write!(f, "{} {digest}", self.id),
            Err(defect) => write!(f, "{} {defect:?}", self.id),
        }
    }
}

/// What to do next.
#[derive(Clone, Debug)]
pub enum Step {
    /// Read the log: [`Answer::Log`].
    ReadLog,
    /// Read all manifests: [`Answer::Manifests`]. One that vanishes in between is left out.
    ReadManifests,
    /// Read `job.json`: [`Answer::Owner`].
    ReadOwner,
    /// Read the witnesses in these directories: [`Answer::Witnesses`].
    ReadWitnesses(Vec<PathBuf>),
    /// Ask for lengths of state files, whereabouts of staged parts and lengths of open ones: [`Answer::Looked`].
    Look {
        /// State files.
        files: Vec<StoredFile>,
        /// Parts that may not be published yet.
        parts: Vec<StagedPart>,
        /// Parts that were open.
        open: Vec<StagedPart>,
    },
    /// Create `job.json` for this job if nobody has one: [`Answer::Done`].
    Own,
    /// Create this slot: [`Answer::Done`] or [`Answer::Taken`].
    Claim(Slot),
    /// Say which is the highest slot: [`Answer::Highest`].
    CheckTail,
    /// Look at the marker at this place, without waiting for transactions that are open: [`Answer::Markers`].
    Peek(KafkaPoint),
    /// End what earlier attempts may have open at these places, so that nothing of theirs can be committed any more: [`Answer::Done`] or
    /// [`Answer::Fenced`].
    Fence(Vec<KafkaPoint>),
    /// Read the markers at these places: [`Answer::Markers`].
    ReadMarkers(Vec<KafkaPoint>),
    /// Create this slot, which tells the log what a marker knows: [`Answer::Done`] or [`Answer::Taken`].
    Resolve(Slot),
    /// Commit this marker: [`Answer::Done`] or [`Answer::Fenced`].
    WriteMarker(Marker),
    /// List manifests by name: [`Answer::Ids`].
    ListManifests,
    /// Delete these: [`Answer::Done`].
    DeleteManifests(Vec<ManifestId>),
    /// Create this manifest: [`Answer::Stored`].
    StoreManifest(Box<Manifest>),
    /// Create this slot, which starts a lineage: [`Answer::Done`] or [`Answer::Taken`].
    CommitMarker(Slot),
    /// Make these parts visible: [`Answer::Done`].
    Publish(Vec<StagedPart>),
    /// Remove what attempts below `attempt` left unfinished in checkpoint storage, and staged in `dirs` except `keep`:
    /// [`Answer::Done`].
    Sweep {
        /// Output directories.
        dirs: Vec<PathBuf>,
        /// What stays.
        keep: Vec<StagedPart>,
        /// This attempt.
        attempt: u64,
    },
    /// Take over these open parts for `attempt`: [`Answer::Adopted`].
    Adopt {
        /// The parts, as far as they are committed.
        open: Vec<StagedPart>,
        /// This attempt.
        attempt: u64,
    },
    /// Write this witness into all `dirs`: [`Answer::Done`] or [`Answer::TakenOver`].
    WriteWitnesses {
        /// Output directories.
        dirs: Vec<PathBuf>,
        /// The witness.
        witness: Witness,
    },
    /// The end: go on from here.
    Done(Box<Outcome>),
    /// The end: stop. Taken out with [`super::Recovery::into_refusal`].
    Refuse,
}

/// What came of a step.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Of [`Step::ReadOwner`].
    Owner(Owner),
    /// Of [`Step::ReadLog`].
    Log(Result<Log, log::Defect>),
    /// Of [`Step::ReadManifests`].
    Manifests(Vec<Seen>),
    /// Of [`Step::ReadWitnesses`]; the inner error says what is wrong with one.
    Witnesses(BTreeMap<PathBuf, Option<Result<Witness, String>>>),
    /// Of [`Step::Look`], in the order asked; `None` where a file is missing.
    Looked {
        /// Lengths.
        files: Vec<Option<u64>>,
        /// Whereabouts.
        parts: Vec<PartFound>,
        /// Lengths; `None` where a part is missing.
        open: Vec<Option<u64>>,
    },
    /// Of [`Step::Adopt`].
    Adopted(Adoption),
    /// It is done.
    Done,
    /// Something was there already.
    Taken,
    /// Of [`Step::CheckTail`]; `None` if there is no slot.
    Highest(Option<u64>),
    /// Of [`Step::Peek`] and [`Step::ReadMarkers`], one a place.
    Markers(Vec<MarkerFound>),
    /// Another instance of our producers has begun.
    Fenced,
    /// Of [`Step::ListManifests`].
    Ids(Vec<ManifestId>),
    /// Of [`Step::StoreManifest`].
    Stored(Digest),
    /// A newer attempt's witness is there.
    TakenOver {
        /// The attempt.
        by: u64,
    },
}

/// Where the job goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// This attempt. For a finished job that needed nothing: the newest one seen.
    pub attempt: u64,
    /// The history that goes on.
    pub lineage: Lineage,
    /// The first number that was never used.
    pub next_n: u64,
    /// What to restore; `None` if the job starts from the beginning of its inputs.
    pub manifest: Option<Manifest>,
    /// Whether the job finished before, so that nothing is to be done.
    pub finished: bool,
    /// Committed output that is still to be made visible, with this attempt's first checkpoint: what was taken over of open parts.
    pub carried: Vec<StagedPart>,
}
