//! What is checked of Kafka outputs before an attempt: that brokers answer, that topics are there (none is ever created), that times
//! fit each other and the broker, that all that is written exactly once is in one cluster; and what is warned of, because it
//! would void the promise without anybody noticing.

use std::collections::BTreeMap;
use std::time::Duration;

use super::cluster::Cluster;
use super::outputs::{self, DEFAULT_MAX_BYTES, Output, OutputTopic, Outputs};
use super::{Error, acls};
use crate::diagnostic::{Diagnostic, ExitCode};
use crate::graph::{Plan, Role};
use crate::job::agreed;
use crate::job::model::{CheckpointSettings, Job, KafkaConnection, KafkaSink, Sink, SinkConnector};
use crate::start;

mod durable;
mod times;

/// How long brokers may take to answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// What a job must know of itself to be checked.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The job.
    pub job: &'a Job,
    /// Its plan: how many subtasks write.
    pub plan: &'a Plan,
    /// Whether its output is exactly once.
    pub exactly_once: bool,
    /// Bytes that the process may use.
    pub memory: u64,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// For the sink subtasks.
    pub outputs: Outputs,
    /// The cluster of what is written exactly once, if anything is.
    pub exactly_once: Option<Cluster>,
    /// What somebody should correct, though the job can run.
    pub warnings: Vec<Diagnostic>,
}

/// Why the job cannot start.
#[derive(Debug)]
pub struct Refused {
    /// All that is wrong.
    pub problems: Vec<Diagnostic>,
    /// [`ExitCode::DependencyUnavailable`] if all of it may pass by itself.
    pub code: ExitCode,
}

/// A Kafka sink under check.
struct Checked<'a> {
    /// Its number in the job.
    number: usize,
    sink: &'a Sink,
    kafka: &'a KafkaSink,
    /// Number of its cluster.
    cluster: usize,
}

/// A cluster that is written to.
struct Written<'a> {
    connection: &'a KafkaConnection,
    cluster: Cluster,
    /// Settings of a broker; `None` where reading them is not permitted.
    brokers: Option<BTreeMap<String, String>>,
}

/// Checks the Kafka sinks of a job. Without any it asks nobody anything.
///
/// # Errors
/// All that is wrong, not only the first.
pub fn check(subject: Subject<'_>) -> Result<Found, Refused> {
    let mut check = Check {
        subject,
        checkpoint: subject.job.checkpoint.clone().unwrap_or_default(),
        problems: Vec::new(),
        passing: true,
        warnings: Vec::new(),
        clusters: Vec::new(),
    };
    let sinks = check.connect();
    check.refuse()?;
    let transactional = check.transactional(&sinks);
    if transactional.iter().any(|it| *it) {
        check.times(&sinks, &transactional);
        check.own_topics(&sinks, &transactional);
    }
    let outputs = check.outputs(&sinks, &transactional);
    check.refuse()?;
    let written = sinks.iter().zip(&transactional).find(|(_, yes)| **yes);
    let exactly_once = written.map(|(it, _)| check.clusters.swap_remove(it.cluster).cluster);
    Ok(Found {
        outputs,
        exactly_once,
        warnings: check.warnings,
    })
}

struct Check<'a> {
    subject: Subject<'a>,
    checkpoint: CheckpointSettings,
    problems: Vec<Diagnostic>,
    /// Whether all problems may pass.
    passing: bool,
    warnings: Vec<Diagnostic>,
    clusters: Vec<Written<'a>>,
}

impl<'a> Check<'a> {
    fn refuse(&mut self) -> Result<(), Refused> {
        if self.problems.is_empty() {
            return Ok(());
        }
        Err(Refused {
            problems: std::mem::take(&mut self.problems),
            code: if self.passing {
                ExitCode::DependencyUnavailable
            } else {
                ExitCode::StartRefused
            },
        })
    }

    fn problem(&mut self, sink: &Sink, problem: Diagnostic) {
        self.passing = false;
        self.problems
            .push(start::placed(problem, self.subject.job, sink.place));
    }

    /// Something that is not permitted, or failed, after we were let in.
    fn error(&mut self, sink: &Sink, kafka: &KafkaSink, error: &Error) {
        let problem = permitted(sink, kafka, error, self.subject.exactly_once);
        self.passing &= error.may_pass();
        self.problems
            .push(start::placed(problem, self.subject.job, sink.place));
    }

    /// Connects to each cluster once.
    fn connect(&mut self) -> Vec<Checked<'a>> {
        let mut sinks = Vec::new();
        let job = self.subject.job;
        // A cluster that does not answer is not asked again for the next sink.
        let mut away: Vec<&KafkaConnection> = Vec::new();
        for (number, sink) in job.sinks.iter().enumerate() {
            let SinkConnector::Kafka(kafka) = &sink.connector else {
                continue;
            };
            let connection = &kafka.connection;
            if away.contains(&connection) {
                continue;
            }
            let known = self
                .clusters
                .iter()
                .position(|known| known.connection == connection);
            let cluster = match known {
                Some(known) => known,
                None => match Cluster::connect(connection, "weir-check", PATIENCE) {
                    Ok(cluster) => {
                        let brokers = self.configs(cluster.broker_configs(), sink, kafka);
                        self.clusters.push(Written {
                            connection,
                            cluster,
                            brokers,
                        });
                        self.clusters.len() - 1
                    }
                    Err(error) => {
                        away.push(connection);
                        self.passing &= error.may_pass();
                        let problem = described(sink, &error);
                        self.problems.push(start::placed(problem, job, sink.place));
                        continue;
                    }
                },
            };
            sinks.push(Checked {
                number,
                sink,
                kafka,
                cluster,
            });
        }
        sinks
    }

    /// Settings, if reading them is permitted: without them the job can run, and what would be checked is not.
    fn configs(
        &mut self,
        configs: Result<BTreeMap<String, String>, Error>,
        sink: &Sink,
        kafka: &KafkaSink,
    ) -> Option<BTreeMap<String, String>> {
        match configs {
            Ok(configs) => Some(configs),
            Err(error) if is_refused(&error) => None,
            Err(error) => {
                self.error(sink, kafka, &error);
                None
            }
        }
    }

    fn id(&self, sink: &Checked<'_>) -> &str {
        self.clusters[sink.cluster].cluster.id()
    }

    /// Which of `sinks` are written in the job's transactions: those in the cluster of the first that takes more than dead letters.
    fn transactional(&mut self, sinks: &[Checked<'a>]) -> Vec<bool> {
        if !self.subject.exactly_once {
            return vec![false; sinks.len()];
        }
        let only_letters = |it: &Checked<'_>| it.sink.inputs.is_empty();
        let first = sinks.iter().find(|it| !only_letters(it)).or(sinks.first());
        let Some(first) = first else {
            return Vec::new();
        };
        let cluster = self.id(first).to_owned();
        let mut all = Vec::new();
        for it in sinks {
            let same = self.id(it) == cluster;
            if !same && !only_letters(it) {
                let title = format!(
                    "sinks `{}` and `{}` are in two clusters, and the job is exactly once",
                    first.sink.id, it.sink.id
                );
                let problem = Diagnostic::error("W0710", title)
                    .note(format!(
                        "`{}` is in cluster {cluster}, `{}` in cluster {}: no transaction spans both",
                        first.sink.id,
                        it.sink.id,
                        self.id(it)
                    ))
                    .help("write to one of them, and have another job copy its topic to the other; or use `delivery: at-least-once`");
                self.problem(it.sink, problem);
            } else if !same {
                let title = format!(
                    "sink `{}` is in another cluster than the job's output, so its dead letters are at least once",
                    it.sink.id
                );
                self.warnings.push(start::placed(
                    Diagnostic::warning("W0710", title),
                    self.subject.job,
                    it.sink.place,
                ));
            } else {
                self.agree(first, it);
            }
            all.push(same);
        }
        all
    }

    /// Refuses sinks in one cluster that cannot share producers; the job file shows it only where they name the same brokers.
    fn agree(&mut self, first: &Checked<'_>, other: &Checked<'_>) {
        let one = agreed(first.kafka, &self.checkpoint);
        let two = agreed(other.kafka, &self.checkpoint);
        for ((field, one), (_, two)) in one.into_iter().zip(two) {
            if one == two || field == "brokers" {
                continue;
            }
            let title = format!(
                "`{field}` of sink `{}` is another than that of sink `{}`, and both are in one cluster",
                other.sink.id, first.sink.id
            );
            let problem = Diagnostic::error("W0710", title)
                .note(format!("{two} and {one}"))
                .help("exactly once writes both in the same transactions: give them the same");
            self.problem(other.sink, problem);
        }
    }

    /// What each sink writes to.
    fn outputs(&mut self, sinks: &[Checked<'a>], transactional: &[bool]) -> Outputs {
        let producers = self.producers(sinks, transactional);
        let mut outputs = Outputs {
            sinks: vec![None; self.subject.job.sinks.len()],
        };
        for (it, transactional) in sinks.iter().zip(transactional) {
            let Some(topics) = self.topics(it) else {
                continue;
            };
            let settings = outputs::settings(
                it.kafka,
                &topics,
                &self.checkpoint,
                self.subject.memory,
                producers,
            );
            outputs.sinks[it.number] = Some(Output {
                topics,
                cluster: self.id(it).to_owned(),
                transactional: *transactional,
                settings,
            });
        }
        outputs
    }

    /// How many producers there will be: two for transactions, and one for each subtask that writes without.
    fn producers(&self, sinks: &[Checked<'a>], transactional: &[bool]) -> usize {
        let own = sinks.iter().zip(transactional).filter(|(_, yes)| !**yes);
        let subtasks = own.map(|(it, _)| {
            let nodes = &self.subject.plan.nodes;
            let node = nodes.iter().find(|node| node.role == Role::Sink(it.number));
            node.map_or(1, |node| usize::from(node.parallelism))
        });
        let shared = if transactional.contains(&true) { 2 } else { 0 };
        shared + subtasks.sum::<usize>()
    }

    /// The topics of a sink, unless something is wrong with one.
    fn topics(&mut self, it: &Checked<'_>) -> Option<Vec<OutputTopic>> {
        let names = it.kafka.topic.names();
        let found = match self.clusters[it.cluster].cluster.topics(names) {
            Ok(found) => found,
            Err(error) => {
                self.error(it.sink, it.kafka, &error);
                return None;
            }
        };
        let mut topics = Vec::new();
        for (name, found) in names.iter().zip(found) {
            let Some(topic) = found.filter(|topic| !topic.partitions.is_empty()) else {
                self.missing(it, name);
                continue;
            };
            let configs = self.clusters[it.cluster].cluster.topic_configs(name);
            let configs = self.configs(configs, it.sink, it.kafka).unwrap_or_default();
            self.durable(it, &topic, &configs);
            let by_record =
                configs.get("message.timestamp.type").map(String::as_str) != Some("LogAppendTime");
            topics.push(OutputTopic {
                name: name.clone(),
                id: topic.id.clone(),
                partitions: u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX),
                max_bytes: configs
                    .get("max.message.bytes")
                    .and_then(|text| text.parse().ok())
                    .unwrap_or(DEFAULT_MAX_BYTES),
                ahead: millis(&configs, "message.timestamp.after.max.ms").filter(|_| by_record),
            });
        }
        (topics.len() == names.len()).then_some(topics)
    }

    fn missing(&mut self, it: &Checked<'_>, name: &str) {
        let title = format!("sink `{}`: topic `{name}` does not exist", it.sink.id);
        let problem = Diagnostic::error("W0708", title)
            .note(format!("brokers: {}", it.kafka.connection.brokers))
            .help(format!(
                "correct the name, or create the topic: kafka-topics --bootstrap-server {} --create --topic {name} --partitions N",
                it.kafka.connection.brokers
            ));
        self.problem(it.sink, problem);
    }
}

/// An error of a sink's, whose further lines are notes and help.
fn described(sink: &Sink, error: &Error) -> Diagnostic {
    Diagnostic::error_of(error.code(), &format!("sink `{}`: {error}", sink.id))
}

/// The same, with the commands that grant what is not permitted.
fn permitted(sink: &Sink, kafka: &KafkaSink, error: &Error, exactly_once: bool) -> Diagnostic {
    let mut problem = described(sink, error);
    if is_refused(error) {
        problem = problem.note("what the job needs is granted by");
        for line in acls::of_sink(kafka, exactly_once) {
            problem = problem.note(format!("  {line}"));
        }
    }
    problem
}

/// Why the commits of a job cannot be decided where its exactly-once `sink` writes.
pub fn refused(sink: &Sink, kafka: &KafkaSink, error: &Error) -> Diagnostic {
    permitted(sink, kafka, error, true)
}

fn is_refused(error: &Error) -> bool {
    matches!(error, Error::Refused { .. })
}

/// A setting that is a time.
fn millis(configs: &BTreeMap<String, String>, name: &str) -> Option<Duration> {
    let millis = configs.get(name)?.parse().ok()?;
    Some(Duration::from_millis(millis))
}
