//! What a job's sources go on from.

use std::sync::Arc;

use super::Refused;
use crate::checkpoint::Manifest;
use crate::diagnostic::ExitCode;
use crate::job::model::{Job, SourceConnector};
use crate::metrics::Origins;
use crate::source::{self, SplitState};
use crate::{log, start};

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
            Some(splits) => source::resume(source, splits).map(|(splits, warnings)| {
                warnings.iter().for_each(|warning| log::warn(warning));
                splits
            }),
            None => source::discover(source),
        };
        match found {
            Ok(splits) => all.push(splits),
            Err(error) => {
                passing &= error.may_pass();
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
            SourceConnector::Kafka(_) => "offset",
            SourceConnector::File { .. } | SourceConnector::Stdin => "line",
        };
        for split in splits {
            origins.set(number, &split.name, unit);
            number += 1;
        }
    }
    Ok((all, Arc::new(origins)))
}
