//! The task of an operator chain: inbox, alignment and watermarks around a [`Chain`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::chain::Chain;
use super::{Error, Frozen, Step, Task};
use crate::align::Alignment;
use crate::channel::{Barrier, Element, Inbox, Received};
use crate::clock::{self, ProcessingClock};
use crate::watermark::{Merged, WatermarkMerge};

/// Rows of frozen state that are collected at a time: about as long as a full batch takes.
const ROWS_A_STEP: usize = 1_000;

/// A collection gets at least one in so many parts of the time that elements take, or a slow operator that always has input would
/// never be done with it.
const COLLECTING_SHARE: u32 = 2;

/// An operator chain's subtask, steppable.
pub struct OperatorTask {
    inbox: Inbox,
    /// The head's input that each channel feeds.
    inputs: Vec<u32>,
    chain: Chain,
    alignment: Alignment,
    merge: WatermarkMerge,
    /// Number of the checkpoint after the last barrier: what is staged at the end carries it.
    next_n: u64,
    clock: Arc<ProcessingClock>,
    /// What is complete and was not reported yet.
    complete: VecDeque<Step>,
}

impl OperatorTask {
    /// A task over `chain`, whose channel i feeds input `inputs[i]` of its head. `blocking` alignment is for exactly once;
    /// `next_n` is the number of the attempt's first checkpoint. Processing-time timers fire by `clock`.
    pub fn new(
        inbox: Inbox,
        inputs: Vec<u32>,
        chain: Chain,
        blocking: bool,
        next_n: u64,
        clock: Arc<ProcessingClock>,
    ) -> OperatorTask {
        OperatorTask {
            alignment: Alignment::new(inputs.len(), blocking),
            merge: WatermarkMerge::new(inputs.len(), chain.watermark()),
            inbox,
            inputs,
            chain,
            next_n,
            clock,
            complete: VecDeque::new(),
        }
    }

    fn element(&mut self, channel: usize, element: Element) -> Result<(), Error> {
        match element {
            Element::Batch(batch) => {
                let mut was_idle = self.merge.on_records(channel);
                for joined in self.inbox.joined() {
                    was_idle |= self.merge.on_records(*joined);
                }
                if was_idle {
                    self.chain.active(self.merge.current())?;
                }
                self.chain.records(0, self.inputs[channel], batch)?;
                self.chain.flush(true)?;
            }
            Element::Watermark(watermark) => {
                let merged = self.merge.on_watermark(channel, watermark);
                self.time(merged)?;
            }
            Element::Idle => {
                let merged = self.merge.on_idle(channel);
                self.time(merged)?;
            }
            Element::Barrier(barrier) => {
                let outcome = self.alignment.on_barrier(channel, barrier);
                if outcome.block {
                    self.inbox.set_blocked(channel, true);
                }
                self.pass(outcome)?;
            }
            Element::End => {
                let outcome = self.alignment.on_end(channel);
                if self.alignment.all_ended() {
                    self.collect_all()?;
                    let frozen = self.chain.end(self.next_n)?;
                    self.complete.push_back(Step::Ended(frozen));
                    return Ok(());
                }
                self.pass(outcome)?;
                let merged = self.merge.on_end(channel);
                self.time(merged)?;
            }
        }
        Ok(())
    }

    /// Collects all that is left of what the last barrier froze.
    fn collect_all(&mut self) -> Result<(), Error> {
        let complete = self.chain.collect_all()?;
        self.report(complete);
        Ok(())
    }

    /// Collects some more of what the last barrier froze, after an element that took since `began`.
    fn collect_after(&mut self, began: Instant) -> Result<(), Error> {
        let worked = clock::now();
        let share = worked.saturating_duration_since(began) / COLLECTING_SHARE;
        while self.chain.is_collecting() {
            let complete = self.chain.collect(ROWS_A_STEP)?;
            self.report(complete);
            if clock::now().saturating_duration_since(worked) >= share {
                break;
            }
        }
        Ok(())
    }

    fn report(&mut self, complete: Option<(Barrier, Frozen)>) {
        let step = complete.map(|(barrier, frozen)| Step::Snapshot(barrier, frozen));
        self.complete.extend(step);
    }

    fn pass(&mut self, outcome: crate::align::Outcome) -> Result<(), Error> {
        for barrier in outcome.complete {
            self.collect_all()?;
            self.chain.barrier(barrier)?;
            self.next_n = barrier.n + 1;
        }
        if outcome.unblock {
            for channel in 0..self.inputs.len() {
                self.inbox.set_blocked(channel, false);
            }
        }
        Ok(())
    }

    fn time(&mut self, merged: Merged) -> Result<(), Error> {
        if let Some(watermark) = merged.watermark {
            self.chain.advance(watermark)?;
        }
        if merged.idle {
            self.chain.idle()?;
        }
        Ok(())
    }

    /// Fires what is due and says when to look again.
    fn fire_processing_timers(&mut self) -> Result<Option<Instant>, Error> {
        let Some(next) = self.chain.next_processing_timer() else {
            return Ok(None);
        };
        let time = self.clock.read();
        if next <= time {
            self.chain.fire_processing_timers(time)?;
            self.chain.flush(true)?;
        }
        let Some(next) = self.chain.next_processing_timer() else {
            return Ok(None);
        };
        // At least a millisecond, so that a timer that sets itself again for "now" does not keep the inbox waiting; at most a second, so
        // that a wall clock that was moved is noticed.
        let millis = next.saturating_sub(time).clamp(1, 1_000);
        Ok(Some(
            clock::now() + Duration::from_millis(millis.unsigned_abs()),
        ))
    }
}

impl Task for OperatorTask {
    /// Takes one element and carries it through the chain, then collects a bit of frozen state if there is some. Without any it waits
    /// for the element, no longer than until the next processing-time timer.
    fn step(&mut self) -> Result<Step, Error> {
        if let Some(step) = self.complete.pop_front() {
            return Ok(step);
        }
        let mut deadline = self.fire_processing_timers()?;
        if self.chain.is_collecting() {
            deadline = Some(clock::now());
        }
        let (inputs, chain) = (&self.inputs, &mut self.chain);
        let mut failed = None;
        let received = self.inbox.receive(
            deadline,
            &|one, other| inputs[one] == inputs[other],
            &mut || {
                if let Err(error) = chain.quiet() {
                    failed = Some(error);
                }
                chain.flush(false)
            },
        );
        if let Some(error) = failed {
            return Err(error);
        }
        let began = clock::now();
        match received {
            Received::Closed => return Err(Error::Closed),
            Received::Nothing => {}
            Received::Element(channel, element) => self.element(channel, element)?,
        }
        self.collect_after(began)?;
        Ok(self.complete.pop_front().unwrap_or(Step::Continue))
    }
}
