//! A map in byte order that is small for few rows and fast for many.

use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;
use std::slice;

use super::bytes::Bytes;

/// Rows up to which a vector is searched and shifted. Most keys have one window, a handful of
/// entries, one or two timers: a tree's first node would be many times their size. Beyond it,
/// shifting would make inserts quadratic.
const FEW: usize = 32;

#[derive(Clone, Debug)]
pub(super) enum SortedMap<V> {
    Few(Vec<(Bytes, V)>),
    #[allow(clippy::box_collection, reason = "a word less in every annex")]
    Many(Box<BTreeMap<Bytes, V>>),
}

impl<V> Default for SortedMap<V> {
    fn default() -> Self {
        SortedMap::Few(Vec::new())
    }
}

impl<V> SortedMap<V> {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            SortedMap::Few(rows) => rows.is_empty(),
            SortedMap::Many(rows) => rows.is_empty(),
        }
    }

    /// Lets go of memory beyond what one row takes, of an empty map. The next that uses it will
    /// want that much.
    pub(super) fn shrink(&mut self) {
        match self {
            SortedMap::Few(rows) if rows.capacity() == 1 => {}
            _ => *self = SortedMap::default(),
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&V> {
        match self {
            SortedMap::Few(rows) => search(rows, key).ok().map(|place| &rows[place].1),
            SortedMap::Many(rows) => rows.get(key),
        }
    }

    pub(super) fn get_mut(&mut self, key: &[u8]) -> Option<&mut V> {
        match self {
            SortedMap::Few(rows) => match search(rows, key) {
                Ok(place) => Some(&mut rows[place].1),
                Err(_) => None,
            },
            SortedMap::Many(rows) => rows.get_mut(key),
        }
    }

    /// The value under `key`, made by `new` if there is none yet.
    pub(super) fn get_or_insert(&mut self, key: &[u8], new: impl FnOnce() -> V) -> &mut V {
        if let SortedMap::Few(rows) = self
            && rows.len() == FEW
        {
            let rows = std::mem::take(rows);
            *self = SortedMap::Many(Box::new(rows.into_iter().collect()));
        }
        match self {
            SortedMap::Few(rows) => {
                let place = search(rows, key).unwrap_or_else(|place| {
                    // One row more at first: a single window or timer is the rule.
                    if rows.capacity() == 0 {
                        rows.reserve_exact(1);
                    }
                    rows.insert(place, (key.into(), new()));
                    place
                });
                &mut rows[place].1
            }
            SortedMap::Many(rows) => rows.entry(key.into()).or_insert_with(new),
        }
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> Option<V> {
        match self {
            SortedMap::Few(rows) => {
                let place = search(rows, key).ok()?;
                Some(rows.remove(place).1)
            }
            SortedMap::Many(rows) => rows.remove(key),
        }
    }

    /// The rows with `start <= key < end`; no end is the end of the map.
    pub(super) fn range(&self, start: &[u8], end: Option<&[u8]>) -> Range<'_, V> {
        if end.is_some_and(|end| start >= end) {
            return Range::Few([].iter());
        }
        match self {
            SortedMap::Few(rows) => {
                let first = search(rows, start).unwrap_or_else(|place| place);
                let last = end.map_or(rows.len(), |end| {
                    search(rows, end).unwrap_or_else(|place| place)
                });
                Range::Few(rows[first..last].iter())
            }
            SortedMap::Many(rows) => {
                let end = end.map_or(Bound::Unbounded, Bound::Excluded);
                Range::Many(rows.range::<[u8], _>((Bound::Included(start), end)))
            }
        }
    }

    pub(super) fn iter(&self) -> Range<'_, V> {
        self.range(&[], None)
    }

    /// The rows from `start` on, to be changed.
    pub(super) fn range_mut(&mut self, start: Bound<&[u8]>) -> RangeMut<'_, V> {
        match self {
            SortedMap::Few(rows) => {
                let first = match start {
                    Bound::Unbounded => 0,
                    Bound::Included(key) => search(rows, key).unwrap_or_else(|place| place),
                    Bound::Excluded(key) => {
                        search(rows, key).map_or_else(|place| place, |place| place + 1)
                    }
                };
                RangeMut::Few(rows[first..].iter_mut())
            }
            SortedMap::Many(rows) => {
                RangeMut::Many(rows.range_mut::<[u8], _>((start, Bound::Unbounded)))
            }
        }
    }
}

/// Where to start behind a row, or at the first.
pub(super) fn after(row: Option<&[u8]>) -> Bound<&[u8]> {
    row.map_or(Bound::Unbounded, Bound::Excluded)
}

fn search<V>(rows: &[(Bytes, V)], key: &[u8]) -> Result<usize, usize> {
    rows.binary_search_by(|(known, _)| (**known).cmp(key))
}

/// Rows in order, from both ends.
pub(super) enum Range<'a, V> {
    Few(slice::Iter<'a, (Bytes, V)>),
    Many(btree_map::Range<'a, Bytes, V>),
}

impl<V> Default for Range<'_, V> {
    fn default() -> Self {
        Range::Few([].iter())
    }
}

impl<'a, V> Iterator for Range<'a, V> {
    type Item = (&'a [u8], &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Range::Few(rows) => rows.next().map(|(key, value)| (&**key, value)),
            Range::Many(rows) => rows.next().map(|(key, value)| (&**key, value)),
        }
    }
}

impl<V> DoubleEndedIterator for Range<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match self {
            Range::Few(rows) => rows.next_back().map(|(key, value)| (&**key, value)),
            Range::Many(rows) => rows.next_back().map(|(key, value)| (&**key, value)),
        }
    }
}

/// Rows in order, to be changed.
pub(super) enum RangeMut<'a, V> {
    Few(slice::IterMut<'a, (Bytes, V)>),
    Many(btree_map::RangeMut<'a, Bytes, V>),
}

impl<'a, V> Iterator for RangeMut<'a, V> {
    type Item = (&'a [u8], &'a mut V);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            RangeMut::Few(rows) => rows.next().map(|(key, value)| (&**key, value)),
            RangeMut::Many(rows) => rows.next().map(|(key, value)| (&**key, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys<'a>(rows: impl Iterator<Item = (&'a [u8], &'a usize)>) -> Vec<usize> {
        rows.map(|(_, value)| *value).collect()
    }

    #[test]
    fn few_and_many_rows_answer_alike() {
        for count in [3, FEW, FEW + 1, 500] {
            let mut map = SortedMap::default();
            let name = |row: usize| format!("{row:04}").into_bytes();
            for row in (0..count).rev().step_by(2).chain((0..count).rev()) {
                assert_eq!(*map.get_or_insert(&name(row), || row), row);
            }
            assert_eq!(matches!(map, SortedMap::Many(_)), count > FEW);
            assert_eq!(keys(map.iter()), (0..count).collect::<Vec<_>>());
            assert_eq!(keys(map.range(&name(1), Some(&name(3)))), [1, 2]);
            assert_eq!(keys(map.range(&name(1), Some(&name(3))).rev()), [2, 1]);
            assert_eq!(keys(map.range(b"0001x", Some(b"0002x"))), [2]);
            assert_eq!(keys(map.range(&name(2), Some(&name(2)))), [0; 0]);
            assert_eq!(keys(map.range(&name(2), Some(&name(1)))), [0; 0]);
            for (start, first) in [
                (Bound::Unbounded, 0),
                (Bound::Included(&name(1)[..]), 1),
                (Bound::Excluded(&name(1)[..]), 2),
                (Bound::Excluded(&b"0001x"[..]), 2),
            ] {
                let rows = map.range_mut(start).map(|(_, value)| *value);
                assert_eq!(rows.collect::<Vec<_>>(), (first..count).collect::<Vec<_>>());
            }
            *map.get_mut(&name(1)).unwrap() = 7;
            assert_eq!((map.get(&name(1)), map.get(b"")), (Some(&7), None));
            assert_eq!(
                (map.remove(&name(1)), map.remove(&name(1))),
                (Some(7), None)
            );
            assert_eq!(
                keys(map.range(&name(1), None)),
                (2..count).collect::<Vec<_>>()
            );
            for row in 0..count {
                map.remove(&name(row));
            }
            assert!(map.is_empty());
        }
    }
}
