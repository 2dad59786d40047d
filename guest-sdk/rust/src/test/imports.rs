//! The contract's imports over a [`Store`](super::store::Store).
//!
//! The rules are the contract's; they are checked by assertion, since breaking one is a defect of the
//! SDK.

use crate::bindings::weir::operator::diagnostics::Level;
use crate::bindings::weir::operator::output::Rows;
use crate::bindings::weir::operator::state::{Cells, ItemLists, Page};
use crate::bindings::weir::operator::types::{
    Column, Fault, Nullable, OutputKeys, StateKind, TtlRenewal,
};
use crate::host::Host;

use super::kept::{Cell, Part, Place};
use super::store::{Emitted, Shared};

impl Host for Shared {
    fn get(&mut self, state: u32, at: &Cells) -> Nullable {
        let store = self.borrow();
        store.check(state, &[StateKind::Value]);
        let mut values = Nullable::empty();
        store
            .places(state, at, Part::Value)
            .for_each(|place| values.push(store.read(&place)));
        values
    }

    fn put(&mut self, state: u32, at: &Cells, values: &Nullable) {
        let mut store = self.borrow_mut();
        store.check(state, &[StateKind::Value]);
        assert_eq!(values.rows(), at.keys.len(), "a value a cell");
        let places: Vec<_> = store.places(state, at, Part::Value).collect();
        for (row, place) in places.into_iter().enumerate() {
            store.write(place, values.row(row).map(<[u8]>::to_vec));
        }
    }

    fn append(&mut self, state: u32, at: &Cells, items: &Column) {
        let mut store = self.borrow_mut();
        store.check(state, &[StateKind::Items]);
        assert_eq!(items.rows(), at.keys.len(), "an item a cell");
        let cells: Vec<_> = store.places(state, at, Part::Value).collect();
        for (cell, item) in cells.into_iter().zip(items.iter()) {
            let next = match store.parts(&cell).pop() {
                Some(Place {
                    part: Part::Item(last),
                    ..
                }) => last + 1,
                _ => 0,
            };
            store.write(
                Place {
                    part: Part::Item(next),
                    ..cell
                },
                Some(item.to_vec()),
            );
        }
    }

    fn get_items(&mut self, state: u32, at: &Cells) -> ItemLists {
        let store = self.borrow();
        store.check(state, &[StateKind::Items]);
        let mut lists = ItemLists {
            ends: Vec::new(),
            items: Column::empty(),
        };
        for cell in store.places(state, at, Part::Value) {
            for place in store.parts(&cell) {
                if let Some(item) = store.read(&place) {
                    lists.items.push(item);
                }
            }
            lists.ends.push(lists.items.rows() as u32);
        }
        lists
    }

    fn get_entries(&mut self, state: u32, at: &Cells, names: &Column) -> Nullable {
        let store = self.borrow();
        store.check(state, &[StateKind::Entries]);
        let mut values = Nullable::empty();
        for (cell, name) in store.places(state, at, Part::Value).zip(names.iter()) {
            values.push(store.read(&Place {
                part: Part::Entry(name.to_vec()),
                ..cell
            }));
        }
        values
    }

    fn put_entries(&mut self, state: u32, at: &Cells, names: &Column, values: &Nullable) {
        let mut store = self.borrow_mut();
        store.check(state, &[StateKind::Entries]);
        assert!(
            names.rows() == at.keys.len() && values.rows() == at.keys.len(),
            "a name and a value a cell"
        );
        let cells: Vec<_> = store.places(state, at, Part::Value).collect();
        for (row, cell) in cells.into_iter().enumerate() {
            let place = Place {
                part: Part::Entry(names.row(row).to_vec()),
                ..cell
            };
            store.write(place, values.row(row).map(<[u8]>::to_vec));
        }
    }

    fn scan(
        &mut self,
        state: u32,
        at: &Cells,
        start: &Nullable,
        end: &Nullable,
        descending: bool,
        limit: u32,
    ) -> Page {
        let store = self.borrow();
        store.check(state, &[StateKind::Entries]);
        let mut page = Page {
            ends: Vec::new(),
            names: Column::empty(),
            values: Column::empty(),
            more: Vec::new(),
        };
        for (row, cell) in store.places(state, at, Part::Value).enumerate() {
            let mut found = store.range(&cell, start.row(row), end.row(row));
            if descending {
                found.reverse();
            }
            page.more.push(u8::from(found.len() > limit as usize));
            for (_, name, value) in found.iter().take(limit as usize) {
                page.names.push(name);
                page.values.push(value);
            }
            page.ends.push(page.names.rows() as u32);
        }
        page
    }

    fn clear_entries(&mut self, state: u32, at: &Cells, start: &Nullable, end: &Nullable) {
        let mut store = self.borrow_mut();
        store.check(state, &[StateKind::Entries]);
        let cells: Vec<_> = store.places(state, at, Part::Value).collect();
        for (row, cell) in cells.into_iter().enumerate() {
            for (place, ..) in store.range(&cell, start.row(row), end.row(row)) {
                store.write(place, None);
            }
        }
    }

    fn clear(&mut self, state: u32, at: &Cells) {
        let mut store = self.borrow_mut();
        store.check(
            state,
            &[StateKind::Value, StateKind::Items, StateKind::Entries],
        );
        let cells: Vec<_> = store.places(state, at, Part::Value).collect();
        for place in cells
            .iter()
            .flat_map(|cell| store.parts(cell))
            .collect::<Vec<_>>()
        {
            store.write(place, None);
        }
    }

    fn touch(&mut self, state: u32, at: &Cells) {
        let mut store = self.borrow_mut();
        store.check(
            state,
            &[StateKind::Value, StateKind::Items, StateKind::Entries],
        );
        let Some(ttl) = store.description.states[state as usize]
            .ttl
            .filter(|ttl| ttl.renewal == TtlRenewal::Access)
        else {
            return;
        };
        let expires = store.processing_time.saturating_add_unsigned(ttl.millis);
        let cells: Vec<_> = store.places(state, at, Part::Value).collect();
        for place in cells
            .iter()
            .flat_map(|cell| store.parts(cell))
            .collect::<Vec<_>>()
        {
            let renewed = store
                .kept
                .cells
                .get(&place)
                .filter(|cell| cell.is_live(store.processing_time))
                .cloned();
            if let Some(cell) = renewed {
                store.replace(
                    place,
                    Some(Cell {
                        expires: Some(expires),
                        ..cell
                    }),
                );
            }
        }
    }

    fn set_timers(&mut self, timer: u32, at: &Cells, times: &[i64]) {
        let mut store = self.borrow_mut();
        let domain = store.description.timers[timer as usize].domain;
        for (pending, &key) in store.timers(timer, at, times).into_iter().zip(&at.keys) {
            if !store.kept.timers[domain as usize].contains_key(&pending) {
                let chain = store.chain(domain, &pending, key);
                store.change_timer(domain, pending, Some(chain));
            }
        }
    }

    fn cancel_timers(&mut self, timer: u32, at: &Cells, times: &[i64]) {
        let mut store = self.borrow_mut();
        let domain = store.description.timers[timer as usize].domain;
        for pending in store.timers(timer, at, times) {
            store.change_timer(domain, pending, None);
        }
    }

    fn emit(&mut self, output: u32, rows: &Rows) {
        let mut store = self.borrow_mut();
        let keys = store.description.outputs[output as usize].keys;
        assert!(
            keys == OutputKeys::Given || rows.keys.is_none(),
            "keys are given to an output that declares none"
        );
        let without_origins = store.origins.is_empty();
        let count = match &rows.times {
            Some(times) if without_origins => times.len(),
            _ => rows.origins.len(),
        };
        let mut emitted = Vec::with_capacity(count);
        for row in 0..count {
            let origin =
                (!without_origins).then(|| store.origins[rows.origins[row] as usize].clone());
            let inherited = || {
                origin
                    .clone()
                    .expect("nothing is inherited in a call without rows")
            };
            let key = match (keys, &rows.keys) {
                (OutputKeys::Absent, _) => None,
                (_, None) => inherited().key,
                (_, Some(keys)) => {
                    assert!(keys.index.is_empty(), "the SDK gives keys row by row");
                    keys.distinct.row(row).map(<[u8]>::to_vec)
                }
            };
            let value = match &rows.values {
                Some(values) => values.row(row).map(<[u8]>::to_vec),
                None => inherited().value,
            };
            let time = match &rows.times {
                Some(times) => Some(times[row]).filter(|&time| time != i64::MIN),
                None => inherited().time,
            };
            let headers = match &rows.headers {
                Some(headers) => headers
                    .row(row)
                    .map(|(name, contents)| (name.to_vec(), contents.map(<[u8]>::to_vec)))
                    .collect(),
                None => origin.map_or_else(Vec::new, |origin| origin.headers),
            };
            emitted.push(Emitted {
                key,
                value,
                time,
                headers,
            });
        }
        store.emitted[output as usize].append(&mut emitted);
    }

    fn log(&mut self, level: Level, message: &str) {
        self.borrow_mut().logged.push((level, message.to_owned()));
    }

    fn reject(&mut self, faults: &[Fault]) {
        self.borrow_mut().rejected.extend_from_slice(faults);
    }
}
