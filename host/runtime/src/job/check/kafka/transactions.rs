//! Transactions: all output of a job that is exactly once to Kafka is written in the same ones, so its sinks must agree on them, and
//! they must outlive the time in which a job finds that it takes no checkpoints.

use std::time::Duration;

use super::topics::{same_cluster, sinks};
use crate::job::check::Check;
use crate::job::model::{Delivery, Job, KafkaSink, NodeId};
use crate::job::print::kafka::agreed;
use crate::job::wording::subject;
use crate::units::format_duration;

/// The longest that librdkafka takes.
const MAX_TIMEOUT: Duration = Duration::from_millis(i32::MAX as u64);

/// What is about transactions only.
const FIELDS: [&str; 3] = ["transaction_timeout", "commit_topic", "transactional_id"];

impl Check<'_> {
    /// Checks the Kafka sinks of a job that is `exactly_once`, or is not.
    pub(in crate::job::check) fn transactions(&self, job: &Job, exactly_once: bool) {
        if let Some(delivery @ (Delivery::AtLeastOnce | Delivery::AtMostOnce)) = job.delivery {
            let asked = match delivery {
                Delivery::AtMostOnce => "at-most-once",
                _ => "at-least-once",
            };
            for (id, _) in sinks(job) {
                for field in FIELDS {
                    let path = ["sinks", id.as_str(), "kafka", field];
                    if self.tree.has(&path) {
                        self.misplaced(
                            &path,
                            format!("is for exactly once, and the job has `delivery: {asked}`"),
                        );
                    }
                }
            }
        }
        if !exactly_once {
            return;
        }
        // Dead letters alone may go to another cluster: they are then at least once.
        let main = job.sinks.iter().filter(|sink| !sink.inputs.is_empty());
        let main: Vec<_> = main.map(|sink| &sink.id).collect();
        let mut first: Option<(&NodeId, &KafkaSink)> = None;
        for (id, sink) in sinks(job).filter(|(id, _)| main.contains(id)) {
            match first {
                None => first = Some((id, sink)),
                Some(first) => self.agree(job, first, (id, sink)),
            }
        }
        for (id, sink) in sinks(job).filter(|(id, _)| !main.contains(id)) {
            if let Some(first) = first
                && same_cluster(&first.1.connection, &sink.connection)
            {
                self.agree(job, first, (id, sink));
            }
        }
        for (id, sink) in sinks(job) {
            self.transaction_timeout(job, id, sink);
        }
    }

    /// Refuses sinks that cannot write in the same transactions.
    fn agree(
        &self,
        job: &Job,
        (first, one): (&NodeId, &KafkaSink),
        (id, other): (&NodeId, &KafkaSink),
    ) {
        let settings = job.checkpoint.clone().unwrap_or_default();
        let fields = agreed(one, &settings)
            .into_iter()
            .zip(agreed(other, &settings));
        for ((field, one), (_, other)) in fields.filter(|((_, one), (_, other))| one != other) {
            let path = |id| ["sinks", id, "kafka", field];
            let at = self.tree.place_of(&path(first.as_str()));
            let title = format!(
                "{} is another than that of sink `{first}`",
                subject(&path(id.as_str()))
            );
            self.push(
                self.error("W0126", &path(id.as_str()), title)
                    .note(format!(
                        "{other} here, {one} for `{first}` at {}:{}",
                        at.line, at.column
                    ))
                    .help("exactly once writes both in the same transactions: give them the same"),
            );
        }
    }

    fn transaction_timeout(&self, job: &Job, id: &NodeId, sink: &KafkaSink) {
        let settings = job.checkpoint.clone().unwrap_or_default();
        let path = ["sinks", id.as_str(), "kafka", "transaction_timeout"];
        let (timeout, fail_after) = (sink.transaction_timeout(&settings), settings.fail_after);
        let least = fail_after.saturating_add(KafkaSink::TRANSACTION_MARGIN);
        let fail_after = self.shown(&["checkpoint", "fail_after"], fail_after);
        if timeout > MAX_TIMEOUT {
            let title = format!("{} is {}", subject(&path), self.shown(&path, timeout));
            let error = self.error("W0109", &path, title).note(format!(
                "it must be at most {}",
                format_duration(MAX_TIMEOUT)
            ));
            self.push(match sink.transaction_timeout {
                Some(_) => error,
                None => error.note(format!(
                    "it is a minute more than `fail_after` {fail_after}"
                )),
            });
        } else if timeout < least {
            let title = format!(
                "{}: the broker would end a transaction before the job does",
                subject(&path)
            );
            self.push(
                self.error("W0118", &path, title)
                    .note(format!(
                        "`transaction_timeout` {} is less than `fail_after` {fail_after} + {}",
                        format_duration(timeout),
                        format_duration(KafkaSink::TRANSACTION_MARGIN)
                    ))
                    .help(format!(
                        "set it to at least {}, or lower `checkpoint.fail_after`",
                        format_duration(least)
                    )),
            );
        }
    }
}
