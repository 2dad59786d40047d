//! Where records came from, in words.

use std::sync::{Mutex, PoisonError, RwLock};

use crate::batch::Origin;

/// So many names of inputs that are found while the job runs are kept. Records on their way come from the last few.
const FOUND_NAMES: usize = 1 << 16;

/// The names of all splits of a job, for turning an [`Origin`] into words.
#[derive(Debug, Default)]
pub struct Origins {
    names: RwLock<Vec<(String, &'static str)>>,
    /// The number of the first input found while the job runs, and how many there were.
    found: Mutex<Option<(usize, usize)>>,
}

impl Origins {
    /// Sets split number `split` (global to the job): its name and what a place in it is called (`line`, `record`).
    pub fn set(&self, split: u32, name: &str, unit: &'static str) {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        let at = split as usize;
        if names.len() <= at {
            names.resize(at + 1, (String::new(), unit));
        }
        names[at] = (name.to_owned(), unit);
    }

    /// Takes up an input that was found while the job runs, after all [`Origins::set`]. Its number is used again after
    /// many thousands more.
    pub fn add(&self, name: &str, unit: &'static str) -> u32 {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let known = || {
            let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
            names.len()
        };
        let (first, count) = found.get_or_insert_with(|| (known(), 0));
        let number = (*first + *count % FOUND_NAMES) as u32;
        *count += 1;
        self.set(number, name, unit);
        number
    }

    fn one(&self, origin: Origin) -> Option<String> {
        let (split, place) = origin.split_and_place()?;
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        let (name, unit) = names.get(split as usize)?;
        Some(format!("{name} {unit} {place}"))
    }

    /// The record `row` of a batch in words or, where the row is not known, the batch's first and last.
    pub fn describe(&self, origins: &[Origin], row: Option<u32>) -> Option<String> {
        if let Some(origin) = row.and_then(|row| origins.get(row as usize)) {
            return self.one(*origin);
        }
        let mut known = origins
            .iter()
            .copied()
            .filter(|origin| *origin != Origin::NONE);
        let first = known.next()?;
        match known.next_back() {
            None => self.one(first),
            Some(last) => Some(format!(
                "one of {}: {} to {}",
                origins.len(),
                self.one(first)?,
                self.one(last)?
            )),
        }
    }
}
