//! Trouble that passes, said once when it comes and once when it is over.

use std::time::{Duration, Instant};

/// How long there must be no trouble for records to show that it is over: those that were read ahead go on coming without a broker, and
/// librdkafka keeps to itself for half a minute what it has said already.
const QUIET: Duration = Duration::from_secs(35);

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trouble {
    /// When it was last heard of.
    heard: Option<Instant>,
}

impl Trouble {
    /// It is heard of. Whether that is news.
    pub(super) fn begins(&mut self, now: Instant) -> bool {
        let before = self.heard.replace(now);
        before.is_none_or(|before| now.saturating_duration_since(before) >= QUIET)
    }

    /// Records come. Whether that shows that it is over.
    pub(super) fn ends(&mut self, now: Instant) -> bool {
        let is_over = self
            .heard
            .is_some_and(|heard| now.saturating_duration_since(heard) >= QUIET);
        if is_over {
            self.heard = None;
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_were_read_ahead_do_not_end_it() {
        let start = crate::clock::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut trouble = Trouble::default();
        assert!(!trouble.ends(start), "there was none");
        assert!(trouble.begins(start));
        assert!(!trouble.ends(after(1)));
        assert!(!trouble.begins(after(2)), "it was said");
        assert!(!trouble.ends(after(36)), "it came again meanwhile");
        assert!(trouble.ends(after(37)));
        assert!(!trouble.ends(after(38)), "it was said");
        assert!(trouble.begins(after(39)), "another one");
        assert!(
            trouble.begins(after(3_600)),
            "and another, though nothing was read between"
        );
    }
}
