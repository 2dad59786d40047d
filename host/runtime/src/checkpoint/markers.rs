//! What the driver needs of a commit point in Kafka. Implemented where the client is.

use std::io;

use super::commit_point::{KafkaPoint, Marker, MarkerFound};

/// Whether this attempt's producers are still the newest instances of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// They are.
    Ours,
    /// Others have begun since, or the broker has given up on ours.
    Fenced,
}

/// The markers of a job and the transactions that carry them.
pub trait Markers: Send + Sync {
    /// The newest marker that can be read at once: transactions that are open may hide a newer one.
    ///
    /// # Errors
    /// The cluster cannot be reached, or refuses.
    fn peek(&self, at: &KafkaPoint) -> io::Result<MarkerFound>;

    /// Gives up the producers of the attempt before, and begins with new ones at each of `points`: what was open is aborted, what was being
    /// committed is completed, and no other instance can commit any more. Those of the last point are the attempt's.
    ///
    /// # Errors
    /// As for [`Markers::peek`]. It waits for brokers that come back, as long as nobody asks the job to stop.
    fn fence(&self, points: &[KafkaPoint]) -> io::Result<Standing>;

    /// The newest marker of all that were committed up to now. Waits for transactions of other jobs that are open before the end.
    ///
    /// # Errors
    /// As for [`Markers::fence`].
    fn read(&self, at: &KafkaPoint) -> io::Result<MarkerFound>;

    /// Commits a marker in a transaction of its own.
    ///
    /// # Errors
    /// It failed, or whether it is committed is not known.
    fn write(&self, marker: &Marker) -> io::Result<Standing>;

    /// Commits the transaction that carries checkpoint `marker.n`, its marker with it. Blocks until that is certain or given up.
    ///
    /// It is called on a thread of its own, which may outlive its attempt: once [`Markers::fence`] has begun it must fail, and never touch
    /// the producers that follow. `marker.attempt` tells: theirs is the attempt of the first marker that they write.
    ///
    /// # Errors
    /// Whether it is committed is not known: the attempt must end, and recovery finds out. Also if it is, but only on a second try: the
    /// first may still be under way, and would commit whatever the producer has open when it arrives. Why, for a message.
    fn commit(&self, marker: &Marker) -> Result<(), String>;
}
