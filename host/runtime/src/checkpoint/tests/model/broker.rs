//! A cluster: two transactional ids, an output topic and a commit topic.
//!
//! A request to end a transaction may be answered, carried out without an answer, or be under way for long: it arrives at any later
//! moment, also when the transaction that it was meant for is over. The broker takes it if the epoch is the current one and a
//! transaction is open, whichever that is. Epochs change with `init_transactions` and with a transaction that times out, not from one
//! transaction to the next.

use crate::checkpoint::commit_point::{KafkaPoint, Marker, MarkerFound};

/// What becomes of a request to commit a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::checkpoint::tests) enum Fate {
    /// It is carried out and answered.
    Answered,
    /// It is carried out, the answer is lost.
    Lost,
    /// It is under way when the client gives up.
    Late,
    /// It is carried out twice: the client saw a timeout and sent it again. The first one is still under way.
    Repeated,
}

/// What the client knows afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// It is committed.
    Done,
    /// The broker knows a newer instance of the producer.
    Fenced,
    /// Whether it is committed is not known, or not from a first answer.
    Unclear,
}

#[derive(Clone, Debug, Default)]
struct Producer {
    epoch: u32,
    open: Option<Transaction>,
}

#[derive(Clone, Debug, Default)]
struct Transaction {
    records: Vec<u64>,
    marker: Option<Marker>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(in crate::checkpoint::tests) struct Broker {
    producers: [Producer; 2],
    /// What readers of the output topic see.
    pub(in crate::checkpoint::tests) output: Vec<u64>,
    /// What readers of the commit topic see.
    marker: Option<Marker>,
    /// Requests to commit that are under way: producer and epoch.
    late: Vec<(usize, u32)>,
}

/// Where the job of the model commits.
pub(super) fn point() -> KafkaPoint {
    KafkaPoint {
        cluster: "c".to_owned(),
        topic: "weir-commits".to_owned(),
        topic_id: "t".to_owned(),
        partition: 0,
        ids: "weir-j".to_owned(),
    }
}

impl Broker {
    /// `init_transactions`: what was open is aborted, and only the new epoch is served.
    pub(super) fn init(&mut self, id: usize) -> u32 {
        let producer = &mut self.producers[id];
        producer.open = None;
        producer.epoch += 1;
        producer.epoch
    }

    /// The epoch of an id, for those who go on with it without asking.
    pub(super) fn epoch(&self, id: usize) -> u32 {
        self.producers[id].epoch
    }

    /// Whether a transaction can time out.
    pub(super) fn is_open(&self, id: usize) -> bool {
        self.producers[id].open.is_some()
    }

    fn transaction(&mut self, id: usize, epoch: u32) -> Option<&mut Transaction> {
        let producer = &mut self.producers[id];
        (producer.epoch == epoch).then(|| producer.open.get_or_insert_default())
    }

    /// Whether it was taken.
    pub(super) fn produce(&mut self, id: usize, epoch: u32, record: u64) -> bool {
        let transaction = self.transaction(id, epoch);
        transaction.map(|it| it.records.push(record)).is_some()
    }

    /// Whether it was taken.
    pub(super) fn produce_marker(&mut self, id: usize, epoch: u32, marker: Marker) -> bool {
        let transaction = self.transaction(id, epoch);
        transaction.map(|it| it.marker = Some(marker)).is_some()
    }

    /// A request to commit arrives. Returns the marker that became visible.
    pub(super) fn commit(&mut self, id: usize, epoch: u32) -> Option<Marker> {
        let producer = &mut self.producers[id];
        if producer.epoch != epoch {
            return None;
        }
        let transaction = producer.open.take()?;
        self.output.extend(transaction.records);
        if let Some(marker) = &transaction.marker {
            self.marker = Some(marker.clone());
        }
        transaction.marker
    }

    pub(super) fn send_late(&mut self, id: usize, epoch: u32) {
        self.late.push((id, epoch));
        // The order in which they were sent says nothing about when they arrive.
        self.late.sort_unstable();
    }

    /// How many requests are under way.
    pub(super) fn under_way(&self) -> usize {
        self.late.len()
    }

    /// Takes the `k`-th of them.
    pub(super) fn arrives(&mut self, k: usize) -> (usize, u32) {
        self.late.remove(k)
    }

    pub(super) fn read(&self) -> MarkerFound {
        self.marker.clone().map(Ok)
    }
}
