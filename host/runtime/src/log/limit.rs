//! How much an operator's guests may log.

use std::time::{Duration, Instant};

use super::line::Line;

/// Lines of an operator that are printed in a second, all its subtasks together; the rest are counted.
const LINES: u32 = 50;

const SECOND: Duration = Duration::from_secs(1);

struct Bucket {
    operator: String,
    since: Instant,
    lines: u32,
    dropped: u64,
}

/// What each operator logged in its current second.
pub(super) struct Limits {
    buckets: Vec<Bucket>,
}

impl Limits {
    pub(super) const fn new() -> Limits {
        Limits {
            buckets: Vec::new(),
        }
    }

    /// Whether the line may be printed.
    pub(super) fn allow(&mut self, now: Instant, line: &Line) -> bool {
        let operator = line.operator.as_deref().unwrap_or_default();
        let known = self
            .buckets
            .iter()
            .position(|bucket| bucket.operator == operator);
        let at = known.unwrap_or_else(|| {
            self.buckets.push(Bucket {
                operator: operator.to_owned(),
                since: now,
                lines: 0,
                dropped: 0,
            });
            self.buckets.len() - 1
        });
        let bucket = &mut self.buckets[at];
        if now.saturating_duration_since(bucket.since) >= SECOND {
            bucket.since = now;
            bucket.lines = 0;
        }
        bucket.lines += 1;
        let allowed = bucket.lines <= LINES;
        bucket.dropped += u64::from(!allowed);
        allowed
    }

    /// Operators whose second is over, with how many of their lines were dropped, if some were.
    pub(super) fn dropped(&mut self, now: Instant) -> Vec<(String, u64)> {
        let over = |bucket: &&mut Bucket| now.saturating_duration_since(bucket.since) >= SECOND;
        self.take(over)
    }

    /// The same for all of them.
    pub(super) fn all(&mut self) -> Vec<(String, u64)> {
        self.take(|_| true)
    }

    fn take(&mut self, which: impl Fn(&&mut Bucket) -> bool) -> Vec<(String, u64)> {
        let buckets = self.buckets.iter_mut().filter(which);
        let some = buckets.filter(|bucket| bucket.dropped > 0);
        some.map(|bucket| (bucket.operator.clone(), std::mem::take(&mut bucket.dropped)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::Level;
    use super::*;

    #[test]
    fn each_operator_has_its_own_lines_a_second_and_what_is_dropped_is_counted() {
        let (mut limits, start) = (Limits::new(), Instant::now());
        let line = |operator| Line::new(Level::Info, "m").operator(operator);
        let allowed = |limits: &mut Limits, at, operator, lines| {
            (0..lines)
                .filter(|_| limits.allow(at, &line(operator)))
                .count()
        };
        assert_eq!(allowed(&mut limits, start, "a", 80), 50);
        assert_eq!(allowed(&mut limits, start, "b", 10), 10);
        assert!(limits.dropped(start).is_empty(), "the second is not over");
        assert_eq!(limits.dropped(start + SECOND), [("a".to_owned(), 30)]);
        assert!(limits.dropped(start + SECOND).is_empty(), "said once");
        assert_eq!(allowed(&mut limits, start + SECOND, "a", 80), 50);
        assert_eq!(limits.all(), [("a".to_owned(), 30)]);
    }
}
