//! What outlives an operator: its state and its timers, in ordered maps.

use std::collections::BTreeMap;

use crate::bindings::weir::operator::types::TimeDomain;

/// A timer that is set. The fields are in the order in which timers of one clock fire.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pending {
    /// When it is due, in milliseconds since the epoch.
    pub time: i64,
    pub(super) hash: u64,
    /// Its key.
    pub key: Vec<u8>,
    /// Its position among the declared timers.
    pub timer: usize,
    /// Its namespace; empty if it was set without one.
    pub namespace: Vec<u8>,
}

/// How a timer that was set while timers fired takes part in that advance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) generation: u32,
    /// Not in this advance, but in the next.
    pub(super) waits: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) state: u32,
    pub(super) key: Vec<u8>,
    pub(super) namespace: Vec<u8>,
    pub(super) part: Part,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Value,
    Item(u64),
    Entry(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) bytes: Vec<u8>,
    pub(super) expires: Option<i64>,
}

impl Cell {
    pub(super) fn is_live(&self, processing_time: i64) -> bool {
        self.expires.is_none_or(|expires| processing_time < expires)
    }
}

/// What outlives the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) cells: BTreeMap<Place, Cell>,
    pub(super) timers: [BTreeMap<Pending, Chain>; 2],
}

impl Kept {
    pub(super) fn timers(&self, domain: TimeDomain) -> impl Iterator<Item = &Pending> {
        self.timers[domain as usize].keys()
    }

    /// Puts a cell there or takes it away, and returns what was there.
    pub(super) fn set_cell(&mut self, place: Place, cell: Option<Cell>) -> Option<Cell> {
        match cell {
            Some(cell) => self.cells.insert(place, cell),
            None => self.cells.remove(&place),
        }
    }

    /// Registers a timer or removes it, and returns how it was registered.
    pub(super) fn set_timer(
        &mut self,
        domain: TimeDomain,
        timer: Pending,
        chain: Option<Chain>,
    ) -> Option<Chain> {
        let timers = &mut self.timers[domain as usize];
        match chain {
            Some(chain) => timers.insert(timer, chain),
            None => timers.remove(&timer),
        }
    }

    pub(super) fn drop_timers(&mut self, domain: TimeDomain) -> usize {
        std::mem::take(&mut self.timers[domain as usize]).len()
    }

    /// Timers that waited for the next advance wait no longer.
    pub(super) fn end_advance(&mut self, domain: TimeDomain) {
        self.timers[domain as usize]
            .values_mut()
            .for_each(|chain| chain.waits = false);
    }

    /// A new advance to a later time begins new chains.
    pub(super) fn begin_advance(&mut self, domain: TimeDomain) {
        self.timers[domain as usize]
            .values_mut()
            .for_each(|chain| *chain = Chain::default());
    }
}
