//! The task of a source subtask: a reader, its watermarks, its pace, the barriers that start here, and the chain that shares its
//! thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::chain::{Chain, Outlet};
use super::{Error, Frozen, Step, Task};
use crate::batch::{Batch, MAX_ROWS, NO_TIME, Origin, hash_of};
use crate::channel::{Barrier, Closed, Element};
use crate::clock;
use crate::decode::dead_letter::{Form, Letter};
use crate::exchange::Exchange;
use crate::headers::{Header, Headers};
use crate::metrics::{Counters, Origins, Reading, Share, Waiting, Waits};
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
    waits: Arc<Waits>,
    /// Whether to read nothing for now.
    paused: AtomicBool,
}

#[derive(Default)]
struct Orders {
    barriers: VecDeque<Barrier>,
    closed: bool,
}

impl SourceControl {
    /// The line to a task that accounts for its waits in `waits`.
    pub fn new(waits: Arc<Waits>) -> SourceControl {
        SourceControl {
            waits,
            ..SourceControl::default()
        }
    }

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
            self.waits.during(Waiting::Input, || {
                drop(self.changed.wait_timeout(orders, wait));
            });
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

/// Where the records of one of a source's ports go: over exchanges, and to nodes of the same thread.
struct Port {
    exchanges: Vec<Exchange>,
    /// Nodes of the chain, with the input of each.
    chained: Vec<(usize, u32)>,
    /// What the chained nodes get next.
    builder: Batch,
}

impl Port {
    fn new(outlets: Vec<Outlet>) -> Port {
        let mut port = Port {
            exchanges: Vec::new(),
            chained: Vec::new(),
            builder: Batch::default(),
        };
        for outlet in outlets {
            match outlet {
                Outlet::Exchange(exchange) => port.exchanges.push(exchange),
                Outlet::Chained(at, input) => port.chained.push((at, input)),
            }
        }
        port
    }

    fn push<'a>(
        &mut self,
        key: Option<&[u8]>,
        hash: u64,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = Header<'a>> + Clone,
        time: i64,
        origin: Origin,
    ) -> Result<(), Closed> {
        if !self.chained.is_empty() {
            let headers = headers.clone();
            self.builder
                .push_with_headers(key, hash, value, headers, time, origin);
        }
        let mut exchanges = self.exchanges.iter_mut();
        exchanges.try_for_each(|to| to.push(key, hash, value, headers.clone(), time, origin))
    }

    /// Hands what lies in the builder to the chained nodes.
    fn deliver(&mut self, chain: &mut Chain) -> Result<(), Error> {
        let Some(((last, input), others)) = self.chained.split_last() else {
            return Ok(());
        };
        if self.builder.is_empty() {
            return Ok(());
        }
        let next = Batch::with_capacity_of(&self.builder);
        let batch = std::mem::replace(&mut self.builder, next);
        for (at, input) in others {
            chain.records(*at, *input, batch.clone())?;
        }
        chain.records(*last, *input, batch)
    }
}

/// Where the reader's records go.
struct Outlets {
    records: Port,
    dead_letters: Port,
    letter_form: Form,
    /// Those of the record that is emitted, for each of the places that it goes to.
    headers: Headers,
    watermarks: SplitWatermarks,
    /// Whether the times of its records are event times.
    has_event_time: bool,
    origins: Arc<Origins>,
    /// Records this read may still emit.
    allowance: usize,
    emitted: usize,
    dead: u64,
    skipped: u64,
    closed: bool,
}

impl Outlets {
    fn exchanges(&mut self) -> impl Iterator<Item = &mut Exchange> {
        let dead_letters = &mut self.dead_letters.exchanges;
        self.records.exchanges.iter_mut().chain(dead_letters)
    }

    fn flush(&mut self, only_parked: bool) -> Result<(), Closed> {
        self.exchanges()
            .try_for_each(|exchange| exchange.flush(only_parked))
    }

    fn control(&mut self, element: &Element) -> Result<(), Closed> {
        self.exchanges()
            .try_for_each(|exchange| exchange.control(element))
    }

    fn seen(&mut self, split: u32, time: i64) {
        if self.has_event_time && time != NO_TIME {
            self.watermarks.seen(split, time);
        }
        self.emitted += 1;
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
        self.seen(split, time);
        let none = std::iter::empty();
        let pushed = self
            .records
            .push(key, hash_of(key), value, none, time, origin);
        self.closed |= pushed.is_err();
    }

    fn record_with_headers(
        &mut self,
        split: u32,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &mut dyn Iterator<Item = Header<'_>>,
        time: i64,
        origin: Origin,
    ) {
        self.seen(split, time);
        self.headers.clear();
        self.headers.push(headers);
        let headers = self.headers.of(0);
        let pushed = self
            .records
            .push(key, hash_of(key), value, headers, time, origin);
        self.closed |= pushed.is_err();
    }

    fn skipped(&mut self, _split: u32) {
        self.skipped += 1;
        self.emitted += 1;
    }

    fn dead_letter(&mut self, _split: u32, letter: &Letter<'_>, origin: Origin) {
        let mut batch = Batch::default();
        letter.push(&self.letter_form, origin, &mut batch);
        let pushed = self.dead_letters.push(
            batch.keys.get(0),
            batch.hashes[0],
            batch.values.get(0),
            batch.headers_of(0),
            batch.times[0],
            origin,
        );
        self.closed |= pushed.is_err();
        self.dead += 1;
        self.emitted += 1;
    }

    fn opened(&mut self, split: u32) {
        self.watermarks.open(split);
    }

    fn done(&mut self, split: u32) {
        self.watermarks.done(split);
    }

    fn idle(&mut self, split: u32) {
        self.watermarks.idle(split);
    }

    fn origin(&mut self, name: &str, unit: &'static str) -> u32 {
        self.origins.add(name, unit)
    }

    fn full(&self) -> bool {
        self.emitted >= self.allowance
            || self.closed
            || self.records.builder.is_full()
            || self.dead_letters.builder.is_full()
    }
}

/// A source subtask, steppable.
pub struct SourceTask {
    id: String,
    reader: Box<dyn Reader>,
    outlets: Outlets,
    /// What shares the thread.
    chain: Chain,
    /// Number of the checkpoint after the last barrier: what is staged at the end carries it.
    next_n: u64,
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
    /// Whether the times of its records are event times and make watermarks. Kafka's records have a time in any case.
    pub has_event_time: bool,
    /// Bound of the disorder in milliseconds.
    pub out_of_order: i64,
    /// See [`crate::job::model::EventTime::idle`].
    pub idle_after: Duration,
    /// Records a second for this subtask.
    pub rate: Option<f64>,
    /// Number of the attempt's first checkpoint.
    pub next_n: u64,
    /// How its dead letters are written.
    pub letter_form: Form,
    /// Where the names of inputs go that are found while the job runs.
    pub origins: Arc<Origins>,
}

/// Where a [`SourceTask`] leads.
pub struct SourceOutlets {
    /// Where its records go.
    pub records: Vec<Outlet>,
    /// Where what cannot be decoded goes.
    pub dead_letters: Vec<Outlet>,
    /// The nodes that share its thread; there may be none.
    pub chain: Chain,
}

impl SourceTask {
    /// A task that reads from `reader`.
    pub fn new(
        settings: SourceSettings,
        reader: Box<dyn Reader>,
        outlets: SourceOutlets,
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
                records: Port::new(outlets.records),
                dead_letters: Port::new(outlets.dead_letters),
                letter_form: settings.letter_form,
                headers: Headers::default(),
                watermarks,
                has_event_time: settings.has_event_time,
                origins: settings.origins,
                allowance: 0,
                emitted: 0,
                dead: 0,
                skipped: 0,
                closed: false,
            },
            chain: outlets.chain,
            next_n: settings.next_n,
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
        let sent = (emitted as u64).saturating_sub(dead + skipped);
        self.counters.add_records_out(sent);
        if emitted > 0 {
            self.idle_since = None;
            if std::mem::take(&mut self.is_idle) {
                self.chain.active(self.watermark)?;
            }
        }
        if self.outlets.closed {
            return Err(Error::Closed);
        }
        self.outlets.records.deliver(&mut self.chain)?;
        self.outlets.dead_letters.deliver(&mut self.chain)?;
        read.map_err(|error| Error::Source {
            source_id: self.id.clone(),
            error,
        })
    }

    /// Sends what lies in builders; see [`Exchange::flush`].
    fn flush(&mut self, only_parked: bool) -> Result<(), Error> {
        self.outlets.flush(only_parked)?;
        if !only_parked {
            self.chain.quiet()?;
        }
        Ok(self.chain.flush(only_parked)?)
    }

    /// Passes the watermark on, if it advanced and the last one is long enough ago.
    fn advance(&mut self, now: Instant) -> Result<(), Error> {
        if now.saturating_duration_since(self.watermark_at) < WATERMARK_INTERVAL || self.is_idle {
            return Ok(());
        }
        self.watermark_at = now;
        self.report();
        self.send_watermark()
    }

    fn report(&self) {
        self.share.set(Reading {
            share: self.reader.share(),
            files: self.reader.files(),
            lag: self.reader.lag(),
        });
    }

    fn send_watermark(&mut self) -> Result<(), Error> {
        let watermark = self.outlets.watermarks.current();
        if watermark > self.watermark {
            self.watermark = watermark;
            self.counters.set_watermark(watermark);
            self.outlets.control(&Element::Watermark(watermark))?;
            self.chain.advance(watermark)?;
        }
        Ok(())
    }

    /// Nothing to read: waits a little, and says so downstream once it lasts.
    fn rest(&mut self, now: Instant) -> Result<(), Error> {
        let since = *self.idle_since.get_or_insert(now);
        // Without an input so far there is nothing to wait for.
        let at_once = self.watermark == NO_TIME && !self.outlets.watermarks.any_open();
        let lasts = now.saturating_duration_since(since) >= self.idle_after;
        if !self.is_idle && (at_once || lasts) {
            self.send_watermark()?;
            self.is_idle = true;
            self.report();
            self.outlets.control(&Element::Idle)?;
            self.chain.idle()?;
        }
        self.control.wait(IDLE_WAIT);
        Ok(())
    }

    /// Adds the splits' positions to what the chain holds.
    fn with_positions(&self, mut frozen: Frozen) -> Frozen {
        let mut splits = self.reader.splits();
        for split in &mut splits {
            split.max_time = self.outlets.watermarks.max_time(split.split);
        }
        frozen.sources.push((self.id.clone(), splits));
        frozen
    }

    /// Passes a barrier on. All that was read has been delivered.
    fn barrier(&mut self, barrier: Barrier) -> Result<Step, Error> {
        self.outlets.control(&Element::Barrier(barrier))?;
        self.chain.barrier(barrier)?;
        self.stopped |= barrier.last;
        self.next_n = barrier.n + 1;
        // What is chained to a source has no keys and so no state that takes time to collect.
        let complete = self.chain.collect_all()?;
        let (barrier, frozen) = complete.expect("it was frozen just now");
        Ok(Step::Snapshot(barrier, self.with_positions(frozen)))
    }
}

impl Task for SourceTask {
    /// Obeys the coordinator, reads up to a batch, passes on watermarks.
    fn step(&mut self) -> Result<Step, Error> {
        if let Some(barrier) = self.control.take()? {
            return self.barrier(barrier);
        }
        if self.stopped {
            self.control.wait(Duration::from_secs(1));
            return Ok(Step::Continue);
        }
        if self.control.paused.load(Ordering::Relaxed) {
            self.flush(false)?;
            // Not reading is not the same as having nothing to read.
            self.idle_since = None;
            self.control.wait(IDLE_WAIT);
            return Ok(Step::Continue);
        }
        let now = clock::now();
        self.outlets.allowance = match &mut self.pace {
            Some(pace) => pace.allowed(now).min(MAX_ROWS),
            None => MAX_ROWS,
        };
        if self.outlets.allowance == 0 {
            self.flush(false)?;
            self.advance(now)?;
            let wait = self.pace.as_ref().map_or(IDLE_WAIT, Pace::wait);
            self.control.wait(wait);
            return Ok(Step::Continue);
        }
        let began = clock::nanos();
        let progress = self.read()?;
        self.advance(now)?;
        match progress {
            Progress::More => self.flush(true)?,
            Progress::Idle => {
                self.flush(false)?;
                // A reader may itself have waited a little for input.
                if self.outlets.emitted == 0 {
                    self.control.waits.was_idle_since(began);
                }
                self.rest(now)?;
            }
            Progress::Waiting => {
                self.flush(false)?;
                if self.outlets.emitted == 0 {
                    self.control.waits.was_idle_since(began);
                }
                self.idle_since = None;
                self.control.wait(IDLE_WAIT);
            }
            Progress::Ended => {
                self.report();
                self.outlets.control(&Element::End)?;
                let frozen = self.chain.end(self.next_n)?;
                return Ok(Step::Ended(self.with_positions(frozen)));
            }
        }
        Ok(Step::Continue)
    }
}

#[cfg(test)]
mod tests;
