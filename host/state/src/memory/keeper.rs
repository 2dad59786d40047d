//! Keeping frozen rows, and noting changed ones: what snapshots need whenever a row is changed.
//!
//! Every row has a *stamp*. [`Keeper::stamp`], which is odd, moves on by two with each barrier and
//! is given to each row that is changed. So a row with another stamp was not changed since the last
//! barrier, and its first change is where all work is done: it is noted for the next snapshot
//! ([`Dirty`]), and, while a snapshot is under way, copied into it unless the cursor has been there.
//! Where the cursor has been, rows have the even stamp just below, the snapshot's *mark*. So every
//! frozen row is copied once, by the cursor or by the first write, whoever comes first, and nothing
//! has to wait for the cursor.
//!
//! A row whose stamp is above the mark of an earlier snapshot may have changed since that one, and
//! one whose stamp is not has not. (What a later snapshot has visited meanwhile counts as changed:
//! a row too many in a file does no harm.)

use super::annex::{Row, Timer, cell_parts};
use super::capture::Capture;
use super::dirty::{ChangedRow, Dirty};
use super::store::SlotId;
use super::timer_key::timer_parts;
use crate::snapshot::Place;
use crate::stored_key::{Table, time_suffix};
use crate::stored_value::StoredValue;
use crate::timers::Registration;

/// Keeps and notes the rows of one key.
pub(super) struct Keeper<'a> {
    /// What is written now.
    pub(super) stamp: u32,
    pub(super) capture: Option<&'a mut Capture>,
    pub(super) dirty: &'a mut Dirty,
    /// In the range.
    pub(super) group: usize,
    /// Its number in the job.
    pub(super) number: u16,
    pub(super) slot: SlotId,
    pub(super) key: &'a [u8],
}

impl Keeper<'_> {
    /// To be called before a row is changed.
    #[inline]
    pub(super) fn row(&mut self, cell: &[u8], table: Table, suffix: &[u8], row: &mut Row) {
        if row.stamp != self.stamp {
            self.save(cell, table, suffix, row);
            row.stamp = self.stamp;
            self.note(cell, table, suffix);
        }
    }

    /// To be called when a row is new.
    pub(super) fn new_row(&mut self, cell: &[u8], table: Table, suffix: &[u8]) {
        self.note(cell, table, suffix);
    }

    /// To be called before a row goes.
    pub(super) fn gone(&mut self, cell: &[u8], table: Table, suffix: &[u8], row: &Row) {
        self.save(cell, table, suffix, row);
        let (state, namespace) = cell_parts(cell);
        let place = (self.number, table, state);
        self.dirty.gone(place, self.key, namespace, suffix);
    }

    /// To be called before a row goes with its cell.
    pub(super) fn save(&mut self, cell: &[u8], table: Table, suffix: &[u8], row: &Row) {
        if self.wants(row.stamp) {
            let (state, namespace) = cell_parts(cell);
            self.keep(table, state, namespace, suffix, row.expiry, &row.bytes);
        }
    }

    /// To be called when a cell of items or entries goes.
    pub(super) fn cell_gone(&mut self, cell: &[u8], table: Table) {
        let (state, namespace) = cell_parts(cell);
        let place = (self.number, table, state);
        self.dirty.cell_gone(place, self.key, namespace);
    }

    /// The cursor is here.
    pub(super) fn visit(&mut self, cell: &[u8], table: Table, suffix: &[u8], row: &mut Row) {
        let mark = self.mark();
        if row.stamp < mark {
            row.stamp = mark;
            let (state, namespace) = cell_parts(cell);
            self.keep(table, state, namespace, suffix, row.expiry, &row.bytes);
        }
    }

    /// To be called before a timer is changed.
    pub(super) fn timer(&mut self, key: &[u8], timer: &mut Timer) {
        if timer.stamp != self.stamp {
            self.save_timer(key, timer);
            timer.stamp = self.stamp;
            self.note(key, Table::Timers, &[]);
        }
    }

    /// To be called when a timer is new.
    pub(super) fn new_timer(&mut self, key: &[u8]) {
        self.note(key, Table::Timers, &[]);
    }

    /// To be called before a timer goes.
    pub(super) fn timer_gone(&mut self, key: &[u8], timer: &Timer) {
        self.save_timer(key, timer);
        if !self.dirty.lost {
            let (time, index, namespace) = timer_parts(key);
            let place = (self.number, Table::Timers, index);
            self.dirty
                .gone(place, self.key, Some(namespace), &time_suffix(time));
        }
    }

    fn save_timer(&mut self, key: &[u8], timer: &Timer) {
        if self.wants(timer.stamp) {
            self.keep_timer(key, timer);
        }
    }

    /// The cursor is here.
    pub(super) fn visit_timer(&mut self, key: &[u8], timer: &mut Timer) {
        let mark = self.mark();
        if timer.stamp < mark {
            timer.stamp = mark;
            self.keep_timer(key, timer);
        }
    }

    fn mark(&self) -> u32 {
        self.stamp - 1
    }

    #[inline]
    fn wants(&self, stamp: u32) -> bool {
        let capture = self.capture.as_ref();
        capture.is_some_and(|capture| capture.wants(self.group, stamp))
    }

    fn note(&mut self, cell: &[u8], table: Table, suffix: &[u8]) {
        self.dirty.row(|| ChangedRow {
            slot: self.slot,
            table,
            cell: cell.into(),
            suffix: suffix.into(),
        });
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
        let value = StoredValue {
            version: capture.header.schema.states[usize::from(state)].version,
            expiry,
            bytes,
        };
        let place: Place = (self.number, table, state);
        let rows = &mut capture.groups[self.group];
        rows.push_row(place, self.key, namespace, suffix, &value);
    }

    fn keep_timer(&mut self, key: &[u8], timer: &Timer) {
        let Some(capture) = &mut self.capture else {
            return;
        };
        let (time, index, namespace) = timer_parts(key);
        let Registration { chain, waits } = timer.registration();
        let place: Place = (self.number, Table::Timers, index);
        let rows = &mut capture.groups[self.group];
        rows.push_timer(
            place,
            self.key,
            namespace,
            &time_suffix(time),
            (chain, waits),
        );
    }
}
