//! What is counted and measured while a job runs, for the summary, `weir status` and `/metrics`.
//!
//! A node's subtask has [`Counters`], a task (a thread) a [`TaskMeter`] with its [`Waits`], an attempt [`Meters`]. All are written by
//! the task's own thread, once a batch or once a wait and never once a record, and read by anybody at any time without stopping it.

mod counters;
mod meters;
mod origins;
mod share;
mod waits;

pub use counters::Counters;
pub use meters::{Kind, Meters, NodeMeter, Phase, TaskMeter};
pub use origins::Origins;
pub use share::{Reading, Share};
pub use waits::{Spent, Waiting, Waits};
