//! The snapshot thread: stores what tasks froze and then acknowledges for them.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::supervise::Message;
use crate::attempt::TaskId;
use crate::channel::Barrier;
use crate::checkpoint::coordinator::{self, Event};
use crate::checkpoint::state_file::{Label, StateFiles};
use crate::checkpoint::{OperatorSnapshot, SinkSnapshot, SourceSnapshot, StoredFile, TaskSnapshot};
use crate::task::Frozen;
use crate::{clock, fault_point, log};

/// How long to wait before something is stored again.
const RETRY: Duration = Duration::from_millis(500);

/// What a task handed over.
pub(super) struct Handover {
    /// The task.
    pub(super) task: TaskId,
    /// The barrier that it passed; `None` when it ended.
    pub(super) barrier: Option<Barrier>,
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
    /// Starts it. Its answers go to `answers`. What cannot be stored is tried again for as long as `patience` says.
    pub(super) fn start(
        files: StateFiles,
        patience: Option<Duration>,
        answers: mpsc::Sender<Message>,
    ) -> io::Result<SnapshotThread> {
        let (sender, receiver) = mpsc::channel::<Handover>();
        let over = Arc::new(AtomicBool::new(false));
        let is_over = over.clone();
        let thread = std::thread::Builder::new()
            .name("snapshots".into())
            .spawn(move || {
                let mut stored = Stored::default();
                let patience = Patience {
                    within: patience,
                    over: is_over,
                };
                for handover in receiver {
                    if patience.over.load(Ordering::Relaxed) {
                        return;
                    }
                    let message = catch_unwind(AssertUnwindSafe(|| {
                        store(&files, &mut stored, handover, &patience)
                    }));
                    let message = message
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

fn store(
    files: &StateFiles,
    stored: &mut Stored,
    handover: Handover,
    patience: &Patience,
) -> Message {
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
    let n = handover.barrier.map(|barrier| barrier.n);
    let label = n.map_or(Label::End, Label::Barrier);
    let base = handover.barrier.map_or(0, |barrier| barrier.base);
    let mut bytes = 0;
    let operators: Result<Vec<OperatorSnapshot>, String> = operators
        .into_iter()
        .map(|(mut operator, state)| {
            if let Some(state) = state {
                let (id, needs) = (state.id(), state.needs().to_vec());
                let of = (operator.id.clone(), operator.subtask);
                let files = write(files, label, &state, patience).and_then(|file| {
                    bytes += file.bytes;
                    stored.add(of, base, id, file, needs)
                });
                operator.files = files.map_err(|error| {
                    format!(
                        "state of `{}` subtask {}: {error}",
                        operator.id, operator.subtask
                    )
                })?;
                fault_point::pass("after-state");
            }
            Ok(operator)
        })
        .collect();
    let sources = sources
        .into_iter()
        .map(|(id, splits)| SourceSnapshot { id, splits })
        .collect();
    match (operators, n) {
        (Ok(operators), n) => {
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

fn write(
    files: &StateFiles,
    label: Label,
    state: &weir_state::Snapshot,
    patience: &Patience,
) -> io::Result<StoredFile> {
    let began = clock::now();
    loop {
        let written = files.create(label).and_then(|mut writer| {
            state.write(&mut writer)?;
            writer.finish()
        });
        match written {
            Err(error) if patience.goes_on(began) => {
                log::warn(&format!("state could not be stored, trying again: {error}"));
                std::thread::sleep(RETRY);
            }
            written => return written,
        }
    }
}

/// Whether what could not be stored is tried again.
struct Patience {
    /// For how long.
    within: Option<Duration>,
    /// Whether the attempt is over.
    over: Arc<AtomicBool>,
}

impl Patience {
    fn goes_on(&self, since: Instant) -> bool {
        !self.over.load(Ordering::Relaxed)
            && self
                .within
                .is_some_and(|within| clock::now().saturating_duration_since(since) < within)
    }
}

/// Where a snapshot was stored, and which earlier ones it needs.
struct Place {
    file: StoredFile,
    needs: Vec<u64>,
}

/// The places of this attempt's snapshots, by operator subtask and id.
#[derive(Default)]
struct Stored(HashMap<(String, u16), BTreeMap<u64, Place>>);

impl Stored {
    /// Notes where the snapshot `id` was stored and gives the files that a restore of it reads, in their order.
    ///
    /// From now on snapshots build on `base` or a later one, so what only older ones need is forgotten.
    fn add(
        &mut self,
        of: (String, u16),
        base: u64,
        id: u64,
        file: StoredFile,
        needs: Vec<u64>,
    ) -> io::Result<Vec<StoredFile>> {
        let known = self.0.entry(of).or_default();
        match known.get(&base) {
            Some(place) => {
                let needed = place.needs.clone();
                known.retain(|id, _| *id >= base || needed.contains(id));
            }
            None => known.clear(),
        }
        let mut files = Vec::with_capacity(needs.len() + 1);
        for need in &needs {
            let place = known.get(need).ok_or_else(|| {
                io::Error::other(format!(
                    "internal error: it builds on snapshot {need}, whose file is not known"
                ))
            })?;
            files.push(place.file.clone());
        }
        files.push(file.clone());
        known.insert(id, Place { file, needs });
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::snapshot::Digest;

    fn add(stored: &mut Stored, base: u64, id: u64, needs: &[u64]) -> io::Result<Vec<String>> {
        let file = StoredFile {
            name: id.to_string(),
            digest: Digest::of(b""),
            bytes: 1,
        };
        let files = stored.add(("op".into(), 0), base, id, file, needs.to_vec())?;
        Ok(files.into_iter().map(|file| file.name).collect())
    }

    #[test]
    fn files_are_those_needed_and_the_own_one_whatever_came_to_nothing_between() {
        let mut stored = Stored::default();
        assert_eq!(add(&mut stored, 0, 1, &[]).expect("full"), ["1"]);
        assert_eq!(add(&mut stored, 1, 2, &[1]).expect("known"), ["1", "2"]);
        // 3 wrote all that lay in 1 anew, but was not confirmed.
        assert_eq!(add(&mut stored, 2, 3, &[2]).expect("known"), ["2", "3"]);
        assert_eq!(
            add(&mut stored, 2, 4, &[1, 2]).expect("known"),
            ["1", "2", "4"]
        );
        assert_eq!(add(&mut stored, 4, 5, &[4]).expect("known"), ["4", "5"]);
        let of = &stored.0[&("op".to_owned(), 0)];
        assert_eq!(of.keys().copied().collect::<Vec<_>>(), [1, 2, 4, 5]);
        add(&mut stored, 5, 6, &[4, 5]).expect("known");
        let of = &stored.0[&("op".to_owned(), 0)];
        assert_eq!(of.keys().copied().collect::<Vec<_>>(), [4, 5, 6]);
    }

    #[test]
    fn a_file_that_is_not_known_is_an_error() {
        let mut stored = Stored::default();
        add(&mut stored, 0, 7, &[]).expect("full");
        assert!(add(&mut stored, 0, 8, &[7]).is_err(), "7 was not confirmed");
    }
}
