//! Keyed state, a record at a time over columns.
//!
//! A handle ([`Value`], [`Items`], [`Entries`]) is what an operator keeps; it is an index, and the
//! current key comes from the [`Context`](crate::Context). Behind it stands what the call knows of
//! that state: reads are answered from columns that were loaded for many records at once, writes
//! collect and are stored when the call ends. So the boundary is crossed a few times a batch:
//!
//! * a value is loaded for all keys of the batch when the first of them is read;
//! * a value with a namespace is loaded for all timers that fire together when the first of them
//!   reads its own; elsewhere, namespaces and entry names are unknown before the operator asks, and
//!   each first question is a call, unless [`Operator::prefetch`](crate::Operator::prefetch) named
//!   them;
//! * reading items and scanning entries first stores what is pending of that state.

mod cache;
mod entries;
mod items;
mod value;

pub use entries::{Entries, EntriesAt, Range};
pub use items::{Items, ItemsAt};
pub use value::{Value, ValueAt};

pub(crate) use entries::EntryCells;
pub(crate) use items::ItemCells;
pub(crate) use value::ValueCells;

/// Declares a handle: an index into the context's states of its kind, copied freely, whatever the
/// types it is written in.
macro_rules! handle {
    ($(#[$doc:meta])* $name:ident<$($parameter:ident),+>) => {
        $(#[$doc])*
        pub struct $name<$($parameter),+> {
            slot: usize,
            typed: std::marker::PhantomData<fn() -> ($($parameter,)+)>,
        }

        impl<$($parameter),+> $name<$($parameter),+> {
            pub(crate) fn new(slot: usize) -> Self {
                Self { slot, typed: std::marker::PhantomData }
            }
        }

        impl<$($parameter),+> Clone for $name<$($parameter),+> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<$($parameter),+> Copy for $name<$($parameter),+> {}

        impl<$($parameter),+> std::fmt::Debug for $name<$($parameter),+> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).field("slot", &self.slot).finish()
            }
        }
    };
}
pub(crate) use handle;
