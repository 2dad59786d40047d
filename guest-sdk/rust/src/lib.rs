//! Weir operators in Rust, a record at a time.
//!
//! An operator implements [`Operator`]: its constructor declares inputs, outputs, state and timers
//! and keeps the handles; [`process`](Operator::process) is called for each record, and
//! [`on_timer`](Operator::on_timer) for each timer that is due. [`export!`] makes a component of it.
//!
//! ```
//! use weir_sdk::{Context, KeptOutput, Operator, Record, Result, Setup, Value};
//!
//! /// Numbers the records of each key.
//! struct Count {
//!     count: Value<u64>,
//!     counts: KeptOutput,
//! }
//!
//! impl Operator for Count {
//!     type Config = ();
//!
//!     fn new(setup: &mut Setup, (): ()) -> Result<Self> {
//!         setup.keyed_input("records");
//!         Ok(Count { count: setup.value("count"), counts: setup.kept_output("counts") })
//!     }
//!
//!     fn process(&mut self, _record: Record<'_>, cx: &mut Context) -> Result {
//!         let count = self.count.get(cx)?.unwrap_or(0) + 1;
//!         self.count.set(cx, &count)?;
//!         self.counts.emit(cx).encode(&count)
//!     }
//! }
//!
//! weir_sdk::export!(Count);
//! ```
//!
//! The host calls with batches of columns; this crate hides them and keeps what makes them fast:
//! state is loaded and stored a column a batch, output rows are built in the column that the host
//! reads, and what a row inherits from its record never enters the guest. [`mod@state`] says what is
//! loaded when.
//!
//! Build for `wasm32-unknown-unknown` as a `cdylib`. On any other target `export!` does nothing, and
//! [`mod@test`] runs the operator in an ordinary `cargo test`.
//!
//! Operators must give the same results for the same input in every run: no `HashMap` that is
//! iterated (its order is random; use `BTreeMap`), no clock but
//! [`Context::processing_time`], no memory but state.

#[doc(hidden)]
pub mod bindings;
mod codec;
mod columns;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod component;
mod context;
mod fault;
mod host;
mod operator;
mod output;
mod runner;
mod setup;
pub mod state;
#[cfg(not(target_arch = "wasm32"))]
pub mod test;
mod timer;

pub use codec::{Codec, EntryName, Json};
pub use context::{Context, Level};
pub use fault::{Fault, Result};
pub use operator::{Firing, OldValue, Operator, Prefetch, Record};
pub use output::{AbsentOutput, Emission, GivenOutput, KeptOutput};
pub use setup::{Input, Renewal, Setup, StateOptions};
pub use state::{Entries, Items, Range, Value};
pub use timer::Timer;

#[cfg(feature = "schemars")]
pub use schemars;

/// The JSON Schema of a configuration type that derives `JsonSchema`, for [`Operator::config_schema`]. Doc comments become
/// descriptions, which `weir inspect` shows. Derive with `#[schemars(crate = "weir_sdk::schemars")]`, so that the crate needs
/// no dependency of its own.
#[cfg(feature = "schemars")]
pub fn schema_of<C: schemars::JsonSchema>() -> Option<String> {
    Some(schemars::schema_for!(C).as_value().to_string())
}

/// Makes a component of an [`Operator`]: `weir_sdk::export!(Count);`, once a crate. Its name and
/// version for the host are the crate's.
#[macro_export]
macro_rules! export {
    ($operator:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            ::std::thread_local! {
                static SLOT: ::std::cell::RefCell<$crate::component::Slot<$operator>> =
                    const { ::std::cell::RefCell::new($crate::component::Slot::EMPTY) };
            }

            impl $crate::component::Exported for $operator {
                const CRATE: (&'static str, &'static str) = (
                    ::core::env!("CARGO_PKG_NAME"),
                    ::core::env!("CARGO_PKG_VERSION"),
                );

                fn with<R>(f: impl FnOnce(&mut $crate::component::Slot<Self>) -> R) -> R {
                    SLOT.with_borrow_mut(f)
                }
            }

            type Component = $crate::component::Component<$operator>;
    $crate::bindings::export_component!(Component with_types_in $crate::bindings);
        };
    };
}
