//! One run: the job it is of, the process it happens in, what that says.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir::job::{self, model::Job};
use weir::run;
use weir::signals::Requests;

use crate::Outcome;

/// Runs of each measurement; the median counts.
pub(crate) const RUNS: usize = 5;

/// A pipeline of a generator, an operator and a sink.
#[derive(Clone, Copy)]
pub(crate) struct Pipeline<'a> {
    pub(crate) guest: &'a str,
    pub(crate) parallelism: u16,
    pub(crate) exchange: &'a str,
    pub(crate) keys: u64,
    pub(crate) records: u64,
    /// Time between checkpoints.
    pub(crate) interval: &'a str,
    /// The operator's output, and the sink's connector.
    pub(crate) sink: (&'a str, &'a str),
}

impl<'a> Pipeline<'a> {
    /// One pipeline over a keyed exchange into nothing, with a checkpoint every 10 s.
    pub(crate) fn keyed(guest: &'a str, keys: u64, records: u64) -> Pipeline<'a> {
        Pipeline {
            guest,
            parallelism: 1,
            exchange: "by-key",
            keys,
            records,
            interval: "10s",
            sink: ("it", "blackhole"),
        }
    }

    /// Writes the job file to `dir`.
    pub(crate) fn write(&self, dir: &Path) -> Outcome<PathBuf> {
        let Pipeline {
            guest,
            parallelism,
            exchange,
            keys,
            records,
            interval,
            sink: (output, sink),
        } = self;
        let guest = weir_tests::host::guest(guest)?;
        let path = dir.join("job.yaml");
        let text = format!(
            "version: 1\n\
             job: bench\n\
             parallelism: {parallelism}\n\
             checkpoint: {{dir: checkpoints, interval: {interval}, fail_after: 2h}}\n\
             sources:\n  made:\n    generator: {{records: {records}, keys: {keys}, value_bytes: 100, splits: {parallelism}}}\n\
             operators:\n  it:\n    component: {guest:?}\n    input: {{from: made, exchange: {exchange}}}\n\
             sinks:\n  gone:\n    input: {output}\n    {sink}: {{}}\n"
        );
        std::fs::write(&path, text)?;
        Ok(path)
    }

    /// Runs it once, from nothing.
    pub(crate) fn measure(&self) -> Outcome<Measured> {
        let dir = tempfile::tempdir()?;
        Ok(serde_json::from_slice(&spawn(
            "run",
            &self.write(dir.path())?,
        )?)?)
    }
}

/// What a run says of itself; times in seconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// From the start of the tasks to the last checkpoint.
    pub(crate) seconds: f64,
    /// Peak resident memory.
    pub(crate) rss_mb: f64,
    pub(crate) source_cpu: f64,
    pub(crate) operator_cpu: f64,
    /// By name.
    pub(crate) stages: Vec<(String, f64)>,
    /// How long each barrier held the operator up.
    pub(crate) pauses: Vec<f64>,
    /// How long the commit of each checkpoint took.
    pub(crate) commits: Vec<f64>,
}

/// Runs this program once more, with `what` and a job, and gives what it prints.
pub(crate) fn spawn(what: &str, job: &Path) -> Outcome<Vec<u8>> {
    printed(&mut command(what, job)?)
}

/// This program once more, with `what` and a job.
pub(crate) fn command(what: &str, job: &Path) -> Outcome<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(what).arg(job);
    Ok(command)
}

/// Runs a command, and gives what it prints.
pub(crate) fn printed(command: &mut Command) -> Outcome<Vec<u8>> {
    let output = command.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(output.stdout)
}

/// A process that is killed when it is forgotten.
#[derive(Debug)]
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn load(path: &Path) -> Outcome<Job> {
    job::load(path, &|_| None).map_err(|problems| weir::diagnostic::render(&problems).into())
}

/// Runs the job in this process and prints a [`Measured`].
pub(crate) fn run(path: &Path) -> Outcome {
    let report = run::run(load(path)?, &run::Options::default(), Requests::default())
        .map_err(|refused| weir::diagnostic::render(&refused.problems))?;
    let costs = report.costs;
    let stages = costs
        .stages
        .map(|(stage, spent)| (stage.name().to_owned(), spent.as_secs_f64()));
    let seconds = |times: &[Duration]| times.iter().map(Duration::as_secs_f64).collect();
    let measured = Measured {
        seconds: report.running.as_secs_f64(),
        rss_mb: peak_rss_mb()?,
        source_cpu: costs.source_cpu.as_secs_f64(),
        operator_cpu: costs.operator_cpu.as_secs_f64(),
        stages: stages.to_vec(),
        pauses: seconds(&costs.pauses),
        commits: seconds(&costs.commits),
    };
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}

/// Peak resident memory of this process.
fn peak_rss_mb() -> Outcome<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .ok_or("no VmHWM")?;
    let kib: f64 = line.split_whitespace().nth(1).ok_or("no VmHWM")?.parse()?;
    Ok(kib / 1024.0)
}

/// The value below which `share` of them lie.
pub(crate) fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values
        .get((last as f64 * share).ceil() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

pub(crate) fn median(values: Vec<f64>) -> f64 {
    quantile(values, 0.5)
}

pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
