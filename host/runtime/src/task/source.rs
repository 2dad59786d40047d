//! The task of a source subtask: a reader, its watermarks, its pace, and the barriers that start here.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Error, Frozen, Step, Task};
use crate::batch::{MAX_ROWS, NO_TIME, Origin, hash_of};
use crate::channel::{Barrier, Closed, Element};
use crate::clock;
use crate::exchange::Exchange;
use crate::metrics::Counters;
use crate::source::{Emit, Progress, Reader};
use crate::watermark::SplitWatermarks;

/// Watermarks are emitted at most this often: each cuts a batch downstream.
const WATERMARK_INTERVAL: Duration = Duration::from_millis(50);

/// How long a source with nothing to read waits before it looks again.
const IDLE_WAIT: Duration = Duration::from_millis(5);

/// The coordinator's line to one source task.
#[derive(Default)]
pub struct SourceControl {
    orders: Mutex<Orders>,
    changed: Condvar,
    /// Whether there are orders: looked at once a step, without the lock.
    pending: AtomicBool,
    /// Whether to read nothing for now.
    paused: AtomicBool,
}

#[derive(Default)]
struct Orders {
    barriers: VecDeque<Barrier>,
    closed: bool,
}

impl SourceControl {
    fn change(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut self.orders.lock().unwrap_or_else(PoisonError::into_inner));
        self.pending.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// Asks for a barrier after the record that is emitted now.
    pub fn inject(&self, barrier: Barrier) {
        self.change(|orders| orders.barriers.push_back(barrier));
    }

    /// Ends the task without further output.
    pub fn close(&self) {
        self.change(|orders| orders.closed = true);
    }

    /// Stops reading, or goes on. Barriers are obeyed all the same.
    pub fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::Relaxed);
    }

    /// Waits up to `wait` for an order.
    fn wait(&self, wait: Duration) {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if orders.barriers.is_empty() && !orders.closed {
            drop(self.changed.wait_timeout(orders, wait));
        }
    }

    fn take(&self) -> Result<Option<Barrier>, Closed> {
        if !self.pending.load(Ordering::Acquire) {
            return Ok(None);
        }
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if orders.closed {
            return Err(Closed);
        }
        let barrier = orders.barriers.pop_front();
        self.pending
            .store(!orders.barriers.is_empty(), Ordering::Release);
        Ok(barrier)
    }
}

/// Lets through at most `rate` records a second, evenly over time; what was not used in a quarter second is gone.
struct Pace {
    rate: f64,
    allowance: f64,
    last: Instant,
}

impl Pace {
    fn new(rate: f64) -> Pace {
        Pace {
            rate,
            allowance: 0.0,
            last: clock::now(),
        }
    }

    /// Whole records allowed now.
    fn allowed(&mut self, now: Instant) -> usize {
        let passed = now.saturating_duration_since(self.last).as_secs_f64();
        self.last = now;
        self.allowance = (self.allowance + passed * self.rate).min((self.rate / 4.0).max(1.0));
        self.allowance as usize
    }

    fn used(&mut self, records: usize) {
        self.allowance -= records as f64;
    }

    fn wait(&self) -> Duration {
        Duration::from_secs_f64(((1.0 - self.allowance) / self.rate).clamp(0.001, 0.1))
    }
}

/// Where the reader's records go.
struct Outlets {
    records: Vec<Exchange>,
    dead_letters: Vec<Exchange>,
    watermarks: SplitWatermarks,
    /// Records this read may still emit.
    allowance: usize,
    emitted: usize,
    dead: u64,
    skipped: u64,
    closed: bool,
}

impl Outlets {
    fn flush(&mut self, only_parked: bool) -> Result<(), Closed> {
        let mut all = self.records.iter_mut().chain(&mut self.dead_letters);
        all.try_for_each(|exchange| exchange.flush(only_parked))
    }

    fn control(&mut self, element: &Element) -> Result<(), Closed> {
        let mut all = self.records.iter_mut().chain(&mut self.dead_letters);
        all.try_for_each(|exchange| exchange.control(element))
    }
}

impl Emit for Outlets {
    fn record(
        &mut self,
        split: u32,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        time: i64,
        origin: Origin,
    ) {
        if time != NO_TIME {
            self.watermarks.seen(split, time);
        }
        let hash = hash_of(key);
        for exchange in &mut self.records {
            self.closed |= exchange.push(key, hash, value, time, origin).is_err();
        }
        self.emitted += 1;
    }

    fn skipped(&mut self, _split: u32) {
        self.skipped += 1;
        self.emitted += 1;
    }

    fn dead_letter(&mut self, _split: u32, value: &[u8], origin: Origin) {
        for exchange in &mut self.dead_letters {
            self.closed |= exchange
                .push(None, 0, Some(value), NO_TIME, origin)
                .is_err();
        }
        self.dead += 1;
        self.emitted += 1;
    }

    fn opened(&mut self, split: u32) {
        self.watermarks.open(split);
    }

    fn done(&mut self, split: u32) {
        self.watermarks.done(split);
    }

    fn full(&self) -> bool {
        self.emitted >= self.allowance || self.closed
    }
}

/// How much a source task has read, and of how much; read by the progress line.
#[derive(Debug, Default)]
pub struct Share(Mutex<Option<(u64, u64)>>);

impl Share {
    /// Read and total, in the connector's unit; `None` where there is no end to tell of.
    pub fn get(&self) -> Option<(u64, u64)> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, share: Option<(u64, u64)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = share;
    }
}

/// A source subtask, steppable.
pub struct SourceTask {
    id: String,
    reader: Box<dyn Reader>,
    outlets: Outlets,
    control: Arc<SourceControl>,
    counters: Arc<Counters>,
    share: Arc<Share>,
    pace: Option<Pace>,
    /// A split without anything to read for so long no longer holds the watermark.
    idle_after: Duration,
    idle_since: Option<Instant>,
    is_idle: bool,
    watermark: i64,
    watermark_at: Instant,
    /// A last barrier was passed: nothing more is emitted.
    stopped: bool,
}

/// Settings of a [`SourceTask`].
pub struct SourceSettings {
    /// The source's id.
    pub id: String,
    /// Bound of the disorder in milliseconds.
    pub out_of_order: i64,
    /// See [`crate::job::model::EventTime::idle`].
    pub idle_after: Duration,
    /// Records a second for this subtask.
    pub rate: Option<f64>,
}

impl SourceTask {
    /// A task that reads from `reader` and writes to `records` and, what cannot be decoded, to `dead_letters`.
    pub fn new(
        settings: SourceSettings,
        reader: Box<dyn Reader>,
        records: Vec<Exchange>,
        dead_letters: Vec<Exchange>,
        control: Arc<SourceControl>,
        counters: Arc<Counters>,
        share: Arc<Share>,
    ) -> SourceTask {
        let mut watermarks = SplitWatermarks::new(settings.out_of_order);
        for split in reader.splits() {
            watermarks.restore(split.split, split.max_time);
        }
        SourceTask {
            id: settings.id,
            reader,
            outlets: Outlets {
                records,
                dead_letters,
                watermarks,
                allowance: 0,
                emitted: 0,
                dead: 0,
                skipped: 0,
                closed: false,
            },
            control,
            counters,
            share,
            pace: settings.rate.map(Pace::new),
            idle_after: settings.idle_after,
            idle_since: None,
            is_idle: false,
            watermark: NO_TIME,
            watermark_at: clock::now(),
            stopped: false,
        }
    }

    fn read(&mut self) -> Result<Progress, Error> {
        self.outlets.emitted = 0;
        let read = self.reader.read(&mut self.outlets);
        let emitted = self.outlets.emitted;
        if let Some(pace) = &mut self.pace {
            pace.used(emitted);
        }
        let dead = std::mem::take(&mut self.outlets.dead);
        let skipped = std::mem::take(&mut self.outlets.skipped);
        self.counters.add_dead(dead);
        self.counters.add_skipped(skipped);
        self.counters.add_read(emitted as u64);
        if emitted > 0 {
            self.idle_since = None;
            self.is_idle = false;
        }
        if self.outlets.closed {
            return Err(Error::Closed);
        }
        read.map_err(|error| Error::Source {
            source_id: self.id.clone(),
            error,
        })
    }

    /// Passes the watermark on, if it advanced and the last one is long enough ago.
    fn advance(&mut self, now: Instant) -> Result<(), Closed> {
        if now.saturating_duration_since(self.watermark_at) < WATERMARK_INTERVAL || self.is_idle {
            return Ok(());
        }
        self.watermark_at = now;
        self.share.set(self.reader.share());
        self.send_watermark()
    }

    fn send_watermark(&mut self) -> Result<(), Closed> {
        let watermark = self.outlets.watermarks.current();
        if watermark > self.watermark {
            self.watermark = watermark;
            self.outlets.control(&Element::Watermark(watermark))?;
        }
        Ok(())
    }

    /// Nothing to read: waits a little, and says so downstream once it lasts.
    fn rest(&mut self, now: Instant) -> Result<(), Closed> {
        let since = *self.idle_since.get_or_insert(now);
        if !self.is_idle && now.saturating_duration_since(since) >= self.idle_after {
            self.send_watermark()?;
            self.is_idle = true;
            self.outlets.control(&Element::Idle)?;
        }
        self.control.wait(IDLE_WAIT);
        Ok(())
    }

    fn frozen(&self) -> Frozen {
        let mut splits = self.reader.splits();
        for split in &mut splits {
            split.max_time = self.outlets.watermarks.max_time(split.split);
        }
        Frozen {
            sources: vec![(self.id.clone(), splits)],
            ..Frozen::default()
        }
    }
}

impl Task for SourceTask {
    /// Obeys the coordinator, reads up to a batch, passes on watermarks.
    fn step(&mut self) -> Result<Step, Error> {
        if let Some(barrier) = self.control.take()? {
            let frozen = self.frozen();
            self.outlets.control(&Element::Barrier(barrier))?;
            self.stopped |= barrier.last;
            return Ok(Step::Snapshot(barrier, frozen));
        }
        if self.stopped {
            self.control.wait(Duration::from_secs(1));
            return Ok(Step::Continue);
        }
        if self.control.paused.load(Ordering::Relaxed) {
            self.outlets.flush(false)?;
            self.control.wait(IDLE_WAIT);
            return Ok(Step::Continue);
        }
        let now = clock::now();
        self.outlets.allowance = match &mut self.pace {
            Some(pace) => pace.allowed(now).min(MAX_ROWS),
            None => MAX_ROWS,
        };
        if self.outlets.allowance == 0 {
            self.outlets.flush(false)?;
            self.advance(now)?;
            let wait = self.pace.as_ref().map_or(IDLE_WAIT, Pace::wait);
            self.control.wait(wait);
            return Ok(Step::Continue);
        }
        let progress = self.read()?;
        self.advance(now)?;
        match progress {
            Progress::More => self.outlets.flush(true)?,
            Progress::Idle => {
                self.outlets.flush(false)?;
                self.rest(now)?;
            }
            Progress::Ended => {
                self.outlets.flush(false)?;
                self.outlets.control(&Element::End)?;
                return Ok(Step::Ended(self.frozen()));
            }
        }
        Ok(Step::Continue)
    }
}

#[cfg(test)]
mod tests;
