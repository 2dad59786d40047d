//! Kafka in and out, against a real broker: each module is named by what it proves.
#![cfg(feature = "kafka")]

mod beyond_timeouts;
mod broker;
mod cases;
mod clear;
mod copying;
mod fixture;
mod hands;
mod permissions;
mod producers;
mod proofs;
mod proxy;
mod reading;
mod security;
mod shared_commit_topic;
mod sink;
mod soak;
mod source;
mod source_jobs;
