//! What interrupts reading: troubles, partitions and topics that come and go, positions that are gone, ends.

use rdkafka::error::RDKafkaErrorCode as Code;

use super::{Partition, Partitions, QUESTION, Stage};
use crate::batch::NO_TIME;
use crate::source::kafka::offsets::Offsets;
use crate::source::kafka::{Position, granting_group};
use crate::source::{Emit, Error};
use crate::{clock, kafka, log};

/// What interrupts reading: an error of a partition, or its end.
pub(super) enum Event {
    /// The partition with this index stands where it is to stop.
    Stop(usize),
    Error {
        topic: String,
        partition: i32,
        code: Code,
        offset: i64,
        text: String,
    },
}

impl Partitions {
    /// A trouble of the client. librdkafka tries again by itself, unless it is not let in.
    pub(super) fn trouble(&mut self, error: &rdkafka::error::KafkaError) -> Result<(), Error> {
        let code = error.rdkafka_error_code();
        match code {
            Some(Code::GroupAuthorizationFailed) => {
                if !std::mem::replace(&mut self.is_group_refused, true) {
                    log::warn(&format!(
                        "source `{}`: we may not use group `{}`, so tools show no lag of it; it is granted by {}",
                        self.source,
                        self.kafka.group,
                        granting_group(&self.kafka)
                    ));
                }
                Ok(())
            }
            Some(
                Code::Authentication
                | Code::SaslAuthenticationFailed
                | Code::TopicAuthorizationFailed,
            )
            | None => Err(self.failed("cannot read", error)),
            Some(_)
                if matches!(
                    error,
                    rdkafka::error::KafkaError::MessageConsumptionFatal(_)
                ) =>
            {
                Err(self.failed("cannot read", error))
            }
            Some(_) => {
                if self.trouble.begins(clock::now()) {
                    let text = self.failed("cannot read just now", error).to_string();
                    log::warn(&format!(
                        "[W0901] {text}; the job goes on, and reads again when brokers answer"
                    ));
                }
                Ok(())
            }
        }
    }

    /// A partition has appeared, and is ours.
    pub(super) fn found(&mut self, position: Position, emit: &mut dyn Emit) -> Result<(), Error> {
        let name = position.name();
        log::info(&format!(
            "source `{}`: {name} has appeared and is read from its beginning",
            self.source
        ));
        let split = self.next_split;
        self.next_split += self.subtask.1;
        // A deleted topic that was created again, of a pattern.
        if let Some(index) = self.find(&position.topic, position.partition) {
            self.partitions.remove(index);
            self.forget_places();
        }
        self.partitions.push(Partition {
            split,
            origin: emit.origin(&name, "offset"),
            position,
            max_time: NO_TIME,
            stage: Stage::Reading,
            quiet_since: None,
            is_idle: false,
        });
        emit.opened(split);
        self.assign(&[self.partitions.len() - 1])
    }

    /// A topic was deleted, and that is no reason to stop.
    pub(super) fn gone(&mut self, topic: &str, emit: &mut dyn Emit) -> Result<(), Error> {
        log::warn(&format!(
            "source `{}`: topic `{topic}` was deleted; what was not read of it is lost",
            self.source
        ));
        for index in 0..self.partitions.len() {
            let partition = &mut self.partitions[index];
            if partition.position.topic == topic && partition.stage == Stage::Reading {
                partition.stage = Stage::Left;
                emit.done(partition.split);
                self.unassign(index)?;
            }
        }
        Ok(())
    }

    /// The position of this partition is not to be had any more: goes on elsewhere, if that is accepted.
    pub(super) fn judge(&mut self, index: usize) -> Result<(), Error> {
        let partition = &self.partitions[index];
        if partition.stage != Stage::Reading {
            return Ok(());
        }
        let position = &partition.position;
        let place = (position.topic.as_str(), position.partition);
        let checked = Offsets::new(&self.source, &self.kafka, QUESTION)
            .and_then(|offsets| offsets.check(&self.source, &self.kafka, place, position.next));
        match checked {
            Ok((next, warning)) => {
                if let Some(warning) = warning {
                    log::warn(&format!("[W0603] {warning}"));
                }
                self.forget_places();
                let position = &mut self.partitions[index].position;
                position.next = next;
                let restarted = self
                    .fetcher
                    .restart(&position.topic, position.partition, next);
                restarted.map_err(|error| self.failed("cannot go on", &error))
            }
            Err(error) if error.may_pass() => {
                self.lost.push(index);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn event(&mut self, event: Event, emit: &mut dyn Emit) -> Result<(), Error> {
        let (topic, partition, code, offset, text) = match event {
            Event::Stop(index) => return self.stop(index, emit),
            Event::Error {
                topic,
                partition,
                code,
                offset,
                text,
            } => (topic, partition, code, offset, text),
        };
        let Some(index) = self.find(&topic, partition) else {
            return Ok(());
        };
        match code {
            Code::PartitionEOF => {
                let partition = &mut self.partitions[index];
                if partition.stage != Stage::Reading {
                    return Ok(());
                }
                // What stands before the end and was not handed over is no record that we may see.
                partition.position.next = partition.position.next.max(offset);
                partition.quiet_since.get_or_insert_with(clock::now);
                if partition.position.is_at_stop() {
                    return self.stop(index, emit);
                }
                Ok(())
            }
            Code::AutoOffsetReset | Code::OffsetOutOfRange => self.judge(index),
            Code::UnknownTopicOrPartition
            | Code::UnknownTopic
            | Code::UnknownPartition
            | Code::UnknownTopicId => {
                if let Some(watch) = &self.watch {
                    watch.look();
                }
                self.passing(&topic, partition, &text);
                Ok(())
            }
            code if kafka::is_passing(code) => {
                self.passing(&topic, partition, &text);
                Ok(())
            }
            // Messages that are damaged among them: to go on could be to leave some out.
            _ => {
                let error = rdkafka::error::KafkaError::MessageConsumption(code);
                let what = format!("{topic}-{partition} cannot be read at offset {offset}: {text}");
                Err(self.failed(&what, &error))
            }
        }
    }

    /// Warns once of what should pass.
    fn passing(&mut self, topic: &str, partition: i32, text: &str) {
        if self.trouble.begins(clock::now()) {
            log::warn(&format!(
                "[W0905] source `{}`: {topic}-{partition} cannot be read just now: {text}; the job goes on, and tries again",
                self.source
            ));
        }
    }

    /// The partition was read to its end.
    pub(super) fn stop(&mut self, index: usize, emit: &mut dyn Emit) -> Result<(), Error> {
        let partition = &mut self.partitions[index];
        if partition.stage == Stage::Reading {
            partition.stage = Stage::Done;
            emit.done(partition.split);
            self.unassign(index)?;
        }
        Ok(())
    }
}
