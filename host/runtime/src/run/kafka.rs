//! What is asked of Kafka before each attempt of a job. Without the feature `kafka` its place is taken by `without_kafka.rs`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::own::Decided;
use super::{Guarantee, Refused};
use crate::attempt::{Beginning, Blueprint};
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

/// What a run has of Kafka, through all its attempts.
pub(super) struct Kafka {
    /// Somebody asked the job to stop.
    asked: Arc<AtomicBool>,
    /// Where commits are decided, if the job writes to Kafka exactly once.
    commits: Option<Arc<Commits>>,
    /// Whether what may be wrong was warned of.
    warned: bool,
}

impl Kafka {
    /// Nothing was asked yet.
    pub(super) fn new(asked: Arc<AtomicBool>) -> Kafka {
        Kafka {
            asked,
            commits: None,
            warned: false,
        }
    }

    /// Checks the job's Kafka outputs before an attempt, and notes in `blueprint` what its sinks need to know of them: topics may have
    /// been changed since the attempt before, or be gone, and producers would create them. Gives what its checkpoints must know.
    ///
    /// # Errors
    /// A broker is away, a topic is missing, a setting does not fit; the commit topic is not there and cannot be created.
    pub(super) fn look_up(
        &mut self,
        blueprint: &mut Blueprint,
        guarantee: &Guarantee,
    ) -> Result<Decided, Refused> {
        let found = found(
            &blueprint.job,
            &blueprint.plan,
            guarantee,
            blueprint.memory.process(),
        )?;
        if !self.warned {
            found.warnings.iter().for_each(log::warn_of);
            self.warned = true;
        }
        blueprint.kafka = Arc::new(found.outputs);
        self.commits = match found.exactly_once {
            Some(cluster) => self.commits_in(blueprint, &cluster)?,
            None => None,
        };
        Ok(Decided {
            commit_point: match &self.commits {
                Some(commits) => CommitPoint::Kafka(commits.point()),
                None => CommitPoint::Storage,
            },
            topics: topics(blueprint),
            markers: self
                .commits
                .clone()
                .map(|commits| commits as Arc<dyn Markers>),
        })
    }

    /// Where commits are decided, in the cluster of the job's exactly-once sinks.
    fn commits_in(
        &self,
        blueprint: &Blueprint,
        cluster: &Cluster,
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
        let commits = match &self.commits {
            Some(known) => known.look_again(cluster).map(|()| known.clone()),
            None => {
                let checkpoint = job.checkpoint.clone().unwrap_or_default();
                let asked = self.asked.clone();
                Commits::open(job, kafka, settings, &checkpoint, cluster, asked).map(Arc::new)
            }
        };
        commits.map(Some).map_err(|error| {
            let problem = preflight::refused(sink, kafka, &error);
            let code = if error.may_pass() {
                ExitCode::DependencyUnavailable
            } else {
                ExitCode::StartRefused
            };
            Refused::one(start::placed(problem, job, sink.place), code)
        })
    }

    /// Gives an attempt that was recovered its transactions, if it writes in any.
    pub(super) fn lend(&self, beginning: &mut Beginning) {
        beginning.transactions = self
            .commits
            .as_ref()
            .and_then(|commits| commits.transactions());
    }
}

/// Checks the job's Kafka outputs without running it, and warns of what may be wrong.
///
/// # Errors
/// As [`Kafka::look_up`]; the job cannot give the delivery that it asks for.
pub(crate) fn check_kafka(job: &Job, plan: &Plan) -> Result<(), Refused> {
    let guarantee =
        Guarantee::of(job).map_err(|problem| Refused::one(problem, ExitCode::InvalidJob))?;
    let memory = StateBudget::new(job.memory).process();
    let found = found(job, plan, &guarantee, memory)?;
    found.warnings.iter().for_each(log::warn_of);
    Ok(())
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
