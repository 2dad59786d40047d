//! `weir try`: an operator over lines of standard input, without a job; everything that it does is printed.
//!
//! Each record is a call of its own and each timer too, so that what is printed between two lines belongs to one of them, and a
//! fault has its record. A job calls with larger batches; results do not depend on where batches are cut.

mod line;
mod operator;
mod shown;
mod traced;

use std::io::{self, BufRead, Read};
use std::path::Path;

use weir_operator::{CallError, Component, Description, Engine, Limits};

use super::args::Try;
use super::{refuse, say};
use crate::batch::MAX_RECORD_BYTES;
use crate::diagnostic::{Diagnostic, ExitCode};
use crate::run::Ticker;
use crate::start;
use line::Reader;
use operator::Trial;

/// Runs the operator over standard input.
pub(super) fn try_operator(args: &Try) -> ExitCode {
    match run(args) {
        Ok(code) => code,
        Err(End::Refused(problem, code)) => refuse(&[*problem], code),
        // The reader has seen enough.
        Err(End::Written(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::Done,
        Err(End::Written(error)) => {
            say(&format!(
                "error: cannot write to standard output: {error}\n"
            ));
            ExitCode::Internal
        }
    }
}

/// What ends a trial early.
enum End {
    Refused(Box<Diagnostic>, ExitCode),
    Written(io::Error),
}

fn invalid(problem: impl Into<Box<Diagnostic>>) -> End {
    End::Refused(problem.into(), ExitCode::InvalidJob)
}

fn internal(what: &str, error: impl std::fmt::Display) -> End {
    let problem = Diagnostic::error("W0301", format!("{what}: {error}"));
    End::Refused(problem.into(), ExitCode::Internal)
}

fn run(args: &Try) -> Result<ExitCode, End> {
    let reader = Reader::new(args.plain, args.key.as_deref()).map_err(|what| {
        let title = format!("`--key` is not a JSON pointer: {what}");
        invalid(Diagnostic::error("W0805", title).help("it begins with a slash: `/customer`"))
    })?;
    let config = args.config.as_deref().unwrap_or("null");
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(config) {
        let title = format!("`--config` is not JSON: {error}");
        return Err(invalid(Diagnostic::error("W0212", title)));
    }
    let engine = start::engine(None).map_err(|error| {
        let problem = Diagnostic::error("W0200", error.to_string());
        End::Refused(problem.into(), ExitCode::Internal)
    })?;
    let _ticker =
        Ticker::start(&engine).map_err(|error| internal("cannot start a thread", error))?;
    let (component, description) = load(&engine, &args.file, config)?;
    start::warn_of_cache([&component]);
    let mut trial = Trial::open(&component, description, config, args.input.as_deref())?;
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        let most = MAX_RECORD_BYTES as u64 + 1;
        let read = input.by_ref().take(most).read_until(b'\n', &mut line);
        let read = read.map_err(|error| internal("cannot read standard input", error))?;
        if read == 0 {
            break;
        }
        for end in [b'\n', b'\r'] {
            line.pop_if(|last| *last == end);
        }
        trial.line += 1;
        let number = trial.line;
        let wrong = |what: String| {
            let title = format!("standard input line {number}: {what}");
            invalid(Diagnostic::error("W0805", title).help(
                "lines are `{\"key\": …, \"value\": …, \"time\": …, \"input\": …}`, `{\"watermark\": …}` or values that begin \
                 otherwise;\n`--plain` takes every line for a value, `--key POINTER` also finds its key",
            ))
        };
        if line.len() > MAX_RECORD_BYTES {
            return Err(wrong(format!("longer than {MAX_RECORD_BYTES} bytes")));
        }
        let line = reader.read(&line).map_err(wrong)?;
        let taken = trial.take(line, &wrong);
        trial.flush()?;
        taken?;
    }
    trial.end()?;
    trial.flush()?;
    // As in a job that fails on such a record.
    Ok(match trial.faults {
        0 => ExitCode::Done,
        _ => ExitCode::GaveUp,
    })
}

fn load(engine: &Engine, file: &Path, config: &str) -> Result<(Component, Description), End> {
    let shown = file.display().to_string();
    let bytes = start::read(file).map_err(|error| {
        let title = format!("cannot read component {shown}: {error}");
        invalid(Diagnostic::error("W0201", title).help("build it first, or correct the path"))
    })?;
    let component = engine
        .load(&bytes, &shown)
        .map_err(|error| invalid(start::load_problem(&error)))?;
    let limits = Limits::default();
    let description = component.describe(Some(config), &limits);
    start::check_argument(&component, &description, config, &limits).map_err(|problem| {
        invalid(problem.help("`--config JSON` is what a job file has as `config:`"))
    })?;
    let description = description.map_err(|error| match error {
        CallError::Open(_) => invalid(
            Diagnostic::error("W0212", format!("{shown}: {error}"))
                .help("`--config JSON` is what a job file has as `config:`"),
        ),
        _ => invalid(Diagnostic::error("W0211", format!("{shown}: {error}"))),
    })?;
    Ok((component, description))
}
