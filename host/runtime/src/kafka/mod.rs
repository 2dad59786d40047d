//! Kafka: clients, what is known of a cluster, and the transactions and markers that make output exactly-once.
//!
//! The client is librdkafka, by the `rdkafka` crate. [`client`] makes its settings from a job file's and listens to its troubles,
//! [`cluster`] looks up topics and settings of brokers without ever creating a data topic. What the crate does not wrap is in `ffi`,
//! the only place here with unsafe code. [`producers`] send and commit, [`commits`] is the commit
//! point, [`preflight`] checks before a start what they will need, and
//! hands it on as [`outputs`]; [`acls`] are the commands that grant what is not permitted,
//! [`clear`](clear()) ends what a job that does not run has left open.

pub mod acls;
mod clear;
pub mod client;
pub mod cluster;
pub mod commits;
mod error;
mod ffi;
pub mod outputs;
pub mod preflight;
pub mod producers;

pub use clear::clear;
pub use client::Context;
pub use cluster::{Cluster, Topic, TopicId};
pub use error::Error;
pub(crate) use error::is_passing;
pub use outputs::Outputs;
pub use producers::Transactions;
