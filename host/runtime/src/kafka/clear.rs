//! Ending what the transactional ids of a job have left open.
//!
//! A transaction that was left open holds up every reader of committed records, until the broker's timeout or the job's next start. For a
//! job that will not be started again, or not soon, this does of a start only what ends it: each of its ids is
//! initialized, which aborts what is open and completes what was being committed.

use std::time::Duration;

use super::Error;
use super::outputs::DEFAULT_MAX_BYTES;
use super::producers::{Producer, ProducerSettings};
use crate::checkpoint::KafkaPoint;
use crate::clock;
use crate::job::model::{KafkaCompression, KafkaConnection};

/// Ends what the ids that begin with `prefix` have open, and shuts out whoever has them. Tries for as long as `patience`. Transactions of
/// the job last `timeout`. Gives the ids.
///
/// # Errors
/// The cluster cannot be reached, does not let us, or cannot do it in time.
pub fn clear(
    connection: &KafkaConnection,
    prefix: &str,
    timeout: Duration,
    patience: Duration,
) -> Result<[String; 2], Error> {
    let settings = ProducerSettings {
        queue_bytes: DEFAULT_MAX_BYTES,
        delivery_timeout: timeout,
        compression: KafkaCompression::None,
        smallest_topic_limit: DEFAULT_MAX_BYTES,
        largest_topic_limit: DEFAULT_MAX_BYTES,
    };
    let deadline = clock::now() + patience;
    let go_on = || clock::now() < deadline;
    let ids = [0, 1].map(|number| KafkaPoint::id_of(prefix, number));
    for id in &ids {
        drop(Producer::transactional(
            connection, &settings, id, timeout, &go_on,
        )?);
    }
    Ok(ids)
}
