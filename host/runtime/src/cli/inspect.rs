//! `weir inspect`: what a component is, or why it is none.

use std::fmt::Write;
use std::path::Path;

use weir_operator::{Description, Limits, inspect as look, is_wasi_stub};

use super::{print, refuse};
use crate::config_schema::{ConfigSchema, Field};
use crate::diagnostic::{Diagnostic, ExitCode};
use crate::start;

/// Prints what the file is: found interfaces, then what the operator declares of itself without a configuration.
pub fn inspect(file: &Path) -> ExitCode {
    let shown = file.display().to_string();
    let bytes = match start::read(file) {
        Ok(bytes) => bytes,
        Err(error) => {
            let problem = Diagnostic::error("W0201", format!("cannot read {shown}: {error}"));
            return refuse(&[problem], ExitCode::InvalidJob);
        }
    };
    let inspection = look(&bytes);
    let mut text = format!("{shown}\n  sha256   {}\n", inspection.sha256);
    let imports: Vec<_> = inspection
        .interface
        .imports
        .iter()
        .map(|import| match is_wasi_stub(import) {
            true => format!("{import} (stub)"),
            false => import.clone(),
        })
        .collect();
    section(&mut text, "imports", &imports);
    section(&mut text, "exports", &inspection.interface.exports);
    let described = start::engine(None)
        .map_err(|error| Diagnostic::error("W0200", error.to_string()))
        .and_then(|engine| {
            engine
                .load(&bytes, &shown)
                .map_err(|error| start::load_problem(&error))
        })
        .and_then(|component| {
            start::warn_of_cache([&component]);
            component
                .describe(None, &Limits::default())
                .map_err(|error| {
                    Diagnostic::error("W0211", format!("{shown}: {error}"))
                        .note("it was asked to describe itself without a configuration")
                })
        });
    match described {
        Ok(description) => {
            describe(&mut text, &description);
            print(&text)
        }
        Err(problem) => {
            let printed = print(&text);
            let refused = refuse(&[problem], ExitCode::InvalidJob);
            if printed == ExitCode::Done {
                refused
            } else {
                printed
            }
        }
    }
}

fn section(text: &mut String, title: &str, lines: &[String]) {
    for (i, line) in lines.iter().enumerate() {
        let title = if i == 0 { title } else { "" };
        let _ = writeln!(text, "  {title:<8} {line}");
    }
}

/// Appends what an operator declares, a line each.
pub(super) fn describe(text: &mut String, description: &Description) {
    let version = if description.version.is_empty() {
        String::new()
    } else {
        format!(" {}", description.version)
    };
    section(
        text,
        "operator",
        &[format!("{}{version}", description.name)],
    );
    let inputs: Vec<_> = description
        .inputs
        .iter()
        .map(|input| {
            let headers = if input.headers { ", with headers" } else { "" };
            format!("{} ({}{headers})", input.name, start::lower(&input.kind))
        })
        .collect();
    section(text, "inputs", &inputs);
    let outputs: Vec<_> = description
        .outputs
        .iter()
        .map(|output| format!("{} (keys {})", output.name, start::lower(&output.keys)))
        .collect();
    section(text, "outputs", &outputs);
    let states: Vec<_> = description
        .states
        .iter()
        .map(|state| {
            let ttl = state
                .ttl
                .as_ref()
                .map_or(String::new(), |ttl| format!(", ttl {} ms", ttl.millis));
            format!(
                "{} ({}, version {}{ttl})",
                state.name,
                start::lower(&state.kind),
                state.version
            )
        })
        .collect();
    section(text, "states", &states);
    let timers: Vec<_> = description
        .timers
        .iter()
        .map(|timer| format!("{} ({} time)", timer.name, start::lower(&timer.domain)))
        .collect();
    section(text, "timers", &timers);
    if let Some(schema) = description.config_schema() {
        section(text, "config", &config(schema));
    }
}

/// What a configuration schema says, a line a field.
fn config(schema: &str) -> Vec<String> {
    let fields = match ConfigSchema::parse(schema) {
        Ok(parsed) => parsed.fields(),
        Err(what) => return vec![format!("the configuration schema {what}")],
    };
    if fields.is_empty() {
        return vec![schema.split_whitespace().collect::<Vec<_>>().join(" ")];
    }
    let line = |field: Field| {
        let mut line = format!("{} ({}", field.name, field.is);
        match field.default {
            Some(default) => line.push_str(&format!(", default {default})")),
            None if field.required => line.push_str(", required)"),
            None => line.push(')'),
        }
        if let Some(description) = field.description {
            line.push_str(": ");
            line.push_str(&description);
        }
        line
    };
    fields.into_iter().map(line).collect()
}
