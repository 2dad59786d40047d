//! Whether a transaction outlives what it is for, and the broker allows it to.

use std::time::Duration;

use super::{Check, Checked, millis};
use crate::diagnostic::Diagnostic;
use crate::job::model::{CheckpointSettings, KafkaSink};
use crate::kafka::producers::COMMIT_TIMEOUT;
use crate::units::format_duration;

/// What a broker allows a transaction to last where nothing else is set (`transaction.max.timeout.ms`).
const DEFAULT_MAX_TRANSACTION: Duration = Duration::from_secs(900);

impl<'a> Check<'a> {
    /// See the module.
    pub(super) fn times(&mut self, sinks: &[Checked<'a>], transactional: &[bool]) {
        let settings = self.checkpoint.clone();
        if let Some(problem) = timing(&settings) {
            self.passing = false;
            self.problems.push(problem);
        }
        for (it, _) in sinks.iter().zip(transactional).filter(|(_, yes)| **yes) {
            let timeout = it.kafka.transaction_timeout(&settings);
            let brokers = self.clusters[it.cluster].brokers.as_ref();
            let most = brokers
                .and_then(|brokers| millis(brokers, "transaction.max.timeout.ms"))
                .unwrap_or(DEFAULT_MAX_TRANSACTION);
            if brokers.is_some() && timeout > most {
                let (timeout, most) = (format_duration(timeout), format_duration(most));
                let title = format!(
                    "sink `{}`: the broker does not allow a transaction timeout of {timeout}",
                    it.sink.id
                );
                let problem = Diagnostic::error("W0709", title)
                    .note(format!(
                        "`transaction_timeout` is {timeout}, the broker's `transaction.max.timeout.ms` {most}"
                    ))
                    .help(format!(
                        "lower `transaction_timeout`, and with it `checkpoint.fail_after`, which must be {} less; or raise the broker's maximum",
                        format_duration(KafkaSink::TRANSACTION_MARGIN)
                    ));
                self.problem(it.sink, problem);
                // All share it.
                break;
            }
        }
    }
}

/// Whether a job that writes to Kafka exactly once leaves itself time to commit before it finds that it takes no checkpoints.
fn timing(settings: &CheckpointSettings) -> Option<Diagnostic> {
    let CheckpointSettings {
        interval,
        timeout,
        fail_after,
        ..
    } = settings;
    let least = interval
        .saturating_add(*timeout)
        .saturating_add(COMMIT_TIMEOUT);
    if least <= *fail_after {
        return None;
    }
    let title = "the job would fail before a checkpoint is committed";
    Some(
        Diagnostic::error("W0118", title)
            .note(format!(
                "`interval` {} + `timeout` {} + {} for the commit in Kafka is more than `fail_after` {}",
                format_duration(*interval),
                format_duration(*timeout),
                format_duration(COMMIT_TIMEOUT),
                format_duration(*fail_after)
            ))
            .help(format!(
                "set `checkpoint.fail_after` to at least {}",
                format_duration(least)
            )),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_must_be_time_to_commit() {
        let seconds = Duration::from_secs;
        let settings = |fail_after| CheckpointSettings {
            interval: seconds(1),
            timeout: seconds(2),
            fail_after,
            ..CheckpointSettings::default()
        };
        let enough = seconds(3) + COMMIT_TIMEOUT;
        assert!(timing(&CheckpointSettings::default()).is_none());
        assert!(timing(&settings(enough)).is_none());
        let problem = timing(&settings(enough - Duration::from_millis(1))).expect("too little");
        assert_eq!(problem.code, "W0118");
        let text = problem.to_string();
        for part in [
            "`interval` 1s",
            "`timeout` 2s",
            "10s for the commit",
            "at least 13s",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
