//! Topics: what they may be called, and that a job does not use one for two things.

use super::below;
use crate::job::check::Check;
use crate::job::model::{
    INTERNAL_TOPICS, Job, KafkaConnection, KafkaSink, KafkaSource, KafkaTopic, NodeId,
    SinkConnector, SourceConnector,
};
use crate::job::tree::shorten;
use crate::job::wording::subject;

/// Longest name of a topic.
const MAX_NAME: usize = 249;

/// Whether `a` and `b` name a broker in common. That other names lead to the same cluster is found at start.
pub(super) fn same_cluster(a: &KafkaConnection, b: &KafkaConnection) -> bool {
    let mut brokers = a.brokers.split(',');
    brokers.any(|one| {
        b.brokers
            .split(',')
            .any(|other| one.eq_ignore_ascii_case(other))
    })
}

/// The Kafka sinks of `job`.
pub(super) fn sinks(job: &Job) -> impl Iterator<Item = (&NodeId, &KafkaSink)> {
    job.sinks.iter().filter_map(|sink| match &sink.connector {
        SinkConnector::Kafka(kafka) => Some((&sink.id, &**kafka)),
        SinkConnector::File { .. } | SinkConnector::Stdout | SinkConnector::Blackhole => None,
    })
}

fn sources(job: &Job) -> impl Iterator<Item = (&NodeId, &KafkaSource)> {
    job.sources
        .iter()
        .filter_map(|source| match &source.connector {
            SourceConnector::Kafka(kafka) => Some((&source.id, &**kafka)),
            SourceConnector::File { .. }
            | SourceConnector::Stdin
            | SourceConnector::Generator(_) => None,
        })
}

/// The path of the `index`th topic that sink `id` writes.
fn written<'p>(id: &'p str, topic: &KafkaTopic, index: &'p str) -> Vec<&'p str> {
    let mut path = vec!["sinks", id, "kafka", "topic"];
    if let KafkaTopic::Field { .. } = topic {
        path.extend(["allowed", index]);
    }
    path
}

impl Check<'_> {
    /// The name of a topic.
    pub(super) fn topic_name(&self, path: &[&str], name: String) -> Option<String> {
        let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let title = if name.is_empty() {
            format!("{} is empty", subject(path))
        } else if name.len() > MAX_NAME || !name.chars().all(is_good) || name == "." || name == ".."
        {
            format!(
                "{}: `{}` is not the name of a topic",
                subject(path),
                shorten(&name)
            )
        } else if name.starts_with(INTERNAL_TOPICS) {
            let title = format!(
                "{}: `{}` is an internal topic",
                subject(path),
                shorten(&name)
            );
            self.push(
                self.error("W0109", path, title)
                    .note("names that begin with `__` are the brokers'"),
            );
            return None;
        } else {
            return Some(name);
        };
        self.push(
            self.error("W0109", path, title)
                .note("1 to 249 of `a-z A-Z 0-9 . _ -`, and neither `.` nor `..`"),
        );
        None
    }

    /// Refuses topics that the job both reads and writes, and commit topics that it uses for anything else.
    pub(in crate::job::check) fn topic_uses(&self, job: &Job, exactly_once: bool) {
        for (id, sink) in sinks(job) {
            for (source_id, source) in sources(job) {
                if same_cluster(&sink.connection, &source.connection) {
                    self.not_read(id, sink, source_id, source);
                }
            }
        }
        if !exactly_once {
            return;
        }
        for (id, source) in sources(job) {
            let commits = sinks(job).find(|(_, sink)| {
                same_cluster(&sink.connection, &source.connection)
                    && source.topics.contain(&sink.commit_topic)
            });
            if let Some((sink_id, sink)) = commits {
                let path = self.topics_path(id);
                let title = format!(
                    "{} takes in `{}`, the commit topic of sink `{sink_id}`",
                    subject(&path),
                    sink.commit_topic
                );
                self.push(
                    self.error("W0125", &path, title)
                        .note("each checkpoint writes a record there, which would be read as input")
                        .help("name the topics that are meant, or make the pattern narrower"),
                );
            }
        }
        for (id, sink) in sinks(job) {
            for (index, topic) in sink.topic.names().iter().enumerate() {
                let commits = sinks(job).find(|(_, other)| {
                    same_cluster(&sink.connection, &other.connection)
                        && *topic == other.commit_topic
                });
                if let Some((other_id, _)) = commits {
                    let index = index.to_string();
                    let path = written(id.as_str(), &sink.topic, &index);
                    let title = format!(
                        "{} is `{topic}`, the commit topic of sink `{other_id}`",
                        subject(&path)
                    );
                    self.push(
                        self.error("W0125", &path, title)
                            .note("only commits of jobs belong there")
                            .help("write to another topic"),
                    );
                }
            }
        }
    }

    /// Refuses topics of `sink` that `source` reads.
    fn not_read(&self, id: &NodeId, sink: &KafkaSink, source_id: &NodeId, source: &KafkaSource) {
        for (index, topic) in sink.topic.names().iter().enumerate() {
            if !source.topics.contain(topic) {
                continue;
            }
            let index = index.to_string();
            let path = written(id.as_str(), &sink.topic, &index);
            let at = self.tree.place_of(&self.topics_path(source_id));
            let title = format!(
                "{} is `{topic}`, which source `{source_id}` reads",
                subject(&path)
            );
            self.push(
                self.error("W0125", &path, title)
                    .note(format!("its topics are named at {}:{}", at.line, at.column))
                    .help("the job would read what it writes; keep input and output apart"),
            );
        }
    }

    /// The path of the field that says what source `id` reads.
    fn topics_path<'p>(&self, id: &'p NodeId) -> Vec<&'p str> {
        let section = ["sources", id.as_str(), "kafka"];
        let topic = below(&section, "topic");
        if self.tree.has(&topic) {
            topic
        } else {
            below(&section, "topics")
        }
    }
}
