//! `scaling`: one pipeline and two of a generator and an operator in one thread each, on as many cores.

use serde_json::json;

use crate::Outcome;
use crate::child::{Pipeline, RUNS, median, rounded};

const RECORDS: u64 = 4_000_000;

pub(crate) fn bench() -> Outcome {
    let pipelines = |parallelism| Pipeline {
        guest: "wordcount_split",
        parallelism,
        exchange: "forward",
        keys: 10_000,
        records: RECORDS,
        interval: "10s",
        sink: ("it", "blackhole"),
    };
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        eprintln!("scaling: run {} of {RUNS}", run + 1);
        one.push(pipelines(1).measure()?.seconds);
        two.push(pipelines(2).measure()?.seconds);
    }
    let speedups = one.iter().zip(&two).map(|(one, two)| one / two);
    let speedup = rounded(median(speedups.collect()));
    let micros = |seconds| rounded(median(seconds) * 1e6 / RECORDS as f64);
    println!(
        "{}",
        json!({
            "bench": "scaling",
            "us_per_record": micros(one),
            "two_pipelines_us": micros(two),
            "speedup": speedup,
        })
    );
    Ok(())
}
