//! Why a job does not start: each names both sides and the remedy.

use std::path::PathBuf;

use super::log;
use super::manifest::{self, Lineage, ManifestId};

/// A refused start. Displayed as the message without `error[code]: `, further lines indented by two.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another process on this machine holds the lock.
    #[error(
        "job `{job}` runs already: {owner} holds {}\n  help: stop that process first; two never run at once",
        dir.display()
    )]
    OwnedElsewhere {
        /// The job that was to start.
        job: String,
        /// The locked directory.
        dir: PathBuf,
        /// What the lock file says.
        owner: String,
    },
    /// A newer attempt is in the log.
    #[error(
        "attempt {by} on another host has taken job `{job}` over\n  help: this host stops; nothing of it was committed after that"
    )]
    TakenOver {
        /// The job.
        job: String,
        /// The newer attempt.
        by: u64,
    },
    /// Committed output, and nothing in checkpoint storage.
    #[error(
        "refusing to start from nothing: job `{job}` has committed checkpoint {n}\n  lineage {lineage} in {}; {storage} is empty. Is the volume mounted?\n  help: restore the directory, or `--fresh --accept-duplicates`",
        dir.display()
    )]
    EmptyBesideOutput {
        /// The job.
        job: String,
        /// What the witness says.
        n: u64,
        /// Its history.
        lineage: Lineage,
        /// The output directory.
        dir: PathBuf,
        /// Checkpoint storage.
        storage: String,
    },
    /// Checkpoint storage ends before something that exists.
    #[error(
        "{storage} was rolled back: its commit log ends at checkpoint {log}, but {evidence}\n  help: restore the newer state of the directory, or `--fresh --accept-duplicates`"
    )]
    LogRolledBack {
        /// Checkpoint storage.
        storage: String,
        /// The newest commit in the log, or `nothing`.
        log: String,
        /// What is newer, and where.
        evidence: String,
    },
    /// The output is older than what was committed to it.
    #[error(
        "output in {} was rolled back: its witness says checkpoint {witness}, but checkpoint {log} is committed\n  help: restore the directory, or start over with `--fresh --accept-duplicates`",
        dir.display()
    )]
    OutputRolledBack {
        /// The output directory.
        dir: PathBuf,
        /// What the witness says.
        witness: u64,
        /// The newest commit.
        log: u64,
    },
    /// The witness is gone.
    #[error(
        "output in {} is gone: checkpoint {log} was committed to it, but `{witness}` is not there. Is the volume mounted?\n  help: restore the directory, or move the output away and start over with `--fresh`",
        dir.display()
    )]
    OutputGone {
        /// The output directory.
        dir: PathBuf,
        /// The name of the witness.
        witness: String,
        /// The newest commit.
        log: u64,
    },
    /// A committed part is in neither place, or is not what was staged.
    #[error(
        "part `{name}` of committed checkpoint {n} cannot be published: {found}\n  neither {staged} nor the final name in {} has its {bytes} bytes\n  help: restore the directory, or start over with `--fresh --accept-duplicates`",
        dir.display()
    )]
    PartMissing {
        /// The checkpoint.
        n: u64,
        /// The output directory.
        dir: PathBuf,
        /// Its final name.
        name: String,
        /// Its staged name.
        staged: String,
        /// Its length.
        bytes: u64,
        /// What was found instead.
        found: String,
    },
    /// A part that went on beyond the committed checkpoint is missing or shorter than it was there.
    #[error(
        "{dir}/{staged} holds committed output of checkpoint {n} and {found}; its first {bytes} bytes are needed\n  help: restore the directory, or start over with `--fresh --accept-duplicates`",
        dir = dir.display()
    )]
    OpenPart {
        /// The checkpoint.
        n: u64,
        /// The output directory.
        dir: PathBuf,
        /// Its staged name.
        staged: String,
        /// How much of it the checkpoint committed.
        bytes: u64,
        /// What was found instead.
        found: String,
    },
    /// The log names a manifest that is not there.
    #[error(
        "manifest {id} of committed checkpoint {} is missing in {storage}\n  help: restore the directory, or start over with `--fresh --accept-duplicates`",
        id.n
    )]
    ManifestMissing {
        /// Checkpoint storage.
        storage: String,
        /// Its name.
        id: ManifestId,
    },
    /// A manifest that cannot be used.
    #[error(
        "manifest {id} in {storage} cannot be used: {defect}\n  help: restore the directory, or start over with `--fresh --accept-duplicates`"
    )]
    ManifestUnusable {
        /// Checkpoint storage.
        storage: String,
        /// Its name.
        id: ManifestId,
        /// What is wrong with it.
        defect: manifest::Defect,
    },
    /// The log itself is damaged.
    #[error(
        "the commit log in {storage} is damaged: {defect}\n  help: restore the directory; or move it away and start over with `--fresh --accept-duplicates`"
    )]
    Log {
        /// Checkpoint storage.
        storage: String,
        /// What is wrong with it.
        defect: log::Defect,
    },
    /// Some of checkpoint storage is gone.
    #[error(
        "{storage} is half deleted: {what}\n  help: restore the directory; or move it away and start over with `--fresh --accept-duplicates`"
    )]
    HalfDeleted {
        /// Checkpoint storage.
        storage: String,
        /// What is there and what is not.
        what: String,
    },
    /// Checkpoint storage of another job.
    #[error(
        "{storage} holds the checkpoints of job `{owner}`, not of `{job}`\n  help: give `{job}` its own `checkpoint.dir`, or name the job `{owner}` again"
    )]
    ForeignJob {
        /// Checkpoint storage.
        storage: String,
        /// Whose it is.
        owner: String,
        /// The job that was to start.
        job: String,
    },
    /// `job.json` cannot be understood.
    #[error("`job.json` in {storage} cannot be used: {what}\n  help: restore the directory")]
    Owner {
        /// Checkpoint storage.
        storage: String,
        /// What is wrong with it.
        what: String,
    },
    /// Output of another history.
    #[error(
        "output in {} belongs to lineage {output} (checkpoint {n}), but {storage} holds lineage {log}\n  help: restore the pair that belongs together, or `--fresh --accept-duplicates`",
        dir.display()
    )]
    ForeignLineage {
        /// The output directory.
        dir: PathBuf,
        /// The witness's history.
        output: Lineage,
        /// How far it was committed.
        n: u64,
        /// Checkpoint storage.
        storage: String,
        /// The log's history.
        log: Lineage,
    },
    /// A witness that cannot be understood.
    #[error(
        "the witness `{witness}` in {} cannot be used: {what}\n  help: restore it; or move the output away and start over with `--fresh`",
        dir.display()
    )]
    Witness {
        /// The output directory.
        dir: PathBuf,
        /// Its name.
        witness: String,
        /// What is wrong with it.
        what: String,
    },
    /// `--fresh` beside committed output.
    #[error(
        "refusing `--fresh`: job `{job}` has committed output up to checkpoint {n}\n  lineage {lineage} in {}; starting over would write it a second time\n  help: move the output away, or add `--accept-duplicates`",
        dir.display()
    )]
    FreshOverOutput {
        /// The job.
        job: String,
        /// How far it was committed.
        n: u64,
        /// Its history.
        lineage: Lineage,
        /// The output directory.
        dir: PathBuf,
    },
    /// The number of key groups differs.
    #[error(
        "`max_parallelism` is {job}, but checkpoint {n} was taken with {checkpoint}, which is fixed for a job's life\n  help: set `max_parallelism: {checkpoint}`, or move the output away and start over with `--fresh`"
    )]
    MaxParallelism {
        /// The checkpoint.
        n: u64,
        /// Its number.
        checkpoint: u16,
        /// The job's number.
        job: u16,
    },
    /// A state file is gone or has another length.
    #[error(
        "state file `state/{name}` of checkpoint {n} in {storage} {found}; it has {bytes} bytes\n  help: restore the directory, or start over with `--fresh --accept-duplicates`"
    )]
    StateFile {
        /// Checkpoint storage.
        storage: String,
        /// The checkpoint.
        n: u64,
        /// The file.
        name: String,
        /// The length it has in the manifest.
        bytes: u64,
        /// What was found: `is missing`, `has 12 bytes`.
        found: String,
    },
    /// A marker, and nothing in checkpoint storage.
    #[error(
        "refusing to start from nothing: job `{job}` has committed checkpoint {n}\n  lineage {lineage} in {place}; {storage} does not have it. Is the volume mounted?\n  help: restore the directory, or `--fresh --accept-duplicates`"
    )]
    NothingBesideMarker {
        /// The job.
        job: String,
        /// What the marker says.
        n: u64,
        /// Its history.
        lineage: Lineage,
        /// Where it lies.
        place: String,
        /// Checkpoint storage.
        storage: String,
    },
    /// The log has commits whose marker is not there.
    #[error(
        "the marker of job `{job}` is gone: checkpoint {n} was committed in {place}, and nothing of the job is there\n  were records deleted from the commit topic, or is it not compacted?\n  help: restore the topic, or start over with `--fresh --accept-duplicates`"
    )]
    MarkerGone {
        /// The job.
        job: String,
        /// The newest commit in the log.
        n: u64,
        /// Where the marker should be.
        place: String,
    },
    /// The marker is older than the log.
    #[error(
        "the commit topic lost records: the marker in {place} says checkpoint {marker}, but {storage} has checkpoint {log} as committed\n  did a broker lose data (unclean leader election)? Output after checkpoint {marker} may be lost too\n  help: look at what is missing in the output, then start over with `--fresh --accept-duplicates`"
    )]
    MarkerRolledBack {
        /// Where the marker lies.
        place: String,
        /// What it says.
        marker: u64,
        /// Checkpoint storage.
        storage: String,
        /// The newest commit in the log.
        log: u64,
    },
    /// The marker of another history.
    #[error(
        "the marker in {place} belongs to lineage {marker} (checkpoint {n}), but {storage} holds lineage {log}\n  help: restore the checkpoints that belong to it, or `--fresh --accept-duplicates`"
    )]
    ForeignMarker {
        /// Where the marker lies.
        place: String,
        /// Its history.
        marker: Lineage,
        /// Its checkpoint.
        n: u64,
        /// Checkpoint storage.
        storage: String,
        /// The log's history.
        log: Lineage,
    },
    /// A marker that cannot be understood.
    #[error(
        "the marker of job `{job}` in {place} cannot be used: {what}\n  help: run the release that wrote it; or start over with `--fresh --accept-duplicates`"
    )]
    MarkerUnusable {
        /// The job.
        job: String,
        /// Where it lies.
        place: String,
        /// What is wrong with it.
        what: String,
    },
    /// The commit topic was created again.
    #[error(
        "commit topic `{topic}` was deleted and created again (id {was}, now {is}), and with it the marker of job `{job}`\n  whether the last attempt committed one more checkpoint can no longer be known\n  help: start over with `--fresh --accept-duplicates`"
    )]
    CommitTopicRecreated {
        /// The job.
        job: String,
        /// The topic.
        topic: String,
        /// Its id in the log.
        was: String,
        /// Its id now.
        is: String,
    },
    /// The last attempt committed where this job file does not lead.
    #[error(
        "the last attempt of job `{job}` committed in {was} and did not end by itself, so only that place knows its last checkpoint; this job file commits in {is}\n  help: run the job with its Kafka sink as it was until it is up, end it with `weir stop`, then change it"
    )]
    CommitPointElsewhere {
        /// The job.
        job: String,
        /// Where it committed.
        was: String,
        /// Where it would now.
        is: String,
    },
    /// An output topic was created again.
    #[error(
        "topic `{topic}` of sink `{sink}` is not the one that checkpoint {n} was written to: then it was {was}, now it is {is}\n  what was committed to the old one is not in the new one\n  help: point the sink to the old topic again, or start over with `--fresh --accept-duplicates`"
    )]
    TopicRecreated {
        /// The sink.
        sink: String,
        /// The topic.
        topic: String,
        /// The checkpoint.
        n: u64,
        /// Its id and cluster then.
        was: String,
        /// Its id and cluster now.
        is: String,
    },
    /// `--fresh` beside committed output in Kafka.
    #[error(
        "refusing `--fresh`: job `{job}` has committed output to Kafka up to checkpoint {n}\n  lineage {lineage} in {place}; starting over would write it a second time\n  help: give the job another name and other topics, or add `--accept-duplicates`"
    )]
    FreshOverMarker {
        /// The job.
        job: String,
        /// How far it was committed.
        n: u64,
        /// Its history.
        lineage: Lineage,
        /// Where that is recorded.
        place: String,
    },
    /// The place in Kafka where commits are decided does not answer, or does not let us.
    #[error("{what}: {why}")]
    CommitPoint {
        /// What was tried, and where.
        what: String,
        /// The cause; of what is not permitted, also what grants it.
        why: String,
        /// Whether trying again may help.
        may_pass: bool,
    },
    /// Storage or output cannot be read or written.
    #[error("{what}: {error}")]
    Storage {
        /// What was tried, and where.
        what: String,
        /// The cause.
        error: String,
    },
}

impl Refusal {
    /// Its permanent code.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::OwnedElsewhere { .. } => "W0501",
            Refusal::TakenOver { .. } => "W0502",
            Refusal::EmptyBesideOutput { .. } | Refusal::NothingBesideMarker { .. } => "W0503",
            Refusal::LogRolledBack { .. } => "W0504",
            Refusal::OutputRolledBack { .. } => "W0505",
            Refusal::OutputGone { .. } => "W0506",
            Refusal::PartMissing { .. } | Refusal::OpenPart { .. } => "W0507",
            Refusal::ManifestMissing { .. } => "W0508",
            Refusal::ManifestUnusable { .. } => "W0509",
            Refusal::Log { .. } => "W0510",
            Refusal::HalfDeleted { .. } => "W0511",
            Refusal::ForeignJob { .. } => "W0512",
            Refusal::Owner { .. } => "W0513",
            Refusal::ForeignLineage { .. } | Refusal::ForeignMarker { .. } => "W0514",
            Refusal::Witness { .. } => "W0515",
            Refusal::FreshOverOutput { .. } | Refusal::FreshOverMarker { .. } => "W0516",
            Refusal::MaxParallelism { .. } => "W0517",
            Refusal::StateFile { .. } => "W0518",
            Refusal::Storage { .. } => "W0519",
            Refusal::MarkerGone { .. } => "W0531",
            Refusal::MarkerRolledBack { .. } => "W0532",
            Refusal::MarkerUnusable { .. } => "W0533",
            Refusal::CommitTopicRecreated { .. } => "W0534",
            Refusal::CommitPointElsewhere { .. } => "W0535",
            Refusal::TopicRecreated { .. } => "W0536",
            Refusal::CommitPoint {
                may_pass: false, ..
            } => "W0902",
            Refusal::CommitPoint { may_pass: true, .. } => "W0905",
        }
    }

    /// What the process exits with: 4 owned elsewhere or taken over, 75 storage or Kafka unavailable, else 3 start refused.
    pub fn exit_code(&self) -> u8 {
        match self {
            Refusal::OwnedElsewhere { .. } | Refusal::TakenOver { .. } => 4,
            Refusal::Storage { .. } | Refusal::CommitPoint { may_pass: true, .. } => 75,
            _ => 3,
        }
    }

    /// Whether trying again is pointless: everything but storage or Kafka that cannot be reached.
    pub fn permanent(&self) -> bool {
        self.exit_code() != 75
    }
}
