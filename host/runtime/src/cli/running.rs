//! Verbs that talk to a running job: `weir status` and `weir stop`.

use std::path::PathBuf;
use std::time::Duration;

use super::{args, print, refuse, status_text};
use crate::control::{self, Answer, Request, Unreachable};
use crate::diagnostic::{Diagnostic, ExitCode};
use crate::{job, start};

/// How much longer than its time a stop may take: the process gives up on itself before that.
const GRACE: Duration = Duration::from_secs(10);

/// `weir status`.
pub(super) fn status(args: &args::Status) -> ExitCode {
    match ask(&args.running, Request::Status, Duration::ZERO) {
        Err(code) => code,
        Ok(Answer::Status(status)) if args.json => {
            let json = serde_json::to_string_pretty(&status).expect("plain data");
            print(&format!("{json}\n"))
        }
        Ok(Answer::Status(status)) => print(&status_text::render(&status)),
        Ok(other) => unexpected(&other),
    }
}

/// `weir stop`.
pub(super) fn stop(args: &args::Stop) -> ExitCode {
    let within_ms = u64::try_from(args.timeout.as_millis()).unwrap_or(u64::MAX);
    let request = Request::Stop { within_ms };
    match ask(&args.running, request, args.timeout.saturating_add(GRACE)) {
        Err(code) => code,
        Ok(Answer::Ended(ended)) => {
            let code = ExitCode::of(ended.code).unwrap_or(ExitCode::Internal);
            match print(&ended.message) {
                ExitCode::Done => code,
                failed => failed,
            }
        }
        Ok(other) => unexpected(&other),
    }
}

/// Where the job keeps its own files: named so, or found by the name in the job file.
fn data_dir(running: &args::Running) -> Result<PathBuf, Vec<Diagnostic>> {
    if let Some(dir) = &running.data_dir {
        return Ok(dir.clone());
    }
    if running.job.is_dir() {
        return Ok(running.job.clone());
    }
    let name = job::name_in(&running.job, &|name| std::env::var(name).ok())?;
    let folder = std::path::absolute(&running.job)
        .ok()
        .and_then(|file| file.parent().map(PathBuf::from))
        .unwrap_or_default();
    Ok(start::data_dir_of(&folder, &name, None))
}

fn ask(running: &args::Running, request: Request, patience: Duration) -> Result<Answer, ExitCode> {
    let dir = data_dir(running).map_err(|problems| refuse(&problems, ExitCode::InvalidJob))?;
    control::ask(&dir, request, patience).map_err(|error| {
        let title = error.to_string();
        let (problem, code) = match (error, request) {
            (Unreachable::NotRunning { .. }, _) | (Unreachable::Gone, Request::Status) => (
                Diagnostic::error("W0307", title).help(
                    "if it runs, it was started with another data directory (`--data-dir`, or a service's $STATE_DIRECTORY): name that directory in place of the job file",
                ),
                ExitCode::DependencyUnavailable,
            ),
            (Unreachable::Gone, Request::Stop { .. }) => (
                Diagnostic::error("W0308", format!("{title}, so probably without a last checkpoint"))
                    .help("the next run goes on from the last checkpoint; the end of the job's log says why it ended"),
                ExitCode::StoppedWithoutCheckpoint,
            ),
            (Unreachable::Refused { .. }, _) => (
                Diagnostic::error("W0308", title)
                    .help("a control socket is for the job's user and root alone: call the verb as one of them"),
                ExitCode::DependencyUnavailable,
            ),
            (Unreachable::Late { .. }, request) => {
                let title = match request {
                    Request::Status => title,
                    Request::Stop { .. } => format!("{title}; what was asked may still be carried out"),
                };
                let problem = Diagnostic::error("W0308", title)
                    .help("is the process stopped, or the machine overloaded? If it stays so, have its supervisor end it: the next run goes on from the last checkpoint");
                (problem, ExitCode::DependencyUnavailable)
            }
            (Unreachable::Silent(_), _) => (
                Diagnostic::error("W0308", title),
                ExitCode::DependencyUnavailable,
            ),
        };
        refuse(&[problem], code)
    })
}

fn unexpected(answer: &Answer) -> ExitCode {
    let title = match answer {
        Answer::Error { message, .. } => format!("the job does not do that: {message}"),
        _ => "the job answers something else than was asked".to_owned(),
    };
    let problem =
        Diagnostic::error("W0308", title).help("ask with the release of Weir that runs the job");
    refuse(&[problem], ExitCode::DependencyUnavailable)
}
