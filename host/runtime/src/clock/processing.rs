//! Processing time: the wall clock, as far as it can be trusted.
//!
//! Operators judge times to live and processing-time timers by it, so a wall clock that is set wrong would expire all that a job knows.
//! Processing time follows the wall clock while that goes on about as fast as the monotonic one. A wall clock that jumps by more than
//! [`TOLERANCE`] is not followed: processing time goes on by the monotonic clock, as if nothing had happened, until the wall clock
//! is back where it should be or somebody says that it is right. So it never goes back, and nothing stops meanwhile.
//!
//! Checkpoints hold both clocks. A start knows from them whether the wall clock is behind the job, which is held as well, and
//! goes on holding what was held.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{now, wall_millis};

/// What a wall clock may be off at once: it is set by minutes where it has drifted, and by hours where something is wrong.
pub const TOLERANCE: Duration = Duration::from_secs(5 * 60);

/// How often it is repeated that the clock is held.
const REPEAT: Duration = Duration::from_secs(10 * 60);

/// Both clocks at one moment, in milliseconds since the epoch: what a checkpoint says of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The wall clock.
    pub wall: i64,
    /// Processing time.
    pub processing: i64,
}

/// The clock without its sources: `monotonic` is milliseconds since some moment.
#[derive(Clone, Debug)]
struct Core {
    /// Processing time less `monotonic` at the last reading.
    base: i64,
    /// The last one given.
    last: i64,
    held: bool,
}

fn tolerance() -> i64 {
    i64::try_from(TOLERANCE.as_millis()).unwrap_or(i64::MAX)
}

fn differ(one: i64, other: i64) -> bool {
    one.abs_diff(other) > tolerance().unsigned_abs()
}

impl Core {
    fn new(wall: i64, monotonic: i64) -> Core {
        Core {
            base: wall.saturating_sub(monotonic),
            last: wall,
            held: false,
        }
    }

    fn read(&mut self, wall: i64, monotonic: i64) -> i64 {
        let steady = self.base.saturating_add(monotonic);
        self.held = differ(wall, steady);
        let time = if self.held {
            steady
        } else {
            self.base = wall.saturating_sub(monotonic);
            wall
        };
        self.last = self.last.max(time);
        self.last
    }

    /// Goes on from a checkpoint of an earlier process. Before the first reading: what was given once holds.
    fn resume(&mut self, then: Reading, wall: i64, monotonic: i64) {
        let away = wall.saturating_sub(then.wall);
        let was_held = differ(then.wall, then.processing);
        // The wall clock goes on from where it was wrong, or has not caught up with what it once showed.
        let still_wrong =
            was_held && away >= 0 && (then.processing < then.wall || wall < then.processing);
        let at_least = if still_wrong {
            then.processing.saturating_add(away)
        } else {
            then.processing
        };
        if still_wrong || differ(wall, at_least) && wall < at_least {
            self.base = at_least.saturating_sub(monotonic);
            self.last = at_least;
            self.held = true;
        } else {
            self.last = self.last.max(at_least);
        }
    }
}

/// See the module. Shared by all tasks of a job, over all its attempts.
#[derive(Debug)]
pub struct ProcessingClock {
    began: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    core: Core,
    said: Option<Instant>,
}

impl Default for ProcessingClock {
    fn default() -> Self {
        ProcessingClock::new()
    }
}

impl ProcessingClock {
    /// A clock that shows what the wall clock does.
    pub fn new() -> ProcessingClock {
        ProcessingClock {
            began: now(),
            state: Mutex::new(State {
                core: Core::new(wall_millis(), 0),
                said: None,
            }),
        }
    }

    fn monotonic(&self) -> i64 {
        let since = now().saturating_duration_since(self.began);
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn with<T>(&self, f: impl FnOnce(&mut State, i64, i64) -> T) -> T {
        // A panic elsewhere leaves a clock that still goes.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Both are read under the lock, so that no reading is older than one that was given.
        f(&mut state, wall_millis(), self.monotonic())
    }

    /// Processing time in milliseconds since the epoch; never less than before.
    pub fn read(&self) -> i64 {
        self.with(|state, wall, monotonic| state.core.read(wall, monotonic))
    }

    /// Both clocks, for a checkpoint.
    pub fn reading(&self) -> Reading {
        self.with(|state, wall, monotonic| Reading {
            wall,
            processing: state.core.read(wall, monotonic),
        })
    }

    /// Goes on from the clocks of a checkpoint that an earlier process took. Before anything is read: between attempts of one process the
    /// clock goes on by itself.
    pub fn resume(&self, then: Reading) {
        self.with(|state, wall, monotonic| state.core.resume(then, wall, monotonic));
    }

    /// What is to be said, now and then, while the wall clock is not followed: the message of W0528.
    pub fn complaint(&self) -> Option<String> {
        self.with(|state, wall, monotonic| {
            let processing = state.core.read(wall, monotonic);
            if !state.core.held {
                state.said = None;
                return None;
            }
            let now = now();
            if state
                .said
                .is_some_and(|said| now.saturating_duration_since(said) < REPEAT)
            {
                return None;
            }
            state.said = Some(now);
            let seconds = wall.abs_diff(processing) / 1_000;
            let (direction, off) = (
                if wall > processing { "ahead of" } else { "behind" },
                format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
            );
            Some(format!(
                "the wall clock is {off} {direction} the job's processing time, which is more than a clock is set by; \
                 it is not followed, so that nothing expires too early\n  \
                 help: correct the clock; if it is right, stop the job and start it with `--accept-clock`"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;
    const HOUR: i64 = 60 * MINUTE;
    const T: i64 = 1_764_000_000_000;

    #[test]
    fn a_wall_clock_that_goes_on_is_followed_and_small_steps_back_wait() {
        let mut core = Core::new(T, 0);
        assert_eq!(core.read(T + 10, 10), T + 10);
        // An hour without a reading is no jump.
        assert_eq!(core.read(T + HOUR, HOUR), T + HOUR);
        // Set forward by four minutes, then back by four.
        assert_eq!(
            core.read(T + HOUR + 4 * MINUTE, HOUR),
            T + HOUR + 4 * MINUTE
        );
        assert_eq!(core.read(T + HOUR + 1, HOUR + 1), T + HOUR + 4 * MINUTE);
        assert!(!core.held);
        // It waits there until the wall clock has caught up.
        let later = HOUR + 5 * MINUTE;
        assert_eq!(core.read(T + later, later), T + later);
    }

    #[test]
    fn a_jump_is_not_followed_in_either_direction_and_time_goes_on() {
        for jump in [
            6 * MINUTE,
            10 * 365 * 24 * HOUR,
            -6 * MINUTE,
            -30 * 365 * 24 * HOUR,
        ] {
            let mut core = Core::new(T, 0);
            assert_eq!(core.read(T + jump, 1_000), T + 1_000, "{jump}");
            assert!(core.held);
            assert_eq!(core.read(T + jump + HOUR, HOUR), T + HOUR, "{jump}");
            // It was corrected.
            assert_eq!(
                core.read(T + 2 * HOUR + 7, 2 * HOUR),
                T + 2 * HOUR + 7,
                "{jump}"
            );
            assert!(!core.held);
        }
    }

    #[test]
    fn many_small_steps_add_up_and_are_followed() {
        let mut core = Core::new(T, 0);
        for step in 1..=20 {
            let wall = T + step * 4 * MINUTE;
            assert_eq!(core.read(wall, step), wall);
        }
        assert!(!core.held);
    }

    #[test]
    fn what_was_given_is_never_taken_back() {
        let mut core = Core::new(T, 0);
        let mut last = i64::MIN;
        // Any walls at all, over a monotonic clock.
        let mut bits = 7_u64;
        for monotonic in 0..10_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let wall = match bits >> 61 {
                0 => i64::MIN,
                1 => i64::MAX,
                _ => T + (bits >> 40) as i64 % (20 * MINUTE) - 10 * MINUTE,
            };
            let time = core.read(wall, monotonic);
            assert!(time >= last, "{time} after {last}");
            last = time;
        }
    }

    fn resumed(then: Reading, wall: i64) -> Core {
        let mut core = Core::new(wall, 0);
        core.resume(then, wall, 0);
        core
    }

    #[test]
    fn a_start_follows_the_wall_clock_however_long_the_job_was_away_but_not_back_behind_its_checkpoint()
     {
        let then = Reading {
            wall: T,
            processing: T,
        };
        assert_eq!(
            resumed(then, T + 1_000 * HOUR).read(T + 1_000 * HOUR, 0),
            T + 1_000 * HOUR
        );
        // A little behind waits.
        let mut core = resumed(then, T - MINUTE);
        assert_eq!(core.read(T - MINUTE, 0), T);
        assert!(!core.held);
        assert_eq!(core.read(T + MINUTE, 2 * MINUTE), T + MINUTE);
        // Far behind is held, and time goes on from the checkpoint's.
        let mut core = resumed(then, T - HOUR);
        assert_eq!(core.read(T - HOUR, 0), T);
        assert!(core.held);
        assert_eq!(core.read(T - HOUR + MINUTE, MINUTE), T + MINUTE);
    }

    #[test]
    fn what_was_held_at_the_checkpoint_is_held_after_a_start_until_the_clock_is_corrected() {
        let ahead = Reading {
            wall: T + 100 * HOUR,
            processing: T,
        };
        let mut core = resumed(ahead, T + 101 * HOUR);
        assert_eq!(core.read(T + 101 * HOUR, 0), T + HOUR);
        assert!(core.held);
        // Corrected while the job was away.
        let mut core = resumed(ahead, T + HOUR);
        assert_eq!(core.read(T + HOUR, 0), T + HOUR);
        assert!(!core.held);
        let behind = Reading {
            wall: T - 100 * HOUR,
            processing: T,
        };
        let mut core = resumed(behind, T - 99 * HOUR);
        assert_eq!(core.read(T - 99 * HOUR, 0), T + HOUR);
        assert!(core.held);
        let mut core = resumed(behind, T + 2 * HOUR);
        assert_eq!(core.read(T + 2 * HOUR, 0), T + 2 * HOUR);
        assert!(!core.held);
    }
}
