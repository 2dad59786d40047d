//! `freeze`: how long a barrier holds an operator up, with state that grows to so many keys, and what a record costs while snapshots are
//! taken one after the other, beside a run that takes none.

use serde_json::json;

use crate::Outcome;
use crate::child::{Pipeline, quantile, rounded};

/// Keys and records: enough of them to touch nearly every key.
const CASES: [(u64, u64); 2] = [(1_000_000, 20_000_000), (8_000_000, 48_000_000)];

pub(crate) fn bench() -> Outcome {
    for (keys, records) in CASES {
        let pipeline = |interval| Pipeline {
            interval,
            ..Pipeline::keyed("weir_guest_count", keys, records)
        };
        eprintln!("freeze, {keys} keys");
        let with = pipeline("200ms").measure()?;
        let without = pipeline("1h").measure()?;
        let micros = |seconds: f64| rounded(seconds * 1e6 / records as f64);
        let millis = |share| rounded(quantile(with.pauses.clone(), share) * 1e3);
        println!(
            "{}",
            json!({
                "bench": "freeze",
                "keys": keys,
                "barriers": with.pauses.len(),
                "p50_ms": millis(0.5),
                "p99_ms": millis(0.99),
                "max_ms": millis(1.0),
                "us_per_record": micros(with.seconds),
                "without_checkpoints_us": micros(without.seconds),
                "rss_mb": with.rss_mb.round(),
            })
        );
    }
    Ok(())
}
