//! What a job goes on from: splits of its sources, and whether a manifest fits the job.

use std::sync::Arc;

use super::Refused;
use crate::attempt::LoadedOperator;
use crate::checkpoint::Manifest;
use crate::diagnostic::{Diagnostic, ExitCode};
use crate::job::model::{Job, SourceConnector};
use crate::metrics::Origins;
use crate::source::{self, SplitState};
use crate::{log, start};

/// Whether everything that the manifest holds has a place in the job.
///
/// # Errors
/// Sources and operators that are gone, each named.
pub(super) fn compatible(job: &Job, manifest: &Manifest) -> Result<(), Vec<Diagnostic>> {
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
    let operators = manifest
        .operators
        .iter()
        .filter(|entry| {
            entry
                .subtasks
                .iter()
                .any(|subtask| !subtask.files.is_empty())
        })
        .filter(|entry| {
            !job.operators
                .iter()
                .any(|operator| operator.id.as_str() == entry.id)
        })
        .map(|entry| gone("operator", &entry.id, "state"));
    let problems: Vec<_> = sources.chain(operators).collect();
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}

/// Says which operators run other code than the checkpoint was taken with.
pub(super) fn log_changed_components(job: &Job, operators: &[LoadedOperator], manifest: &Manifest) {
    for (operator, loaded) in job.operators.iter().zip(operators) {
        let now = loaded.component.sha256();
        if let Some(then) = manifest.components.get(operator.id.as_str())
            && then != now
        {
            let short = |digest: &str| digest.chars().take(12).collect::<String>();
            log::info(&format!(
                "operator `{}` runs another component than at checkpoint {}: {}… then, {}… now",
                operator.id,
                manifest.n,
                short(then),
                short(now)
            ));
        }
    }
}

/// The splits of every source, in the order of the job: those of the manifest, or found now where it has none; and their names.
///
/// # Errors
/// Input that is missing or is not what it was.
pub(super) fn splits(
    job: &Job,
    manifest: Option<&Manifest>,
) -> Result<(Vec<Vec<SplitState>>, Arc<Origins>), Refused> {
    let mut all = Vec::new();
    let mut problems = Vec::new();
    let mut passing = true;
    for source in &job.sources {
        let known = manifest
            .and_then(|manifest| {
                manifest
                    .sources
                    .iter()
                    .find(|entry| entry.id == source.id.as_str())
            })
            .map(|entry| entry.splits.clone());
        let found = match known {
            Some(splits) => source::resume(source, &splits).map(|warnings| {
                warnings.iter().for_each(|warning| log::warn(warning));
                splits
            }),
            None => source::discover(source),
        };
        match found {
            Ok(splits) => all.push(splits),
            Err(error) => {
                passing &= matches!(error, source::Error::Io { .. });
                let problem = start::source_problem(source.id.as_str(), &error);
                problems.push(start::placed(problem, job, source.place));
            }
        }
    }
    if !problems.is_empty() {
        let code = if passing {
            ExitCode::DependencyUnavailable
        } else {
            ExitCode::StartRefused
        };
        return Err(Refused { problems, code });
    }
    let origins = Origins::default();
    let mut number = 0;
    for (source, splits) in job.sources.iter().zip(&all) {
        let unit = match source.connector {
            SourceConnector::Generator(_) => "record",
            SourceConnector::File { .. } | SourceConnector::Stdin => "line",
        };
        for split in splits {
            origins.set(number, &split.name, unit);
            number += 1;
        }
    }
    Ok((all, Arc::new(origins)))
}
