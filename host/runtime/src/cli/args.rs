//! What the program can be called with. Definitions only: [`Args`] is parsed in `main` and acted upon elsewhere.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};

use crate::diagnostic::Diagnostic;
use crate::log;
use crate::units::parse_duration;

const ABOUT: &str = "\
Weir runs stateful stream jobs whose operators are WebAssembly components.

A job is a YAML file that names sources, operators and sinks. This one counts words from standard input:

  version: 1
  job: word-count
  sources:
    lines: {stdin: {format: raw}}
  operators:
    split: {component: split.wasm, input: lines}
    count: {component: count.wasm, input: {from: split, exchange: by-key}}
  sinks:
    print: {input: count, stdout: {}}

  weir check job.yaml     finds what is wrong with it before anything runs
  weir run job.yaml       runs it in the foreground, logging to standard error";

const EXIT_CODES: &str = "\
Exit codes:
   0  done, or stopped cleanly with a last checkpoint
   1  internal error
   2  invalid job file, component or command line
   3  start refused: input or checkpoints are missing or not what they were
   4  the job runs elsewhere, or was taken over
   5  gave up: failed more often than the restart strategy allows
   6  stopped without a last checkpoint
  75  something the job needs cannot be reached; try later";

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "weir",
    version,
    about = "Runs stateful stream jobs whose operators are WebAssembly components",
    long_about = ABOUT,
    after_help = EXIT_CODES,
    arg_required_else_help = true,
    subcommand_required = true
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Begin an operator: a project with its tests, sample data and a job
    #[command(
        long_about = "Begin an operator: write a cargo project with an operator to change, its tests, sample data and a \
            job that runs it. Nothing else is needed: the SDK is part of this program, and its source goes into the project.",
        after_help = "Example:\n  weir new totals\n  cd totals\n  cargo test\n  weir build\n  weir run job.yaml"
    )]
    New(New),
    /// Compile an operator's project to a component
    #[command(
        long_about = "Compile the operator's project in DIR for wasm32-unknown-unknown, check that the result is an \
            operator, and put it into DIR/build/NAME.wasm. If the tools to do so are missing, says how to get them."
    )]
    Build(Build),
    /// Run a job until its input ends or it is stopped
    #[command(
        long_about = "Run a job in the foreground until its input ends or it is stopped.\n\n\
            Goes on from the job's last checkpoint if there is one; the first line of the log says which. \
            SIGINT or SIGTERM stops it after a last checkpoint, a second one at once. Killed at any moment, it \
            is simply run again.",
        after_help = EXIT_CODES
    )]
    Run(Run),
    /// Show how a running job is: progress, rates, checkpoints, bottleneck
    #[command(
        long_about = "Show how a running job is: its state, checkpoints, restarts and last error; for every subtask what it \
            does, its rates and its watermark; how far sources have read; and which subtask limits the job.\n\n\
            A job started with --data-dir, or by a service, is reached by its data directory in place of the job file.",
        after_help = "Examples:\n  weir status job.yaml\n  weir status /var/lib/weir/flights\n  \
            weir status job.yaml --json | jq .checkpoint.age_seconds"
    )]
    Status(Status),
    /// Stop a running job after a last checkpoint, and wait until it has ended
    #[command(
        long_about = "Stop a running job after a last checkpoint, and wait until it has ended. Exits with what the job exits \
            with: 0 if it stopped cleanly, 6 if no last checkpoint came about in time, and then says what it waited for. \
            Nothing is lost in either case: the next run goes on from the last checkpoint.",
        after_help = EXIT_CODES
    )]
    Stop(Stop),
    /// Find what is wrong with a job without running it
    #[command(
        long_about = "Find what is wrong with a job without running it: every mistake in the job file with line, \
            column and remedy, then components, inputs and directories.",
        after_help = "Examples:\n  weir check job.yaml\n  weir check --offline job.yaml    only the file itself, as an \
            editor or a build would\n  weir check --print job.yaml      with defaults, variables and paths filled in"
    )]
    Check(Check),
    /// Show what a component is: inputs, outputs, state, configuration
    #[command(
        long_about = "Show what a component is: its contract version, inputs, outputs, state and configuration. For a \
            file that is not an operator, says what it is instead."
    )]
    Inspect(Inspect),
    /// Run an operator over records on standard input and show all that it does
    #[command(
        long_about = "Run an operator over records on standard input, without a job, and print what it does: outputs, \
            changes of state, timers and faults, a JSON object a line. Nothing is kept afterwards.\n\n\
            A line of input is one of\n\
            \x20 {\"key\": …, \"value\": …, \"time\": …, \"input\": …}     a record; what is left out is null, or none\n\
            \x20 {…, \"headers\": [[\"name\", \"contents\"], …]}        its headers, in order; contents may be null\n\
            \x20 {\"watermark\": MILLIS}                             event time advances\n\
            \x20 {\"processing_time\": MILLIS}                       the clock stands at this from now on\n\
            \x20 any line that does not begin with {               the value of a record without a key\n\n\
            A key or value that is an object or an array stands for its own text. What `weir try` prints can be piped into \
            another `weir try`, and so can dead letters whose keys and values are text. The end of input is the end of event \
            time. Exits with 5 if the operator failed on anything.",
        after_help = "Examples:\n  weir try build/totals.wasm --key /customer < data/orders.jsonl\n  \
            echo 'to be or not' | weir try split.wasm | weir try count.wasm\n  \
            weir try totals.wasm --config '{\"at_least\": 20}'          type records, end with Ctrl-D"
    )]
    Try(Try),
    /// Look after what a job has in Kafka while it does not run
    #[command(long_about = "Look after what a job has in Kafka while it does not run.")]
    Kafka(Kafka),
    /// Explain the code of a message: what it means and what to do
    #[command(
        long_about = "Explain the code of a message: what it means, what usually causes it, and what to do. Without a \
            code, lists all of them.",
        after_help = "Example:\n  weir explain W0503"
    )]
    Explain(Explain),
    /// Print the JSON Schema of job files
    #[command(
        long_about = "Print the JSON Schema of job files, for editors that complete and check as you type.",
        after_help = "Example:\n  weir schema > weir-job.schema.json\n\n  and as the first line of a job file, for \
            editors with a YAML language server:\n  # yaml-language-server: $schema=weir-job.schema.json"
    )]
    Schema,
}

/// `weir run`.
#[derive(Debug, clap::Args)]
pub struct Run {
    /// The job file
    #[arg(value_name = "JOB")]
    pub job: PathBuf,
    /// Start from nothing, leaving earlier checkpoints of this job aside
    #[arg(long)]
    pub fresh: bool,
    /// With --fresh: go on although output that earlier runs committed will be written again
    #[arg(long, requires = "fresh")]
    pub accept_duplicates: bool,
    /// Follow the wall clock although it is behind the last checkpoint, or has jumped (W0528)
    #[arg(long)]
    pub accept_clock: bool,
    /// Subtasks of each source and operator, instead of what the job file says for the whole job
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=32_768))]
    pub parallelism: Option<u16>,
    /// Where the job keeps its own files [default: $STATE_DIRECTORY, else .weir/NAME beside the job file]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Serve /metrics, /livez and /readyz at this IP address and port, instead of where the job file says
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<SocketAddr>,
    /// How log lines look
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub log_format: log::Format,
    /// Log more
    #[arg(short, long, action = clap::ArgAction::SetTrue)]
    pub verbose: bool,
    /// Plain log lines even on a terminal
    #[arg(long)]
    pub no_progress: bool,
}

/// Which running job is meant.
#[derive(Debug, clap::Args)]
pub struct Running {
    /// The job file, or the job's data directory
    #[arg(value_name = "JOB")]
    pub job: PathBuf,
    /// Where the job keeps its own files, if it was started with this option
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// `weir status`.
#[derive(Debug, clap::Args)]
pub struct Status {
    /// Which job.
    #[command(flatten)]
    pub running: Running,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `weir stop`.
#[derive(Debug, clap::Args)]
pub struct Stop {
    /// Which job.
    #[command(flatten)]
    pub running: Running,
    /// How long a last checkpoint may take
    #[arg(long, value_name = "DURATION", default_value = "25s", value_parser = duration)]
    pub timeout: Duration,
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| format!("{error}; {}", error.remedy))
}

/// `weir check`.
#[derive(Debug, clap::Args)]
pub struct Check {
    /// The job file
    #[arg(value_name = "JOB")]
    pub job: PathBuf,
    /// Check the job file alone: no component, input or directory is looked at
    #[arg(long)]
    pub offline: bool,
    /// Print the job as it would run, defaults filled in and secrets left out
    #[arg(long)]
    pub print: bool,
}

/// `weir inspect`.
#[derive(Debug, clap::Args)]
pub struct Inspect {
    /// The component's file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// `weir new`.
#[derive(Debug, clap::Args)]
pub struct New {
    /// The operator's name, which the package and the job get too
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Where the project goes [default: a folder of the name]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// `weir build`.
#[derive(Debug, clap::Args)]
pub struct Build {
    /// The project's folder
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
}

/// `weir try`.
#[derive(Debug, clap::Args)]
pub struct Try {
    /// The component's file
    #[arg(value_name = "OPERATOR")]
    pub file: PathBuf,
    /// The operator's configuration
    #[arg(long, value_name = "JSON")]
    pub config: Option<String>,
    /// The input that records are for, unless they say so [default: the first]
    #[arg(long, value_name = "PORT")]
    pub input: Option<String>,
    /// Take every line as it is for the value of a record without a key
    #[arg(long)]
    pub plain: bool,
    /// Take every line for a JSON value that holds its key there
    #[arg(long, value_name = "POINTER")]
    pub key: Option<String>,
}

/// `weir kafka`.
#[derive(Debug, clap::Args)]
pub struct Kafka {
    /// What to do.
    #[command(subcommand)]
    pub verb: KafkaVerb,
}

/// The verbs of `weir kafka`.
#[derive(Debug, Subcommand)]
pub enum KafkaVerb {
    /// End the transactions that a job which does not run has left open
    #[command(
        long_about = "End the transactions that a job which does not run has left open, and print Kafka's own command that \
            lists them.\n\n\
            A job that was killed may leave a transaction open. Until its next start, or until the broker's timeout \
            (`transaction_timeout`), readers of committed records see nothing that was written to the same partitions after it. This \
            aborts it at once; what was being committed when the job was killed is committed. Nothing is lost: a job that \
            is started again goes on from its last committed checkpoint.\n\n\
            A job that runs on this machine is left alone (exit code 4); it is known by its data directory or checkpoints, so one that was \
            started with --data-dir, or by a service, needs --data-dir here too. One that runs elsewhere with the same ids is interrupted, \
            and recovers by itself.",
        after_help = "Examples:\n  weir kafka clear job.yaml\n  weir kafka clear /etc/weir/night.yaml --data-dir /var/lib/weir/night\n  weir kafka clear job.yaml --ids weir-old-name    what the job \
            had under another name"
    )]
    Clear(KafkaClear),
}

/// `weir kafka clear`.
#[derive(Debug, clap::Args)]
pub struct KafkaClear {
    /// The job file
    #[arg(value_name = "JOB")]
    pub job: PathBuf,
    /// What its transactional ids begin with [default: `transactional_id` of the job's sink, `weir-NAME` unless it says another]
    #[arg(long, value_name = "PREFIX")]
    pub ids: Option<String>,
    /// Do it although nothing of the job is here that could tell whether it runs
    #[arg(long)]
    pub not_running: bool,
    /// Where the job keeps its own files, if it was started with this option
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// `weir explain`.
#[derive(Debug, clap::Args)]
pub struct Explain {
    /// The code, as in `error[W0503]`
    #[arg(value_name = "CODE")]
    pub code: Option<String>,
}

/// Verbs that later releases will have.
const LATER: [&str; 10] = [
    "test",
    "list",
    "checkpoints",
    "tap",
    "debug",
    "savepoint",
    "swap",
    "state",
    "dev",
    "compile",
];

/// What to say of a command line that was refused for a verb of a later release, instead of a guess at what was meant.
pub fn later(error: &clap::Error) -> Option<Diagnostic> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    if !LATER.contains(&verb.as_str()) {
        return None;
    }
    let command = Args::command();
    let verbs: Vec<&str> = command
        .get_subcommands()
        .map(clap::Command::get_name)
        .collect();
    let title = format!(
        "`weir {verb}` is not there yet; this release has: {}",
        verbs.join(", ")
    );
    Some(Diagnostic::error("W0103", title))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definition_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_option_of_run() {
        let line = "weir run job.yaml --fresh --accept-duplicates --accept-clock --parallelism 3 --data-dir /d -v --no-progress \
            --metrics 127.0.0.1:0 --log-format json";
        let Verb::Run(run) = parse(line).expect("valid").verb else {
            panic!("not run")
        };
        assert!(run.fresh && run.accept_duplicates && run.accept_clock && run.no_progress);
        assert_eq!((run.parallelism, run.verbose), (Some(3), true));
        assert_eq!(run.metrics, Some(([127, 0, 0, 1], 0).into()));
        assert_eq!(run.log_format, log::Format::Json);
        assert_eq!(
            (run.job, run.data_dir),
            ("job.yaml".into(), Some("/d".into()))
        );
    }

    #[test]
    fn stop_waits_as_long_as_a_signal_unless_told_otherwise() {
        let timeout = |line| match parse(line).expect("valid").verb {
            Verb::Stop(stop) => stop.timeout,
            _ => panic!("not stop"),
        };
        assert_eq!(timeout("weir stop job.yaml"), crate::signals::STOP_TIMEOUT);
        assert_eq!(
            timeout("weir stop job.yaml --timeout 1m30s"),
            Duration::from_secs(90)
        );
    }

    #[test]
    fn refusals() {
        let kind = |line| parse(line).map(|_| ()).expect_err(line).kind();
        assert_eq!(
            kind("weir"),
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        );
        assert_eq!(kind("weir run"), ErrorKind::MissingRequiredArgument);
        assert_eq!(
            kind("weir run j --accept-duplicates"),
            ErrorKind::MissingRequiredArgument
        );
        assert_eq!(
            kind("weir run j --parallelism 0"),
            ErrorKind::ValueValidation
        );
        assert_eq!(
            kind("weir run j --parallelism 40000"),
            ErrorKind::ValueValidation
        );
        for wrong in [
            "weir stop j --timeout 30",
            "weir stop j --timeout soon",
            "weir run j --metrics localhost:9090",
            "weir run j --metrics 9090",
        ] {
            assert_eq!(kind(wrong), ErrorKind::ValueValidation, "{wrong}");
        }
        assert_eq!(kind("weir run j --log-format xml"), ErrorKind::InvalidValue);
        assert_eq!(kind("weir status"), ErrorKind::MissingRequiredArgument);
        assert_eq!(kind("weir check"), ErrorKind::MissingRequiredArgument);
        assert_eq!(kind("weir new"), ErrorKind::MissingRequiredArgument);
        assert_eq!(kind("weir frobnicate"), ErrorKind::InvalidSubcommand);
        assert_eq!(kind("weir kafka list"), ErrorKind::InvalidSubcommand);
        assert_eq!(kind("weir kafka clear"), ErrorKind::MissingRequiredArgument);
    }

    #[test]
    fn verbs_of_later_releases_are_refused_by_name_and_nothing_else_is_guessed() {
        for verb in LATER {
            let error = parse(&format!("weir {verb} job.yaml")).expect_err(verb);
            let problem = later(&error).expect(verb).to_string();
            let said = format!("error[W0103]: `weir {verb}` is not there yet; this release has: ");
            assert!(problem.starts_with(&said), "{problem}");
            assert!(problem.ends_with("explain, schema"), "{problem}");
        }
        for line in ["weir frobnicate", "weir", "weir run", "weir --help"] {
            assert_eq!(later(&parse(line).expect_err(line)), None, "{line}");
        }
    }

    #[test]
    fn help_teaches_exit_codes_and_a_job() {
        let help = Args::command().render_long_help().to_string();
        assert!(
            help.contains("Exit codes:") && help.contains("sources:"),
            "{help}"
        );
    }
}
