//! Checkpoints: what makes a killed job go on as if nothing had happened.
//!
//! The promise: an effect is committed once, whatever is killed when. It rests on one external act, which decides whether a checkpoint
//! happened: the creation of a slot in the [`log`] or, where output goes to Kafka, the commit of the transaction that carries it. Everything
//! before it is invisible, everything after it can be done again. The parts, from the pure to the edge:
//!
//! * [`coordinator`] decides what a running attempt does next (barrier, manifest, slot, publish): events in, actions out.
//! * [`recovery`] decides what a start does: steps out, answers in. It restores, starts fresh, or stops with a [`Refusal`].
//! * [`snapshot`], [`manifest`], [`log`] and [`witness`] are what is written: a task's part of a checkpoint, the file that
//!   names all parts, the decision, and the mark beside the output that notices when checkpoint storage went missing.
//! * [`commit_point`] compares what markers in Kafka say with the log; [`markers`] is what is asked of the client there.
//! * [`component`] keeps the operators' components with the checkpoints that were taken with them.
//! * [`storage`] is where it is written, durably and conditionally; [`ownership`] keeps a second process on this machine out.
//! * [`driver`] does what the two machines ask for.
//!
//! The rules that everything leans on:
//!
//! 1. Slots are created conditionally, in a dense sequence. An attempt first creates the next slot as its claim, so the slot
//!    that any older attempt would write next is taken: it can never commit again. Hence claims are never deleted.
//! 2. A claimant that was frozen can find a slot that was trimmed away in the meantime. So a claim counts only if afterwards
//!    no higher slot is there.
//! 3. What an attempt deletes is named with an attempt, and only its own or older ones are deleted: an attempt that wakes up
//!    after it was replaced cannot destroy what its successor wrote.
//! 4. Barrier N+1 comes only when N is confirmed *and* its output published, so at most one commit is unpublished.
//! 5. A marker is read only after the producers of all earlier attempts are fenced, and what it names is looked for only after it was read.
//! 6. Before anything is refused, the log is read again: if it moved, another host is alive and everything is looked at anew.

pub mod commit_point;
pub mod component;
pub mod coordinator;
pub mod driver;
pub mod log;
pub mod manifest;
pub mod markers;
pub mod outputs;
pub mod ownership;
pub mod recovery;
pub mod refusal;
mod retention;
pub mod snapshot;
pub mod state_file;
pub mod storage;
pub mod witness;

#[cfg(test)]
mod tests;

pub use commit_point::{CommitPoint, KafkaPoint, Marker};
pub use component::{ComponentEntry, ComponentFiles};
pub use coordinator::{Action, Coordinator, Event};
pub use driver::{Driver, KeptComponent, Recovered, Verdict, kept_component};
pub use manifest::{Lineage, Manifest, ManifestId};
pub use markers::{Markers, Standing};
pub use outputs::{Outputs, PartFound};
pub use ownership::Ownership;
pub use recovery::Options;
pub use refusal::Refusal;
pub use snapshot::{
    Digest, OperatorSnapshot, SinkSnapshot, SourceSnapshot, StoredFile, TaskSnapshot,
};
pub use state_file::{Label, StateFiles, StateReader, StateWriter};
pub use storage::{CheckpointStorage, LocalDirectory};
