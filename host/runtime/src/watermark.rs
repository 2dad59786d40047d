//! Watermarks: bounded disorder within a split, the minimum over splits and channels. Pure state machines.

use std::collections::BTreeMap;

use crate::batch::NO_TIME;

/// The watermark that a highest timestamp of `max` allows under a disorder of at most `bound` ms: max - bound - 1 ms.
///
/// A record exactly `bound` behind the highest one is therefore still in time.
pub fn bounded(max: i64, bound: i64) -> i64 {
    if max == NO_TIME {
        NO_TIME
    } else {
        max.saturating_sub(bound).saturating_sub(1)
    }
}

/// The watermark of a source subtask: the minimum over its open splits, and never back.
#[derive(Debug)]
pub struct SplitWatermarks {
    bound: i64,
    splits: BTreeMap<u32, Split>,
    current: i64,
}

#[derive(Debug)]
struct Split {
    max: i64,
    open: bool,
    /// It has had nothing to read for a while.
    idle: bool,
}

impl SplitWatermarks {
    /// For a disorder of at most `bound` ms.
    pub fn new(bound: i64) -> SplitWatermarks {
        SplitWatermarks {
            bound,
            splits: BTreeMap::new(),
            current: NO_TIME,
        }
    }

    /// Takes over what a checkpoint knows of a split; it holds nothing back until it is opened.
    pub fn restore(&mut self, split: u32, max: i64) {
        let new = Split {
            max,
            open: false,
            idle: false,
        };
        self.splits.insert(split, new);
    }

    /// The split is being read: it holds the watermark from now on.
    pub fn open(&mut self, split: u32) {
        self.splits
            .entry(split)
            .or_insert(Split {
                max: NO_TIME,
                open: true,
                idle: false,
            })
            .open = true;
    }

    /// The split is read to its end: it holds nothing back. What it has said counts, however short it was open.
    pub fn done(&mut self, split: u32) {
        self.current();
        if let Some(split) = self.splits.get_mut(&split) {
            split.open = false;
        }
    }

    /// The split has nothing to read just now: it holds nothing back until its next record. What it has said counts.
    pub fn idle(&mut self, split: u32) {
        self.current();
        if let Some(split) = self.splits.get_mut(&split) {
            split.idle = true;
        }
    }

    /// A record of the split has this timestamp.
    pub fn seen(&mut self, split: u32, time: i64) {
        match self.splits.get_mut(&split) {
            Some(split) => {
                split.max = split.max.max(time);
                split.idle = false;
            }
            None => {
                self.splits.insert(
                    split,
                    Split {
                        max: time,
                        open: true,
                        idle: false,
                    },
                );
            }
        }
    }

    /// The highest timestamp seen of a split, [`NO_TIME`] for none.
    pub fn max_time(&self, split: u32) -> i64 {
        self.splits.get(&split).map_or(NO_TIME, |split| split.max)
    }

    /// Whether a split is open.
    pub fn any_open(&self) -> bool {
        self.splits.values().any(|split| split.open)
    }

    /// The watermark now. It stays where it is while no split is open, or all are idle.
    pub fn current(&mut self) -> i64 {
        let lowest = self
            .splits
            .values()
            .filter(|split| split.open && !split.idle)
            .map(|split| bounded(split.max, self.bound))
            .min();
        self.current = self.current.max(lowest.unwrap_or(NO_TIME));
        self.current
    }
}

/// What an input channel last said about time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    At(i64),
    Idle(i64),
    Ended,
}

/// What a merge passes on, the watermark first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// The task's watermark advanced to this.
    pub watermark: Option<i64>,
    /// Every channel that has not ended is idle, and so is the task from now on.
    pub idle: bool,
}

/// Merges the watermarks of a task's input channels by minimum, idle ones left out.
#[derive(Debug)]
pub struct WatermarkMerge {
    channels: Vec<Channel>,
    current: i64,
    idle: bool,
}

impl WatermarkMerge {
    /// For `channels` channels, starting at `current` (that of the restored snapshot, [`NO_TIME`] on a fresh start).
    pub fn new(channels: usize, current: i64) -> WatermarkMerge {
        WatermarkMerge {
            channels: vec![Channel::At(NO_TIME); channels],
            current,
            idle: false,
        }
    }

    /// The task's watermark.
    pub fn current(&self) -> i64 {
        self.current
    }

    /// A watermark came in. One that lies behind the channel's last is ignored.
    pub fn on_watermark(&mut self, channel: usize, watermark: i64) -> Merged {
        match &mut self.channels[channel] {
            Channel::At(at) if *at >= watermark => return Merged::default(),
            Channel::Idle(at) => {
                let at = (*at).max(watermark);
                self.channels[channel] = Channel::At(at);
            }
            Channel::At(at) => *at = watermark,
            Channel::Ended => return Merged::default(),
        }
        self.merge()
    }

    /// A batch came in: the channel is not idle any more. Says whether the task was idle until now, and its consumers must be told.
    pub fn on_records(&mut self, channel: usize) -> bool {
        if let Channel::Idle(at) = self.channels[channel] {
            self.channels[channel] = Channel::At(at);
            return std::mem::replace(&mut self.idle, false);
        }
        false
    }

    /// The channel has nothing to deliver for now.
    pub fn on_idle(&mut self, channel: usize) -> Merged {
        if let Channel::At(at) = self.channels[channel] {
            self.channels[channel] = Channel::Idle(at);
        }
        self.merge()
    }

    /// The channel ended. The end of the last one is the caller's to handle: it advances to the end of time.
    pub fn on_end(&mut self, channel: usize) -> Merged {
        self.channels[channel] = Channel::Ended;
        self.merge()
    }

    fn merge(&mut self) -> Merged {
        let mut active = None;
        let mut idle = None;
        for channel in &self.channels {
            match channel {
                Channel::At(at) => active = Some(active.map_or(*at, |lowest: i64| lowest.min(*at))),
                Channel::Idle(at) => idle = Some(idle.map_or(*at, |highest: i64| highest.max(*at))),
                Channel::Ended => {}
            }
        }
        // With every channel idle nothing holds back what the furthest of them has said, whichever became idle last.
        let reached = active.or(idle).unwrap_or(NO_TIME);
        let was_idle = std::mem::replace(&mut self.idle, active.is_none() && idle.is_some());
        let advanced = reached > self.current;
        self.current = self.current.max(reached);
        Merged {
            watermark: advanced.then_some(reached),
            idle: self.idle && !was_idle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bounded_disorder_keeps_a_record_exactly_at_the_bound_in_time() {
        // A record is late if its time is at or below the watermark.
        assert_eq!(bounded(1_000, 100), 899);
        assert_eq!(bounded(NO_TIME, 100), NO_TIME);
        assert_eq!(bounded(i64::MIN + 5, 100), i64::MIN);
        assert_eq!(bounded(0, 0), -1);
    }

    #[test]
    fn an_idle_split_holds_nothing_until_its_next_record() {
        let mut splits = SplitWatermarks::new(0);
        splits.open(0);
        splits.open(1);
        splits.seen(0, 900);
        assert_eq!(splits.current(), NO_TIME);
        splits.idle(1);
        assert_eq!(splits.current(), 899);
        splits.seen(1, 500);
        splits.seen(0, 1_000);
        assert_eq!(splits.current(), 899, "it never goes back");
        splits.seen(1, 950);
        assert_eq!(splits.current(), 949);
        splits.idle(0);
        splits.idle(1);
        assert_eq!(splits.current(), 949, "all are idle");
        assert!(splits.any_open());
    }

    #[test]
    fn an_unopened_split_holds_nothing_and_a_done_one_holds_no_longer() {
        let mut splits = SplitWatermarks::new(0);
        splits.restore(0, NO_TIME);
        splits.restore(1, 500);
        assert_eq!(splits.current(), NO_TIME);
        splits.open(1);
        assert_eq!(splits.current(), 499);
        splits.open(0);
        splits.seen(1, 900);
        assert_eq!(
            splits.current(),
            499,
            "split 0 is open and has seen nothing; the watermark stays"
        );
        splits.seen(0, 600);
        assert_eq!(splits.current(), 599);
        splits.done(0);
        assert_eq!(splits.current(), 899);
        splits.done(1);
        assert_eq!(splits.current(), 899);
        // Opened, read and done between two looks at the watermark.
        splits.open(2);
        splits.seen(2, 2_000);
        assert!(splits.any_open());
        splits.done(2);
        assert_eq!(splits.current(), 1_999);
        assert!(!splits.any_open());
    }

    const NOTHING: Merged = Merged {
        watermark: None,
        idle: false,
    };
    const IDLE: Merged = Merged {
        watermark: None,
        idle: true,
    };

    fn advanced(to: i64) -> Merged {
        Merged {
            watermark: Some(to),
            idle: false,
        }
    }

    #[test]
    fn idle_channels_do_not_hold_and_come_back() {
        let mut merge = WatermarkMerge::new(2, NO_TIME);
        assert_eq!(merge.on_watermark(0, 10), NOTHING);
        assert_eq!(merge.on_idle(1), advanced(10));
        assert!(!merge.on_records(1), "the task itself was never idle");
        assert_eq!(
            merge.on_watermark(0, 20),
            NOTHING,
            "channel 1 is back and has said nothing"
        );
        assert_eq!(merge.on_watermark(1, 15), advanced(15));
        assert_eq!(merge.on_idle(0), NOTHING);
        assert_eq!(
            merge.on_idle(1),
            Merged {
                watermark: Some(20),
                idle: true
            }
        );
        assert_eq!(merge.on_idle(1), NOTHING, "said once");
        assert!(merge.on_records(1), "and it is active again");
        assert_eq!(merge.on_watermark(1, 30), advanced(30), "and it resumes");
    }

    #[test]
    fn with_every_channel_idle_the_order_of_idling_does_not_matter() {
        for order in [[0, 1], [1, 0]] {
            let mut merge = WatermarkMerge::new(2, NO_TIME);
            merge.on_watermark(0, 100);
            merge.on_watermark(1, 50);
            for channel in order {
                merge.on_idle(channel);
            }
            assert_eq!(merge.current(), 100, "{order:?}");
        }
    }

    #[test]
    fn a_watermark_that_says_nothing_new_ends_idleness() {
        let mut merge = WatermarkMerge::new(1, NO_TIME);
        merge.on_watermark(0, 5);
        assert_eq!(merge.on_idle(0), IDLE);
        assert_eq!(merge.on_watermark(0, 5), NOTHING);
        assert_eq!(
            merge.on_idle(0),
            IDLE,
            "idle once more, so it was active in between"
        );
    }

    #[test]
    fn a_restored_watermark_is_the_floor() {
        let mut merge = WatermarkMerge::new(1, 100);
        assert_eq!(merge.on_watermark(0, 50), NOTHING);
        assert_eq!(merge.current(), 100);
        assert_eq!(merge.on_watermark(0, 101), advanced(101));
    }

    proptest! {
        /// The merged watermark never goes back and never passes the lowest of the channels that are neither idle nor ended.
        #[test]
        fn merging_is_monotone_and_safe(
            channels in 1_usize..5,
            events in proptest::collection::vec((0_usize..5, 0_u8..4, -50_i64..50), 0..200),
        ) {
            let mut merge = WatermarkMerge::new(channels, NO_TIME);
            let mut model: Vec<(i64, bool, bool)> = vec![(NO_TIME, false, false); channels];
            let mut last = NO_TIME;
            for (channel, kind, time) in events {
                let channel = channel % channels;
                if model[channel].2 { continue; }
                let out = match kind {
                    0 | 1 => {
                        model[channel].0 = model[channel].0.max(time);
                        // A watermark that says nothing new does not end idleness on its own.
                        model[channel].1 = false;
                        merge.on_watermark(channel, time)
                    }
                    2 => { model[channel].1 = true; merge.on_idle(channel) }
                    _ => { model[channel].2 = true; merge.on_end(channel) }
                };
                if let Some(at) = out.watermark {
                    prop_assert!(at > last);
                    last = at;
                }
                prop_assert_eq!(merge.current(), last);
                let lowest = model.iter().filter(|c| !c.1 && !c.2).map(|c| c.0).min();
                if let (Some(lowest), Some(at)) = (lowest, out.watermark) {
                    prop_assert!(at <= lowest);
                    prop_assert_eq!(at, lowest, "and it is not held back longer than needed");
                }
            }
        }
    }
}
