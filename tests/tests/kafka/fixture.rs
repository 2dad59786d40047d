//! What a test of a job on Kafka has: a broker, topics of its own, a folder in which the job runs.

use weir_tests::kafka::{Broker, Topics};
use weir_tests::place::Place;

/// See the module.
pub(crate) struct Scene<'a> {
    /// Its topics. Their prefix does for groups and transactional ids as well.
    pub(crate) topics: Topics<'a>,
    /// Its folder.
    pub(crate) place: Place,
}

impl Scene<'static> {
    /// On the broker that all share.
    pub(crate) fn new(test: &str) -> Scene<'static> {
        Scene::on(Broker::shared(), test)
    }
}

impl<'a> Scene<'a> {
    /// On a broker of the test's own.
    pub(crate) fn on(broker: &'a Broker, test: &str) -> Scene<'a> {
        Scene {
            topics: Topics::named(broker, test),
            place: Place::temporary(),
        }
    }

    /// Writes the job file. `<brokers>` in it stands for the broker's address, `<NAME>` for the whole name of what the test calls NAME: a
    /// topic, a group, a job; `@NAME` for a component, as ever.
    pub(crate) fn write_job(&self, text: &str) {
        self.place.write_job(&self.filled_in(text));
    }

    /// The text with what is in angle brackets replaced.
    pub(crate) fn filled_in(&self, text: &str) -> String {
        let mut whole = String::with_capacity(text.len() + 200);
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('<') {
            let (name, after) = after.split_once('>').expect("a name ends with `>`");
            whole.push_str(before);
            match name {
                "brokers" => whole.push_str(self.topics.broker().address()),
                name => whole.push_str(&self.topics.name(name)),
            }
            rest = after;
        }
        whole.push_str(rest);
        whole
    }
}
