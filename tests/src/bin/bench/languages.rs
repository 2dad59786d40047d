//! `languages`: the word count's `count`, which keeps a number a key and says it in the end, in Rust, JavaScript and Python.

use serde_json::json;

use crate::Outcome;
use crate::child::{Measured, Pipeline, RUNS, command, median, printed, rounded};

/// Language, component, and records: as many as take a good part of a second.
const LANGUAGES: [(&str, &str, u64); 3] = [
    ("rust", "wordcount_count", 2_000_000),
    ("javascript", "wordcount_count_javascript", 400_000),
    ("python", "wordcount_count_python", 200_000),
];

const KEYS: u64 = 10_000;

pub(crate) fn bench() -> Outcome {
    let mut rust = f64::NAN;
    for (language, guest, records) in LANGUAGES {
        let pipeline = Pipeline::keyed(guest, KEYS, records);
        let mut runs = Vec::new();
        for run in 0..RUNS {
            eprintln!("languages, {language}: run {} of {RUNS}", run + 1);
            runs.push(measure(&pipeline)?);
        }
        let of = |field: fn(&Measured) -> f64| {
            median(runs.iter().map(field).collect()) * 1e6 / records as f64
        };
        let micros = of(|run| run.operator_cpu);
        if language == "rust" {
            rust = micros;
        }
        println!(
            "{}",
            json!({
                "bench": "languages",
                "language": language,
                "keys": KEYS,
                "us_per_record": rounded(of(|run| run.seconds)),
                "operator_cpu_us": rounded(micros),
                "ratio": rounded(micros / rust),
                "rss_mb": median(runs.iter().map(|run| run.rss_mb).collect()).round(),
            })
        );
    }
    Ok(())
}

/// Runs it once, with compiled code of an earlier run: an interpreter takes a dozen seconds to compile.
fn measure(pipeline: &Pipeline<'_>) -> Outcome<Measured> {
    let dir = tempfile::tempdir()?;
    let compiled = std::env::current_exe()?.with_file_name("bench-compiled");
    let mut command = command("run", &pipeline.write(dir.path())?)?;
    Ok(serde_json::from_slice(&printed(
        command.env("WEIR_CACHE", compiled),
    )?)?)
}
