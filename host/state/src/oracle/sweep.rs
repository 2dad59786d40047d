//! Cleaning up what has expired, a few rows after each call.

use std::ops::Bound;
use std::sync::Arc;

use super::Oracle;
use crate::stored_value::StoredValue;

/// Rows visited after a call, beyond two for each that it wrote; so the sweep overtakes any growth.
const STEP: usize = 32;

/// Where the sweep stands.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// Whether any row may expire at all.
    pub(super) needed: bool,
    slot: usize,
    /// The last row visited in the slot; empty at its start.
    after: Vec<u8>,
}

impl Oracle {
    /// Visits rows in turn and removes the expired ones. A group that a snapshot still shares is
    /// passed over, since removing would copy it.
    pub(super) fn sweep(&mut self, written: usize) {
        if !self.sweep.needed {
            return;
        }
        let mut steps = STEP + 2 * written;
        while steps > 0 {
            let now = self.processing_time;
            let Sweep { slot, after, .. } = &mut self.sweep;
            let mut visited = 0;
            let mut expired = Vec::new();
            if let Some(rows) = Arc::get_mut(&mut self.rows[*slot]) {
                let from = (Bound::Excluded(after.as_slice()), Bound::Unbounded);
                let mut last = None;
                for (key, value) in rows.range::<[u8], _>(from).take(steps) {
                    visited += 1;
                    last = Some(key);
                    if StoredValue::decode(value).is_some_and(|value| !value.is_live(now)) {
                        expired.push(key.clone());
                    }
                }
                if let Some(last) = last {
                    let last = last.clone();
                    *after = last;
                }
            }
            if visited < steps {
                *slot = (*slot + 1) % self.rows.len();
                after.clear();
            }
            // Going on to the next group is a step too, or a call would walk through all of many
            // empty groups.
            steps = steps.saturating_sub(visited + 1);
            for key in expired {
                self.remove(&key);
            }
        }
    }
}
