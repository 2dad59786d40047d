//! `make soak`: kills hosts and brokers hundreds of times and shows that nothing is lost or doubled.
//!
//! It has two parts, `files` and `kafka`; an argument asks for one of them alone, a second one for scenarios of it whose names contain that.
//! `WEIR_SOAK_SEED` repeats a seed, `WEIR_SOAK_KILLS` asks for another number of kills. A line for each part on standard output is the result; how it goes is said on standard error.

use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use weir_tests::host::Host;
use weir_tests::soak::{Tally, files};

/// Kills of each part unless told otherwise.
const FILES: u64 = 200;
#[cfg(feature = "kafka")]
const KAFKA: u64 = 100;

/// A part of the soak.
struct Part {
    name: &'static str,
    /// Kills unless told otherwise.
    kills: u64,
    /// The fault points that must have killed.
    points: Vec<&'static str>,
    /// Carries it out in a folder.
    carry_out: fn(&'static Host, &Path, &Wanted) -> Tally,
}

/// What was asked for.
struct Wanted {
    seed: u64,
    kills: Option<u64>,
    /// The part, if not both.
    part: Option<String>,
    /// Its scenarios, if not all.
    only: Option<String>,
}

fn parts() -> Vec<Part> {
    vec![
        Part {
            name: "files",
            kills: FILES,
            points: files::points().collect(),
            carry_out: |host, dir, wanted| {
                let mut plan = files::Plan::whole(wanted.seed, wanted.kills.unwrap_or(FILES));
                plan.only.clone_from(&wanted.only);
                files::soak(host, dir, &plan)
            },
        },
        #[cfg(feature = "kafka")]
        Part {
            name: "kafka",
            kills: KAFKA,
            points: weir_tests::soak::kafka::points().collect(),
            carry_out: |host, dir, wanted| {
                use weir_tests::kafka::Broker;
                use weir_tests::soak::kafka::{Plan, soak};
                let mut plan = Plan::whole(wanted.seed, wanted.kills.unwrap_or(KAFKA));
                plan.only.clone_from(&wanted.only);
                soak(host, Broker::shared(), dir, &plan)
            },
        },
    ]
}

fn number(variable: &str) -> Result<Option<u64>, String> {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .map(Some)
            .map_err(|error| format!("{variable}={text}: {error}")),
        Err(_) => Ok(None),
    }
}

impl Part {
    /// Whether nothing went wrong.
    fn run(&self, host: &'static Host, wanted: &Wanted) -> Result<bool, String> {
        let (seed, kills) = (wanted.seed, wanted.kills.unwrap_or(self.kills));
        let dir = tempfile::Builder::new()
            .prefix("weir-soak-")
            .tempdir()
            .map_err(|error| error.to_string())?;
        let name = self.name;
        eprintln!(
            "soak: {name}: seed {seed} (WEIR_SOAK_SEED repeats it), {kills} kills or more, in {}",
            dir.path().display()
        );
        let mut tally = (self.carry_out)(host, dir.path(), wanted);
        if wanted.only.is_none() {
            if tally.kills < kills {
                tally.failures.push(format!("only {} kills", tally.kills));
            }
            for point in tally.missed(self.points.iter().copied()) {
                let failure =
                    format!("fault point `{point}` never killed: nothing is known about it");
                tally.failures.push(failure);
            }
        }
        for failure in &tally.failures {
            eprintln!("soak: {failure}");
        }
        let exact = tally.failures.is_empty() && tally.lost == 0 && tally.doubled == 0;
        if !exact {
            eprintln!(
                "soak: {name}: seed {seed}; everything is kept in {}",
                dir.keep().display()
            );
        }
        println!(
            r#"{{"soak":"{name}","kills":{},"lost":{},"doubled":{}}}"#,
            tally.kills, tally.lost, tally.doubled
        );
        Ok(exact)
    }
}

fn run() -> Result<bool, String> {
    let clock = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    let mut arguments = std::env::args().skip(1);
    let wanted = Wanted {
        seed: number("WEIR_SOAK_SEED")?.unwrap_or(clock),
        kills: number("WEIR_SOAK_KILLS")?,
        part: arguments.next(),
        only: arguments.next(),
    };
    let host = Host::find()?;
    let mut parts = parts();
    if let Some(part) = &wanted.part {
        parts.retain(|known| known.name == part);
        if parts.is_empty() {
            return Err(format!("there is no part `{part}`"));
        }
    }
    let mut exact = true;
    for part in parts {
        exact &= part.run(host, &wanted)?;
    }
    Ok(exact)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(what) => {
            eprintln!("soak: {what}");
            ExitCode::FAILURE
        }
    }
}
