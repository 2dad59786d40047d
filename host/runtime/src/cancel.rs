//! Cancellation of an attempt, for what waits elsewhere than at a channel: for room in a producer's queue, for answers of a broker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether an attempt is being cancelled. Clones share one answer, and it never turns back to no.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks whoever waits to give up.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether to give up.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
