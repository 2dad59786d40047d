//! Keeping frozen rows: what a snapshot needs of a row before it is changed.
//!
//! A barrier moves the *stamp* on. From then on a row with another stamp is frozen: it has not been
//! changed since the barrier and the snapshot has not seen it. Whoever changes, removes or visits
//! such a row first copies it into the snapshot's rows and gives it the new stamp. So every frozen
//! row is copied once, by the cursor or by the first write, whoever comes first, and nothing has to
//! wait for the cursor. While no snapshot is under way all rows have the current stamp.

use super::annex::{Row, Timer, cell_parts};
use super::timer_key::timer_parts;
use crate::snapshot::{GroupRows, Header};
use crate::stored_key::{Table, time_suffix};
use crate::stored_value::StoredValue;
use crate::timers::Registration;

/// A snapshot under way.
#[derive(Debug)]
pub(super) struct Capture {
    pub(super) header: Header,
    /// What was copied so far, by group of the range.
    pub(super) groups: Vec<GroupRows>,
}

/// Keeps the rows of one key.
pub(super) struct Keeper<'a> {
    pub(super) stamp: u32,
    pub(super) capture: Option<&'a mut Capture>,
    /// In the range.
    pub(super) group: usize,
    pub(super) key: &'a [u8],
}

impl Keeper<'_> {
    /// To be called before a row is changed or goes.
    #[inline]
    pub(super) fn row(&mut self, cell: &[u8], table: Table, suffix: &[u8], row: &mut Row) {
        if row.stamp != self.stamp {
            row.stamp = self.stamp;
            let (state, namespace) = cell_parts(cell);
            self.keep(table, state, namespace, suffix, row.expiry, &row.bytes);
        }
    }

    /// Copies a row that is frozen.
    pub(super) fn keep(
        &mut self,
        table: Table,
        state: u16,
        namespace: Option<&[u8]>,
        suffix: &[u8],
        expiry: Option<i64>,
        bytes: &[u8],
    ) {
        let Some(capture) = &mut self.capture else {
            return;
        };
        let group = capture.header.range.start + self.group as u16;
        let value = StoredValue {
            version: capture.header.schema.states[usize::from(state)].version,
            expiry,
            bytes,
        };
        capture.groups[self.group].push_row(
            (group, table, state),
            self.key,
            namespace,
            suffix,
            &value,
        );
    }

    /// To be called before a timer is changed or goes.
    #[inline]
    pub(super) fn timer(&mut self, key: &[u8], timer: &mut Timer) {
        if timer.stamp == self.stamp {
            return;
        }
        timer.stamp = self.stamp;
        let Some(capture) = &mut self.capture else {
            return;
        };
        let group = capture.header.range.start + self.group as u16;
        let (time, index, namespace) = timer_parts(key);
        let Registration { chain, waits } = timer.registration();
        capture.groups[self.group].push_timer(
            (group, Table::Timers, index),
            self.key,
            namespace,
            &time_suffix(time),
            (chain, waits),
        );
    }
}
