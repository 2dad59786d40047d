//! Lines that say the same again: the first is printed, the others of a minute are counted.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::line::Line;

/// How long lines that repeat one are counted instead of printed.
pub(super) const WINDOW: Duration = Duration::from_secs(60);

/// Different lines remembered; the oldest is forgotten first, and said then.
const REMEMBERED: usize = 64;

/// How often a line came again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repeated {
    pub(super) times: u64,
    /// In so many seconds.
    pub(super) seconds: u64,
}

struct Seen {
    line: Line,
    first: Instant,
    repeated: u64,
}

/// Lines of the last minute, the oldest first.
pub(super) struct Repeats {
    seen: VecDeque<Seen>,
}

impl Repeats {
    pub(super) const fn new() -> Repeats {
        Repeats {
            seen: VecDeque::new(),
        }
    }

    /// Whether `line` is to be printed. What is forgotten for its sake is added to `over`.
    pub(super) fn is_new(
        &mut self,
        now: Instant,
        line: &Line,
        over: &mut Vec<(Line, Repeated)>,
    ) -> bool {
        if let Some(seen) = self.seen.iter_mut().find(|seen| seen.line == *line) {
            seen.repeated += 1;
            return false;
        }
        if self.seen.len() == REMEMBERED {
            over.extend(self.seen.pop_front().and_then(|seen| seen.repeated(now)));
        }
        self.seen.push_back(Seen {
            line: line.clone(),
            first: now,
            repeated: 0,
        });
        true
    }

    /// Lines whose minute is over, with how often they were repeated, if they were.
    pub(super) fn over(&mut self, now: Instant) -> Vec<(Line, Repeated)> {
        let mut over = Vec::new();
        while let Some(oldest) = self.seen.front()
            && now.saturating_duration_since(oldest.first) >= WINDOW
        {
            over.extend(self.seen.pop_front().and_then(|seen| seen.repeated(now)));
        }
        over
    }

    /// All of them, whether their minute is over or not.
    pub(super) fn all(&mut self, now: Instant) -> Vec<(Line, Repeated)> {
        let seen = self.seen.drain(..);
        seen.filter_map(|seen| seen.repeated(now)).collect()
    }
}

impl Seen {
    fn repeated(self, now: Instant) -> Option<(Line, Repeated)> {
        let age = now.saturating_duration_since(self.first);
        let repeated = Repeated {
            times: self.repeated,
            seconds: age.as_secs().max(1),
        };
        (self.repeated > 0).then_some((self.line, repeated))
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::Level;
    use super::*;

    fn line(message: impl Into<String>) -> Line {
        Line::new(Level::Warn, message)
    }

    #[test]
    fn the_first_is_printed_and_the_rest_are_counted_for_a_minute() {
        let (mut repeats, start) = (Repeats::new(), Instant::now());
        let mut over = Vec::new();
        assert!(repeats.is_new(start, &line("a"), &mut over));
        assert!(repeats.is_new(start, &line("b"), &mut over));
        for _ in 0..412 {
            assert!(!repeats.is_new(start, &line("a"), &mut over));
        }
        assert!(
            repeats.is_new(start, &Line::new(Level::Error, "a"), &mut over),
            "another level"
        );
        assert!(repeats.over(start + WINDOW / 2).is_empty() && over.is_empty());
        let repeated = Repeated {
            times: 412,
            seconds: 60,
        };
        assert_eq!(repeats.over(start + WINDOW), [(line("a"), repeated)]);
        assert!(
            repeats.is_new(start + WINDOW, &line("a"), &mut over),
            "a new minute begins"
        );
        assert_eq!(repeats.all(start + WINDOW), [], "it was not repeated since");
    }

    #[test]
    fn a_flood_of_different_lines_is_bounded_and_loses_no_count() {
        let (mut repeats, start) = (Repeats::new(), Instant::now());
        let mut over = Vec::new();
        for i in 0..1_000 {
            assert!(repeats.is_new(start, &line(i.to_string()), &mut over));
            assert!(!repeats.is_new(start, &line(i.to_string()), &mut over));
        }
        assert_eq!(repeats.seen.len(), REMEMBERED);
        over.extend(repeats.all(start));
        assert_eq!(over.len(), 1_000);
        assert!(over.iter().all(|(_, repeated)| repeated.times == 1));
    }
}
