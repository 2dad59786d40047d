//! A running operator: one store, called with batches, timers and watermarks.

use std::time::Duration;

use wasmtime::Store;

use crate::call_error::CallError;
use crate::columns::{Batch, ColumnRef, Firing, HeadersRef, Now, NullableRef};
use crate::component::Component;
use crate::contract::bindings::Operator;
use crate::contract::bindings::exports::weir::operator::lifecycle::Guest;
use crate::contract::wit::types as wit;
use crate::engine::Clock;
use crate::environment::Environment;
use crate::host::{Host, Kind, arm};

/// A running operator and its environment.
///
/// Each call but [`open`](Instance::open) is one pair of the environment's `begin` and `apply` or
/// `discard`. Of an error, [`CallError`] says whether the instance can go on. A dead one answers
/// every call with [`CallError::Contract`], without a `begin`, until it is
/// [replaced](Instance::replace).
///
/// Dropping it frees all that the operator has: its memory cannot be freed in another way.
pub struct Instance<E: Environment> {
    component: Component,
    store: Store<Host<E>>,
    guest: Operator,
    /// What `open` was called with, for `replace`.
    config: Option<String>,
    dead: bool,
}

impl<E: Environment> Instance<E> {
    pub(crate) fn new(component: Component, store: Store<Host<E>>, guest: Operator) -> Self {
        Instance {
            component,
            store,
            guest,
            config: None,
            dead: false,
        }
    }

    /// Gives the operator its configuration as JSON text; the first call to it. Has no effects on
    /// the environment but log messages.
    pub fn open(&mut self, config: &str) -> Result<(), CallError> {
        self.alive()?;
        self.store.data_mut().start(Kind::Quiet, 0);
        arm(&mut self.store);
        let opened = self
            .guest
            .weir_operator_lifecycle()
            .call_open(&mut self.store, config);
        let opened = match opened {
            Ok(Ok(())) => {
                self.config = Some(config.to_owned());
                Ok(())
            }
            Ok(Err(message)) => Err(CallError::Open(message)),
            Err(error) => Err(self.died(&error)),
        };
        self.store.data_mut().log_written();
        opened
    }

    /// Processes a batch of at least one record.
    ///
    /// # Panics
    ///
    /// If the batch names an input that is not declared.
    pub fn process(&mut self, batch: Batch<'_>, now: Now) -> Result<(), CallError> {
        self.alive()?;
        self.store
            .data_mut()
            .start_batch(&batch, now.processing_time);
        let asks = self.store.data().description.inputs[batch.input as usize].headers;
        let ends = if asks && batch.headers.is_none() {
            vec![0; batch.times.len()]
        } else {
            Vec::new()
        };
        let none = HeadersRef {
            ends: &ends,
            names: ColumnRef {
                offsets: &[0],
                data: &[],
            },
            contents: NullableRef {
                present: &[],
                offsets: &[0],
                data: &[],
            },
        };
        let lowered = wit::Batch {
            input: batch.input,
            keys: wit::DictionaryParam {
                distinct: nullable(batch.distinct),
                index: batch.index,
            },
            values: nullable(batch.values),
            times: batch.times,
            headers: asks.then(|| headers(batch.headers.unwrap_or(none))),
        };
        self.call(|guest, store| guest.call_process(store, lowered, now.into()))
    }

    /// Lets due timers fire: at least one, and none of a key twice.
    pub fn on_timers(&mut self, due: Firing<'_>, now: Now) -> Result<(), CallError> {
        self.alive()?;
        self.store
            .data_mut()
            .start_firing(&due, now.processing_time);
        let lowered = wit::Firing {
            keys: column(due.keys),
            timers: due.timers,
            namespaces: column(due.namespaces),
            times: due.times,
        };
        self.call(|guest, store| guest.call_on_timers(store, lowered, now.into()))
    }

    /// Tells the operator that the watermark has advanced. Does nothing, not even `begin`, unless
    /// the description asks for it.
    pub fn on_watermark(&mut self, now: Now) -> Result<(), CallError> {
        self.alive()?;
        if !self.store.data().description.on_watermark {
            return Ok(());
        }
        self.store
            .data_mut()
            .start(Kind::Moment, now.processing_time);
        self.call(|guest, store| guest.call_on_watermark(store, now.into()))
    }

    /// Tells the operator that all input has ended; the last call to it.
    pub fn finish(&mut self, now: Now) -> Result<(), CallError> {
        self.alive()?;
        self.store
            .data_mut()
            .start(Kind::Moment, now.processing_time);
        self.call(|guest, store| guest.call_finish(store, now.into()))
    }

    /// The environment.
    pub fn environment(&mut self) -> &mut E {
        &mut self.store.data_mut().environment
    }

    /// A new instance over the same environment, opened with the same configuration if this one
    /// was: after a trap, or to give back memory. If it fails, the environment is gone.
    pub fn replace(self) -> Result<Instance<E>, CallError> {
        let Instance {
            component,
            store,
            guest: _,
            config,
            dead: _,
        } = self;
        let host = store.into_data();
        let mut instance = component.revive(
            host.operator,
            host.description,
            host.limits,
            host.environment,
        )?;
        if let Some(config) = config {
            instance.open(&config)?;
        }
        Ok(instance)
    }

    /// Gives the next call only so much time, at most what [`Limits::call_time`](crate::Limits::call_time) says: for an embedder
    /// that looks for the record on which calls hang, and does not want to wait for it the whole time at each try.
    pub fn hurry(&mut self, call_time: Duration) {
        self.store.data_mut().hurried = Some(Clock::ticks_in(call_time));
    }

    /// Bytes of linear memory that the operator has.
    pub fn memory_bytes(&self) -> usize {
        self.store.data().memory.used()
    }

    /// Calls the guest between `begin` and `apply` or `discard`.
    fn call(
        &mut self,
        guest: impl FnOnce(&Guest, &mut Store<Host<E>>) -> wasmtime::Result<Result<(), wit::Fault>>,
    ) -> Result<(), CallError> {
        self.environment().begin();
        arm(&mut self.store);
        let called = guest(self.guest.weir_operator_lifecycle(), &mut self.store);
        let error = match called {
            Ok(Ok(())) => {
                self.store.data_mut().log_written();
                return self.environment().apply().map_err(CallError::Host);
            }
            Ok(Err(fault)) => self.store.data().returned(fault),
            Err(error) => self.died(&error),
        };
        self.store.data_mut().log_written();
        self.environment().discard();
        Err(error)
    }

    fn alive(&self) -> Result<(), CallError> {
        if self.dead {
            return Err(CallError::Contract(
                "the instance trapped before and was not replaced".to_owned(),
            ));
        }
        Ok(())
    }

    fn died(&mut self, error: &wasmtime::Error) -> CallError {
        self.dead = true;
        self.store.data_mut().why(error)
    }
}

fn column(of: ColumnRef<'_>) -> wit::ColumnParam<'_> {
    wit::ColumnParam {
        offsets: of.offsets,
        data: of.data,
    }
}

fn nullable(of: NullableRef<'_>) -> wit::NullableParam<'_> {
    wit::NullableParam {
        present: of.present,
        offsets: of.offsets,
        data: of.data,
    }
}

fn headers(of: HeadersRef<'_>) -> wit::HeadersParam<'_> {
    wit::HeadersParam {
        ends: of.ends,
        names: column(of.names),
        contents: nullable(of.contents),
    }
}

impl From<Now> for wit::Now {
    fn from(now: Now) -> Self {
        wit::Now {
            watermark: now.watermark,
            processing_time: now.processing_time,
        }
    }
}
