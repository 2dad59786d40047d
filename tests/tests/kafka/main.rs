//! Kafka in and out, against a real broker: each module is named by what it proves.
#![cfg(feature = "kafka")]

mod broker;
mod clear;
mod fixture;
mod producers;
mod proxy;
mod reading;
mod security;
mod shared_commit_topic;
mod sink;
mod soak;
mod source;
mod source_jobs;
