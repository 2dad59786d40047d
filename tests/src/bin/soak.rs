//! `make soak`: kills the host a few hundred times and shows that nothing is lost or doubled.
//!
//! `WEIR_SOAK_SEED` repeats a seed, `WEIR_SOAK_KILLS` asks for another number of kills. The last line, on standard output, is the
//! result; how it goes is said on standard error.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use weir_tests::host::Host;
use weir_tests::soak::{Plan, points, soak};

/// Kills unless told otherwise.
const KILLS: u64 = 200;

fn number(variable: &str) -> Result<Option<u64>, String> {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .map(Some)
            .map_err(|error| format!("{variable}={text}: {error}")),
        Err(_) => Ok(None),
    }
}

fn run() -> Result<bool, String> {
    let clock = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    let seed = number("WEIR_SOAK_SEED")?.unwrap_or(clock);
    let kills = number("WEIR_SOAK_KILLS")?.unwrap_or(KILLS);
    let host = Host::find()?;
    let dir = tempfile::Builder::new()
        .prefix("weir-soak-")
        .tempdir()
        .map_err(|error| error.to_string())?;
    eprintln!(
        "soak: seed {seed} (WEIR_SOAK_SEED repeats it), {kills} kills or more, in {}",
        dir.path().display()
    );
    let mut tally = soak(host, dir.path(), &Plan::whole(seed, kills));
    if tally.kills < kills {
        tally.failures.push(format!("only {} kills", tally.kills));
    }
    for point in points() {
        if !tally.points.contains_key(point) {
            tally.failures.push(format!(
                "fault point `{point}` never killed: nothing is known about it"
            ));
        }
    }
    for failure in &tally.failures {
        eprintln!("soak: {failure}");
    }
    let exact = tally.failures.is_empty() && tally.lost == 0 && tally.doubled == 0;
    if !exact {
        eprintln!(
            "soak: seed {seed}; everything is kept in {}",
            dir.keep().display()
        );
    }
    println!(
        r#"{{"soak":"files","kills":{},"lost":{},"doubled":{}}}"#,
        tally.kills, tally.lost, tally.doubled
    );
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
