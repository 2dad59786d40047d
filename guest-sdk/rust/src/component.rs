//! The component's exports, on `wasm32` only: one open operator an instance, and a panic hook that
//! tells the host what happened before the trap does.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::bindings::exports::weir::operator::lifecycle::Guest;
use crate::bindings::weir::operator::diagnostics;
use crate::bindings::weir::operator::types::{
    self, Batch, Column, Description, Firing, Now, Nullable,
};
use crate::fault::Fault;
use crate::host::Imports;
use crate::operator::Operator;
use crate::runner::{self, Runner};

const NO_ROW: u32 = u32::MAX;

/// The row that is being processed, for the panic hook, which cannot reach the context.
static ROW: AtomicU32 = AtomicU32::new(NO_ROW);

#[inline]
pub(crate) fn note_row(row: u32) {
    ROW.store(row, Ordering::Relaxed);
}

pub(crate) fn note_no_row() {
    note_row(NO_ROW);
}

/// What [`export!`](crate::export) implements: a place for the operator of this instance.
pub trait Exported: Operator {
    /// The operator's name and version, from its crate's manifest.
    const CRATE: (&'static str, &'static str);

    /// Calls `f` with the place.
    fn with<R>(f: impl FnOnce(&mut Slot<Self>) -> R) -> R;
}

/// Room for an operator, which `open` fills.
pub struct Slot<O>(Option<Runner<O>>);

impl<O> Slot<O> {
    /// An empty one.
    pub const EMPTY: Slot<O> = Slot(None);

    fn open(&mut self) -> Result<&mut Runner<O>, types::Fault> {
        self.0
            .as_mut()
            .ok_or_else(|| Fault::new("the operator is not open").into())
    }
}

/// The component that exports an operator.
pub struct Component<O>(PhantomData<O>);

impl<O: Exported + 'static> Guest for Component<O> {
    fn describe(config: Option<String>) -> Result<Description, String> {
        hook_panics();
        let (name, version) = O::CRATE;
        runner::describe::<O>(name, version, config.as_deref()).map_err(|fault| fault.message)
    }

    fn open(config: String) -> Result<(), String> {
        hook_panics();
        let (name, version) = O::CRATE;
        let runner = Runner::open(name, version, &config, Box::new(Imports))
            .map_err(|fault| fault.message)?;
        O::with(|slot| slot.0 = Some(runner));
        Ok(())
    }

    fn process(batch: Batch, now: Now) -> Result<(), types::Fault> {
        O::with(|slot| Ok(slot.open()?.process(&batch, now)?))
    }

    fn on_timers(due: Firing, now: Now) -> Result<(), types::Fault> {
        O::with(|slot| Ok(slot.open()?.on_timers(due, now)?))
    }

    fn on_watermark(now: Now) -> Result<(), types::Fault> {
        O::with(|slot| Ok(slot.open()?.on_watermark(now)?))
    }

    fn finish(now: Now) -> Result<(), types::Fault> {
        O::with(|slot| Ok(slot.open()?.finish(now)?))
    }

    fn migrate(
        state: String,
        version: u32,
        names: Option<Column>,
        values: Column,
    ) -> Result<Nullable, types::Fault> {
        O::with(|slot| {
            Ok(slot
                .open()?
                .migrate(&state, version, names.as_ref(), &values)?)
        })
    }
}

/// A panic is a trap for the host; the message would be lost without this.
fn hook_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("a value that is not text");
        let message = match panic.location() {
            Some(place) => format!("panicked at {}:{}: {message}", place.file(), place.line()),
            None => format!("panicked: {message}"),
        };
        let row = Some(ROW.load(Ordering::Relaxed)).filter(|&row| row != NO_ROW);
        diagnostics::last_words(&types::Fault { row, message });
    }));
}
