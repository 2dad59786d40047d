//! What an operator declares about its states and timers.

use crate::stored_key::Table;

/// The shape of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateKind {
    /// One value a cell.
    Value,
    /// A list a cell, appended to and read whole.
    Items,
    /// A map a cell, from names to values, scanned in byte order of the names.
    Entries,
}

impl StateKind {
    /// The word for it in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            StateKind::Value => "value",
            StateKind::Items => "items",
            StateKind::Entries => "entries",
        }
    }

    /// Where rows of such a state are stored.
    pub fn table(self) -> Table {
        match self {
            StateKind::Value => Table::Value,
            StateKind::Items => Table::Items,
            StateKind::Entries => Table::Entries,
        }
    }
}

/// How long a stored value lives.
///
/// An expiry is stored with each value, item and entry when it is written. A TTL that is switched
/// on, off or changed by a restart therefore holds from the next write or renewal on: values stored
/// before keep the expiry, or the lack of one, that they were written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ttl {
    /// Milliseconds of processing time; a value is invisible from write + millis on.
    pub millis: u64,
    /// Whether [`touch`](crate::KeyedState::touch) renews it; writing always does.
    pub renew_on_access: bool,
}

/// A declared state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateSpec {
    /// Unique in the operator; matches the state across runs.
    pub name: String,
    /// The shape.
    pub kind: StateKind,
    /// Schema version of the values, stored with each.
    pub version: u32,
    /// Absent: values live until deleted.
    pub ttl: Option<Ttl>,
}

/// Which clock a timer follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TimeDomain {
    /// The watermark.
    Event,
    /// The machine's clock, as the host sees it.
    Processing,
}

impl TimeDomain {
    /// The word for it in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            TimeDomain::Event => "event time",
            TimeDomain::Processing => "processing time",
        }
    }
}

/// A declared timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerSpec {
    /// Unique in the operator; matches the timer across runs.
    pub name: String,
    /// The clock it follows.
    pub domain: TimeDomain,
}

/// All states and timers of an operator. Calls name them by their position here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    /// At most 65,536, names unique.
    pub states: Vec<StateSpec>,
    /// At most 65,536, names unique.
    pub timers: Vec<TimerSpec>,
}
