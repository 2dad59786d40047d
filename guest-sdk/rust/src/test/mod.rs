//! Runs an operator natively, without a host and without WebAssembly, for its own tests.
//!
//! The operator and the SDK are the code that goes into the component; the host is a plain map in
//! memory with the contract's semantics: batches, effects that count only when the call succeeds,
//! timers in order, time to live. A [`Harness`] is driven step by step:
//!
//! ```
//! # use weir_sdk::{Context, KeptOutput, Operator, Record, Result, Setup, Value};
//! # struct Count { count: Value<u64>, counts: KeptOutput }
//! # impl Operator for Count {
//! #     type Config = ();
//! #     fn new(setup: &mut Setup, (): ()) -> Result<Self> {
//! #         setup.keyed_input("records");
//! #         Ok(Count { count: setup.value("count"), counts: setup.kept_output("counts") })
//! #     }
//! #     fn process(&mut self, _record: Record<'_>, cx: &mut Context) -> Result {
//! #         let count = self.count.get(cx)?.unwrap_or(0) + 1;
//! #         self.count.set(cx, &count)?;
//! #         self.counts.emit(cx).value(count.to_string())
//! #     }
//! # }
//! use weir_sdk::test::{Harness, record};
//!
//! let mut harness = Harness::<Count>::open("null")?;
//! harness.process([record("x").key("a"), record("y").key("b"), record("z").key("a")])?;
//! assert_eq!(harness.texts("counts"), ["1", "1", "2"]);
//! assert_eq!(harness.value::<u64>("count", "a"), Some(2));
//! # Ok::<(), weir_sdk::Fault>(())
//! ```
//!
//! A [`Scenario`] is a script of such steps. [`Scenario::check`] plays it with batches of one, of two
//! and as large as they come, with the operator replaced before every call, and out of a snapshot
//! taken at every step, and finds operators whose results depend on any of that.

mod harness;
mod imports;
mod kept;
mod scenario;
mod store;
#[cfg(test)]
mod tests;

pub use harness::{Harness, Snapshot};
pub use kept::Pending;
pub use scenario::Scenario;
pub use store::Emitted;

/// A record to be fed to an operator: see [`record`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    input: Option<String>,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    time: Option<i64>,
    headers: Vec<Header>,
}

/// A header: its name, and its contents; `None` is null.
pub type Header = (Vec<u8>, Option<Vec<u8>>);

/// A record with this value, without key and time, for the first input.
pub fn record(value: impl AsRef<[u8]>) -> NewRecord {
    NewRecord {
        value: Some(value.as_ref().to_vec()),
        ..null_record()
    }
}

/// A record whose value is null.
pub fn null_record() -> NewRecord {
    NewRecord {
        input: None,
        key: None,
        value: None,
        time: None,
        headers: Vec::new(),
    }
}

impl NewRecord {
    /// The same record for the input of this name.
    pub fn input(mut self, name: &str) -> NewRecord {
        self.input = Some(name.to_owned());
        self
    }

    /// The same record with this key.
    pub fn key(mut self, key: impl AsRef<[u8]>) -> NewRecord {
        self.key = Some(key.as_ref().to_vec());
        self
    }

    /// The same record with this event time, in milliseconds since the epoch.
    pub fn time(mut self, millis: i64) -> NewRecord {
        self.time = Some(millis);
        self
    }

    /// The same record with this header behind those that it has.
    pub fn header(self, name: impl AsRef<[u8]>, contents: impl AsRef<[u8]>) -> NewRecord {
        self.with_header(name.as_ref(), Some(contents.as_ref().to_vec()))
    }

    /// The same record with a header whose contents are null behind those that it has.
    pub fn null_header(self, name: impl AsRef<[u8]>) -> NewRecord {
        self.with_header(name.as_ref(), None)
    }

    fn with_header(mut self, name: &[u8], contents: Option<Vec<u8>>) -> NewRecord {
        self.headers.push((name.to_vec(), contents));
        self
    }
}
