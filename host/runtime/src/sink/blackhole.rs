//! Counts and drops.

use super::Written;
use crate::batch::Batch;

/// A writer that keeps nothing: for benchmarks, and for jobs that are run for their dead letters.
#[derive(Debug, Default)]
pub struct Blackhole {
    written: Written,
}

impl Blackhole {
    /// Drops the records of `batch`.
    pub fn write(&mut self, batch: &Batch) {
        self.written.records += batch.len() as u64;
        self.written.bytes += batch.values.data.len() as u64;
    }

    /// What was dropped so far.
    pub fn written(&self) -> Written {
        self.written
    }
}
