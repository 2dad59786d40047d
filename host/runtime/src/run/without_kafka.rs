//! Stands in for `kafka.rs` where Weir is built without Kafka: a job file that names it was refused when it was read.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::own::Decided;
use super::{Guarantee, Refused};
use crate::attempt::{Beginning, Blueprint};

/// Nothing.
pub(super) struct Kafka;

impl Kafka {
    /// Nothing.
    pub(super) fn new(_: Arc<AtomicBool>) -> Kafka {
        Kafka
    }

    /// Commits are decided in checkpoint storage.
    pub(super) fn look_up(&mut self, _: &mut Blueprint, _: &Guarantee) -> Result<Decided, Refused> {
        Ok(Decided::default())
    }

    /// There are no transactions.
    pub(super) fn lend(&self, _: &mut Beginning) {}
}
