//! What an open call has written, and how its reads see it.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::merge::merge;
use crate::snapshot::Rows;
use crate::timers::{Registration, TimerKey};
use crate::{CALL_BUDGET, Error};

/// The writes of an open call by stored key; `None` deletes.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    pub(super) rows: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// By time domain. `None` cancels.
    pub(super) timers: [BTreeMap<TimerKey, Option<Registration>>; 2],
    /// Bytes that the operator has written in this call, overwritten ones included.
    written: usize,
}

impl Overlay {
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.timers.iter_mut().for_each(BTreeMap::clear);
        self.written = 0;
    }

    /// Takes bytes out of the call's budget.
    pub(super) fn spend(&mut self, bytes: usize) -> Result<(), Error> {
        self.written = self.written.saturating_add(bytes);
        if self.written > CALL_BUDGET {
            return Err(Error::Budget {
                what: "what the call writes",
                limit: CALL_BUDGET,
            });
        }
        Ok(())
    }
}

/// The rows of one key group as an open call sees them.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) base: &'a Rows,
    pub(super) overlay: &'a BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

/// A stored key and its stored value.
pub(super) type Row<'a> = (&'a [u8], &'a [u8]);

impl<'a> View<'a> {
    pub(super) fn get(self, key: &[u8]) -> Option<&'a [u8]> {
        match self.overlay.get(key) {
            Some(written) => written.as_deref(),
            None => self.base.get(key).map(Vec::as_slice),
        }
    }

    /// The rows in `start..end`, by rising or falling key.
    pub(super) fn range(
        self,
        start: &[u8],
        end: &[u8],
        descending: bool,
    ) -> Box<dyn Iterator<Item = Row<'a>> + 'a> {
        if start >= end {
            return Box::new(std::iter::empty());
        }
        let bounds = (Bound::Included(start), Bound::Excluded(end));
        let base = self
            .base
            .range::<[u8], _>(bounds)
            .map(|(key, value)| (key.as_slice(), Some(value.as_slice())));
        let overlay = self
            .overlay
            .range::<[u8], _>(bounds)
            .map(|(key, value)| (key.as_slice(), value.as_deref()));
        if descending {
            Box::new(merge(base.rev(), overlay.rev(), true))
        } else {
            Box::new(merge(base, overlay, false))
        }
    }
}
