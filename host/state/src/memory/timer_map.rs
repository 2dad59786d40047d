//! The timers of a key.

use std::ops::Bound;
use std::slice;

use super::annex::Timer;
use super::bytes::Bytes;
use super::sorted::{Range, RangeMut, SortedMap};

/// Timers by [`timer_key`](super::timer_key::timer_key).
///
/// A single one lies inside: most keys have one window open at a time, and an allocation for its
/// timer would take longer than to register and to fire it.
#[derive(Debug)]
pub(super) enum TimerMap {
    One(Option<(Bytes, Timer)>),
    /// Until the last one goes.
    Several(Box<SortedMap<Timer>>),
}

impl Default for TimerMap {
    fn default() -> Self {
        TimerMap::One(None)
    }
}

impl TimerMap {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        match self {
            TimerMap::One(one) => one.is_none(),
            TimerMap::Several(timers) => timers.is_empty(),
        }
    }

    /// The timer, if there is one inside.
    #[inline]
    pub(super) fn one(&self) -> Option<&(Bytes, Timer)> {
        match self {
            TimerMap::One(one) => one.as_ref(),
            TimerMap::Several(_) => None,
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&Timer> {
        match self {
            TimerMap::One(one) => one
                .as_ref()
                .filter(|(known, _)| **known == *key)
                .map(|(_, timer)| timer),
            TimerMap::Several(timers) => timers.get(key),
        }
    }

    pub(super) fn get_mut(&mut self, key: &[u8]) -> Option<&mut Timer> {
        match self {
            TimerMap::One(one) => one
                .as_mut()
                .filter(|(known, _)| **known == *key)
                .map(|(_, timer)| timer),
            TimerMap::Several(timers) => timers.get_mut(key),
        }
    }

    /// Adds a timer unless it is there; whether it was not.
    #[inline]
    pub(super) fn insert(&mut self, key: &Bytes, new: impl FnOnce() -> Timer) -> bool {
        match self {
            TimerMap::One(one @ None) => {
                *one = Some((key.clone(), new()));
                true
            }
            TimerMap::One(Some((known, _))) if known == key => false,
            _ => self.insert_beside(key, new()),
        }
    }

    fn insert_beside(&mut self, key: &Bytes, new: Timer) -> bool {
        if let TimerMap::One(one) = self {
            let mut timers = Box::<SortedMap<Timer>>::default();
            if let Some((known, timer)) = one.take() {
                timers.get_or_insert(&known, || timer);
            }
            *self = TimerMap::Several(timers);
        }
        let TimerMap::Several(timers) = self else {
            return false;
        };
        let mut is_new = false;
        timers.get_or_insert(key, || {
            is_new = true;
            new
        });
        is_new
    }

    #[inline]
    pub(super) fn remove(&mut self, key: &Bytes) -> Option<Timer> {
        match self {
            TimerMap::One(one) => {
                if one.as_ref().is_none_or(|(known, _)| known != key) {
                    return None;
                }
                one.take().map(|(_, timer)| timer)
            }
            TimerMap::Several(timers) => {
                let timer = timers.remove(key)?;
                if timers.is_empty() {
                    *self = TimerMap::default();
                }
                Some(timer)
            }
        }
    }

    fn inside(one: &Option<(Bytes, Timer)>) -> &[(Bytes, Timer)] {
        one.as_ref().map_or(&[], slice::from_ref)
    }

    /// The timers from `start` on, in order.
    pub(super) fn from(&self, start: &[u8]) -> Range<'_, Timer> {
        match self {
            TimerMap::One(one) => {
                let one = Self::inside(one);
                let skipped = one.partition_point(|(key, _)| **key < *start);
                Range::Few(one[skipped..].iter())
            }
            TimerMap::Several(timers) => timers.range(start, None),
        }
    }

    pub(super) fn iter(&self) -> Range<'_, Timer> {
        self.from(&[])
    }

    /// The timers from `start` on, to be changed.
    pub(super) fn range_mut(&mut self, start: Bound<&[u8]>) -> RangeMut<'_, Timer> {
        match self {
            TimerMap::One(one) => {
                let one = one.as_mut().filter(|(key, _)| match start {
                    Bound::Unbounded => true,
                    Bound::Included(start) => **key >= *start,
                    Bound::Excluded(start) => **key > *start,
                });
                let one = one.map_or(&mut [][..], slice::from_mut);
                RangeMut::Few(one.iter_mut())
            }
            TimerMap::Several(timers) => timers.range_mut(start),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(stamp: u32) -> Timer {
        Timer {
            chain: None,
            waits: false,
            stamp,
        }
    }

    fn stamps<'a>(timers: impl Iterator<Item = (&'a [u8], &'a Timer)>) -> Vec<u32> {
        timers.map(|(_, timer)| timer.stamp).collect()
    }

    #[test]
    fn one_and_several_timers_answer_alike() {
        for count in [1u32, 2, 3, 100] {
            let name = |row: u32| Bytes::from(&row.to_be_bytes()[..]);
            let mut timers = TimerMap::default();
            assert!(timers.is_empty() && timers.remove(&name(0)).is_none());
            for row in (0..count).rev() {
                assert!(timers.insert(&name(row), || timer(row)));
                assert!(!timers.insert(&name(row), || timer(7_000)));
            }
            let all: Vec<u32> = (0..count).collect();
            assert_eq!(timers.one().is_some(), count == 1);
            assert_eq!(stamps(timers.iter()), all);
            assert_eq!(stamps(timers.from(&name(1))), all[1..]);
            assert_eq!(stamps(timers.from(&name(count))), []);
            for (start, first) in [
                (Bound::Unbounded, 0),
                (Bound::Included(&name(0)[..]), 0),
                (Bound::Included(&name(1)[..]), 1),
                (Bound::Excluded(&name(0)[..]), 1),
            ] {
                let rows = timers.range_mut(start).map(|(_, timer)| timer.stamp);
                assert_eq!(rows.collect::<Vec<_>>(), all[first..]);
            }
            let known = timers.get(&name(0)).map(|timer| timer.stamp);
            assert_eq!((known, timers.get(b"x").is_none()), (Some(0), true));
            assert!(timers.get_mut(b"x").is_none() && timers.remove(&b"x"[..].into()).is_none());
            for row in 0..count {
                timers.get_mut(&name(row)).unwrap().stamp += 1;
                let removed = timers.remove(&name(row)).map(|timer| timer.stamp);
                assert_eq!(removed, Some(row + 1));
                assert!(timers.get(&name(row)).is_none());
            }
            assert!(timers.is_empty() && matches!(timers, TimerMap::One(None)));
        }
    }
}
