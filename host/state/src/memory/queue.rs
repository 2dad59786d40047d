//! When timers of one time domain are due.
//!
//! The timers of a key lie with the key: that is the truth. Here are hints that a key may have a
//! timer at a time, by second or so, in no order within it. Registering appends a hint, cancelling
//! removes none. The hints of a second are sorted when its time has come, and each is checked
//! against the key before it counts.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::bytes::Bytes;
use super::store::SlotId;

/// Milliseconds of a bucket, as a power of two: 1,024.
const BUCKET_BITS: u32 = 10;
/// Hints of a bucket, and late hints, that are not worth tidying up.
const FEW: usize = 1_024;

/// In the order of firing: time, hash, slot, but for keys of equal hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hint {
    pub(super) time: i64,
    pub(super) hash: u64,
    pub(super) slot: SlotId,
    /// Where the timer was, so that its memory is asked for together with the slot's. No part of
    /// the order.
    pub(super) annex: u32,
}

impl Hint {
    /// Time and hash as a number: one comparison without a branch, where sorting takes its time.
    #[inline]
    fn order(&self) -> u128 {
        let time = self.time as u64 ^ (1 << 63);
        (u128::from(time) << 64) | u128::from(self.hash)
    }
}

impl PartialEq for Hint {
    fn eq(&self, other: &Hint) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Hint {}

impl PartialOrd for Hint {
    #[inline]
    fn partial_cmp(&self, other: &Hint) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Hint {
    #[inline]
    fn cmp(&self, other: &Hint) -> Ordering {
        (self.order(), self.slot).cmp(&(other.order(), other.slot))
    }
}

#[derive(Debug, Default)]
struct Bucket {
    hints: Vec<Hint>,
    /// About how many of them were cancelled.
    stale: usize,
}

/// See the module. A hint is *good* if its slot has a timer of this domain for its time that does
/// not wait; whoever can tell passes that as `is_good`.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Hints of the buckets that were opened, latest first.
    sorted: Vec<Hint>,
    /// Hints that came too late to be sorted.
    late: BinaryHeap<Reverse<Hint>>,
    /// The last bucket opened. All hints up to it are in the two above.
    opened: Option<i64>,
    buckets: BTreeMap<i64, Bucket>,
    /// Timers that wait for the next advance: time, slot, timer key.
    waiting: BTreeSet<(i64, SlotId, Bytes)>,
    /// The earliest time of a timer that does not wait, if `known`.
    earliest: Option<i64>,
    unknown: bool,
}

fn bucket_of(time: i64) -> i64 {
    time >> BUCKET_BITS
}

impl Queue {
    /// A timer is registered.
    pub(super) fn push(&mut self, hint: Hint) {
        self.earliest = Some(self.earliest.map_or(hint.time, |time| time.min(hint.time)));
        self.put(hint);
    }

    fn put(&mut self, hint: Hint) {
        let bucket = bucket_of(hint.time);
        if self.opened.is_none_or(|opened| bucket > opened) {
            self.buckets.entry(bucket).or_default().hints.push(hint);
            return;
        }
        self.late.push(Reverse(hint));
        // A bucket that was opened early, or was followed by much: start anew.
        if self.late.len() > FEW.max(self.sorted.len()) {
            self.opened = None;
            let hints = std::mem::take(&mut self.sorted);
            let late = std::mem::take(&mut self.late);
            hints
                .into_iter()
                .chain(late.into_iter().map(|Reverse(hint)| hint))
                .for_each(|hint| self.put(hint));
        }
    }

    /// Gives back a hint that [`pop`](Self::pop) gave, before anything else is popped; the last
    /// one first.
    pub(super) fn give_back(&mut self, hint: Hint) {
        if self
            .opened
            .is_some_and(|opened| bucket_of(hint.time) <= opened)
            && self.sorted.last().is_none_or(|next| hint <= *next)
        {
            self.sorted.push(hint);
        } else {
            self.put(hint);
        }
    }

    /// A timer that did not wait has fired.
    pub(super) fn fired(&mut self, time: i64) {
        self.unknown |= self.earliest == Some(time);
    }

    /// A timer that did not wait was cancelled.
    pub(super) fn cancelled(&mut self, time: i64, is_good: impl Fn(Hint) -> bool) {
        self.fired(time);
        if let Some(bucket) = self.buckets.get_mut(&bucket_of(time)) {
            bucket.stale += 1;
            // Else a timer that is moved on and on would leave hints without end.
            if bucket.stale > FEW && bucket.stale > bucket.hints.len() / 2 {
                bucket.hints.sort_unstable();
                bucket.hints.dedup();
                bucket.hints.retain(|hint| is_good(*hint));
                bucket.stale = 0;
            }
        }
    }

    /// The earliest hint up to `until`, good or not. It is taken out.
    pub(super) fn pop(&mut self, until: i64) -> Option<Hint> {
        self.peek(until)?;
        if self.late_is_next() {
            self.late.pop().map(|Reverse(hint)| hint)
        } else {
            self.sorted.pop()
        }
    }

    /// A hint that is likely to be popped after as many others.
    pub(super) fn ahead(&self, others: usize) -> Option<Hint> {
        let place = self.sorted.len().checked_sub(others + 1)?;
        Some(self.sorted[place])
    }

    /// Opens buckets until it has the earliest hint.
    pub(super) fn peek(&mut self, until: i64) -> Option<Hint> {
        while self.sorted.is_empty() && self.late.is_empty() {
            self.opened = None;
            let first = self.buckets.first_entry()?;
            if *first.key() > bucket_of(until) {
                return None;
            }
            self.opened = Some(*first.key());
            self.sorted = first.remove().hints;
            self.sorted.sort_unstable_by(|left, right| right.cmp(left));
            self.sorted.dedup();
        }
        let next = if self.late_is_next() {
            self.late.peek().map(|Reverse(hint)| *hint)
        } else {
            self.sorted.last().copied()
        };
        next.filter(|hint| hint.time <= until)
    }

    fn late_is_next(&self) -> bool {
        match (self.late.peek(), self.sorted.last()) {
            (Some(Reverse(late)), Some(sorted)) => late < sorted,
            (late, _) => late.is_some(),
        }
    }

    /// Finds the earliest timer again, if it went. After the hints of a firing were given back.
    pub(super) fn settle(&mut self, is_good: impl Fn(Hint) -> bool) {
        if !std::mem::take(&mut self.unknown) {
            return;
        }
        self.earliest = None;
        while let Some(hint) = self.peek(i64::MAX) {
            if is_good(hint) {
                self.earliest = Some(hint.time);
                break;
            }
            self.pop(i64::MAX);
        }
    }

    /// The earliest timer, those that wait included.
    pub(super) fn earliest(&self) -> Option<i64> {
        let waiting = self.waiting.first().map(|(time, ..)| *time);
        self.earliest.into_iter().chain(waiting).min()
    }

    pub(super) fn wait(&mut self, time: i64, slot: SlotId, timer: Bytes) {
        self.waiting.insert((time, slot, timer));
    }

    pub(super) fn stop_waiting(&mut self, time: i64, slot: SlotId, timer: &Bytes) {
        self.waiting.remove(&(time, slot, timer.clone()));
    }

    /// The timers that wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (SlotId, &Bytes)> {
        self.waiting.iter().map(|(_, slot, timer)| (*slot, timer))
    }

    /// The slots that may have timers.
    pub(super) fn slots(&self) -> impl Iterator<Item = SlotId> {
        let late = self.late.iter().map(|Reverse(hint)| hint);
        let later = self.buckets.values().flat_map(|bucket| &bucket.hints);
        let hints = self.sorted.iter().chain(late).chain(later);
        hints
            .map(|hint| hint.slot)
            .chain(self.waiting().map(|(slot, _)| slot))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Pops all that is good up to `until`, as a firing each.
    fn fire(queue: &mut Queue, timers: &mut BTreeMap<SlotId, i64>, until: i64) {
        let mut last = None;
        while let Some(hint) = queue.pop(until) {
            assert!(hint.time <= until && last <= Some(hint), "out of order");
            last = Some(hint);
            if timers.get(&hint.slot) == Some(&hint.time) {
                // Discarded now and then: it is given back and comes again.
                if hint.slot % 7 == 0 && hint.time % 2 == 0 {
                    queue.give_back(hint);
                    assert_eq!(queue.pop(until), Some(hint));
                }
                timers.remove(&hint.slot);
                queue.fired(hint.time);
            }
        }
        queue.settle(|hint| timers.get(&hint.slot) == Some(&hint.time));
        assert!(timers.values().all(|time| *time > until), "left behind");
    }

    #[test]
    fn timers_that_move_on_and_on_fire_once_and_leave_no_hints() {
        let (mut queue, mut timers) = (Queue::default(), BTreeMap::new());
        let mut seed = 7u64;
        let mut most = 0;
        for turn in 0..40_000i64 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            let slot = (seed >> 33) as SlotId % 300;
            let time = turn / 4 + 1 + (seed >> 50) as i64 % 3_000;
            let before = timers.insert(slot, time);
            let good = |hint: Hint| timers.get(&hint.slot) == Some(&hint.time);
            if let Some(before) = before {
                queue.cancelled(before, good);
            }
            queue.push(Hint {
                time,
                hash: u64::from(slot % 50),
                slot,
                annex: turn as u32,
            });
            queue.settle(good);
            assert_eq!(queue.earliest(), timers.values().min().copied());
            if turn % 500 == 0 {
                fire(&mut queue, &mut timers, turn / 4);
                assert_eq!(queue.earliest(), timers.values().min().copied());
            }
            most = most.max(queue.slots().count());
        }
        assert!(most < 12 * FEW, "{most} hints for 300 timers");
        fire(&mut queue, &mut timers, i64::MAX);
        assert!(timers.is_empty() && queue.slots().next().is_none());
        assert_eq!(queue.earliest(), None);
    }

    #[test]
    fn the_ends_of_time_are_times() {
        let (mut queue, mut timers) = (Queue::default(), BTreeMap::new());
        for (slot, time) in [(1, i64::MAX), (2, i64::MIN), (3, -1), (4, 0)] {
            timers.insert(slot, time);
            queue.push(Hint {
                time,
                hash: 0,
                slot,
                annex: 1,
            });
        }
        assert_eq!(queue.earliest(), Some(i64::MIN));
        for (until, left) in [(i64::MIN, 3), (-1, 2), (i64::MAX - 1, 1), (i64::MAX, 0)] {
            fire(&mut queue, &mut timers, until);
            assert_eq!(timers.len(), left);
            assert_eq!(queue.earliest(), timers.values().min().copied());
        }
    }
}
