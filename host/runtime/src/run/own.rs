//! Taking hold of what belongs to a job: its data directory and its checkpoint storage.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::{Options, Refused, outputs};
use crate::attempt::Blueprint;
use crate::checkpoint::manifest::{Identity, SinkEntry, TopicEntry};
use crate::checkpoint::{
    self, CheckpointStorage, CommitPoint, ComponentEntry, ComponentFiles, Driver, LocalDirectory,
    Markers, Ownership, Refusal,
};
use crate::diagnostic::{Diagnostic, ExitCode};
use crate::job::model::{CheckpointSettings, Job, SinkConnector};
use crate::{log, start};

/// Where the job's commits are decided, and which topics it writes.
#[derive(Default)]
pub(super) struct Decided {
    /// The commit point.
    pub(super) commit_point: CommitPoint,
    /// The topics.
    pub(super) topics: Vec<TopicEntry>,
    /// What the driver needs of a commit point in Kafka.
    pub(super) markers: Option<Arc<dyn Markers>>,
}

/// Creates the data directory and locks it. A job without checkpoints does without, if need be, and without a control socket then.
pub(super) fn data_dir(
    job: &Job,
    data_dir: &Path,
    checkpoints: bool,
) -> Result<Option<Ownership>, Refused> {
    let without = |why: String| {
        let text = format!(
            "no control socket, so `weir status` and `weir stop` do not reach this run: {why}"
        );
        log::write(log::Line::new(log::Level::Warn, text).code("W0305"));
        Ok(None)
    };
    if let Err(error) = std::fs::create_dir_all(data_dir) {
        let title = format!(
            "cannot create the data directory {}: {error}",
            data_dir.display()
        );
        if !checkpoints {
            return without(title);
        }
        let problem = Diagnostic::error("W0302", title).help("name another one with `--data-dir`");
        return Err(Refused::one(problem, ExitCode::StartRefused));
    }
    match Ownership::take(&[data_dir], job.name.as_str()) {
        Ok(ownership) => Ok(Some(ownership)),
        Err(refusal @ Refusal::Storage { .. }) if !checkpoints => without(refusal.to_string()),
        Err(refusal) => {
            let mut refused = Refused::from(refusal);
            if !checkpoints {
                let help = "stop that process first, or give this run a place of its own with `--data-dir`";
                refused.problems = refused
                    .problems
                    .into_iter()
                    .map(|it| it.help(help))
                    .collect();
            }
            Err(refused)
        }
    }
}

/// Takes checkpoint storage and makes the driver of the job's checkpoints.
pub(super) fn storage(
    blueprint: &Blueprint,
    settings: &CheckpointSettings,
    options: &Options,
    data_dir: &Path,
    ownership: &mut Ownership,
    decided: Decided,
) -> Result<(Driver, Identity), Refused> {
    let job = &blueprint.job;
    let dir = start::checkpoint_dir(job, data_dir);
    let storage = LocalDirectory::open(&dir).map_err(|error| {
        let title = format!("cannot open checkpoint storage {}: {error}", dir.display());
        let problem =
            Diagnostic::error("W0519", title).help("correct `checkpoint.dir` or its permissions");
        Refused::one(problem, ExitCode::StartRefused)
    })?;
    ownership.extend(&[&dir], job.name.as_str())?;
    let sinks = job.sinks.iter().filter_map(|sink| match &sink.connector {
        SinkConnector::File { dir, .. } => Some(SinkEntry {
            id: sink.id.to_string(),
            dir: dir.clone(),
        }),
        SinkConnector::Stdout | SinkConnector::Blackhole | SinkConnector::Kafka(_) => None,
    });
    let components = job.operators.iter().zip(&blueprint.operators);
    let identity = Identity {
        job: job.name.to_string(),
        max_parallelism: job.max_parallelism,
        commit_point: decided.commit_point,
        sinks: sinks.collect(),
        topics: decided.topics,
        components: components
            .map(|(operator, loaded)| {
                let entry = ComponentEntry::of(&loaded.component, &loaded.description);
                (operator.id.to_string(), entry)
            })
            .collect::<BTreeMap<_, _>>(),
    };
    let asked = checkpoint::Options {
        fresh: options.fresh,
        accept_duplicates: options.accept_duplicates,
    };
    let storage: Arc<dyn CheckpointStorage> = Arc::new(storage);
    let driver = Driver::new(
        storage,
        Box::new(outputs::FileOutputs),
        decided.markers,
        identity.clone(),
        ComponentFiles::new(
            blueprint
                .operators
                .iter()
                .map(|loaded| loaded.bytes.clone()),
        ),
        asked,
        settings.retain,
    );
    Ok((driver, identity))
}
