//! Job files as people get them right and wrong.
//!
//! `tests/*.txt` hold bad job files and what is said about them, word for word. With `WEIR_BLESS=1` in the environment the
//! texts are rewritten from what the program says now, to be read in the diff.

mod fuzz;
mod good;
mod kafka;
mod refused;

use std::path::Path;

use super::model::Job;
use super::parse_for;
use crate::diagnostic::Diagnostic;

/// Parses as `job.yaml` of the folder `/jobs`, with a few variables.
fn parse_text(text: &str) -> Result<Job, Vec<Diagnostic>> {
    let environment = |name: &str| match name {
        "RATE" => Some("5000".to_owned()),
        "NAME" => Some("from-env".to_owned()),
        "SECRET" => Some("hunter2".to_owned()),
        "KAFKA" => Some("kafka-1:9092,kafka-2:9092".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    };
    parse_for(text, Path::new("/jobs/job.yaml"), &environment, true)
}
