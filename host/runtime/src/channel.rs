//! Channels between tasks: one inbox a task, one queue an upstream subtask, bounded in bytes.
//!
//! An inbox's queues share one budget of [`BUDGET`] bytes. A queue that is empty always admits one batch, however large, so that
//! nothing deadlocks on a large record; beyond that a queue takes from the shared budget, and one that alignment has
//! blocked takes nothing, or a stalled channel would starve the one that alignment waits for. Control elements are always admitted:
//! there are few, and a barrier must not wait for room.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::batch::{Batch, MAX_ROWS, TARGET_BYTES};
use crate::metrics::{Waiting, Waits};

/// Bytes that an inbox's queues may hold together, beyond the one batch that each may always hold.
pub const BUDGET: usize = 1 << 20;

/// What flows between subtasks.
#[derive(Clone, Debug, PartialEq)]
pub enum Element {
    /// Records.
    Batch(Batch),
    /// No record at or below this time follows, late ones aside.
    Watermark(i64),
    /// Nothing is to be expected for now: the channel does not hold watermarks back until its next batch or watermark.
    Idle,
    /// Everything before this belongs to checkpoint `n` and everything after it does not.
    Barrier(Barrier),
    /// Nothing follows.
    End,
}

/// The barrier of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// Number of the checkpoint.
    pub n: u64,
    /// Whether the job stops after it.
    pub last: bool,
    /// The newest confirmed checkpoint: snapshots may build on its files. 0 if there is none.
    pub base: u64,
}

/// The other side is gone: the attempt is being cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// What [`Inbox::receive`] came back with.
#[derive(Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is the common one, and a batch is moved on at once"
)]
pub enum Received {
    /// An element of the numbered queue.
    Element(usize, Element),
    /// Nothing came before the deadline.
    Nothing,
    /// The attempt is being cancelled.
    Closed,
}

struct Queues {
    queues: Vec<VecDeque<Element>>,
    blocked: Vec<bool>,
    /// Bytes of all queued batches.
    bytes: usize,
    /// Where the next look starts, so that no queue is starved.
    next: usize,
    closed: bool,
    /// Senders waiting for room.
    waiting: usize,
}

struct Shared {
    queues: Mutex<Queues>,
    filled: Condvar,
    room: Condvar,
    /// The consumer sleeps: whoever holds half a batch should send it.
    parked: AtomicBool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        // A panicking task closes its attempt; the queues themselves are never left half changed.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The receiving side.
pub struct Inbox {
    shared: Arc<Shared>,
    joined: Vec<usize>,
    waits: Arc<Waits>,
}

/// The sending side of one queue.
pub struct Sender {
    shared: Arc<Shared>,
    queue: usize,
    waits: Arc<Waits>,
    /// The task that reads the inbox.
    target: u32,
}

/// Looks into an inbox from outside.
#[derive(Clone)]
pub struct Gauge(Arc<Shared>);

/// What lies in an inbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// Bytes of all batches.
    pub bytes: usize,
    /// Queues.
    pub queues: usize,
    /// Queues that alignment holds back: they have delivered a barrier that others have not.
    pub blocked: usize,
}

impl Gauge {
    /// What lies in it now.
    pub fn look(&self) -> Queued {
        let queues = self.0.lock();
        Queued {
            bytes: queues.bytes,
            queues: queues.queues.len(),
            blocked: queues.blocked.iter().filter(|blocked| **blocked).count(),
        }
    }
}

impl std::fmt::Debug for Gauge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.look().fmt(f)
    }
}

/// Closes an inbox from outside: pending and later sends and receives end with [`Closed`].
#[derive(Clone)]
pub struct Closer(Arc<Shared>);

impl Closer {
    /// Closes it.
    pub fn close(&self) {
        self.0.lock().closed = true;
        self.0.filled.notify_all();
        self.0.room.notify_all();
    }
}

/// An inbox with `queues` queues, and the sender of each.
pub fn inbox(queues: usize) -> (Inbox, Vec<Sender>) {
    let shared = Arc::new(Shared {
        queues: Mutex::new(Queues {
            queues: (0..queues).map(|_| VecDeque::new()).collect(),
            blocked: vec![false; queues],
            bytes: 0,
            next: 0,
            closed: false,
            waiting: 0,
        }),
        filled: Condvar::new(),
        room: Condvar::new(),
        parked: AtomicBool::new(false),
    });
    let senders = (0..queues)
        .map(|queue| Sender {
            shared: shared.clone(),
            queue,
            waits: Arc::default(),
            target: 0,
        })
        .collect();
    (
        Inbox {
            shared,
            joined: Vec::new(),
            waits: Arc::default(),
        },
        senders,
    )
}

fn size(element: &Element) -> usize {
    match element {
        Element::Batch(batch) => batch.bytes(),
        _ => 0,
    }
}

impl Sender {
    /// Accounts for the time it waits in `waits`, as waiting for room at task `target`.
    pub fn metered(mut self, waits: Arc<Waits>, target: u32) -> Sender {
        self.waits = waits;
        self.target = target;
        self
    }

    /// Queues an element, waiting for room if it is a batch.
    ///
    /// # Errors
    /// [`Closed`] when the attempt is being cancelled.
    pub fn send(&self, element: Element) -> Result<(), Closed> {
        let bytes = size(&element);
        let mut queues = self.shared.lock();
        if bytes > 0 && !queues.admits(self.queue, bytes) {
            queues = self.waits.during(Waiting::Room(self.target), || {
                while !queues.closed && !queues.admits(self.queue, bytes) {
                    queues.waiting += 1;
                    queues = self
                        .shared
                        .room
                        .wait(queues)
                        .unwrap_or_else(PoisonError::into_inner);
                    queues.waiting -= 1;
                }
                queues
            });
        }
        if queues.closed {
            return Err(Closed);
        }
        queues.bytes += bytes;
        queues.queues[self.queue].push_back(element);
        drop(queues);
        if self.shared.parked.load(Ordering::Relaxed) {
            self.shared.filled.notify_one();
        }
        Ok(())
    }

    /// Whether the consumer has nothing to do: half a batch is better sent than kept.
    pub fn consumer_is_parked(&self) -> bool {
        self.shared.parked.load(Ordering::Relaxed)
    }
}

impl Queues {
    fn admits(&self, queue: usize, bytes: usize) -> bool {
        self.queues[queue].is_empty() || (!self.blocked[queue] && self.bytes + bytes <= BUDGET)
    }

    fn take(&mut self) -> Option<(usize, Element)> {
        let count = self.queues.len();
        for step in 0..count {
            let queue = (self.next + step) % count;
            if !self.blocked[queue]
                && let Some(element) = self.queues[queue].pop_front()
            {
                self.next = (queue + 1) % count;
                self.bytes -= size(&element);
                return Some((queue, element));
            }
        }
        None
    }

    /// Appends queued batches of the queues that `joins` allows, as far as they stand at the front and fit the cap. Notes in `joined`
    /// which queues gave some, and says whether one is empty now.
    fn join(
        &mut self,
        batch: &mut Batch,
        joins: &dyn Fn(usize) -> bool,
        joined: &mut Vec<usize>,
    ) -> bool {
        let mut emptied = false;
        for queue in 0..self.queues.len() {
            if self.blocked[queue] || !joins(queue) {
                continue;
            }
            while let Some(Element::Batch(front)) = self.queues[queue].front() {
                if batch.len() + front.len() > MAX_ROWS
                    || batch.data_bytes() + front.data_bytes() > TARGET_BYTES
                {
                    break;
                }
                self.bytes -= front.bytes();
                batch.extend(front);
                self.queues[queue].pop_front();
                emptied |= self.queues[queue].is_empty();
                if joined.last() != Some(&queue) {
                    joined.push(queue);
                }
            }
        }
        emptied
    }
}

impl Inbox {
    /// The next element of an unblocked queue, waiting until `deadline` (`None`: for ever) if there is none.
    ///
    /// Batches queued behind a small one, in its own queue or in others for which `joins` holds for both, are joined to it up to a
    /// batch's cap: the guest is called once for them. `before_sleep` runs once if the call would wait.
    pub fn receive(
        &mut self,
        deadline: Option<Instant>,
        joins: &dyn Fn(usize, usize) -> bool,
        before_sleep: &mut dyn FnMut() -> Result<(), Closed>,
    ) -> Received {
        let mut queues = self.shared.lock();
        let mut warned = false;
        loop {
            if queues.closed {
                return Received::Closed;
            }
            if let Some((queue, mut element)) = queues.take() {
                self.joined.clear();
                let joined_empty = match &mut element {
                    Element::Batch(batch) => {
                        queues.join(batch, &|other| joins(queue, other), &mut self.joined)
                    }
                    _ => false,
                };
                // An empty queue admits a batch even while the others use up the budget.
                let emptied = joined_empty || queues.queues[queue].is_empty();
                let wake = queues.waiting > 0 && (emptied || queues.bytes <= BUDGET / 2);
                drop(queues);
                if wake {
                    self.shared.room.notify_all();
                }
                return Received::Element(queue, element);
            }
            if !warned {
                warned = true;
                drop(queues);
                if before_sleep().is_err() {
                    return Received::Closed;
                }
                queues = self.shared.lock();
                continue;
            }
            let now = Instant::now();
            let wait = match deadline {
                Some(deadline) if deadline <= now => return Received::Nothing,
                Some(deadline) => deadline - now,
                None => Duration::from_secs(3600),
            };
            self.shared.parked.store(true, Ordering::Relaxed);
            let filled = &self.shared.filled;
            let waited = self
                .waits
                .during(Waiting::Input, || filled.wait_timeout(queues, wait));
            queues = waited.unwrap_or_else(PoisonError::into_inner).0;
            self.shared.parked.store(false, Ordering::Relaxed);
        }
    }

    /// The queues that gave further batches to the one received last.
    pub fn joined(&self) -> &[usize] {
        &self.joined
    }

    /// Blocks a queue (alignment) or unblocks it.
    pub fn set_blocked(&mut self, queue: usize, blocked: bool) {
        let mut queues = self.shared.lock();
        queues.blocked[queue] = blocked;
        let wake = !blocked && queues.waiting > 0;
        drop(queues);
        if wake {
            self.shared.room.notify_all();
        }
    }

    /// Accounts for the time it waits in `waits`.
    pub fn metered(mut self, waits: Arc<Waits>) -> Inbox {
        self.waits = waits;
        self
    }

    /// A handle that looks into it.
    pub fn gauge(&self) -> Gauge {
        Gauge(self.shared.clone())
    }

    /// A handle that closes it.
    pub fn closer(&self) -> Closer {
        Closer(self.shared.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Origin;

    fn batch(rows: usize, bytes: usize) -> Element {
        let mut batch = Batch::default();
        for row in 0..rows {
            batch.push(
                Some(b"k"),
                1,
                Some(&vec![0; bytes / rows]),
                row as i64,
                Origin::NONE,
            );
        }
        Element::Batch(batch)
    }

    fn receive(inbox: &mut Inbox) -> Received {
        inbox.receive(Some(Instant::now()), &|_, _| true, &mut || Ok(()))
    }

    #[test]
    fn an_empty_queue_admits_one_batch_however_large_and_a_blocked_one_no_second() {
        let (mut inbox, senders) = inbox(2);
        inbox.set_blocked(0, true);
        senders[0].send(batch(1, 4 * BUDGET)).expect("open");
        // The other queue still gets its one batch although the budget is gone.
        senders[1].send(batch(1, 4 * BUDGET)).expect("open");
        let queues = senders[0].shared.lock();
        assert!(!queues.admits(0, 10), "a blocked queue is lent nothing");
        assert!(!queues.admits(1, 10), "the budget is used up");
        drop(queues);
        assert!(matches!(receive(&mut inbox), Received::Element(1, _)));
        assert_eq!(receive(&mut inbox), Received::Nothing, "queue 0 is blocked");
        inbox.set_blocked(0, false);
        assert!(matches!(receive(&mut inbox), Received::Element(0, _)));
    }

    #[test]
    fn small_batches_are_joined_but_never_across_a_control_element() {
        let (mut inbox, senders) = inbox(2);
        senders[0].send(batch(2, 10)).expect("open");
        senders[0].send(batch(3, 10)).expect("open");
        senders[0].send(Element::Watermark(7)).expect("open");
        senders[0].send(batch(5, 10)).expect("open");
        senders[1].send(batch(7, 10)).expect("open");
        let Received::Element(0, Element::Batch(joined)) = receive(&mut inbox) else {
            panic!("a batch first")
        };
        assert_eq!(joined.len(), 2 + 3 + 7);
        assert_eq!(
            receive(&mut inbox),
            Received::Element(0, Element::Watermark(7))
        );
    }

    #[test]
    fn a_sender_waits_for_room_and_is_woken_by_the_receiver() {
        let (mut inbox, mut senders) = inbox(1);
        let sender = senders.remove(0);
        let thread = std::thread::spawn(move || {
            for _ in 0..100 {
                sender.send(batch(1, BUDGET / 4)).expect("open");
            }
            sender.send(Element::End).expect("open");
        });
        let mut got = 0;
        loop {
            match inbox.receive(None, &|_, _| true, &mut || Ok(())) {
                Received::Element(_, Element::Batch(batch)) => got += batch.len(),
                Received::Element(_, Element::End) => break,
                other => panic!("unexpected {other:?}"),
            }
        }
        assert_eq!(got, 100);
        thread.join().expect("no panic");
    }

    /// The sender of a queue that joining emptied must be woken, although the taken queue is full and over the budget: else a barrier
    /// that waits for it never aligns.
    #[test]
    fn a_sender_is_woken_when_joining_empties_its_queue() {
        let (mut inbox, mut senders) = inbox(2);
        let second = senders.pop().expect("two");
        let first = senders.pop().expect("two");
        first.send(batch(2, 10)).expect("open");
        first
            .send(Element::Barrier(Barrier {
                n: 1,
                last: false,
                base: 0,
            }))
            .expect("open");
        for _ in 0..7 {
            first.send(batch(1, BUDGET / 8)).expect("open");
        }
        second.send(batch(2, 10)).expect("open");
        let sender = std::thread::spawn(move || {
            second.send(batch(1, BUDGET / 4))?;
            second.send(Element::Barrier(Barrier {
                n: 1,
                last: false,
                base: 0,
            }))
        });
        while inbox.shared.lock().waiting == 0 {
            std::thread::yield_now();
        }
        let mut barriers = 0;
        for _ in 0..100 {
            let until = Some(Instant::now() + Duration::from_millis(100));
            match inbox.receive(until, &|_, _| true, &mut || Ok(())) {
                Received::Element(queue, Element::Barrier(_)) => {
                    barriers += 1;
                    inbox.set_blocked(queue, true);
                }
                Received::Closed => panic!("nobody closed it"),
                _ => {}
            }
            if barriers == 2 {
                break;
            }
        }
        assert_eq!(barriers, 2, "the second barrier must come through");
        assert_eq!(sender.join().expect("no panic"), Ok(()));
    }

    #[test]
    fn closing_ends_a_waiting_sender_and_a_waiting_receiver() {
        let (mut waiting, _senders) = inbox(1);
        let closer = waiting.closer();
        let receiver =
            std::thread::spawn(move || waiting.receive(None, &|_, _| true, &mut || Ok(())));
        closer.close();
        assert_eq!(receiver.join().expect("no panic"), Received::Closed);

        let (full, mut senders) = inbox(1);
        let sender = senders.remove(0);
        sender.send(batch(1, 2 * BUDGET)).expect("open");
        let closer = full.closer();
        let blocked = std::thread::spawn(move || sender.send(batch(1, 10)));
        closer.close();
        assert_eq!(blocked.join().expect("no panic"), Err(Closed));
    }
}
