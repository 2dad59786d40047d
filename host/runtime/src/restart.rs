//! Restart strategies: what happens after an attempt failed. A machine without clock or randomness of its own.
//!
//! Restarts in a row are counted until [`CONFIRMED_TO_RESET`] checkpoints were confirmed: a job that takes one checkpoint and falls over again
//! is not healthy. What trying again cannot mend is not tried again: permanent errors, and the same error at the same
//! position for the third time. What it counts can be taken out as a [`History`] and be gone on with, by whoever keeps it over the
//! end of a process.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::job::model::Restart;

/// So many confirmed checkpoints make an attempt a good one, and the count of restarts starts over.
pub const CONFIRMED_TO_RESET: u32 = 3;

/// The same error at the same position so often in a row is permanent.
pub const SAME_ERROR_IS_PERMANENT: u32 = 3;

/// A pause varies by up to this share of itself in both directions, so that jobs that failed together do not come back together.
const JITTER_PERCENT: u64 = 10;

/// How an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The error, the same text for the same cause.
    pub text: String,
    /// The record at which it happened; `None` if it had to do with no record. Such errors may pass, however often they repeat.
    pub position: Option<String>,
    /// Whether trying again is pointless in any case.
    pub permanent: bool,
}

/// What to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Begin another attempt after a pause.
    Restart {
        /// The pause.
        after: Duration,
        /// How many restarts in a row this one makes.
        in_a_row: u32,
    },
    /// End the job.
    GiveUp(GiveUp),
}

/// Why a job is not restarted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GiveUp {
    /// Trying again is pointless.
    #[error("trying again would not help")]
    Permanent,
    /// It is the record.
    #[error("the same record failed {times} times, so it is not retried")]
    SameRecord {
        /// How often in a row.
        times: u32,
    },
    /// The job file says so.
    #[error("`restart.strategy` is `none`")]
    NoRestarts,
    /// Too many in a row.
    #[error(
        "{restarts} restart{} in a row did not help (`restart.give_up_after`)",
        if *restarts == 1 { "" } else { "s" }
    )]
    TooMany {
        /// How many.
        restarts: u32,
    },
    /// Too many in a while.
    #[error("{failures} failures within {} s (`restart.failures`)", within.as_secs())]
    TooOften {
        /// How many.
        failures: u32,
        /// In which time.
        within: Duration,
    },
}

/// What was counted so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// Restarts in a row.
    in_a_row: u32,
    /// The last error with a position.
    same: Option<Repeated>,
    /// Ages in milliseconds of the failures that a failure rate counts, the oldest first.
    recent: Vec<u64>,
}

/// An error with a position, and how often it came in a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Repeated {
    text: String,
    position: String,
    times: u32,
}

impl History {
    /// The same after some time in which nothing happened.
    #[must_use]
    pub fn older(mut self, by: Duration) -> History {
        for age in &mut self.recent {
            *age = age.saturating_add(millis(by));
        }
        self
    }

    /// In words, if there is something to say.
    pub fn describe(&self) -> Option<String> {
        let restarts = (self.in_a_row > 0).then(|| format!("{} in a row", self.in_a_row));
        let same = self.same.as_ref().map(|same| {
            let times = if same.times == 1 { "once" } else { "twice" };
            format!("{times} at {}: {}", same.position, same.text)
        });
        let words: Vec<_> = restarts.into_iter().chain(same).collect();
        (!words.is_empty()).then(|| words.join("; "))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Restarts {
    strategy: Restart,
    /// State of the generator of jitter (splitmix64).
    seed: u64,
    in_a_row: u32,
    confirmed: u32,
    /// Times of failures in milliseconds, for the failure rate; below zero for those before the process.
    recent: VecDeque<i64>,
    /// The last error with a position.
    same: Option<Repeated>,
}

impl Restarts {
    /// With nothing failed yet. `seed` decides the jitter.
    pub fn new(strategy: Restart, seed: u64) -> Restarts {
        Restarts {
            strategy,
            seed,
            in_a_row: 0,
            confirmed: 0,
            recent: VecDeque::new(),
            same: None,
        }
    }

    /// Goes on with what was counted before time zero.
    pub fn resume(strategy: Restart, seed: u64, history: History) -> Restarts {
        let recent = history.recent.iter();
        Restarts {
            in_a_row: history.in_a_row,
            recent: recent
                .map(|age| -i64::try_from(*age).unwrap_or(i64::MAX))
                .collect(),
            same: history.same,
            ..Restarts::new(strategy, seed)
        }
    }

    /// What has been counted at time `now`.
    pub fn history(&self, now: Duration) -> History {
        let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let age = |at: &i64| u64::try_from(now.saturating_sub(*at)).unwrap_or(0);
        History {
            in_a_row: self.in_a_row,
            same: self.same.clone(),
            recent: self.recent.iter().map(age).collect(),
        }
    }

    /// Restarts since the job was last in good health.
    pub fn in_a_row(&self) -> u32 {
        self.in_a_row
    }

    /// A checkpoint of the running attempt was confirmed. Whether this started the count over.
    pub fn confirmed(&mut self) -> bool {
        self.confirmed = self.confirmed.saturating_add(1);
        if self.confirmed < CONFIRMED_TO_RESET {
            return false;
        }
        std::mem::take(&mut self.in_a_row) > 0
    }

    /// An attempt failed at time `now` (monotonic, from when this was made).
    pub fn failed(&mut self, now: Duration, failed: &Failed) -> Decision {
        self.confirmed = 0;
        let times = self.times(failed);
        if failed.permanent {
            return Decision::GiveUp(GiveUp::Permanent);
        }
        if times >= SAME_ERROR_IS_PERMANENT {
            return Decision::GiveUp(GiveUp::SameRecord { times });
        }
        let (pause, limit) = match self.strategy {
            Restart::None => return Decision::GiveUp(GiveUp::NoRestarts),
            Restart::Fixed {
                delay,
                give_up_after,
            } => (delay, Some(give_up_after)),
            Restart::Exponential {
                first,
                max,
                give_up_after,
            } => {
                let factor = 1_u32 << self.in_a_row.min(31);
                let pause = first.saturating_mul(factor).min(max);
                (self.jittered(pause).min(max), Some(give_up_after))
            }
            Restart::FailureRate {
                failures,
                within,
                delay,
            } => {
                let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
                self.recent.push_back(now);
                while self
                    .recent
                    .front()
                    .is_some_and(|at| now.saturating_sub(*at).unsigned_abs() > millis(within))
                {
                    self.recent.pop_front();
                }
                let count = u32::try_from(self.recent.len()).unwrap_or(u32::MAX);
                if count > failures {
                    return Decision::GiveUp(GiveUp::TooOften {
                        failures: count,
                        within,
                    });
                }
                (delay, None)
            }
        };
        if limit.is_some_and(|limit| self.in_a_row >= limit) {
            return Decision::GiveUp(GiveUp::TooMany {
                restarts: self.in_a_row,
            });
        }
        self.in_a_row += 1;
        Decision::Restart {
            after: pause,
            in_a_row: self.in_a_row,
        }
    }

    /// How often in a row this very error came at this very position. Confirmed checkpoints between do not matter: none of them
    /// is past the position.
    fn times(&mut self, failed: &Failed) -> u32 {
        let Some(position) = &failed.position else {
            self.same = None;
            return 1;
        };
        let times = match self.same.take() {
            Some(same) if same.text == failed.text && same.position == *position => {
                same.times.saturating_add(1)
            }
            _ => 1,
        };
        self.same = Some(Repeated {
            text: failed.text.clone(),
            position: position.clone(),
            times,
        });
        times
    }

    fn jittered(&mut self, pause: Duration) -> Duration {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.seed;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        let micros = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX / 200);
        let spread = micros / 100 * JITTER_PERCENT;
        Duration::from_micros(micros - spread + bits % (2 * spread + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn passing(text: &str) -> Failed {
        Failed {
            text: text.to_owned(),
            position: None,
            permanent: false,
        }
    }

    fn at(text: &str, position: &str) -> Failed {
        Failed {
            position: Some(position.to_owned()),
            ..passing(text)
        }
    }

    fn pause(decision: &Decision) -> Option<Duration> {
        match decision {
            Decision::Restart { after, .. } => Some(*after),
            Decision::GiveUp(_) => None,
        }
    }

    #[test]
    fn without_restarts_the_first_failure_ends_the_job() {
        let mut restarts = Restarts::new(Restart::None, 0);
        let decision = restarts.failed(SECOND, &passing("x"));
        assert_eq!(decision, Decision::GiveUp(GiveUp::NoRestarts));
    }

    #[test]
    fn three_confirmed_checkpoints_start_the_count_over_and_two_do_not() {
        let strategy = Restart::Fixed {
            delay: SECOND,
            give_up_after: 2,
        };
        for (confirmed, survives) in [(2, false), (3, true)] {
            let mut restarts = Restarts::new(strategy.clone(), 0);
            assert_eq!(pause(&restarts.failed(SECOND, &passing("x"))), Some(SECOND));
            assert_eq!(pause(&restarts.failed(SECOND, &passing("x"))), Some(SECOND));
            for _ in 0..confirmed {
                restarts.confirmed();
            }
            let decision = restarts.failed(SECOND, &passing("x"));
            assert_eq!(pause(&decision).is_some(), survives, "{decision:?}");
        }
        // Two in one attempt and two in the next are not three.
        let mut restarts = Restarts::new(strategy, 0);
        for _ in 0..2 {
            restarts.confirmed();
            restarts.confirmed();
            restarts.failed(SECOND, &passing("x"));
        }
        let decision = restarts.failed(SECOND, &passing("x"));
        assert_eq!(decision, Decision::GiveUp(GiveUp::TooMany { restarts: 2 }));
    }

    #[test]
    fn pauses_double_within_their_jitter_up_to_the_longest_and_a_seed_repeats_them() {
        let strategy = Restart::Exponential {
            first: SECOND,
            max: 10 * SECOND,
            give_up_after: 100,
        };
        let run = |seed| {
            let mut restarts = Restarts::new(strategy.clone(), seed);
            (0..40)
                .map(|_| pause(&restarts.failed(SECOND, &passing("x"))).expect("a restart"))
                .collect::<Vec<_>>()
        };
        let pauses = run(7);
        assert_eq!(pauses, run(7));
        assert_ne!(pauses, run(8));
        for (k, pause) in pauses.iter().enumerate() {
            let exact = (SECOND * (1 << k.min(10))).min(10 * SECOND);
            assert!(
                *pause >= exact.mul_f64(0.899) && *pause <= exact.mul_f64(1.101),
                "{k}"
            );
            assert!(*pause <= 10 * SECOND);
        }
    }

    #[test]
    fn a_failure_rate_forgets_what_is_long_ago() {
        let strategy = Restart::FailureRate {
            failures: 2,
            within: 60 * SECOND,
            delay: SECOND,
        };
        let mut restarts = Restarts::new(strategy, 0);
        for second in [0, 30, 61, 120] {
            let decision = restarts.failed(second * SECOND, &passing("x"));
            assert_eq!(pause(&decision), Some(SECOND), "at {second} s");
        }
        let decision = restarts.failed(121 * SECOND, &passing("x"));
        let too_often = GiveUp::TooOften {
            failures: 3,
            within: 60 * SECOND,
        };
        assert_eq!(decision, Decision::GiveUp(too_often));
    }

    #[test]
    fn the_same_record_a_third_time_is_permanent_whatever_was_confirmed_between() {
        let mut restarts = Restarts::new(Restart::default(), 0);
        for _ in 0..2 {
            assert!(pause(&restarts.failed(SECOND, &at("trap", "f:12"))).is_some());
            for _ in 0..5 {
                restarts.confirmed();
            }
        }
        let decision = restarts.failed(SECOND, &at("trap", "f:12"));
        assert_eq!(decision, Decision::GiveUp(GiveUp::SameRecord { times: 3 }));
    }

    #[test]
    fn another_text_another_position_or_none_is_not_the_same_record() {
        let mut restarts = Restarts::new(Restart::default(), 0);
        let sequence = [
            at("trap", "f:12"),
            at("trap", "f:12"),
            at("trap", "f:13"),
            at("trap", "f:13"),
            at("other", "f:13"),
            passing("disk full"),
            passing("disk full"),
            passing("disk full"),
            passing("disk full"),
        ];
        for failed in &sequence {
            assert!(
                pause(&restarts.failed(SECOND, failed)).is_some(),
                "{failed:?}"
            );
        }
    }

    #[test]
    fn a_history_that_is_gone_on_with_decides_as_if_nothing_had_come_between() {
        let strategies = [
            Restart::default(),
            Restart::Fixed {
                delay: SECOND,
                give_up_after: 2,
            },
            Restart::FailureRate {
                failures: 2,
                within: 60 * SECOND,
                delay: SECOND,
            },
        ];
        let failures = [
            passing("x"),
            at("trap", "f:12"),
            at("trap", "f:12"),
            at("trap", "f:12"),
        ];
        for strategy in strategies {
            let mut whole = Restarts::new(strategy.clone(), 0);
            let mut history = History::default();
            for (index, failed) in failures.iter().enumerate() {
                let now = SECOND * index as u32;
                // A process of its own for each failure, a second between them.
                let mut part = Restarts::resume(strategy.clone(), 0, history.older(SECOND));
                let (whole, part_decides) = (
                    whole.failed(now, failed),
                    part.failed(Duration::ZERO, failed),
                );
                match (&whole, &part_decides) {
                    (
                        Decision::Restart { in_a_row: a, .. },
                        Decision::Restart { in_a_row: b, .. },
                    ) => assert_eq!(a, b),
                    _ => assert_eq!(whole, part_decides),
                }
                history = part.history(Duration::ZERO);
                let text = serde_json::to_string(&history).expect("plain data");
                assert_eq!(
                    serde_json::from_str::<History>(&text).expect("its own"),
                    history
                );
            }
        }
        // What is long ago is forgotten over processes, too.
        let rate = Restart::FailureRate {
            failures: 1,
            within: 60 * SECOND,
            delay: SECOND,
        };
        let mut first = Restarts::new(rate.clone(), 0);
        first.failed(SECOND, &passing("x"));
        let history = first.history(2 * SECOND);
        for (away, survives) in [(58 * SECOND, false), (60 * SECOND, true)] {
            let mut next = Restarts::resume(rate.clone(), 0, history.clone().older(away));
            let decision = next.failed(SECOND / 2, &passing("x"));
            assert_eq!(
                pause(&decision).is_some(),
                survives,
                "{away:?}: {decision:?}"
            );
        }
    }

    #[test]
    fn a_permanent_error_is_not_retried() {
        let mut restarts = Restarts::new(Restart::default(), 0);
        let failed = Failed {
            permanent: true,
            ..passing("taken over")
        };
        assert_eq!(
            restarts.failed(SECOND, &failed),
            Decision::GiveUp(GiveUp::Permanent)
        );
    }
}
