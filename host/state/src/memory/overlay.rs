//! What an open call has written.
//!
//! Values are a log: the columns as they came, applied in order at the end. Operators read first
//! and write last as a rule, so that nobody ever asks the log; only when a state is read that was
//! written in the same call, the log is indexed. Items and entries, which are read back more often
//! and by range, are kept by cell.

use std::collections::BTreeMap;

use super::annex::cell_key;
use super::bytes::Bytes;
use crate::keyed_state::Cells;
use crate::timers::Registration;
use crate::{CALL_BUDGET, Column, Error, Nullable, NullableRef};

/// What a written row counts beside its bytes.
const ROW: usize = 16;
/// A buffer that an unusual call made larger than this is not kept for the next.
const KEPT: usize = 4 << 20;

/// One call of `put`.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) state: u16,
    pub(super) keys: Vec<u32>,
    namespaced: bool,
    namespaces: Column,
    pub(super) values: Nullable,
}

impl Block {
    /// The namespace of a row, `None` for the empty one.
    pub(super) fn namespace(&self, row: usize) -> Option<&[u8]> {
        self.namespaced
            .then(|| self.namespaces.get(row))
            .filter(|namespace| !namespace.is_empty())
    }

    pub(super) fn is_namespaced(&self) -> bool {
        self.namespaced
    }
}

/// A row of the log.
#[derive(Clone, Copy, Debug)]
struct Place {
    block: u32,
    row: u32,
}

/// What a call has done to a cell of items or entries.
#[derive(Debug)]
pub(super) struct Pending {
    /// What was there before is gone.
    pub(super) cleared: bool,
    pub(super) writes: Writes,
}

#[derive(Debug)]
pub(super) enum Writes {
    Items {
        appended: Vec<Bytes>,
        /// Bytes of the list as it would be read, before the appended items and with them.
        held: u64,
    },
    /// `None` deletes.
    Entries(BTreeMap<Bytes, Option<Bytes>>),
}

impl Pending {
    pub(super) fn items(cleared: bool, held: u64) -> Pending {
        Pending {
            cleared,
            writes: Writes::Items {
                appended: Vec::new(),
                held,
            },
        }
    }

    pub(super) fn entries(cleared: bool) -> Pending {
        Pending {
            cleared,
            writes: Writes::Entries(BTreeMap::new()),
        }
    }
}

/// A row of `set_timers` or `cancel_timers`.
#[derive(Debug)]
pub(super) struct TimerChange {
    /// In the dictionary.
    pub(super) key: u32,
    /// See [`timer_key`](super::timer_key::timer_key).
    pub(super) timer: Bytes,
    pub(super) to: Change,
}

/// What becomes of a timer. Small, since there may be a timer a record.
#[derive(Debug)]
pub(super) enum Change {
    Cancelled,
    /// Registered plainly.
    Set,
    /// Registered by a firing that it belongs together with.
    Chained(Box<Registration>),
}

impl Change {
    pub(super) fn set(registration: Registration) -> Change {
        if registration == Registration::default() {
            Change::Set
        } else {
            Change::Chained(Box::new(registration))
        }
    }

    /// How the timer is registered, if it is.
    pub(super) fn registration(&self) -> Option<Registration> {
        match self {
            Change::Cancelled => None,
            Change::Set => Some(Registration::default()),
            Change::Chained(registration) => Some(**registration),
        }
    }
}

impl Writes {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Writes::Items { appended, .. } => appended.is_empty(),
            Writes::Entries(written) => written.values().all(Option::is_none),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Overlay {
    /// Emptied and used again.
    blocks: Vec<Block>,
    used: usize,
    /// Whether the log has rows of a state.
    logged: Vec<bool>,
    /// How many blocks are in the index.
    indexed: usize,
    /// The last row of each key, by state.
    plain: BTreeMap<u16, Vec<Option<Place>>>,
    namespaced: BTreeMap<(u32, Bytes), Place>,
    /// By key and [`cell_key`].
    pub(super) cells: BTreeMap<(u32, Bytes), Pending>,
    /// Cells whose expiry is renewed. What was there before the call, that is: whatever the call
    /// writes has a full TTL anyway.
    pub(super) touched: Vec<(u32, Bytes)>,
    pub(super) timers: Vec<TimerChange>,
    /// Whether a timer was set that ends too long a chain, unless the call cancels it again.
    pub(super) endless: bool,
    /// Bytes that the operator has written in this call, overwritten ones included.
    written: usize,
}

impl Overlay {
    pub(super) fn clear(&mut self) {
        for block in &mut self.blocks[..self.used] {
            self.logged[usize::from(block.state)] = false;
            if block.values.data.capacity() + block.namespaces.data.capacity() > KEPT {
                *block = Block::default();
            }
        }
        self.used = 0;
        if self.indexed > 0 {
            self.indexed = 0;
            self.plain.clear();
            self.namespaced.clear();
        }
        self.cells.clear();
        self.touched.clear();
        self.timers.clear();
        self.endless = false;
        self.written = 0;
    }

    /// Takes an operation on cells with so many bytes beside them out of the call's budget.
    pub(super) fn spend(&mut self, at: Cells<'_>, bytes: usize) -> Result<(), Error> {
        let namespaces = at.namespaces.map_or(0, |column| column.data.len());
        let written = at.keys.len() * ROW + namespaces + bytes;
        self.written = self.written.saturating_add(written);
        if self.written > CALL_BUDGET {
            return Err(Error::Budget {
                what: "what the call writes",
                limit: CALL_BUDGET,
            });
        }
        Ok(())
    }

    /// Logs values; none at all deletes every cell's.
    pub(super) fn log(&mut self, state: u16, at: Cells<'_>, values: Option<NullableRef<'_>>) {
        if self.used == self.blocks.len() {
            self.blocks.push(Block::default());
        }
        let block = &mut self.blocks[self.used];
        self.used += 1;
        block.state = state;
        refill(&mut block.keys, at.keys);
        block.namespaced = at.namespaces.is_some();
        block.namespaces.clear();
        if let Some(namespaces) = at.namespaces {
            refill(&mut block.namespaces.offsets, namespaces.offsets);
            refill(&mut block.namespaces.data, namespaces.data);
        }
        block.values.clear();
        if let Some(values) = values {
            refill(&mut block.values.present, values.present);
            refill(&mut block.values.offsets, values.offsets);
            refill(&mut block.values.data, values.data);
        } else {
            block.values.present.resize(at.keys.len(), 0);
            block.values.offsets.resize(at.keys.len() + 1, 0);
        }
        let state = usize::from(state);
        if self.logged.len() <= state {
            self.logged.resize(state + 1, false);
        }
        self.logged[state] = true;
    }

    /// The log, oldest first.
    pub(super) fn blocks(&self) -> &[Block] {
        &self.blocks[..self.used]
    }

    /// Whether values of the state were written in this call. If so, [`value`](Self::value) will
    /// know which.
    pub(super) fn index(&mut self, state: u16, keys: usize) -> bool {
        if !self
            .logged
            .get(usize::from(state))
            .copied()
            .unwrap_or_default()
        {
            return false;
        }
        for (number, block) in self.blocks[..self.used]
            .iter()
            .enumerate()
            .skip(self.indexed)
        {
            for (row, key) in block.keys.iter().enumerate() {
                let place = Place {
                    block: number as u32,
                    row: row as u32,
                };
                match block.namespace(row) {
                    None => {
                        let last = self.plain.entry(block.state).or_default();
                        last.resize(keys, None);
                        last[*key as usize] = Some(place);
                    }
                    namespace => {
                        let cell = (*key, cell_key(block.state, namespace));
                        self.namespaced.insert(cell, place);
                    }
                }
            }
        }
        self.indexed = self.used;
        true
    }

    /// What the call wrote into a cell, if it did; of an indexed state.
    pub(super) fn value(
        &self,
        state: u16,
        key: u32,
        namespace: Option<&[u8]>,
    ) -> Option<Option<&[u8]>> {
        let place = match namespace {
            None => (*self.plain.get(&state)?.get(key as usize)?)?,
            namespace => *self.namespaced.get(&(key, cell_key(state, namespace)))?,
        };
        let block = &self.blocks[place.block as usize];
        Some(block.values.get(place.row as usize))
    }
}

fn refill<T: Copy>(buffer: &mut Vec<T>, from: &[T]) {
    buffer.clear();
    buffer.extend_from_slice(from);
}
