//! A sink's subtask in a chain: its writer, and what happens to records that it cannot write.

use super::Error;
use super::chain::Outlet;
use crate::batch::{Batch, NO_TIME};
use crate::decode::dead_letter::{Form, Letter, Writer};
use crate::graph::DEAD_LETTER_INPUT;
use crate::job::model::ErrorPolicy;
use crate::log::{self, Level, Line};
use crate::metrics::{Counters, Origins};
use crate::sink::{self, Rejected};

/// Records that a policy which goes on logs one by one; after that they are only counted.
const REJECTED_LOGGED: u32 = 10;

/// A sink in a chain.
pub struct SinkNode {
    /// Its id.
    pub id: String,
    /// This subtask.
    pub subtask: u16,
    /// Where it writes.
    pub writer: sink::Writer,
    /// What happens to a record that it cannot write.
    pub on_error: ErrorPolicy,
    /// How its dead letters are written.
    pub letter_form: Form,
    /// Records logged so far by policies that go on.
    pub faults_logged: u32,
    /// Where its only port leads, that of its dead letters.
    pub outlets: Vec<Vec<Outlet>>,
}

impl SinkNode {
    /// Writes the records of `batch`, which came in by input `input`. Gives the dead letters of those that cannot be written.
    pub(super) fn write(
        &mut self,
        input: u32,
        batch: &Batch,
        counters: &Counters,
        origins: &Origins,
    ) -> Result<Option<Batch>, Error> {
        let before = self.writer.written();
        let result = self.writer.write(batch, input == DEAD_LETTER_INPUT);
        let after = self.writer.written();
        counters.add_written(after.records - before.records);
        counters.add_written_bytes(after.bytes - before.bytes);
        let rejected = result.map_err(|error| sink_error(&self.id, error, origins))?;
        if rejected.is_empty() {
            return Ok(None);
        }
        self.set_aside(batch, rejected, counters, origins)
    }

    /// What the policy says of records that cannot be written.
    fn set_aside(
        &mut self,
        batch: &Batch,
        rejected: Vec<Rejected>,
        counters: &Counters,
        origins: &Origins,
    ) -> Result<Option<Batch>, Error> {
        let mut letters = Batch::default();
        for Rejected { row, what } in rejected {
            let origin = batch.origins[row];
            let record = origins.describe(&[origin], Some(0));
            let done = match self.on_error {
                ErrorPolicy::Fail => {
                    return Err(Error::Sink {
                        sink: self.id.clone(),
                        record,
                        error: Box::new(sink::Error::Value {
                            sink: self.id.clone(),
                            origin,
                            what,
                        }),
                    });
                }
                ErrorPolicy::Skip => {
                    counters.add_skipped(1);
                    "was left out"
                }
                ErrorPolicy::DeadLetter(_) => {
                    counters.add_dead(1);
                    let letter = Letter {
                        writer: Writer::Sink {
                            sink: &self.id,
                            record: record.as_deref(),
                        },
                        error: &what,
                        key: batch.keys.get(row),
                        value: batch.values.get(row),
                        headers: batch.headers_of(row).collect(),
                        time: Some(batch.times[row]).filter(|time| *time != NO_TIME),
                    };
                    letter.push(&self.letter_form, origin, &mut letters);
                    "went to the dead letters"
                }
            };
            self.warn(record.as_deref().unwrap_or("a record"), done, &what);
        }
        Ok((!letters.is_empty()).then_some(letters))
    }

    fn warn(&mut self, record: &str, done: &str, what: &str) {
        self.faults_logged = self.faults_logged.saturating_add(1);
        if self.faults_logged > REJECTED_LOGGED {
            return;
        }
        let warn = |message: String| {
            let line = Line::new(Level::Warn, message).code("W0706");
            log::write(line.operator(&self.id).subtask(self.subtask));
        };
        warn(format!("sink `{}`: {record} {done}: {what}", self.id));
        if self.faults_logged == REJECTED_LOGGED {
            warn(format!("sink `{}`: further ones are only counted", self.id));
        }
    }
}

/// The failure of the task whose sink `sink` failed.
pub(crate) fn sink_error(sink: &str, error: sink::Error, origins: &Origins) -> Error {
    let record = match &error {
        sink::Error::Cancelled => return Error::Closed,
        sink::Error::Value { origin, .. } => origins.describe(&[*origin], Some(0)),
        _ => None,
    };
    Error::Sink {
        sink: sink.to_owned(),
        record,
        error: Box::new(error),
    }
}
