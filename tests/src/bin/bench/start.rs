//! `start`: from the start of the process to the first byte of output, with the operator's compiled code on disk and without.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::json;

use crate::Outcome;
use crate::child::{Pipeline, RUNS, median, rounded};

pub(crate) fn bench() -> Outcome {
    let pipeline = Pipeline {
        sink: ("it.ledger", "stdout"),
        ..Pipeline::keyed("weir_guest_ledger", 100, 1_000)
    };
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        eprintln!("start: run {} of {RUNS}", run + 1);
        let dir = tempfile::tempdir()?;
        let job = pipeline.write(dir.path())?;
        let cache = dir.path().join("cache");
        cold.push(first_byte(&job, &cache)?);
        warm.push(first_byte(&job, &cache)?);
    }
    println!(
        "{}",
        json!({
            "bench": "start",
            "seconds": rounded(median(warm)),
            "without_cache_seconds": rounded(median(cold)),
        })
    );
    Ok(())
}

/// Seconds until a job that writes to standard output has written something.
fn first_byte(job: &Path, cache: &Path) -> Outcome<f64> {
    let began = Instant::now();
    let mut child = Command::new(std::env::current_exe()?)
        .arg("run")
        .arg(job)
        .env("WEIR_CACHE", cache)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut out = child.stdout.take().ok_or("no standard output")?;
    let mut byte = [0];
    let read = out.read(&mut byte)?;
    let seconds = began.elapsed().as_secs_f64();
    // The rest, so that it ends in peace.
    std::io::copy(&mut out, &mut std::io::sink())?;
    let status = child.wait()?;
    if read == 0 || !status.success() {
        return Err(format!("{} ended with {status}", job.display()).into());
    }
    Ok(seconds)
}
