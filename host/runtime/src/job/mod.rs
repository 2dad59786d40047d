//! Job files: YAML in, a checked [`model::Job`] out, or every mistake with its place and remedy.
//!
//! ```text
//! text ── tree ──────── decode ────── check ──── model::Job
//!         places,       raw types,    defaults,
//!         variables     unknown       ranges, rules
//!                       fields        between fields
//! ```
//!
//! Nothing here looks at the world beyond the file and the variables it names: whether inputs, components and directories
//! are there is found out by whoever opens them.

mod check;
mod decode;
mod file;
mod forms;
pub(crate) mod kafka_properties;
mod later;
pub mod model;
mod print;
mod report;
mod scalar;
mod schema;
mod substitute;
pub(crate) mod suggest;
#[cfg(test)]
mod tests;
mod tree;
mod wording;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::diagnostic::{Diagnostic, Location};
use model::{Job, JobName, Place};
use report::Report;

#[cfg(feature = "kafka")]
pub(crate) use print::kafka::agreed;
pub use print::print_resolved;

/// The version of the format that this release reads.
pub const VERSION: u64 = 1;

/// Largest job file, in bytes.
pub const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Reads and checks the job file at `path`, whose variables are looked up in `environment`.
///
/// # Errors
/// Every mistake found, in the order of the file; never empty. A file that cannot be read is one without a place.
pub fn load(
    path: &Path,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Job, Vec<Diagnostic>> {
    parse(&read(path)?, path, environment)
}

/// The text of the job file at `path`.
fn read(path: &Path) -> Result<String, Vec<Diagnostic>> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| {
        vec![Diagnostic::error(
            "W0101",
            format!("cannot read the job file {shown}: {error}"),
        )]
    };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let error = Diagnostic::error("W0123", format!("{shown} is too large for a job file"));
        return Err(vec![error.note("a job file is at most 1 MiB")]);
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let good = String::from_utf8_lossy(&error.as_bytes()[..valid]);
        let line = good.rsplit('\n').next().unwrap_or_default();
        let place = Location {
            file: path.into(),
            line: good.matches('\n').count() as u32 + 1,
            column: line.chars().count() as u32 + 1,
        };
        vec![Diagnostic::error("W0106", "the job file is not UTF-8").at(place)]
    })
}

/// The name of the job in the file at `path`, for verbs that only need that: the rest may be wrong, and variables that are not set where
/// the verb is called are taken for empty.
///
/// # Errors
/// The file cannot be read, is not YAML, or names no job.
pub fn name_in(
    path: &Path,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<JobName, Vec<Diagnostic>> {
    let text = read(path)?;
    let report = Report::new(path);
    let empty = |name: &str| Some(environment(name).unwrap_or_default());
    let tree = tree::read(&text, &empty, &report).map_err(|error| vec![error])?;
    let name = match tree.child("job") {
        Some((
            _,
            tree::Node {
                value: tree::Value::Scalar { text, .. },
                ..
            },
        )) => JobName::new(text.as_str()),
        _ => None,
    };
    name.ok_or_else(|| {
        let title = "no job's name in `job`: without it the running job cannot be found";
        vec![report.error("W0104", tree.place_of(&["job"]), title)]
    })
}

/// Whether this weir has Kafka's connectors.
const HAS_KAFKA: bool = cfg!(feature = "kafka");

/// Checks the job file `text`. `path` is where it is from: shown in messages, and what its relative paths are relative to.
///
/// # Errors
/// Every mistake found, in the order of the file; never empty, and each with its place.
pub fn parse(
    text: &str,
    path: &Path,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Job, Vec<Diagnostic>> {
    parse_for(text, path, environment, HAS_KAFKA)
}

/// As [`parse`] does in a weir with Kafka's connectors, or without.
fn parse_for(
    text: &str,
    path: &Path,
    environment: &dyn Fn(&str) -> Option<String>,
    has_kafka: bool,
) -> Result<Job, Vec<Diagnostic>> {
    let report = Report::new(path);
    if text.len() as u64 > MAX_FILE_BYTES {
        let start = Place { line: 1, column: 1 };
        let error = report.error("W0123", start, "too large for a job file");
        return Err(vec![error.note("a job file is at most 1 MiB")]);
    }
    let absolute: PathBuf = match std::path::absolute(path) {
        Ok(path) => path.components().collect(),
        Err(error) => {
            let title = format!("cannot resolve {}: {error}", path.display());
            return Err(vec![report.error(
                "W0101",
                Place { line: 1, column: 1 },
                title,
            )]);
        }
    };
    let job = match tree::read(text, environment, &report) {
        Ok(tree) => checked(&tree, &report, &absolute, has_kafka),
        Err(error) => {
            report.push(error);
            None
        }
    };
    job.ok_or_else(|| report.into_errors())
}

/// `None` if something was reported.
fn checked(tree: &tree::Node, report: &Report, file: &Path, has_kafka: bool) -> Option<Job> {
    // A version to come may have other fields: do not judge them by the rules of this one.
    if let Some(error) = other_version(tree, report) {
        report.push(error);
        return None;
    }
    let raw = file::JobFile::deserialize(decode::Decoder::new(tree, report)).ok()?;
    // Rules between fields would stumble over what could not be read.
    report
        .is_empty()
        .then(|| check::check(raw, tree, report, file, has_kafka))
        .flatten()
}

fn other_version(tree: &tree::Node, report: &Report) -> Option<Diagnostic> {
    let tree::Value::Map(entries) = &tree.value else {
        return None;
    };
    let entry = entries.iter().find(|entry| entry.key == "version")?;
    let tree::Value::Scalar {
        text, plain: true, ..
    } = &entry.node.value
    else {
        return None;
    };
    match scalar::resolve(text) {
        scalar::Scalar::Unsigned(VERSION) => None,
        scalar::Scalar::Unsigned(other) => {
            let title =
                format!("the job file has version {other}; this release reads version {VERSION}");
            Some(report.error("W0110", entry.node.place, title))
        }
        _ => None,
    }
}

/// Gives `job` another parallelism than its file says, as the command line may. Nodes with one of their own keep it.
///
/// # Errors
/// 0, and more than the job's `max_parallelism`.
pub fn override_parallelism(job: &mut Job, parallelism: u16) -> Result<(), Diagnostic> {
    let max = job.max_parallelism;
    if !(1..=max).contains(&parallelism) {
        let title = format!(
            "parallelism {parallelism} is not possible for job `{}`",
            job.name
        );
        let error = Diagnostic::error("W0117", title);
        return Err(error.note(format!("it must be 1 to {max} (`max_parallelism`)")));
    }
    job.parallelism = Some(parallelism);
    Ok(())
}

/// The JSON Schema of job files.
pub fn schema() -> serde_json::Value {
    schema::schema()
}
