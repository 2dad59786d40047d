//! From a key's hash to its slot: open addressing, a table a key group.

use super::prefetch::prefetch;

/// A group's keys: 32 bits of the hash and the slot's number.
///
/// The bits are the lowest, so a place follows from them alone: growing and closing gaps never look
/// at a slot. They are not those that the group is made of; see [`crate::hash::key_group`].
#[derive(Debug)]
pub(super) struct Directory {
    /// The hash's bits above, the slot's number + 1 below; 0 is a free place. Sought from the
    /// hash's own place on, to the next free one.
    places: Vec<u64>,
    len: usize,
}

const SLOT_BITS: u32 = 32;

fn entry(hash: u64, slot: u32) -> u64 {
    (hash << SLOT_BITS) | (u64::from(slot) + 1)
}

fn slot_of(entry: u64) -> u32 {
    (entry as u32) - 1
}

impl Directory {
    pub(super) fn new() -> Directory {
        Directory {
            places: vec![0; 4],
            len: 0,
        }
    }

    fn mask(&self) -> usize {
        self.places.len() - 1
    }

    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch(&self.places[hash as usize & self.mask()]);
    }

    /// The first slot whose bits match: the key's, as good as always, if it has one at all.
    #[inline(always)]
    pub(super) fn candidate(&self, hash: u64) -> Option<u32> {
        self.find(hash, |_| true)
    }

    /// The slot whose bits match and that `is` the one.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let mask = self.mask();
        let mut place = hash as usize & mask;
        loop {
            let entry = self.places[place];
            if entry == 0 {
                return None;
            }
            if (entry >> SLOT_BITS) as u32 == hash as u32 && is(slot_of(entry)) {
                return Some(slot_of(entry));
            }
            place = (place + 1) & mask;
        }
    }

    /// Adds a slot that is not in it.
    pub(super) fn insert(&mut self, hash: u64, slot: u32) {
        if (self.len + 1) * 2 > self.places.len() {
            let larger = vec![0; 2 * self.places.len()];
            for entry in std::mem::replace(&mut self.places, larger) {
                if entry != 0 {
                    self.settle(entry);
                }
            }
        }
        self.settle(entry(hash, slot));
        self.len += 1;
    }

    fn settle(&mut self, entry: u64) {
        let mask = self.mask();
        let mut place = home(entry) & mask;
        while self.places[place] != 0 {
            place = (place + 1) & mask;
        }
        self.places[place] = entry;
    }

    /// Takes a slot out.
    pub(super) fn remove(&mut self, hash: u64, slot: u32) {
        let (mask, doomed) = (self.mask(), entry(hash, slot));
        let mut gap = hash as usize & mask;
        while self.places[gap] != doomed {
            gap = (gap + 1) & mask;
        }
        // Moves up what would no longer be found beyond the gap: entries whose own place is not
        // between the gap and where they are.
        let mut place = gap;
        loop {
            place = (place + 1) & mask;
            let entry = self.places[place];
            if entry == 0 {
                break;
            }
            let distance = |from: usize| place.wrapping_sub(from) & mask;
            if distance(home(entry) & mask) >= distance(gap) {
                self.places[gap] = entry;
                gap = place;
            }
        }
        self.places[gap] = 0;
        self.len -= 1;
    }
}

fn home(entry: u64) -> usize {
    (entry >> SLOT_BITS) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn finds_what_is_in_it_however_crowded_and_whatever_was_removed() {
        let mut directory = Directory::new();
        let mut known = BTreeMap::new();
        let mut seed = 1u64;
        for slot in 0..4_000u32 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            // Few different places, and bits that repeat.
            let hash = (seed >> 33) & 0xFFF00FF;
            directory.insert(hash, slot);
            known.insert(slot, hash);
            if slot % 3 == 0 {
                let doomed = *known.keys().nth(seed as usize % known.len()).unwrap();
                directory.remove(known[&doomed], doomed);
                let hash = known.remove(&doomed).unwrap();
                assert_eq!(directory.find(hash, |found| found == doomed), None);
            }
        }
        for (slot, hash) in &known {
            assert_eq!(directory.find(*hash, |found| found == *slot), Some(*slot));
        }
        assert_eq!(directory.len, known.len());
        known
            .iter()
            .for_each(|(slot, hash)| directory.remove(*hash, *slot));
        assert!(directory.places.iter().all(|entry| *entry == 0));
    }
}
