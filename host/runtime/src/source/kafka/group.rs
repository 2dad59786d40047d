//! Positions for tools that show lag: after each checkpoint they are committed to the source's consumer group. Nothing depends on them
//! but `start: committed`.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::{Position, client_id, granting_group, offsets};
use crate::job::model::{Job, KafkaSource, NodeId, SourceConnector};
use crate::kafka::{self, Context};
use crate::log;
use crate::source::SplitState;

/// How long the end of a job waits for its last positions to be committed.
const LAST: Duration = Duration::from_secs(3);

/// Between looks at what the client has to say.
const SERVE: Duration = Duration::from_secs(1);

/// Commits positions of a job's Kafka sources, each by a thread of its own. At the end it waits a little for the last ones.
#[derive(Debug)]
pub struct GroupOffsets {
    sources: Vec<Committer>,
}

#[derive(Debug)]
struct Committer {
    source: NodeId,
    /// `None` while it is dropped.
    positions: Option<Sender<Vec<SplitState>>>,
    /// Hangs up when the thread has ended.
    ended: Receiver<()>,
}

impl GroupOffsets {
    /// For the Kafka sources of `job`; what does not work is warned of.
    pub fn new(job: &Job) -> GroupOffsets {
        let mut sources = Vec::new();
        for source in &job.sources {
            let SourceConnector::Kafka(kafka) = &source.connector else {
                continue;
            };
            match Committer::start(&source.id, kafka) {
                Ok(committer) => sources.push(committer),
                Err(error) => warn(&source.id, kafka, &error.to_string()),
            }
        }
        GroupOffsets { sources }
    }

    /// A checkpoint with these positions of source `source` was confirmed. Does not wait.
    pub fn committed(&self, source: &str, splits: &[SplitState]) {
        let of_source = |it: &&Committer| it.source.as_str() == source;
        if let Some(committer) = self.sources.iter().find(of_source)
            && let Some(positions) = &committer.positions
        {
            // One that has failed has said so.
            let _ = positions.send(splits.to_vec());
        }
    }
}

fn warn(source: &NodeId, kafka: &KafkaSource, why: &str) {
    log::warn(&format!(
        "[W0905] source `{source}`: its positions cannot be committed to group `{}`: {why}; tools do not see its lag, and nothing else \
         depends on it",
        kafka.group
    ));
}

impl Committer {
    fn start(source: &NodeId, kafka: &KafkaSource) -> Result<Committer, kafka::Error> {
        let name = client_id(source);
        let (positions, committed) = mpsc::channel();
        let (alive, ended) = mpsc::channel();
        let (id, settings) = (source.clone(), kafka.clone());
        thread::Builder::new()
            .name(format!("{source}-group").chars().take(15).collect())
            .spawn(move || {
                run(&id, &settings, &committed);
                drop(alive);
            })
            .map_err(|error| kafka::Error::thread(&name, &error))?;
        Ok(Committer {
            source: source.clone(),
            positions: Some(positions),
            ended,
        })
    }
}

impl Drop for GroupOffsets {
    fn drop(&mut self) {
        for committer in &mut self.sources {
            committer.positions = None;
        }
        let deadline = crate::clock::now() + LAST;
        for committer in &self.sources {
            let left = deadline.saturating_duration_since(crate::clock::now());
            // Nothing is sent: it ends when the thread does.
            let _ = committer.ended.recv_timeout(left);
        }
    }
}

fn run(source: &NodeId, kafka: &KafkaSource, committed: &Receiver<Vec<SplitState>>) {
    let name = client_id(source);
    let consumer = offsets::settings(source, kafka)
        .map_err(|error| error.to_string())
        .and_then(|mut config| {
            config.set("group.id", &kafka.group);
            BaseConsumer::from_config_and_context(&config, Context::new(name))
                .map_err(|error| error.to_string())
        });
    let consumer: BaseConsumer<Context> = match consumer {
        Ok(consumer) => consumer,
        Err(why) => return warn(source, kafka, &why),
    };
    let mut is_warned = false;
    let mut last = None;
    loop {
        let mut splits = match committed.recv_timeout(SERVE) {
            Ok(splits) => splits,
            Err(RecvTimeoutError::Timeout) => {
                drop(consumer.poll(Duration::ZERO));
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        // Only the newest matters.
        while let Ok(newer) = committed.try_recv() {
            splits = newer;
        }
        let list = list(source, &splits);
        if list.count() == 0 || last.as_ref() == Some(&list) {
            continue;
        }
        match commit(&consumer, &list) {
            Ok(()) => {
                is_warned = false;
                last = Some(list);
            }
            Err(error) => {
                if !std::mem::replace(&mut is_warned, true) {
                    let refused = error.rdkafka_error_code()
                        == Some(RDKafkaErrorCode::GroupAuthorizationFailed);
                    let why = if refused {
                        format!("{error} (it is granted by {})", granting_group(kafka))
                    } else {
                        error.to_string()
                    };
                    warn(source, kafka, &why);
                }
            }
        }
    }
}

/// Once more where the coordinator was not known yet.
fn commit(consumer: &BaseConsumer<Context>, list: &TopicPartitionList) -> Result<(), KafkaError> {
    let mut tries = 0;
    loop {
        match consumer.commit(list, CommitMode::Sync) {
            Err(error)
                if tries < 10 && error.rdkafka_error_code().is_some_and(offsets::is_passing) =>
            {
                tries += 1;
                thread::sleep(Duration::from_millis(200));
            }
            committed => return committed,
        }
    }
}

fn list(source: &NodeId, splits: &[SplitState]) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for split in splits {
        if let Ok(position) = Position::of(source, split) {
            let offset = Offset::Offset(position.next);
            list.add_partition_offset(&position.topic, position.partition, offset)
                .expect("an offset that is one");
        }
    }
    list
}
