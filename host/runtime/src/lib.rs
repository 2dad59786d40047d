//! Weir runs stateful stream jobs whose operators are WebAssembly components.
//!
//! A job file names sources, operators and sinks; [`job`] reads and checks it, [`graph`] plans it, [`run`] runs it: in attempts
//! ([`attempt`]) whose tasks ([`task`]) talk over [`channel`]s, under a [`checkpoint`] coordinator, until the input ends. What a
//! task does with a barrier or a watermark is decided by pure state machines ([`align`], [`watermark`]); so is what a checkpoint or
//! a recovery does next. `docs/architecture.md` has the picture.

pub mod align;
pub mod attempt;
pub mod batch;
pub mod cancel;
pub mod channel;
pub mod checkpoint;
pub mod cli;
pub mod clock;
pub mod config_schema;
pub mod control;
pub mod decode;
pub mod diagnostic;
pub mod exchange;
pub mod fault_point;
pub mod graph;
pub mod headers;
pub mod job;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod log;
pub mod memory;
pub mod metrics;
pub mod progress;
pub mod restart;
pub mod run;
pub mod signals;
pub mod sink;
pub mod source;
pub mod stages;
pub mod start;
pub mod task;
pub mod units;
pub mod watermark;
