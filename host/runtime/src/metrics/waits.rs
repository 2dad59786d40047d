//! Where a task's time goes: it waits for input, it waits for room downstream, or it works.
//!
//! Only waits are measured, at the places where a thread goes to sleep anyway; what is left is work. So a busy task reads no clock.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use crate::clock;

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Input: it is idle.
    Input,
    /// Room in the inbox of this task: it is backpressured.
    Room(u32),
    /// Whatever a sink writes to, which takes no more for now or has not acknowledged all: it is backpressured.
    Destination,
}

/// Where a task's time went since it was made, and what it waits for now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Time at work.
    pub busy: Duration,
    /// Time without input.
    pub idle: Duration,
    /// Time without room downstream.
    pub backpressured: Duration,
    /// What it waits for, and since when.
    pub waiting: Option<(Waiting, Duration)>,
}

/// No wait is in progress.
const NONE: u64 = 0;

/// Stands for [`Waiting::Destination`] in place of a task.
const DESTINATION: u32 = u32::MAX;

/// Tries of a [look](Waits::look) that come right after each other; later ones let the writer go on first.
const SPINS: u32 = 50;

/// Tries of a look.
const TRIES: u32 = 1_000;

/// The accounts of one task. One thread writes; any may [look](Waits::look).
#[derive(Debug)]
pub struct Waits {
    made: u64,
    /// Counts changes of what follows, one when it begins and one when it is over: odd while one is under way.
    changes: AtomicU64,
    /// [`NONE`], or twice the time the wait began, plus one if it is for room.
    now: AtomicU64,
    /// Whose room.
    target: AtomicU32,
    idle: AtomicU64,
    backpressured: AtomicU64,
}

impl Default for Waits {
    fn default() -> Self {
        Waits {
            made: clock::nanos(),
            changes: AtomicU64::new(0),
            now: AtomicU64::new(NONE),
            target: AtomicU32::new(0),
            idle: AtomicU64::new(0),
            backpressured: AtomicU64::new(0),
        }
    }
}

impl Waits {
    fn change(&self, change: impl FnOnce()) {
        self.changes.fetch_add(1, SeqCst);
        change();
        self.changes.fetch_add(1, SeqCst);
    }

    /// Runs `wait`, which waits for `what`.
    pub fn during<T>(&self, what: Waiting, wait: impl FnOnce() -> T) -> T {
        let mut began = 0;
        self.change(|| {
            began = clock::nanos();
            let room = match what {
                Waiting::Input => 0,
                Waiting::Room(target) => {
                    self.target.store(target, SeqCst);
                    1
                }
                Waiting::Destination => {
                    self.target.store(DESTINATION, SeqCst);
                    1
                }
            };
            self.now.store(began << 1 | room, SeqCst);
        });
        let result = wait();
        self.change(|| {
            let total = match what {
                Waiting::Input => &self.idle,
                Waiting::Room(_) | Waiting::Destination => &self.backpressured,
            };
            total.fetch_add(clock::nanos().saturating_sub(began), SeqCst);
            self.now.store(NONE, SeqCst);
        });
        result
    }

    /// The task has been waiting for input since [`clock::nanos`] said `began`, in a place that does not use [`Waits::during`].
    pub fn was_idle_since(&self, began: u64) {
        self.change(|| {
            let waited = clock::nanos().saturating_sub(began);
            self.idle.fetch_add(waited, SeqCst);
        });
    }

    /// The task has ended: it is idle from now on.
    pub fn end(&self) {
        self.change(|| self.now.store(clock::nanos() << 1, SeqCst));
    }

    /// Where the time went until now.
    ///
    /// Nothing but the busy time behind [`Waits::was_idle_since`] goes back from one look to the next: numbers and clock are read while
    /// nothing changes.
    pub fn look(&self) -> Spent {
        let mut spent = Spent::default();
        for tries in 0..TRIES {
            let before = self.changes.load(SeqCst);
            spent = self.read();
            if before.is_multiple_of(2) && self.changes.load(SeqCst) == before {
                break;
            }
            if tries < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        spent
    }

    fn read(&self) -> Spent {
        let at = clock::nanos();
        let now = self.now.load(SeqCst);
        let mut idle = self.idle.load(SeqCst);
        let mut backpressured = self.backpressured.load(SeqCst);
        let waiting = (now != NONE).then(|| {
            let waited = at.saturating_sub(now >> 1);
            let what = if now & 1 == 1 {
                backpressured += waited;
                match self.target.load(SeqCst) {
                    DESTINATION => Waiting::Destination,
                    task => Waiting::Room(task),
                }
            } else {
                idle += waited;
                Waiting::Input
            };
            (what, Duration::from_nanos(waited))
        });
        let total = at.saturating_sub(self.made);
        Spent {
            busy: Duration::from_nanos(total.saturating_sub(idle).saturating_sub(backpressured)),
            idle: Duration::from_nanos(idle),
            backpressured: Duration::from_nanos(backpressured),
            waiting,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread::sleep;

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn waits_are_told_apart_and_the_rest_is_work() {
        let waits = Waits::default();
        waits.during(Waiting::Input, || sleep(SHORT));
        waits.during(Waiting::Room(3), || sleep(2 * SHORT));
        let began = clock::nanos();
        while clock::nanos() - began < SHORT.as_nanos() as u64 {}
        let spent = waits.look();
        assert!(spent.idle >= SHORT, "{spent:?}");
        assert!(spent.backpressured >= 2 * SHORT, "{spent:?}");
        assert!(spent.busy >= SHORT, "{spent:?}");
        assert_eq!(spent.waiting, None);
        assert!(
            waits.look().idle == spent.idle,
            "idle does not grow by itself"
        );
    }

    #[test]
    fn a_wait_in_progress_counts_and_says_for_whom() {
        let waits = Arc::new(Waits::default());
        let (shared, (sender, receiver)) = (waits.clone(), std::sync::mpsc::channel::<()>());
        let thread =
            std::thread::spawn(move || shared.during(Waiting::Room(7), || receiver.recv().is_ok()));
        let seen = loop {
            let spent = waits.look();
            if let Some((Waiting::Room(7), since)) = spent.waiting
                && since >= SHORT
            {
                break spent;
            }
        };
        assert!(seen.backpressured >= SHORT, "{seen:?}");
        sender.send(()).expect("it waits");
        assert!(thread.join().expect("no panic"));
        assert!(waits.look().backpressured >= seen.backpressured);
        waits.end();
        assert!(matches!(waits.look().waiting, Some((Waiting::Input, _))));
    }

    /// A reader that looks in the middle of a change must not count a wait twice.
    #[test]
    fn looks_never_go_back_while_the_task_goes_on() {
        let waits = Arc::new(Waits::default());
        let shared = waits.clone();
        let thread = std::thread::spawn(move || {
            for _ in 0..20_000 {
                shared.during(Waiting::Input, || ());
                shared.during(Waiting::Room(0), || ());
            }
        });
        let mut last = Spent::default();
        while !thread.is_finished() {
            let spent = waits.look();
            assert!(spent.idle >= last.idle, "{spent:?} after {last:?}");
            assert!(
                spent.backpressured >= last.backpressured,
                "{spent:?} after {last:?}"
            );
            assert!(spent.busy >= last.busy, "{spent:?} after {last:?}");
            last = spent;
        }
        thread.join().expect("no panic");
    }
}
