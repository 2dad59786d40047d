//! The command line: what a verb does, in terms of the library.

pub mod args;
mod build;
mod explain;
pub mod inspect;
#[cfg(feature = "kafka")]
mod kafka;
mod new;
mod running;
mod status_text;
mod trial;

use std::io::Write;
use std::path::Path;

use clap::Parser;

use crate::diagnostic::{self, Diagnostic, ExitCode};
use crate::job::model::Job;
use crate::{job, log, run, signals, start};
use args::{Args, Check, Verb};

/// Parses the command line and does what it says.
pub fn main() -> std::process::ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => match args::later(&error) {
            Some(problem) => return refuse(&[problem], ExitCode::InvalidJob).into(),
            None => error.exit(),
        },
    };
    let code = match args.verb {
        Verb::Run(run) => run_verb(&run),
        Verb::Check(check) => check_verb(&check),
        Verb::Status(args) => running::status(&args),
        Verb::Stop(args) => running::stop(&args),
        Verb::Inspect(inspect) => inspect::inspect(&inspect.file),
        Verb::Explain(args) => explain::explain(args.code.as_deref()),
        Verb::New(args) => new::new(&args),
        Verb::Build(args) => build::build(&args.dir),
        Verb::Try(args) => trial::try_operator(&args),
        Verb::Kafka(args::Kafka {
            verb: args::KafkaVerb::Clear(args),
        }) => kafka_clear(&args),
        Verb::Schema => {
            let schema = serde_json::to_string_pretty(&job::schema());
            print(&format!("{}\n", schema.expect("a schema is plain JSON")))
        }
    };
    // An operator that was tried may have said something several times.
    log::finish();
    code.into()
}

/// Prints to standard output. A reader that has gone away (`weir schema | head`) is no error.
fn print(text: &str) -> ExitCode {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            say(&format!(
                "error: cannot write to standard output: {error}\n"
            ));
            ExitCode::Internal
        }
        _ => ExitCode::Done,
    }
}

/// Says something on standard error. If that cannot be written (a full disk, a reader that has gone away) nobody can be told, and
/// the exit code must say it all the same.
fn say(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Prints what is wrong and gives `code` back.
fn refuse(problems: &[Diagnostic], code: ExitCode) -> ExitCode {
    log::clear_line();
    match log::format() {
        log::Format::Text => say(&diagnostic::render(problems)),
        log::Format::Json => problems.iter().for_each(log::fatal),
    }
    code
}

fn load(path: &Path) -> Result<Job, Vec<Diagnostic>> {
    job::load(path, &|name| std::env::var(name).ok())
}

fn run_verb(args: &args::Run) -> ExitCode {
    log::format_is(args.log_format);
    let mut job = match load(&args.job) {
        Ok(job) => job,
        Err(problems) => return refuse(&problems, ExitCode::InvalidJob),
    };
    log::start(job.name.as_str(), args.verbose);
    if let Some(parallelism) = args.parallelism
        && let Err(problem) = job::override_parallelism(&mut job, parallelism)
    {
        return refuse(&[problem], ExitCode::InvalidJob);
    }
    let requests = match signals::listen() {
        Ok(requests) => requests,
        Err(error) => {
            let problem = Diagnostic::error("W0301", format!("cannot listen for signals: {error}"));
            return refuse(&[problem], ExitCode::Internal);
        }
    };
    let options = run::Options {
        fresh: args.fresh,
        accept_duplicates: args.accept_duplicates,
        accept_clock: args.accept_clock,
        data_dir: args.data_dir.clone(),
        progress: !args.no_progress,
        metrics: args.metrics,
    };
    let ended = run::run(job, &options, requests);
    log::finish();
    log::clear_line();
    match ended {
        Ok(report) => {
            match (report.code, log::format()) {
                (ExitCode::Done, log::Format::Text) => say(&report.summary),
                (ExitCode::Done, log::Format::Json) => log::info(report.summary.trim_end()),
                _ => {}
            }
            report.code
        }
        Err(refused) => refuse(&refused.problems, refused.code),
    }
}

#[cfg(feature = "kafka")]
fn kafka_clear(args: &args::KafkaClear) -> ExitCode {
    kafka::clear(args)
}

#[cfg(not(feature = "kafka"))]
fn kafka_clear(_: &args::KafkaClear) -> ExitCode {
    let problem = Diagnostic::error("W0124", "this weir was built without Kafka")
        .help("use one that was built with its default features");
    refuse(&[problem], ExitCode::InvalidJob)
}

fn check_verb(args: &Check) -> ExitCode {
    let job = match load(&args.job) {
        Ok(job) => job,
        Err(problems) => return refuse(&problems, ExitCode::InvalidJob),
    };
    let mut said = String::new();
    if !args.offline {
        let engine = match start::engine(None) {
            Ok(engine) => engine,
            Err(error) => {
                return refuse(
                    &[Diagnostic::error("W0200", error.to_string())],
                    ExitCode::Internal,
                );
            }
        };
        let checkpoints = start::checkpoint_dir(&job, &start::data_dir(&job, None));
        let checked = start::check(&job, &engine, start::parallelism(&job), &checkpoints).and_then(
            |checked| {
                start::check_inputs(&job)?;
                start::check_directories(&job, false)?;
                Ok(checked)
            },
        );
        match checked {
            Ok(checked) => {
                start::warn_of_cache(checked.operators.iter().map(|loaded| &loaded.component));
                #[cfg(feature = "kafka")]
                if let Err(refused) = run::check_kafka(&job, &checked.plan) {
                    return refuse(&refused.problems, refused.code);
                }
                said = start::outline(&job, &checked);
            }
            Err(problems) => return refuse(&problems, ExitCode::InvalidJob),
        }
    }
    if args.print {
        return print(&job::print_resolved(&job));
    }
    print(&format!("{}: ok\n{said}", args.job.display()))
}
