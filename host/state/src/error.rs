//! What can go wrong.

use std::io;

/// Why a call, a snapshot or a restore failed.
///
/// [`Budget`](Error::Budget) asks the caller to try a smaller batch;
/// [`TimerGenerations`](Error::TimerGenerations) is the operator's endless loop. What a restore
/// refuses names the file and, where two things differ, both. The rest, from
/// [`Misuse`](Error::Misuse) on, are faults of the host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What one call reads or writes at once, or one list, is beyond
    /// [`CALL_BUDGET`](crate::CALL_BUDGET).
    #[error("{what} is over the budget of {limit} bytes a call")]
    Budget {
        /// What outgrew it.
        what: &'static str,
        /// The budget in bytes.
        limit: usize,
    },
    /// A key's timers go on setting timers that are due in the same advance.
    #[error(
        "timer `{timer}` of key `{key}` was set by a chain of over {limit} timers that fired \
         within one advance; a timer that is set when one fires must come to lie in the future"
    )]
    TimerGenerations {
        /// The timer's name.
        timer: String,
        /// The key, escaped and cut at 64 bytes.
        key: String,
        /// [`MAX_TIMER_GENERATIONS`](crate::MAX_TIMER_GENERATIONS).
        limit: u32,
    },

    /// The snapshot file is damaged or was never whole.
    #[error("{file}: damaged at byte {offset}: {what}")]
    Corrupt {
        /// The file.
        file: String,
        /// Where the defect showed, in bytes from the start.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// The file was written in another format version.
    #[error(
        "{file}: snapshot format {found} is not supported, this build reads format {supported}"
    )]
    Format {
        /// The file.
        file: String,
        /// Its version.
        found: u32,
        /// The version that this build reads.
        supported: u32,
    },
    /// The snapshot is cut into another number of key groups.
    #[error(
        "{file}: the snapshot was taken with max parallelism {snapshot}, the job has {job}; \
         it is fixed for a job's life"
    )]
    MaxParallelism {
        /// The file.
        file: String,
        /// In the snapshot.
        snapshot: u16,
        /// In the job.
        job: u16,
    },
    /// The snapshot holds data of a state that the operator does not declare.
    #[error("{file}: holds data of state `{name}`, which the operator does not declare")]
    UnknownState {
        /// The file.
        file: String,
        /// The state.
        name: String,
    },
    /// The snapshot holds timers that the operator does not declare.
    #[error("{file}: holds timers `{name}`, which the operator does not declare")]
    UnknownTimer {
        /// The file.
        file: String,
        /// The timer.
        name: String,
    },
    /// A state changed its shape.
    #[error(
        "{file}: state `{name}` is of kind {snapshot} in the snapshot and {job} in the operator"
    )]
    StateKind {
        /// The file.
        file: String,
        /// The state.
        name: String,
        /// In the snapshot.
        snapshot: &'static str,
        /// In the operator.
        job: &'static str,
    },
    /// A state's values have another schema version.
    #[error(
        "{file}: state `{name}` has schema version {snapshot} in the snapshot \
         and {job} in the operator"
    )]
    StateVersion {
        /// The file.
        file: String,
        /// The state.
        name: String,
        /// In the snapshot.
        snapshot: u32,
        /// In the operator.
        job: u32,
    },
    /// A timer follows another clock.
    #[error("{file}: timer `{name}` is in {snapshot} in the snapshot and in {job} in the operator")]
    TimerDomain {
        /// The file.
        file: String,
        /// The timer.
        name: String,
        /// In the snapshot.
        snapshot: &'static str,
        /// In the operator.
        job: &'static str,
    },
    /// Two restores hold the same key group.
    #[error("{file}: key group {group} was already restored from another file")]
    Overlap {
        /// The second file.
        file: String,
        /// The group.
        group: u16,
    },
    /// The files of a restore do not belong together as one snapshot and those it builds on.
    #[error("{file}: {what}")]
    Chain {
        /// The file that shows it.
        file: String,
        /// What does not fit.
        what: String,
    },
    /// The snapshot file could not be read.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },

    /// A call out of order, such as a read before `begin`.
    #[error("state called out of order: {0}")]
    Misuse(&'static str),
    /// Lengths of the arguments disagree.
    #[error("{what}: {found} rows where {expected} are due")]
    Shape {
        /// The argument.
        what: &'static str,
        /// Its rows.
        found: usize,
        /// The rows it must have.
        expected: usize,
    },
    /// A key index beyond the call's dictionary.
    #[error("key index {index} in a call of {distinct} keys")]
    KeyIndex {
        /// The index.
        index: u32,
        /// The number of distinct keys.
        distinct: usize,
    },
    /// A state index that is not declared, or is of another kind than the operation.
    #[error("state {state} is not a declared state of kind {kind}")]
    NoSuchState {
        /// The index.
        state: u32,
        /// What the operation needs.
        kind: &'static str,
    },
    /// A timer index that is not declared.
    #[error("timer {timer} is not declared")]
    NoSuchTimer {
        /// The index.
        timer: u32,
    },
    /// A key was sent to a subtask that does not own its group.
    #[error(
        "key group {group} does not belong to this subtask, which owns groups {start} to {end} \
         (exclusive)"
    )]
    NotOwned {
        /// The group.
        group: u16,
        /// The first group owned.
        start: u16,
        /// One past the last group owned.
        end: u16,
    },
}
