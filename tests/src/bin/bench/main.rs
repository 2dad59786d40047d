//! `make bench [ONLY=NAME]`: JSON lines on standard output, medians of several runs, each beside a baseline measured in the same run.
//!
//! The jobs are one pipeline each: a generator's thread and an operator's. Every run is a process of its own, so that resident memory is
//! its own too. `docs/benchmarks.md` says what the lines mean and what was reached.

mod baseline;
mod child;
mod freeze;
#[cfg(feature = "kafka")]
mod kafka;
mod keyed_count;
mod languages;
mod scaling;
mod start;
mod timers;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

/// What a measurement comes to.
type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Its name, and what it does.
type Benchmark = (&'static str, fn() -> Outcome);

const ALL: [Benchmark; 6] = [
    ("keyed-count", keyed_count::bench),
    ("languages", languages::bench),
    ("timers", timers::bench),
    ("scaling", scaling::bench),
    ("start", start::bench),
    ("freeze", freeze::bench),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words[..] {
        #[cfg(feature = "kafka")]
        ["kafka"] => kafka::bench(),
        #[cfg(feature = "kafka")]
        ["kafka-baseline", order] => kafka::baseline(Path::new(order)),
        ["run", job] => child::run(Path::new(job)),
        ["baseline", job] => baseline::run(Path::new(job)),
        [] => ALL.iter().try_for_each(|(_, bench)| bench()),
        [name] => match ALL.iter().find(|(known, _)| *known == name) {
            Some((_, bench)) => bench(),
            None => Err(format!("no benchmark `{name}`; there are {:?}", ALL.map(|b| b.0)).into()),
        },
        _ => Err("bench [NAME]".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
