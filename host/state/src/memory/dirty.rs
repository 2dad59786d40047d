//! What changed in a key group: what an incremental snapshot of it is made of.
//!
//! A changed row is noted by its slot, which is where the cursor will look for it; it may find
//! another key there, whose rows then are in the file without need. A row that went is noted by its
//! stored key: whatever has become of its slot, the file says that it is gone, unless it also has a
//! value for it.
//!
//! Notes are dropped where they come to more than half of what the group takes in a file: then it
//! is written in full, which costs less memory now and hardly more bytes later. So all notes
//! together are smaller than the state.

use std::sync::Arc;

use super::bytes::Bytes;
use super::store::SlotId;
use crate::snapshot::{GroupRows, Place};
use crate::stored_key::Table;

/// Notes of a group that are always worth their memory.
const FEW: usize = 16 << 10;

/// A row that was changed or is new.
#[derive(Debug)]
pub(super) struct ChangedRow {
    pub(super) slot: SlotId,
    pub(super) table: Table,
    /// Key of the cell, or of the timer.
    pub(super) cell: Bytes,
    pub(super) suffix: Bytes,
}

/// The changes to a group since a barrier.
#[derive(Debug)]
pub(super) struct Dirty {
    /// Nothing is noted, and anything may have changed.
    pub(super) lost: bool,
    /// Slots whose first value changed, and now and then one that went.
    pub(super) firsts: Vec<SlotId>,
    pub(super) rows: Vec<ChangedRow>,
    /// Only the last one grows, unless a snapshot shares it.
    pub(super) gone: Vec<Arc<GroupRows>>,
    /// About what the notes take.
    bytes: usize,
    limit: usize,
}

impl Dirty {
    /// Nothing changed, and of changes so many bytes of notes will be taken: half of `group`, what
    /// the group takes.
    pub(super) fn new(group: u64) -> Dirty {
        let mut dirty = Dirty {
            lost: false,
            firsts: Vec::new(),
            rows: Vec::new(),
            gone: Vec::new(),
            bytes: 0,
            limit: 0,
        };
        dirty.set_limit(group);
        dirty
    }

    /// Takes no notes.
    pub(super) fn lost() -> Dirty {
        Dirty {
            lost: true,
            ..Dirty::new(0)
        }
    }

    pub(super) fn set_limit(&mut self, group: u64) {
        self.limit = FEW.max(usize::try_from(group / 2).unwrap_or(usize::MAX));
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_clean(&self) -> bool {
        !self.lost && self.bytes == 0
    }

    /// Bytes of the removals.
    pub(super) fn gone_bytes(&self) -> u64 {
        self.gone.iter().map(|gone| gone.bytes() as u64).sum()
    }

    fn spend(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.bytes > self.limit {
            *self = Dirty::lost();
        }
    }

    /// Adds what changed later.
    pub(super) fn absorb(&mut self, later: Dirty) {
        if self.lost || later.lost {
            *self = Dirty::lost();
            return;
        }
        self.limit = later.limit;
        self.firsts.extend(later.firsts);
        self.rows.extend(later.rows);
        self.gone.extend(later.gone);
        self.spend(later.bytes);
    }

    pub(super) fn first(&mut self, slot: SlotId) {
        if !self.lost {
            self.firsts.push(slot);
            self.spend(size_of::<SlotId>());
        }
    }

    pub(super) fn row(&mut self, row: impl FnOnce() -> ChangedRow) {
        if !self.lost {
            let row = row();
            let bytes = size_of::<ChangedRow>() + row.cell.len() + row.suffix.len();
            self.rows.push(row);
            self.spend(bytes);
        }
    }

    pub(super) fn gone(
        &mut self,
        place: Place,
        key: &[u8],
        namespace: Option<&[u8]>,
        suffix: &[u8],
    ) {
        self.remove(|gone| gone.push_gone(place, key, namespace, suffix));
    }

    pub(super) fn cell_gone(&mut self, place: Place, key: &[u8], namespace: Option<&[u8]>) {
        self.remove(|gone| gone.push_cell_gone(place, key, namespace));
    }

    fn remove(&mut self, push: impl FnOnce(&mut GroupRows)) {
        if self.lost {
            return;
        }
        if self.gone.last_mut().and_then(Arc::get_mut).is_none() {
            self.gone.push(Arc::default());
        }
        let gone = self.gone.last_mut().and_then(Arc::get_mut);
        let gone = gone.expect("it is there, and nobody shares it");
        let before = gone.bytes();
        push(gone);
        let taken = gone.bytes() - before;
        self.spend(taken);
    }
}
