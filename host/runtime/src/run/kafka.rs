//! What is asked of Kafka before a job starts, and before each of its attempts.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::own::Decided;
use super::{Guarantee, Refused};
use crate::attempt::Blueprint;
use crate::checkpoint::manifest::TopicEntry;
use crate::checkpoint::{CommitPoint, Markers};
use crate::diagnostic::ExitCode;
use crate::graph::Plan;
use crate::job::model::{Job, SinkConnector};
use crate::kafka::Cluster;
use crate::kafka::commits::Commits;
use crate::kafka::preflight::{self, Found, Subject};
use crate::memory::StateBudget;
use crate::{log, start};

/// How long the cluster may take to answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// Checks the job's Kafka outputs, and notes in `blueprint` what its sinks need to know of them. Warns of what may be wrong at
/// the first attempt only.
///
/// # Errors
/// A broker is away, a topic is missing, a setting does not fit.
pub(super) fn look_up(
    blueprint: &mut Blueprint,
    guarantee: &Guarantee,
    first: bool,
) -> Result<(), Refused> {
    let found = found(
        &blueprint.job,
        &blueprint.plan,
        guarantee,
        blueprint.memory.process(),
    )?;
    if first {
        found.warnings.iter().for_each(log::warn_of);
    }
    blueprint.kafka = Arc::new(found.outputs);
    Ok(())
}

/// Checks the job's Kafka outputs without running it, and warns of what may be wrong.
///
/// # Errors
/// As [`look_up`]; the job cannot give the delivery that it asks for.
pub(crate) fn check_kafka(job: &Job, plan: &Plan) -> Result<(), Refused> {
    let guarantee =
        Guarantee::of(job).map_err(|problem| Refused::one(problem, ExitCode::InvalidJob))?;
    let memory = StateBudget::new(job.memory).process();
    let found = found(job, plan, &guarantee, memory)?;
    found.warnings.iter().for_each(log::warn_of);
    Ok(())
}

/// Where the commits of a job are decided that writes to Kafka exactly once; `None` if it does not. `known` is the same of the attempt before.
///
/// # Errors
/// The commit topic is not there and cannot be created, or the cluster is away.
pub(super) fn commits(
    blueprint: &Blueprint,
    known: Option<&Arc<Commits>>,
    asked: &Arc<AtomicBool>,
) -> Result<Option<Arc<Commits>>, Refused> {
    let job = &blueprint.job;
    let sinks = job.sinks.iter().zip(&blueprint.kafka.sinks);
    let mut transactional = sinks.filter_map(|(sink, output)| match &sink.connector {
        SinkConnector::Kafka(kafka) if output.as_ref()?.transactional => Some((sink, kafka)),
        _ => None,
    });
    let (Some((sink, kafka)), Some(settings)) =
        (transactional.next(), blueprint.kafka.transactional())
    else {
        return Ok(None);
    };
    let open = || {
        let cluster = Cluster::connect(&kafka.connection, "weir-commits", PATIENCE)?;
        match known {
            Some(known) => known.look_again(&cluster).map(|()| known.clone()),
            None => {
                let checkpoint = job.checkpoint.clone().unwrap_or_default();
                Commits::open(job, kafka, settings, &checkpoint, &cluster, asked.clone())
                    .map(Arc::new)
            }
        }
    };
    open().map(Some).map_err(|error| {
        let problem = preflight::refused(sink, kafka, &error);
        let code = if error.may_pass() {
            ExitCode::DependencyUnavailable
        } else {
            ExitCode::StartRefused
        };
        Refused::one(start::placed(problem, job, sink.place), code)
    })
}

/// What the job's checkpoints must know of Kafka.
pub(super) fn decided(blueprint: &Blueprint, commits: Option<&Arc<Commits>>) -> Decided {
    Decided {
        commit_point: commits.map_or(CommitPoint::Storage, |commits| {
            CommitPoint::Kafka(commits.point())
        }),
        topics: topics(blueprint),
        markers: commits.map(|commits| commits.clone() as Arc<dyn Markers>),
    }
}

/// The topics that the job's Kafka sinks write to, for its manifests.
fn topics(blueprint: &Blueprint) -> Vec<TopicEntry> {
    let sinks = blueprint.job.sinks.iter().zip(&blueprint.kafka.sinks);
    let outputs = sinks.filter_map(|(sink, output)| Some((sink, output.as_ref()?)));
    let entries = outputs.flat_map(|(sink, output)| {
        output.topics.iter().map(|topic| TopicEntry {
            sink: sink.id.to_string(),
            cluster: output.cluster.clone(),
            topic: topic.name.clone(),
            topic_id: topic.id.to_string(),
        })
    });
    entries.collect()
}

fn found(job: &Job, plan: &Plan, guarantee: &Guarantee, memory: u64) -> Result<Found, Refused> {
    let subject = Subject {
        job,
        plan,
        exactly_once: guarantee.is_exactly_once(),
        memory,
    };
    preflight::check(subject).map_err(|refused| Refused {
        problems: refused.problems,
        code: refused.code,
    })
}
