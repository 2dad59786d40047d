//! What a guest call sees: the state of its keys and the outputs it fills, both held back until the call returns ok.

use std::sync::Arc;
use std::time::Duration;

use weir_operator::{
    Cells, Column, ColumnRef, Environment, Fault, HostError, ItemLists, Level, Nullable,
    NullableRef, Page, Rows,
};
use weir_state::{Firing, KeyDictionary, KeyedState};

use crate::batch::{Batch, Bytes, NO_TIME, Origin, hash_of};
use crate::clock;
use crate::headers::Headers;

/// The rows that a call's output may name as origins.
#[derive(Default)]
pub enum CallRows {
    /// A batch of records.
    Records(Arc<Batch>),
    /// Timers that fire.
    Timers(Arc<Firing>),
    /// None: `on-watermark` and `finish`.
    #[default]
    Nothing,
}

/// The environment of one operator subtask's instance.
pub struct OperatorEnvironment {
    /// Keyed state and timers.
    pub state: Box<dyn KeyedState>,
    /// The memory of the last call's dictionary, for the next.
    pub dictionary: KeyDictionary,
    /// The rows of the call in progress.
    pub rows: CallRows,
    /// Processing time of the call in progress.
    pub processing_time: i64,
    /// Batches that the last successful calls emitted, with their output port, until the task takes them.
    pub produced: Vec<(usize, Batch)>,
    /// Records that the guest set aside itself, with its reason, until the task takes them.
    pub rejected: Vec<Fault>,
    emitted: Vec<(u32, Rows)>,
    rejecting: Vec<Fault>,
    /// For each output whether its records have no key.
    keyless: Vec<bool>,
    /// The operator and its subtask, for guest logs.
    operator: String,
    subtask: u16,
    /// What calls since the last look spent here.
    pub spent: Spent,
}

/// Time spent in the host while a guest was called.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// In state and timers.
    pub state: Duration,
    /// In making effects real.
    pub apply: Duration,
}

impl OperatorEnvironment {
    /// Over `state`. `keyless` says for each output whether its records have no key; `operator` and `subtask` mark the guest's log lines.
    pub fn new(
        state: Box<dyn KeyedState>,
        keyless: Vec<bool>,
        operator: String,
        subtask: u16,
    ) -> OperatorEnvironment {
        OperatorEnvironment {
            state,
            dictionary: KeyDictionary::default(),
            rows: CallRows::Nothing,
            processing_time: NO_TIME,
            produced: Vec::new(),
            rejected: Vec::new(),
            emitted: Vec::new(),
            rejecting: Vec::new(),
            keyless,
            operator,
            subtask,
            spent: Spent::default(),
        }
    }

    /// Work on the state, its time counted.
    fn on_state<T>(
        &mut self,
        work: impl FnOnce(&mut dyn KeyedState) -> Result<T, weir_state::Error>,
    ) -> Result<T, HostError> {
        let began = clock::now();
        let result = work(self.state.as_mut());
        self.spent.state += began.elapsed();
        result.map_err(host)
    }
}

fn bytes(column: Nullable) -> Bytes {
    Bytes {
        present: column.present,
        offsets: column.offsets,
        data: column.data,
    }
}

fn headers_of(headers: weir_operator::Headers) -> Headers {
    let names = headers.names;
    Headers {
        ends: headers.ends,
        names: Bytes {
            present: Vec::new(),
            offsets: names.offsets,
            data: names.data,
        },
        contents: bytes(headers.contents),
    }
}

fn is_identity(origins: &[u32], rows: usize) -> bool {
    origins.len() == rows
        && origins
            .iter()
            .enumerate()
            .all(|(row, origin)| row == *origin as usize)
}

/// The rows of `column` that `origins` names.
fn gather(column: &Bytes, origins: &[u32]) -> Bytes {
    if is_identity(origins, column.len()) {
        return column.clone();
    }
    let mut out = Bytes::with_capacity(origins.len(), column.data.len());
    for origin in origins {
        out.push(column.get(*origin as usize));
    }
    out
}

fn pick<T: Copy>(values: &[T], origins: &[u32]) -> Vec<T> {
    origins
        .iter()
        .map(|origin| values[*origin as usize])
        .collect()
}

/// Fills in what a row does not give from its origin row, except keys where the output has none.
fn inherit(rows: Rows, from: &CallRows, keyless: bool) -> Batch {
    let count = rows
        .origins
        .len()
        .max(rows.keys.as_ref().map_or(0, |keys| keys.index.len()));
    let count = count.max(rows.times.as_ref().map_or(0, Vec::len));
    let (keys, hashes) = match (rows.keys, from) {
        _ if keyless => (nulls(count), vec![0; count]),
        (Some(dictionary), _) => {
            let distinct = bytes(dictionary.distinct);
            let hashed: Vec<u64> = (0..distinct.len())
                .map(|i| hash_of(distinct.get(i)))
                .collect();
            (
                gather(&distinct, &dictionary.index),
                pick(&hashed, &dictionary.index),
            )
        }
        (None, CallRows::Records(batch)) => (
            gather(&batch.keys, &rows.origins),
            pick(&batch.hashes, &rows.origins),
        ),
        (None, CallRows::Timers(firing)) => {
            let mut keys = Bytes::with_capacity(rows.origins.len(), firing.keys.data.len());
            for origin in &rows.origins {
                keys.push(Some(firing.keys.as_ref().get(*origin as usize)));
            }
            (keys, pick(&firing.hashes, &rows.origins))
        }
        (None, CallRows::Nothing) => (nulls(count), vec![0; count]),
    };
    let values = match (rows.values, from) {
        (Some(values), _) => bytes(values),
        (None, CallRows::Records(batch)) => gather(&batch.values, &rows.origins),
        (None, _) => nulls(count),
    };
    let times = match (rows.times, from) {
        (Some(times), _) => times,
        (None, CallRows::Records(batch)) => pick(&batch.times, &rows.origins),
        (None, CallRows::Timers(firing)) => pick(&firing.times, &rows.origins),
        (None, CallRows::Nothing) => vec![NO_TIME; count],
    };
    let headers = match (rows.headers, from) {
        (Some(headers), _) => headers_of(headers).into_column(),
        (None, CallRows::Records(batch)) => match &batch.headers {
            Some(headers) if is_identity(&rows.origins, headers.rows()) => Some(headers.clone()),
            Some(headers) => headers.gather(&rows.origins).into_column(),
            None => None,
        },
        (None, _) => None,
    };
    let origins = match from {
        CallRows::Records(batch) => pick(&batch.origins, &rows.origins),
        _ => vec![Origin::NONE; count],
    };
    Batch {
        keys,
        hashes,
        values,
        times,
        origins,
        headers,
    }
}

fn nulls(count: usize) -> Bytes {
    Bytes {
        present: vec![0; count],
        offsets: vec![0; count + 1],
        data: Vec::new(),
    }
}

fn cells(at: Cells<'_>) -> weir_state::Cells<'_> {
    weir_state::Cells {
        keys: at.keys,
        namespaces: at.namespaces.map(column_ref),
    }
}

fn column_ref(column: ColumnRef<'_>) -> weir_state::ColumnRef<'_> {
    weir_state::ColumnRef {
        offsets: column.offsets,
        data: column.data,
    }
}

fn nullable_ref(column: NullableRef<'_>) -> weir_state::NullableRef<'_> {
    weir_state::NullableRef {
        present: column.present,
        offsets: column.offsets,
        data: column.data,
    }
}

fn column(column: weir_state::Column) -> Column {
    Column {
        offsets: column.offsets,
        data: column.data,
    }
}

fn nullable(column: weir_state::Nullable) -> Nullable {
    Nullable {
        present: column.present,
        offsets: column.offsets,
        data: column.data,
    }
}

fn host(error: weir_state::Error) -> HostError {
    match error {
        weir_state::Error::Budget { .. } => HostError::over_budget(),
        error => HostError::new(error),
    }
}

impl Environment for OperatorEnvironment {
    fn begin(&mut self) {
        self.emitted.clear();
        self.rejecting.clear();
        self.state.begin(self.processing_time);
    }

    fn apply(&mut self) -> Result<(), HostError> {
        let began = clock::now();
        self.state.apply().map_err(host)?;
        for (output, rows) in self.emitted.drain(..) {
            let batch = inherit(rows, &self.rows, self.keyless[output as usize]);
            if !batch.is_empty() {
                self.produced.push((output as usize, batch));
            }
        }
        self.rejected.append(&mut self.rejecting);
        self.spent.apply += began.elapsed();
        Ok(())
    }

    fn discard(&mut self) {
        self.emitted.clear();
        self.rejecting.clear();
        self.state.discard();
    }

    fn get(&mut self, state: u32, at: Cells<'_>) -> Result<Nullable, HostError> {
        self.on_state(|keyed| keyed.get(state, cells(at)))
            .map(nullable)
    }

    fn put(&mut self, state: u32, at: Cells<'_>, values: NullableRef<'_>) -> Result<(), HostError> {
        self.on_state(|keyed| keyed.put(state, cells(at), nullable_ref(values)))
    }

    fn append(&mut self, state: u32, at: Cells<'_>, items: ColumnRef<'_>) -> Result<(), HostError> {
        self.on_state(|keyed| keyed.append(state, cells(at), column_ref(items)))
    }

    fn get_items(&mut self, state: u32, at: Cells<'_>) -> Result<ItemLists, HostError> {
        let lists = self.on_state(|keyed| keyed.get_items(state, cells(at)))?;
        Ok(ItemLists {
            ends: lists.ends,
            items: column(lists.items),
        })
    }

    fn get_entries(
        &mut self,
        state: u32,
        at: Cells<'_>,
        names: ColumnRef<'_>,
    ) -> Result<Nullable, HostError> {
        self.on_state(|keyed| keyed.get_entries(state, cells(at), column_ref(names)))
            .map(nullable)
    }

    fn put_entries(
        &mut self,
        state: u32,
        at: Cells<'_>,
        names: ColumnRef<'_>,
        values: NullableRef<'_>,
    ) -> Result<(), HostError> {
        let (names, values) = (column_ref(names), nullable_ref(values));
        self.on_state(|keyed| keyed.put_entries(state, cells(at), names, values))
    }

    fn scan(
        &mut self,
        state: u32,
        at: Cells<'_>,
        start: NullableRef<'_>,
        end: NullableRef<'_>,
        descending: bool,
        limit: u32,
    ) -> Result<Page, HostError> {
        let (start, end) = (nullable_ref(start), nullable_ref(end));
        let page =
            self.on_state(|keyed| keyed.scan(state, cells(at), start, end, descending, limit))?;
        Ok(Page {
            ends: page.ends,
            names: column(page.names),
            values: column(page.values),
            more: page.more,
        })
    }

    fn clear_entries(
        &mut self,
        state: u32,
        at: Cells<'_>,
        start: NullableRef<'_>,
        end: NullableRef<'_>,
    ) -> Result<(), HostError> {
        let (start, end) = (nullable_ref(start), nullable_ref(end));
        self.on_state(|keyed| keyed.clear_entries(state, cells(at), start, end))
    }

    fn clear(&mut self, state: u32, at: Cells<'_>) -> Result<(), HostError> {
        self.on_state(|keyed| keyed.clear(state, cells(at)))
    }

    fn touch(&mut self, state: u32, at: Cells<'_>) -> Result<(), HostError> {
        self.on_state(|keyed| keyed.touch(state, cells(at)))
    }

    fn set_timers(&mut self, timer: u32, at: Cells<'_>, times: &[i64]) -> Result<(), HostError> {
        self.on_state(|keyed| keyed.set_timers(timer, cells(at), times))
    }

    fn cancel_timers(&mut self, timer: u32, at: Cells<'_>, times: &[i64]) -> Result<(), HostError> {
        self.on_state(|keyed| keyed.cancel_timers(timer, cells(at), times))
    }

    fn emit(&mut self, output: u32, rows: Rows) -> Result<(), HostError> {
        self.emitted.push((output, rows));
        Ok(())
    }

    fn log(&mut self, level: Level, message: &str) {
        crate::log::guest(&self.operator, self.subtask, level, message);
    }

    fn reject(&mut self, faults: Vec<Fault>) -> Result<(), HostError> {
        self.rejecting.extend(faults);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
