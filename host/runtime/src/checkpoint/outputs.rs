//! What the commit of a checkpoint asks of the sinks.

use std::io;
use std::path::PathBuf;

use crate::sink::StagedPart;

/// Where a staged part was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartFound {
    /// Under its staged name, with its length.
    Staged,
    /// Under its final name, with its length.
    Published,
    /// Under one of its names, with another length.
    Length {
        /// The length found.
        found: u64,
    },
    /// Under neither name.
    Missing,
}

/// What came of [`Outputs::adopt`]: the parts as they are staged now, or the one that is not there any more as it was committed.
pub type Adoption = Result<Vec<StagedPart>, StagedPart>;

/// The output directories of a job, as committing needs them.
///
/// Everything here is done again after a crash, and at times by two hosts at once (the one that was replaced does not know it
/// yet): each method is idempotent and takes "somebody else has just done it" as success.
pub trait Outputs: Send {
    /// Where `part` is. Must look under the staged name first and under the final name second: the other order misses a part
    /// that is renamed in between.
    ///
    /// # Errors
    /// It cannot be told. A directory that does not exist is [`PartFound::Missing`], not an error.
    fn look(&self, part: &StagedPart) -> io::Result<PartFound>;

    /// The length of `part` under its staged name, where it must be as long as it is open; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be told.
    fn length(&self, part: &StagedPart) -> io::Result<Option<u64>>;

    /// Takes over `open` parts of an earlier attempt for `attempt`: copies what is committed of each, and no more, to a staged name
    /// of `attempt`, durably. Says what they are called now; their final names stay. A copy, not a rename: the earlier attempt's
    /// writer may be frozen only, and what it writes when it wakes up must not reach what is committed from here on. The
    /// originals stay, for another recovery from the same checkpoint. Passes the fault point `mid-adoption` between two copies.
    ///
    /// # Errors
    /// Some may be copied; they are swept by the next attempt.
    fn adopt(&mut self, open: &[StagedPart], attempt: u64) -> io::Result<Adoption>;

    /// Makes `parts` visible: renames each to its final name, then fsyncs their directories. A part that is under its final name
    /// already is done. Passes the fault point `mid-renames` between two renames.
    ///
    /// # Errors
    /// Some may be visible; publishing all of them again finishes the work.
    fn publish(&mut self, parts: &[StagedPart]) -> io::Result<()>;

    /// Removes this job's staged files in `dirs` that attempts below `attempt` wrote and that are not in `keep`: what was staged
    /// for checkpoints that never happened. Called only after the claim of `attempt`, when no older one can commit any more.
    /// Files of `attempt` and of newer ones stay: the caller may have been replaced meanwhile without knowing, and the files of
    /// its successor are about to be committed. So staged names must carry the attempt. A directory that does not exist is fine.
    ///
    /// # Errors
    /// Some may remain.
    fn sweep(&mut self, dirs: &[PathBuf], keep: &[StagedPart], attempt: u64) -> io::Result<()>;
}
