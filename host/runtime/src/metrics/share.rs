//! How much of its input a source subtask has read.

use std::sync::{Mutex, PoisonError};

/// How far a source subtask has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Read, and of how much in all, in the connector's unit; `None` where there is no end to tell of.
    pub share: Option<(u64, u64)>,
    /// Files read to their end, and files in all; `None` for a source that has none.
    pub files: Option<(u64, u64)>,
    /// Records between what was read and the end as far as is known; `None` where it is not.
    pub lag: Option<u64>,
}

/// The last [`Reading`] of a source subtask.
#[derive(Debug, Default)]
pub struct Share(Mutex<Reading>);

impl Share {
    /// The last one.
    pub fn get(&self) -> Reading {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces it.
    pub fn set(&self, reading: Reading) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = reading;
    }
}
