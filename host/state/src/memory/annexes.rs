//! The annexes of all slots, by number.

use super::annex::Annex;
use super::slot::Slot;

/// Annexes a page.
const PAGE: usize = 64;

/// Pages, so that one more annex never moves the others: at millions of keys that would stall the
/// job. A number takes half of a pointer's room in a slot.
#[derive(Debug, Default)]
pub(super) struct Annexes {
    pages: Vec<Vec<Annex>>,
    free: Vec<u32>,
}

impl Annexes {
    /// By the number that [`insert`](Self::insert) gave it, from 1 on.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &Annex {
        let place = number as usize - 1;
        &self.pages[place / PAGE][place % PAGE]
    }

    pub(super) fn get_mut(&mut self, number: u32) -> &mut Annex {
        let place = number as usize - 1;
        &mut self.pages[place / PAGE][place % PAGE]
    }

    /// A new one, empty.
    pub(super) fn insert(&mut self) -> u32 {
        if let Some(number) = self.free.pop() {
            return number;
        }
        if self.pages.last().is_none_or(|page| page.len() == PAGE) {
            self.pages.push(Vec::with_capacity(PAGE));
        }
        let before = (self.pages.len() - 1) * PAGE;
        let page = self.pages.last_mut().expect("there is a page with room");
        page.push(Annex::default());
        u32::try_from(before + page.len()).expect("there are no more annexes than slots")
    }

    /// Of one without cells and timers. Its number may be given out again.
    pub(super) fn remove(&mut self, number: u32) {
        let annex = self.get_mut(number);
        annex.key = Box::default();
        annex.first = Vec::new();
        annex.cells.shrink();
        annex.timers.shrink();
        self.free.push(number);
    }

    /// That of a slot, a new one if it has none.
    pub(super) fn of(&mut self, slot: &mut Slot) -> &mut Annex {
        if slot.annex == 0 {
            slot.annex = self.insert();
        }
        self.get_mut(slot.annex)
    }
}
