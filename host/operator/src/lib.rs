//! Loads, checks and calls a Weir operator: a WebAssembly component behind the contract of
//! `wit/operator.wit`.
//!
//! [`Engine::load`] turns a file's bytes into a [`Component`], or says in words why it is none.
//! [`Component::describe`] asks the operator what it is; [`Component::instantiate`] makes an
//! [`Instance`], which is called with batches. What the operator reads, writes, sets and emits goes
//! to an [`Environment`] that the embedder supplies.
//!
//! This crate knows no state backend and no runtime, and nothing here owns a thread, an executor,
//! storage or a clock, so that another engine can embed it: calls are synchronous, and time reaches
//! it as arguments and as [`Engine::tick`]. Files are touched only where the embedder names a
//! directory for compiled code ([`CompileCache`]).
//!
//! Two invariants hold it together:
//!
//! * **What a guest hands over is checked before it is used.** An [`Environment`] sees well-formed
//!   columns of agreeing lengths, keys of the current call, and states, timers and outputs that
//!   were declared and are of the right kind. It may index without checking again.
//! * **A call happens or does not.** [`Environment::begin`] precedes the guest, and exactly one of
//!   `apply` (the guest returned ok) and `discard` (anything else) follows. A trap kills the
//!   instance, and [`Instance::replace`] makes a new one over the same environment.
//!
//! The guest's limits are [`Limits`]: memory, time, output. They hold in `describe` and `open` as
//! well. Operators whose toolchain imports WASI get stubs of it that grant nothing and are
//! deterministic ([`is_wasi_stub`]).

mod cache;
mod call_error;
mod columns;
mod component;
mod contract;
mod description;
mod detached;
mod emission;
mod engine;
mod environment;
mod host;
mod imports;
mod inspect;
mod instance;
mod limits;
mod load_error;
mod wasi;

pub use cache::{CacheError, CacheUse, CompileCache};
pub use call_error::{CallError, Fault};
pub use columns::{
    Batch, Column, ColumnRef, Firing, Headers, HeadersRef, Now, Nullable, NullableRef,
};
pub use component::Component;
pub use contract::{PACKAGE, VERSION};
pub use description::{
    CONFIG_SCHEMA, Description, InputDecl, InputKind, Options, OutputDecl, OutputKeys, StateDecl,
    StateKind, TimeDomain, TimerDecl, Ttl, TtlRenewal,
};
pub use engine::{Engine, Error, TICK};
pub use environment::{Cells, Dictionary, Environment, HostError, ItemLists, Level, Page, Rows};
pub use inspect::{Form, Inspection, Interface, inspect};
pub use instance::Instance;
pub use limits::Limits;
pub use load_error::{LoadError, Problem};
pub use wasi::is_wasi_stub;
