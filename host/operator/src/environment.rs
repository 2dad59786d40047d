//! What an embedder supplies: state, timers, output and the log behind one trait.

use std::error::Error;
use std::fmt;

use crate::call_error::Fault;
use crate::columns::{Column, ColumnRef, Headers, Nullable, NullableRef};

/// The cells a state or timer call is about, one a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cells<'a> {
    /// Positions in the current call's distinct keys (of a firing: its keys). Positions may repeat;
    /// the last write holds.
    pub keys: &'a [u32],
    /// One namespace a key. `None` is the empty namespace for all of them.
    pub namespaces: Option<ColumnRef<'a>>,
}

/// Lists of items, one a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemLists {
    /// For each cell the number of items up to and including its own.
    pub ends: Vec<u32>,
    /// The items in order.
    pub items: Column,
}

/// Entries found by a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// For each cell the number of entries up to and including its own.
    pub ends: Vec<u32>,
    /// The entries' names.
    pub names: Column,
    /// The entries' values.
    pub values: Column,
    /// For each cell 1 if its scan may go on, otherwise 0.
    pub more: Vec<u8>,
}

/// Rows for one output. What is `None` is inherited from the rows' origins, unless the output's
/// keys are absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// The rows of the current call that the rows come from; in `on-watermark` and `finish` empty,
    /// and then everything that the output needs is given.
    pub origins: Vec<u32>,
    /// The rows' keys; `None` for an output that keeps keys or has none.
    pub keys: Option<Dictionary>,
    /// The rows' values; never `None` in a firing.
    pub values: Option<Nullable>,
    /// The rows' timestamps, `i64::MIN` for none.
    pub times: Option<Vec<i64>>,
    /// The rows' headers; where there is nothing to inherit, `None` stands for none.
    pub headers: Option<Headers>,
}

/// The keys of rows, each once, though a key may occur more often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dictionary {
    /// The keys.
    pub distinct: Nullable,
    /// For each row the position of its key. Never left out: what a guest leaves out is filled in.
    pub index: Vec<u32>,
}

/// How grave a log message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For who writes the operator.
    Debug,
    /// For who runs the job.
    Info,
    /// Something is off, and the operator goes on.
    Warn,
    /// Something failed that someone should look at.
    Error,
}

/// State, timers, output and log of one operator instance.
///
/// **Calls.** [`Instance`](crate::Instance) calls `begin`, then the guest, whose imports end in the
/// methods below, then `apply` if the guest returned ok and `discard` otherwise: exactly one of the
/// two for each `begin`. Effects between `begin` and `apply` are provisional; reads see them;
/// `discard` undoes them all. `log` is not an effect. Nothing but `log` is called outside of such a
/// pair.
///
/// **Arguments** are checked: columns are well formed, lists agree in length, keys belong to the
/// current call, states, timers and outputs are declared and of the right kind, values are within
/// [`Limits`](crate::Limits). The embedder has to know the current call's keys and rows itself,
/// since they are what it passed to the instance.
///
/// **Results** go into the guest as they are, and have to be as well formed as the arguments and
/// one a cell. How large they get only the environment knows: where a guest asks for more than a
/// call may carry, it returns [`HostError::over_budget`] rather than build it.
///
/// **Errors** stop the guest's call, which fails with [`CallError::Host`](crate::CallError::Host).
pub trait Environment: Send + 'static {
    /// A call of the guest begins.
    fn begin(&mut self);
    /// The guest's call went well: its effects become real.
    fn apply(&mut self) -> Result<(), HostError>;
    /// The guest's call failed: none of its effects happened.
    fn discard(&mut self);

    /// The values of cells of a `Value` state, null where there is none.
    fn get(&mut self, state: u32, at: Cells<'_>) -> Result<Nullable, HostError>;
    /// Sets the values of cells of a `Value` state; null deletes.
    fn put(&mut self, state: u32, at: Cells<'_>, values: NullableRef<'_>) -> Result<(), HostError>;
    /// Appends an item to each cell of an `Items` state.
    fn append(&mut self, state: u32, at: Cells<'_>, items: ColumnRef<'_>) -> Result<(), HostError>;
    /// All items of cells of an `Items` state.
    fn get_items(&mut self, state: u32, at: Cells<'_>) -> Result<ItemLists, HostError>;
    /// The values of named entries of an `Entries` state, null where there is none.
    fn get_entries(
        &mut self,
        state: u32,
        at: Cells<'_>,
        names: ColumnRef<'_>,
    ) -> Result<Nullable, HostError>;
    /// Sets the values of named entries of an `Entries` state; null deletes.
    fn put_entries(
        &mut self,
        state: u32,
        at: Cells<'_>,
        names: ColumnRef<'_>,
        values: NullableRef<'_>,
    ) -> Result<(), HostError>;
    /// The entries of each cell with `start <= name < end`, ordered by bytes; a null bound is open.
    /// At most `limit`, which is at least 1, for a cell.
    fn scan(
        &mut self,
        state: u32,
        at: Cells<'_>,
        start: NullableRef<'_>,
        end: NullableRef<'_>,
        descending: bool,
        limit: u32,
    ) -> Result<Page, HostError>;
    /// Deletes the entries of each cell with `start <= name < end`; a null bound is open.
    fn clear_entries(
        &mut self,
        state: u32,
        at: Cells<'_>,
        start: NullableRef<'_>,
        end: NullableRef<'_>,
    ) -> Result<(), HostError>;
    /// Empties cells of any state.
    fn clear(&mut self, state: u32, at: Cells<'_>) -> Result<(), HostError>;
    /// Renews the TTL of cells of any state, if it is one that access renews.
    fn touch(&mut self, state: u32, at: Cells<'_>) -> Result<(), HostError>;

    /// Sets a timer for each cell. Idempotent.
    fn set_timers(&mut self, timer: u32, at: Cells<'_>, times: &[i64]) -> Result<(), HostError>;
    /// Cancels a timer for each cell, if it is set.
    fn cancel_timers(&mut self, timer: u32, at: Cells<'_>, times: &[i64]) -> Result<(), HostError>;

    /// Passes rows on. Never called without rows.
    fn emit(&mut self, output: u32, rows: Rows) -> Result<(), HostError>;

    /// Writes to the job's log, at once. Messages are at most 16 KiB; limiting their rate is up to
    /// the environment.
    fn log(&mut self, level: Level, message: &str);
    /// Rows of the call that the guest gives up, each at most once, all of them named.
    fn reject(&mut self, faults: Vec<Fault>) -> Result<(), HostError>;
}

/// An environment's failure. Any error turns into one by `?`.
#[derive(Debug)]
pub struct HostError(Reason);

#[derive(Debug)]
enum Reason {
    Failed(Box<dyn Error + Send + Sync>),
    OverBudget,
}

impl HostError {
    /// The host failed: the job fails, and no record is blamed.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        HostError(Reason::Failed(error.into()))
    }

    /// The guest asked for more than a call may carry: the call fails with
    /// [`CallError::Output`](crate::CallError::Output).
    pub fn over_budget() -> Self {
        HostError(Reason::OverBudget)
    }

    pub(crate) fn is_over_budget(&self) -> bool {
        matches!(self.0, Reason::OverBudget)
    }

    /// The error that this was made of, to look into; `None` if it is
    /// [`over_budget`](HostError::over_budget).
    pub fn cause(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        match &self.0 {
            Reason::Failed(error) => Some(error.as_ref()),
            Reason::OverBudget => None,
        }
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reason::Failed(error) => write!(f, "{error}"),
            Reason::OverBudget => f.write_str("more than a call may carry"),
        }
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for HostError {
    fn from(error: E) -> Self {
        HostError::new(error)
    }
}
