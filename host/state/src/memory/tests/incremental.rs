//! What is in the files of snapshots that build on others, and what is refused of them.

use super::*;
use crate::hash::key_group;

const ITEMS: u32 = 0;
const VALUE: u32 = 1;
const ENTRIES: u32 = 2;
const KEYS: usize = 4_000;

fn key(number: usize) -> String {
    format!("key {number:05}")
}

/// One instance and its files.
struct Job {
    state: Memory,
    storage: Storage,
    id: u64,
}

impl Job {
    fn new() -> Job {
        Job {
            state: empty_memory(None),
            storage: Storage::default(),
            id: 0,
        }
    }

    /// A value, an item, an entry and a timer under every key, in a snapshot that is durable.
    fn filled() -> Job {
        let mut job = Job::new();
        for first in (0..KEYS).step_by(500) {
            job.call(first..first + 500, |state, at, numbers| {
                let column: Column = numbers.iter().map(|number| number.to_string()).collect();
                state.put(VALUE, at, column.as_ref().into()).unwrap();
                state.append(ITEMS, at, column.as_ref()).unwrap();
                state
                    .put_entries(ENTRIES, at, column.as_ref(), column.as_ref().into())
                    .unwrap();
                let times: Vec<i64> = numbers.iter().map(|number| *number as i64).collect();
                state.set_timers(0, at, &times).unwrap();
            });
        }
        job.checkpoint();
        job
    }

    fn call(
        &mut self,
        keys: impl Iterator<Item = usize>,
        body: impl FnOnce(&mut Memory, Cells<'_>, &[usize]),
    ) {
        let numbers: Vec<usize> = keys.collect();
        let keys: Column = numbers.iter().map(|number| key(*number)).collect();
        let hashes: Vec<u64> = keys.iter().map(key_hash).collect();
        self.state.intern(keys.as_ref(), &hashes).unwrap();
        self.state.begin(0);
        let cells: Vec<u32> = (0..numbers.len() as u32).collect();
        let at = Cells {
            keys: &cells,
            namespaces: None,
        };
        body(&mut self.state, at, &numbers);
        self.state.apply().unwrap();
    }

    fn put(&mut self, keys: impl Iterator<Item = usize>, value: &str) {
        self.call(keys, |state, at, numbers| {
            let values: Column = numbers.iter().map(|_| value).collect();
            state.put(VALUE, at, values.as_ref().into()).unwrap();
        });
    }

    fn freeze(&mut self) {
        self.id += 1;
        self.state.freeze(self.id, self.storage.durable);
    }

    fn collect(&mut self) -> u64 {
        loop {
            if let Progress::Done(snapshot) = self.state.advance_snapshot(100).unwrap() {
                return self.storage.put(snapshot);
            }
        }
    }

    /// A snapshot that is made durable.
    fn checkpoint(&mut self) -> u64 {
        self.freeze();
        let id = self.collect();
        self.storage.confirm(id);
        id
    }

    /// What a file says is there and what is gone, and how long it is.
    fn size(&self, id: u64) -> (u64, u64, usize) {
        let file = &self.storage.files[&id].0;
        let footer = &file[file.len() - 8 - 32..];
        let number = |at: usize| u64::from_le_bytes(footer[at..at + 8].try_into().unwrap());
        (number(0) + number(8), number(16), file.len())
    }

    /// The files of a snapshot hold what the instance holds now.
    fn check(&mut self, id: u64) {
        let mut restored = empty_memory(None);
        read(&mut restored, &self.storage.list(id)).unwrap();
        assert_eq!(restored.stats(), self.state.stats());
        let file = whole_file(&mut restored, None);
        assert!(file == whole_file(&mut self.state, None));
    }
}

#[test]
fn what_did_not_change_takes_no_room_and_the_files_needed_stay_the_same() {
    let mut job = Job::filled();
    let full = job.size(1).2;
    job.put([7].into_iter(), "changed");
    let second = job.checkpoint();
    assert_eq!(job.size(second).0, 1);
    assert_eq!(job.storage.files[&second].1, [1]);
    for _ in 0..100 {
        let id = job.checkpoint();
        let (rows, removals, bytes) = job.size(id);
        assert_eq!((rows, removals), (0, 0));
        assert!(bytes < full / 100);
        assert_eq!(job.storage.files[&id].1, [1, second]);
    }
    let id = job.checkpoint();
    job.check(id);
}

#[test]
fn a_changed_row_is_in_a_delta_alone_whatever_its_key_holds_beside() {
    let mut job = Job::new();
    // A key with many entries and items.
    let names: Column = (0..3_000).map(|name| format!("name {name}")).collect();
    let cells = vec![0; names.len()];
    let at = Cells {
        keys: &cells,
        namespaces: None,
    };
    job.call(0..1, |state, _, _| {
        let values = names.as_ref().into();
        state
            .put_entries(ENTRIES, at, names.as_ref(), values)
            .unwrap();
        state.append(ITEMS, at, names.as_ref()).unwrap();
    });
    job.checkpoint();
    let one: Column = ["name 1234"].into_iter().collect();
    let new: Nullable = [Some("new")].into_iter().collect();
    let none: Nullable = [None::<&str>].into_iter().collect();
    job.call(0..1, |state, at, _| {
        state
            .put_entries(ENTRIES, at, one.as_ref(), new.as_ref())
            .unwrap();
        state.append(ITEMS, at, one.as_ref()).unwrap();
        state.set_timers(0, at, &[5]).unwrap();
    });
    let id = job.checkpoint();
    assert_eq!((job.size(id).0, job.size(id).1), (3, 0));
    job.check(id);

    job.call(0..1, |state, at, _| {
        state
            .put_entries(ENTRIES, at, one.as_ref(), none.as_ref())
            .unwrap();
        state.cancel_timers(0, at, &[5]).unwrap();
    });
    let id = job.checkpoint();
    assert_eq!((job.size(id).0, job.size(id).1), (0, 2));
    job.check(id);

    // A cell that goes with all its rows is one removal, and may come back at once. What it takes
    // is so little that the group need not be written in full.
    job.call(0..1, |state, at, _| {
        state.clear(ITEMS, at).unwrap();
        state.clear(ENTRIES, at).unwrap();
        let nothing: Column = [""].into_iter().collect();
        state
            .put_entries(ENTRIES, at, nothing.as_ref(), new.as_ref())
            .unwrap();
        state.append(ITEMS, at, nothing.as_ref()).unwrap();
    });
    let id = job.checkpoint();
    assert_eq!((job.size(id).0, job.size(id).1), (2, 2));
    job.check(id);
}

#[test]
fn snapshots_that_came_to_nothing_are_made_up_for() {
    let mut job = Job::filled();
    for turn in 0..5 {
        job.put(turn * 10..turn * 10 + 5, "lost");
        job.call([500 + turn].into_iter(), |state, at, _| {
            for cell in [ITEMS, VALUE, ENTRIES] {
                state.clear(cell, at).unwrap();
            }
            state.cancel_timers(0, at, &[500 + turn as i64]).unwrap();
        });
        job.freeze();
        if turn % 2 == 0 {
            let id = job.collect();
            job.storage.abort(id);
        } else {
            // Given up between two steps.
            assert!(matches!(job.state.advance_snapshot(3), Ok(Progress::More)));
        }
    }
    let id = job.checkpoint();
    let (rows, removals, _) = job.size(id);
    assert_eq!((rows, removals), (25, 20));
    job.check(id);
    let id = job.checkpoint();
    assert_eq!((job.size(id).0, job.size(id).1), (0, 0));
}

#[test]
fn a_timer_that_waits_no_longer_has_changed() {
    let mut job = Job::filled();
    job.state.begin_advance(TimeDomain::Event, 1);
    let firing = job.state.pop_due(1).unwrap().unwrap();
    assert_eq!(firing.times, [0]);
    job.state.begin(0);
    let at = Cells {
        keys: &[0],
        namespaces: None,
    };
    job.state.set_timers(0, at, &[-5]).unwrap();
    job.state.apply().unwrap();
    let id = job.checkpoint();
    assert_eq!((job.size(id).0, job.size(id).1), (1, 1));
    // Nothing but that it may fire in the next advance.
    job.state.end_advance();
    let id = job.checkpoint();
    assert_eq!((job.size(id).0, job.size(id).1), (1, 0));
    job.check(id);
}

#[test]
fn a_snapshot_that_stands_alone_takes_nothing_from_those_that_build_on_others() {
    let mut job = Job::filled();
    job.put(0..3, "before");
    whole_file(&mut job.state, None);
    job.put(3..5, "after");
    let id = job.checkpoint();
    assert_eq!(job.storage.files[&id].1, [1]);
    // The rows that it has visited may be there without need; here none were written since.
    assert_eq!(job.size(id).0, 5);
    job.check(id);
}

#[test]
fn without_a_base_that_it_knows_a_snapshot_is_full() {
    let mut job = Job::filled();
    let rows = job.size(1).0;
    for base in [None, Some(77), Some(0)] {
        job.id += 1;
        job.state.freeze(job.id, base);
        let id = job.collect();
        assert_eq!(job.storage.files[&id].1, []);
        assert_eq!(job.size(id).0, rows);
        job.storage.durable = Some(id);
    }
    // The last but one, which the instance has let go of.
    job.id += 1;
    job.state.freeze(job.id, Some(job.id - 2));
    let id = job.collect();
    assert_eq!((job.size(id).0, job.storage.files[&id].1.len()), (rows, 0));

    // An instance that was restored begins anew.
    let list = job.storage.list(id);
    let mut other = Job {
        state: empty_memory(None),
        storage: Storage::default(),
        id,
    };
    read(&mut other.state, &list).unwrap();
    other.storage.durable = Some(id);
    let next = other.checkpoint();
    assert_eq!(other.storage.files[&next].1, []);
    other.check(next);
}

#[test]
fn snapshots_that_never_become_durable_do_not_pile_up_notes() {
    let mut job = Job::filled();
    let rows = job.size(1).0;
    for turn in 0..60 {
        job.put(0..KEYS / 4, &format!("turn {turn}"));
        job.freeze();
        let id = job.collect();
        job.storage.abort(id);
    }
    assert!(job.state.store.history.notes() < 16 * 40_000);
    // What was let go of is made up for by a full snapshot of the groups.
    let id = job.checkpoint();
    assert!(job.size(id).0 >= KEYS as u64 / 4 && job.size(id).0 <= rows);
    job.check(id);
}

#[test]
fn keys_that_come_and_go_leave_no_trace() {
    let mut job = Job::filled();
    let before = job.state.stats();
    for turn in 0..100 {
        let keys = || (0..20).map(move |number| KEYS + turn * 20 + number);
        job.put(keys(), "new");
        job.freeze();
        // Some go while the snapshot is under way, before the cursor comes and behind it.
        job.state.advance_snapshot(7).unwrap();
        job.call(keys(), |state, at, _| state.clear(VALUE, at).unwrap());
        let id = job.collect();
        job.storage.confirm(id);
        assert!(job.storage.files[&id].1.len() < FILES);
        assert_eq!(job.state.stats(), before);
        if turn % 10 == 0 {
            let id = job.checkpoint();
            job.check(id);
        }
    }
}

#[test]
fn a_group_that_was_emptied_holds_nothing_though_older_files_are_needed() {
    let mut job = Job::filled();
    let of_group = |group: u16| {
        (0..KEYS).filter(move |number| {
            key_group(key_hash(key(*number).as_bytes()), MAX_PARALLELISM) == group
        })
    };
    job.call(of_group(3), |state, at, numbers| {
        for cell in [ITEMS, VALUE, ENTRIES] {
            state.clear(cell, at).unwrap();
        }
        let times: Vec<i64> = numbers.iter().map(|number| *number as i64).collect();
        state.cancel_timers(0, at, &times).unwrap();
    });
    let id = job.checkpoint();
    assert_eq!(job.storage.files[&id].1, [1]);
    job.check(id);
    for _ in 0..3 {
        let id = job.checkpoint();
        job.check(id);
    }
    // Something new in it begins in that file.
    job.put(of_group(3).take(2), "again");
    let id = job.checkpoint();
    assert_eq!(job.size(id).0, 2);
    job.check(id);
}

/// Four files, each of which counts.
fn chain() -> (Job, Vec<Vec<u8>>) {
    let mut job = Job::filled();
    for turn in 0..3 {
        job.put(turn * 50..turn * 50 + 20, "changed");
        job.call(turn..turn + 1, |state, at, _| {
            state.clear(ITEMS, at).unwrap()
        });
        job.checkpoint();
    }
    let list = job.storage.list(job.id);
    assert_eq!(list.len(), 4);
    (job, list)
}

#[test]
fn files_that_do_not_belong_together_are_refused_by_name() {
    let (_, list) = chain();
    let refusal = |files: &[&Vec<u8>]| {
        let files: Vec<Vec<u8>> = files.iter().map(|file| (*file).clone()).collect();
        let mut state = empty_memory(None);
        let refused = read(&mut state, &files).unwrap_err();
        assert!(matches!(refused, Error::Chain { .. }), "{refused}");
        assert_eq!(state.stats(), crate::Stats::default());
        refused.to_string()
    };
    let [a, b, c, d] = &list[..] else {
        panic!("four files");
    };
    assert_eq!(
        refusal(&[d]),
        "file 0: builds on the snapshots [1, 2, 3], and 0 files were given before it"
    );
    assert_eq!(
        refusal(&[a, c, b, d]),
        "file 1: is snapshot 3, where the snapshot that builds on it has 2"
    );
    assert_eq!(
        refusal(&[b, b, c, d]),
        "file 0: is snapshot 2, where the snapshot that builds on it has 1"
    );
    // Of another subtask, and of another operator.
    let half = group_range(0, 2, MAX_PARALLELISM);
    let mut other = Memory::new(schema(None), half, MAX_PARALLELISM);
    other.freeze(1, None);
    let snapshot = |state: &mut Memory| {
        let Progress::Done(snapshot) = state.advance_snapshot(usize::MAX).unwrap() else {
            panic!("unfinished");
        };
        let mut file = Vec::new();
        snapshot.write(&mut file).unwrap();
        file
    };
    assert_eq!(
        refusal(&[&snapshot(&mut other), b, c, d]),
        "file 0: holds key groups 0 to 4 of 8, where the snapshot that builds on it has 0 to 8 of 8"
    );
    let mut changed = schema(None);
    changed.states[3].name = "renamed".into();
    let whole = group_range(0, 1, MAX_PARALLELISM);
    let mut other = Memory::new(changed, whole, MAX_PARALLELISM);
    other.freeze(1, None);
    let refused = refusal(&[&snapshot(&mut other), b, c, d]);
    assert!(
        refused.starts_with("file 0: is of states and timers [\"state 0\", "),
        "{refused}"
    );
    // The right number, and nothing in it.
    let mut empty = empty_memory(None);
    empty.freeze(1, None);
    assert_eq!(
        refusal(&[&snapshot(&mut empty), b, c, d]),
        "file 3: key group 0 begins in snapshot 1, which does not hold it"
    );
    assert!(matches!(
        empty_memory(None).restore_files(&mut []),
        Err(Error::Misuse(_))
    ));
}

#[test]
fn damage_in_any_file_is_found_and_leaves_nothing_behind() {
    let (mut job, list) = chain();
    let mut random = Random(5);
    let mut state = empty_memory(None);
    for round in 0..100 {
        let mut damaged = list.clone();
        let file = random.below(4) as usize;
        let at = random.below(damaged[file].len() as u64) as usize;
        if random.one_in(4) {
            damaged[file].truncate(at);
        } else {
            damaged[file][at] ^= 1 << random.below(8);
        }
        let refused = read(&mut state, &damaged).unwrap_err().to_string();
        assert!(
            refused.starts_with(&format!("file {file}: ")),
            "round {round}: byte {at} of file {file}: {refused}"
        );
        assert_eq!(state.stats(), crate::Stats::default());
        for domain in [TimeDomain::Event, TimeDomain::Processing] {
            assert_eq!(state.next_timer(domain), None);
        }
    }
    // And the same instance takes them when they are whole.
    read(&mut state, &list).unwrap();
    assert_eq!(state.stats(), job.state.stats());
    assert!(whole_file(&mut state, None) == whole_file(&mut job.state, None));
}

#[test]
fn what_a_failed_restore_put_beside_another_s_groups_goes_alone() {
    let (mut job, list) = chain();
    // The first half is restored from one file, the other fails.
    let half = |subtask| group_range(subtask, 2, MAX_PARALLELISM);
    let mut first = Memory::new(schema(None), half(0), MAX_PARALLELISM);
    read(&mut first, &list).unwrap();
    let mut state = empty_memory(None);
    read(&mut state, &[whole_file(&mut first, None)]).unwrap();
    assert_eq!(state.stats(), first.stats());
    let mut second = Memory::new(schema(None), half(1), MAX_PARALLELISM);
    read(&mut second, &list).unwrap();
    let mut file = whole_file(&mut second, None);
    let at = file.len() - 20;
    file[at] ^= 1;
    read(&mut state, &[file.clone()]).unwrap_err();
    assert_eq!(state.stats(), first.stats());
    file[at] ^= 1;
    read(&mut state, &[file]).unwrap();
    assert!(whole_file(&mut state, None) == whole_file(&mut job.state, None));
}

#[test]
fn a_declaration_may_go_once_all_that_it_held_is_gone() {
    let mut job = Job::new();
    job.put(0..KEYS / 8, "stays");
    job.call(0..100, |state, at, _| {
        let names: Column = (0..100).map(|name| format!("{name}")).collect();
        let values = names.as_ref().into();
        state
            .put_entries(ENTRIES, at, names.as_ref(), values)
            .unwrap();
        state.set_timers(2, at, &[9; 100]).unwrap();
    });
    job.checkpoint();
    let restore = |job: &Job| {
        let mut changed = schema(None);
        changed.states.remove(ENTRIES as usize);
        changed.timers.pop();
        let whole = group_range(0, 1, MAX_PARALLELISM);
        let mut state = Memory::new(changed, whole, MAX_PARALLELISM);
        read(&mut state, &job.storage.list(job.id))
            .map(|summary| (summary.entries, summary.timers))
            .map_err(|error| error.to_string())
    };
    let entries = "file 0: holds data of state `state 2`, which the operator does not declare";
    assert_eq!(restore(&job), Err(entries.to_owned()));
    job.call(0..50, |state, at, _| state.clear(ENTRIES, at).unwrap());
    job.call(50..100, |state, at, numbers| {
        let names: Column = numbers.iter().map(|name| format!("{name}")).collect();
        let gone: Nullable = numbers.iter().map(|_| None::<&str>).collect();
        state
            .put_entries(ENTRIES, at, names.as_ref(), gone.as_ref())
            .unwrap();
    });
    job.checkpoint();
    assert_eq!(job.storage.files[&job.id].1, [1]);
    let timers = "file 0: holds timers `timer 2`, which the operator does not declare";
    assert_eq!(restore(&job), Err(timers.to_owned()));
    job.call(0..100, |state, at, _| {
        state.cancel_timers(2, at, &[9; 100]).unwrap();
    });
    job.checkpoint();
    assert_eq!(job.storage.files[&job.id].1.first(), Some(&1));
    assert_eq!(restore(&job), Ok((KEYS as u64 / 8, 0)));
}
