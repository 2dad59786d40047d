//! Reads and writes of entries. The rules are the trait's.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::annex::{Row, cell_key};
use super::bytes::Bytes;
use super::cells::entries;
use super::overlay::{Pending, Writes};
use super::sorted::SortedMap;
use super::{Memory, ReadBudget};
use crate::keyed_state::{Cells, Page};
use crate::merge::merge;
use crate::{ColumnRef, Error, Nullable, NullableRef, StateKind};

/// Entries of a cell, as the last call left them and as this one changed them.
#[derive(Clone, Copy)]
struct View<'a> {
    applied: Option<&'a SortedMap<Row>>,
    written: Option<&'a BTreeMap<Bytes, Option<Bytes>>>,
}

impl Memory {
    pub(super) fn read_entries(
        &self,
        state: u32,
        at: Cells<'_>,
        names: ColumnRef<'_>,
    ) -> Result<Nullable, Error> {
        let state = self.target(state, StateKind::Entries, at)?;
        at.check_rows("names", names.len())?;
        let (mut out, mut budget) = (Nullable::new(), ReadBudget::default());
        for (row, (&key, name)) in at.keys.iter().zip(names.iter()).enumerate() {
            let view = self.view(&(key, cell_key(state, at.namespace(row))));
            let value = match view.written.and_then(|written| written.get(name)) {
                Some(written) => written.as_deref(),
                None => view
                    .applied
                    .and_then(|entries| entries.get(name))
                    .filter(|row| self.is_live(row.expiry))
                    .map(|row| &*row.bytes),
            };
            budget.spend(value.map_or(0, <[u8]>::len))?;
            out.push(value);
        }
        Ok(out)
    }

    pub(super) fn write_entries(
        &mut self,
        state: u32,
        at: Cells<'_>,
        names: ColumnRef<'_>,
        values: NullableRef<'_>,
    ) -> Result<(), Error> {
        let state = self.target(state, StateKind::Entries, at)?;
        at.check_rows("names", names.len())?;
        at.check_rows("values", values.len())?;
        self.overlay
            .spend(at, names.data.len() + values.data.len())?;
        for (row, (name, value)) in names.iter().zip(values.iter()).enumerate() {
            let place = (at.keys[row], cell_key(state, at.namespace(row)));
            let pending = self.overlay.cells.entry(place);
            let pending = pending.or_insert_with(|| Pending::entries(false));
            if let Writes::Entries(written) = &mut pending.writes {
                written.insert(name.into(), value.map(Bytes::from));
            }
        }
        Ok(())
    }

    pub(super) fn scan_entries(
        &self,
        state: u32,
        at: Cells<'_>,
        start: NullableRef<'_>,
        end: NullableRef<'_>,
        descending: bool,
        limit: u32,
    ) -> Result<Page, Error> {
        let state = self.target(state, StateKind::Entries, at)?;
        at.check_rows("start", start.len())?;
        at.check_rows("end", end.len())?;
        let (mut page, mut budget) = (Page::default(), ReadBudget::default());
        for (row, (start, end)) in start.iter().zip(end.iter()).enumerate() {
            let view = self.view(&(at.keys[row], cell_key(state, at.namespace(row))));
            let bounds = (start.unwrap_or_default(), end);
            let mut live = self.rows(view, bounds, descending, true);
            for (name, value) in live.by_ref().take(limit as usize) {
                budget.spend(super::OFFSET + name.len() + value.len())?;
                page.names.push(name);
                page.values.push(value);
            }
            page.ends.push(page.names.len() as u32);
            page.more.push(u8::from(live.next().is_some()));
        }
        Ok(page)
    }

    pub(super) fn clear_range(
        &mut self,
        state: u32,
        at: Cells<'_>,
        start: NullableRef<'_>,
        end: NullableRef<'_>,
    ) -> Result<(), Error> {
        let state = self.target(state, StateKind::Entries, at)?;
        at.check_rows("start", start.len())?;
        at.check_rows("end", end.len())?;
        for (row, (start, end)) in start.iter().zip(end.iter()).enumerate() {
            let place = (at.keys[row], cell_key(state, at.namespace(row)));
            let view = self.view(&place);
            let bounds = (start.unwrap_or_default(), end);
            let doomed: Vec<Bytes> = self
                .rows(view, bounds, false, false)
                .map(|(name, _)| name.into())
                .collect();
            if doomed.is_empty() {
                continue;
            }
            let pending = self.overlay.cells.entry(place);
            let pending = pending.or_insert_with(|| Pending::entries(false));
            if let Writes::Entries(written) = &mut pending.writes {
                written.extend(doomed.into_iter().map(|name| (name, None)));
            }
        }
        Ok(())
    }

    fn view(&self, place: &(u32, Bytes)) -> View<'_> {
        let (key, cell) = place;
        let id = self.keys.slots[*key as usize];
        let pending = self.overlay.cells.get(place);
        let applied = self.store.annex(id);
        View {
            applied: applied
                .filter(|_| pending.is_none_or(|pending| !pending.cleared))
                .and_then(|annex| entries(&annex.cells, cell)),
            written: match pending.map(|pending| &pending.writes) {
                Some(Writes::Entries(written)) => Some(written),
                _ => None,
            },
        }
    }

    /// The entries with `start <= name < end`, with or without those that have expired.
    fn rows<'a>(
        &'a self,
        view: View<'a>,
        (start, end): (&[u8], Option<&[u8]>),
        descending: bool,
        live: bool,
    ) -> Box<dyn Iterator<Item = (&'a [u8], &'a [u8])> + 'a> {
        if end.is_some_and(|end| start >= end) {
            return Box::new(std::iter::empty());
        }
        let bounds = (
            Bound::Included(start),
            end.map_or(Bound::Unbounded, Bound::Excluded),
        );
        let applied = view
            .applied
            .map(|entries| entries.range(start, end))
            .unwrap_or_default()
            .filter(move |(_, row)| !live || self.is_live(row.expiry))
            .map(|(name, row)| (name, Some(&*row.bytes)));
        let written = view
            .written
            .map(|written| written.range::<[u8], _>(bounds))
            .unwrap_or_default()
            .map(|(name, value)| (&**name, value.as_deref()));
        if descending {
            Box::new(merge(applied.rev(), written.rev(), true))
        } else {
            Box::new(merge(applied, written, false))
        }
    }
}
