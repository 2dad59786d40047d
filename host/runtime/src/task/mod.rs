//! Tasks: what a thread runs. One a source subtask ([`source`]), one a subtask of an operator chain ([`operator`]).
//!
//! A task is a plain loop around `step()`: take an element, carry it through the chain, pass on what comes out. It spawns nothing and
//! shares nothing but its channels, so that a test can drive it as well as a thread.

pub mod chain;
pub mod environment;
mod isolate;
pub mod node;
pub mod operator;
pub mod sink_node;
pub mod source;

use weir_operator::CallError;

use crate::channel::{Barrier, Closed};
use crate::checkpoint::OperatorSnapshot;
use crate::memory::Outgrown;
use crate::sink::Prepared;
use crate::source::SplitState;
use crate::{sink, source as connector};

/// What a task holds at a barrier or at its end: its part of a checkpoint, with state that is still to be stored.
#[derive(Default)]
pub struct Frozen {
    /// Sources with their splits' positions.
    pub sources: Vec<(String, Vec<SplitState>)>,
    /// Operators, with their state if they have any.
    pub operators: Vec<(OperatorSnapshot, Option<weir_state::Snapshot>)>,
    /// Sinks with what they staged since the last barrier and have open.
    pub sinks: Vec<(String, u16, Prepared)>,
}

/// What a thread runs.
pub trait Task {
    /// Does a bounded piece of work, or waits for some.
    ///
    /// # Errors
    /// See [`Error`]; the task is of no use after that.
    fn step(&mut self) -> Result<Step, Error>;
}

/// What a step of a task led to.
pub enum Step {
    /// Go on.
    Continue,
    /// All that the task held when it passed this barrier on.
    Snapshot(Barrier, Frozen),
    /// All input has ended; what the task holds finally.
    Ended(Frozen),
}

/// Why a task ended before its input did.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The attempt is being cancelled; not a failure of this task.
    #[error("cancelled")]
    Closed,
    /// A guest call failed.
    #[error("operator `{operator}` subtask {subtask}: {error}")]
    Call {
        /// The operator.
        operator: String,
        /// Its subtask.
        subtask: u16,
        /// Where the records of the call came from, if known.
        records: Option<String>,
        /// What happened.
        error: Box<CallError>,
    },
    /// State could not be read or written.
    #[error("operator `{operator}` subtask {subtask}: {error}")]
    State {
        /// The operator.
        operator: String,
        /// Its subtask.
        subtask: u16,
        /// What happened.
        error: weir_state::Error,
    },
    /// State does not fit into memory.
    #[error("operator `{operator}` subtask {subtask}: {outgrown}")]
    Memory {
        /// The operator.
        operator: String,
        /// Its subtask.
        subtask: u16,
        /// What it holds, and what it may.
        outgrown: Outgrown,
    },
    /// A record with a null key reached a keyed input.
    #[error("operator `{operator}`: a record without a key reached its keyed input")]
    NullKey {
        /// The operator.
        operator: String,
        /// Where the record came from, if known.
        record: Option<String>,
    },
    /// A source failed.
    #[error("source `{source_id}`: {error}")]
    Source {
        /// The source.
        source_id: String,
        /// What happened.
        error: connector::Error,
    },
    /// A sink failed.
    #[error("{error}")]
    Sink {
        /// The sink.
        sink: String,
        /// The record that could not be written, if it was one.
        record: Option<String>,
        /// What happened.
        error: Box<sink::Error>,
    },
    /// The task panicked: a fault of Weir.
    #[error("internal error: {0}")]
    Panic(String),
}

impl From<Closed> for Error {
    fn from(_: Closed) -> Self {
        Error::Closed
    }
}
