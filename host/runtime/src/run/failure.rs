//! A failed attempt, in words and for the restart strategy.

use std::time::Duration;

use super::Refused;
use crate::checkpoint::coordinator;
use crate::diagnostic::{Diagnostic, ExitCode};
use crate::restart::{Failed, GiveUp};
use crate::{log, sink, start, task};

/// Why an attempt ended before the job did.
#[derive(Debug)]
pub(super) struct Failure {
    problems: Vec<Diagnostic>,
    position: Option<String>,
    permanent: bool,
    /// What the process exits with if it is not tried again.
    code: ExitCode,
}

impl Failure {
    /// Something outside that may come back.
    pub(super) fn passing(problems: Vec<Diagnostic>) -> Failure {
        Failure {
            problems,
            position: None,
            permanent: false,
            code: ExitCode::GaveUp,
        }
    }

    /// The same, of something that a start would have been refused for. If it does not come back in time, whoever supervises the
    /// process is to start it again later, as after such a refusal.
    pub(super) fn unavailable(problems: Vec<Diagnostic>) -> Failure {
        Failure {
            code: ExitCode::DependencyUnavailable,
            ..Failure::passing(problems)
        }
    }

    /// A thread could not be started, a snapshot could not be stored.
    pub(super) fn of_system(what: &str) -> Failure {
        Failure::passing(vec![Diagnostic::error("W0304", what)])
    }

    /// The coordinator ended the attempt.
    pub(super) fn of_coordinator(why: &coordinator::Failure, permanent: bool) -> Failure {
        let taken_over = matches!(why, coordinator::Failure::TakenOver { .. });
        Failure {
            problems: vec![Diagnostic::error(why.code(), why.to_string())],
            position: None,
            permanent,
            code: if taken_over {
                ExitCode::OwnedElsewhere
            } else {
                ExitCode::GaveUp
            },
        }
    }

    /// A task failed.
    pub(super) fn of_task(error: &task::Error) -> Failure {
        use weir_operator::CallError;
        let mut failure = Failure::passing(Vec::new());
        let problem = match error {
            task::Error::Closed => Diagnostic::error("W0301", "a task ended early"),
            task::Error::Panic(text) => {
                Diagnostic::error("W0301", format!("internal error: {text}"))
                    .help("this is a fault of Weir; please report it with this message")
            }
            task::Error::NullKey { operator, record } => {
                failure.permanent = true;
                failure.position.clone_from(record);
                let title = format!(
                    "operator `{operator}`: a record without a key reached its keyed input; the job failed"
                );
                with_record(Diagnostic::error("W0402", title), record.as_deref()).help(format!(
                    "give the source a `key:` that every record has, or leave such records out with `null_key: skip` under `{operator}`"
                ))
            }
            task::Error::Memory {
                operator,
                subtask,
                outgrown,
            } => {
                failure.permanent = true;
                let title = format!(
                    "operator `{operator}` subtask {subtask} outgrew the memory for state; the job failed"
                );
                Diagnostic::error("W0405", title)
                    .note(outgrown.to_string())
                    .help("raise `memory`, and with it that of the container or machine; or keep less: a time to live, state that is cleared")
            }
            task::Error::Source { source_id, error } => {
                failure.permanent = !error.may_pass();
                start::source_problem(source_id, error)
            }
            task::Error::Sink {
                sink,
                record,
                error,
            } => {
                failure.permanent = matches!(
                    **error,
                    sink::Error::Value { .. }
                        | sink::Error::Part(_)
                        | sink::Error::Closed(_)
                        | sink::Error::Delivery {
                            permanent: true,
                            ..
                        }
                );
                failure.position.clone_from(record);
                let text = error.to_string();
                let mut lines = text.lines();
                let text = lines.next().unwrap_or_default();
                let title = if text.contains(sink.as_str()) {
                    text.to_owned()
                } else {
                    format!("sink `{sink}`: {text}")
                };
                let problem =
                    with_record(Diagnostic::error(error.code(), title), record.as_deref());
                lines.fold(problem, Diagnostic::note)
            }
            task::Error::State {
                operator,
                subtask,
                error,
            } if is_damage(error) => {
                failure.permanent = true;
                failure.code = ExitCode::StartRefused;
                let title = format!("state of operator `{operator}` subtask {subtask} is damaged");
                Diagnostic::error("W0518", title).note(error.to_string()).help(
                    "restore the file from a backup of the checkpoint directory, or move output and checkpoints away and start over",
                )
            }
            task::Error::State {
                operator,
                subtask,
                error,
            } => {
                use weir_state::Error as State;
                failure.permanent = !matches!(error, State::Io { .. } | State::Budget { .. });
                Diagnostic::error(
                    "W0403",
                    format!("operator `{operator}` subtask {subtask}: {error}"),
                )
            }
            task::Error::Call {
                operator,
                subtask,
                records,
                error,
            } => {
                failure.position.clone_from(records);
                let error = error.as_ref();
                let what = match error {
                    CallError::Trap { .. } => "trapped",
                    CallError::Fault(_) => "reported a fault",
                    CallError::Deadline { .. } => "exceeded its deadline",
                    CallError::Memory { .. } | CallError::Output { .. } => "exceeded a limit",
                    CallError::Contract(_) => "broke the contract",
                    CallError::Host(_) => "could not be served by the host",
                    CallError::Open(_) => "refused its configuration",
                };
                failure.permanent = match error {
                    CallError::Contract(_) | CallError::Open(_) => true,
                    CallError::Host(error) => repeats(error),
                    _ => false,
                };
                let title =
                    format!("operator `{operator}` subtask {subtask} {what}; the job failed");
                let problem = with_record(Diagnostic::error("W0401", title), records.as_deref());
                let mut problem = problem.note(format!("guest:  {error}"));
                if let CallError::Trap { backtrace, .. } = error {
                    for frame in backtrace.iter().take(8) {
                        problem = problem.note(format!("        at {frame}"));
                    }
                }
                problem
            }
        };
        failure.problems.push(problem);
        failure
    }

    /// Whether it is that another host has taken the job over.
    pub(super) fn is_taken_over(&self) -> bool {
        self.code == ExitCode::OwnedElsewhere
    }

    /// For the restart strategy.
    pub(super) fn failed(&self) -> Failed {
        let text: Vec<_> = self
            .problems
            .iter()
            .map(|problem| problem.title.clone())
            .collect();
        Failed {
            text: text.join("; "),
            position: self.position.clone(),
            permanent: self.permanent,
        }
    }

    /// In a line: the first problem's code and title.
    pub(super) fn summary(&self) -> String {
        let first = self.problems.first();
        first.map_or(String::new(), |problem| {
            format!("[{}] {}", problem.code, problem.title)
        })
    }

    /// Logs it.
    pub(super) fn log(&self) {
        self.problems.iter().for_each(log::warn_of);
    }

    /// Says that it is tried again.
    pub(super) fn warn(&self, after: Duration, in_a_row: u32) {
        self.log();
        log::warn(&format!(
            "restarting in {:.1} s (restart {in_a_row} in a row)",
            after.as_secs_f64()
        ));
    }

    /// The end of the job.
    pub(super) fn give_up(mut self, why: &GiveUp) -> Refused {
        if let Some(last) = self.problems.pop() {
            let last = if *why == GiveUp::Permanent {
                last
            } else {
                last.note(format!("{why} (exit {})", self.code.code()))
            };
            self.problems.push(last);
        }
        Refused {
            problems: self.problems,
            code: self.code,
        }
    }

    /// The end of a job that takes no checkpoints.
    pub(super) fn without_checkpoints(mut self) -> Refused {
        if let Some(last) = self.problems.pop() {
            self.problems
                .push(last.note("the job takes no checkpoints, so it is not restarted (exit 5)"));
        }
        Refused {
            problems: self.problems,
            code: self.code,
        }
    }
}

fn with_record(problem: Diagnostic, record: Option<&str>) -> Diagnostic {
    match record {
        Some(record) => problem.note(format!("record: {record}")),
        None => problem,
    }
}

/// Whether a state file is not what was written.
fn is_damage(error: &weir_state::Error) -> bool {
    match error {
        weir_state::Error::Corrupt { .. } | weir_state::Error::Chain { .. } => true,
        weir_state::Error::Io { source, .. } => source.kind() == std::io::ErrorKind::InvalidData,
        _ => false,
    }
}

/// Whether a host's error comes again on every try: the operator's timers never end.
fn repeats(error: &weir_operator::HostError) -> bool {
    let state = error
        .cause()
        .and_then(|cause| cause.downcast_ref::<weir_state::Error>());
    matches!(state, Some(weir_state::Error::TimerGenerations { .. }))
}
