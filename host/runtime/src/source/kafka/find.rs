//! Finds partitions, when a job first starts and when it goes on, and settles where each is read from and to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::offsets::Offsets;
use super::{Position, client_id, recreated};
use crate::batch::NO_TIME;
use crate::job::model::{KafkaFallback, KafkaSource, KafkaStart, KafkaStop, KafkaTopics, NodeId};
use crate::kafka::{Cluster, Topic};
use crate::source::{Error, SplitState};

/// How long a cluster may take to answer at a start.
const PATIENCE: Duration = Duration::from_secs(15);

/// The partitions of the topics of `source`, none of them read.
pub(super) fn discover(source: &NodeId, kafka: &KafkaSource) -> Result<Vec<SplitState>, Error> {
    let cluster = connect(source, kafka)?;
    let found = match &kafka.topics {
        KafkaTopics::Names(names) => {
            let found = cluster.topics(names).map_err(Error::Kafka)?;
            all_there(source, kafka, names, found)?
        }
        KafkaTopics::Pattern(pattern) => {
            let found = cluster.matching(pattern).map_err(Error::Kafka)?;
            if found.is_empty() {
                return Err(Error::Invalid(format!(
                    "source `{source}`: no topic of the cluster at {} matches `{}`; create one, correct the pattern, or see whether the \
                     user may see topics",
                    kafka.connection.brokers,
                    pattern.as_str()
                )));
            }
            found
        }
    };
    let offsets = Offsets::new(source, kafka, PATIENCE)?;
    let begun = begin(source, kafka, &offsets, &found)?;
    Ok(begun.into_iter().zip(0..).map(unread).collect())
}

fn unread((position, split): (Position, u32)) -> SplitState {
    SplitState {
        split,
        name: position.name(),
        done: false,
        max_time: NO_TIME,
        position: position.to_json(),
    }
}

/// Checks the recorded partitions, and finds those that have appeared since.
pub(super) fn resume(
    source: &NodeId,
    kafka: &KafkaSource,
    mut splits: Vec<SplitState>,
) -> Result<(Vec<SplitState>, Vec<String>), Error> {
    splits.sort_by_key(|split| split.split);
    let mut positions = Vec::with_capacity(splits.len());
    for split in &splits {
        positions.push(Position::of(source, split)?);
    }
    let cluster = connect(source, kafka)?;
    let now = topics_now(source, kafka, &cluster, &positions)?;
    let offsets = Offsets::new(source, kafka, PATIENCE)?;
    let mut warnings = Warnings::default();
    for (split, position) in splits.iter_mut().zip(&mut positions) {
        if !kafka.topics.contain(&position.topic) {
            warnings.once(format!(
                "source `{source}`: topic `{}` is no longer among its topics, and is not read any further; where it was left stays recorded",
                position.topic
            ));
            continue;
        }
        let Some(topic) = now.get(&position.topic) else {
            warnings.once(format!(
                "source `{source}`: topic `{}`, which was read, is no longer there; what was not read of it is lost",
                position.topic
            ));
            continue;
        };
        if topic.id != position.topic_id {
            return Err(recreated(
                source,
                &topic.name,
                &position.topic_id,
                &topic.id,
            ));
        }
        if split.done {
            continue;
        }
        position.stop = stop_now(kafka, &offsets, position)?;
        if !position.is_at_stop() {
            let place = (position.topic.as_str(), position.partition);
            let (next, warning) = offsets.check(source, kafka, place, position.next)?;
            position.next = next;
            warnings.all.extend(warning);
        }
        split.position = position.to_json();
    }
    let new = appeared(source, kafka, &offsets, &positions, now, &mut warnings)?;
    splits.extend(new.into_iter().map(|position| unread((position, 0))));
    for (number, split) in (0..).zip(&mut splits) {
        split.split = number;
    }
    Ok((splits, warnings.all))
}

#[derive(Default)]
struct Warnings {
    all: Vec<String>,
}

impl Warnings {
    fn once(&mut self, warning: String) {
        if !self.all.contains(&warning) {
            self.all.push(warning);
        }
    }
}

fn connect(source: &NodeId, kafka: &KafkaSource) -> Result<Cluster, Error> {
    Cluster::connect(&kafka.connection, &client_id(source), PATIENCE).map_err(Error::Kafka)
}

/// `found`, if all of them are there.
fn all_there(
    source: &NodeId,
    kafka: &KafkaSource,
    names: &[String],
    found: Vec<Option<Topic>>,
) -> Result<Vec<Topic>, Error> {
    let missing: Vec<String> = names
        .iter()
        .zip(&found)
        .filter(|(_, found)| found.is_none())
        .map(|(name, _)| format!("`{name}`"))
        .collect();
    if missing.is_empty() {
        return Ok(found.into_iter().flatten().collect());
    }
    let topics = if missing.len() == 1 {
        "topic"
    } else {
        "topics"
    };
    Err(Error::Invalid(format!(
        "source `{source}`: the cluster at {} has no {topics} {}; correct the name or create it, for Weir creates no topic that it reads",
        kafka.connection.brokers,
        missing.join(", ")
    )))
}

/// The topics to be read as they are now. Listed ones must be there, those that a pattern finds need not.
fn topics_now(
    source: &NodeId,
    kafka: &KafkaSource,
    cluster: &Cluster,
    recorded: &[Position],
) -> Result<BTreeMap<String, Topic>, Error> {
    let found = match &kafka.topics {
        KafkaTopics::Pattern(pattern) => cluster.matching(pattern).map_err(Error::Kafka)?,
        KafkaTopics::Names(names) => {
            let found = cluster.topics(names).map_err(Error::Kafka)?;
            let gone = names.iter().zip(&found).find(|(name, found)| {
                found.is_none() && recorded.iter().any(|position| position.topic == **name)
            });
            if let Some((name, _)) = gone {
                return Err(deleted(source, name));
            }
            all_there(source, kafka, names, found)?
        }
    };
    Ok(found
        .into_iter()
        .map(|topic| (topic.name.clone(), topic))
        .collect())
}

/// A listed topic that was read is no longer there.
pub(super) fn deleted(source: &NodeId, topic: &str) -> Error {
    Error::Changed(format!(
        "source `{source}`: topic `{topic}`, which was read, is no longer there. Restore it; or take it off the source's topics, and what was \
         not read of it is lost"
    ))
}

/// Where reading of a partition ends by the job file as it is now. An end that was looked up once stays.
fn stop_now(
    kafka: &KafkaSource,
    offsets: &Offsets,
    position: &Position,
) -> Result<Option<i64>, Error> {
    Ok(match &kafka.stop {
        None => None,
        Some(KafkaStop::Latest) => match position.stop {
            Some(stop) => Some(stop),
            None => Some(offsets.range(&position.topic, position.partition)?.end),
        },
        // One that is not named is not read.
        Some(KafkaStop::Offsets(stops)) => {
            let of_topic = stops.get(&position.topic);
            let stop = of_topic.and_then(|stops| stops.get(&position.partition));
            Some(stop.copied().unwrap_or(position.next))
        }
    })
}

/// The partitions of `now` that are not recorded and are to be read.
fn appeared(
    source: &NodeId,
    kafka: &KafkaSource,
    offsets: &Offsets,
    recorded: &[Position],
    now: BTreeMap<String, Topic>,
    warnings: &mut Warnings,
) -> Result<Vec<Position>, Error> {
    let known: BTreeSet<(&str, i32)> = recorded
        .iter()
        .map(|position| (position.topic.as_str(), position.partition))
        .collect();
    let mut listed_anew = Vec::new();
    let mut new = Vec::new();
    for topic in now.into_values() {
        let is_known = recorded.iter().any(|it| it.topic == topic.name);
        // It was put into the job file: read as any other was.
        if !is_known && matches!(kafka.topics, KafkaTopics::Names(_)) {
            listed_anew.push(topic);
            continue;
        }
        let unknown = topic.partitions.iter().copied();
        let unknown: Vec<i32> = unknown
            .filter(|partition| !known.contains(&(topic.name.as_str(), *partition)))
            .collect();
        if unknown.is_empty() || kafka.stop.is_some() {
            continue;
        }
        if kafka.discover.is_none() {
            warnings.all.push(format!(
                "source `{source}`: topic `{}` has {} partitions that are new since the job first started; not read, since `discover` is \
                 `never`",
                topic.name,
                unknown.len()
            ));
            continue;
        }
        for partition in unknown {
            let oldest = offsets.range(&topic.name, partition)?.oldest;
            new.push(Position::begin(&topic.name, &topic.id, partition, oldest));
        }
    }
    new.extend(begin(source, kafka, offsets, &listed_anew)?);
    Ok(new)
}

/// Where the partitions of `topics` are read from and to by the job file.
fn begin(
    source: &NodeId,
    kafka: &KafkaSource,
    offsets: &Offsets,
    topics: &[Topic],
) -> Result<Vec<Position>, Error> {
    check_named(source, kafka, topics)?;
    let mut partitions = Vec::new();
    let mut ids = Vec::new();
    for topic in topics {
        for partition in &topic.partitions {
            if let Some(KafkaStop::Offsets(stops)) = &kafka.stop
                && !stops
                    .get(&topic.name)
                    .is_some_and(|stops| stops.contains_key(partition))
            {
                continue;
            }
            partitions.push((topic.name.clone(), *partition));
            ids.push(&topic.id);
        }
    }
    let asked = match &kafka.start {
        KafkaStart::Earliest | KafkaStart::Latest => vec![None; partitions.len()],
        KafkaStart::Timestamp(time) => offsets.at_time(&partitions, *time)?,
        KafkaStart::Committed { .. } => offsets.committed(&partitions)?,
        KafkaStart::Offsets(starts) => {
            let one = |(topic, partition): &(String, i32)| starts.get(topic)?.get(partition);
            partitions.iter().map(|it| one(it).copied()).collect()
        }
    };
    let mut begun = Vec::with_capacity(partitions.len());
    for (((topic, partition), id), asked) in partitions.iter().zip(ids).zip(asked) {
        let range = offsets.range(topic, *partition)?;
        let first = match (asked, &kafka.start) {
            (Some(_), KafkaStart::Timestamp(_)) => asked.unwrap_or(range.end),
            (Some(offset), _) => {
                let place = (topic.as_str(), *partition);
                let (offset, warning) = offsets.check(source, kafka, place, offset)?;
                warning.iter().for_each(|warning| crate::log::warn(warning));
                offset
            }
            (None, KafkaStart::Earliest) => range.oldest,
            (None, KafkaStart::Latest | KafkaStart::Timestamp(_)) => range.end,
            (None, KafkaStart::Committed { otherwise }) => match otherwise {
                KafkaFallback::Earliest => range.oldest,
                KafkaFallback::Latest => range.end,
                KafkaFallback::Fail => {
                    return Err(Error::Invalid(format!(
                        "source `{source}`: group `{}` has no position in {topic}-{partition} to start at; name the right `group`, or say \
                         where to start then: `start: {{committed: {{otherwise: earliest}}}}` or `latest`",
                        kafka.group
                    )));
                }
            },
            (None, KafkaStart::Offsets(_)) => {
                return Err(Error::Invalid(format!(
                    "source `{source}`: `start` has no offset for {topic}-{partition}; every partition of its topics needs one"
                )));
            }
        };
        let mut position = Position::begin(topic, id, *partition, first);
        position.stop = match &kafka.stop {
            Some(KafkaStop::Latest) => Some(range.end),
            _ => stop_now(kafka, offsets, &position)?,
        };
        begun.push(position);
    }
    Ok(begun)
}

/// Whether all partitions that the job file names are there.
fn check_named(source: &NodeId, kafka: &KafkaSource, topics: &[Topic]) -> Result<(), Error> {
    let starts = match &kafka.start {
        KafkaStart::Offsets(starts) => Some(("start", starts)),
        _ => None,
    };
    let stops = match &kafka.stop {
        Some(KafkaStop::Offsets(stops)) => Some(("stop", stops)),
        _ => None,
    };
    for (setting, offsets) in starts.into_iter().chain(stops) {
        for topic in topics {
            let named = offsets
                .get(&topic.name)
                .into_iter()
                .flat_map(BTreeMap::keys);
            for partition in named {
                if !topic.partitions.contains(partition) {
                    return Err(Error::Invalid(format!(
                        "source `{source}`: `{setting}` names partition {partition} of topic `{}`, which has {} partitions, numbered from 0",
                        topic.name,
                        topic.partitions.len()
                    )));
                }
            }
        }
    }
    Ok(())
}
