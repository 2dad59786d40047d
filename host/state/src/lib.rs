//! Keyed state, timers and snapshots of one operator subtask.
//!
//! An operator keeps nothing itself: whatever it must remember lies here, behind [`KeyedState`], so
//! that its code can be stopped, replaced, moved and rescaled without being asked. The crate is
//! pure: no threads, no clock, no files. Processing time comes in as an argument, snapshots go to a
//! [`Write`](std::io::Write) and come from a [`Read`](std::io::Read).
//!
//! * [`hash`] decides which key group a key belongs to and which subtask owns the group.
//! * [`keyed_state`] is the contract: a call's life, what reads see, which timers fire when.
//! * [`Memory`] is the implementation that jobs run on: keys interned into slots of a cache line, one
//!   probe a record, and snapshots in steps.
//! * [`Oracle`] is the implementation over ordered maps of stored keys: slow beside it, and simple
//!   enough to be the judge of any other.
//! * [`stored_key`], [`stored_value`] and [`snapshot`] are the formats on disk. Their bytes outlive
//!   this code: tags are permanent, and a golden file in the tests holds them to it.
//!
//! Every implementation passes one conformance suite, random operations against a naive model among
//! it.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod column;
mod dictionary;
mod error;
pub mod hash;
pub mod keyed_state;
mod memory;
mod merge;
mod oracle;
mod schema;
pub mod snapshot;
pub mod stored_key;
pub mod stored_value;
mod timers;

#[cfg(test)]
mod conformance;

pub use column::{Column, ColumnRef, Nullable, NullableRef};
pub use error::Error;
pub use hash::GroupRange;
pub use keyed_state::{
    CALL_BUDGET, Cells, Firing, ItemLists, KeyDictionary, KeyedState, MAX_TIMER_GENERATIONS, Page,
    Progress, Stats,
};
pub use memory::Memory;
pub use oracle::Oracle;
pub use schema::{Schema, StateKind, StateSpec, TimeDomain, TimerSpec, Ttl};
pub use snapshot::{RestoreFile, RestoreSummary, Snapshot, SnapshotSummary};
