//! A test's own topics.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::admin::{NewPartitions, NewTopic, TopicReplication};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};

use super::{Broker, Isolation, Record, admin, console, groups, records};
use crate::host::HANGS;
use crate::random::Random;

/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(5);

/// Topics whose names begin with something that is theirs alone. Methods take names without that prefix.
///
/// They are deleted in the end, if the test succeeds.
#[derive(Debug)]
pub struct Topics<'a> {
    broker: &'a Broker,
    prefix: String,
    created: RefCell<BTreeSet<String>>,
}

impl<'a> Topics<'a> {
    /// Topics of the test `test`.
    pub fn named(broker: &'a Broker, test: &str) -> Topics<'a> {
        let unique = Random::unrepeatable().bits() as u32;
        Topics {
            broker,
            prefix: format!("{test}-{unique:08x}-"),
            created: RefCell::default(),
        }
    }

    /// Their broker.
    pub fn broker(&self) -> &'a Broker {
        self.broker
    }

    /// What all their names begin with; fit for names of groups and transactions as well.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The whole name of one.
    pub fn name(&self, topic: &str) -> String {
        format!("{}{topic}", self.prefix)
    }

    /// Creates one and waits until it can be used. Returns its whole name.
    ///
    /// # Panics
    /// The broker refuses, or does not answer; so do all the others.
    #[track_caller]
    pub fn create(&self, topic: &str, partitions: i32) -> String {
        self.create_with(topic, partitions, &[])
    }

    /// The same, with configurations of the topic's.
    #[track_caller]
    pub fn create_with(&self, topic: &str, partitions: i32, configs: &[(&str, &str)]) -> String {
        let name = self.name(topic);
        let mut new = NewTopic::new(&name, partitions, TopicReplication::Fixed(1));
        for (key, value) in configs {
            new = new.set(key, value);
        }
        let client = admin::client(self.broker);
        self.done(
            "create",
            admin::succeeds(client.create_topics([&new], &admin::options())),
        );
        self.created.borrow_mut().insert(topic.to_owned());
        self.wait_for(topic, partitions);
        name
    }

    /// Gives one more partitions, `partitions` in all.
    #[track_caller]
    pub fn grow(&self, topic: &str, partitions: i32) {
        let name = self.name(topic);
        let new = NewPartitions::new(&name, partitions as usize);
        let client = admin::client(self.broker);
        self.done(
            "grow",
            admin::succeeds(client.create_partitions([&new], &admin::options())),
        );
        self.wait_for(topic, partitions);
    }

    /// Deletes one and waits until it is gone.
    #[track_caller]
    pub fn delete(&self, topic: &str) {
        let name = self.name(topic);
        let client = admin::client(self.broker);
        self.done(
            "delete",
            admin::succeeds(client.delete_topics(&[&name], &admin::options())),
        );
        self.created.borrow_mut().remove(topic);
        self.wait_for(topic, 0);
    }

    /// Deletes one and creates another of its name: other records, another id.
    #[track_caller]
    pub fn recreate(&self, topic: &str, partitions: i32) {
        self.delete(topic);
        self.create(topic, partitions);
    }

    /// Deletes the records of a partition before an offset, as retention does.
    #[track_caller]
    pub fn delete_records(&self, topic: &str, partition: i32, before: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.name(topic), partition, Offset::Offset(before))
            .expect("an offset of a record");
        let client = admin::client(self.broker);
        let result = admin::wait(client.delete_records(&list, &admin::options()));
        let result = result.and_then(|list| {
            list.elements()
                .iter()
                .try_for_each(|element| element.error())
        });
        self.done(
            "delete records of",
            result.map_err(|error| error.to_string()),
        );
    }

    /// How many partitions one has; none if there is no such topic. Asking does not create it.
    #[track_caller]
    pub fn partitions(&self, topic: &str) -> i32 {
        partitions(self.broker, &self.name(topic))
    }

    /// The offsets of each partition: of the oldest record, and after the newest that such a reader may see. Control records count, and
    /// records of aborted transactions.
    #[track_caller]
    pub fn offsets(&self, topic: &str, isolation: Isolation) -> Vec<(i64, i64)> {
        let name = self.name(topic);
        let consumer = records::consumer(self.broker, isolation);
        let of = |partition| {
            groups::retried(HANGS, || {
                consumer.fetch_watermarks(&name, partition, REQUEST)
            })
        };
        let partitions = 0..self.partitions(topic);
        let offsets: Result<Vec<_>, _> = partitions.map(of).collect();
        self.done("ask for offsets of", offsets)
    }

    /// Appends records, each to the partition it names, and waits until they are written.
    #[track_caller]
    pub fn produce(&self, topic: &str, records: &[Record]) {
        self.done(
            "write to",
            records::produce(self.broker, &self.name(topic), records),
        );
    }

    /// All records that such a reader sees, by partition and offset.
    #[track_caller]
    pub fn read(&self, topic: &str, isolation: Isolation) -> Vec<Record> {
        let name = self.name(topic);
        self.done(
            "read",
            records::read(self.broker, &name, self.partitions(topic), isolation),
        )
    }

    /// The same, as Apache Kafka's own console consumer sees it: slower by some seconds, but another client than the one that
    /// Weir uses. Bytes that are not UTF-8 are replaced.
    #[track_caller]
    pub fn read_by_console(&self, topic: &str, isolation: Isolation) -> Vec<Record> {
        let seen = self.read(topic, isolation);
        let name = self.name(topic);
        self.done("read", console::read(self.broker, &name, isolation, &seen))
    }

    /// Waits until at least `count` records can be seen by such a reader, for `patience` at most; returns all that there are.
    #[track_caller]
    pub fn read_at_least(
        &self,
        topic: &str,
        isolation: Isolation,
        count: usize,
        patience: Duration,
    ) -> Vec<Record> {
        let until = Instant::now() + patience;
        loop {
            let records = self.read(topic, isolation);
            if records.len() >= count || Instant::now() >= until {
                return records;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    #[track_caller]
    fn wait_for(&self, topic: &str, partitions: i32) {
        let until = Instant::now() + HANGS;
        while self.partitions(topic) != partitions {
            assert!(
                Instant::now() < until,
                "topic {} still has not {partitions} partitions; {}",
                self.name(topic),
                self.broker.log()
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[track_caller]
    fn done<T>(&self, what: &str, result: Result<T, String>) -> T {
        match result {
            Ok(value) => value,
            Err(why) => panic!("cannot {what} topic: {why}; {}", self.broker.log()),
        }
    }
}

impl Drop for Topics<'_> {
    fn drop(&mut self) {
        let created = self.created.take();
        if created.is_empty() {
            return;
        }
        if thread::panicking() {
            eprintln!("topics {}* are kept; {}", self.prefix, self.broker.log());
            return;
        }
        let names: Vec<String> = created.iter().map(|topic| self.name(topic)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        // The broker may be down by now, and its data goes anyway.
        let brief = admin::options().request_timeout(Some(Duration::from_secs(1)));
        let _ = admin::wait(admin::client(self.broker).delete_topics(&names, &brief));
    }
}

/// How many partitions the topic `name` has that have a leader, 0 if there is no such topic.
pub(super) fn partitions(broker: &Broker, name: &str) -> i32 {
    // A producer's question would create it.
    let consumer: BaseConsumer = records::consumer(broker, Isolation::Committed);
    let metadata = groups::retried(HANGS, || consumer.fetch_metadata(Some(name), REQUEST))
        .unwrap_or_else(|why| panic!("what is topic {name}? {why}; {}", broker.log()));
    let topic = metadata.topics().iter().find(|topic| topic.name() == name);
    let partitions = topic.map_or(&[][..], |topic| topic.partitions());
    let led = partitions
        .iter()
        .filter(|partition| partition.leader() >= 0);
    led.count() as i32
}
