//! The trait that an operator implements, and what it is called with.

use serde::de::DeserializeOwned;

use crate::bindings::weir::operator::types::Batch;
use crate::codec::{Codec, EntryName};
use crate::context::Context;
use crate::fault::{Fault, Result};
use crate::setup::{Input, Setup};
use crate::state::{Entries, Value};
use crate::timer::Timer;

/// A stream operator, a record at a time.
///
/// Its fields are the handles that [`Setup`] made and what follows from the configuration, nothing
/// that is learned from records: the host may drop an instance between two calls and open another
/// one. What is to be remembered goes into state. Results must not depend on how records are batched
/// either; `test::Scenario::check` finds operators that break these rules.
pub trait Operator: Sized {
    /// The operator's `config` in the job file; `()` for none. Use `#[serde(deny_unknown_fields)]`,
    /// so that a misspelt field is refused. `Default` serves `weir inspect`, which has no job file.
    type Config: DeserializeOwned + Default;

    /// The JSON Schema of [`Config`](Operator::Config), if there is one. The host checks the job file's `config` by it before
    /// the job starts, and names line and field of every mistake at once; serde would name the first, without its place.
    /// With this crate's feature `schemars`, `weir_sdk::schema_of::<Self::Config>()` makes it of the type.
    ///
    /// The host checks a subset of JSON Schema and refuses the rest by name: among others `pattern`, `multipleOf` and
    /// references to other documents.
    fn config_schema() -> Option<String> {
        None
    }

    /// Declares inputs, outputs, state and timers, and keeps their handles.
    ///
    /// # Errors
    ///
    /// A configuration that makes no sense. The job is then not started.
    fn new(setup: &mut Setup, config: Self::Config) -> Result<Self>;

    /// Names what [`process`](Operator::process) is going to read for this record, so that the host is
    /// asked once for the whole batch. This is only about speed: whatever is left out is read when it
    /// is needed, by a call of its own.
    #[inline]
    fn prefetch(&self, _record: Record<'_>, _reads: &mut Prefetch<'_>) {}

    /// Processes a record.
    ///
    /// # Errors
    ///
    /// The record cannot be processed. What it did before is undone, and the job file's error policy
    /// decides.
    fn process(&mut self, record: Record<'_>, cx: &mut Context) -> Result;

    /// A timer is due. It has been removed; the current key is the timer's.
    ///
    /// # Errors
    ///
    /// As in [`process`](Operator::process).
    fn on_timer(&mut self, firing: Firing<'_>, _cx: &mut Context) -> Result {
        Err(Fault::new(format_args!(
            "timer {} is due and the operator has no `on_timer`",
            firing.timer.index
        )))
    }

    /// The watermark advanced, and the timers that this made due have fired. Called only if declared by
    /// [`Setup::on_watermark`]. There is no key: emit with keys and times.
    ///
    /// # Errors
    ///
    /// Fails the job, since there is no record to blame.
    fn on_watermark(&mut self, _cx: &mut Context) -> Result {
        Ok(())
    }

    /// All inputs have ended, and all event timers have fired. There is no key: emit with keys and
    /// times. For a last word a key, set an event timer at
    /// [`Timer::END_OF_INPUT`] instead.
    ///
    /// # Errors
    ///
    /// Fails the job, since there is no record to blame.
    fn finish(&mut self, _cx: &mut Context) -> Result {
        Ok(())
    }

    /// Turns a value that an older schema version of a state wrote into this version's bytes; `None`
    /// drops it. Neither state nor output can be used here.
    ///
    /// # Errors
    ///
    /// The default refuses: a state that names versions it migrates from needs this method.
    fn migrate(&self, old: OldValue<'_>) -> Result<Option<Vec<u8>>> {
        Err(Fault::new(format_args!(
            "state `{}`: no migration from version {}",
            old.state, old.version
        )))
    }
}

/// A record. Cheap to copy; it borrows the batch.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub(crate) batch: &'a Batch,
    pub(crate) row: usize,
    pub(crate) key: usize,
}

impl<'a> Record<'a> {
    /// The input it came from.
    #[inline]
    pub fn input(&self) -> Input {
        Input {
            index: self.batch.input,
        }
    }

    /// The key. `None` is a null key, which only an un-keyed input lets through.
    #[inline]
    pub fn key(&self) -> Option<&'a [u8]> {
        self.batch.keys.distinct.row(self.key)
    }

    /// The key as text.
    ///
    /// # Errors
    ///
    /// A null key, or bytes that are not UTF-8.
    pub fn key_text(&self) -> Result<&'a str> {
        let key = self
            .key()
            .ok_or_else(|| Fault::new("the record has a null key"))?;
        std::str::from_utf8(key)
            .map_err(|error| Fault::new(format_args!("the key is not UTF-8: {error}")))
    }

    /// The value. `None` is null, which is not the same as empty.
    #[inline]
    pub fn value(&self) -> Option<&'a [u8]> {
        self.batch.values.row(self.row)
    }

    /// The value as text.
    ///
    /// # Errors
    ///
    /// A null value, or bytes that are not UTF-8.
    pub fn text(&self) -> Result<&'a str> {
        std::str::from_utf8(self.present()?)
            .map_err(|error| Fault::new(format_args!("the value is not UTF-8: {error}")))
    }

    /// The value, parsed as JSON. `T` may borrow from it.
    ///
    /// # Errors
    ///
    /// A null value, or bytes that are not a `T`.
    pub fn json<T: serde::Deserialize<'a>>(&self) -> Result<T> {
        serde_json::from_slice(self.present()?).map_err(|error| {
            Fault::new(format_args!("the value is not the expected JSON: {error}"))
        })
    }

    /// The value, in an encoding.
    ///
    /// # Errors
    ///
    /// A null value, or bytes that `T` cannot read.
    pub fn decode<T: Codec>(&self) -> Result<T> {
        T::decode(self.present()?)
    }

    /// The event time in milliseconds since the epoch; `None` if the record has none.
    #[inline]
    pub fn time(&self) -> Option<i64> {
        self.batch
            .times
            .get(self.row)
            .copied()
            .filter(|&time| time != i64::MIN)
    }

    /// The headers in order, each with its name and its contents, which may be null. Names may repeat.
    ///
    /// # Panics
    ///
    /// The operator has not asked for the headers of this input by
    /// [`Setup::read_headers`].
    #[inline]
    pub fn headers(&self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        let headers = self.batch.headers.as_ref();
        headers
            .expect("an input's headers are read only if `Setup::read_headers` asked for them")
            .row(self.row)
    }

    fn present(&self) -> Result<&'a [u8]> {
        self.value()
            .ok_or_else(|| Fault::new("the record has a null value"))
    }
}

/// A timer that is due.
#[derive(Clone, Copy, Debug)]
pub struct Firing<'a> {
    pub(crate) timer: Timer,
    pub(crate) time: i64,
    pub(crate) key: &'a [u8],
    pub(crate) namespace: &'a [u8],
}

impl<'a> Firing<'a> {
    /// Which of the declared timers it is.
    pub fn timer(&self) -> Timer {
        self.timer
    }

    /// The time that it was set for.
    pub fn time(&self) -> i64 {
        self.time
    }

    /// Its key.
    pub fn key(&self) -> &'a [u8] {
        self.key
    }

    /// Its key as text.
    ///
    /// # Errors
    ///
    /// Bytes that are not UTF-8.
    pub fn key_text(&self) -> Result<&'a str> {
        std::str::from_utf8(self.key)
            .map_err(|error| Fault::new(format_args!("the key is not UTF-8: {error}")))
    }

    /// Its namespace; empty if it was set without one.
    pub fn namespace(&self) -> &'a [u8] {
        self.namespace
    }

    /// Its namespace as text.
    ///
    /// # Errors
    ///
    /// Bytes that are not UTF-8.
    pub fn namespace_text(&self) -> Result<&'a str> {
        std::str::from_utf8(self.namespace)
            .map_err(|error| Fault::new(format_args!("the namespace is not UTF-8: {error}")))
    }
}

/// A value that an older schema version of a state wrote.
#[derive(Clone, Copy, Debug)]
pub struct OldValue<'a> {
    /// The state's name.
    pub state: &'a str,
    /// The schema version that wrote it.
    pub version: u32,
    /// The entry's name, in an entries state.
    pub name: Option<&'a [u8]>,
    /// Its bytes.
    pub value: &'a [u8],
}

/// Collects what the records of a batch are going to read. See [`Operator::prefetch`].
pub struct Prefetch<'a> {
    pub(crate) cx: &'a mut Context,
}

impl std::fmt::Debug for Prefetch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prefetch").finish_non_exhaustive()
    }
}

impl Prefetch<'_> {
    /// The record's key's value in this namespace. (Values without a namespace need no prefetch.)
    pub fn value_at<T: Codec>(&mut self, state: Value<T>, namespace: &(impl AsRef<[u8]> + ?Sized)) {
        if !namespace.as_ref().is_empty() && self.cx.keyed().is_ok() {
            state.want(self.cx, namespace.as_ref());
        }
    }

    /// The entry of this name in the record's key's map.
    pub fn entry<N: EntryName, T: Codec>(&mut self, state: Entries<N, T>, name: N::Ref<'_>) {
        self.entry_at(state, b"", name);
    }

    /// The entry of this name in the map of the record's key and a namespace.
    pub fn entry_at<N: EntryName, T: Codec>(
        &mut self,
        state: Entries<N, T>,
        namespace: &(impl AsRef<[u8]> + ?Sized),
        name: N::Ref<'_>,
    ) {
        if self.cx.keyed().is_ok() {
            state.want(self.cx, namespace.as_ref(), name);
        }
    }
}
