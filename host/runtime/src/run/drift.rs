//! Notices that a component's file is no longer what the job runs.
//!
//! A job runs what it loaded when its process started, over all attempts: a file that is replaced under it, or half of it written,
//! must not become part of the job because an attempt happened to fail. That it was replaced is said, once for each content.

use std::collections::BTreeMap;

use super::compatible::short;
use crate::attempt::LoadedOperator;
use crate::checkpoint::Digest;
use crate::job::model::Job;
use crate::log::{Level, Line};
use crate::{log, start};

/// What was said so far.
#[derive(Debug, Default)]
pub(super) struct Drift {
    /// What was found last in the files of operators, by their ids; `None` for a file that could not be read.
    found: BTreeMap<String, Option<Digest>>,
}

impl Drift {
    /// Compares every component's file with what runs, and says what it has not said yet (W0204).
    pub(super) fn look(&mut self, job: &Job, operators: &[LoadedOperator]) {
        for (operator, loaded) in job.operators.iter().zip(operators) {
            let runs = loaded.component.sha256();
            let read = start::read(&operator.component);
            let found = read.as_ref().ok().map(|bytes| Digest::of(bytes));
            let as_it_was = found.is_some_and(|found| found.to_string() == runs);
            let before = self.found.insert(operator.id.to_string(), found);
            if as_it_was || before == Some(found) {
                continue;
            }
            let now = match read {
                Ok(_) => "is another one now",
                Err(_) => "cannot be read any more",
            };
            let found = found.map_or(String::new(), |found| {
                format!(" ({})", short(&found.to_string()))
            });
            let text = format!(
                "operator `{}` goes on with the component that the process started with ({}): {} {now}{found}; \
                 the next start of the process takes the file as it is then",
                operator.id,
                short(runs),
                start::shown(job, &operator.component)
            );
            let line = Line::new(Level::Warn, text).code("W0204");
            log::write(line.operator(operator.id.as_str()));
        }
    }
}
