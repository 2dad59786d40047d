//! What the SDK asks of a host, as transcripts, and what the harness makes of operators.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::bindings::weir::operator::diagnostics;
use crate::bindings::weir::operator::output::Rows;
use crate::bindings::weir::operator::state::{Cells, ItemLists, Page};
use crate::bindings::weir::operator::types::{
    self, Batch, Column, Dictionary, Firing as Due, Now, Nullable,
};
use crate::host::Host;
use crate::runner::{self, Runner};
use crate::{
    AbsentOutput, Context, Entries, Fault, Firing, GivenOutput, Items, KeptOutput, Level, Operator,
    Prefetch, Range, Record, Renewal, Result, Setup, StateOptions, Timer, Value,
};

use super::kept::Kept;
use super::store::{Shared, Store};
use super::{Emitted, Harness, NewRecord, Scenario, null_record, record};

mod calls;
mod semantics;

type OnRecord = fn(&Puppet, Record<'_>, &mut Context) -> Result;
type OnTimer = fn(&Puppet, Firing<'_>, &mut Context) -> Result;

/// An operator with everything declared, which does what the test tells it.
struct Puppet {
    value: Value<String>,
    number: Value<u64>,
    brief: Value<u64>,
    items: Items<u64>,
    entries: Entries<String, u64>,
    event: Timer,
    processing: Timer,
    kept: KeptOutput,
    given: GivenOutput,
    absent: AbsentOutput,
}

thread_local! {
    static ON_RECORD: RefCell<OnRecord> = RefCell::new(|_, _, _| Ok(()));
    static ON_TIMER: RefCell<OnTimer> = RefCell::new(|_, _, _| Ok(()));
    static PREFETCH: RefCell<fn(&Puppet, &mut Prefetch<'_>)> = RefCell::new(|_, _| ());
    static ON_BOUNDARY: RefCell<fn(&Puppet, &mut Context) -> Result> = RefCell::new(|_, _| Ok(()));
}

fn on_record(act: OnRecord) {
    ON_RECORD.set(act);
}

fn on_timer(act: OnTimer) {
    ON_TIMER.set(act);
}

impl Operator for Puppet {
    type Config = ();

    fn new(setup: &mut Setup, (): ()) -> Result<Puppet> {
        setup.keyed_input("keyed");
        let unkeyed = setup.unkeyed_input("unkeyed");
        setup.read_headers(unkeyed);
        setup.on_watermark();
        let brief = StateOptions::new()
            .ttl(Duration::from_millis(100), Renewal::Access)
            .version(2, [1]);
        Ok(Puppet {
            value: setup.value("value"),
            number: setup.value("number"),
            brief: setup.value_with("brief", brief),
            items: setup.items("items"),
            entries: setup.entries("entries"),
            event: setup.event_timer("event"),
            processing: setup.processing_timer("processing"),
            kept: setup.kept_output("kept"),
            given: setup.given_output("given"),
            absent: setup.absent_output("absent"),
        })
    }

    fn prefetch(&self, _record: Record<'_>, reads: &mut Prefetch<'_>) {
        PREFETCH.with_borrow(|act| act(self, reads));
    }

    fn process(&mut self, record: Record<'_>, cx: &mut Context) -> Result {
        ON_RECORD.with_borrow(|act| act(self, record, cx))
    }

    fn on_timer(&mut self, firing: Firing<'_>, cx: &mut Context) -> Result {
        ON_TIMER.with_borrow(|act| act(self, firing, cx))
    }

    fn on_watermark(&mut self, cx: &mut Context) -> Result {
        ON_BOUNDARY.with_borrow(|act| act(self, cx))
    }

    fn finish(&mut self, cx: &mut Context) -> Result {
        ON_BOUNDARY.with_borrow(|act| act(self, cx))
    }
}

/// A host that writes down what it is asked, and asks the harness's.
struct Witness {
    host: Shared,
    calls: Rc<RefCell<Vec<String>>>,
}

/// A puppet on a witness, called with raw batches.
struct Stage {
    runner: Runner<Puppet>,
    store: Shared,
    calls: Rc<RefCell<Vec<String>>>,
}

const NOW: Now = Now {
    watermark: i64::MIN,
    processing_time: 0,
};

impl Stage {
    fn new() -> Stage {
        let description = runner::describe::<Puppet>("puppet", "", None).unwrap();
        let store: Shared = Rc::new(RefCell::new(Store::new(description, Kept::default())));
        let calls = Rc::default();
        let witness = Witness {
            host: store.clone(),
            calls: Rc::clone(&calls),
        };
        Stage {
            runner: Runner::open("puppet", "", "null", Box::new(witness)).unwrap(),
            store,
            calls,
        }
    }

    /// One call with a record for each of these keys, whose value is its place in the batch.
    fn records(&mut self, keys: &[&str]) -> Vec<String> {
        let mut distinct: Vec<&str> = Vec::new();
        let mut batch = Batch {
            input: 0,
            keys: Dictionary {
                distinct: Nullable::empty(),
                index: Vec::new(),
            },
            values: Nullable::empty(),
            times: vec![i64::MIN; keys.len()],
            headers: None,
        };
        for (place, key) in keys.iter().enumerate() {
            let index = distinct
                .iter()
                .position(|known| known == key)
                .unwrap_or_else(|| {
                    distinct.push(key);
                    batch.keys.distinct.push(Some(key.as_bytes()));
                    distinct.len() - 1
                });
            batch.keys.index.push(index as u32);
            batch.values.push(Some(place.to_string().as_bytes()));
        }
        let origin = Emitted {
            key: None,
            value: None,
            time: None,
            headers: Vec::new(),
        };
        let keys = distinct.iter().map(|key| key.as_bytes().to_vec()).collect();
        self.store
            .borrow_mut()
            .begin(Some(keys), vec![origin; batch.values.rows()], 0);
        self.runner.process(&batch, NOW).unwrap();
        self.store.borrow_mut().apply().unwrap();
        self.calls.take()
    }

    /// One call with a timer for each of these keys and namespaces.
    fn timers(&mut self, cells: &[(&str, &str)]) -> Vec<String> {
        let mut due = Due {
            keys: Column::empty(),
            timers: Vec::new(),
            namespaces: Column::empty(),
            times: Vec::new(),
        };
        for (key, namespace) in cells {
            due.keys.push(key.as_bytes());
            due.timers.push(0);
            due.namespaces.push(namespace.as_bytes());
            due.times.push(7);
        }
        let keys = due.keys.iter().map(<[u8]>::to_vec).collect();
        self.store.borrow_mut().begin(Some(keys), Vec::new(), 0);
        self.runner.on_timers(due, NOW).unwrap();
        self.store.borrow_mut().apply().unwrap();
        self.calls.take()
    }
}

fn cells(at: &Cells) -> String {
    let cell = |row: usize| match at.namespace(row) {
        b"" => at.keys[row].to_string(),
        namespace => format!("{}@{}", at.keys[row], String::from_utf8_lossy(namespace)),
    };
    (0..at.keys.len()).map(cell).collect::<Vec<_>>().join(" ")
}

fn column(column: &Column) -> String {
    column.iter().map(text).collect::<Vec<_>>().join(" ")
}

fn nullable(column: &Nullable) -> String {
    (0..column.rows())
        .map(|row| column.row(row).map_or("-".to_owned(), text))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Bytes as text, or a number of eight bytes as `#n`.
fn text(bytes: &[u8]) -> String {
    match bytes.try_into().map(u64::from_le_bytes) {
        Ok(number) if number < 1 << 32 => format!("#{number}"),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

impl Witness {
    fn note(&self, call: String) {
        self.calls.borrow_mut().push(call);
    }
}

impl Host for Witness {
    fn get(&mut self, state: u32, at: &Cells) -> Nullable {
        self.note(format!("get {state}: {}", cells(at)));
        self.host.get(state, at)
    }

    fn put(&mut self, state: u32, at: &Cells, values: &Nullable) {
        self.note(format!("put {state}: {} = {}", cells(at), nullable(values)));
        self.host.put(state, at, values);
    }

    fn append(&mut self, state: u32, at: &Cells, items: &Column) {
        self.note(format!(
            "append {state}: {} += {}",
            cells(at),
            column(items)
        ));
        self.host.append(state, at, items);
    }

    fn get_items(&mut self, state: u32, at: &Cells) -> ItemLists {
        self.note(format!("get-items {state}: {}", cells(at)));
        self.host.get_items(state, at)
    }

    fn get_entries(&mut self, state: u32, at: &Cells, names: &Column) -> Nullable {
        self.note(format!(
            "get-entries {state}: {} . {}",
            cells(at),
            column(names)
        ));
        self.host.get_entries(state, at, names)
    }

    fn put_entries(&mut self, state: u32, at: &Cells, names: &Column, values: &Nullable) {
        self.note(format!(
            "put-entries {state}: {} . {} = {}",
            cells(at),
            column(names),
            nullable(values)
        ));
        self.host.put_entries(state, at, names, values);
    }

    fn scan(
        &mut self,
        state: u32,
        at: &Cells,
        start: &Nullable,
        end: &Nullable,
        descending: bool,
        limit: u32,
    ) -> Page {
        self.note(format!(
            "scan {state}: {} {}..{} {limit}",
            cells(at),
            nullable(start),
            nullable(end)
        ));
        self.host.scan(state, at, start, end, descending, limit)
    }

    fn clear_entries(&mut self, state: u32, at: &Cells, start: &Nullable, end: &Nullable) {
        self.note(format!(
            "clear-entries {state}: {} {}..{}",
            cells(at),
            nullable(start),
            nullable(end)
        ));
        self.host.clear_entries(state, at, start, end);
    }

    fn clear(&mut self, state: u32, at: &Cells) {
        self.note(format!("clear {state}: {}", cells(at)));
        self.host.clear(state, at);
    }

    fn touch(&mut self, state: u32, at: &Cells) {
        self.note(format!("touch {state}: {}", cells(at)));
        self.host.touch(state, at);
    }

    fn set_timers(&mut self, timer: u32, at: &Cells, times: &[i64]) {
        self.note(format!("set {timer}: {} at {times:?}", cells(at)));
        self.host.set_timers(timer, at, times);
    }

    fn cancel_timers(&mut self, timer: u32, at: &Cells, times: &[i64]) {
        self.note(format!("cancel {timer}: {} at {times:?}", cells(at)));
        self.host.cancel_timers(timer, at, times);
    }

    fn emit(&mut self, output: u32, rows: &Rows) {
        let mut call = format!("emit {output}: from {:?}", rows.origins);
        if let Some(keys) = &rows.keys {
            call.push_str(&format!(", keys {}", nullable(&keys.distinct)));
        }
        if let Some(values) = &rows.values {
            call.push_str(&format!(", values {}", nullable(values)));
        }
        if let Some(times) = &rows.times {
            call.push_str(&format!(", times {times:?}"));
        }
        if let Some(headers) = &rows.headers {
            let (names, contents) = (column(&headers.names), nullable(&headers.contents));
            let ends = &headers.ends;
            call.push_str(&format!(", headers {ends:?} {names} = {contents}"));
        }
        self.note(call);
        self.host.emit(output, rows);
    }

    fn log(&mut self, level: diagnostics::Level, message: &str) {
        self.note(format!("log {level:?} {message}"));
        self.host.log(level, message);
    }

    fn reject(&mut self, faults: &[types::Fault]) {
        let faults: Vec<_> = faults
            .iter()
            .map(|fault| (fault.row, &fault.message))
            .collect();
        self.note(format!("reject {faults:?}"));
    }
}
