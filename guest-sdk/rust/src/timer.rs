//! Timers: set and cancelled a record at a time, handed to the host a column a call.

use std::collections::BTreeMap;

use crate::bindings::weir::operator::state::Cells;
use crate::context::Context;
use crate::fault::Result;
use crate::host::Host;

/// A declared timer. Made by [`Setup::event_timer`](crate::Setup::event_timer) and
/// [`Setup::processing_timer`](crate::Setup::processing_timer).
///
/// A timer is identified by its declaration, key, namespace and time: setting it twice is setting it
/// once. When it is due, [`Operator::on_timer`](crate::Operator::on_timer) is called once.
///
/// To move a timer is to cancel it at its old time, which the operator has to know, and to set it at the new one. Where a
/// deadline only moves further away, leave the timer where it is: when it fires, look whether the time has come, and set it
/// again if not. That is one set in a while instead of two operations a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    pub(crate) index: usize,
}

impl Timer {
    /// The last instant there is. An event timer set for it fires when the input ends, and never
    /// before.
    pub const END_OF_INPUT: i64 = i64::MAX;

    /// Sets the timer for the current key at this time, in milliseconds since the epoch.
    ///
    /// # Errors
    ///
    /// A call that has no key.
    #[inline]
    pub fn set(&self, cx: &mut Context, time: i64) -> Result {
        let key = cx.keyed()?;
        cx.timers[self.index].set(key, time);
        cx.effects = true;
        Ok(())
    }

    /// Cancels the timer of the current key at this time, if it is set.
    ///
    /// # Errors
    ///
    /// A call that has no key.
    pub fn cancel(&self, cx: &mut Context, time: i64) -> Result {
        self.cancel_at(cx, b"", time)
    }

    /// Sets the timer for the current key and a namespace, such as a window.
    ///
    /// # Errors
    ///
    /// A call that has no key.
    pub fn set_at(
        &self,
        cx: &mut Context,
        namespace: &(impl AsRef<[u8]> + ?Sized),
        time: i64,
    ) -> Result {
        if namespace.as_ref().is_empty() {
            return self.set(cx, time);
        }
        let key = cx.keyed()?;
        cx.timers[self.index]
            .spaced
            .push(key, namespace.as_ref(), time, true);
        cx.effects = true;
        Ok(())
    }

    /// Cancels the timer of the current key and a namespace at this time, if it is set.
    ///
    /// # Errors
    ///
    /// A call that has no key.
    pub fn cancel_at(
        &self,
        cx: &mut Context,
        namespace: &(impl AsRef<[u8]> + ?Sized),
        time: i64,
    ) -> Result {
        let key = cx.keyed()?;
        cx.timers[self.index].cancel(key, namespace.as_ref(), time);
        cx.effects = true;
        Ok(())
    }
}

/// What is pending of one declared timer.
#[derive(Debug)]
pub(crate) struct TimerOps {
    timer: u32,
    plain: Ops,
    spaced: Ops,
    /// By key index: the time last set without a namespace, so that the usual "set it again for every
    /// record" costs one comparison. Empty until something is set.
    last: Vec<Option<i64>>,
    keys: u32,
}

impl TimerOps {
    pub(crate) fn new(timer: u32) -> TimerOps {
        TimerOps {
            timer,
            plain: Ops::new(Cells::plain),
            spaced: Ops::new(Cells::spaced),
            last: Vec::new(),
            keys: 0,
        }
    }

    pub(crate) fn begin(&mut self, keys: u32) {
        self.plain.forget();
        self.spaced.forget();
        self.last.clear();
        self.keys = keys;
    }

    #[inline]
    fn set(&mut self, key: u32, time: i64) {
        if self.last.is_empty() {
            self.last.resize(self.keys as usize, None);
        }
        let last = &mut self.last[key as usize];
        if *last != Some(time) {
            *last = Some(time);
            self.plain.push(key, b"", time, true);
        }
    }

    fn cancel(&mut self, key: u32, namespace: &[u8], time: i64) {
        if namespace.is_empty() {
            if let Some(last) = self.last.get_mut(key as usize) {
                *last = None;
            }
            self.plain.push(key, b"", time, false);
        } else {
            self.spaced.push(key, namespace, time, false);
        }
    }

    /// Hands over what is pending.
    pub(crate) fn flush(&mut self, host: &mut dyn Host) {
        self.plain.flush(self.timer, host);
        self.spaced.flush(self.timer, host);
    }
}

/// Sets and cancels in their order.
#[derive(Debug)]
struct Ops {
    new_cells: fn() -> Cells,
    at: Cells,
    times: Vec<i64>,
    sets: Vec<bool>,
}

impl Ops {
    fn new(new_cells: fn() -> Cells) -> Ops {
        Ops {
            new_cells,
            at: new_cells(),
            times: Vec::new(),
            sets: Vec::new(),
        }
    }

    fn forget(&mut self) {
        self.at.clear();
        self.times.clear();
        self.sets.clear();
    }

    #[inline]
    fn push(&mut self, key: u32, namespace: &[u8], time: i64, set: bool) {
        self.at.push(key, namespace);
        self.times.push(time);
        self.sets.push(set);
    }

    fn flush(&mut self, timer: u32, host: &mut dyn Host) {
        if self.times.is_empty() {
            return;
        }
        if self.sets.iter().all(|&set| set) {
            host.set_timers(timer, &self.at, &self.times);
        } else {
            // The last of a timer's operations is all that counts, whatever came before.
            let mut last = BTreeMap::new();
            for (row, (&key, &time)) in self.at.keys.iter().zip(&self.times).enumerate() {
                last.insert((key, self.at.namespace(row), time), self.sets[row]);
            }
            for wanted in [false, true] {
                let (mut at, mut times) = ((self.new_cells)(), Vec::new());
                for (&(key, namespace, time), _) in last.iter().filter(|&(_, &set)| set == wanted) {
                    at.push(key, namespace);
                    times.push(time);
                }
                match wanted {
                    _ if times.is_empty() => {}
                    true => host.set_timers(timer, &at, &times),
                    false => host.cancel_timers(timer, &at, &times),
                }
            }
        }
        self.forget();
    }
}
