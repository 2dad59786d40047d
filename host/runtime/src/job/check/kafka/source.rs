//! What a Kafka source reads: which topics, from where to where.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use super::{RawConnection, below, format};
use crate::job::check::Check;
use crate::job::file::{
    FallbackName, GapName, IsolationName, KafkaSource as RawSource, StartEntry, StartName,
    StartSection, StopEntry, StopName, TopicsEntry,
};
use crate::job::forms::{IntervalText, Named};
use crate::job::kafka_properties::Side;
use crate::job::model::{
    Format, KafkaFallback, KafkaFormat, KafkaGap, KafkaOffsets, KafkaSource, KafkaStart, KafkaStop,
    KafkaTopics, SourceConnector, TopicPattern,
};
use crate::job::tree::shorten;
use crate::job::wording::{list, subject};

const DEFAULT_DISCOVER: Duration = Duration::from_secs(60);

impl Check<'_> {
    /// The Kafka source `id`.
    pub(in crate::job::check) fn kafka_source(
        &self,
        id: &str,
        raw: RawSource,
    ) -> Option<(SourceConnector, Format)> {
        let section = ["sources", id, "kafka"];
        let path = |field| ["sources", id, "kafka", field];
        self.needs_kafka(&section);
        let connection = RawConnection {
            brokers: raw.brokers,
            tls: raw.tls,
            sasl: raw.sasl,
            properties: raw.properties,
        };
        let connection = self.connection(&section, Side::Consumer, connection);
        let topics = self.topics(&section, raw.topic, raw.topics);
        let start = self.start(&path("start"), topics.as_ref(), raw.start);
        let stop = self.stop(&path("stop"), topics.as_ref(), raw.stop);
        if let (Some(KafkaStart::Offsets(start)), Some(Some(KafkaStop::Offsets(stop)))) =
            (&start, &stop)
        {
            self.start_before_stop(&path("stop"), start, stop);
        }
        let group = match raw.group {
            Some(group) => self.name(&path("group"), group),
            None => Some(format!("weir-{}", self.name)),
        };
        let discover = match raw.discover {
            Some(IntervalText(Some(every))) => {
                if every.is_zero() {
                    let path = path("discover");
                    let title = format!("{} must be more than zero", subject(&path));
                    self.push(
                        self.error("W0109", &path, title)
                            .help("`never` switches it off"),
                    );
                }
                if let Some(Some(_)) = stop {
                    self.misplaced(
                        &path("discover"),
                        "does not go with `stop`: partitions that appear later are not read",
                    );
                }
                Some(every)
            }
            Some(IntervalText(None)) => None,
            None => matches!(stop, Some(None)).then_some(DEFAULT_DISCOVER),
        };
        let source = KafkaSource {
            connection: connection?,
            topics: topics?,
            start: start?,
            stop: stop?,
            read_uncommitted: matches!(raw.isolation, Some(IsolationName::ReadUncommitted)),
            group: group?,
            discover,
            on_gap: match raw.on_gap {
                None | Some(GapName::Fail) => KafkaGap::Fail,
                Some(GapName::Earliest) => KafkaGap::Earliest,
                Some(GapName::Latest) => KafkaGap::Latest,
            },
        };
        let format = match format(raw.format) {
            KafkaFormat::Raw => Format::Raw,
            KafkaFormat::Text => Format::Text,
            KafkaFormat::Json => Format::Json,
        };
        Some((SourceConnector::Kafka(Box::new(source)), format))
    }

    /// The topics that the source at `section` reads.
    fn topics(
        &self,
        section: &[&str],
        topic: Option<String>,
        topics: Option<TopicsEntry>,
    ) -> Option<KafkaTopics> {
        let path = below(section, "topics");
        match (topic, topics) {
            (None, None) => {
                let title = format!("missing field `topics` in {}", subject(section));
                self.push(self.error("W0104", section, title).help(
                    "write `topic: NAME`, `topics: [NAME, NAME]` or `topics: {pattern: REGEX}`",
                ));
                None
            }
            (Some(_), Some(_)) => {
                self.misplaced(&path, "and `topic` exclude each other");
                None
            }
            (Some(topic), None) => {
                let topic = self.topic_name(&below(section, "topic"), topic)?;
                Some(KafkaTopics::Names(vec![topic]))
            }
            (None, Some(TopicsEntry::Names(names))) => {
                self.topic_names(&path, names).map(KafkaTopics::Names)
            }
            (None, Some(TopicsEntry::Pattern(section))) => {
                let path = below(&path, "pattern");
                let text = section.pattern;
                if text.is_empty() {
                    self.push(self.error("W0109", &path, format!("{} is empty", subject(&path))));
                    return None;
                }
                match TopicPattern::new(&text) {
                    Ok(pattern) => Some(KafkaTopics::Pattern(pattern)),
                    Err(error) => {
                        let title = format!(
                            "{}: `{}` is not a regular expression",
                            subject(&path),
                            shorten(&text)
                        );
                        self.push(self.error("W0109", &path, title).note(error));
                        None
                    }
                }
            }
        }
    }

    fn start(
        &self,
        path: &[&str],
        topics: Option<&KafkaTopics>,
        raw: Option<StartEntry>,
    ) -> Option<KafkaStart> {
        let section = match raw {
            None | Some(StartEntry::Word(StartName::Earliest)) => {
                return Some(KafkaStart::Earliest);
            }
            Some(StartEntry::Word(StartName::Latest)) => return Some(KafkaStart::Latest),
            Some(StartEntry::Word(StartName::Committed)) => {
                let otherwise = KafkaFallback::Fail;
                return Some(KafkaStart::Committed { otherwise });
            }
            Some(StartEntry::Place(section)) => section,
        };
        let given = [
            ("timestamp", section.timestamp.is_some()),
            ("committed", section.committed.is_some()),
            ("offsets", section.offsets.is_some()),
        ];
        if !self.exactly_one(path, &given) {
            return None;
        }
        let StartSection {
            timestamp,
            committed,
            offsets,
        } = section;
        if let Some(committed) = committed {
            return Some(KafkaStart::Committed {
                otherwise: match committed.otherwise {
                    None | Some(FallbackName::Fail) => KafkaFallback::Fail,
                    Some(FallbackName::Earliest) => KafkaFallback::Earliest,
                    Some(FallbackName::Latest) => KafkaFallback::Latest,
                },
            });
        }
        if let Some(text) = timestamp {
            let path = below(path, "timestamp");
            return self.time(&path, &text).map(KafkaStart::Timestamp);
        }
        let path = below(path, "offsets");
        let offsets = self.offsets(&path, topics, offsets.unwrap_or_default())?;
        if let Some(KafkaTopics::Names(names)) = topics {
            let unnamed: Vec<_> = names
                .iter()
                .filter(|name| !offsets.contains_key(*name))
                .map(String::as_str)
                .collect();
            if !unnamed.is_empty() {
                let title = format!("{} has none of {}", subject(&path), list(unnamed));
                self.push(
                    self.error("W0104", &path, title)
                        .help("give every partition of every topic its offset"),
                );
                return None;
            }
        }
        Some(KafkaStart::Offsets(offsets))
    }

    /// `Some(None)`: never.
    fn stop(
        &self,
        path: &[&str],
        topics: Option<&KafkaTopics>,
        raw: Option<StopEntry>,
    ) -> Option<Option<KafkaStop>> {
        match raw {
            None | Some(StopEntry::Word(StopName::Never)) => Some(None),
            Some(StopEntry::Word(StopName::Latest)) => Some(Some(KafkaStop::Latest)),
            Some(StopEntry::Place(section)) => {
                let offsets = self.offsets(&below(path, "offsets"), topics, section.offsets)?;
                Some(Some(KafkaStop::Offsets(offsets)))
            }
        }
    }

    /// The offsets at `path`, of listed topics.
    fn offsets(
        &self,
        path: &[&str],
        topics: Option<&KafkaTopics>,
        Named(raw): Named<Named<u64>>,
    ) -> Option<KafkaOffsets> {
        if let Some(KafkaTopics::Pattern(_)) = topics {
            self.misplaced(path, "needs a list of topics, not a pattern");
            return None;
        }
        if raw.is_empty() {
            self.push(self.error("W0109", path, format!("{} is empty", subject(path))));
            return None;
        }
        let mut all_good = true;
        let mut offsets = KafkaOffsets::new();
        for (topic, Named(partitions)) in raw {
            let path = below(path, &topic);
            if let Some(KafkaTopics::Names(names)) = topics
                && !names.contains(&topic)
            {
                let title = format!("{} is of a topic that is not read", subject(&path));
                let read = list(names.iter().map(String::as_str));
                self.push(
                    self.error("W0120", &path, title)
                        .note(format!("the source reads {read}")),
                );
                all_good = false;
                continue;
            }
            if partitions.is_empty() {
                self.push(self.error("W0109", &path, format!("{} is empty", subject(&path))));
                all_good = false;
            }
            let mut of_topic = BTreeMap::new();
            for (partition, offset) in partitions {
                let path = below(&path, &partition);
                let is_number = partition.bytes().all(|byte| byte.is_ascii_digit());
                match (partition.parse::<i32>(), i64::try_from(offset)) {
                    (Ok(number), Ok(offset)) if is_number => {
                        if of_topic.insert(number, offset).is_some() {
                            self.misplaced(&path, "is the same partition again");
                            all_good = false;
                        }
                    }
                    (Ok(_), Err(_)) if is_number => {
                        let title = format!("{} is no offset: {offset}", subject(&path));
                        self.push(self.error("W0109", &path, title));
                        all_good = false;
                    }
                    _ => {
                        let title =
                            format!("`{}` is not the number of a partition", shorten(&partition));
                        self.push(
                            self.error("W0109", &path, title)
                                .help("write `{TOPIC: {0: OFFSET, 1: OFFSET}}`"),
                        );
                        all_good = false;
                    }
                }
            }
            offsets.insert(topic, of_topic);
        }
        all_good.then_some(offsets)
    }

    fn start_before_stop(&self, path: &[&str], start: &KafkaOffsets, stop: &KafkaOffsets) {
        for (topic, partitions) in stop {
            for (partition, stop) in partitions {
                let start = start.get(topic).and_then(|start| start.get(partition));
                if let Some(start) = start.filter(|start| *start > stop) {
                    let number = partition.to_string();
                    let path = [path, &["offsets", topic, &number]].concat();
                    let title = format!("{} is before the start", subject(&path));
                    self.push(
                        self.error("W0120", &path, title)
                            .note(format!("`start` is at {start}, `stop` at {stop}")),
                    );
                }
            }
        }
    }

    /// The names of topics at `path`: some, and none twice.
    pub(super) fn topic_names(&self, path: &[&str], names: Vec<String>) -> Option<Vec<String>> {
        if names.is_empty() {
            self.push(self.error("W0109", path, format!("{} is empty", subject(path))));
            return None;
        }
        let mut seen = HashSet::new();
        let good: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(index, name)| {
                let index = index.to_string();
                let path = below(path, &index);
                let name = self.topic_name(&path, name.clone())?;
                if !seen.insert(name.clone()) {
                    self.misplaced(&path, "is the same topic again");
                    return None;
                }
                Some(name)
            })
            .collect();
        good.into_iter().collect()
    }
}
