//! `kafka-keyed-count`: Kafka → keyed count → Kafka, exactly once, on a broker of the benchmark's own. What it costs beside a plain loop
//! over the same client; how long a record takes to readers of committed records; how long a commit takes; how long it takes until
//! something is committed again after a kill.

mod baseline;
mod latency;
mod records;
mod recovery;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weir_tests::kafka::{Broker, Options, Topics};

use crate::Outcome;
use crate::child::{Measured, median, quantile, rounded, spawn};

pub(crate) use baseline::run as baseline;

/// Records of the input.
const RECORDS: u64 = 3_000_000;

/// Partitions of both topics.
const PARTITIONS: i32 = 4;

/// Keys, which come in turn.
const KEYS: u64 = 10_000;

/// Runs of each; the median counts.
const RUNS: usize = 3;

/// Writes a job that counts the records of topic `input` by key to topic `output`, in `dir`, up to an offset of every partition.
fn write_job(
    dir: &Path,
    broker: &Broker,
    (input, output): (&str, &str),
    end: Option<u64>,
) -> Outcome<PathBuf> {
    let guest = weir_tests::host::guest("weir_guest_count")?;
    let brokers = broker.address();
    let stop = end.map_or(String::new(), |end| {
        let ends: Vec<_> = (0..PARTITIONS).map(|it| format!("{it}: {end}")).collect();
        format!(", stop: {{offsets: {{{input}: {{{}}}}}}}", ends.join(", "))
    });
    let path = dir.join("job.yaml");
    let text = format!(
        "version: 1\n\
         job: {output}\n\
         parallelism: 1\n\
         checkpoint: {{dir: checkpoints, interval: 1s}}\n\
         sources:\n  in:\n    kafka: {{brokers: \"{brokers}\", topic: {input}, start: earliest{stop}}}\n\
         operators:\n  count:\n    component: {guest:?}\n    input: {{from: in, exchange: by-key}}\n\
         sinks:\n  out:\n    input: count\n    kafka: {{brokers: \"{brokers}\", topic: {output}}}\n"
    );
    std::fs::write(&path, text)?;
    Ok(path)
}

pub(crate) fn bench() -> Outcome {
    let broker = Broker::own(&Options::default().fast())
        .ok_or("WEIR_TEST_KAFKA is set; the benchmark needs a broker of its own")?;
    let topics = Topics::named(&broker, "bench");
    let input = topics.create("in", PARTITIONS);
    eprintln!("kafka-keyed-count: writing {RECORDS} records");
    records::fill(&broker, &input)?;
    let end = RECORDS / u64::from(PARTITIONS.unsigned_abs());
    let (mut runs, mut plain) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        eprintln!("kafka-keyed-count: run {} of {RUNS}", run + 1);
        let (short, plain_short) = (format!("weir-{run}"), format!("plain-{run}"));
        let output = topics.create(&short, PARTITIONS);
        let dir = tempfile::tempdir()?;
        let job = write_job(dir.path(), &broker, (&input, &output), Some(end))?;
        let measured: Measured = serde_json::from_slice(&spawn("run", &job)?)?;
        records::check(&broker, &output)?;
        runs.push(measured);
        let output = topics.create(&plain_short, PARTITIONS);
        let order = dir.path().join("baseline.json");
        let order_text =
            json!({"brokers": broker.address(), "input": input, "output": output}).to_string();
        std::fs::write(&order, order_text)?;
        let measured: Value = serde_json::from_slice(&spawn("kafka-baseline", &order)?)?;
        records::check(&broker, &output)?;
        plain.push(measured["seconds"].as_f64().ok_or("no seconds")?);
        topics.delete(&short);
        topics.delete(&plain_short);
    }
    let micros = |seconds: f64| seconds * 1e6 / RECORDS as f64;
    let ratios = runs.iter().zip(&plain);
    let ratios = ratios.map(|(run, plain)| plain / run.seconds).collect();
    let of = |field: fn(&Measured) -> f64| median(runs.iter().map(field).collect());
    let latency = latency::measure(&broker, &topics)?;
    let recovery = recovery::measure(&broker, &topics)?;
    println!(
        "{}",
        json!({
            "bench": "kafka-keyed-count",
            "records": RECORDS,
            "us_per_record": rounded(micros(of(|run| run.seconds))),
            "baseline_us": rounded(micros(median(plain))),
            "ratio": rounded(median(ratios)),
            "rss_mb": of(|run| run.rss_mb).round(),
            "source_us": rounded(micros(of(|run| run.source_cpu))),
            "operator_us": rounded(micros(of(|run| run.operator_cpu))),
            "latency_rate": latency::RATE,
            "p50_ms": quantile(latency.millis.clone(), 0.5),
            "p99_ms": quantile(latency.millis, 0.99),
            "commit_p50_ms": rounded(quantile(latency.commits.clone(), 0.5) * 1e3),
            "commit_p99_ms": rounded(quantile(latency.commits, 0.99) * 1e3),
            "recovery_s": rounded(recovery),
        })
    );
    Ok(())
}
