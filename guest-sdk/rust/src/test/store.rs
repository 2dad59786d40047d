//! The harness's host: what is kept, what was emitted, and the call that is open.
//!
//! What a call does takes effect at once and is logged, so that a call that fails is undone. The
//! functions that an operator imports are in [`imports`](super::imports).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::bindings::weir::operator::diagnostics::Level;
use crate::bindings::weir::operator::state::Cells;
use crate::bindings::weir::operator::types::{Description, Fault, StateKind, TimeDomain};

use super::Header;
use super::kept::{Cell, Chain, Kept, Part, Pending, Place};

/// The longest chain of timers in which each was set by the one before it, within one advance.
const MAX_GENERATIONS: u32 = 1_000;

/// A row that an operator emitted, with what it inherited.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Emitted {
    /// The key; `None` is null.
    pub key: Option<Vec<u8>>,
    /// The value; `None` is null.
    pub value: Option<Vec<u8>>,
    /// The event time in milliseconds since the epoch, if there is one.
    pub time: Option<i64>,
    /// The headers, in order.
    pub headers: Vec<Header>,
}

enum Undo {
    Cell(Place, Option<Cell>),
    Timer(TimeDomain, Pending, Option<Chain>),
}

/// The firing that is being served.
struct Firing {
    domain: TimeDomain,
    until: i64,
    /// By key index.
    timers: Vec<(Pending, Chain)>,
}

/// One operator's host.
pub(super) struct Store {
    pub(super) description: Description,
    pub(super) kept: Kept,
    pub(super) emitted: Vec<Vec<Emitted>>,
    pub(super) rejected: Vec<Fault>,
    pub(super) logged: Vec<(Level, String)>,
    keys: Vec<Vec<u8>>,
    stateful: bool,
    pub(super) origins: Vec<Emitted>,
    firing: Option<Firing>,
    undo: Vec<Undo>,
    emitted_before: Vec<usize>,
    pub(super) processing_time: i64,
    overlong_chain: Option<Pending>,
}

pub(super) type Shared = Rc<RefCell<Store>>;

impl Store {
    pub(super) fn new(description: Description, kept: Kept) -> Store {
        let outputs = description.outputs.len();
        Store {
            description,
            kept,
            emitted: vec![Vec::new(); outputs],
            rejected: Vec::new(),
            logged: Vec::new(),
            keys: Vec::new(),
            stateful: false,
            origins: Vec::new(),
            firing: None,
            undo: Vec::new(),
            emitted_before: Vec::new(),
            processing_time: 0,
            overlong_chain: None,
        }
    }

    /// Opens a call. `keys` are its distinct keys, `None` where state cannot be used; `origins` what its
    /// rows pass on.
    pub(super) fn begin(
        &mut self,
        keys: Option<Vec<Vec<u8>>>,
        origins: Vec<Emitted>,
        processing_time: i64,
    ) {
        self.stateful = keys.is_some();
        self.keys = keys.unwrap_or_default();
        self.origins = origins;
        self.firing = None;
        self.undo.clear();
        self.emitted_before = self.emitted.iter().map(Vec::len).collect();
        self.rejected.clear();
        self.processing_time = processing_time;
        self.overlong_chain = None;
    }

    /// Takes the timers that fire next, and opens their call; `None` if none is due.
    pub(super) fn begin_firing(
        &mut self,
        domain: TimeDomain,
        until: i64,
        limit: usize,
        processing_time: i64,
    ) -> Option<Vec<Pending>> {
        let mut keys = BTreeSet::new();
        let timers: Vec<_> = self.kept.timers[domain as usize]
            .iter()
            .filter(|(timer, chain)| timer.time <= until && !chain.waits)
            .take_while(|(timer, _)| keys.insert(timer.key.clone()))
            .take(limit)
            .map(|(timer, chain)| (timer.clone(), *chain))
            .collect();
        if timers.is_empty() {
            return None;
        }
        let pending: Vec<_> = timers.iter().map(|(timer, _)| timer.clone()).collect();
        let rows = pending.iter().map(|timer| Emitted {
            key: Some(timer.key.clone()),
            value: None,
            time: Some(timer.time),
            headers: Vec::new(),
        });
        self.begin(
            Some(pending.iter().map(|timer| timer.key.clone()).collect()),
            rows.collect(),
            processing_time,
        );
        for timer in &pending {
            self.change_timer(domain, timer.clone(), None);
        }
        self.firing = Some(Firing {
            domain,
            until,
            timers,
        });
        Some(pending)
    }

    /// Ends a call that succeeded.
    pub(super) fn apply(&mut self) -> crate::Result {
        self.undo.clear();
        match self.overlong_chain.take() {
            None => Ok(()),
            Some(timer) => Err(crate::Fault::new(format_args!(
                "more than {MAX_GENERATIONS} timers of key {:?} set each other in one advance, the last at {}",
                String::from_utf8_lossy(&timer.key),
                timer.time
            ))),
        }
    }

    /// Ends a call that failed: nothing of it happened.
    pub(super) fn discard(&mut self) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Cell(place, before) => {
                    self.kept.set_cell(place, before);
                }
                Undo::Timer(domain, timer, before) => {
                    self.kept.set_timer(domain, timer, before);
                }
            }
        }
        for (emitted, &before) in self.emitted.iter_mut().zip(&self.emitted_before) {
            emitted.truncate(before);
        }
        self.rejected.clear();
    }

    pub(super) fn check(&self, state: u32, kinds: &[StateKind]) {
        assert!(self.stateful, "state is used in a call without keys");
        let kind = self.description.states[state as usize].kind;
        assert!(
            kinds.contains(&kind),
            "state {state} is of kind {kind:?}, not {kinds:?}"
        );
    }

    pub(super) fn places<'a>(
        &'a self,
        state: u32,
        at: &'a Cells,
        part: Part,
    ) -> impl Iterator<Item = Place> + 'a {
        if let Some(namespaces) = &at.namespaces {
            assert_eq!(namespaces.rows(), at.keys.len(), "a namespace a cell");
        }
        (0..at.keys.len()).map(move |row| Place {
            state,
            key: self.keys[at.keys[row] as usize].clone(),
            namespace: at.namespace(row).to_vec(),
            part: part.clone(),
        })
    }

    pub(super) fn read(&self, place: &Place) -> Option<&[u8]> {
        self.kept
            .cells
            .get(place)
            .filter(|cell| cell.is_live(self.processing_time))
            .map(|cell| &cell.bytes[..])
    }

    pub(super) fn write(&mut self, place: Place, bytes: Option<Vec<u8>>) {
        let ttl = self.description.states[place.state as usize].ttl;
        let cell = bytes.map(|bytes| {
            let expires = ttl.map(|ttl| self.processing_time.saturating_add_unsigned(ttl.millis));
            Cell { bytes, expires }
        });
        self.replace(place, cell);
    }

    pub(super) fn replace(&mut self, place: Place, cell: Option<Cell>) {
        let before = self.kept.set_cell(place.clone(), cell);
        self.undo.push(Undo::Cell(place, before));
    }

    /// Everything that a cell holds, in order, expired or not.
    pub(super) fn parts(&self, cell: &Place) -> Vec<Place> {
        let first = Place {
            part: Part::Value,
            ..cell.clone()
        };
        let same = |place: &&Place| {
            (place.state, &place.key, &place.namespace) == (cell.state, &cell.key, &cell.namespace)
        };
        self.kept
            .cells
            .range(first..)
            .map(|(place, _)| place)
            .take_while(same)
            .cloned()
            .collect()
    }

    /// Live entries of a cell in a range.
    pub(super) fn range(
        &self,
        cell: &Place,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Vec<(Place, Vec<u8>, Vec<u8>)> {
        let mut found = Vec::new();
        for place in self.parts(cell) {
            if let (Part::Entry(name), Some(value)) = (&place.part, self.read(&place))
                && start.is_none_or(|start| &name[..] >= start)
                && end.is_none_or(|end| &name[..] < end)
            {
                let (name, value) = (name.clone(), value.to_vec());
                found.push((place, name, value));
            }
        }
        found
    }

    pub(super) fn change_timer(
        &mut self,
        domain: TimeDomain,
        timer: Pending,
        chain: Option<Chain>,
    ) {
        let before = self.kept.set_timer(domain, timer.clone(), chain);
        self.undo.push(Undo::Timer(domain, timer, before));
    }

    pub(super) fn timers(&self, timer: u32, at: &Cells, times: &[i64]) -> Vec<Pending> {
        assert!(self.stateful, "a timer is used in a call without keys");
        assert_eq!(at.keys.len(), times.len(), "a time a cell");
        let pending = self
            .places(0, at, Part::Value)
            .zip(times)
            .map(|(place, &time)| {
                assert_ne!(time, i64::MIN, "a timer at no time");
                let hash = xxhash_rust::xxh3::xxh3_64(&place.key);
                Pending {
                    time,
                    hash,
                    key: place.key,
                    timer: timer as usize,
                    namespace: place.namespace,
                }
            });
        pending.collect()
    }

    pub(super) fn chain(&mut self, domain: TimeDomain, timer: &Pending, key: u32) -> Chain {
        match &self.firing {
            Some(firing) if firing.domain == domain && timer.time <= firing.until => {
                let (parent, chain) = &firing.timers[key as usize];
                let chain = Chain {
                    generation: chain.generation + 1,
                    waits: timer.time <= parent.time,
                };
                if chain.generation > MAX_GENERATIONS {
                    self.overlong_chain = Some(timer.clone());
                }
                chain
            }
            _ => Chain::default(),
        }
    }
}
