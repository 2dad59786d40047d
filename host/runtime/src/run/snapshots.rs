//! The snapshot thread: stores what tasks froze and then acknowledges for them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use super::supervise::Message;
use crate::attempt::TaskId;
use crate::checkpoint::coordinator::{self, Event};
use crate::checkpoint::state_file::{Label, StateFiles};
use crate::checkpoint::{OperatorSnapshot, SinkSnapshot, SourceSnapshot, StoredFile, TaskSnapshot};
use crate::fault_point;
use crate::task::Frozen;

/// What a task handed over.
pub(super) struct Handover {
    /// The task.
    pub(super) task: TaskId,
    /// The barrier that it passed; `None` when it ended.
    pub(super) n: Option<u64>,
    /// What it holds.
    pub(super) frozen: Frozen,
}

/// The thread, until it is dropped.
pub(super) struct SnapshotThread {
    sender: Option<mpsc::Sender<Handover>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SnapshotThread {
    /// Starts it. Its answers go to `answers`.
    pub(super) fn start(
        files: StateFiles,
        answers: mpsc::Sender<Message>,
    ) -> io::Result<SnapshotThread> {
        let (sender, receiver) = mpsc::channel::<Handover>();
        let over = Arc::new(AtomicBool::new(false));
        let is_over = over.clone();
        let thread = std::thread::Builder::new()
            .name("snapshots".into())
            .spawn(move || {
                for handover in receiver {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let stored = catch_unwind(AssertUnwindSafe(|| store(&files, handover)));
                    let message = stored
                        .unwrap_or_else(|_| Message::Lost("the snapshot thread panicked".into()));
                    // The supervisor is gone: the attempt is over.
                    if answers.send(message).is_err() {
                        return;
                    }
                }
            })?;
        Ok(SnapshotThread {
            sender: Some(sender),
            over,
            thread: Some(thread),
        })
    }

    /// Stores a handover and acknowledges it.
    pub(super) fn store(&self, handover: Handover) {
        if let Some(sender) = &self.sender {
            // It ends only when this is dropped.
            let _ = sender.send(handover);
        }
    }
}

impl Drop for SnapshotThread {
    /// Waits for the file being written; what is queued behind it belongs to checkpoints that will not be.
    fn drop(&mut self) {
        self.sender = None;
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Panics were caught inside.
            let _ = thread.join();
        }
    }
}

fn store(files: &StateFiles, handover: Handover) -> Message {
    let task = coordinator::TaskId(handover.task as u32);
    let Frozen {
        sources,
        operators,
        sinks,
    } = handover.frozen;
    let sinks: Vec<SinkSnapshot> = sinks
        .into_iter()
        .map(|(id, subtask, prepared)| SinkSnapshot {
            id,
            subtask,
            staged: prepared.staged,
            open: prepared.open,
        })
        .collect();
    let label = handover.n.map_or(Label::End, Label::Barrier);
    let stored: Result<Vec<OperatorSnapshot>, String> = operators
        .into_iter()
        .map(|(mut operator, state)| {
            if let Some(state) = state {
                let written = write(files, label, state);
                operator.file = Some(written.map_err(|error| {
                    format!(
                        "state of `{}` subtask {}: {error}",
                        operator.id, operator.subtask
                    )
                })?);
                fault_point::pass("after-state");
            }
            Ok(operator)
        })
        .collect();
    let sources = sources
        .into_iter()
        .map(|(id, splits)| SourceSnapshot { id, splits })
        .collect();
    match (stored, handover.n) {
        (Ok(operators), n) => {
            let bytes = operators
                .iter()
                .filter_map(|o| o.file.as_ref())
                .map(|file| file.bytes)
                .sum();
            let snapshot = TaskSnapshot {
                sources,
                operators,
                sinks,
            };
            Message::Stored(
                match n {
                    Some(n) => Event::Ack { n, task, snapshot },
                    None => Event::Ended { task, snapshot },
                },
                bytes,
            )
        }
        (Err(why), Some(n)) => {
            let staged = sinks.into_iter().flat_map(|sink| sink.staged).collect();
            Message::Stored(
                Event::Declined {
                    n,
                    task,
                    why,
                    staged,
                },
                0,
            )
        }
        // A task's final state has no second chance in this attempt.
        (Err(why), None) => Message::Lost(why),
    }
}

fn write(files: &StateFiles, label: Label, state: weir_state::Snapshot) -> io::Result<StoredFile> {
    let mut writer = files.create(label)?;
    state.write(&mut writer)?;
    writer.finish()
}
