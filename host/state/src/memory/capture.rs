//! A snapshot under way: what it is based on, what it takes in full, and how far it has come.

use super::annex::{Cell, Within, place_of, walk_cells};
use super::cursor::Cursor;
use super::dirty::{ChangedRow, Dirty};
use super::rotation::{self, Chain, Change, Plan, Section};
use super::sorted::after;
use super::store::{Parts, SlotId, Store};
use crate::snapshot::{Contents, GroupChanges, GroupRows, Header, STANDALONE, SectionKind};
use crate::stored_key::Table;
use crate::{Progress, Schema, Snapshot, TimeDomain};

/// A snapshot that later ones may be based on.
#[derive(Debug)]
struct Base {
    id: u64,
    /// See [`keeper`](super::keeper).
    mark: u32,
    /// The sections that make up each group of the range.
    chains: Vec<Chain>,
}

/// A snapshot under way.
#[derive(Debug)]
pub(super) struct Capture {
    pub(super) header: Header,
    /// What was copied so far, by group of the range, as is all that follows.
    pub(super) groups: Vec<GroupRows>,
    /// See [`keeper`](super::keeper).
    mark: u32,
    /// Rows up to this stamp are not in the snapshot: the base's mark, in a delta.
    since: Vec<u32>,
    plan: Vec<Plan>,
    cursor: CaptureCursor,
}

impl Capture {
    /// Whether a row of this stamp must be copied before it is changed.
    #[inline]
    pub(super) fn wants(&self, group: usize, stamp: u32) -> bool {
        stamp < self.mark && stamp > self.since[group]
    }
}

#[derive(Debug, Default)]
struct CaptureCursor {
    group: usize,
    /// In a group that is taken in full.
    walk: Cursor,
    /// In the notes of a group that is not.
    noted: usize,
}

/// What snapshots are made from beside the rows: which earlier ones count, and what changed since.
#[derive(Debug)]
pub(super) struct History {
    /// What changed since the last barrier, by group of the range.
    pub(super) dirty: Vec<Dirty>,
    /// What changed from the base to the last barrier, and perhaps before.
    older: Vec<Dirty>,
    /// The last snapshot known to be durable.
    base: Option<Base>,
    /// The last one that was finished, if that is another: it may have become durable.
    last: Option<Base>,
    /// The snapshot under way.
    pub(super) capture: Option<Capture>,
}

impl History {
    /// Nothing is noted before the first barrier: the first snapshot is full.
    pub(super) fn new(groups: usize) -> History {
        let lost = || (0..groups).map(|_| Dirty::lost()).collect();
        History {
            dirty: lost(),
            older: lost(),
            base: None,
            last: None,
            capture: None,
        }
    }

    /// A barrier passes, and `base` is what is known to be durable. A group takes about `bytes`.
    fn pass(&mut self, base: Option<u64>, bytes: u64) {
        let is_base =
            |known: &Option<Base>| base.is_some() && base == known.as_ref().map(|known| known.id);
        let last = self.last.take();
        let goes_on = !is_base(&last) && is_base(&self.base);
        if is_base(&last) {
            self.base = last;
        } else if !goes_on {
            self.base = None;
        }
        for (group, older) in self.older.iter_mut().enumerate() {
            let chain = self.base.as_ref().map(|base| &base.chains[group]);
            let limit = bytes.max(chain.map_or(0, |chain| rotation::bytes(chain)));
            let noted = std::mem::replace(&mut self.dirty[group], Dirty::new(limit));
            if goes_on {
                older.absorb(noted);
            } else {
                *older = noted;
            }
        }
    }

    /// About the bytes of all notes.
    #[cfg(test)]
    pub(super) fn notes(&self) -> usize {
        let all = self.dirty.iter().chain(&self.older);
        all.map(Dirty::bytes).sum()
    }

    /// What to write of each group.
    fn plan(&self) -> Vec<Plan> {
        let Some(base) = &self.base else {
            return vec![Plan::Base; self.older.len()];
        };
        let change = |dirty: &Dirty| {
            if dirty.lost {
                Change::Unknown
            } else if dirty.is_clean() {
                Change::Nothing
            } else {
                Change::Some {
                    rows: (dirty.firsts.len() + dirty.rows.len()) as u64,
                    removals: dirty.gone_bytes(),
                }
            }
        };
        let changes: Vec<_> = self.older.iter().map(change).collect();
        rotation::plan(&base.chains, &changes)
    }

    /// The snapshot under way is collected.
    fn finish(&mut self, capture: Capture) -> Snapshot {
        let (id, mark, mut chains) = (capture.header.id, capture.mark, Vec::new());
        let mut groups = Vec::with_capacity(capture.groups.len());
        for (group, (rows, plan)) in capture.groups.into_iter().zip(capture.plan).enumerate() {
            let (kind, gone) = match plan {
                Plan::Base => (SectionKind::Base, Vec::new()),
                Plan::Nothing => (SectionKind::Delta, Vec::new()),
                Plan::Delta => (SectionKind::Delta, self.older[group].gone.clone()),
            };
            let changes = GroupChanges { kind, rows, gone };
            if id != STANDALONE {
                let (rows, bytes) = changes.size();
                let section = Section {
                    file: id,
                    bytes,
                    rows,
                };
                let known = self.base.as_ref().map(|base| &base.chains[group]);
                let chain = rotation::extend(known.map_or(&[], Vec::as_slice), plan, section);
                self.dirty[group].set_limit(rotation::bytes(&chain));
                chains.push(chain);
            }
            groups.push(changes);
        }
        if id != STANDALONE {
            self.last = Some(Base { id, mark, chains });
        }
        Snapshot {
            header: capture.header,
            contents: Contents::Groups(groups),
        }
    }
}

impl Store {
    /// Freezes all that is there. A snapshot under way is given up.
    pub(super) fn freeze(
        &mut self,
        (id, base): (u64, Option<u64>),
        schema: Schema,
        advance: Option<(TimeDomain, i64)>,
    ) {
        let stamp = self.stamp.checked_add(2);
        self.stamp = stamp.expect("68 years of a snapshot each second are enough");
        let groups = self.groups();
        let history = &mut self.history;
        history.capture = None;
        let (plan, base) = if id == STANDALONE {
            (vec![Plan::Base; groups], None)
        } else {
            let base = base.filter(|base| *base < id);
            history.pass(base, self.totals.bytes / groups.max(1) as u64);
            (history.plan(), history.base.as_ref())
        };
        let (needs, origins) = match base {
            Some(base) => rotation::needs(&base.chains, &plan),
            None => (Vec::new(), vec![0; groups]),
        };
        let since = plan.iter().map(|plan| match plan {
            Plan::Base => 0,
            Plan::Delta => base.map_or(0, |base| base.mark),
            Plan::Nothing => u32::MAX,
        });
        let since = since.collect();
        history.capture = Some(Capture {
            header: Header {
                max_parallelism: self.max_parallelism,
                range: self.range,
                id,
                needs,
                origins,
                advance,
                schema,
            },
            groups: (0..groups).map(|_| GroupRows::default()).collect(),
            since,
            mark: self.stamp - 1,
            plan,
            cursor: CaptureCursor::default(),
        });
    }

    /// Copies about `budget` frozen rows; the snapshot, once there are none left. `None` if nothing
    /// is frozen.
    pub(super) fn advance_capture(&mut self, budget: usize) -> Option<Progress> {
        let capture = self.history.capture.as_mut()?;
        let mut cursor = std::mem::take(&mut capture.cursor);
        let mut visited = 0;
        while visited < budget {
            let capture = self.history.capture.as_ref()?;
            let Some(plan) = capture.plan.get(cursor.group).copied() else {
                let capture = self.history.capture.take()?;
                let snapshot = self.history.finish(capture);
                return Some(Progress::Done(snapshot));
            };
            let is_done = match plan {
                Plan::Nothing => true,
                Plan::Base => self.capture_all(&mut cursor, budget, &mut visited),
                Plan::Delta => self.capture_changes(&mut cursor, budget, &mut visited),
            };
            if is_done {
                cursor = CaptureCursor {
                    group: cursor.group + 1,
                    ..CaptureCursor::default()
                };
            }
        }
        self.history.capture.as_mut()?.cursor = cursor;
        Some(Progress::More)
    }

    /// Goes on through the slots of a group; whether that was all.
    fn capture_all(
        &mut self,
        cursor: &mut CaptureCursor,
        budget: usize,
        visited: &mut usize,
    ) -> bool {
        while *visited < budget {
            let Some(id) = cursor.walk.slot(self, cursor.group) else {
                return true;
            };
            let within = std::mem::take(&mut cursor.walk.within);
            match self.capture_slot(id, within, budget, visited) {
                Some(within) => cursor.walk.within = within,
                None => cursor.walk.step(),
            }
            // Free slots take time too.
            *visited += 1;
        }
        false
    }

    fn capture_slot(
        &mut self,
        id: SlotId,
        from: Within,
        budget: usize,
        visited: &mut usize,
    ) -> Option<Within> {
        if matches!(from, Within::Start) {
            self.visit_first(id);
        }
        if self.slot(id).annex == 0 {
            return None;
        }
        let Parts {
            mut keeper,
            cells,
            timers,
            ..
        } = self.parts(id);
        let within = walk_cells(cells, from, budget, visited, |cell, table, suffix, row| {
            keeper.visit(cell, table, suffix, row);
        });
        let Within::Timers(last) = within else {
            return Some(within);
        };
        for (key, timer) in timers.range_mut(after(last.as_deref())) {
            keeper.visit_timer(key, timer);
            *visited += 1;
            if *visited >= budget {
                return Some(Within::Timers(Some(key.into())));
            }
        }
        None
    }

    /// Goes on through what was noted of a group; whether that was all.
    fn capture_changes(
        &mut self,
        cursor: &mut CaptureCursor,
        budget: usize,
        visited: &mut usize,
    ) -> bool {
        // Nothing is added to these notes while a snapshot is under way.
        let noted = std::mem::replace(&mut self.history.older[cursor.group], Dirty::lost());
        let firsts = noted.firsts.len();
        let all = firsts + noted.rows.len();
        while *visited < budget && cursor.noted < all {
            match cursor.noted.checked_sub(firsts) {
                None => self.visit_first(noted.firsts[cursor.noted]),
                Some(place) => self.visit_noted(&noted.rows[place]),
            }
            cursor.noted += 1;
            *visited += 1;
        }
        self.history.older[cursor.group] = noted;
        cursor.noted == all
    }

    fn visit_noted(&mut self, noted: &ChangedRow) {
        if self.annex(noted.slot).is_none() {
            return;
        }
        let ChangedRow { cell, suffix, .. } = noted;
        let Parts {
            mut keeper,
            cells,
            timers,
            ..
        } = self.parts(noted.slot);
        if noted.table == Table::Timers {
            if let Some(timer) = timers.get_mut(cell) {
                keeper.visit_timer(cell, timer);
            }
            return;
        }
        let row = match cells.get_mut(cell) {
            None => None,
            Some(Cell::Value(row)) => Some(row),
            Some(Cell::Entries(entries)) => entries.get_mut(suffix),
            Some(Cell::Items(items)) => place_of(items, suffix)
                .ok()
                .map(|place| &mut items[place].row),
        };
        if let Some(row) = row {
            keeper.visit(cell, noted.table, suffix, row);
        }
    }
}
