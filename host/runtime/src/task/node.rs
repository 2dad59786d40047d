//! An operator's subtask: the guest's instance, its state, and the calls between them.

use std::sync::Arc;

use weir_operator::{
    Batch as GuestBatch, CallError, ColumnRef, Fault, Firing, Instance, Now, NullableRef,
};

use super::Error;
use super::chain::Outlet;
use super::environment::{CallRows, OperatorEnvironment};
use crate::batch::{Batch, NO_TIME};
use crate::checkpoint::OperatorSnapshot;
use crate::clock;
use crate::job::model::NullKey;
use crate::metrics::{Counters, Origins};

/// An operator in a chain.
pub struct OperatorNode {
    /// Its id.
    pub id: String,
    /// This subtask.
    pub subtask: u16,
    /// Its subtasks.
    pub parallelism: u16,
    /// The guest.
    pub instance: Instance<OperatorEnvironment>,
    /// For each input whether it is keyed.
    pub keyed: Vec<bool>,
    /// What happens to a null key at a keyed input.
    pub null_key: NullKey,
    /// Whether there is anything to snapshot.
    pub stateful: bool,
    /// The operator's current watermark.
    pub watermark: i64,
    /// Whether `finish` has run, now or before the checkpoint that was restored.
    pub finished: bool,
    /// Whether records are counted against the watermark: right behind a source, so that each is judged once.
    pub counts_late: bool,
    /// Where its output ports lead.
    pub outlets: Vec<Vec<Outlet>>,
}

impl OperatorNode {
    fn now(&mut self) -> Now {
        let processing_time = clock::wall_millis();
        self.instance.environment().processing_time = processing_time;
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

    pub(super) fn fault(&self, message: String, records: Option<String>) -> Error {
        Error::Call {
            operator: self.id.clone(),
            subtask: self.subtask,
            records,
            error: Box::new(CallError::Fault(Fault { row: None, message })),
        }
    }

    fn call_error(&self, error: CallError, records: Option<String>) -> Error {
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
        counters: &Counters,
        origins: &Origins,
    ) -> Result<(), Error> {
        if self.counts_late && self.watermark != NO_TIME {
            let late = |time: &&i64| **time <= self.watermark && **time != NO_TIME;
            counters.add_late(batch.times.iter().filter(late).count() as u64);
        }
        let keyed = self.keyed[input as usize];
        if keyed && batch.keys.has_nulls() {
            batch = self.without_null_keys(batch, counters, origins)?;
        }
        if batch.is_empty() {
            return Ok(());
        }
        let now = self.now();
        let environment = self.instance.environment();
        let nothing = weir_state::ColumnRef {
            offsets: &[0],
            data: &[],
        };
        let interned = if keyed {
            let keys = weir_state::ColumnRef {
                offsets: &batch.keys.offsets,
                data: &batch.keys.data,
            };
            environment.state.intern(keys, &batch.hashes)
        } else {
            environment.state.intern(nothing, &[])
        };
        interned.map_err(|error| self.state_error(error))?;

        let result = if keyed {
            let state = &self.instance.environment().state;
            let distinct = (
                state.distinct().offsets.to_vec(),
                state.distinct().data.to_vec(),
            );
            let index = state.index().to_vec();
            self.call(
                input,
                NullableRef {
                    present: &[],
                    offsets: &distinct.0,
                    data: &distinct.1,
                },
                &index,
                batch,
                now,
            )
        } else {
            let keys = batch.keys.clone();
            let distinct = NullableRef {
                present: &keys.present,
                offsets: &keys.offsets,
                data: &keys.data,
            };
            self.call(input, distinct, &[], batch, now)
        };
        result.map_err(|error| {
            let row = match &error {
                CallError::Fault(fault) => fault.row,
                CallError::Trap { last_words, .. } => {
                    last_words.as_ref().and_then(|fault| fault.row)
                }
                _ => None,
            };
            let records = match &self.instance.environment().rows {
                CallRows::Records(batch) => origins.describe(&batch.origins, row),
                _ => None,
            };
            self.call_error(error, records)
        })
    }

    /// Calls the guest with a batch, which the environment keeps meanwhile for its outputs to inherit from.
    fn call(
        &mut self,
        input: u32,
        distinct: NullableRef<'_>,
        index: &[u32],
        batch: Batch,
        now: Now,
    ) -> Result<(), CallError> {
        let batch = Arc::new(batch);
        self.instance.environment().rows = CallRows::Records(batch.clone());
        self.instance.process(
            GuestBatch {
                input,
                distinct,
                index,
                values: NullableRef {
                    present: &batch.values.present,
                    offsets: &batch.values.offsets,
                    data: &batch.values.data,
                },
                times: &batch.times,
            },
            now,
        )
    }

    fn without_null_keys(
        &self,
        batch: Batch,
        counters: &Counters,
        origins: &Origins,
    ) -> Result<Batch, Error> {
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
        counters.add_null_keys((batch.len() - kept.len()) as u64);
        // Without nulls the mask says nothing.
        kept.keys.present.clear();
        Ok(kept)
    }

    pub(super) fn on_timers(&mut self, firing: weir_state::Firing) -> Result<(), Error> {
        let now = self.now();
        let columns = firing.clone();
        self.instance.environment().rows = CallRows::Timers(firing);
        let due = Firing {
            keys: ColumnRef {
                offsets: &columns.keys.offsets,
                data: &columns.keys.data,
            },
            timers: &columns.timers,
            namespaces: ColumnRef {
                offsets: &columns.namespaces.offsets,
                data: &columns.namespaces.data,
            },
            times: &columns.times,
        };
        self.instance
            .on_timers(due, now)
            .map_err(|error| self.call_error(error, None))
    }

    pub(super) fn on_watermark(&mut self) -> Result<(), Error> {
        let now = self.now();
        self.no_keys()?;
        self.instance
            .on_watermark(now)
            .map_err(|error| self.call_error(error, None))
    }

    pub(super) fn finish(&mut self) -> Result<(), Error> {
        let now = self.now();
        self.no_keys()?;
        self.instance
            .finish(now)
            .map_err(|error| self.call_error(error, None))
    }

    fn no_keys(&mut self) -> Result<(), Error> {
        let environment = self.instance.environment();
        environment.rows = CallRows::Nothing;
        let nothing = weir_state::ColumnRef {
            offsets: &[0],
            data: &[],
        };
        environment
            .state
            .intern(nothing, &[])
            .map_err(|error| self.state_error(error))
    }

    pub(super) fn snapshot(&mut self) -> (OperatorSnapshot, Option<weir_state::Snapshot>) {
        let state = self
            .stateful
            .then(|| self.instance.environment().state.snapshot());
        let snapshot = OperatorSnapshot {
            id: self.id.clone(),
            subtask: self.subtask,
            parallelism: self.parallelism,
            watermark: self.watermark,
            file: None,
            finished: self.finished,
        };
        (snapshot, state)
    }
}
