//! What happens when a guest fails on records or timers: smaller and smaller calls until the one that fails is alone, and then what the
//! operator's policy says.
//!
//! A failed call has no effects, so calling again with fewer rows is safe; results do not depend on where batches are cut. A row that the
//! guest names is tried first: what lies before it should pass. A call that only asked for more than a call may carry passes
//! once it is small enough, and nobody hears of it.

use std::sync::Arc;
use std::time::Duration;

use weir_operator::CallError;
use weir_state::Firing;

use super::Error;
use super::environment::CallRows;
use super::node::OperatorNode;
use crate::batch::{Batch, NO_TIME, Origin};
use crate::decode::dead_letter::{Letter, Writer};
use crate::job::model::ErrorPolicy;
use crate::log::{self, Level, Line};
use crate::metrics::Origins;

/// Faults that a policy which goes on logs one by one; after that they are only counted.
const FAULTS_LOGGED: u32 = 10;

/// How a call of timers ended.
pub(super) enum Fired {
    /// The timers are gone, their effects or their letters are there.
    Done,
    /// It failed: try again with so many at most.
    Fewer(usize),
}

/// The row that a guest's failure names.
fn named_row(error: &CallError) -> Option<u32> {
    match error {
        CallError::Fault(fault) => fault.row,
        CallError::Trap { last_words, .. } => last_words.as_ref().and_then(|fault| fault.row),
        _ => None,
    }
}

/// Where to cut `rows` rows (more than one) after `error`: ascending, exclusive of both ends.
fn cuts(error: &CallError, rows: usize) -> Vec<usize> {
    match named_row(error)
        .map(|row| row as usize)
        .filter(|row| *row < rows)
    {
        Some(row) => [row, row + 1]
            .into_iter()
            .filter(|cut| (1..rows).contains(cut))
            .collect(),
        None => vec![rows / 2],
    }
}

/// How long a call of `rows` may take, some of `of` that together took longer than `limit`: its share, or looking for the record on
/// which calls hang would take the limit at each try. A lone record, which is judged by it, has all of it.
fn time_for(rows: usize, of: usize, limit: Duration) -> Duration {
    if rows == 1 {
        return limit;
    }
    let share = rows as f64 / of.max(1) as f64;
    limit.mul_f64(share.clamp(1.0 / 16.0, 1.0))
}

impl OperatorNode {
    /// Goes on after a call of records that failed or in which the guest gave records up.
    pub(super) fn isolate(
        &mut self,
        input: u32,
        mut outcome: Result<(), (CallError, Arc<Batch>)>,
        origins: &Origins,
    ) -> Result<(), Error> {
        // What is still to be done, the next on top.
        let mut left: Vec<Batch> = Vec::new();
        // Rows of the call that took too long.
        let mut late = None;
        loop {
            match outcome {
                Ok(()) => self.settle_rejected(origins)?,
                Err((error, batch)) => {
                    let error = self.mend(error)?;
                    if batch.len() == 1 {
                        self.give_up(&batch, 0, error, origins)?;
                    } else {
                        if matches!(error, CallError::Deadline { .. }) {
                            late.get_or_insert(batch.len());
                        }
                        let mut end = batch.len();
                        for cut in cuts(&error, batch.len()).into_iter().rev().chain([0]) {
                            left.push(batch.rows(cut..end));
                            end = cut;
                        }
                    }
                }
            }
            match left.pop() {
                Some(batch) => {
                    if let Some(of) = late {
                        let time = time_for(batch.len(), of, self.call_time);
                        self.instance().hurry(time);
                    }
                    outcome = self.call(input, batch)?;
                }
                None => return Ok(()),
            }
        }
    }

    /// Calls the guest with timers; see [`Fired`]. Timers that fail alone are dropped by policies that go on.
    pub(super) fn on_timers(&mut self, firing: Firing, origins: &Origins) -> Result<Fired, Error> {
        let firing = Arc::new(firing);
        let Err(error) = self.fire(firing.clone()) else {
            self.settle_rejected(origins)?;
            return Ok(Fired::Done);
        };
        let error = self.mend(error)?;
        if firing.len() > 1 {
            return Ok(Fired::Fewer(cuts(&error, firing.len())[0]));
        }
        self.give_up_timer(&firing, 0, error)?;
        // Popped once more and applied without the guest, it is gone.
        let state = &mut self.environment().state;
        let popped = state.pop_due(1).and_then(|_| {
            state.begin(NO_TIME);
            state.apply()
        });
        popped.map_err(|error| self.state_error(error))?;
        Ok(Fired::Done)
    }

    /// After a failed call: the host's own errors end the job, an instance that died is replaced.
    fn mend(&mut self, error: CallError) -> Result<CallError, Error> {
        match error {
            CallError::Host(_) => Err(self.call_error(error, None)),
            CallError::Fault(_) => Ok(error),
            _ => self.replace().map(|()| error),
        }
    }

    /// Rows that the guest gave up itself, their effects withheld.
    fn settle_rejected(&mut self, origins: &Origins) -> Result<(), Error> {
        let rejected = std::mem::take(&mut self.environment().rejected);
        if rejected.is_empty() {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.environment().rows);
        for fault in rejected {
            let row = fault.row.unwrap_or(0) as usize;
            let error = CallError::Fault(fault);
            match &rows {
                CallRows::Records(batch) => self.give_up(batch, row, error, origins)?,
                CallRows::Timers(firing) => self.give_up_timer(firing, row, error)?,
                CallRows::Nothing => return Err(self.call_error(error, None)),
            }
        }
        Ok(())
    }

    /// What the policy says of record `row` of `batch`.
    fn give_up(
        &mut self,
        batch: &Batch,
        row: usize,
        error: CallError,
        origins: &Origins,
    ) -> Result<(), Error> {
        let origin = batch.origins[row];
        let record = origins.describe(&[origin], Some(0));
        if self.on_error == ErrorPolicy::Fail {
            return Err(self.call_error(error, record));
        }
        let letter = Letter {
            writer: self.writer(record.as_deref()),
            error: &error.to_string(),
            key: batch.keys.get(row),
            value: batch.values.get(row),
            headers: batch.headers_of(row).collect(),
            time: Some(batch.times[row]).filter(|time| *time != NO_TIME),
        };
        let mut letters = Batch::default();
        letter.push(&self.letter_form, origin, &mut letters);
        self.set_aside(&error, record.as_deref(), letters);
        Ok(())
    }

    /// What the policy says of timer `row` of `firing`.
    fn give_up_timer(
        &mut self,
        firing: &Firing,
        row: usize,
        error: CallError,
    ) -> Result<(), Error> {
        let name = &self.timers[firing.timers[row] as usize];
        let record = format!("timer `{name}` at {}", firing.times[row]);
        if self.on_error == ErrorPolicy::Fail {
            return Err(self.call_error(error, Some(record)));
        }
        let letter = Letter {
            writer: self.writer(Some(&record)),
            error: &error.to_string(),
            key: Some(firing.keys.as_ref().get(row)),
            value: None,
            headers: Vec::new(),
            time: Some(firing.times[row]),
        };
        let mut letters = Batch::default();
        letter.push(&self.letter_form, Origin::NONE, &mut letters);
        self.set_aside(&error, Some(&record), letters);
        Ok(())
    }

    fn writer<'a>(&'a self, record: Option<&'a str>) -> Writer<'a> {
        Writer::Operator {
            operator: &self.id,
            component: &self.component,
            record,
        }
    }

    fn set_aside(&mut self, error: &CallError, record: Option<&str>, letters: Batch) {
        let what = match self.on_error {
            ErrorPolicy::DeadLetter(_) => {
                self.counters.add_dead(1);
                let port = self.dead_letters;
                self.environment().produced.push((port, letters));
                "went to the dead letters"
            }
            ErrorPolicy::Skip | ErrorPolicy::Fail => {
                self.counters.add_skipped(1);
                "was left out"
            }
        };
        self.faults_logged += 1;
        if self.faults_logged <= FAULTS_LOGGED {
            let record = record.unwrap_or("a record");
            let warn = |message: String| {
                let line = Line::new(Level::Warn, message).code("W0404");
                log::write(line.operator(&self.id).subtask(self.subtask));
            };
            warn(format!("operator `{}`: {record} {what}: {error}", self.id));
            if self.faults_logged == FAULTS_LOGGED {
                warn(format!(
                    "operator `{}`: further ones are only counted",
                    self.id
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_operator::Fault;

    use super::*;

    fn fault(row: Option<u32>) -> CallError {
        CallError::Fault(Fault {
            row,
            message: "no".into(),
        })
    }

    #[test]
    fn a_named_row_is_cut_out_and_anything_else_is_halved() {
        assert_eq!(cuts(&fault(Some(3)), 10), [3, 4]);
        assert_eq!(cuts(&fault(Some(0)), 10), [1]);
        assert_eq!(cuts(&fault(Some(9)), 10), [9]);
        assert_eq!(
            cuts(&fault(Some(10)), 10),
            [5],
            "a row that is not there says nothing"
        );
        assert_eq!(cuts(&fault(None), 3), [1]);
        assert_eq!(cuts(&CallError::Output { limit: 1 }, 2), [1]);
    }

    #[test]
    fn looking_for_a_record_that_hangs_takes_a_few_limits_and_no_record_is_judged_by_less_than_one()
    {
        let limit = Duration::from_secs(30);
        assert_eq!(time_for(1, 1_024, limit), limit);
        assert_eq!(time_for(512, 1_024, limit), limit / 2);
        let (mut rows, mut all) = (1_024, limit);
        while rows > 1 {
            rows /= 2;
            all += time_for(rows, 1_024, limit);
        }
        assert!(all < 4 * limit, "{all:?}");
    }
}
