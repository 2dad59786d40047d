//! Kafka's own command-line tools, run as processes. Each start of one takes about a second.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The directory of Kafka's jars, fetched if they are not there.
///
/// # Errors
/// They cannot be fetched, or there is no Java. Says why.
pub(super) fn jars() -> Result<&'static Path, String> {
    static JARS: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    JARS.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/kafka-jars");
        let output = Command::new(&script)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("{}: {error}", script.display()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{}: {}\n{said}", script.display(), output.status));
        }
        Ok(PathBuf::from(
            String::from_utf8_lossy(&output.stdout).trim(),
        ))
    })
    .as_deref()
    .map_err(String::clone)
}

/// The command that runs Java with Kafka's classes; the class and its arguments are to follow.
pub(super) fn java(options: &[&str]) -> Result<Vec<String>, String> {
    let jars = jars()?;
    let mut command = vec!["java".to_owned()];
    command.extend(options.iter().map(|option| (*option).to_owned()));
    command.push("-cp".to_owned());
    command.push(format!("{}/*", jars.display()));
    Ok(command)
}

/// Java for a tool: starts fast, is small, and its clients' logs are of no interest.
pub(super) fn small() -> Result<Vec<String>, String> {
    java(&[
        "-Xmx128m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
    ])
}

/// Runs a tool by its class to its end; what it wrote to standard output.
///
/// # Errors
/// It failed. Says what it said.
pub fn run(class: &str, arguments: &[String]) -> Result<String, String> {
    let command = small()?;
    let output = Command::new(&command[0])
        .args(&command[1..])
        .arg(class)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run java: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(format!(
        "{class} {}: {}\n{}{}",
        arguments.join(" "),
        output.status,
        text(&output.stderr),
        text(&output.stdout)
    ))
}
