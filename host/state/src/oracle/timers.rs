//! Setting, cancelling and firing timers. The rules are the trait's.

use std::sync::Arc;

use super::{Oracle, Popped};
use crate::keyed_state::{Cells, Firing, MAX_TIMER_GENERATIONS};
use crate::timers::{Chain, Registration, TimerKey};
use crate::{Error, TimeDomain};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Set,
    Cancel,
}

impl Oracle {
    pub(super) fn change_timers(
        &mut self,
        timer: u32,
        at: Cells<'_>,
        times: &[i64],
        change: Change,
    ) -> Result<(), Error> {
        let domain = self
            .schema
            .timers
            .get(timer as usize)
            .ok_or(Error::NoSuchTimer { timer })?
            .domain;
        self.check_cells(at)?;
        at.check_rows("times", times.len())?;
        for (cell, (&index, &time)) in at.keys.iter().zip(times).enumerate() {
            let key = TimerKey {
                time,
                hash: self.keys.hashes[index as usize],
                key: self.keys.distinct.get(index as usize).into(),
                timer,
                namespace: at.namespace(cell).unwrap_or_default().into(),
            };
            let fired = self
                .popped
                .as_ref()
                .filter(|popped| popped.domain == domain)
                .map(|popped| {
                    let (fired, chain) = &popped.timers[index as usize];
                    (popped.until, fired, *chain)
                });
            // What fired is gone, though it is only removed when the call is applied.
            let registered = fired.is_none_or(|(_, fired, _)| *fired != key)
                && self.timers[domain as usize].contains(&key);
            let new = match fired {
                Some((until, fired, chain)) if time <= until => Registration {
                    chain: Some(Chain::next(chain, until)),
                    waits: time <= fired.time,
                },
                _ => Registration::default(),
            };
            if change == Change::Set {
                self.overlay
                    .spend(size_of::<TimerKey>() + key.key.len() + key.namespace.len())?;
            }
            let overlay = &mut self.overlay.timers[domain as usize];
            match (change, registered) {
                (Change::Set, false) => overlay.insert(key, Some(new)),
                (Change::Cancel, true) => overlay.insert(key, None),
                // As it was before the call.
                (Change::Set, true) | (Change::Cancel, false) => overlay.remove(&key),
            };
        }
        Ok(())
    }

    pub(super) fn check_generations(&self) -> Result<(), Error> {
        let endless = |registration: &Registration| {
            registration
                .chain
                .is_some_and(|chain| chain.generation > MAX_TIMER_GENERATIONS)
        };
        let mut set = self.overlay.timers.iter().flatten();
        match set.find(|(_, registration)| registration.as_ref().is_some_and(endless)) {
            None => Ok(()),
            Some((key, _)) => Err(Error::TimerGenerations {
                timer: self.schema.timers[key.timer as usize].name.clone(),
                key: key.key[..key.key.len().min(64)].escape_ascii().to_string(),
                limit: MAX_TIMER_GENERATIONS,
            }),
        }
    }

    pub(super) fn apply_timers(&mut self) {
        if let Some(popped) = self.popped.take() {
            let timers = Arc::make_mut(&mut self.timers[popped.domain as usize]);
            popped.timers.iter().for_each(|(key, _)| timers.remove(key));
        }
        for (timers, overlay) in self.timers.iter_mut().zip(&mut self.overlay.timers) {
            if overlay.is_empty() {
                continue;
            }
            let timers = Arc::make_mut(timers);
            for (key, registration) in std::mem::take(overlay) {
                match registration {
                    Some(registration) => timers.insert(key, registration),
                    None => timers.remove(&key),
                }
            }
        }
    }

    pub(super) fn pop_timers(&mut self, limit: usize) -> Result<Option<Firing>, Error> {
        if self.open {
            return Err(Error::Misuse("pop_due in an open call"));
        }
        let Some((domain, until)) = self.advance else {
            return Err(Error::Misuse("pop_due outside of an advance"));
        };
        self.keys.clear();
        self.popped = None;
        let timers = self.timers[domain as usize].due(until, limit);
        if timers.is_empty() {
            return Ok(None);
        }
        let mut firing = Firing::default();
        for (row, (key, _)) in timers.iter().enumerate() {
            self.keys.push(&key.key, key.hash);
            self.keys.index.push(row as u32);
            firing.keys.push(&key.key);
            firing.hashes.push(key.hash);
            firing.timers.push(key.timer);
            firing.namespaces.push(&key.namespace);
            firing.times.push(key.time);
        }
        self.popped = Some(Popped {
            domain,
            until,
            timers,
        });
        Ok(Some(firing))
    }

    /// Lets the timers fire that waited for the end of an advance that is over.
    pub(super) fn release(&mut self, domain: TimeDomain, done: impl Fn(i64) -> bool) {
        let timers = &mut self.timers[domain as usize];
        if timers.releases(&done) {
            Arc::make_mut(timers).release(&done);
        }
    }
}
