//! What an attempt may delete: pure functions.
//!
//! An attempt deletes what it or an older one wrote, and of its own only what belongs to checkpoints up to the last confirmed one. So a
//! checkpoint in flight is untouched, and an attempt that was replaced without knowing it can destroy nothing of its successor's.

use std::collections::BTreeSet;

use super::component::ComponentName;
use super::log::Log;
use super::manifest::ManifestId;
use super::state_file::{Label, StateName};

/// What is kept once a checkpoint is confirmed.
#[derive(Clone, Debug)]
pub(super) struct Retention {
    retained: BTreeSet<ManifestId>,
    attempt: u64,
    confirmed: u64,
}

impl Retention {
    /// For `attempt`, which confirmed `confirmed` and knows `log`.
    pub(super) fn new(log: &Log, attempt: u64, confirmed: u64) -> Retention {
        let retained = log.commits().map(|(_, commit)| ManifestId {
            n: commit.n,
            attempt: commit.attempt,
        });
        Retention {
            retained: retained.collect(),
            attempt,
            confirmed,
        }
    }

    fn is_over(&self, n: u64, attempt: u64) -> bool {
        attempt < self.attempt || (attempt == self.attempt && n <= self.confirmed)
    }

    /// Whether a manifest may be deleted.
    pub(super) fn collects_manifest(&self, id: ManifestId) -> bool {
        self.is_over(id.n, id.attempt) && !self.retained.contains(&id)
    }

    /// Whether a component may be deleted if no retained manifest names it: every manifest that its attempt is still going to write
    /// does.
    pub(super) fn collects_component(&self, name: &ComponentName) -> bool {
        name.attempt < self.attempt
    }

    /// Whether a state file may be deleted if no retained manifest names it.
    pub(super) fn collects_file(&self, name: &StateName) -> bool {
        match name.label {
            Label::Barrier(n) => self.is_over(n, name.attempt),
            // Named by every manifest that its attempt is still going to write.
            Label::End => name.attempt < self.attempt,
        }
    }
}
