//! Whether a checkpoint fits the job: everything it holds has a place, and the operators still declare what they kept.
//!
//! An operator may run another component than the checkpoint was taken with, or the same one configured differently. New inputs, outputs,
//! states and timers are fine, and so are ports that went away: whether the job file still uses one is checked with the plan,
//! and no record is under way in a checkpoint. What the checkpoint may hold must stay: states by name, kind and version,
//! timers by name and clock, and which inputs are keyed.

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::checkpoint::{ComponentEntry, Manifest};
use crate::diagnostic::Diagnostic;
use crate::job::model::{Job, Operator};
use crate::{log, start};

/// Whether everything that the manifest holds has a place in the job, whose operators run `components`. `storage` is where the manifest
/// came from.
///
/// # Errors
/// Sources, operators, states and timers that are gone, and what changed; each named with both sides.
pub(super) fn compatible(
    job: &Job,
    components: &BTreeMap<String, ComponentEntry>,
    manifest: &Manifest,
    storage: &str,
) -> Result<(), Vec<Diagnostic>> {
    let gone = |what: &str, id: &str, held: &str| {
        let title = format!(
            "checkpoint {} holds {held} of {what} `{id}`, which the job does not have",
            manifest.n
        );
        Diagnostic::error("W0526", title).help(format!(
            "give the {what} its id back, or move output and checkpoints away and start over"
        ))
    };
    let sources = manifest
        .sources
        .iter()
        .filter(|entry| {
            !job.sources
                .iter()
                .any(|source| source.id.as_str() == entry.id)
        })
        .map(|entry| gone("source", &entry.id, "the position"));
    let mut problems: Vec<_> = sources.collect();
    let with_state = manifest.operators.iter().filter(|entry| {
        entry
            .subtasks
            .iter()
            .any(|subtask| !subtask.files.is_empty())
    });
    for entry in with_state {
        let id = entry.id.as_str();
        let operator = job
            .operators
            .iter()
            .find(|operator| operator.id.as_str() == id);
        let (Some(operator), Some(now)) = (operator, components.get(id)) else {
            problems.push(gone("operator", id, "state"));
            continue;
        };
        if let Some(then) = manifest.components.get(id) {
            let comparison = Comparison {
                job,
                operator,
                then,
                now,
                manifest,
                storage,
            };
            comparison.differences(&mut problems);
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}

/// An operator that kept state, then and now.
struct Comparison<'a> {
    job: &'a Job,
    operator: &'a Operator,
    then: &'a ComponentEntry,
    now: &'a ComponentEntry,
    manifest: &'a Manifest,
    storage: &'a str,
}

impl Comparison<'_> {
    fn differences(&self, problems: &mut Vec<Diagnostic>) {
        let Comparison { then, now, .. } = self;
        for (name, state) in &then.states {
            let what = format!("state `{name}`");
            match now.states.get(name) {
                None => problems.push(self.gone("states", &what, &now.states)),
                Some(found) if found.kind != state.kind => {
                    problems.push(self.changed(&what, "kind", &state.kind, &found.kind));
                }
                Some(found) if found.version != state.version => {
                    let (then, now) = (state.version, found.version);
                    problems.push(self.changed(&what, "schema version", then, now));
                }
                Some(_) => {}
            }
        }
        for (name, domain) in &then.timers {
            let what = format!("timers `{name}`");
            match now.timers.get(name) {
                None => problems.push(self.gone("timers", &what, &now.timers)),
                Some(found) if found != domain => {
                    problems.push(self.changed(&what, "time domain", domain, found));
                }
                Some(_) => {}
            }
        }
        for (name, kind) in &then.inputs {
            if let Some(found) = now.inputs.get(name)
                && found != kind
            {
                problems.push(self.changed(&format!("input `{name}`"), "kind", kind, found));
            }
        }
    }

    fn gone<T>(&self, section: &str, what: &str, declared: &BTreeMap<String, T>) -> Diagnostic {
        let title = format!(
            "checkpoint {} holds {what} of operator `{}`, which {} does not declare",
            self.manifest.n,
            self.operator.id,
            self.file()
        );
        let names: Vec<_> = declared.keys().map(|name| format!("`{name}`")).collect();
        let names = if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        };
        self.with_remedy(
            Diagnostic::error("W0526", title).note(format!("{section} it declares: {names}")),
            "declare it again",
        )
    }

    fn changed(
        &self,
        what: &str,
        property: &str,
        then: impl Display,
        now: impl Display,
    ) -> Diagnostic {
        let title = format!(
            "{what} of operator `{}` has {property} {now} in {}, but {then} in checkpoint {}",
            self.operator.id,
            self.file(),
            self.manifest.n
        );
        let remedy =
            format!("keep {property} {then}, or declare it under another name beside the old one");
        self.with_remedy(Diagnostic::error("W0527", title), &remedy)
    }

    fn with_remedy(&self, problem: Diagnostic, remedy: &str) -> Diagnostic {
        let problem = if self.then.sha256 == self.now.sha256 {
            problem.help(format!(
                "the component is the same as then, so it is its `config:` that changed: set it back, or {remedy}"
            ))
        } else {
            let (attempt, sha256) = (self.manifest.attempt, self.then.sha256);
            problem.help(format!(
                "{remedy}; or go back to the component of then, which is kept as\n{}/components/{attempt}-{sha256}",
                self.storage
            ))
        };
        start::placed(problem, self.job, self.operator.place)
    }

    fn file(&self) -> String {
        start::shown(self.job, &self.operator.component)
    }
}

/// Says which operators run other code than the checkpoint was taken with.
pub(super) fn log_changed(components: &BTreeMap<String, ComponentEntry>, manifest: &Manifest) {
    for (id, now) in components {
        if let Some(then) = manifest.components.get(id)
            && then.sha256 != now.sha256
        {
            log::info(&format!(
                "operator `{id}` runs another component than at checkpoint {}: {} then, {} now",
                manifest.n,
                short(&then.sha256.to_string()),
                short(&now.sha256.to_string())
            ));
        }
    }
}

/// The beginning of a digest, for people.
pub(super) fn short(digest: &str) -> String {
    format!("{}…", digest.get(..12).unwrap_or(digest))
}

#[cfg(test)]
mod tests;
