//! The annexes of all slots, by number.

use super::annex::Annex;
use super::prefetch::prefetch;
use super::slot::Slot;

/// Annexes a page: a word of bits each.
const PAGE: usize = u64::BITS as usize;

/// Pages, so that one more annex never moves the others: at millions of keys that would stall the
/// job. A number takes half of a pointer's room in a slot.
///
/// The free ones are given out page by page. So those of keys that come one after the other lie
/// side by side, even if they were given back in another order.
#[derive(Debug, Default)]
pub(super) struct Annexes {
    pages: Vec<Box<[Annex]>>,
    /// Which of a page are free.
    free: Vec<u64>,
    /// Pages with free ones.
    open: Vec<u32>,
}

fn place(number: u32) -> (usize, usize) {
    let place = number as usize - 1;
    (place / PAGE, place % PAGE)
}

impl Annexes {
    /// By the number that [`insert`](Self::insert) gave it, from 1 on.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &Annex {
        let (page, place) = place(number);
        &self.pages[page][place]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> &mut Annex {
        let (page, place) = place(number);
        &mut self.pages[page][place]
    }

    /// A new one, empty.
    pub(super) fn insert(&mut self) -> u32 {
        let page = self.open.last().copied().unwrap_or_else(|| {
            let page = u32::try_from(self.pages.len());
            let page = page.expect("there are no more annexes than slots");
            self.pages
                .push((0..PAGE).map(|_| Annex::default()).collect());
            self.free.push(u64::MAX);
            self.open.push(page);
            page
        });
        let free = &mut self.free[page as usize];
        let place = free.trailing_zeros();
        *free &= *free - 1;
        if *free == 0 {
            self.open.pop();
        }
        page * PAGE as u32 + place + 1
    }

    /// Of one without cells, timers and first value. Its number may be given out again.
    pub(super) fn remove(&mut self, number: u32, has_key: bool) {
        let annex = self.get_mut(number);
        annex.cells.shrink();
        // Else it need not be fetched.
        if has_key {
            annex.key = Box::default();
        }
        let (page, place) = place(number);
        if self.free[page] == 0 {
            self.open.push(page as u32);
        }
        self.free[page] |= 1 << place;
    }

    /// Asks for the annex with a number that was given out.
    #[inline]
    pub(super) fn prefetch(&self, number: u32) {
        prefetch(&self.get(number).timers);
    }

    /// That of a slot, a new one if it has none.
    #[inline]
    pub(super) fn of(&mut self, slot: &mut Slot) -> &mut Annex {
        if slot.annex == 0 {
            slot.annex = self.insert();
        }
        self.get_mut(slot.annex)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_are_given_out_once_and_side_by_side() {
        let mut annexes = Annexes::default();
        let count = 5 * PAGE as u32 + 7;
        let mut used: BTreeSet<u32> = (0..count).map(|_| annexes.insert()).collect();
        assert_eq!((used.len() as u32, used.first()), (count, Some(&1)));
        // Back in an order of their own, all but some.
        let order = (0..count).map(|number| number * 101 % count + 1);
        for number in order.filter(|number| number % 10 != 0) {
            annexes.remove(number, true);
            used.remove(&number);
        }
        let again: Vec<u32> = (0..3 * PAGE).map(|_| annexes.insert()).collect();
        assert!(again.iter().all(|number| used.insert(*number)));
        let steps = again.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!(steps < 5, "{again:?}");
        assert_eq!(annexes.pages.len(), 6);
        while used.len() < 6 * PAGE {
            assert!(used.insert(annexes.insert()));
        }
        assert!(used.insert(annexes.insert()));
        assert_eq!(annexes.pages.len(), 7);
    }
}
