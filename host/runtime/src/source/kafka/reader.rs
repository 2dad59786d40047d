//! Reads the partitions of a subtask.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;

use super::decode::Decoding;
use super::fetch::Fetcher;
use super::offsets;
use super::trouble::Trouble;
use super::watch::{News, Watch};
use super::{Position, client_id, told};
use crate::batch::Origin;
use crate::job::model::{self, KafkaSource, NodeId};
use crate::source::{Emit, Error, Progress, Reader, SplitState, Subtask};
use crate::{clock, kafka, log};

mod events;

use events::Event;

/// How often a reader looks at what is not records: troubles, news, idleness.
const LOOK_AROUND: Duration = Duration::from_millis(50);

/// How long a question about offsets may hold up reading.
const QUESTION: Duration = Duration::from_secs(1);

/// Bytes that are read ahead at least and at most.
const READ_AHEAD: std::ops::RangeInclusive<u64> = (2 << 20)..=(64 << 20);

/// Whether a partition is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Reading,
    /// To its end.
    Done,
    /// No longer, and its position stays recorded: the job file does not name its topic any more, or the topic was deleted.
    Left,
}

struct Partition {
    split: u32,
    /// Its number in origins of records.
    origin: u32,
    position: Position,
    /// As recorded.
    max_time: i64,
    stage: Stage,
    /// Since when there has been nothing to read: it stands at the end.
    quiet_since: Option<Instant>,
    /// Whether it was said to be idle since its last record.
    is_idle: bool,
}

/// The reader of a Kafka source's subtask.
pub(in crate::source) struct Partitions {
    source: NodeId,
    kafka: KafkaSource,
    decoding: Decoding,
    fetcher: Fetcher,
    partitions: Vec<Partition>,
    /// The partition that was read last, by what its messages know it by, and all others so far.
    last: ((usize, i32), usize),
    places: HashMap<(usize, i32), usize>,
    /// By index: positions that are gone and could not be judged yet.
    lost: Vec<usize>,
    idle_after: Option<Duration>,
    subtask: (u32, u32),
    /// Number of the next partition that this subtask finds.
    next_split: u32,
    /// What the attempt began with, of all subtasks, until the watch has it.
    all: Vec<Position>,
    watch: Option<Watch>,
    look_at: Option<Instant>,
    /// With brokers or partitions.
    trouble: Trouble,
    is_group_refused: bool,
}

/// No partition.
const NOWHERE: ((usize, i32), usize) = ((0, -1), 0);

fn consumer_settings(
    source: &NodeId,
    kafka: &KafkaSource,
    read_ahead: u64,
) -> Result<ClientConfig, Error> {
    let mut config = offsets::settings(source, kafka)?;
    let half = read_ahead.clamp(*READ_AHEAD.start(), *READ_AHEAD.end()) / 2;
    config
        .set("group.id", &kafka.group)
        // So that positions pass what is no record: ends of transactions, and what was aborted.
        .set("enable.partition.eof", "true")
        // What waits in the queue, and what is on its way into it.
        .set("queued.max.messages.kbytes", (half / 1024).to_string());
    let defaults = [
        ("fetch.max.bytes", half.to_string()),
        // A batch that is larger than the above comes whole, alone.
        ("receive.message.max.bytes", "1000000000".to_owned()),
        // librdkafka looks at a full queue again after this, by default a second: with a queue of a bounded size it would mostly wait.
        ("fetch.queue.backoff.ms", "10".to_owned()),
        ("log.connection.close", "false".to_owned()),
    ];
    for (name, value) in defaults {
        if !kafka.connection.properties.contains_key(name) {
            config.set(name, value);
        }
    }
    Ok(config)
}

impl Partitions {
    pub(in crate::source) fn open(
        source: &model::Source,
        kafka: &KafkaSource,
        splits: Vec<SplitState>,
        subtask: Subtask<'_>,
    ) -> Result<Partitions, Error> {
        let id = &source.id;
        let positions = |splits: &[SplitState]| -> Result<Vec<Position>, Error> {
            splits.iter().map(|split| Position::of(id, split)).collect()
        };
        let mut partitions = Vec::with_capacity(splits.len());
        for (split, position) in splits.iter().zip(positions(&splits)?) {
            let stage = if split.done || position.is_at_stop() {
                Stage::Done
            } else if kafka.topics.contain(&position.topic) {
                Stage::Reading
            } else {
                Stage::Left
            };
            partitions.push(Partition {
                split: split.split,
                origin: subtask.first_split.saturating_add(split.split),
                position,
                max_time: split.max_time,
                stage,
                quiet_since: None,
                is_idle: false,
            });
        }
        let config = consumer_settings(id, kafka, subtask.read_ahead)?;
        Ok(Partitions {
            source: id.clone(),
            kafka: kafka.clone(),
            decoding: Decoding::new(source)?,
            fetcher: Fetcher::new(&config, &client_id(id)).map_err(Error::Kafka)?,
            partitions,
            last: NOWHERE,
            places: HashMap::new(),
            lost: Vec::new(),
            idle_after: source.event_time.as_ref().map(|time| time.idle),
            subtask: (subtask.number, subtask.of),
            next_split: subtask.all.len() as u32 + subtask.number,
            all: positions(subtask.all)?,
            watch: None,
            look_at: None,
            trouble: Trouble::default(),
            is_group_refused: false,
        })
    }

    fn failed(&self, what: &str, error: &rdkafka::error::KafkaError) -> Error {
        let trouble = self.fetcher.consumer();
        let trouble = rdkafka::consumer::Consumer::context(trouble).trouble();
        let what = format!("source `{}`: {what}", self.source);
        let error = kafka::Error::of(&what, error, trouble.map(|(_, it)| it));
        told(&self.kafka, Error::Kafka(error))
    }

    /// Fetches the partitions with these indices from where they stand.
    fn assign(&mut self, indices: &[usize]) -> Result<(), Error> {
        self.forget_places();
        let at = |index: &usize| {
            let position = &self.partitions[*index].position;
            (position.topic.as_str(), position.partition, position.next)
        };
        self.fetcher
            .assign(indices.iter().map(at))
            .map_err(|error| self.failed("cannot begin to read", &error))
    }

    fn unassign(&mut self, index: usize) -> Result<(), Error> {
        self.forget_places();
        let position = &self.partitions[index].position;
        self.fetcher
            .unassign(&position.topic, position.partition)
            .map_err(|error| self.failed("cannot end reading", &error))
    }

    fn forget_places(&mut self) {
        self.places.clear();
        self.last = NOWHERE;
    }

    fn find(&self, topic: &str, partition: i32) -> Option<usize> {
        self.partitions
            .iter()
            .position(|it| it.position.partition == partition && it.position.topic == topic)
    }

    /// The first call: what is read holds the watermark from now on.
    fn begin(&mut self, emit: &mut dyn Emit) -> Result<(), Error> {
        let reading: Vec<usize> = (0..self.partitions.len())
            .filter(|&index| self.partitions[index].stage == Stage::Reading)
            .collect();
        for index in &reading {
            emit.opened(self.partitions[*index].split);
        }
        self.assign(&reading)?;
        let all = std::mem::take(&mut self.all);
        if self.kafka.discover.is_some() || !reading.is_empty() {
            let watch = Watch::start(&self.source, &self.kafka, self.subtask, &all)?;
            self.watch = Some(watch);
        }
        Ok(())
    }

    /// Everything that is not records.
    fn look_around(&mut self, now: Instant, emit: &mut dyn Emit) -> Result<(), Error> {
        if let Some(error) = self.fetcher.serve() {
            self.trouble(&error)?;
        }
        while let Some(news) = self.watch.as_ref().and_then(Watch::news) {
            match news {
                News::Failed(error) => return Err(error),
                News::Found(position) => self.found(position, emit)?,
                News::Gone(topic) => self.gone(&topic, emit)?,
            }
        }
        for index in std::mem::take(&mut self.lost) {
            self.judge(index)?;
        }
        if let Some(idle_after) = self.idle_after {
            for partition in &mut self.partitions {
                let is_quiet = partition
                    .quiet_since
                    .is_some_and(|since| now.saturating_duration_since(since) >= idle_after);
                if is_quiet && !partition.is_idle && partition.stage == Stage::Reading {
                    partition.is_idle = true;
                    emit.idle(partition.split);
                }
            }
        }
        Ok(())
    }

    /// Emits what there is until the receiver is full (`None`) or something else is to be done; how many were taken up is added to
    /// `taken`.
    fn records(&mut self, taken: &mut usize, emit: &mut dyn Emit) -> Result<Option<Pause>, Error> {
        loop {
            if emit.full() {
                return Ok(None);
            }
            let Some(message) = self.fetcher.next() else {
                return Ok(Some(Pause::Empty));
            };
            if let Some(code) = message.error() {
                return Ok(Some(Pause::Event(Event::Error {
                    topic: message.topic(),
                    partition: message.place().1,
                    code,
                    offset: message.offset(),
                    text: message.error_text(),
                })));
            }
            let place = message.place();
            if self.last.0 != place {
                let known = self.places.get(&place).copied();
                let known = known.or_else(|| {
                    let topic = message.topic();
                    self.partitions.iter().position(|it| {
                        it.position.partition == place.1 && it.position.topic == topic
                    })
                });
                // Of one that was given up meanwhile.
                let Some(index) = known else { continue };
                self.places.insert(place, index);
                self.last = (place, index);
            }
            let index = self.last.1;
            let partition = &mut self.partitions[index];
            let position = &mut partition.position;
            let offset = message.offset();
            if partition.stage != Stage::Reading || offset < position.next {
                continue;
            }
            if position.stop.is_some_and(|stop| offset >= stop) {
                return Ok(Some(Pause::Event(Event::Stop(index))));
            }
            *taken += 1;
            let origin = Origin::new(partition.origin, offset.unsigned_abs());
            let decoded = self
                .decoding
                .decode(message.key(), message.value(), message.timestamp());
            match decoded {
                Ok(record) => emit.record_with_headers(
                    partition.split,
                    record.key,
                    record.value,
                    &mut message.headers(),
                    record.time,
                    origin,
                ),
                Err(what) => {
                    let spot = (position.topic.as_str(), position.partition);
                    match self.decoding.refuse(spot, &message, &what)? {
                        None => emit.skipped(partition.split),
                        Some(letter) => emit.dead_letter(partition.split, &letter, origin),
                    }
                }
            }
            position.at += 1;
            position.next = offset + 1;
            partition.quiet_since = None;
            partition.is_idle = false;
            if position.is_at_stop() {
                return Ok(Some(Pause::Event(Event::Stop(index))));
            }
        }
    }
}

/// Why no more records were emitted, though there is room.
enum Pause {
    /// There are none just now.
    Empty,
    Event(Event),
}

impl Reader for Partitions {
    fn read(&mut self, emit: &mut dyn Emit) -> Result<Progress, Error> {
        let now = clock::now();
        if self.look_at.is_none_or(|at| now >= at) {
            if self.look_at.is_none() {
                self.begin(emit)?;
            }
            self.look_at = now.checked_add(LOOK_AROUND);
            self.look_around(now, emit)?;
        }
        let mut taken = 0;
        while let Some(pause) = self.records(&mut taken, emit)? {
            match pause {
                Pause::Event(event) => self.event(event, emit)?,
                Pause::Empty => break,
            }
        }
        if taken > 0 {
            if self.trouble.ends(now) {
                log::info(&format!("source `{}`: reads again", self.source));
            }
            return Ok(Progress::More);
        }
        let mut reading = self
            .partitions
            .iter()
            .filter(|it| it.stage == Stage::Reading);
        let is_quiet = |it: &Partition| it.quiet_since.is_some();
        Ok(match reading.next() {
            None if self.kafka.discover.is_none() => Progress::Ended,
            Some(first) if self.idle_after.is_some() => {
                if is_quiet(first) && reading.all(is_quiet) {
                    Progress::Idle
                } else {
                    Progress::Waiting
                }
            }
            _ => Progress::Idle,
        })
    }

    fn splits(&self) -> Vec<SplitState> {
        let one = |partition: &Partition| SplitState {
            split: partition.split,
            name: partition.position.name(),
            done: partition.stage == Stage::Done,
            max_time: partition.max_time,
            position: partition.position.to_json(),
        };
        let mut splits: Vec<SplitState> = self.partitions.iter().map(one).collect();
        splits.sort_by_key(|split| split.split);
        splits
    }

    fn share(&self) -> Option<(u64, u64)> {
        self.kafka.stop.as_ref()?;
        let (mut read, mut all) = (0, 0);
        for Partition { position, .. } in &self.partitions {
            let stop = position.stop.unwrap_or(position.next).max(position.first);
            all += stop.abs_diff(position.first);
            read += position
                .next
                .clamp(position.first, stop)
                .abs_diff(position.first);
        }
        Some((read, all))
    }

    fn lag(&self) -> Option<u64> {
        let mut lag = None;
        let reading = self
            .partitions
            .iter()
            .filter(|it| it.stage == Stage::Reading);
        for Partition { position, .. } in reading {
            if let Some(end) = self.fetcher.known_end(&position.topic, position.partition) {
                *lag.get_or_insert(0) += u64::try_from(end - position.next).unwrap_or(0);
            }
        }
        lag
    }
}
