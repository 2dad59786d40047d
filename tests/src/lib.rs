//! What the soak and the integration tests share: they run the real host as a process, with real components, kill it and look
//! at what it left.
//!
//! * [`host`] finds the binary and the components, starts processes, waits for them and ends them;
//! * [`place`] is the folder of one job: its file, its input, its output, its checkpoints, its logs;
//! * [`output`] is what a sink committed, and how two runs differ;
//! * [`folders`] are copied and removed whole;
//! * [`checkpoints`] reads a job's checkpoint storage as the operator of a job would, not as the host does;
//! * [`documents`] are the Markdown files of the repository, and a [`walkthrough`] does what one of them says;
//! * [`soak`] kills jobs over and over and compares;
//! * `kafka`, with the feature of that name, is a real broker.

pub mod checkpoints;
pub mod documents;
pub mod folders;
pub mod host;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod output;
pub mod place;
pub mod random;
pub mod reference;
pub mod soak;
pub mod walkthrough;

pub use host::guest;
