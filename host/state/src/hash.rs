//! From key to key group to subtask.
//!
//! A key is hashed once, where it enters the job or changes, and the hash is carried from there;
//! nothing hashes a key again except a restore, which checks that a row lies in its key's group.
//! The function, the choice of bits and the ranges are frozen: snapshots are cut along them.
//!
//! A null key has no hash. Keyed inputs never see one; the job file says what becomes of it before
//! this point.

use xxhash_rust::xxh3::xxh3_64;

/// The hash of a key: XXH3-64 with seed 0.
pub fn key_hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// The key group of a hash, below `max_parallelism`.
///
/// Bits 25 to 56 are scaled to the number of groups. Hash tables take their position from the
/// lowest bits and their tag from the highest; were the group made of either, all keys of a group
/// would crowd in one corner of its table.
pub fn key_group(hash: u64, max_parallelism: u16) -> u16 {
    let bits = u64::from((hash >> 25) as u32);
    ((bits * u64::from(max_parallelism)) >> 32) as u16
}

/// A half-open range of key groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupRange {
    /// The first group.
    pub start: u16,
    /// One past the last group.
    pub end: u16,
}

impl GroupRange {
    /// Whether the group lies in the range.
    pub fn contains(self, group: u16) -> bool {
        (self.start..self.end).contains(&group)
    }

    /// The number of groups.
    pub fn len(self) -> usize {
        usize::from(self.end.saturating_sub(self.start))
    }

    /// Whether there is no group in the range.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// The groups that a subtask owns: all `g` with `g * parallelism / max_parallelism == subtask`.
///
/// # Panics
/// If `subtask < parallelism <= max_parallelism` does not hold; the job is checked for it before
/// anything starts.
pub fn group_range(subtask: u16, parallelism: u16, max_parallelism: u16) -> GroupRange {
    assert!(
        subtask < parallelism && parallelism <= max_parallelism,
        "subtask {subtask} of {parallelism}, max parallelism {max_parallelism}"
    );
    let first = |subtask: u16| {
        let groups =
            (u32::from(subtask) * u32::from(max_parallelism)).div_ceil(u32::from(parallelism));
        u16::try_from(groups).expect("a bound of a group range is at most max parallelism")
    };
    GroupRange {
        start: first(subtask),
        end: first(subtask + 1),
    }
}

/// The subtask that owns a group; the inverse of [`group_range`].
pub fn owner(group: u16, parallelism: u16, max_parallelism: u16) -> u16 {
    (u32::from(group) * u32::from(parallelism) / u32::from(max_parallelism)) as u16
}

#[cfg(test)]
mod tests;
