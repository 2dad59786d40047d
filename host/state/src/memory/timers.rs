//! Setting, cancelling and firing timers. The rules are the trait's.

use std::collections::BTreeMap;

use super::Memory;
use super::annex::Timer;
use super::bytes::Bytes;
use super::overlay::{Change, TimerChange};
use super::queue::{Hint, Queue};
use super::slot::Slot;
use super::store::{SlotId, Store};
use super::timer_key::{timer_index, timer_key, timer_parts, timer_time};
use crate::keyed_state::{Cells, Firing, MAX_TIMER_GENERATIONS};
use crate::stored_key::time_suffix;
use crate::timers::{Chain, Registration};
use crate::{Error, TimeDomain};

/// Timers ahead whose memory is asked for.
const AHEAD: usize = 16;
/// About the timers of a firing, as far as they are worth a reservation.
const BATCH: usize = 1_024;
/// What a timer takes of the call's budget beside its cell.
const TIMER: usize = 48;

/// The timers of a firing; row i is key i of the call.
#[derive(Debug)]
pub(super) struct Popped {
    pub(super) domain: TimeDomain,
    until: i64,
    /// See [`timer_key`].
    timers: Vec<(Bytes, Option<Chain>)>,
    /// The hints that were popped to find them, in order.
    hints: Vec<Hint>,
}

/// Tells for each declared timer its domain.
#[derive(Clone, Copy)]
pub(super) struct Domains<'a>(pub(super) &'a [TimeDomain]);

impl Domains<'_> {
    fn of(self, timer: &[u8]) -> TimeDomain {
        self.0[usize::from(timer_index(timer))]
    }

    /// The timers of a slot in a domain at a time that do not wait, in firing order.
    fn at(
        self,
        store: &Store,
        domain: TimeDomain,
        hint: Hint,
    ) -> impl Iterator<Item = (&[u8], Option<Chain>)> {
        let prefix = time_suffix(hint.time);
        // The slot may have changed hands; a free one has no annex.
        let annex = store
            .annex(hint.slot)
            .filter(|_| store.slot(hint.slot).hash == hint.hash);
        annex
            .into_iter()
            .flat_map(move |annex| annex.timers.from(&prefix))
            .take_while(move |(key, _)| key.starts_with(&prefix))
            .filter(move |(key, timer)| !timer.waits && self.of(key) == domain)
            .map(|(key, timer)| (key, timer.registration().chain))
    }
}

impl Memory {
    pub(super) fn change_timers(
        &mut self,
        timer: u32,
        at: Cells<'_>,
        times: &[i64],
        set: bool,
    ) -> Result<(), Error> {
        let domain = *self
            .domains
            .get(timer as usize)
            .ok_or(Error::NoSuchTimer { timer })?;
        self.check_cells(at)?;
        at.check_rows("times", times.len())?;
        self.overlay.spend(at, times.len() * TIMER)?;
        let popped = self.popped.as_ref();
        let popped = popped.filter(|popped| set && popped.domain == domain);
        for (row, (&key, &time)) in at.keys.iter().zip(times).enumerate() {
            let fired = popped
                .filter(|popped| time <= popped.until)
                .map(|popped| (popped.until, &popped.timers[key as usize]));
            let to = match fired {
                _ if !set => Change::Cancelled,
                None => Change::Set,
                Some((until, (fired, chain))) => {
                    let registration = Registration {
                        chain: Some(Chain::next(*chain, until)),
                        waits: time <= timer_time(fired),
                    };
                    self.overlay.endless |= is_endless(&registration);
                    Change::set(registration)
                }
            };
            let namespace = at.namespace(row).unwrap_or_default();
            self.overlay.timers.push(TimerChange {
                key,
                timer: timer_key(time, timer as u16, namespace),
                to,
            });
        }
        Ok(())
    }

    pub(super) fn check_generations(&self) -> Result<(), Error> {
        if !self.overlay.endless {
            return Ok(());
        }
        let changes = &self.overlay.timers;
        let endless = changes.iter().enumerate().find(|(row, change)| {
            let lasts = changes[row + 1..]
                .iter()
                .all(|later| (later.key, &later.timer) != (change.key, &change.timer));
            let registration = change.to.registration();
            lasts && registration.as_ref().is_some_and(is_endless) && !self.is_registered(change)
        });
        let Some((_, change)) = endless else {
            return Ok(());
        };
        let timer = timer_index(&change.timer);
        let key = self.store.key(self.keys.slots[change.key as usize]);
        Err(Error::TimerGenerations {
            timer: self.schema.timers[usize::from(timer)].name.clone(),
            key: key[..key.len().min(64)].escape_ascii().to_string(),
            limit: MAX_TIMER_GENERATIONS,
        })
    }

    /// Whether a timer is registered and does not fire in this call.
    fn is_registered(&self, change: &TimerChange) -> bool {
        let fires = self
            .popped
            .as_ref()
            .is_some_and(|popped| popped.timers[change.key as usize].0 == change.timer);
        let annex = self.store.annex(self.keys.slots[change.key as usize]);
        !fires && annex.is_some_and(|annex| annex.timers.get(&change.timer).is_some())
    }

    pub(super) fn apply_timers(&mut self) {
        self.remove_fired();
        // A timer that is cancelled and set again is registered as before, which shows only if it
        // is chained or would be now.
        let mut cancelled: BTreeMap<(SlotId, Bytes), Registration> = BTreeMap::new();
        let mut changes = std::mem::take(&mut self.overlay.timers);
        for (row, change) in changes.iter().enumerate() {
            if let Some(next) = changes.get(row + AHEAD) {
                let next = self.keys.slots[next.key as usize];
                self.store.prefetch_annex(next);
            }
            let slot = self.keys.slots[change.key as usize];
            match change.to.registration() {
                Some(registration) => {
                    let before = if cancelled.is_empty() {
                        None
                    } else {
                        cancelled.get(&(slot, change.timer.clone())).copied()
                    };
                    self.register(slot, &change.timer, before.unwrap_or(registration));
                }
                None => {
                    if let Some(before) = self.cancel(slot, &change.timer)
                        && (self.popped.is_some() || before != Registration::default())
                    {
                        cancelled.insert((slot, change.timer.clone()), before);
                    }
                }
            }
        }
        // Their memory is used again.
        changes.clear();
        self.overlay.timers = changes;
        self.end_firing();
    }

    /// Removes the timers that this call fired for, and their hints as far as they were for nothing
    /// else.
    fn remove_fired(&mut self) {
        let Some(popped) = &mut self.popped else {
            return;
        };
        // As a rule a hint for each timer.
        let alike = popped.hints.len() == popped.timers.len();
        let mut left = 0;
        for (row, (&slot, (timer, _))) in self.keys.slots.iter().zip(&popped.timers).enumerate() {
            // The call has been elsewhere since.
            if let Some(next) = popped.hints.get(row + AHEAD) {
                self.store.prefetch_with(next.slot, next.annex);
            }
            let mut parts = self.store.parts(slot);
            let fired = parts.cancel_timer(timer).is_some();
            let is_last = parts.timers.is_empty();
            if fired {
                self.queues[popped.domain as usize].fired(timer_time(timer));
                self.store.removed(slot);
            }
            if alike && !is_last {
                popped.hints[left] = popped.hints[row];
                left += 1;
            }
        }
        if alike {
            popped.hints.truncate(left);
        }
    }

    /// Registers a timer, unless it is.
    pub(super) fn register(&mut self, slot: SlotId, timer: &Bytes, registration: Registration) {
        if !self.store.parts(slot).set_timer(timer, registration) {
            return;
        }
        let time = timer_time(timer);
        let domain = Domains(&self.domains).of(timer);
        let queue = &mut self.queues[domain as usize];
        if registration.waits {
            queue.wait(time, slot, timer.clone());
        } else {
            queue.push(hint(&self.store, slot, time));
        }
    }

    pub(super) fn cancel(&mut self, slot: SlotId, timer: &Bytes) -> Option<Registration> {
        self.store.annex(slot)?;
        let before = self.store.parts(slot).cancel_timer(timer)?.registration();
        self.store.removed(slot);
        let time = timer_time(timer);
        let domains = Domains(&self.domains);
        let domain = domains.of(timer);
        let queue = &mut self.queues[domain as usize];
        if before.waits {
            queue.stop_waiting(time, slot, timer);
        } else {
            let store = &self.store;
            queue.cancelled(time, |hint| {
                domains.at(store, domain, hint).next().is_some()
            });
        }
        Some(before)
    }

    /// Ends the firing of the current keys: what has not fired stays due.
    pub(super) fn end_firing(&mut self) {
        let (store, domains) = (&self.store, Domains(&self.domains));
        if let Some(popped) = self.popped.take() {
            let queue = &mut self.queues[popped.domain as usize];
            for hint in popped.hints.into_iter().rev() {
                if domains.at(store, popped.domain, hint).next().is_some() {
                    queue.give_back(hint);
                }
            }
        }
        for domain in [TimeDomain::Event, TimeDomain::Processing] {
            self.queues[domain as usize]
                .settle(|hint| domains.at(store, domain, hint).next().is_some());
        }
    }

    pub(super) fn pop_timers(&mut self, limit: usize) -> Result<Option<Firing>, Error> {
        if self.open {
            return Err(Error::Misuse("pop_due in an open call"));
        }
        let Some((domain, until)) = self.advance else {
            return Err(Error::Misuse("pop_due outside of an advance"));
        };
        self.end_firing();
        self.keys.clear();
        self.store.free_idle();
        let mut popped = Popped {
            domain,
            until,
            timers: Vec::with_capacity(limit.min(BATCH)),
            hints: Vec::with_capacity(limit.min(BATCH)),
        };
        while popped.timers.len() < limit && self.pop_hint(&mut popped, limit) {}
        if popped.timers.is_empty() {
            return Ok(None);
        }
        let mut firing = Firing::default();
        firing.timers.reserve(popped.timers.len());
        firing.namespaces.offsets.reserve(popped.timers.len());
        firing.times.reserve(popped.timers.len());
        self.keys.index.extend(0..popped.timers.len() as u32);
        firing.keys.clone_from(&self.keys.distinct);
        for (timer, _) in &popped.timers {
            let (time, index, namespace) = timer_parts(timer);
            firing.timers.push(u32::from(index));
            firing.namespaces.push(namespace);
            firing.times.push(time);
        }
        firing.hashes.clone_from(&self.keys.hashes);
        self.popped = Some(popped);
        Ok(Some(firing))
    }

    /// Adds the timers of the next time and hash; whether there may be more.
    fn pop_hint(&mut self, popped: &mut Popped, limit: usize) -> bool {
        let queue = &mut self.queues[popped.domain as usize];
        let Some(hint) = queue.pop(popped.until) else {
            return false;
        };
        if let Some(next) = queue.ahead(AHEAD) {
            self.store.prefetch_with(next.slot, next.annex);
        }
        let first = popped.hints.len();
        popped.hints.push(hint);
        let same = |next: Hint| (next.time, next.hash) == (hint.time, hint.hash);
        if !queue.peek(popped.until).is_some_and(same) {
            // One key, and as a rule one timer.
            if let Some((timer, registered)) = self.one_timer(hint) {
                let is_due = timer_time(timer) == hint.time
                    && !registered.waits
                    && Domains(&self.domains).of(timer) == popped.domain;
                if !is_due {
                    return true;
                }
                if self.keys.contains(&self.store, hint.slot) {
                    return false;
                }
                let chain = registered.chain.as_deref().copied();
                popped.timers.push((timer.clone(), chain));
                self.keys.push(&mut self.store, hint.slot);
                return true;
            }
            let mut timers = Domains(&self.domains).at(&self.store, popped.domain, hint);
            let Some((timer, chain)) = timers.next() else {
                return true;
            };
            if self.keys.contains(&self.store, hint.slot) {
                return false;
            }
            popped.timers.push((timer.into(), chain));
            let repeats = timers.next().is_some();
            drop(timers);
            self.keys.push(&mut self.store, hint.slot);
            return !repeats;
        }
        while queue.peek(popped.until).is_some_and(same) {
            popped.hints.extend(queue.pop(popped.until));
        }
        let mut hints = popped.hints[first..].to_vec();
        hints.dedup();
        let (store, domains) = (&self.store, Domains(&self.domains));
        let mut due = Vec::new();
        for hint in hints {
            let timers = domains.at(store, popped.domain, hint);
            due.extend(timers.map(|(timer, chain)| (hint.slot, Bytes::from(timer), chain)));
        }
        // Stable, and of one key they are in order.
        due.sort_by(|(left, ..), (right, ..)| store.key(*left).cmp(store.key(*right)));
        for (slot, timer, chain) in due {
            if popped.timers.len() == limit || self.keys.contains(&self.store, slot) {
                return false;
            }
            self.keys.push(&mut self.store, slot);
            popped.timers.push((timer, chain));
        }
        true
    }

    /// The timer of a hint's slot, if it has only one and is still that of the hint's key.
    #[inline]
    fn one_timer(&self, hint: Hint) -> Option<&(Bytes, Timer)> {
        let annex = self.store.annex(hint.slot)?;
        let is_key = self.store.slot(hint.slot).hash == hint.hash;
        annex.timers.one().filter(|_| is_key)
    }

    /// Lets the timers fire that waited for the end of an advance that is over.
    pub(super) fn release(&mut self, domain: TimeDomain, over: impl Fn(i64) -> bool) {
        let queue = &mut self.queues[domain as usize];
        let store = &self.store;
        let released: Vec<(SlotId, Bytes)> = queue
            .waiting()
            .filter(|(slot, timer)| {
                let timers = store.annex(*slot).map(|annex| &annex.timers);
                let timer = timers.and_then(|timers| timers.get(timer));
                let chain = timer.and_then(|timer| timer.chain.as_deref());
                chain.is_some_and(|chain| over(chain.until))
            })
            .map(|(slot, timer)| (slot, timer.clone()))
            .collect();
        for (slot, timer) in released {
            let time = timer_time(&timer);
            self.store.parts(slot).release_timer(&timer);
            queue.stop_waiting(time, slot, &timer);
            queue.push(hint(&self.store, slot, time));
        }
    }

    pub(super) fn remove_timers(&mut self, domain: TimeDomain) -> u64 {
        let queue: Queue = std::mem::take(&mut self.queues[domain as usize]);
        let mut slots: Vec<SlotId> = queue.slots().collect();
        let popped = self.popped.as_ref();
        let popped = popped.filter(|popped| popped.domain == domain);
        slots.extend(
            popped
                .iter()
                .flat_map(|popped| &popped.hints)
                .map(|hint| hint.slot),
        );
        let before = self.store.totals.timers;
        for slot in slots {
            let domains = Domains(&self.domains);
            let annex = self.store.annex(slot).into_iter();
            let doomed: Vec<Bytes> = annex
                .flat_map(|annex| annex.timers.iter())
                .filter(|(timer, _)| domains.of(timer) == domain)
                .map(|(timer, _)| timer.into())
                .collect();
            for timer in doomed {
                self.store.parts(slot).cancel_timer(&timer);
                self.store.removed(slot);
            }
        }
        before - self.store.totals.timers
    }
}

/// The hint of a timer that is registered.
fn hint(store: &Store, slot: SlotId, time: i64) -> Hint {
    let Slot { hash, annex, .. } = *store.slot(slot);
    Hint {
        time,
        hash,
        slot,
        annex,
    }
}

fn is_endless(registration: &Registration) -> bool {
    let chain = registration.chain;
    chain.is_some_and(|chain| chain.generation > MAX_TIMER_GENERATIONS)
}
