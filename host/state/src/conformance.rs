//! The suite that every implementation of [`KeyedState`] passes: call [`conformance_tests!`] with a
//! constructor.

mod calls;
mod entries;
mod expiry;
mod model;
mod random;
mod rescale;
mod timers;

use crate::hash::{group_range, key_hash};
use crate::{Cells, Column, Error, Firing, GroupRange, KeyedState, Nullable, Schema};
use crate::{StateKind, StateSpec, TimeDomain, TimerSpec, Ttl};

/// Makes an empty instance.
pub(crate) type Make = dyn Fn(Schema, GroupRange, u16) -> Box<dyn KeyedState>;

macro_rules! conformance_tests {
    ($make:expr; $($module:ident { $($test:ident)* })*) => {
        $(mod $module {
            $(#[test] fn $test() { $crate::conformance::$module::$test(&$make); })*
        })*
    };
    ($make:expr) => {
        conformance_tests! { $make;
            calls {
                keys_are_numbered_in_order_of_first_appearance
                reads_see_the_call_s_writes_and_discard_drops_them
                of_repeated_cells_the_last_wins_and_null_deletes
                cells_differ_by_key_namespace_and_state
                items_keep_their_order
                clear_empties_a_cell_of_any_kind
                what_is_out_of_order_or_out_of_range_is_refused
                keys_of_other_subtasks_are_refused
                budgets_hold
                stats_count_what_is_applied
            }
            entries {
                entries_are_read_and_written_by_name
                scans_page_in_both_directions
                scans_see_the_call_s_writes
                bounds_are_half_open
                a_scan_stays_in_its_cell
                clear_entries_deletes_a_range
            }
            expiry {
                a_value_is_invisible_from_its_expiry_on
                only_touch_renews_on_access
                a_renewal_that_gains_little_is_not_made
                items_and_entries_expire_one_by_one
                what_expired_is_cleaned_up
            }
            timers {
                timers_fire_in_order_and_no_key_twice_in_a_firing
                setting_is_idempotent_and_the_last_call_wins
                a_firing_can_cancel_what_has_not_fired
                a_firing_sets_timers_for_this_advance_the_next_or_later
                a_discarded_firing_comes_again
                domains_are_apart
                a_chain_of_a_thousand_is_the_longest
                a_chain_goes_on_over_advances_to_the_same_time
                next_timer_and_drop
                advances_are_asked_for
            }
            rescale {
                a_snapshot_is_frozen_when_it_is_taken
                state_and_timers_survive_any_parallelism
                snapshots_build_on_durable_ones
                an_advance_goes_on_after_a_restore
                a_failed_restore_changes_nothing
                a_group_is_restored_once
                changed_declarations_are_refused_if_they_held_anything
                values_keep_the_expiry_they_were_written_with
            }
            random { agrees_with_a_naive_model }
        }
    };
}

mod memory {
    conformance_tests!(|schema, range, max| Box::new(crate::Memory::new(schema, range, max)));
}

mod oracle {
    conformance_tests!(|schema, range, max| Box::new(crate::Oracle::new(schema, range, max)));
}

const MAX_PARALLELISM: u16 = 16;
const VALUE: u32 = 0;
const ITEMS: u32 = 1;
const ENTRIES: u32 = 2;
/// Renewed on write, 100 ms.
const BRIEF: u32 = 3;
/// Renewed on access, 160 ms.
const BRIEF_ITEMS: u32 = 4;
const BRIEF_ENTRIES: u32 = 5;
const OTHER_VALUE: u32 = 6;
const EVENT: u32 = 0;
const OTHER_EVENT: u32 = 1;
const PROCESSING: u32 = 2;

fn schema() -> Schema {
    let state = |name: &str, kind, ttl| StateSpec {
        name: name.into(),
        kind,
        version: 1,
        ttl,
    };
    let on_access = Some(Ttl {
        millis: 160,
        renew_on_access: true,
    });
    let timer = |name: &str, domain| TimerSpec {
        name: name.into(),
        domain,
    };
    Schema {
        states: vec![
            state("value", StateKind::Value, None),
            state("items", StateKind::Items, None),
            state("entries", StateKind::Entries, None),
            state(
                "brief",
                StateKind::Value,
                Some(Ttl {
                    millis: 100,
                    renew_on_access: false,
                }),
            ),
            state("brief-items", StateKind::Items, on_access),
            state("brief-entries", StateKind::Entries, on_access),
            state("other-value", StateKind::Value, None),
        ],
        timers: vec![
            timer("event", TimeDomain::Event),
            timer("other-event", TimeDomain::Event),
            timer("processing", TimeDomain::Processing),
        ],
    }
}

/// An instance that owns everything, driven in text.
struct Single {
    state: Box<dyn KeyedState>,
    now: i64,
}

impl Single {
    fn new(make: &Make) -> Single {
        Single {
            state: make(
                schema(),
                group_range(0, 1, MAX_PARALLELISM),
                MAX_PARALLELISM,
            ),
            now: 0,
        }
    }

    fn intern(&mut self, keys: &[&str]) {
        let hashes: Vec<u64> = keys.iter().map(|key| key_hash(key.as_bytes())).collect();
        let keys: Column = keys.iter().collect();
        self.state.intern(keys.as_ref(), &hashes).unwrap();
    }

    /// Opens a call on these keys.
    fn open(&mut self, keys: &[&str]) {
        self.intern(keys);
        self.state.begin(self.now);
    }

    /// A whole call.
    fn call<T>(&mut self, keys: &[&str], body: impl FnOnce(&mut Single) -> T) -> T {
        self.open(keys);
        let result = body(self);
        self.state.apply().unwrap();
        result
    }

    fn put(&mut self, state: u32, keys: &[u32], values: &[Option<&str>]) {
        let values: Nullable = values.iter().copied().collect();
        self.state.put(state, at(keys), values.as_ref()).unwrap();
    }

    fn get(&mut self, state: u32, keys: &[u32]) -> Vec<Option<String>> {
        text(self.state.get(state, at(keys)).unwrap().iter())
    }

    /// What a call on one key sees.
    fn look(&mut self, state: u32, key: &str) -> Option<String> {
        self.call(&[key], |single| single.get(state, &[0]).remove(0))
    }

    fn append(&mut self, state: u32, keys: &[u32], items: &[&str]) {
        let items: Column = items.iter().collect();
        self.state.append(state, at(keys), items.as_ref()).unwrap();
    }

    fn items(&mut self, state: u32, key: u32) -> Vec<String> {
        let lists = self.state.get_items(state, at(&[key])).unwrap();
        assert_eq!(lists.ends, [lists.items.len() as u32]);
        names(&lists.items)
    }

    fn put_entries(&mut self, state: u32, key: u32, entries: &[(&str, Option<&str>)]) {
        let names: Column = entries.iter().map(|(name, _)| name).collect();
        let values: Nullable = entries.iter().map(|(_, value)| *value).collect();
        let keys = vec![key; entries.len()];
        self.state
            .put_entries(state, at(&keys), names.as_ref(), values.as_ref())
            .unwrap();
    }

    /// A page of one cell as `name=value` words, `+` at the end if there is more.
    fn scan(
        &mut self,
        state: u32,
        key: u32,
        range: (Option<&str>, Option<&str>),
        descending: bool,
        limit: u32,
    ) -> String {
        let (start, end): (Nullable, Nullable) = (
            [range.0].into_iter().collect(),
            [range.1].into_iter().collect(),
        );
        let page = self
            .state
            .scan(
                state,
                at(&[key]),
                start.as_ref(),
                end.as_ref(),
                descending,
                limit,
            )
            .unwrap();
        assert_eq!(
            (page.ends.as_slice(), page.more.len()),
            (&[page.names.len() as u32][..], 1)
        );
        let mut words: Vec<String> = names(&page.names)
            .into_iter()
            .zip(names(&page.values))
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        words.extend((page.more == [1]).then(|| "+".to_owned()));
        words.join(" ")
    }

    fn set(&mut self, timer: u32, keys: &[u32], times: &[i64]) {
        self.state.set_timers(timer, at(keys), times).unwrap();
    }

    fn cancel(&mut self, timer: u32, keys: &[u32], times: &[i64]) {
        self.state.cancel_timers(timer, at(keys), times).unwrap();
    }

    /// Opens the next firing; `None` at the end of the advance.
    fn fire(&mut self, limit: usize) -> Option<Firing> {
        let firing = self.state.pop_due(limit).unwrap()?;
        self.state.begin(self.now);
        Some(firing)
    }

    /// A whole advance in which nothing reacts, as `key@time` words.
    fn advance(&mut self, domain: TimeDomain, until: i64) -> String {
        self.state.begin_advance(domain, until);
        let mut words = Vec::new();
        while let Some(firing) = self.fire(usize::MAX) {
            words.extend(fired(&firing));
            self.state.apply().unwrap();
        }
        self.state.end_advance();
        words.join(" ")
    }

    fn snapshot(&mut self) -> Vec<u8> {
        let mut file = Vec::new();
        self.state.snapshot().write(&mut file).unwrap();
        file
    }
}

fn at(keys: &[u32]) -> Cells<'_> {
    Cells {
        keys,
        namespaces: None,
    }
}

fn text<'a>(rows: impl Iterator<Item = Option<&'a [u8]>>) -> Vec<Option<String>> {
    rows.map(|row| row.map(|row| String::from_utf8_lossy(row).into_owned()))
        .collect()
}

fn names(column: &Column) -> Vec<String> {
    column
        .iter()
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

fn fired(firing: &Firing) -> Vec<String> {
    names(&firing.keys)
        .iter()
        .zip(&firing.times)
        .map(|(key, time)| format!("{key}@{time}"))
        .collect()
}

fn some(values: &[&str]) -> Vec<Option<String>> {
    values
        .iter()
        .map(|value| Some((*value).to_owned()))
        .collect()
}
