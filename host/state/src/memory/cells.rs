//! Changing the cells and timers of a key. Every change keeps the frozen row first and keeps the
//! sums; a cell that is empty goes.

use super::annex::{Cell, Item, List, Row, Timer, cell_parts, place_of};
use super::bytes::Bytes;
use super::sorted::SortedMap;
use super::store::{Parts, Totals};
use super::timer_key::timer_bytes;
use crate::stored_key::Table;
use crate::timers::Registration;

impl Totals {
    fn add(&mut self, names: usize, bytes: usize) {
        self.entries += 1;
        self.bytes += (names + bytes) as u64;
    }

    fn remove(&mut self, names: usize, bytes: usize) {
        self.entries -= 1;
        self.bytes -= (names + bytes) as u64;
    }
}

impl Parts<'_> {
    /// Key and namespace: what each row of a cell counts beside name and value.
    fn names(&self, cell: &[u8]) -> usize {
        let (_, namespace) = cell_parts(cell);
        self.keeper.key.len() + namespace.map_or(0, <[u8]>::len)
    }

    fn row(&self, bytes: &[u8], expiry: Option<i64>) -> Row {
        Row {
            bytes: bytes.into(),
            expiry,
            stamp: self.keeper.stamp,
        }
    }

    pub(super) fn set_value(&mut self, cell: &[u8], bytes: &[u8], expiry: Option<i64>) {
        let (names, row) = (self.names(cell), self.row(bytes, expiry));
        if let Some(Cell::Value(old)) = self.cells.get_mut(cell) {
            self.keeper.row(cell, Table::Value, &[], old);
            self.totals.remove(names, old.bytes.len());
            *old = row;
        } else {
            self.keeper.new_row(cell, Table::Value, &[]);
            self.cells.get_or_insert(cell, || Cell::Value(row));
        }
        self.totals.add(names, bytes.len());
    }

    pub(super) fn clear_value(&mut self, cell: &[u8]) {
        if let Some(Cell::Value(old)) = self.cells.remove(cell) {
            self.keeper.gone(cell, Table::Value, &[], &old);
            self.totals.remove(self.names(cell), old.bytes.len());
        }
    }

    /// Appends an item at a position behind all others.
    pub(super) fn push_item(
        &mut self,
        cell: &[u8],
        position: u64,
        bytes: &[u8],
        expiry: Option<i64>,
    ) {
        let (names, row) = (self.names(cell), self.row(bytes, expiry));
        let new = || Cell::Items(List::new());
        if let Cell::Items(items) = self.cells.get_or_insert(cell, new) {
            self.keeper
                .new_row(cell, Table::Items, &position.to_be_bytes());
            items.push_back(Item { position, row });
            self.totals.add(names, bytes.len());
        }
    }

    /// Puts an item at a position, in place of the one that is there, if any.
    pub(super) fn set_item(
        &mut self,
        cell: &[u8],
        position: u64,
        bytes: &[u8],
        expiry: Option<i64>,
    ) {
        let suffix = position.to_be_bytes();
        self.remove_row(cell, &suffix);
        let (names, row) = (self.names(cell), self.row(bytes, expiry));
        let new = || Cell::Items(List::new());
        if let Cell::Items(items) = self.cells.get_or_insert(cell, new) {
            self.keeper.new_row(cell, Table::Items, &suffix);
            let place = place_of(items, &suffix).unwrap_or_else(|place| place);
            items.insert(place, Item { position, row });
            self.totals.add(names, bytes.len());
        }
    }

    pub(super) fn set_entry(
        &mut self,
        cell: &[u8],
        name: &[u8],
        bytes: &[u8],
        expiry: Option<i64>,
    ) {
        let (names, row) = (self.names(cell) + name.len(), self.row(bytes, expiry));
        let new = || Cell::Entries(SortedMap::default());
        let Cell::Entries(entries) = self.cells.get_or_insert(cell, new) else {
            return;
        };
        if let Some(old) = entries.get_mut(name) {
            self.keeper.row(cell, Table::Entries, name, old);
            self.totals.remove(names, old.bytes.len());
            *old = row;
        } else {
            self.keeper.new_row(cell, Table::Entries, name);
            entries.get_or_insert(name, || row);
        }
        self.totals.add(names, bytes.len());
    }

    pub(super) fn clear_entry(&mut self, cell: &[u8], name: &[u8]) {
        let names = self.names(cell) + name.len();
        let Some(Cell::Entries(entries)) = self.cells.get_mut(cell) else {
            return;
        };
        if let Some(old) = entries.remove(name) {
            self.keeper.gone(cell, Table::Entries, name, &old);
            self.totals.remove(names, old.bytes.len());
            if entries.is_empty() {
                self.cells.remove(cell);
            }
        }
    }

    /// Empties a cell of any kind.
    pub(super) fn clear_cell(&mut self, cell: &[u8]) {
        let names = self.names(cell);
        match self.cells.remove(cell) {
            None => {}
            Some(Cell::Value(row)) => {
                self.keeper.gone(cell, Table::Value, &[], &row);
                self.totals.remove(names, row.bytes.len());
            }
            Some(Cell::Items(items)) => {
                for item in items {
                    let suffix = item.position.to_be_bytes();
                    self.keeper.save(cell, Table::Items, &suffix, &item.row);
                    self.totals.remove(names, item.row.bytes.len());
                }
                self.keeper.cell_gone(cell, Table::Items);
            }
            Some(Cell::Entries(entries)) => {
                for (name, row) in entries.iter() {
                    self.keeper.save(cell, Table::Entries, name, row);
                    self.totals.remove(names + name.len(), row.bytes.len());
                }
                self.keeper.cell_gone(cell, Table::Entries);
            }
        }
    }

    /// Removes a row by its suffix.
    pub(super) fn remove_row(&mut self, cell: &[u8], suffix: &[u8]) {
        match self.cells.get_mut(cell) {
            None => {}
            Some(Cell::Value(_)) => self.clear_value(cell),
            Some(Cell::Entries(_)) => self.clear_entry(cell, suffix),
            Some(Cell::Items(items)) => {
                if let Ok(place) = place_of(items, suffix)
                    && let Some(item) = items.remove(place)
                {
                    let gone = items.is_empty();
                    self.keeper.gone(cell, Table::Items, suffix, &item.row);
                    self.totals.remove(self.names(cell), item.row.bytes.len());
                    if gone {
                        self.cells.remove(cell);
                    }
                }
            }
        }
    }

    /// Gives each row of a cell the expiry that `renewed` makes of its own, if any.
    pub(super) fn renew(&mut self, cell: &[u8], renewed: impl Fn(Option<i64>) -> Option<i64>) {
        let Parts { keeper, cells, .. } = self;
        let mut renew = |table, suffix: &[u8], row: &mut Row| {
            if let Some(expiry) = renewed(row.expiry) {
                keeper.row(cell, table, suffix, row);
                row.expiry = Some(expiry);
            }
        };
        match cells.get_mut(cell) {
            None => {}
            Some(Cell::Value(row)) => renew(Table::Value, &[], row),
            Some(Cell::Items(items)) => {
                for item in items {
                    renew(Table::Items, &item.position.to_be_bytes(), &mut item.row);
                }
            }
            Some(Cell::Entries(entries)) => {
                for (name, row) in entries.range_mut(super::sorted::after(None)) {
                    renew(Table::Entries, name, row);
                }
            }
        }
    }

    /// Registers a timer that is not registered; whether that is so.
    #[inline]
    pub(super) fn set_timer(&mut self, key: &Bytes, registration: Registration) -> bool {
        let stamp = self.keeper.stamp;
        let is_new = self.timers.insert(key, || Timer {
            chain: registration.chain.map(Box::new),
            waits: registration.waits,
            stamp,
        });
        if is_new {
            self.keeper.new_timer(key);
            self.totals.timers += 1;
            self.totals.bytes += self.timer_bytes(key);
        }
        is_new
    }

    #[inline]
    pub(super) fn cancel_timer(&mut self, key: &Bytes) -> Option<Timer> {
        let timer = self.timers.remove(key)?;
        self.keeper.timer_gone(key, &timer);
        self.totals.timers -= 1;
        self.totals.bytes -= self.timer_bytes(key);
        Some(timer)
    }

    /// A timer that waited waits no longer.
    pub(super) fn release_timer(&mut self, key: &[u8]) {
        if let Some(timer) = self.timers.get_mut(key) {
            self.keeper.timer(key, timer);
            timer.waits = false;
        }
    }

    fn timer_bytes(&self, key: &[u8]) -> u64 {
        (self.keeper.key.len() + timer_bytes(key)) as u64
    }
}

/// The row of a value cell.
pub(super) fn value<'a>(cells: &'a SortedMap<Cell>, cell: &[u8]) -> Option<&'a Row> {
    match cells.get(cell) {
        Some(Cell::Value(row)) => Some(row),
        _ => None,
    }
}

/// The list of an items cell.
pub(super) fn items<'a>(cells: &'a SortedMap<Cell>, cell: &[u8]) -> Option<&'a List> {
    match cells.get(cell) {
        Some(Cell::Items(items)) => Some(items),
        _ => None,
    }
}

/// The map of an entries cell.
pub(super) fn entries<'a>(cells: &'a SortedMap<Cell>, cell: &[u8]) -> Option<&'a SortedMap<Row>> {
    match cells.get(cell) {
        Some(Cell::Entries(entries)) => Some(entries),
        _ => None,
    }
}
