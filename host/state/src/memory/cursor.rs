//! Going through all that is held, a step at a time.

use super::annex::{Within, walk_cells};
use super::store::{SlotId, Store};

/// A place in the order of pages, slots and rows of a group.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    page: usize,
    offset: usize,
    pub(super) within: Within,
}

impl Cursor {
    /// The slot that it stands on, behind the ends of pages; `None` at the end of the group.
    pub(super) fn slot(&mut self, store: &Store, group: usize) -> Option<SlotId> {
        loop {
            let (first, slots) = store.page(group, self.page)?;
            if self.offset < slots {
                return Some(first + self.offset as u32);
            }
            (self.page, self.offset) = (self.page + 1, 0);
        }
    }

    /// On to the next slot.
    pub(super) fn step(&mut self) {
        self.offset += 1;
    }
}

/// How far the sweep has come.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    group: usize,
    cursor: Cursor,
}

impl Sweep {
    fn slot(&mut self, store: &Store) -> Option<SlotId> {
        while self.group < store.groups() {
            if let Some(id) = self.cursor.slot(store, self.group) {
                return Some(id);
            }
            *self = Sweep {
                group: self.group + 1,
                cursor: Cursor::default(),
            };
        }
        None
    }
}

impl Store {
    /// Visits about `steps` rows, round and round, and removes those that `is_expired`.
    pub(super) fn sweep(&mut self, steps: usize, is_expired: impl Fn(i64) -> bool) {
        let mut sweep = std::mem::take(&mut self.sweep);
        let mut visited = 0;
        let mut again = false;
        while visited < steps {
            let Some(id) = sweep.slot(self) else {
                // Round once at most: there may be nothing at all.
                if std::mem::replace(&mut again, true) {
                    break;
                }
                sweep = Sweep::default();
                continue;
            };
            visited += 1;
            let within = std::mem::take(&mut sweep.cursor.within);
            let first = self.first(id).and_then(|(_, expiry)| expiry);
            if first.is_some_and(&is_expired) {
                self.clear_first(id);
            }
            let within = if self.slot(id).annex == 0 {
                Within::Timers(None)
            } else {
                let mut parts = self.parts(id);
                let mut expired = Vec::new();
                let within = walk_cells(
                    parts.cells,
                    within,
                    steps,
                    &mut visited,
                    |cell, _, suffix, row| {
                        if row.expiry.is_some_and(&is_expired) {
                            expired.push((cell.to_vec(), suffix.to_vec()));
                        }
                    },
                );
                for (cell, suffix) in &expired {
                    parts.remove_row(cell, suffix);
                }
                if !expired.is_empty() {
                    self.removed(id);
                }
                within
            };
            match within {
                Within::Timers(_) => sweep.cursor.step(),
                within => sweep.cursor.within = within,
            }
        }
        self.sweep = sweep;
    }
}
