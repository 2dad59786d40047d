//! Rows as they are in a file, checked, and matched with what the operator declares.

use super::read::{Change, Row};
use crate::hash::{key_group, key_hash};
use crate::stored_key::{StoredKey, Table, suffix_time};
use crate::stored_value::{StoredValue, decode_timer};
use crate::timers::Registration;
use crate::{Error, Schema, StateKind, StateSpec, TimerSpec};

/// What follows a row's key in the file.
#[derive(Clone, Copy)]
pub(super) enum Stored<'a> {
    Value(&'a [u8]),
    Gone,
    CellGone,
}

/// A row that is what the format says.
pub(super) struct Checked<'a> {
    pub(super) is_timer: bool,
    /// Why it cannot be restored, if the operator does not declare it like that.
    pub(super) row: Result<Row<'a>, Error>,
}

/// The header's tables beside the operator's declarations. A declaration that changed is refused
/// by its rows: one that holds nothing may go or change freely.
pub(super) struct Tables<'a> {
    name: &'a str,
    snapshot: &'a Schema,
    job: &'a Schema,
    /// For each state and each timer in the snapshot its index in the job, once a row was met.
    states: Vec<Option<u16>>,
    timers: Vec<Option<u16>>,
}

impl<'a> Tables<'a> {
    pub(super) fn new(name: &'a str, snapshot: &'a Schema, job: &'a Schema) -> Self {
        let (states, timers) = (
            vec![None; snapshot.states.len()],
            vec![None; snapshot.timers.len()],
        );
        Tables {
            name,
            snapshot,
            job,
            states,
            timers,
        }
    }

    pub(super) fn check<'r>(
        &mut self,
        group: u16,
        max_parallelism: u16,
        key: &'r [u8],
        stored: Stored<'r>,
        corrupt: &dyn Fn(&str) -> Error,
    ) -> Result<Checked<'r>, Error> {
        let mut key = StoredKey::decode(key).ok_or_else(|| corrupt("not a stored key"))?;
        let hash = key_hash(&key.key);
        if key.group != group || key_group(hash, max_parallelism) != group {
            return Err(corrupt(
                "the row does not belong to the section's key group",
            ));
        }
        let index = usize::from(key.index);
        let is_timer = key.table == Table::Timers;
        let (change, declared) = if is_timer {
            let spec = self.snapshot.timers.get(index);
            let spec = spec.ok_or_else(|| corrupt("no such timer in the header"))?;
            let change = check_timer(&key, stored).map_err(corrupt)?;
            (change, self.timer(index, spec))
        } else {
            let spec = self.snapshot.states.get(index);
            let spec = spec.ok_or_else(|| corrupt("no such state in the header"))?;
            let change = check_state(spec, &key, stored).map_err(corrupt)?;
            (change, self.state(index, spec))
        };
        let row = declared.map(|index| {
            key.index = index;
            Row { hash, key, change }
        });
        Ok(Checked { is_timer, row })
    }

    fn state(&mut self, index: usize, snapshot: &StateSpec) -> Result<u16, Error> {
        if let Some(known) = self.states[index] {
            return Ok(known);
        }
        let (file, name) = (self.name.to_owned(), snapshot.name.clone());
        let Some(position) = self.job.states.iter().position(|spec| spec.name == name) else {
            return Err(Error::UnknownState { file, name });
        };
        let job = &self.job.states[position];
        if job.kind != snapshot.kind {
            return Err(Error::StateKind {
                file,
                name,
                snapshot: snapshot.kind.as_str(),
                job: job.kind.as_str(),
            });
        }
        if job.version != snapshot.version {
            return Err(Error::StateVersion {
                file,
                name,
                snapshot: snapshot.version,
                job: job.version,
            });
        }
        Ok(*self.states[index].insert(position as u16))
    }

    fn timer(&mut self, index: usize, snapshot: &TimerSpec) -> Result<u16, Error> {
        if let Some(known) = self.timers[index] {
            return Ok(known);
        }
        let (file, name) = (self.name.to_owned(), snapshot.name.clone());
        let Some(position) = self.job.timers.iter().position(|spec| spec.name == name) else {
            return Err(Error::UnknownTimer { file, name });
        };
        let job = self.job.timers[position].domain;
        if job != snapshot.domain {
            return Err(Error::TimerDomain {
                file,
                name,
                snapshot: snapshot.domain.as_str(),
                job: job.as_str(),
            });
        }
        Ok(*self.timers[index].insert(position as u16))
    }
}

fn check_timer<'a>(key: &StoredKey<'_>, stored: Stored<'a>) -> Result<Change<'a>, &'static str> {
    suffix_time(key.suffix).ok_or("not a timer's key")?;
    if key.namespace.is_none() {
        return Err("a timer without a namespace");
    }
    match stored {
        Stored::Value(value) => {
            let (chain, waits) = decode_timer(value).ok_or("not a timer's value")?;
            Ok(Change::Timer(Registration { chain, waits }))
        }
        Stored::Gone => Ok(Change::Gone),
        Stored::CellGone => Err("a timer has no cell that could be gone"),
    }
}

fn check_state<'a>(
    spec: &StateSpec,
    key: &StoredKey<'_>,
    stored: Stored<'a>,
) -> Result<Change<'a>, &'static str> {
    if key.table != spec.kind.table() {
        return Err("a row of another kind than its state");
    }
    // No namespace is the empty one, and has one encoding.
    if key.namespace.as_deref().is_some_and(<[u8]>::is_empty) {
        return Err("an empty namespace that is spelled out");
    }
    let suffix_fits = match (spec.kind, stored) {
        (StateKind::Value, Stored::CellGone) => false,
        (StateKind::Value, _) | (_, Stored::CellGone) => key.suffix.is_empty(),
        // Far from where the positions of what is appended later would run out.
        (StateKind::Items, _) => key.suffix.len() == size_of::<u64>() && key.suffix[0] < 0x80,
        (StateKind::Entries, _) => true,
    };
    if !suffix_fits {
        return Err("a key that does not fit its table");
    }
    match stored {
        Stored::Value(value) => {
            let value = StoredValue::decode(value).ok_or("not a stored value")?;
            if value.version != spec.version {
                return Err("a value of another schema version than its state");
            }
            Ok(Change::Value(value))
        }
        Stored::Gone => Ok(Change::Gone),
        Stored::CellGone => Ok(Change::CellGone),
    }
}
