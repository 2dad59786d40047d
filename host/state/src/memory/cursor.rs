//! Going through all that is held, a step at a time: for a snapshot, and for what has expired.

use super::annex::{Within, walk_cells};
use super::keeper::Capture;
use super::sorted::after;
use super::store::{Parts, SlotId, Store};
use crate::snapshot::Header;

/// A place in the order of groups, pages, slots and rows.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    group: usize,
    page: usize,
    offset: usize,
    within: Within,
}

impl Cursor {
    /// The slot that it stands on, behind the ends of pages and groups; `None` at the end of all.
    fn slot(&mut self, store: &Store) -> Option<SlotId> {
        while self.group < store.groups() {
            match store.page(self.group, self.page) {
                Some((first, slots)) if self.offset < slots => {
                    return Some(first + self.offset as u32);
                }
                Some(_) => (self.page, self.offset) = (self.page + 1, 0),
                None => (self.group, self.page) = (self.group + 1, 0),
            }
        }
        None
    }
}

impl Store {
    /// Freezes all that is there. A snapshot under way is given up.
    pub(super) fn freeze(&mut self, header: Header) {
        self.stamp = self.stamp.wrapping_add(1);
        self.cursor = Cursor::default();
        self.capture = Some(Capture {
            header,
            groups: (0..self.groups()).map(|_| Default::default()).collect(),
        });
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.capture.is_some()
    }

    /// Copies about `budget` frozen rows; all that was frozen, once there are none left.
    pub(super) fn advance_capture(&mut self, budget: usize) -> Option<Capture> {
        let mut cursor = std::mem::take(&mut self.cursor);
        let mut visited = 0;
        while visited < budget {
            let Some(id) = cursor.slot(self) else {
                return self.capture.take();
            };
            let within = std::mem::take(&mut cursor.within);
            match self.capture_slot(id, within, budget, &mut visited) {
                Some(within) => cursor.within = within,
                None => cursor.offset += 1,
            }
            // Free slots take time too.
            visited += 1;
        }
        self.cursor = cursor;
        None
    }

    fn capture_slot(
        &mut self,
        id: SlotId,
        from: Within,
        budget: usize,
        visited: &mut usize,
    ) -> Option<Within> {
        if matches!(from, Within::Start) && !self.slot(id).is_free() {
            self.keep_first(id);
        }
        if self.slot(id).annex == 0 {
            return None;
        }
        let Parts {
            mut keeper,
            cells,
            timers,
            ..
        } = self.parts(id);
        let within = walk_cells(cells, from, budget, visited, |cell, table, suffix, row| {
            keeper.row(cell, table, suffix, row);
        });
        let Within::Timers(last) = within else {
            return Some(within);
        };
        for (key, timer) in timers.range_mut(after(last.as_deref())) {
            keeper.timer(key, timer);
            *visited += 1;
            if *visited >= budget {
                return Some(Within::Timers(Some(key.into())));
            }
        }
        None
    }

    /// Visits about `steps` rows, round and round, and removes those that `is_expired`.
    pub(super) fn sweep(&mut self, steps: usize, is_expired: impl Fn(i64) -> bool) {
        let mut cursor = std::mem::take(&mut self.sweep);
        let mut visited = 0;
        let mut again = false;
        while visited < steps {
            let Some(id) = cursor.slot(self) else {
                // Round once at most: there may be nothing at all.
                if std::mem::replace(&mut again, true) {
                    break;
                }
                cursor = Cursor::default();
                continue;
            };
            visited += 1;
            let within = std::mem::take(&mut cursor.within);
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
                Within::Timers(_) => cursor.offset += 1,
                within => cursor.within = within,
            }
        }
        self.sweep = cursor;
    }
}
