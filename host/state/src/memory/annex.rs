//! What does not fit a slot.

use std::collections::VecDeque;
use std::ops::Bound;

use super::bytes::Bytes;
use super::sorted::SortedMap;
use super::timer_map::TimerMap;
use crate::stored_key::Table;
use crate::timers::{Chain, Registration};

/// A stored value, item or entry.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) bytes: Bytes,
    pub(super) expiry: Option<i64>,
    /// See [`Keeper`](super::keeper::Keeper).
    pub(super) stamp: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Item {
    /// The item's suffix as a stored row: the bytes that the list took before it, four an item
    /// counted for its length.
    pub(super) position: u64,
    pub(super) row: Row,
}

/// What an item takes of its list beside its bytes.
pub(super) const ITEM: u64 = 4;

impl Item {
    /// The position of the item behind it.
    pub(super) fn end(&self) -> u64 {
        self.position
            .saturating_add(ITEM + self.row.bytes.len() as u64)
    }
}

/// Items by rising position.
pub(super) type List = VecDeque<Item>;

/// The place of an item of this suffix, or where it would be.
pub(super) fn place_of(items: &List, suffix: &[u8]) -> Result<usize, usize> {
    items.binary_search_by(|item| item.position.to_be_bytes()[..].cmp(suffix))
}

/// What a cell holds. A cell that holds nothing does not exist.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Value(Row),
    Items(List),
    Entries(SortedMap<Row>),
}

impl Cell {
    pub(super) fn table(&self) -> Table {
        match self {
            Cell::Value(_) => Table::Value,
            Cell::Items(_) => Table::Items,
            Cell::Entries(_) => Table::Entries,
        }
    }
}

/// A registered timer.
#[derive(Clone, Debug)]
pub(super) struct Timer {
    /// Rare, so boxed.
    pub(super) chain: Option<Box<Chain>>,
    pub(super) waits: bool,
    /// See [`Keeper`](super::keeper::Keeper).
    pub(super) stamp: u32,
}

impl Timer {
    pub(super) fn registration(&self) -> Registration {
        Registration {
            chain: self.chain.as_deref().copied(),
            waits: self.waits,
        }
    }
}

/// The part of a key that few keys have, or that is large.
///
/// Two cache lines, of which timers and cells need one.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Annex {
    pub(super) timers: TimerMap,
    /// By [`cell_key`]. The first value is not among them.
    pub(super) cells: SortedMap<Cell>,
    /// The key, if it is too long for the slot.
    pub(super) key: Box<[u8]>,
    /// The first value, if it is too long for the slot. Else it has no memory.
    pub(super) first: Vec<u8>,
}

const _: () = assert!(std::mem::offset_of!(Annex, key) == 64);

/// State and namespace of a cell: the order of a key's cells.
pub(super) fn cell_key(state: u16, namespace: Option<&[u8]>) -> Bytes {
    Bytes::joined(&state.to_be_bytes(), namespace.unwrap_or_default())
}

/// The inverse of [`cell_key`].
pub(super) fn cell_parts(key: &[u8]) -> (u16, Option<&[u8]>) {
    let (state, namespace) = key
        .split_first_chunk()
        .expect("a cell's key begins with its state");
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    (u16::from_be_bytes(*state), namespace)
}

/// Where a walk over the rows of a slot goes on.
#[derive(Clone, Debug, Default)]
pub(super) enum Within {
    /// At the first value.
    #[default]
    Start,
    /// In this cell, behind the row of this suffix.
    Cell(Bytes, Bytes),
    /// Behind this cell.
    Cells(Bytes),
    /// Behind this timer, or at the first one.
    Timers(Option<Bytes>),
}

/// Visits rows of the cells from `from` on, at least one and until `visited` counts `budget`: cell
/// key, table, suffix, row. Returns where to go on.
pub(super) fn walk_cells(
    cells: &mut SortedMap<Cell>,
    from: Within,
    budget: usize,
    visited: &mut usize,
    mut visit: impl FnMut(&[u8], Table, &[u8], &mut Row),
) -> Within {
    let (start, after) = match &from {
        Within::Timers(_) => return from,
        Within::Start => (Bound::Unbounded, None),
        Within::Cells(cell) => (Bound::Excluded(&**cell), None),
        Within::Cell(cell, suffix) => (Bound::Included(&**cell), Some((&**cell, &**suffix))),
    };
    for (key, cell) in cells.range_mut(start) {
        // The cell may have gone meanwhile, and this is the one behind it.
        let after = after
            .filter(|(cell, _)| *cell == key)
            .map(|(_, suffix)| suffix);
        let table = cell.table();
        match cell {
            Cell::Value(row) => {
                visit(key, table, &[], row);
                *visited += 1;
            }
            Cell::Items(items) => {
                let first = after.map_or(0, |after| {
                    items.partition_point(|item| item.position.to_be_bytes()[..] <= *after)
                });
                for item in items.range_mut(first..) {
                    let suffix = item.position.to_be_bytes();
                    visit(key, table, &suffix, &mut item.row);
                    *visited += 1;
                    if *visited >= budget {
                        return Within::Cell(key.into(), suffix[..].into());
                    }
                }
            }
            Cell::Entries(entries) => {
                for (name, row) in entries.range_mut(super::sorted::after(after)) {
                    visit(key, table, name, row);
                    *visited += 1;
                    if *visited >= budget {
                        return Within::Cell(key.into(), name.into());
                    }
                }
            }
        }
        if *visited >= budget {
            return Within::Cells(key.into());
        }
    }
    Within::Timers(None)
}

impl Annex {
    /// Whether it holds neither cells nor timers.
    pub(super) fn is_vacant(&self) -> bool {
        self.cells.is_empty() && self.timers.is_empty()
    }
}
