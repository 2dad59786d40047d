//! Outputs: rows are built in place, in the columns that the host will read.
//!
//! Whatever a row does not say (key, time, headers, value) it inherits from the record, or the timer, that is
//! being processed, on the host's side and without a copy. Columns are all or nothing, so rows that
//! say different things go in different calls; a run of rows of one shape is one call.

use crate::bindings::weir::operator::output::Rows;
use crate::bindings::weir::operator::types::{Column, Dictionary, Headers, Nullable};
use crate::codec::Codec;
use crate::context::{Call, Context};
use crate::fault::{Fault, Result};
use crate::host::Host;

/// Rows are handed over at the latest when they take this much of the guest's memory.
const HAND_OVER_BYTES: usize = 1 << 20;

/// An output whose rows keep the key of the record they come from, so that the next keyed operator
/// needs no exchange. Made by [`Setup::kept_output`](crate::Setup::kept_output).
#[derive(Clone, Copy, Debug)]
pub struct KeptOutput {
    pub(crate) index: usize,
}

impl KeptOutput {
    /// Begins a row.
    #[inline]
    pub fn emit<'a>(&self, cx: &'a mut Context) -> Emission<'a> {
        Emission {
            cx,
            output: self.index,
            key: Key::Kept,
            time: None,
            headers: false,
        }
    }
}

/// An output whose rows are given a key. Made by [`Setup::given_output`](crate::Setup::given_output).
#[derive(Clone, Copy, Debug)]
pub struct GivenOutput {
    pub(crate) index: usize,
}

impl GivenOutput {
    /// Begins a row with this key.
    #[inline]
    pub fn emit<'a>(
        &self,
        cx: &'a mut Context,
        key: &'a (impl AsRef<[u8]> + ?Sized),
    ) -> Emission<'a> {
        Emission {
            cx,
            output: self.index,
            key: Key::Given(Some(key.as_ref())),
            time: None,
            headers: false,
        }
    }

    /// Begins a row whose key is null, which is another key than the empty one. A keyed input treats it
    /// as the job file says; by default it fails the job.
    #[inline]
    pub fn emit_null_key<'a>(&self, cx: &'a mut Context) -> Emission<'a> {
        Emission {
            cx,
            output: self.index,
            key: Key::Given(None),
            time: None,
            headers: false,
        }
    }
}

/// An output whose rows have no key. Made by [`Setup::absent_output`](crate::Setup::absent_output).
#[derive(Clone, Copy, Debug)]
pub struct AbsentOutput {
    pub(crate) index: usize,
}

impl AbsentOutput {
    /// Begins a row.
    #[inline]
    pub fn emit<'a>(&self, cx: &'a mut Context) -> Emission<'a> {
        Emission {
            cx,
            output: self.index,
            key: Key::Absent,
            time: None,
            headers: false,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Key<'a> {
    Kept,
    Given(Option<&'a [u8]>),
    Absent,
}

/// A row that is being emitted: say its time and its headers if they differ, then its value.
#[must_use = "nothing is emitted until the value is given"]
pub struct Emission<'a> {
    cx: &'a mut Context,
    output: usize,
    key: Key<'a>,
    time: Option<i64>,
    headers: bool,
}

impl std::fmt::Debug for Emission<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emission")
            .field("key", &self.key)
            .field("time", &self.time)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

impl Emission<'_> {
    /// Gives the row a time of its own, in milliseconds since the epoch. Without this it has its
    /// record's, or its timer's; where there is neither (in `on_watermark` and `finish`) a time must be
    /// given.
    #[inline]
    pub fn time(mut self, millis: i64) -> Self {
        self.time = Some(millis);
        self
    }

    /// Gives the row these headers, a name and contents each, in this order, and no others. Without
    /// this it has its record's; where there is no record it has none. To add one to those of the
    /// record, chain it to [`Record::headers`](crate::Record::headers).
    pub fn headers<N: AsRef<[u8]>, C: AsRef<[u8]>>(
        mut self,
        headers: impl IntoIterator<Item = (N, Option<C>)>,
    ) -> Self {
        let next = &mut self.cx.outputs[self.output].next_headers;
        next.clear();
        next.push(headers);
        self.headers = true;
        self
    }

    /// Gives the row no headers, whatever its record has.
    pub fn no_headers(self) -> Self {
        self.headers::<&[u8], &[u8]>([])
    }

    /// Emits these bytes.
    ///
    /// # Errors
    ///
    /// A row that the call cannot emit: a kept key or an inherited time where there is none.
    #[inline]
    pub fn value(self, bytes: impl AsRef<[u8]>) -> Result {
        self.write(|out| {
            out.extend_from_slice(bytes.as_ref());
            Ok(())
        })
    }

    /// Emits a value in its encoding; `&Json(…)` for JSON.
    ///
    /// # Errors
    ///
    /// A value that has no encoding; or as [`value`](Emission::value).
    #[inline]
    pub fn encode(self, value: &impl Codec) -> Result {
        self.write(|out| value.encode(out))
    }

    /// Emits a value as JSON.
    ///
    /// # Errors
    ///
    /// A value that JSON cannot hold; or as [`value`](Emission::value).
    pub fn json(self, value: &(impl serde::Serialize + ?Sized)) -> Result {
        self.write(|out| Ok(serde_json::to_writer(out, value)?))
    }

    /// Emits what `fill` appends. The bytes go straight into the output's column, so append only.
    ///
    /// # Errors
    ///
    /// What `fill` returns, and nothing is emitted; or as [`value`](Emission::value).
    #[inline]
    pub fn write(self, fill: impl FnOnce(&mut Vec<u8>) -> Result) -> Result {
        self.row(true, |values| {
            let start = values.data.len();
            if let Err(fault) = fill(&mut values.data) {
                values.data.truncate(start);
                return Err(fault);
            }
            values.end_row();
            Ok(())
        })
    }

    /// Emits a null value, which is another value than the empty one.
    ///
    /// # Errors
    ///
    /// As [`value`](Emission::value).
    pub fn null(self) -> Result {
        self.row(true, |values| {
            values.push_null();
            Ok(())
        })
    }

    /// Passes the record's own value on; this is what a filter does, and it copies nothing.
    ///
    /// # Errors
    ///
    /// A call without records, or as [`value`](Emission::value).
    pub fn forward(self) -> Result {
        if !matches!(self.cx.call, Call::Keyed | Call::Unkeyed) {
            return Err(Fault::new(
                "there is no record whose value could be forwarded",
            ));
        }
        self.row(false, |_| Ok(()))
    }

    #[inline]
    fn row(self, has_value: bool, fill: impl FnOnce(&mut Nullable) -> Result) -> Result {
        self.check()?;
        let Emission {
            cx,
            output,
            key,
            time,
            headers,
        } = self;
        let rows = &mut cx.outputs[output];
        let host = &mut *cx.host;
        let shape = Shape {
            value: has_value,
            time: time.is_some(),
            headers,
        };
        if rows.shape != shape {
            rows.flush(host);
            rows.shape = shape;
        }
        fill(&mut rows.values)?;
        if let Key::Given(key) = key {
            rows.keys.push(key);
        }
        rows.times.extend(time);
        if headers {
            rows.headers.push(rows.next_headers.row(0));
        }
        rows.origins.push(cx.row);
        rows.count += 1;
        let headers = rows.headers.names.data.len() + rows.headers.contents.data.len();
        if rows.values.data.len() + rows.keys.data.len() + headers >= HAND_OVER_BYTES {
            rows.flush(host);
        }
        cx.effects = true;
        Ok(())
    }

    #[inline]
    fn check(&self) -> Result {
        if matches!(self.cx.call, Call::Watermark | Call::Finish) {
            if matches!(self.key, Key::Kept) {
                return Err(Fault::new(
                    "this output keeps the key of a record, and here is none",
                ));
            }
            if self.time.is_none() {
                return Err(Fault::new("a row that comes from no record needs a time"));
            }
        }
        Ok(())
    }
}

/// Which columns rows give, besides their key. Rows of one call to the host are of one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    value: bool,
    time: bool,
    headers: bool,
}

/// The rows of one output that the host has not got yet.
#[derive(Debug)]
pub(crate) struct OutputRows {
    output: u32,
    given_keys: bool,
    /// The call has rows to come from.
    has_origins: bool,
    shape: Shape,
    count: usize,
    origins: Vec<u32>,
    keys: Nullable,
    values: Nullable,
    times: Vec<i64>,
    headers: Headers,
    /// Those of the row that is being emitted, as its one row.
    next_headers: Headers,
}

impl OutputRows {
    pub(crate) fn new(output: u32, given_keys: bool) -> OutputRows {
        OutputRows {
            output,
            given_keys,
            has_origins: false,
            shape: Shape {
                value: true,
                time: false,
                headers: false,
            },
            count: 0,
            origins: Vec::new(),
            keys: Nullable::empty(),
            values: Nullable::empty(),
            times: Vec::new(),
            headers: Headers::empty(),
            next_headers: Headers::empty(),
        }
    }

    pub(crate) fn begin(&mut self, has_origins: bool) {
        self.has_origins = has_origins;
        self.forget();
    }

    fn forget(&mut self) {
        self.count = 0;
        self.origins.clear();
        self.keys.clear();
        self.values.clear();
        self.times.clear();
        self.headers.clear();
    }

    /// Hands the rows over. The columns go to the host and come back, so that they keep their memory.
    pub(crate) fn flush(&mut self, host: &mut dyn Host) {
        if self.count == 0 {
            return;
        }
        if !self.has_origins {
            self.origins.clear();
        }
        let take = |column: &mut Nullable| Nullable {
            present: std::mem::take(&mut column.present),
            offsets: std::mem::take(&mut column.offsets),
            data: std::mem::take(&mut column.data),
        };
        let take_headers = |headers: &mut Headers| Headers {
            ends: std::mem::take(&mut headers.ends),
            names: Column {
                offsets: std::mem::take(&mut headers.names.offsets),
                data: std::mem::take(&mut headers.names.data),
            },
            contents: take(&mut headers.contents),
        };
        let mut rows = Rows {
            origins: std::mem::take(&mut self.origins),
            // An empty index is the identity: a key a row, repeated where rows repeat it.
            keys: self.given_keys.then(|| Dictionary {
                distinct: take(&mut self.keys),
                index: Vec::new(),
            }),
            values: self.shape.value.then(|| take(&mut self.values)),
            times: self.shape.time.then(|| std::mem::take(&mut self.times)),
            headers: self.shape.headers.then(|| take_headers(&mut self.headers)),
        };
        host.emit(self.output, &rows);
        self.origins = std::mem::take(&mut rows.origins);
        if let Some(keys) = rows.keys {
            self.keys = keys.distinct;
        }
        if let Some(values) = rows.values {
            self.values = values;
        }
        if let Some(times) = rows.times {
            self.times = times;
        }
        if let Some(headers) = rows.headers {
            self.headers = headers;
        }
        self.forget();
    }
}
