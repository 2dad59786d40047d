//! Settings under which a broker may lose what it has acknowledged.

use std::collections::BTreeMap;

use super::{Check, Checked};
use crate::diagnostic::Diagnostic;
use crate::kafka::Topic;
use crate::start;

/// Where brokers keep the state of transactions.
const TRANSACTION_STATE: &str = "__transaction_state";

impl<'a> Check<'a> {
    /// Warns of the settings of Kafka's and Weir's own topics, where something is written exactly once.
    pub(super) fn own_topics(&mut self, sinks: &[Checked<'a>], transactional: &[bool]) {
        let mut shared = sinks.iter().zip(transactional).filter(|(_, yes)| **yes);
        if let Some((it, _)) = shared.next() {
            for topic in [it.kafka.commit_topic.as_str(), TRANSACTION_STATE] {
                self.durable_if_there(it, topic);
            }
        }
    }

    /// Warns of an internal topic, which brokers create when it is first needed.
    fn durable_if_there(&mut self, it: &Checked<'_>, topic: &str) {
        let names = [topic.to_owned()];
        let cluster = &self.clusters[it.cluster].cluster;
        let Ok(found) = cluster.topics(&names) else {
            // Whoever needs it says what is wrong with it.
            return;
        };
        if let Some(Some(found)) = found.into_iter().next()
            && let Ok(configs) = cluster.topic_configs(topic)
        {
            self.durable(it, &found, &configs);
            let policy = configs.get("cleanup.policy");
            if let Some(policy) = policy.filter(|policy| *policy != "compact") {
                self.warn_of_topic(
                    it,
                    topic,
                    &format!("forgets commits: `cleanup.policy` is {policy}"),
                    "set it to compact; a job whose marker was deleted is refused (W0531)",
                );
            }
        }
    }

    /// Warns of a topic, once.
    fn warn_of_topic(&mut self, it: &Checked<'_>, topic: &str, what: &str, help: &str) {
        let title = format!("topic `{topic}` {what}");
        if self.warnings.iter().any(|warning| warning.title == title) {
            return;
        }
        let warning = Diagnostic::warning("W0711", title).help(help);
        self.warnings
            .push(start::placed(warning, self.subject.job, it.sink.place));
    }

    /// Warns of settings under which what was acknowledged may be lost.
    pub(super) fn durable(
        &mut self,
        it: &Checked<'_>,
        topic: &Topic,
        configs: &BTreeMap<String, String>,
    ) {
        let mut warn = |what: String, help: &str| {
            let what = format!("may lose what was acknowledged: {what}");
            self.warn_of_topic(it, &topic.name, &what, help);
        };
        if configs
            .get("unclean.leader.election.enable")
            .map(String::as_str)
            == Some("true")
        {
            warn(
                "`unclean.leader.election.enable` is true".to_owned(),
                "set it to false for the topic",
            );
        }
        let least = configs.get("min.insync.replicas");
        if topic.replicas > 1 && least.map(String::as_str) == Some("1") {
            warn(
                format!(
                    "`min.insync.replicas` is 1 with {} replicas",
                    topic.replicas
                ),
                "set it to 2 or more for the topic",
            );
        }
    }
}
