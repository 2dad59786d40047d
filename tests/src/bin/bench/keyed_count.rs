//! `keyed-count`: a guest with one value state, 100-byte values, a checkpoint every 10 s. The baseline is a plain loop over the same
//! generator. `stages`: where the operator's thread spends its time.

use serde_json::{Map, Value, json};

use crate::Outcome;
use crate::child::{Measured, Pipeline, RUNS, median, rounded, spawn};

/// Keys and records.
const CASES: [(u64, u64); 2] = [(10_000, 10_000_000), (1_000_000, 10_000_000)];

/// What the design allows each stage at 10,000 keys, ns a record.
const BUDGET: [(&str, u64); 6] = [
    ("source", 32),
    ("intern", 27),
    ("guest", 28),
    ("state", 5),
    ("apply", 8),
    ("operator", 70),
];

pub(crate) fn bench() -> Outcome {
    for (keys, records) in CASES {
        let pipeline = Pipeline::keyed("weir_guest_count", keys, records);
        let micros = |seconds: f64| seconds * 1e6 / records as f64;
        let (mut runs, mut plain) = (Vec::new(), Vec::new());
        for run in 0..RUNS {
            eprintln!("keyed-count, {keys} keys: run {} of {RUNS}", run + 1);
            runs.push(pipeline.measure()?);
            let dir = tempfile::tempdir()?;
            let measured: Value =
                serde_json::from_slice(&spawn("baseline", &pipeline.write(dir.path())?)?)?;
            plain.push(micros(measured["seconds"].as_f64().ok_or("no seconds")?));
        }
        let of = |field: fn(&Measured) -> f64| median(runs.iter().map(field).collect());
        let ratios = runs.iter().zip(&plain);
        let ratios = ratios.map(|(run, plain)| micros(run.seconds) / plain);
        println!(
            "{}",
            json!({
                "bench": "keyed-count",
                "backend": "memory",
                "keys": keys,
                "records": records,
                "us_per_record": rounded(micros(of(|run| run.seconds))),
                "baseline_us": rounded(median(plain.clone())),
                "ratio": rounded(median(ratios.collect())),
                "rss_mb": of(|run| run.rss_mb).round(),
            })
        );
        stages(keys, &runs, &|seconds| (micros(seconds) * 1e3).round());
    }
    Ok(())
}

fn stages(keys: u64, runs: &[Measured], nanos: &dyn Fn(f64) -> f64) {
    let of = |field: &dyn Fn(&Measured) -> f64| nanos(median(runs.iter().map(field).collect()));
    let mut spent = Map::new();
    spent.insert("source".to_owned(), of(&|run| run.source_cpu).into());
    for (at, (name, _)) in runs[0].stages.iter().enumerate() {
        spent.insert(name.clone(), of(&|run| run.stages[at].1).into());
    }
    spent.insert("operator".to_owned(), of(&|run| run.operator_cpu).into());
    let budget: Map<String, Value> = BUDGET
        .iter()
        .map(|(name, nanos)| ((*name).to_owned(), (*nanos).into()))
        .collect();
    println!(
        "{}",
        json!({"bench": "stages", "keys": keys, "ns_per_record": spent, "budget_at_10000_keys": budget})
    );
}
