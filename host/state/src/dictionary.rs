//! The distinct keys of a call.

use crate::{Column, ColumnRef};

/// Distinct keys in order of first appearance, their hashes, and an index a row.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    pub(crate) distinct: Column,
    pub(crate) hashes: Vec<u64>,
    pub(crate) index: Vec<u32>,
    /// Open addressing by the low bits of the hash: a key's index + 1, or 0. Reused from call to
    /// call.
    table: Vec<u32>,
}

impl Dictionary {
    /// Builds the dictionary of a batch, in place of the last one. Both columns have as many rows.
    pub(crate) fn build(&mut self, keys: ColumnRef<'_>, hashes: &[u64]) {
        self.clear();
        self.table.clear();
        // At most half full, so a free place always ends the search.
        self.table.resize((2 * hashes.len()).next_power_of_two(), 0);
        let mask = self.table.len() - 1;
        for (key, &hash) in keys.iter().zip(hashes) {
            let mut place = hash as usize & mask;
            let index = loop {
                match self.table[place].checked_sub(1) {
                    None => {
                        self.push(key, hash);
                        self.table[place] = self.hashes.len() as u32;
                        break self.hashes.len() as u32 - 1;
                    }
                    Some(index)
                        if self.hashes[index as usize] == hash
                            && self.distinct.get(index as usize) == key =>
                    {
                        break index;
                    }
                    Some(_) => place = (place + 1) & mask,
                }
            };
            self.index.push(index);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.distinct.clear();
        self.hashes.clear();
        self.index.clear();
    }

    /// Appends a key that the caller knows to be new; its row is not in the index yet.
    pub(crate) fn push(&mut self, key: &[u8], hash: u64) {
        self.distinct.push(key);
        self.hashes.push(hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_hashes_do_not_make_keys_equal() {
        let mut dictionary = Dictionary::default();
        let keys: Column = ["a", "b", "a", "", "b", "c"].into_iter().collect();
        dictionary.build(keys.as_ref(), &[7, 7, 7, 7, 7, u64::MAX]);
        assert_eq!(
            dictionary.distinct.iter().collect::<Vec<_>>(),
            [&b"a"[..], b"b", b"", b"c"]
        );
        assert_eq!(dictionary.index, [0, 1, 0, 2, 1, 3]);
        assert_eq!(dictionary.hashes, [7, 7, 7, u64::MAX]);
    }

    #[test]
    fn an_empty_batch_has_no_keys_and_nothing_of_the_last_batch_remains() {
        let mut dictionary = Dictionary::default();
        let keys: Column = ["a"].into_iter().collect();
        dictionary.build(keys.as_ref(), &[1]);
        dictionary.build(Column::new().as_ref(), &[]);
        assert!(
            dictionary.distinct.is_empty()
                && dictionary.hashes.is_empty()
                && dictionary.index.is_empty()
        );
        dictionary.build(keys.as_ref(), &[1]);
        assert_eq!(dictionary.index, [0]);
    }
}
