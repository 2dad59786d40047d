//! The keys of a call, as slots.

use super::slot::{KEY, Slot};
use super::store::{SlotId, Store};
use crate::hash::key_group;
use crate::{Column, ColumnRef, Error};

/// Rows that are looked up together: first all their slots are asked for, then they are compared.
/// Their lines fit the first-level cache.
const BLOCK: usize = 256;
/// Rows ahead for which the directory's line is asked for.
const AHEAD: usize = 16;

/// Distinct keys in order of first appearance, and an index a row.
#[derive(Debug, Default)]
pub(super) struct Interned {
    pub(super) distinct: Column,
    pub(super) hashes: Vec<u64>,
    pub(super) index: Vec<u32>,
    /// The slots of the distinct keys, which keep them until the next keys are interned.
    pub(super) slots: Vec<SlotId>,
    /// A row's group.
    groups: Vec<u16>,
}

impl Interned {
    pub(super) fn clear(&mut self) {
        self.distinct.clear();
        self.hashes.clear();
        self.index.clear();
        self.slots.clear();
    }

    /// Whether a slot is among those of the call.
    #[inline]
    fn place(&self, store: &Store, id: SlotId) -> Option<u32> {
        // The index may be left over from another call; then the slot there is not this one.
        let index = store.slot(id).index;
        (self.slots.get(index as usize) == Some(&id)).then_some(index)
    }

    pub(super) fn contains(&self, store: &Store, id: SlotId) -> bool {
        self.place(store, id).is_some()
    }

    /// Appends a key that is not in it; its row is not in the index yet.
    pub(super) fn push(&mut self, store: &mut Store, id: SlotId) -> u32 {
        let slot = store.slot_mut(id);
        if slot.short_key().is_some() {
            return self.push_short(slot, id);
        }
        let index = self.slots.len() as u32;
        slot.index = index;
        self.hashes.push(slot.hash);
        self.slots.push(id);
        self.distinct.push(store.key(id));
        index
    }

    #[inline(always)]
    fn push_short(&mut self, slot: &mut Slot, id: SlotId) -> u32 {
        let index = self.slots.len() as u32;
        slot.index = index;
        self.hashes.push(slot.hash);
        self.slots.push(id);
        // A copy of known length and a cut are cheaper than a copy of any length.
        let data = &mut self.distinct.data;
        let end = data.len() + slot.short_key().map_or(0, <[u8]>::len);
        data.extend_from_slice(slot.key_room());
        data.truncate(end);
        self.distinct.offsets.push(offset(end));
        index
    }

    /// The row of a key that lies in the slot that was expected, if it does.
    #[inline(always)]
    fn expected(&mut self, store: &mut Store, id: SlotId, hash: u64, key: &[u8]) -> Option<u32> {
        let slot = store.slot_mut(id);
        if slot.is(hash, key) != Some(true) {
            return None;
        }
        Some(if self.slots.get(slot.index as usize) == Some(&id) {
            slot.index
        } else {
            self.push_short(slot, id)
        })
    }

    /// Builds the dictionary of a batch, in place of the last one: one probe a row.
    pub(super) fn build(
        &mut self,
        store: &mut Store,
        max_parallelism: u16,
        keys: ColumnRef<'_>,
        hashes: &[u64],
    ) -> Result<(), Error> {
        self.clear();
        let range = store.range;
        self.groups.clear();
        let groups = hashes.iter().map(|hash| key_group(*hash, max_parallelism));
        self.groups.extend(groups);
        if let Some(group) = self.groups.iter().find(|group| !range.contains(**group)) {
            return Err(Error::NotOwned {
                group: *group,
                start: range.start,
                end: range.end,
            });
        }
        // Taken out, so that the compiler sees that pushing a key does not change them.
        let groups = std::mem::take(&mut self.groups);
        let mut index = std::mem::take(&mut self.index);
        index.resize(hashes.len(), 0);
        self.distinct.data.reserve(keys.data.len() + KEY);
        let mut expected = [None; BLOCK];
        let mut first = 0;
        for ((index, hashes), groups) in index
            .chunks_mut(BLOCK)
            .zip(hashes.chunks(BLOCK))
            .zip(groups.chunks(BLOCK))
        {
            let group = |group: u16| usize::from(group - range.start);
            for (of, hash) in groups.iter().zip(hashes).take(AHEAD) {
                store.prefetch_directory(group(*of), *hash);
            }
            let ahead = groups.iter().zip(hashes).skip(AHEAD);
            let mut ahead = ahead.map(|(of, hash)| (group(*of), *hash));
            for ((of, hash), expected) in groups.iter().zip(hashes).zip(&mut expected) {
                if let Some((group, hash)) = ahead.next() {
                    store.prefetch_directory(group, hash);
                }
                *expected = store.prefetch_slot(group(*of), *hash);
            }
            let rows = groups.iter().zip(hashes).zip(&expected).zip(index);
            for (row, (((of, &hash), expected), index)) in rows.enumerate() {
                let key = keys.get(first + row);
                let expected = expected.and_then(|id| self.expected(store, id, hash, key));
                *index = expected.unwrap_or_else(|| {
                    let id = store.intern(group(*of), hash, key);
                    self.place(store, id)
                        .unwrap_or_else(|| self.push(store, id))
                });
            }
            first += hashes.len();
        }
        self.groups = groups;
        self.index = index;
        Ok(())
    }
}

fn offset(end: usize) -> u32 {
    u32::try_from(end).expect("a column holds less than 4 GiB")
}
