//! The keys of all groups and what they hold: applied calls only.

use super::annex::{Annex, Cell};
use super::annexes::Annexes;
use super::capture::History;
use super::cursor::Sweep;
use super::directory::Directory;
use super::keeper::Keeper;
use super::prefetch::prefetch;
use super::slot::{First, Slot};
use super::sorted::SortedMap;
use super::timer_map::TimerMap;
use crate::GroupRange;
use crate::hash::key_group;
use crate::stored_key::Table;

/// Slots of a group's first page, and of its later ones. Most groups are tiny when there are many.
const FIRST_PAGE: usize = 4;
const PAGE: usize = 1 << PAGE_BITS;
const PAGE_BITS: u32 = 8;

/// The number of a slot: that of its page, and its place there.
pub(super) type SlotId = u32;

#[derive(Debug, Default)]
struct Group {
    /// Numbers of its pages.
    pages: Vec<u32>,
    /// Slots at the end of the last page that were never used.
    fresh: usize,
    /// Slots that were used once.
    free: Vec<SlotId>,
}

/// Sums over all that is held.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) entries: u64,
    pub(super) timers: u64,
    pub(super) bytes: u64,
}

#[derive(Debug)]
pub(super) struct Store {
    pub(super) range: GroupRange,
    pub(super) max_parallelism: u16,
    /// The value state whose values without namespace lie in the slots.
    pub(super) first: Option<u16>,
    /// By group, as is the next.
    directories: Vec<Directory>,
    groups: Vec<Group>,
    /// Of all groups, by number. A page belongs to one group and never goes.
    pages: Vec<Box<[Slot]>>,
    annexes: Annexes,
    pub(super) totals: Totals,
    /// Slots, some perhaps twice, that may be in use for nothing.
    idle: Vec<SlotId>,

    /// What is written now; see [`keeper`](super::keeper).
    pub(super) stamp: u32,
    pub(super) history: History,
    pub(super) sweep: Sweep,
}

/// What a key holds beyond its first value, to be changed.
pub(super) struct Parts<'a> {
    pub(super) keeper: Keeper<'a>,
    pub(super) cells: &'a mut SortedMap<Cell>,
    pub(super) timers: &'a mut TimerMap,
    pub(super) totals: &'a mut Totals,
}

impl Store {
    pub(super) fn new(range: GroupRange, max_parallelism: u16, first: Option<u16>) -> Store {
        Store {
            range,
            max_parallelism,
            first,
            directories: (0..range.len()).map(|_| Directory::new()).collect(),
            groups: (0..range.len()).map(|_| Group::default()).collect(),
            pages: Vec::new(),
            annexes: Annexes::default(),
            totals: Totals::default(),
            idle: Vec::new(),
            stamp: 1,
            history: History::new(range.len()),
            sweep: Sweep::default(),
        }
    }

    /// The group of a hash that this instance owns, counted from the first of the range.
    #[inline]
    pub(super) fn group(&self, hash: u64) -> usize {
        usize::from(key_group(hash, self.max_parallelism) - self.range.start)
    }

    /// The number of groups.
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// The first slot of a group's page and the number of its slots; `None` beyond the last page.
    pub(super) fn page(&self, group: usize, page: usize) -> Option<(SlotId, usize)> {
        let number = *self.groups[group].pages.get(page)?;
        Some((number << PAGE_BITS, self.pages[number as usize].len()))
    }

    #[inline]
    pub(super) fn slot(&self, id: SlotId) -> &Slot {
        &self.pages[(id >> PAGE_BITS) as usize][id as usize % PAGE]
    }

    #[inline]
    pub(super) fn slot_mut(&mut self, id: SlotId) -> &mut Slot {
        &mut self.pages[(id >> PAGE_BITS) as usize][id as usize % PAGE]
    }

    #[inline]
    pub(super) fn prefetch_directory(&self, group: usize, hash: u64) {
        self.directories[group].prefetch(hash);
    }

    /// A slot that is probably the key's, on its way from memory.
    #[inline(always)]
    pub(super) fn prefetch_slot(&self, group: usize, hash: u64) -> Option<SlotId> {
        let id = self.directories[group].candidate(hash)?;
        prefetch(self.slot(id));
        Some(id)
    }

    /// Of a slot that is there already.
    #[inline]
    pub(super) fn prefetch_annex(&self, id: SlotId) {
        match self.slot(id).annex {
            0 => {}
            number => self.annexes.prefetch(number),
        }
    }

    /// Of a slot that probably has the annex with this number.
    #[inline]
    pub(super) fn prefetch_with(&self, id: SlotId, annex: u32) {
        prefetch(self.slot(id));
        self.annexes.prefetch(annex);
    }

    /// Whether a slot is that of a key.
    #[inline]
    pub(super) fn is(&self, id: SlotId, hash: u64, key: &[u8]) -> bool {
        let slot = self.slot(id);
        slot.is(hash, key)
            .unwrap_or_else(|| *self.annexes.get(slot.annex).key == *key)
    }

    /// The slot of a key that has one.
    pub(super) fn find(&self, group: usize, hash: u64, key: &[u8]) -> Option<SlotId> {
        self.directories[group].find(hash, |id| self.is(id, hash, key))
    }

    /// The slot of a key, a new one if it has none. A new slot is idle until something is put into
    /// it.
    pub(super) fn intern(&mut self, group: usize, hash: u64, key: &[u8]) -> SlotId {
        if let Some(id) = self.find(group, hash, key) {
            return id;
        }
        let id = self.free_slot(group);
        if self.slot_mut(id).take(hash, key) {
            let annex = self.annexes.insert();
            self.annexes.get_mut(annex).key = key.into();
            self.slot_mut(id).annex = annex;
        }
        self.directories[group].insert(hash, id);
        self.idle.push(id);
        id
    }

    fn free_slot(&mut self, group: usize) -> SlotId {
        let group = &mut self.groups[group];
        if let Some(id) = group.free.pop() {
            return id;
        }
        if group.fresh == 0 {
            let size = (FIRST_PAGE << group.pages.len().min(PAGE_BITS as usize)).min(PAGE);
            // Two numbers are kept back: the directory stores a slot's number + 1.
            let number = u32::try_from(self.pages.len())
                .ok()
                .filter(|number| *number < u32::MAX >> PAGE_BITS)
                .expect("memory ends before the numbers of slots do");
            group.pages.push(number);
            group.fresh = size;
            self.pages.push(vec![Slot::UNUSED; size].into());
        }
        let number = *group
            .pages
            .last()
            .expect("a page was just made or has room");
        let offset = self.pages[number as usize].len() - group.fresh;
        group.fresh -= 1;
        (number << PAGE_BITS) | offset as u32
    }

    #[inline]
    pub(super) fn key(&self, id: SlotId) -> &[u8] {
        key_of(self.slot(id), &self.annexes)
    }

    /// The first value and its expiry, expired or not.
    #[inline]
    pub(super) fn first(&self, id: SlotId) -> Option<(&[u8], Option<i64>)> {
        first_of(self.slot(id), &self.annexes)
    }

    #[inline]
    pub(super) fn set_first(&mut self, id: SlotId, bytes: &[u8], expiry: Option<i64>) {
        let slot = &mut self.pages[(id >> PAGE_BITS) as usize][id as usize % PAGE];
        // The usual case: there is one, and the new one lies inside like it.
        if slot.stamp == self.stamp
            && let Some((First::Inside(old), _)) = slot.first()
        {
            let (old, new) = (old.len() as u64, bytes.len() as u64);
            if slot.set_first(bytes, expiry) {
                self.totals.bytes = self.totals.bytes.wrapping_add(new).wrapping_sub(old);
                return;
            }
        }
        self.set_other_first(id, bytes, expiry);
    }

    #[inline(never)]
    fn set_other_first(&mut self, id: SlotId, bytes: &[u8], expiry: Option<i64>) {
        self.change_first(id);
        let slot = &mut self.pages[(id >> PAGE_BITS) as usize][id as usize % PAGE];
        let mut long = Vec::new();
        match slot.first() {
            Some((First::Inside(old), _)) => self.totals.bytes -= old.len() as u64,
            Some((First::Long, _)) => {
                long = std::mem::take(&mut self.annexes.of(slot).first);
                self.totals.bytes -= long.len() as u64;
                long.clear();
            }
            None => {
                self.totals.entries += 1;
                self.totals.bytes += key_of(slot, &self.annexes).len() as u64;
            }
        }
        self.totals.bytes += bytes.len() as u64;
        if !slot.set_first(bytes, expiry) {
            slot.set_long_first(expiry);
            long.extend_from_slice(bytes);
            self.annexes.of(slot).first = long;
        }
    }

    pub(super) fn clear_first(&mut self, id: SlotId) {
        if let Some((old, _)) = self.first(id) {
            let bytes = (self.key(id).len() + old.len()) as u64;
            self.change_first(id);
            let slot = &self.pages[(id >> PAGE_BITS) as usize][id as usize % PAGE];
            if let Some(state) = self.first {
                let group = self.group(slot.hash);
                let place = (self.range.start + group as u16, Table::Value, state);
                let key = key_of(slot, &self.annexes);
                self.history.dirty[group].gone(place, key, None, &[]);
            }
            self.totals.bytes -= bytes;
            self.totals.entries -= 1;
            let slot = self.slot_mut(id);
            slot.clear_first();
            if slot.annex != 0 {
                let annex = slot.annex;
                self.annexes.get_mut(annex).first = Vec::new();
            }
            self.idle.push(id);
        }
    }

    /// Gives the first value the expiry that `renewed` makes of its own, if any.
    pub(super) fn renew_first(&mut self, id: SlotId, renewed: impl Fn(Option<i64>) -> Option<i64>) {
        if let Some((bytes, old)) = self.first(id)
            && let Some(expiry) = renewed(old)
        {
            let bytes = bytes.to_vec();
            self.set_first(id, &bytes, Some(expiry));
        }
    }

    /// What [`Keeper::row`] does, for the first value, there or not. A slot keeps its stamp when it
    /// changes hands: it is noted already.
    #[inline]
    fn change_first(&mut self, id: SlotId) {
        let group = self.group(self.slot(id).hash);
        let stamp = self.stamp;
        let before = std::mem::replace(&mut self.slot_mut(id).stamp, stamp);
        if before == stamp {
            return;
        }
        let History { dirty, capture, .. } = &mut self.history;
        dirty[group].first(id);
        if capture
            .as_ref()
            .is_some_and(|capture| capture.wants(group, before))
        {
            self.keep_first(id);
        }
    }

    /// What [`Keeper::visit`] does, for the first value.
    pub(super) fn visit_first(&mut self, id: SlotId) {
        let mark = self.stamp - 1;
        let slot = self.slot_mut(id);
        if slot.has_first() && slot.stamp < mark {
            slot.stamp = mark;
            self.keep_first(id);
        }
    }

    /// Copies the first value, if there is one.
    fn keep_first(&mut self, id: SlotId) {
        let group = self.group(self.slot(id).hash);
        let slot = &self.pages[(id >> PAGE_BITS) as usize][id as usize % PAGE];
        if let (Some((bytes, expiry)), Some(state)) = (first_of(slot, &self.annexes), self.first) {
            let mut keeper = Keeper {
                stamp: self.stamp,
                capture: self.history.capture.as_mut(),
                dirty: &mut self.history.dirty[group],
                group,
                number: self.range.start + group as u16,
                slot: id,
                key: key_of(slot, &self.annexes),
            };
            keeper.keep(Table::Value, state, None, &[], expiry, bytes);
        }
    }

    /// The cells and timers of a key that has any.
    #[inline]
    pub(super) fn annex(&self, id: SlotId) -> Option<&Annex> {
        let number = self.slot(id).annex;
        (number != 0).then(|| self.annexes.get(number))
    }

    /// All of a key that does not lie in the slot, to be changed. Whoever removes anything calls
    /// [`removed`](Self::removed) afterwards.
    pub(super) fn parts(&mut self, id: SlotId) -> Parts<'_> {
        let group = self.group(self.slot(id).hash);
        let slot = &mut self.pages[(id >> PAGE_BITS) as usize][id as usize % PAGE];
        let Annex {
            key, cells, timers, ..
        } = self.annexes.of(slot);
        Parts {
            keeper: Keeper {
                stamp: self.stamp,
                capture: self.history.capture.as_mut(),
                dirty: &mut self.history.dirty[group],
                group,
                number: self.range.start + group as u16,
                slot: id,
                // Not in one expression, which would fetch the annex's second line.
                key: match slot.short_key() {
                    Some(key) => key,
                    None => key,
                },
            },
            cells,
            timers,
            totals: &mut self.totals,
        }
    }

    /// Something of the key went. An annex that holds nothing is free for another key at once if
    /// the slot stays without it.
    #[inline]
    pub(super) fn removed(&mut self, id: SlotId) {
        if !self.annex(id).is_some_and(Annex::is_vacant) {
            return;
        }
        let slot = self.slot_mut(id);
        if slot.short_key().is_some() && matches!(slot.first(), Some((First::Inside(_), _))) {
            let number = std::mem::take(&mut slot.annex);
            self.annexes.remove(number, false);
        } else {
            self.idle.push(id);
        }
    }

    /// Frees the slots and annexes that hold nothing; between calls.
    pub(super) fn free_idle(&mut self) {
        while let Some(id) = self.idle.pop() {
            let slot = self.slot(id);
            let vacant = self.annex(id).is_none_or(Annex::is_vacant);
            if slot.is_free() || !vacant {
                continue;
            }
            let (hash, number) = (slot.hash, slot.annex);
            let has_key = slot.short_key().is_none();
            if !slot.has_first() {
                let group = self.group(hash);
                self.directories[group].remove(hash, id);
                self.groups[group].free.push(id);
                self.slot_mut(id).release();
            } else if has_key || matches!(slot.first(), Some((First::Long, _))) {
                continue;
            }
            if number != 0 {
                self.annexes.remove(number, has_key);
                self.slot_mut(id).annex = 0;
            }
        }
    }
}

#[inline]
fn key_of<'a>(slot: &'a Slot, annexes: &'a Annexes) -> &'a [u8] {
    slot.short_key()
        .unwrap_or_else(|| &annexes.get(slot.annex).key)
}

#[inline]
fn first_of<'a>(slot: &'a Slot, annexes: &'a Annexes) -> Option<(&'a [u8], Option<i64>)> {
    let (first, expiry) = slot.first()?;
    let bytes = match first {
        First::Inside(bytes) => bytes,
        First::Long => &annexes.get(slot.annex).first,
    };
    Some((bytes, expiry))
}
