//! Time as a guest sees it: it passes when it is looked at, and when the guest waits for it.

/// What each reading of the monotonic clock takes, in nanoseconds: also its resolution.
pub(crate) const STEP: u64 = 1_000;

/// The clocks of one instance, and what it may wait for.
pub(crate) struct Time {
    /// Nanoseconds of the monotonic clock.
    now: u64,
    /// Milliseconds since 1970 of the wall clock: the call's processing time.
    pub(crate) wall: i64,
    /// When each pollable is ready, by its number; those in `free` are none.
    due: Vec<u64>,
    free: Vec<u32>,
}

impl Time {
    pub(crate) fn new() -> Self {
        Time {
            now: 1,
            wall: 0,
            due: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Reads the monotonic clock, which is later the next time.
    pub(crate) fn read(&mut self) -> u64 {
        let now = self.now;
        self.now = now.saturating_add(STEP);
        now
    }

    /// A pollable that is ready at an instant of the monotonic clock.
    pub(crate) fn at(&mut self, due: u64) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.due[number as usize] = due;
                number
            }
            None => {
                self.due.push(due);
                u32::try_from(self.due.len() - 1).expect("handles are fewer")
            }
        }
    }

    /// A pollable that is ready after so many nanoseconds.
    pub(crate) fn after(&mut self, nanoseconds: u64) -> u32 {
        self.at(self.now.saturating_add(nanoseconds))
    }

    /// The guest has dropped a pollable.
    pub(crate) fn drop(&mut self, number: u32) {
        self.free.push(number);
    }

    /// Whether a pollable is ready. Asking takes time, so that a guest which does nothing else comes
    /// to an end.
    pub(crate) fn is_ready(&mut self, number: u32) -> bool {
        self.due[number as usize] <= self.read()
    }

    /// Waits for at least one of some pollables, and returns the positions of those that are ready
    /// then: nothing else can happen meanwhile, so the clock leaps.
    pub(crate) fn wait(&mut self, numbers: &[u32]) -> Vec<u32> {
        let due = || numbers.iter().map(|number| self.due[*number as usize]);
        let now = due().min().unwrap_or(0).max(self.now);
        let ready = (0..)
            .zip(due())
            .filter(|(_, due)| *due <= now)
            .map(|(position, _)| position)
            .collect();
        self.now = now;
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::{STEP, Time};

    #[test]
    fn time_passes_when_it_is_looked_at() {
        let mut time = Time::new();
        assert_eq!((time.read(), time.read()), (1, 1 + STEP));
        let soon = time.after(3 * STEP);
        let asked = (0..).take_while(|_| !time.is_ready(soon)).count();
        assert_eq!(asked, 3);
    }

    #[test]
    fn waiting_leaps_to_what_is_due_first() {
        let mut time = Time::new();
        let (never, late, soon, ready) = (
            time.at(u64::MAX),
            time.after(5_000_000_000),
            time.after(2_000_000_000),
            time.at(0),
        );
        assert_eq!(time.wait(&[late, ready, soon, ready]), [1, 3]);
        assert_eq!(time.read(), 1);
        assert_eq!(time.wait(&[late, soon]), [1]);
        assert_eq!(time.read(), 2_000_000_001);
        assert_eq!(time.wait(&[never, soon, late]), [1]);
        assert_eq!(time.wait(&[never, late]), [1]);
        assert_eq!(time.wait(&[never]), [0]);
        assert_eq!((time.read(), time.read()), (u64::MAX, u64::MAX));
    }

    #[test]
    fn dropped_pollables_make_room() {
        let mut time = Time::new();
        for _ in 0..1_000 {
            let (one, two) = (time.at(0), time.after(1));
            assert_ne!(one, two);
            time.drop(one);
            time.drop(two);
        }
        assert_eq!(time.due.len(), 2);
    }
}
