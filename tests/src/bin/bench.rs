//! `make bench`: JSON lines on standard output, medians of several runs, each beside a baseline measured in the same run.
//!
//! `keyed-count`: generator thread → keyed exchange → Rust guest with value state → blackhole, one pipeline, 100-byte values, a
//! checkpoint every 10 s; the baseline is a plain loop on one thread over the same generator with a hash map. Every run is a
//! process of its own, so that resident memory is its own too.

use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use serde_json::{Value, json};
use weir::batch::Origin;
use weir::job::{self, model::Job};
use weir::run;
use weir::signals::Requests;
use weir::source::{self, Emit, Progress};

/// Runs of each measurement; the median counts.
const RUNS: usize = 5;

/// Records of a run, by number of keys.
const CASES: [(u64, u64); 2] = [(10_000, 4_000_000), (1_000_000, 2_000_000)];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.first().map(String::as_str) {
        Some("run") => run_once(Path::new(&args[1])),
        Some("baseline") => baseline_once(Path::new(&args[1])),
        _ => bench(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench() -> Result<(), Box<dyn Error>> {
    let guest = weir_tests::host::guest("weir_guest_count")?;
    for (keys, records) in CASES {
        let (mut host, mut plain, mut rss) = (Vec::new(), Vec::new(), Vec::new());
        for run in 0..RUNS {
            eprintln!("keyed-count, {keys} keys: run {} of {RUNS}", run + 1);
            let dir = tempfile::tempdir()?;
            let job = write_job(dir.path(), &guest, keys, records)?;
            let measured = child("run", &job)?;
            host.push(micros(&measured, records));
            rss.push(measured["rss_mb"].as_f64().ok_or("no rss_mb")?);
            plain.push(micros(&child("baseline", &job)?, records));
        }
        let ratios: Vec<f64> = host
            .iter()
            .zip(&plain)
            .map(|(host, plain)| host / plain)
            .collect();
        println!(
            "{}",
            json!({
                "bench": "keyed-count",
                "backend": "memory",
                "keys": keys,
                "records": records,
                "us_per_record": rounded(median(host)),
                "baseline_us": rounded(median(plain)),
                "ratio": rounded(median(ratios)),
                "rss_mb": median(rss).round(),
            })
        );
    }
    Ok(())
}

fn write_job(dir: &Path, guest: &Path, keys: u64, records: u64) -> Result<PathBuf, Box<dyn Error>> {
    let path = dir.join("job.yaml");
    let text = format!(
        "version: 1\n\
         job: bench\n\
         parallelism: 1\n\
         checkpoint: {{dir: checkpoints, interval: 10s}}\n\
         sources:\n  made:\n    generator: {{records: {records}, keys: {keys}, value_bytes: 100, splits: 1}}\n\
         operators:\n  count:\n    component: {guest:?}\n    input: {{from: made, exchange: by-key}}\n\
         sinks:\n  gone:\n    input: count\n    blackhole: {{}}\n"
    );
    std::fs::write(&path, text)?;
    Ok(path)
}

fn child(what: &str, job: &Path) -> Result<Value, Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?)
        .arg(what)
        .arg(job)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn micros(measured: &Value, records: u64) -> f64 {
    measured["seconds"].as_f64().unwrap_or(f64::NAN) * 1e6 / records as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn load(path: &Path) -> Result<Job, Box<dyn Error>> {
    job::load(path, &|_| None).map_err(|problems| weir::diagnostic::render(&problems).into())
}

/// Runs the job in this process and prints how long its tasks ran, from their start to the last checkpoint.
fn run_once(path: &Path) -> Result<(), Box<dyn Error>> {
    let report = run::run(load(path)?, &run::Options::default(), Requests::default())
        .map_err(|refused| weir::diagnostic::render(&refused.problems))?;
    let line = json!({"seconds": report.running.as_secs_f64(), "rss_mb": peak_rss_mb()?});
    println!("{line}");
    Ok(())
}

/// Peak resident memory of this process.
fn peak_rss_mb() -> Result<f64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .ok_or("no VmHWM")?;
    let kib: f64 = line.split_whitespace().nth(1).ok_or("no VmHWM")?.parse()?;
    Ok(kib / 1024.0)
}

/// What a keyed count is without a host.
struct Count {
    counts: HashMap<Vec<u8>, u64>,
    bytes: usize,
}

impl Emit for Count {
    fn record(&mut self, _: u32, key: Option<&[u8]>, value: Option<&[u8]>, _: i64, _: Origin) {
        let key = key.unwrap_or_default();
        let count = match self.counts.get_mut(key) {
            Some(count) => count,
            None => self.counts.entry(key.to_vec()).or_insert(0),
        };
        *count += 1;
        self.bytes += value.map_or(0, <[u8]>::len) + count.to_le_bytes().len();
    }
    fn skipped(&mut self, _: u32) {}
    fn dead_letter(&mut self, _: u32, _: &[u8], _: Origin) {}
    fn opened(&mut self, _: u32) {}
    fn done(&mut self, _: u32) {}
    fn full(&self) -> bool {
        false
    }
}

fn baseline_once(path: &Path) -> Result<(), Box<dyn Error>> {
    let job = load(path)?;
    let splits = source::discover(&job.sources[0])?;
    let mut reader = source::open(&job.sources[0], splits, 0)?;
    let mut count = Count {
        counts: HashMap::new(),
        bytes: 0,
    };
    let began = Instant::now();
    while reader.read(&mut count)? != Progress::Ended {}
    let seconds = began.elapsed().as_secs_f64();
    eprintln!("{} keys, {} bytes", count.counts.len(), count.bytes);
    println!("{}", json!({"seconds": seconds}));
    Ok(())
}
