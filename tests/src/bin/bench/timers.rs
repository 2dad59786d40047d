//! `timers`: a guest that sets a timer for each record, which fires a second of event time later and does nothing.

use serde_json::json;

use crate::Outcome;
use crate::child::{Measured, Pipeline, RUNS, median, rounded};

/// Keys and records.
const CASES: [(u64, u64); 2] = [(10_000, 4_000_000), (1_000_000, 4_000_000)];

pub(crate) fn bench() -> Outcome {
    for (keys, records) in CASES {
        let pipeline = Pipeline::keyed("weir_guest_alarm", keys, records);
        let mut runs = Vec::new();
        for run in 0..RUNS {
            eprintln!("timers, {keys} keys: run {} of {RUNS}", run + 1);
            runs.push(pipeline.measure()?);
        }
        let micros = |field: fn(&Measured) -> f64| {
            let seconds = median(runs.iter().map(field).collect());
            rounded(seconds * 1e6 / records as f64)
        };
        println!(
            "{}",
            json!({
                "bench": "timers",
                "keys": keys,
                "records": records,
                "us_per_record": micros(|run| run.seconds),
                "operator_cpu_us": micros(|run| run.operator_cpu),
            })
        );
    }
    Ok(())
}
