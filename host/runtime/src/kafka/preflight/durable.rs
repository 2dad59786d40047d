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
        for (what, help) in weaknesses(topic.replicas, configs) {
            let what = format!("may lose what was acknowledged: {what}");
            self.warn_of_topic(it, &topic.name, &what, help);
        }
    }
}

/// Under which settings a topic with so many replicas may lose what was acknowledged, and what to do about each.
fn weaknesses(replicas: usize, configs: &BTreeMap<String, String>) -> Vec<(String, &'static str)> {
    let is = |name: &str, value: &str| configs.get(name).is_some_and(|it| it == value);
    let mut found = Vec::new();
    if is("unclean.leader.election.enable", "true") {
        found.push((
            "`unclean.leader.election.enable` is true".to_owned(),
            "set it to false for the topic",
        ));
    }
    if replicas > 1 && is("min.insync.replicas", "1") {
        found.push((
            format!("`min.insync.replicas` is 1 with {replicas} replicas"),
            "set it to 2 or more for the topic",
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_that_need_not_be_in_sync_are_warned_of_where_there_are_several() {
        let configs = |least: &str, unclean: &str| {
            BTreeMap::from([
                ("min.insync.replicas".to_owned(), least.to_owned()),
                (
                    "unclean.leader.election.enable".to_owned(),
                    unclean.to_owned(),
                ),
            ])
        };
        let found = |replicas, least, unclean| -> Vec<String> {
            let found = weaknesses(replicas, &configs(least, unclean));
            found.into_iter().map(|(what, _)| what).collect()
        };
        assert!(found(1, "1", "false").is_empty());
        assert!(found(3, "2", "false").is_empty());
        assert_eq!(
            found(3, "1", "true"),
            [
                "`unclean.leader.election.enable` is true",
                "`min.insync.replicas` is 1 with 3 replicas"
            ]
        );
    }
}
