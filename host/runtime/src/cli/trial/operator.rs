//! The operator of a trial: calls it as a job's subtask does, with one record or timer at a time, and shows what came of it.

use std::io::{self, Write};
use std::sync::Arc;

use weir_operator::{
    Batch as GuestBatch, CallError, ColumnRef, Component, Description, Firing, InputKind, Instance,
    Limits, Now, NullableRef, OutputKeys,
};
use weir_state::{Oracle, TimeDomain};

use super::line::{Line, Record};
use super::shown::Shown;
use super::traced::Traced;
use super::{End, invalid};
use crate::attempt;
use crate::batch::{Batch, Bytes, END_OF_TIME, NO_TIME, Origin, hash_of};
use crate::clock;
use crate::diagnostic::{Diagnostic, ExitCode};
use crate::headers::Headers;
use crate::task::environment::{CallRows, OperatorEnvironment};

/// Key groups: there is one subtask, so any number does.
const GROUPS: u16 = 128;

const NO_KEYS: weir_state::ColumnRef<'static> = weir_state::ColumnRef {
    offsets: &[0],
    data: &[],
};

/// The operator and what it said since the last line was printed.
pub(super) struct Trial {
    instance: Option<Instance<Traced>>,
    description: Description,
    /// For records that do not say it.
    input: usize,
    watermark: i64,
    /// The clock, once a line has set it.
    clock: Option<i64>,
    /// The line that is read, from 1.
    pub(super) line: u64,
    pub(super) faults: u64,
    out: String,
    /// Whether all lines are read, so that what follows belongs to none of them.
    ended: bool,
}

impl Trial {
    /// Opens the operator over empty state. Records that do not say otherwise are for `input`.
    pub(super) fn open(
        component: &Component,
        description: Description,
        config: &str,
        input: Option<&str>,
    ) -> Result<Trial, End> {
        let input = match input {
            None => 0,
            Some(name) => position(&description, name).ok_or_else(|| {
                let title = format!("the operator has no input named `{name}`");
                let names = names(&description);
                invalid(Diagnostic::error("W0221", title).help(format!("its inputs: {names}")))
            })?,
        };
        let range = weir_state::hash::group_range(0, 1, GROUPS);
        let state = Oracle::new(attempt::schema(&description), range, GROUPS);
        let outputs = description.outputs.iter();
        let keyless = outputs.map(|output| output.keys == OutputKeys::Absent);
        let inner = OperatorEnvironment::new(
            Box::new(state),
            keyless.collect(),
            description.name.clone(),
            0,
        );
        let traced = Traced::new(inner, description.clone());
        let instance =
            component.instantiate(&description.name, &description, Limits::default(), traced);
        let opened = instance.and_then(|mut instance| {
            instance.open(config)?;
            Ok(instance)
        });
        let instance =
            opened.map_err(|error| invalid(Diagnostic::error("W0401", error.to_string())))?;
        Ok(Trial {
            instance: Some(instance),
            description,
            input,
            watermark: NO_TIME,
            clock: None,
            line: 0,
            faults: 0,
            out: String::new(),
            ended: false,
        })
    }

    fn instance(&mut self) -> &mut Instance<Traced> {
        self.instance
            .as_mut()
            .expect("there is an instance between calls")
    }

    fn environment(&mut self) -> &mut OperatorEnvironment {
        &mut self.instance().environment().inner
    }

    fn processing_time(&self) -> i64 {
        self.clock.unwrap_or_else(clock::wall_millis)
    }

    fn now(&mut self) -> Now {
        let processing_time = self.processing_time();
        self.environment().processing_time = processing_time;
        Now {
            watermark: self.watermark,
            processing_time,
        }
    }

    /// Prints what has been said.
    pub(super) fn flush(&mut self) -> Result<(), End> {
        let mut out = io::stdout().lock();
        let written = out
            .write_all(self.out.as_bytes())
            .and_then(|()| out.flush());
        self.out.clear();
        written.map_err(End::Written)
    }

    fn show(&mut self, shown: Shown) {
        let shown = match self.ended {
            true => shown,
            false => shown.number("line", self.line),
        };
        self.out.push_str(&shown.finish());
        self.out.push('\n');
    }

    /// Does what a line says. `wrong` makes an error of what is wrong with it.
    pub(super) fn take(&mut self, line: Line, wrong: &impl Fn(String) -> End) -> Result<(), End> {
        if let Line::ProcessingTime(millis) = line {
            self.clock = Some(millis);
        }
        self.fire(TimeDomain::Processing, self.processing_time())?;
        match line {
            Line::Nothing | Line::ProcessingTime(_) => Ok(()),
            Line::Record(record) => {
                let input = match &record.input {
                    None => self.input,
                    Some(name) => position(&self.description, name).ok_or_else(|| {
                        let names = names(&self.description);
                        wrong(format!("no input named `{name}`; there are: {names}"))
                    })?,
                };
                self.record(input, record)
            }
            Line::Watermark(millis) if millis < self.watermark => Err(wrong(format!(
                "the watermark is {} already",
                self.watermark
            ))),
            Line::Watermark(millis) => {
                self.watermark = millis;
                self.fire(TimeDomain::Event, millis)?;
                let now = self.now();
                self.without_keys()?;
                let called = self.instance().on_watermark(now);
                self.settle(called, None)
            }
        }
    }

    fn record(&mut self, input: usize, record: Record) -> Result<(), End> {
        let keyed = self.description.inputs[input].kind == InputKind::Keyed;
        if keyed && record.key.is_none() {
            self.fault("a record without a key at a keyed input", Some(&record));
            return Ok(());
        }
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        let mut batch = Batch::default();
        let time = record.time.unwrap_or(NO_TIME);
        let (hash, headers) = (hash_of(key), record.headers());
        batch.push_with_headers(key, hash, value, headers, time, Origin::NONE);
        let batch = Arc::new(batch);
        let now = self.now();
        let environment = self.environment();
        let interned = if keyed {
            let (offsets, data) = (&batch.keys.offsets, &batch.keys.data);
            let keys = weir_state::ColumnRef { offsets, data };
            environment.state.intern(keys, &batch.hashes)
        } else {
            environment.state.intern(NO_KEYS, &[])
        };
        interned.map_err(state_failed)?;
        environment.rows = CallRows::Records(batch.clone());
        let called = self.instance().process(
            GuestBatch {
                input: u32::try_from(input).expect("a description has few inputs"),
                distinct: nullable(&batch.keys),
                index: if keyed { &[0] } else { &[] },
                values: nullable(&batch.values),
                times: &batch.times,
                headers: batch.headers.as_deref().map(Headers::lent),
            },
            now,
        );
        self.settle(called, Some(&record))
    }

    /// Fires the timers of a clock that are due, one by one.
    fn fire(&mut self, domain: TimeDomain, until: i64) -> Result<(), End> {
        let next = self.environment().state.next_timer(domain);
        if next.is_none_or(|time| time > until) {
            return Ok(());
        }
        self.environment().state.begin_advance(domain, until);
        loop {
            let now = self.now();
            let state = &mut self.environment().state;
            let Some(firing) = state.pop_due(1).map_err(state_failed)? else {
                break;
            };
            let timer = &self.description.timers[firing.timers[0] as usize];
            let shown = Shown::new("timer")
                .text("timer", &timer.name)
                .text("change", "fire")
                .bytes("key", Some(&firing.keys.data));
            let shown = match firing.namespaces.data.is_empty() {
                true => shown,
                false => shown.bytes("namespace", Some(&firing.namespaces.data)),
            };
            self.show(shown.time("time", firing.times[0]));
            let firing = Arc::new(firing);
            self.environment().rows = CallRows::Timers(firing.clone());
            let called = self.instance().on_timers(
                Firing {
                    keys: column_of(&firing.keys),
                    timers: &firing.timers,
                    namespaces: column_of(&firing.namespaces),
                    times: &firing.times,
                },
                now,
            );
            let failed = called.is_err();
            self.settle(called, None)?;
            if failed {
                // It is registered again. Popped once more and applied without the guest, it is gone.
                let state = &mut self.environment().state;
                let popped = state.pop_due(1).and_then(|_| {
                    state.begin(NO_TIME);
                    state.apply()
                });
                popped.map_err(state_failed)?;
            }
        }
        self.environment().state.end_advance();
        Ok(())
    }

    fn without_keys(&mut self) -> Result<(), End> {
        let environment = self.environment();
        environment.rows = CallRows::Nothing;
        environment.state.intern(NO_KEYS, &[]).map_err(state_failed)
    }

    /// All lines are read: the last advance of event time, then `finish`.
    pub(super) fn end(&mut self) -> Result<(), End> {
        self.ended = true;
        self.watermark = END_OF_TIME;
        while self
            .environment()
            .state
            .next_timer(TimeDomain::Event)
            .is_some()
        {
            self.fire(TimeDomain::Event, END_OF_TIME)?;
        }
        let now = self.now();
        self.without_keys()?;
        let called = self.instance().on_watermark(now);
        self.settle(called, None)?;
        let state = &mut self.environment().state;
        let dropped = state.drop_timers(TimeDomain::Processing);
        if dropped > 0 {
            let shown = Shown::new("timer").text("change", "drop");
            self.show(shown.number("count", dropped));
        }
        self.without_keys()?;
        let now = self.now();
        let called = self.instance().finish(now);
        self.settle(called, None)
    }

    /// Shows what a call did, or why it did nothing. `record` is what it was called with.
    fn settle(
        &mut self,
        called: Result<(), CallError>,
        record: Option<&Record>,
    ) -> Result<(), End> {
        for (port, batch) in std::mem::take(&mut self.environment().produced) {
            for row in 0..batch.len() {
                let shown = Shown::new("output")
                    .text("output", &self.description.outputs[port].name)
                    .bytes("key", batch.keys.get(row))
                    .bytes("value", batch.values.get(row))
                    .time("time", batch.times[row])
                    .headers(batch.headers_of(row));
                self.show(shown);
            }
        }
        for change in std::mem::take(&mut self.instance().environment().changes) {
            self.show(change);
        }
        for rejected in std::mem::take(&mut self.environment().rejected) {
            self.fault(&CallError::Fault(rejected).to_string(), record);
        }
        let Err(error) = called else {
            return Ok(());
        };
        if let CallError::Host(error) = &error {
            self.flush()?;
            let problem = Diagnostic::error("W0403", error.to_string());
            return Err(End::Refused(problem.into(), ExitCode::GaveUp));
        }
        let mut text = error.to_string();
        if let CallError::Trap { backtrace, .. } = &error {
            for frame in backtrace.iter().take(8) {
                text.push_str("\n  at ");
                text.push_str(frame);
            }
        }
        self.fault(&text, record);
        if !matches!(error, CallError::Fault(_)) {
            let instance = self.instance.take();
            let replaced = instance
                .expect("there is an instance between calls")
                .replace();
            let problem = |error: CallError| {
                End::Refused(
                    Diagnostic::error("W0401", error.to_string()).into(),
                    ExitCode::GaveUp,
                )
            };
            self.instance = Some(replaced.map_err(problem)?);
        }
        Ok(())
    }

    fn fault(&mut self, error: &str, record: Option<&Record>) {
        self.faults += 1;
        let shown = Shown::new("fault").text("error", error);
        let shown = match record {
            None => shown,
            Some(record) => shown
                .bytes("key", record.key.as_deref())
                .bytes("value", record.value.as_deref())
                .time("time", record.time.unwrap_or(NO_TIME))
                .headers(record.headers()),
        };
        self.show(shown);
    }
}

fn position(description: &Description, name: &str) -> Option<usize> {
    let mut inputs = description.inputs.iter();
    inputs.position(|input| input.name == name)
}

fn names(description: &Description) -> String {
    let names: Vec<_> = description
        .inputs
        .iter()
        .map(|input| input.name.as_str())
        .collect();
    names.join(", ")
}

fn state_failed(error: weir_state::Error) -> End {
    let problem = Diagnostic::error("W0403", error.to_string());
    End::Refused(problem.into(), ExitCode::GaveUp)
}

fn column_of(column: &weir_state::Column) -> ColumnRef<'_> {
    ColumnRef {
        offsets: &column.offsets,
        data: &column.data,
    }
}

fn nullable(column: &Bytes) -> NullableRef<'_> {
    NullableRef {
        present: &column.present,
        offsets: &column.offsets,
        data: &column.data,
    }
}
