//! Drives one operator.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::bindings::weir::operator::types::{
    Batch, Column, Dictionary, Firing, Headers, InputKind, Now, Nullable, StateKind, TimeDomain,
};
use crate::codec::{Codec, EntryName};
use crate::fault::{Fault, Result};
use crate::operator::Operator;
use crate::runner::{self, Runner};

use super::NewRecord;
use super::kept::{Kept, Part, Pending, Place};
use super::store::{Emitted, Shared, Store};

/// One operator and a host for it. Time stands still unless it is advanced; processing time begins at
/// 0, and there is no watermark at first.
pub struct Harness<O> {
    runner: Runner<O>,
    store: Shared,
    config: String,
    batch: usize,
    now: Now,
    rejected: Vec<(NewRecord, Fault)>,
    dropped: usize,
}

/// What a checkpoint of the operator holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    kept: Kept,
    watermark: i64,
    processing_time: i64,
}

impl<O: Operator> Harness<O> {
    /// Opens the operator with this configuration, which is JSON text, over empty state.
    ///
    /// # Errors
    ///
    /// A configuration that the operator refuses.
    pub fn open(config: &str) -> Result<Self> {
        Harness::restore(
            config,
            Snapshot {
                kept: Kept::default(),
                watermark: i64::MIN,
                processing_time: 0,
            },
        )
    }

    /// Opens the operator over what a snapshot holds. What was emitted before is not in it.
    ///
    /// # Errors
    ///
    /// A configuration that the operator refuses.
    pub fn restore(config: &str, snapshot: Snapshot) -> Result<Self> {
        let description = runner::describe::<O>("operator", "", Some(config))?;
        let store = Rc::new(RefCell::new(Store::new(description, snapshot.kept)));
        Ok(Harness {
            runner: open(config, &store)?,
            store,
            config: config.to_owned(),
            batch: usize::MAX,
            now: Now {
                watermark: snapshot.watermark,
                processing_time: snapshot.processing_time,
            },
            rejected: Vec::new(),
            dropped: 0,
        })
    }

    /// Hands over at most this many records, or timers, in a call. Without it, as many as possible.
    pub fn batch_size(mut self, rows: usize) -> Self {
        self.batch = rows.max(1);
        self
    }

    /// Opens the operator anew over the same state, as the host may do between two calls.
    ///
    /// # Errors
    ///
    /// A configuration that the operator refuses.
    pub fn replace(&mut self) -> Result {
        self.runner = open(&self.config, &self.store)?;
        Ok(())
    }

    /// What a checkpoint would hold now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            kept: self.store.borrow().kept.clone(),
            watermark: self.now.watermark,
            processing_time: self.now.processing_time,
        }
    }

    /// Feeds records; neighbours of one input share a batch.
    ///
    /// # Errors
    ///
    /// The operator's fault, with the row in its batch. That batch has had no effect; those before it
    /// have, those after it were not fed. Records that failed without any effect are
    /// [`rejected`](Harness::rejected) instead.
    ///
    /// # Panics
    ///
    /// Records for an input that was not declared, or without a key for a keyed one: the host lets
    /// neither through.
    pub fn process(&mut self, records: impl IntoIterator<Item = NewRecord>) -> Result {
        let records: Vec<_> = records.into_iter().collect();
        for of_one_input in records.chunk_by(|a, b| a.input == b.input) {
            for batch in of_one_input.chunks(self.batch) {
                self.process_batch(batch)?;
            }
        }
        Ok(())
    }

    fn process_batch(&mut self, records: &[NewRecord]) -> Result {
        let inputs = &self.runner.description().inputs;
        let input = match &records[0].input {
            None => 0,
            Some(name) => inputs
                .iter()
                .position(|input| input.name == *name)
                .expect("the input is declared"),
        };
        let mut batch = Batch {
            input: input as u32,
            keys: Dictionary {
                distinct: Nullable::empty(),
                index: Vec::new(),
            },
            values: Nullable::empty(),
            times: Vec::new(),
            headers: inputs[input].headers.then(Headers::empty),
        };
        let keyed = inputs[input].kind == InputKind::Keyed;
        let mut keys = Vec::new();
        let mut indices = BTreeMap::new();
        for record in records {
            batch.values.push(record.value.as_deref());
            batch.times.push(record.time.unwrap_or(i64::MIN));
            if let Some(headers) = &mut batch.headers {
                headers.push(record.headers.iter().cloned());
            }
            if keyed {
                let key = record
                    .key
                    .clone()
                    .expect("a record of a keyed input has a key");
                let index = *indices.entry(key.clone()).or_insert(keys.len());
                if index == keys.len() {
                    batch.keys.distinct.push(Some(&key));
                    keys.push(key);
                }
                batch.keys.index.push(index as u32);
            } else {
                batch.keys.distinct.push(record.key.as_deref());
            }
        }
        let origins = records.iter().map(|record| Emitted {
            key: record.key.clone(),
            value: record.value.clone(),
            time: record.time,
            headers: record.headers.clone(),
        });
        let keys = keyed.then_some(keys);
        self.store
            .borrow_mut()
            .begin(keys, origins.collect(), self.now.processing_time);
        let result = self.runner.process(&batch, self.now);
        self.end_call(result)?;
        for fault in std::mem::take(&mut self.store.borrow_mut().rejected) {
            let row = fault.row.expect("a rejected record has a row") as usize;
            self.rejected.push((
                records[row].clone(),
                Fault {
                    row: fault.row,
                    message: fault.message,
                },
            ));
        }
        Ok(())
    }

    fn end_call(&mut self, result: Result) -> Result {
        match result {
            Ok(()) => self.store.borrow_mut().apply(),
            Err(fault) => {
                self.store.borrow_mut().discard();
                Err(fault)
            }
        }
    }

    /// Advances the watermark: due event timers fire, then `on_watermark` is called if it was asked for.
    /// Nothing happens unless the time is later than the watermark.
    ///
    /// # Errors
    ///
    /// The operator's fault; the call in which it came has had no effect.
    pub fn advance_watermark(&mut self, millis: i64) -> Result {
        if millis <= self.now.watermark {
            return Ok(());
        }
        self.now.watermark = millis;
        self.store
            .borrow_mut()
            .kept
            .begin_advance(TimeDomain::Event);
        self.fire(TimeDomain::Event, millis)?;
        self.on_watermark()
    }

    fn on_watermark(&mut self) -> Result {
        if !self.runner.description().on_watermark {
            return Ok(());
        }
        self.store
            .borrow_mut()
            .begin(None, Vec::new(), self.now.processing_time);
        let result = self.runner.on_watermark(self.now);
        self.end_call(result)
    }

    /// Advances the clock: due processing timers fire, and what has outlived its time to live is gone.
    ///
    /// # Errors
    ///
    /// The operator's fault; the call in which it came has had no effect.
    pub fn advance_processing_time(&mut self, millis: i64) -> Result {
        self.now.processing_time = self.now.processing_time.max(millis);
        self.store
            .borrow_mut()
            .kept
            .begin_advance(TimeDomain::Processing);
        self.fire(TimeDomain::Processing, self.now.processing_time)
    }

    fn fire(&mut self, domain: TimeDomain, until: i64) -> Result {
        loop {
            let due = self.store.borrow_mut().begin_firing(
                domain,
                until,
                self.batch,
                self.now.processing_time,
            );
            let Some(due) = due else { break };
            let mut firing = Firing {
                keys: Column::empty(),
                timers: Vec::new(),
                namespaces: Column::empty(),
                times: Vec::new(),
            };
            for timer in due {
                firing.keys.push(&timer.key);
                firing.timers.push(timer.timer as u32);
                firing.namespaces.push(&timer.namespace);
                firing.times.push(timer.time);
            }
            let result = self.runner.on_timers(firing, self.now);
            self.end_call(result)?;
        }
        self.store.borrow_mut().kept.end_advance(domain);
        Ok(())
    }

    /// Ends the input: the watermark becomes maximal, all event timers fire, processing timers are
    /// dropped, and `finish` is called.
    ///
    /// # Errors
    ///
    /// The operator's fault; the call in which it came has had no effect. Timers that set each other
    /// without end are one too.
    pub fn finish(&mut self) -> Result {
        self.advance_watermark(i64::MAX)?;
        while self
            .store
            .borrow()
            .kept
            .timers(TimeDomain::Event)
            .next()
            .is_some()
        {
            self.fire(TimeDomain::Event, i64::MAX)?;
        }
        self.dropped += self
            .store
            .borrow_mut()
            .kept
            .drop_timers(TimeDomain::Processing);
        self.store
            .borrow_mut()
            .begin(None, Vec::new(), self.now.processing_time);
        let result = self.runner.finish(self.now);
        self.end_call(result)
    }

    /// Migrates a value that an older schema version of a state wrote; `name` is the entry's, in an
    /// entries state.
    ///
    /// # Errors
    ///
    /// The operator's fault.
    pub fn migrate(
        &self,
        state: &str,
        version: u32,
        name: Option<&[u8]>,
        value: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let column = |bytes: &[u8]| {
            let mut column = Column::empty();
            column.push(bytes);
            column
        };
        let migrated =
            self.runner
                .migrate(state, version, name.map(column).as_ref(), &column(value))?;
        Ok(migrated.row(0).map(<[u8]>::to_vec))
    }

    /// What an output has emitted so far.
    ///
    /// # Panics
    ///
    /// An output that was not declared; so do the methods below.
    pub fn emitted(&self, output: &str) -> Vec<Emitted> {
        self.store.borrow().emitted[self.output(output)].clone()
    }

    /// What an output has emitted since this was last asked.
    pub fn take_emitted(&mut self, output: &str) -> Vec<Emitted> {
        let output = self.output(output);
        std::mem::take(&mut self.store.borrow_mut().emitted[output])
    }

    /// The values that an output has emitted so far, as text; null as the empty one.
    pub fn texts(&self, output: &str) -> Vec<String> {
        let text =
            |row: Emitted| String::from_utf8_lossy(&row.value.unwrap_or_default()).into_owned();
        self.emitted(output).into_iter().map(text).collect()
    }

    fn output(&self, name: &str) -> usize {
        let outputs = &self.runner.description().outputs;
        outputs
            .iter()
            .position(|output| output.name == name)
            .expect("the output is declared")
    }

    /// Names of the declared outputs.
    pub(super) fn outputs(&self) -> Vec<String> {
        self.runner
            .description()
            .outputs
            .iter()
            .map(|output| output.name.clone())
            .collect()
    }

    /// The records that failed without having had any effect, and why. The job file's error policy
    /// decides about them.
    pub fn rejected(&self) -> &[(NewRecord, Fault)] {
        &self.rejected
    }

    /// What the operator has logged.
    pub fn logged(&self) -> Vec<String> {
        self.store
            .borrow()
            .logged
            .iter()
            .map(|(_, message)| message.clone())
            .collect()
    }

    /// The value of a key in a value state.
    pub fn value<T: Codec>(&self, state: &str, key: impl AsRef<[u8]>) -> Option<T> {
        self.value_at(state, key, "")
    }

    /// The value of a key and namespace in a value state.
    pub fn value_at<T: Codec>(
        &self,
        state: &str,
        key: impl AsRef<[u8]>,
        namespace: impl AsRef<[u8]>,
    ) -> Option<T> {
        let values = self.parts(state, StateKind::Value, key.as_ref(), namespace.as_ref());
        values.into_iter().next().map(|(_, bytes)| decode(&bytes))
    }

    /// The list of a key and namespace (empty for none) in an items state.
    pub fn items<T: Codec>(
        &self,
        state: &str,
        key: impl AsRef<[u8]>,
        namespace: impl AsRef<[u8]>,
    ) -> Vec<T> {
        let items = self.parts(state, StateKind::Items, key.as_ref(), namespace.as_ref());
        items.into_iter().map(|(_, bytes)| decode(&bytes)).collect()
    }

    /// The map of a key and namespace (empty for none) in an entries state.
    pub fn entries<N: EntryName + Ord, T: Codec>(
        &self,
        state: &str,
        key: impl AsRef<[u8]>,
        namespace: impl AsRef<[u8]>,
    ) -> BTreeMap<N, T> {
        let entries = self.parts(state, StateKind::Entries, key.as_ref(), namespace.as_ref());
        let named = entries.into_iter().filter_map(|(part, bytes)| match part {
            Part::Entry(name) => Some((
                N::decode(&name).expect("the name has the state's encoding"),
                decode(&bytes),
            )),
            Part::Value | Part::Item(_) => None,
        });
        named.collect()
    }

    fn parts(
        &self,
        state: &str,
        kind: StateKind,
        key: &[u8],
        namespace: &[u8],
    ) -> Vec<(Part, Vec<u8>)> {
        let store = self.store.borrow();
        let states = &store.description.states;
        let state = states
            .iter()
            .position(|declared| declared.name == state && declared.kind == kind);
        let state = state.expect("the state is declared, and of this kind") as u32;
        let here = |place: &Place| {
            (place.state, &place.key[..], &place.namespace[..]) == (state, key, namespace)
        };
        let live = store
            .kept
            .cells
            .iter()
            .filter(|(place, cell)| here(place) && cell.is_live(self.now.processing_time));
        live.map(|(place, cell)| (place.part.clone(), cell.bytes.clone()))
            .collect()
    }

    /// The timers that are set, those of event time first, each clock's in the order in which they will
    /// fire.
    pub fn timers(&self) -> Vec<Pending> {
        let store = self.store.borrow();
        let domains = [TimeDomain::Event, TimeDomain::Processing];
        domains
            .iter()
            .flat_map(|&domain| store.kept.timers(domain))
            .cloned()
            .collect()
    }

    /// How many processing timers were dropped at the end of the input.
    pub fn dropped_timers(&self) -> usize {
        self.dropped
    }
}

impl<O> std::fmt::Debug for Harness<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Harness")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

fn open<O: Operator>(config: &str, store: &Shared) -> Result<Runner<O>> {
    Runner::open("operator", "", config, Box::new(store.clone()))
}

fn decode<T: Codec>(bytes: &[u8]) -> T {
    T::decode(bytes).expect("the bytes have the state's encoding")
}
