//! What a cluster says of itself and its topics. Nothing here creates a topic but [`Cluster::create_topic`].

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use std::{fmt, str};

use rdkafka::ClientConfig;
use rdkafka::admin::{
    AdminClient, AdminOptions, ConfigResource, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::error::{is_passing, is_refusal};
use super::{Context, Error, client, ffi};
use crate::clock;
use crate::job::model::{KafkaConnection, TopicPattern};

/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(10);

/// How long a client waits for an answer before it looks whether there was trouble.
const SLICE: Duration = Duration::from_millis(250);

/// The id of a topic, as Kafka prints it: one that was deleted and created again has another.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct TopicId(String);

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl str::FromStr for TopicId {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<TopicId, Self::Err> {
        Ok(TopicId(text.to_owned()))
    }
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: TopicId,
    /// Its partitions, ascending.
    pub partitions: Vec<i32>,
    /// Replicas of the partition that has the fewest.
    pub replicas: usize,
}

/// A connection to a cluster, to ask it things.
pub struct Cluster {
    brokers: String,
    id: String,
    consumer: BaseConsumer<Context>,
    /// Settings of a client.
    config: ClientConfig,
    /// Made for the first question that the other one cannot ask: it has threads and connections of its own.
    admin: OnceLock<AdminClient<Context>>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cluster({} at {})", self.id, self.brokers)
    }
}

impl Cluster {
    /// Connects within `patience`.
    ///
    /// # Errors
    /// No broker answers, or it does not believe who we are.
    pub fn connect(
        connection: &KafkaConnection,
        client_id: &str,
        patience: Duration,
    ) -> Result<Cluster, Error> {
        let config = client::config(connection, client_id)?;
        let mut own = config.clone();
        // Those of producers are for producers, and librdkafka warns of each.
        own.set("enable.auto.commit", "false");
        let consumer = BaseConsumer::from_config_and_context(&own, Context::new(client_id))
            .map_err(|error| Error::client(client_id, &error))?;
        let deadline = clock::now() + patience;
        let id = loop {
            // Serves the log and errors.
            drop(consumer.poll(Duration::ZERO));
            if let Some(why) = consumer.context().refusal() {
                return Err(Error::Unknown {
                    what: format!("Kafka at {} refuses us", connection.brokers),
                    why,
                });
            }
            if let Some(id) = consumer.client().fetch_cluster_id(SLICE) {
                break id;
            }
            if clock::now() >= deadline {
                let trouble = consumer.context().trouble();
                return Err(Error::Unreachable {
                    brokers: connection.brokers.clone(),
                    why: trouble.map_or_else(
                        || format!("no answer within {} s", patience.as_secs_f64()),
                        |(_, what)| what,
                    ),
                });
            }
        };
        Ok(Cluster {
            brokers: connection.brokers.clone(),
            id,
            consumer,
            config,
            admin: OnceLock::new(),
        })
    }

    fn admin(&self) -> Result<&AdminClient<Context>, KafkaError> {
        if let Some(admin) = self.admin.get() {
            return Ok(admin);
        }
        let context = Context::new(self.config.get("client.id").unwrap_or_default());
        let admin = AdminClient::from_config_and_context(&self.config, context)?;
        Ok(self.admin.get_or_init(|| admin))
    }

    /// The cluster's own id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where its brokers were looked for.
    pub fn brokers(&self) -> &str {
        &self.brokers
    }

    /// Takes note of what there is to hear of the connection. Whoever keeps a cluster does this now and then.
    pub fn serve(&self) {
        // A bounded number: a broken network has much to say.
        for _ in 0..64 {
            if self.consumer.poll(Duration::ZERO).is_none() {
                break;
            }
        }
    }

    /// What was heard of the connection last.
    fn trouble(&self) -> Option<String> {
        self.serve();
        self.consumer.context().trouble().map(|(_, what)| what)
    }

    fn failed(&self, what: &str, error: &KafkaError) -> Error {
        let what = format!("Kafka at {}: {what}", self.brokers);
        Error::of(&what, error, self.trouble())
    }

    /// These topics in their order; `None` where there is none of that name.
    ///
    /// # Errors
    /// The cluster does not answer, or does not let us see one of them.
    pub fn topics(&self, names: &[String]) -> Result<Vec<Option<Topic>>, Error> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let what = "cannot look up topics";
        let described = retried(|| {
            let described = ffi::describe_topics(self.consumer.client(), names, REQUEST)?;
            let passing = described.iter().filter_map(|topic| topic.error);
            match passing.into_iter().find(|code| is_passing(*code)) {
                Some(code) => Err(KafkaError::AdminOp(code)),
                None => Ok(described),
            }
        });
        let described = described.map_err(|error| self.failed(what, &error))?;
        // librdkafka may answer in another order than it was asked.
        let mut by_name: BTreeMap<String, ffi::Described> = described
            .into_iter()
            .map(|topic| (topic.name.clone(), topic))
            .collect();
        names
            .iter()
            .map(|name| match by_name.remove(name) {
                None => Ok(None),
                Some(topic) => match topic.error {
                    None => Ok(Some(described_topic(topic))),
                    Some(RDKafkaErrorCode::UnknownTopicOrPartition) => Ok(None),
                    Some(code) if is_refusal(code) => Err(Error::Refused {
                        what: format!("Kafka at {}: topic `{name}`", self.brokers),
                        why: code.to_string(),
                    }),
                    Some(code) => Err(Error::Failed {
                        what: format!("Kafka at {}: topic `{name}`", self.brokers),
                        why: code.to_string(),
                    }),
                },
            })
            .collect()
    }

    /// The names of all topics that we may see.
    ///
    /// # Errors
    /// The cluster does not answer.
    pub fn names(&self) -> Result<Vec<String>, Error> {
        let metadata = retried(|| self.consumer.fetch_metadata(None, REQUEST))
            .map_err(|error| self.failed("cannot list topics", &error))?;
        let topics = metadata.topics().iter();
        Ok(topics.map(|topic| topic.name().to_owned()).collect())
    }

    /// All topics whose name `pattern` matches, by name.
    ///
    /// # Errors
    /// As for [`Cluster::topics`].
    pub fn matching(&self, pattern: &TopicPattern) -> Result<Vec<Topic>, Error> {
        let mut names = self.names()?;
        names.retain(|name| pattern.matches(name));
        names.sort_unstable();
        // One that was deleted meanwhile is none.
        Ok(self.topics(&names)?.into_iter().flatten().collect())
    }

    /// The settings of a topic.
    ///
    /// # Errors
    /// The cluster does not answer, or does not let us see them.
    pub fn topic_configs(&self, topic: &str) -> Result<BTreeMap<String, String>, Error> {
        let what = format!("cannot look up settings of topic `{topic}`");
        self.configs(&ResourceSpecifier::Topic(topic), &what)
    }

    /// The settings of a broker, the first of the cluster.
    ///
    /// # Errors
    /// As for [`Cluster::topic_configs`].
    pub fn broker_configs(&self) -> Result<BTreeMap<String, String>, Error> {
        let what = "cannot look up settings of the brokers";
        let metadata = retried(|| {
            self.consumer
                .fetch_metadata(Some("__transaction_state"), REQUEST)
        })
        .map_err(|error| self.failed(what, &error))?;
        let broker = metadata.brokers().first().map_or(0, |broker| broker.id());
        self.configs(&ResourceSpecifier::Broker(broker), what)
    }

    fn configs(
        &self,
        of: &ResourceSpecifier<'_>,
        what: &str,
    ) -> Result<BTreeMap<String, String>, Error> {
        let options = AdminOptions::new().request_timeout(Some(REQUEST));
        let found: ConfigResource = retried(|| {
            let mut all = block_on(self.admin()?.describe_configs([of], &options))?;
            match all.pop() {
                Some(found) => found.map_err(KafkaError::AdminOp),
                None => Err(KafkaError::AdminOp(RDKafkaErrorCode::Fail)),
            }
        })
        .map_err(|error| self.failed(what, &error))?;
        let entries = found.entries.into_iter();
        Ok(entries
            .filter_map(|entry| Some((entry.name, entry.value?)))
            .collect())
    }

    /// Creates a topic, replicated as the cluster does by default. One that is there already is fine.
    ///
    /// # Errors
    /// The cluster does not answer, or does not let us.
    pub fn create_topic(
        &self,
        name: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> Result<(), Error> {
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(-1));
        for (name, value) in configs {
            topic = topic.set(name, value);
        }
        let options = AdminOptions::new()
            .request_timeout(Some(REQUEST))
            .operation_timeout(Some(REQUEST));
        let created = retried(|| {
            let mut all = block_on(self.admin()?.create_topics([&topic], &options))?;
            match all.pop() {
                Some(Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(()),
                Some(Err((_, code))) => Err(KafkaError::AdminOp(code)),
                None => Err(KafkaError::AdminOp(RDKafkaErrorCode::Fail)),
            }
        });
        created.map_err(|error| self.failed(&format!("cannot create topic `{name}`"), &error))
    }
}

fn described_topic(topic: ffi::Described) -> Topic {
    let mut partitions = topic.partitions;
    partitions.sort_unstable();
    Topic {
        name: topic.name,
        id: TopicId(topic.id),
        partitions,
        replicas: topic.replicas,
    }
}

/// Tries again while the answer is one that passes by itself.
fn retried<T>(mut ask: impl FnMut() -> Result<T, KafkaError>) -> Result<T, KafkaError> {
    let deadline: Instant = clock::now() + REQUEST;
    loop {
        match ask() {
            Err(error)
                if error.rdkafka_error_code().is_some_and(is_passing)
                    && clock::now() < deadline =>
            {
                thread::sleep(SLICE);
            }
            answer => return answer,
        }
    }
}

/// Waits for an answer of the admin client, whose own thread wakes us.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = std::task::Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}
