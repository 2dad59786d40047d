//! Fault points: named places at which a test can kill the process, or hold a thread of it.
//!
//! Crashes at random moments rarely hit the few instructions between two durable steps, where protocols go wrong. With the
//! cargo feature `fault-points` the environment variable `WEIR_FAULT=name` or `WEIR_FAULT=name:K` makes the process kill itself
//! with SIGKILL the first or the K-th time it passes the point. Without the feature a point compiles to nothing.
//!
//! With `WEIR_FAULT_HOLD=file` beside it nothing is killed: whoever passes the point then creates that file, and goes on when somebody
//! has removed it. So a disk stands still, or a thread comes late, while the rest of the process and of the world goes on.

/// Every fault point, in the order in which a job passes them.
pub const ALL: &[&str] = &[
    // Start
    "before-claim",
    "after-claim",
    "after-components",
    "after-fence",
    "after-resolve",
    "after-claim-marker",
    "after-marker",
    "mid-adoption",
    "after-adoption",
    "during-restore",
    // A checkpoint
    "mid-interval",
    "before-prepare",
    "before-flush",
    "after-prepare",
    "after-parts",
    "after-state",
    "after-manifest",
    "before-marker",
    "marker-produced",
    "inside-commit",
    "after-transaction",
    "after-slot",
    "before-renames",
    "mid-renames",
    "after-renames",
    "after-witness",
    "mid-collection",
    // The end
    "end-of-input",
    "after-last-commit",
];

/// Passes the fault point `name`, one of [`ALL`].
#[inline]
pub fn pass(name: &'static str) {
    debug_assert!(ALL.contains(&name), "`{name}` is not a fault point");
    #[cfg(feature = "fault-points")]
    trigger::pass(name);
}

/// Passes the fault point `name` a moment from now, while the caller waits for somebody else to do what it has asked for.
#[inline]
pub fn pass_soon(name: &'static str) {
    debug_assert!(ALL.contains(&name), "`{name}` is not a fault point");
    #[cfg(feature = "fault-points")]
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(1));
        trigger::pass(name);
    });
}

#[cfg(any(feature = "fault-points", test))]
mod trigger {
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Which passing of which point kills, or holds.
    #[derive(Debug)]
    pub(super) struct Trigger {
        name: String,
        /// Passings left, the one that counts included.
        left: AtomicU64,
    }

    impl Trigger {
        /// From `name` or `name:K`.
        pub(super) fn parse(text: &str) -> Option<Trigger> {
            let (name, count) = match text.split_once(':') {
                Some((name, count)) => (name, count.parse().ok().filter(|count| *count > 0)?),
                None => (text, 1),
            };
            super::ALL.contains(&name).then(|| Trigger {
                name: name.to_owned(),
                left: AtomicU64::new(count),
            })
        }

        /// Whether this passing is the one.
        pub(super) fn fires(&self, name: &str) -> bool {
            name == self.name && self.left.fetch_sub(1, Ordering::Relaxed) == 1
        }
    }

    #[cfg(feature = "fault-points")]
    pub(super) fn pass(name: &str) {
        use rustix::process::{Signal, getpid, kill_process};

        static TRIGGER: std::sync::OnceLock<Option<Trigger>> = std::sync::OnceLock::new();
        let trigger = TRIGGER.get_or_init(|| {
            let text = std::env::var("WEIR_FAULT").ok()?;
            let trigger = Trigger::parse(&text);
            // A misspelt point would make a test pass without testing anything.
            assert!(trigger.is_some(), "WEIR_FAULT={text} names no fault point");
            trigger
        });
        if trigger.as_ref().is_some_and(|trigger| trigger.fires(name)) {
            if let Some(file) = std::env::var_os("WEIR_FAULT_HOLD") {
                return hold(std::path::Path::new(&file));
            }
            kill_process(getpid(), Signal::KILL).expect("a process may kill itself");
            // SIGKILL may be delivered a moment later; nothing further must happen until then.
            loop {
                std::thread::park();
            }
        }
    }

    /// Creates `file` and waits until it is gone.
    #[cfg(feature = "fault-points")]
    fn hold(file: &std::path::Path) {
        std::fs::write(file, []).expect("WEIR_FAULT_HOLD names a file that can be created");
        while file.exists() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::trigger::Trigger;

    #[test]
    fn the_kth_passing_of_the_named_point_is_fatal_and_no_other() {
        let trigger = Trigger::parse("after-slot:3").expect("it is one");
        let fired: Vec<bool> = (0..5).map(|_| trigger.fires("after-slot")).collect();
        assert_eq!(fired, [false, false, true, false, false]);
        let trigger = Trigger::parse("after-slot").expect("it is one");
        assert!(!trigger.fires("after-manifest"));
        assert!(trigger.fires("after-slot"));
    }

    #[test]
    fn what_names_no_point_is_not_a_trigger() {
        for text in ["", "nowhere", "after-slot:0", "after-slot:x", "after-slot:"] {
            assert!(Trigger::parse(text).is_none(), "{text}");
        }
    }
}
