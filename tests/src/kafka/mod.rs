//! A real Apache Kafka broker for tests, and eyes and hands of the tests' own in it.
//!
//! * [`Broker`] is one; an [`OwnBroker`] can be killed, frozen and restarted; [`Options`] say what is special about it;
//! * [`Topics`] are a test's own topics: created, filled, read to their end, deleted under a reader's hands;
//! * [`Record`] is what is written and read, nulls and empty values told apart;
//! * a [`Proxy`] stands between a client and a broker, and delays, drops and cuts what a [`Rule`] names;
//! * [`tools`] runs Kafka's own command-line tools;
//! * [`groups`] says what a consumer group has committed.
//!
//! One broker serves a test binary, each test with topics of its own; those who do harm to a broker start one for themselves.
//! `WEIR_TEST_KAFKA=host:port` names an existing one, without encryption, to be used instead; tests that need more than that are then
//! skipped and say so.

mod admin;
mod broker;
mod console;
pub mod groups;
mod proxy;
mod records;
pub mod tools;
mod topics;

pub use broker::{Broker, Certificates, Options, OwnBroker, PASSWORD, USERS};
pub use proxy::{Api, Proxy, Rule, When};
pub use records::{Isolation, Record};
pub use topics::Topics;
