//! An operator's subtask: the guest's instance, its state, and the calls between them.
//!
//! A call that fails has no effects. What happens then is the business of `isolate.rs`: smaller calls, until the record that fails
//! is alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_operator::{
    Batch as GuestBatch, CallError, ColumnRef, Firing, Instance, Now, NullableRef,
};

use super::Error;
use super::chain::Outlet;
use super::environment::{CallRows, OperatorEnvironment};
use crate::batch::{Batch, NO_TIME};
use crate::checkpoint::OperatorSnapshot;
use crate::clock::{self, ProcessingClock};
use crate::decode::dead_letter::Form;
use crate::headers::Headers;
use crate::job::model::{ErrorPolicy, NullKey};
use crate::memory::{self, StateAccount};
use crate::metrics::{Counters, Origins};
use crate::stages::{Stage, Stages};

/// An operator in a chain.
pub struct OperatorNode {
    /// Its id.
    pub id: String,
    /// This subtask.
    pub subtask: u16,
    /// Its subtasks.
    pub parallelism: u16,
    /// SHA-256 of its component, for dead letters.
    pub component: String,
    /// The guest; there is always one between calls.
    pub instance: Option<Instance<OperatorEnvironment>>,
    /// How long a call may take.
    pub call_time: Duration,
    /// An instance whose memory has grown beyond this many bytes is replaced at the next barrier.
    pub memory_mark: usize,
    /// For each input whether it is keyed.
    pub keyed: Vec<bool>,
    /// Names of its timers.
    pub timers: Vec<String>,
    /// What happens to a null key at a keyed input.
    pub null_key: NullKey,
    /// What happens to a record that the guest fails on.
    pub on_error: ErrorPolicy,
    /// The port behind its outputs that leads to its dead-letter sink.
    pub dead_letters: usize,
    /// How its dead letters are written.
    pub letter_form: Form,
    /// Faults logged so far by policies that go on.
    pub faults_logged: u32,
    /// Whether there is anything to snapshot.
    pub stateful: bool,
    /// The operator's current watermark.
    pub watermark: i64,
    /// Whether `finish` has run, now or before the checkpoint that was restored.
    pub finished: bool,
    /// Whether records are counted against the watermark: right behind a source, so that each is judged once.
    pub counts_late: bool,
    /// What it holds of the memory for state.
    pub account: StateAccount,
    /// The time that calls are told.
    pub clock: Arc<ProcessingClock>,
    /// What it counts.
    pub counters: Arc<Counters>,
    /// Where its time goes.
    pub stages: Arc<Stages>,
    /// Where its output ports lead.
    pub outlets: Vec<Vec<Outlet>>,
}

const NO_KEYS: weir_state::ColumnRef<'static> = weir_state::ColumnRef {
    offsets: &[0],
    data: &[],
};

impl OperatorNode {
    pub(super) fn instance(&mut self) -> &mut Instance<OperatorEnvironment> {
        self.instance
            .as_mut()
            .expect("there is an instance between calls")
    }

    pub(super) fn environment(&mut self) -> &mut OperatorEnvironment {
        self.instance().environment()
    }

    fn now(&mut self) -> Now {
        let processing_time = self.clock.read();
        self.environment().processing_time = processing_time;
        Now {
            watermark: self.watermark,
            processing_time,
        }
    }

    pub(super) fn state_error(&self, error: weir_state::Error) -> Error {
        Error::State {
            operator: self.id.clone(),
            subtask: self.subtask,
            error,
        }
    }

    pub(super) fn call_error(&self, error: CallError, records: Option<String>) -> Error {
        Error::Call {
            operator: self.id.clone(),
            subtask: self.subtask,
            records,
            error: Box::new(error),
        }
    }

    pub(super) fn process(
        &mut self,
        input: u32,
        mut batch: Batch,
        origins: &Origins,
    ) -> Result<(), Error> {
        if self.counts_late && self.watermark != NO_TIME {
            let late = |time: &&i64| **time <= self.watermark && **time != NO_TIME;
            self.counters
                .add_late(batch.times.iter().filter(late).count() as u64);
        }
        if self.keyed[input as usize] && batch.keys.has_nulls() {
            batch = self.without_null_keys(batch, origins)?;
        }
        if batch.is_empty() {
            return Ok(());
        }
        match self.call(input, batch)? {
            Ok(()) if self.environment().rejected.is_empty() => {}
            outcome => self.isolate(input, outcome, origins)?,
        }
        self.count_memory()
    }

    /// Counts what its state takes up.
    ///
    /// # Errors
    /// [`Error::Memory`]: all state together no longer fits.
    pub fn count_memory(&mut self) -> Result<(), Error> {
        let stats = self.environment().state.stats();
        self.account.count(stats).map_err(|outgrown| Error::Memory {
            operator: self.id.clone(),
            subtask: self.subtask,
            outgrown,
        })
    }

    /// Calls the guest with a batch, which the environment keeps meanwhile for its outputs to inherit from. The inner error is the
    /// call's, with the batch that it had no effect on.
    pub(super) fn call(
        &mut self,
        input: u32,
        batch: Batch,
    ) -> Result<Result<(), (CallError, Arc<Batch>)>, Error> {
        let now = self.now();
        let keyed = self.keyed[input as usize];
        let began = clock::now();
        let state = &mut self.environment().state;
        let interned = if keyed {
            let (offsets, data) = (&batch.keys.offsets, &batch.keys.data);
            state.intern(weir_state::ColumnRef { offsets, data }, &batch.hashes)
        } else {
            state.intern(NO_KEYS, &[])
        };
        interned.map_err(|error| self.state_error(error))?;
        let called = clock::now();
        self.stages
            .add(Stage::Intern, called.saturating_duration_since(began));

        let batch = Arc::new(batch);
        let environment = self.environment();
        environment.rows = CallRows::Records(batch.clone());
        // Lent out for the call, so that nothing of it is copied.
        let mut dictionary = std::mem::take(&mut environment.dictionary);
        let (distinct, index) = if keyed {
            environment.state.swap_dictionary(&mut dictionary);
            let keys = NullableRef {
                present: &[],
                offsets: &dictionary.distinct.offsets,
                data: &dictionary.distinct.data,
            };
            (keys, dictionary.index.as_slice())
        } else {
            (nullable(&batch.keys), &[][..])
        };
        let result = self.instance().process(
            GuestBatch {
                input,
                distinct,
                index,
                values: nullable(&batch.values),
                times: &batch.times,
                headers: batch.headers.as_deref().map(Headers::lent),
            },
            now,
        );
        self.environment().dictionary = dictionary;
        self.count_call(called);
        Ok(result.map_err(|error| (error, batch)))
    }

    /// Adds the costs of a guest call that began at `called`.
    fn count_call(&mut self, called: Instant) {
        let spent = std::mem::take(&mut self.environment().spent);
        let whole = clock::now().saturating_duration_since(called);
        let guest = whole.saturating_sub(spent.state + spent.apply);
        self.stages.add(Stage::Guest, guest);
        self.stages.add(Stage::State, spent.state);
        self.stages.add(Stage::Apply, spent.apply);
    }

    fn without_null_keys(&self, batch: Batch, origins: &Origins) -> Result<Batch, Error> {
        let mut kept = Batch::with_capacity_of(&batch);
        for row in 0..batch.len() {
            if batch.keys.get(row).is_some() {
                kept.push_row(&batch, row);
            } else if self.null_key == NullKey::Fail {
                return Err(Error::NullKey {
                    operator: self.id.clone(),
                    record: origins.describe(&batch.origins[row..=row], Some(0)),
                });
            }
        }
        self.counters
            .add_null_keys((batch.len() - kept.len()) as u64);
        // Without nulls the mask says nothing.
        kept.keys.present.clear();
        Ok(kept)
    }

    /// Calls the guest with timers that fire. The inner error is the call's; the timers are registered as before then.
    pub(super) fn fire(&mut self, firing: Arc<weir_state::Firing>) -> Result<(), CallError> {
        let now = self.now();
        self.environment().rows = CallRows::Timers(firing.clone());
        let due = Firing {
            keys: ColumnRef {
                offsets: &firing.keys.offsets,
                data: &firing.keys.data,
            },
            timers: &firing.timers,
            namespaces: ColumnRef {
                offsets: &firing.namespaces.offsets,
                data: &firing.namespaces.data,
            },
            times: &firing.times,
        };
        let called = clock::now();
        let result = self.instance().on_timers(due, now);
        self.count_call(called);
        result
    }

    pub(super) fn on_watermark(&mut self) -> Result<(), Error> {
        let now = self.now();
        self.no_keys()?;
        let result = self.instance().on_watermark(now);
        result.map_err(|error| self.call_error(error, None))
    }

    pub(super) fn finish(&mut self) -> Result<(), Error> {
        let now = self.now();
        self.no_keys()?;
        let result = self.instance().finish(now);
        result.map_err(|error| self.call_error(error, None))
    }

    fn no_keys(&mut self) -> Result<(), Error> {
        let environment = self.environment();
        environment.rows = CallRows::Nothing;
        let interned = environment.state.intern(NO_KEYS, &[]);
        interned.map_err(|error| self.state_error(error))
    }

    /// Makes a new instance over the same environment.
    pub(super) fn replace(&mut self) -> Result<(), Error> {
        let instance = self
            .instance
            .take()
            .expect("there is an instance between calls");
        let replaced = instance
            .replace()
            .map_err(|error| self.call_error(error, None))?;
        self.instance = Some(replaced);
        Ok(())
    }

    /// Freezes what it holds for checkpoint `n`, state aside that [`OperatorNode::collect`] gives. State may build on the files of
    /// checkpoint `base`.
    pub(super) fn freeze(&mut self, n: u64, base: Option<u64>) -> Result<OperatorSnapshot, Error> {
        if self.stateful {
            self.environment().state.freeze(n, base);
        }
        let snapshot = OperatorSnapshot {
            id: self.id.clone(),
            subtask: self.subtask,
            parallelism: self.parallelism,
            watermark: self.watermark,
            files: Vec::new(),
            held: memory::held(self.environment().state.stats()),
            finished: self.finished,
        };
        // Whatever an instance has piled up is not state, so a barrier is a good place to let go of it.
        if self.instance().memory_bytes() > self.memory_mark {
            self.replace()?;
        }
        Ok(snapshot)
    }

    /// Collects about `budget` more rows of the frozen state.
    pub(super) fn collect(&mut self, budget: usize) -> Result<weir_state::Progress, Error> {
        let progress = self.environment().state.advance_snapshot(budget);
        progress.map_err(|error| self.state_error(error))
    }
}

fn nullable(column: &crate::batch::Bytes) -> NullableRef<'_> {
    NullableRef {
        present: &column.present,
        offsets: &column.offsets,
        data: &column.data,
    }
}
