//! The registered timers of one time domain, in firing order.

use std::collections::{BTreeMap, BTreeSet};

/// A timer; the order of the fields is the order of firing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimerKey {
    pub(crate) time: i64,
    pub(crate) hash: u64,
    pub(crate) key: Box<[u8]>,
    pub(crate) timer: u32,
    pub(crate) namespace: Box<[u8]>,
}

impl TimerKey {
    fn bytes(&self) -> u64 {
        (size_of::<i64>() + self.key.len() + self.namespace.len()) as u64
    }
}

/// How a timer descends from others that fired in one advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// Where the advance leads. The chain breaks at an advance to elsewhere.
    pub(crate) until: i64,
    /// The number of timers before it.
    pub(crate) generation: u32,
}

impl Chain {
    /// The chain of a timer that one fired from `parent` sets in the advance to `until`.
    pub(crate) fn next(parent: Option<Chain>, until: i64) -> Chain {
        let generation = parent
            .filter(|chain| chain.until == until)
            .map_or(0, |chain| chain.generation);
        Chain {
            until,
            generation: generation + 1,
        }
    }
}

/// How a timer is registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Registration {
    /// `None` unless it was set by a firing of the advance in which it was already due.
    pub(crate) chain: Option<Chain>,
    /// It does not fire in the advance of its chain, but in the next.
    pub(crate) waits: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Timers {
    queue: BTreeMap<TimerKey, Option<Chain>>,
    /// Timers that wait for the next advance, apart from the queue so that an advance does not walk
    /// over them again and again.
    waiting: BTreeMap<TimerKey, Chain>,
    bytes: u64,
}

impl Timers {
    pub(crate) fn contains(&self, key: &TimerKey) -> bool {
        self.queue.contains_key(key) || self.waiting.contains_key(key)
    }

    /// Registers a timer that is not registered.
    pub(crate) fn insert(&mut self, key: TimerKey, registration: Registration) {
        self.bytes += key.bytes();
        match registration {
            Registration {
                chain: Some(chain),
                waits: true,
            } => {
                self.waiting.insert(key, chain);
            }
            Registration { chain, .. } => {
                self.queue.insert(key, chain);
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &TimerKey) {
        if self.queue.remove(key).is_some() || self.waiting.remove(key).is_some() {
            self.bytes -= key.bytes();
        }
    }

    pub(crate) fn next(&self) -> Option<i64> {
        let first = |key: Option<&TimerKey>| key.map(|key| key.time);
        let queued = first(self.queue.keys().next());
        let waiting = first(self.waiting.keys().next());
        queued.into_iter().chain(waiting).min()
    }

    /// Whether some timer waits for an advance beyond the one its chain lies in.
    pub(crate) fn releases(&self, done: impl Fn(i64) -> bool) -> bool {
        self.waiting.values().any(|chain| done(chain.until))
    }

    /// Queues the waiting timers whose advance is done.
    pub(crate) fn release(&mut self, done: impl Fn(i64) -> bool) {
        let waiting = std::mem::take(&mut self.waiting);
        for (key, chain) in waiting {
            if done(chain.until) {
                self.queue.insert(key, Some(chain));
            } else {
                self.waiting.insert(key, chain);
            }
        }
    }

    /// The longest prefix of the timers due at `until`, at most `limit`, that repeats no key.
    pub(crate) fn due(&self, until: i64, limit: usize) -> Vec<(TimerKey, Option<Chain>)> {
        let mut keys = BTreeSet::new();
        self.queue
            .iter()
            .take_while(|(key, _)| key.time <= until)
            .take_while(|(key, _)| keys.insert((key.hash, &key.key)))
            .take(limit)
            .map(|(key, chain)| (key.clone(), *chain))
            .collect()
    }

    pub(crate) fn len(&self) -> u64 {
        (self.queue.len() + self.waiting.len()) as u64
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All timers, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&TimerKey, Registration)> {
        let queued = self.queue.iter().map(|(key, chain)| {
            (
                key,
                Registration {
                    chain: *chain,
                    waits: false,
                },
            )
        });
        let waiting = self.waiting.iter().map(|(key, chain)| {
            (
                key,
                Registration {
                    chain: Some(*chain),
                    waits: true,
                },
            )
        });
        queued.chain(waiting)
    }
}
