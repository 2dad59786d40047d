//! Barrier alignment: a pure state machine, one a task.
//!
//! A task passes barrier n downstream when it has come in on every input channel. Under exactly once a channel that has
//! delivered it is *blocked* until then, so that nothing after the barrier reaches the state that the barrier freezes
//! (Chandy and Lamport 1985, in the form of Carbone et al. 2015). Under the weaker guarantees nothing is blocked. A channel that
//! has ended counts as having delivered every barrier.

use std::collections::BTreeMap;

use crate::channel::Barrier;

/// The state of one task's alignment.
#[derive(Debug)]
pub struct Alignment {
    blocking: bool,
    ended: Vec<bool>,
    /// Barriers that some channel has delivered and some other has not, by number, with who has.
    pending: BTreeMap<u64, (Barrier, Vec<bool>)>,
    /// The last barrier passed on.
    passed: Option<u64>,
}

/// What to do after an event.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Barriers to pass on now, in order: snapshot, then forward.
    pub complete: Vec<Barrier>,
    /// Whether the channel of the event is now blocked.
    pub block: bool,
    /// Whether every channel is to be unblocked (after passing `complete` on).
    pub unblock: bool,
}

impl Alignment {
    /// For a task with `channels` input channels.
    pub fn new(channels: usize, blocking: bool) -> Alignment {
        Alignment {
            blocking,
            ended: vec![false; channels],
            pending: BTreeMap::new(),
            passed: None,
        }
    }

    /// `channel` delivered `barrier`.
    pub fn on_barrier(&mut self, channel: usize, barrier: Barrier) -> Outcome {
        if self.passed.is_some_and(|passed| barrier.n <= passed) {
            return Outcome::default();
        }
        let channels = self.ended.len();
        let (_, seen) = self
            .pending
            .entry(barrier.n)
            .or_insert_with(|| (barrier, vec![false; channels]));
        seen[channel] = true;
        let mut outcome = self.complete();
        outcome.block = self.blocking && outcome.complete.is_empty();
        outcome
    }

    /// `channel` ended.
    pub fn on_end(&mut self, channel: usize) -> Outcome {
        self.ended[channel] = true;
        self.complete()
    }

    /// Whether every channel has ended.
    pub fn all_ended(&self) -> bool {
        self.ended.iter().all(|ended| *ended)
    }

    fn complete(&mut self) -> Outcome {
        // With every channel ended the task ends too: its last snapshot answers for any barrier.
        if self.all_ended() {
            self.pending.clear();
            return Outcome {
                unblock: true,
                ..Outcome::default()
            };
        }
        let mut complete = Vec::new();
        while let Some(entry) = self.pending.first_entry() {
            let (barrier, seen) = entry.get();
            if !seen
                .iter()
                .zip(&self.ended)
                .all(|(seen, ended)| *seen || *ended)
            {
                break;
            }
            self.passed = Some(barrier.n);
            complete.push(*barrier);
            entry.remove();
        }
        Outcome {
            unblock: !complete.is_empty() && self.blocking,
            block: false,
            complete,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn barrier(n: u64) -> Barrier {
        Barrier {
            n,
            last: false,
            base: 0,
        }
    }

    #[test]
    fn the_last_channel_completes_and_unblocks() {
        let mut alignment = Alignment::new(3, true);
        assert!(alignment.on_barrier(0, barrier(1)).block);
        assert!(alignment.on_barrier(2, barrier(1)).block);
        let outcome = alignment.on_barrier(1, barrier(1));
        assert_eq!(
            outcome,
            Outcome {
                complete: vec![barrier(1)],
                block: false,
                unblock: true
            }
        );
    }

    #[test]
    fn an_ended_channel_counts_as_aligned_before_and_after() {
        let mut alignment = Alignment::new(2, true);
        alignment.on_end(0);
        assert_eq!(
            alignment.on_barrier(1, barrier(4)).complete,
            vec![barrier(4)]
        );

        let mut alignment = Alignment::new(2, true);
        assert!(alignment.on_barrier(1, barrier(4)).block);
        assert_eq!(alignment.on_end(0).complete, vec![barrier(4)]);
    }

    #[test]
    fn when_everything_has_ended_no_barrier_is_passed_on() {
        let mut alignment = Alignment::new(2, true);
        alignment.on_barrier(0, barrier(1));
        alignment.on_end(1);
        let mut alignment = Alignment::new(1, true);
        assert_eq!(
            alignment.on_end(0),
            Outcome {
                unblock: true,
                ..Outcome::default()
            }
        );
    }

    proptest! {
        /// Whatever the interleaving of channels, each barrier is passed on once, in order, exactly when every live channel has
        /// delivered it, and a blocked channel's later elements are never needed for it.
        #[test]
        fn each_barrier_passes_once_in_order(
            channels in 1_usize..5,
            barriers in 1_u64..6,
            ends in proptest::collection::vec(0_u64..8, 5),
            picks in proptest::collection::vec(0_usize..1000, 0..200),
            blocking: bool,
        ) {
            let mut alignment = Alignment::new(channels, blocking);
            // Channel c delivers barriers 1..=min(barriers, ends[c]) and then its end.
            let mut at = vec![0_u64; channels];
            let mut blocked = vec![false; channels];
            let mut ended = vec![false; channels];
            let mut passed = Vec::new();
            let drive = |channel: usize,
                             at: &mut Vec<u64>,
                             blocked: &mut Vec<bool>,
                             ended: &mut Vec<bool>,
                             passed: &mut Vec<u64>,
                             alignment: &mut Alignment| {
                if ended[channel] || (blocking && blocked[channel]) {
                    return;
                }
                let outcome = if at[channel] < barriers.min(ends[channel]) {
                    at[channel] += 1;
                    alignment.on_barrier(channel, barrier(at[channel]))
                } else {
                    ended[channel] = true;
                    alignment.on_end(channel)
                };
                if outcome.block { blocked[channel] = true; }
                for complete in outcome.complete {
                    // Complete only if everybody has delivered it or ended.
                    assert!((0..channels).all(|c| ended[c] || at[c] >= complete.n));
                    if blocking {
                        assert!((0..channels).all(|c| ended[c] || at[c] == complete.n));
                    }
                    passed.push(complete.n);
                }
                if outcome.unblock { blocked.fill(false); }
            };
            for pick in picks {
                drive(pick % channels, &mut at, &mut blocked, &mut ended, &mut passed, &mut alignment);
            }
            for _ in 0..100 {
                for channel in 0..channels {
                    drive(channel, &mut at, &mut blocked, &mut ended, &mut passed, &mut alignment);
                }
            }
            prop_assert!(ended.iter().all(|ended| *ended), "nothing is blocked for ever");
            // Everything that any channel delivered before the last one ended may be passed; it comes once and in order.
            let mut sorted = passed.clone();
            sorted.sort_unstable();
            sorted.dedup();
            prop_assert_eq!(&sorted, &passed);
            let all = (0..channels).map(|c| barriers.min(ends[c])).min().unwrap_or(0);
            prop_assert!(passed.len() as u64 >= all.saturating_sub(1) || all == 0);
        }
    }
}
