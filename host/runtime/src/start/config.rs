//! An operator's configuration against the schema that its component declares.

use serde_json::Value;
use weir_operator::{CallError, Component, Description, Limits};

use crate::config_schema::{ConfigSchema, Mismatch, Violation, brief};
use crate::diagnostic::Diagnostic;
use crate::job::model::{Job, Operator};
use crate::job::suggest::nearest;
use crate::start::placed;

/// Violations that are shown; a long list may have one an item.
const SHOWN: usize = 20;

/// All that is wrong with an operator's `config:`, each at its place in the job file (W0213), or that the component's schema is none
/// (W0211). `described` is what the component said under that configuration.
pub(super) fn problems(
    job: &Job,
    operator: &Operator,
    component: &Component,
    described: &Result<Description, CallError>,
    limits: &Limits,
) -> Vec<Diagnostic> {
    let subject = format!("operator `{}`", operator.id);
    let found = match violations(component, described, &operator.config, limits) {
        Ok(found) => found,
        Err(what) => return vec![placed(not_a_schema(&subject, &what), job, operator.place)],
    };
    let mut problems: Vec<_> = found
        .iter()
        .take(SHOWN)
        .map(|violation| {
            let place = operator.config_places.get(&violation.pointer);
            let secret = place.is_some_and(|place| place.secret);
            let at = place.map_or(operator.place, |place| match violation.mismatch {
                Mismatch::Unknown { .. } => place.key,
                Mismatch::Missing { .. } | Mismatch::Value { .. } => place.value,
            });
            placed(
                problem(violation, &operator.config, &subject, secret),
                job,
                at,
            )
        })
        .collect();
    let more = found.len() - problems.len();
    if more > 0
        && let Some(last) = problems.last_mut()
    {
        last.notes.push(format!("and {more} more in this `config`"));
    }
    problems
}

/// The same for `weir try`, whose configuration has no place.
///
/// # Errors
/// Everything that is wrong.
pub(crate) fn check_argument(
    component: &Component,
    described: &Result<Description, CallError>,
    config: &str,
    limits: &Limits,
) -> Result<(), Diagnostic> {
    let subject = component.origin().to_owned();
    match violations(component, described, config, limits) {
        Ok(found) => match found.first() {
            Some(first) => Err(problem(first, config, &subject, false)),
            None => Ok(()),
        },
        Err(what) => Err(not_a_schema(&subject, &what)),
    }
}

fn not_a_schema(subject: &str, what: &str) -> Diagnostic {
    let title = format!("{subject}: its configuration schema {what}");
    Diagnostic::error("W0211", title).help(
        "the component must be corrected; docs/writing-operators.md says what a schema may use",
    )
}

/// What the component's own schema says against `config`.
///
/// # Errors
/// It is no schema, in words that follow "its configuration schema".
fn violations(
    component: &Component,
    described: &Result<Description, CallError>,
    config: &str,
    limits: &Limits,
) -> Result<Vec<Violation>, String> {
    let refused;
    let description = match described {
        Ok(description) => description,
        // Refused for what the schema may say better; without a configuration it is described all the same.
        Err(CallError::Open(_)) => match component.describe(None, limits) {
            Ok(description) => {
                refused = description;
                &refused
            }
            Err(_) => return Ok(Vec::new()),
        },
        Err(_) => return Ok(Vec::new()),
    };
    match description.config_schema() {
        Some(schema) => {
            let config = serde_json::from_str(config).map_err(|error| error.to_string())?;
            ConfigSchema::parse(schema)?.check(&config)
        }
        None => Ok(Vec::new()),
    }
}

/// A violation in words. `secret`: the value is not to be shown.
fn problem(violation: &Violation, config: &str, subject: &str, secret: bool) -> Diagnostic {
    let pointer = violation.pointer.as_str();
    let (parent, name) = pointer.rsplit_once('/').unwrap_or(("", ""));
    let name = name.replace("~1", "/").replace("~0", "~");
    let inside = |pointer: &str| match pointer {
        "" => format!("`config` of {subject}"),
        pointer => format!("`{}` in `config` of {subject}", shown(pointer)),
    };
    match &violation.mismatch {
        Mismatch::Unknown { known } => {
            let title = format!("unknown field `{}` in {}", shown(&name), inside(parent));
            let error = Diagnostic::error("W0213", title);
            let all: Vec<_> = known.iter().map(String::as_str).collect();
            let error = match nearest(&name, all.iter().copied()) {
                Some(meant) => error.note(format!("did you mean `{meant}`?")),
                None => error,
            };
            match all.as_slice() {
                [] => error.note("it has no fields at all"),
                all => error.note(format!("there are {}", all.join(", "))),
            }
        }
        Mismatch::Missing { field, is } => {
            let title = format!("missing field `{}` in {}", shown(field), inside(pointer));
            let error = Diagnostic::error("W0213", title);
            match is {
                Some(is) => error.help(format!("give it: {is}")),
                None => error,
            }
        }
        Mismatch::Value { must } => {
            let config: Option<Value> = serde_json::from_str(config).ok();
            let value = config.as_ref().and_then(|config| config.pointer(pointer));
            let found = match value {
                Some(value) if !secret => brief(value),
                _ => "something else (not shown)".to_owned(),
            };
            Diagnostic::error("W0213", format!("{} is {found}", inside(pointer)))
                .note(format!("it must be {must}"))
        }
    }
}

/// A pointer or a name for a message, not too long of it.
fn shown(text: &str) -> String {
    const CHARACTERS: usize = 80;
    let mut shown: String = text.chars().take(CHARACTERS).collect();
    shown.retain(|c| !c.is_control());
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
