use std::io::Read;

use xxhash_rust::xxh3::xxh3_64;

use super::write::Writer;
use super::*;
use crate::hash::{group_range, key_hash};
use crate::stored_value::StoredValue;
use crate::{
    Cells, Column, Error, GroupRange, KeyedState, Memory, Nullable, Oracle, Progress, Schema,
    StateKind, StateSpec, Stats, TimerSpec, Ttl,
};

/// Written by the first release of the format. Never regenerated: a reader of format 1 reads this.
const GOLDEN: &[u8] = include_bytes!("../../tests/golden/snapshot-format-1");
/// The two files of a snapshot that builds on another.
const GOLDEN_BASE: &[u8] = include_bytes!("../../tests/golden/snapshot-format-1-base");
const GOLDEN_DELTA: &[u8] = include_bytes!("../../tests/golden/snapshot-format-1-delta");
const GROUPS: u16 = 4;
/// Bytes of a section before its rows; the last eight are the length of the rows.
const HEAD: usize = 35;

fn schema() -> Schema {
    let ttl = Some(Ttl {
        millis: 1_000,
        renew_on_access: false,
    });
    let state = |name: &str, kind, version, ttl| StateSpec {
        name: name.into(),
        kind,
        version,
        ttl,
    };
    Schema {
        states: vec![
            state("count", StateKind::Value, 1, None),
            state("last seen", StateKind::Value, 2, ttl),
            state("visits", StateKind::Items, 1, None),
            state("größe", StateKind::Entries, 70_000, None),
        ],
        timers: vec![
            TimerSpec {
                name: "window".into(),
                domain: TimeDomain::Event,
            },
            TimerSpec {
                name: "alarm".into(),
                domain: TimeDomain::Processing,
            },
        ],
    }
}

fn empty() -> Oracle {
    Oracle::new(schema(), group_range(0, 1, GROUPS), GROUPS)
}

/// Something of everything that the format can hold, in the middle of an advance.
fn sample() -> Oracle {
    filled(empty())
}

fn filled<S: KeyedState>(mut state: S) -> S {
    let keys: Column = ["", "a", "a\0", "zebra"].into_iter().collect();
    let hashes: Vec<u64> = keys.iter().map(key_hash).collect();
    state.intern(keys.as_ref(), &hashes).unwrap();
    state.begin(1_700_000_000_000);
    let spaces: Column = ["", "\0", "n", ""].into_iter().collect();
    let values: Nullable = [Some("1"), Some(""), Some("three"), None]
        .into_iter()
        .collect();
    let cells = [0, 1, 2, 3];
    let plain = Cells {
        keys: &cells,
        namespaces: None,
    };
    let spaced = Cells {
        keys: &cells,
        namespaces: Some(spaces.as_ref()),
    };
    for at in [plain, spaced] {
        state.put(0, at, values.as_ref()).unwrap();
        state.put(1, at, values.as_ref()).unwrap();
        state.append(2, at, keys.as_ref()).unwrap();
        state.append(2, at, spaces.as_ref()).unwrap();
        state
            .put_entries(3, at, spaces.as_ref(), values.as_ref())
            .unwrap();
        state
            .set_timers(0, at, &[i64::MIN, -1, 0, i64::MAX])
            .unwrap();
        state.set_timers(1, at, &[1, 2, 3, 4]).unwrap();
    }
    state.apply().unwrap();
    state.begin_advance(TimeDomain::Event, 50);
    let firing = state.pop_due(1).unwrap().unwrap();
    state.begin(1_700_000_000_001);
    let at = Cells {
        keys: &[0, 0],
        namespaces: None,
    };
    state.set_timers(0, at, &[firing.times[0], 40]).unwrap();
    state.apply().unwrap();
    state
}

fn bytes(state: &mut Oracle) -> Vec<u8> {
    let mut file = Vec::new();
    let summary = state.snapshot().write(&mut file).unwrap();
    let stats = state.stats();
    assert_eq!(
        (summary.entries, summary.timers),
        (stats.entries, stats.timers)
    );
    assert_eq!(summary.bytes, file.len() as u64);
    file
}

fn restore(mut file: &[u8]) -> Result<Oracle, Error> {
    let mut state = empty();
    match state.restore(&mut file, "the file") {
        Ok(_) => Ok(state),
        Err(error) => {
            assert_eq!(
                state.stats(),
                Stats::default(),
                "a refused file leaves nothing behind"
            );
            Err(error)
        }
    }
}

#[test]
fn the_format_is_frozen() {
    let written = bytes(&mut sample());
    assert!(written == GOLDEN, "{}", written.escape_ascii());
    let mut restored = restore(GOLDEN).unwrap();
    assert_eq!(restored.stats(), sample().stats());
    restored.begin_advance(TimeDomain::Event, 50);
    assert!(bytes(&mut restored) == GOLDEN);
}

fn restore_both(base: &[u8], delta: &[u8]) -> Result<Oracle, Error> {
    let (mut base, mut delta) = (base, delta);
    let mut state = empty();
    let mut files = [
        RestoreFile {
            reader: &mut base,
            name: "the base",
        },
        RestoreFile {
            reader: &mut delta,
            name: "the delta",
        },
    ];
    match state.restore_files(&mut files) {
        Ok(_) => Ok(state),
        Err(error) => {
            assert_eq!(state.stats(), Stats::default());
            Err(error)
        }
    }
}

/// An instance and the two files that it comes to: something of everything that a delta can hold.
fn two_snapshots() -> (Memory, [Vec<u8>; 2]) {
    let mut state = Memory::new(schema(), group_range(0, 1, GROUPS), GROUPS);
    let file = |state: &mut Memory| {
        let Progress::Done(snapshot) = state.advance_snapshot(usize::MAX).unwrap() else {
            panic!("unfinished");
        };
        let mut file = Vec::new();
        snapshot.write(&mut file).unwrap();
        file
    };
    // Ballast, so that little of a group changes.
    let keys: Column = (0..40).map(|key| format!("{key}")).collect();
    let hashes: Vec<u64> = keys.iter().map(key_hash).collect();
    state.intern(keys.as_ref(), &hashes).unwrap();
    state.begin(0);
    let cells: Vec<u32> = (0..40).collect();
    let at = Cells {
        keys: &cells,
        namespaces: None,
    };
    state.put(0, at, keys.as_ref().into()).unwrap();
    state
        .put_entries(3, at, keys.as_ref(), keys.as_ref().into())
        .unwrap();
    state.apply().unwrap();
    let mut state = filled(state);
    state.freeze(6, None);
    let base = file(&mut state);

    let keys: Column = ["a", "a\0"].into_iter().collect();
    let hashes: Vec<u64> = keys.iter().map(key_hash).collect();
    state.intern(keys.as_ref(), &hashes).unwrap();
    state.begin(1_700_000_000_002);
    let spaces: Column = ["\0", "n"].into_iter().collect();
    let at = Cells {
        keys: &[0, 1],
        namespaces: None,
    };
    let spaced = Cells {
        keys: &[0, 1],
        namespaces: Some(spaces.as_ref()),
    };
    let values: Nullable = [None, Some("four")].into_iter().collect();
    state.put(0, at, values.as_ref()).unwrap();
    state.put(1, spaced, values.as_ref()).unwrap();
    state.append(2, at, spaces.as_ref()).unwrap();
    state.clear(2, spaced).unwrap();
    state.clear(3, at).unwrap();
    let names: Column = ["", "n"].into_iter().collect();
    let values: Nullable = [Some("new"), None].into_iter().collect();
    state
        .put_entries(3, at, names.as_ref(), values.as_ref())
        .unwrap();
    state
        .put_entries(3, spaced, names.as_ref(), values.as_ref())
        .unwrap();
    state.set_timers(1, spaced, &[5, 6]).unwrap();
    state.cancel_timers(1, at, &[2, 3]).unwrap();
    state.apply().unwrap();
    state.freeze(8, Some(6));
    let delta = file(&mut state);
    (state, [base, delta])
}

#[test]
fn the_format_of_what_builds_on_another_is_frozen() {
    let (mut state, [base, delta]) = two_snapshots();
    assert!(base == GOLDEN_BASE, "{}", base.escape_ascii());
    assert!(delta == GOLDEN_DELTA, "{}", delta.escape_ascii());
    let mut restored = restore_both(GOLDEN_BASE, GOLDEN_DELTA).unwrap();
    let mut whole = Vec::new();
    state.snapshot().write(&mut whole).unwrap();
    restored.begin_advance(TimeDomain::Event, 50);
    assert!(bytes(&mut restored) == whole);
    let kinds = |file: &[u8]| -> Vec<u8> {
        let sections = sections(file).unwrap();
        sections.iter().map(|section| file[section.start]).collect()
    };
    assert_eq!(kinds(&base), [1; GROUPS as usize]);
    assert!(kinds(&delta).contains(&2), "{:?}", kinds(&delta));
}

#[test]
fn every_implementation_writes_the_same_bytes() {
    let memory = Memory::new(schema(), group_range(0, 1, GROUPS), GROUPS);
    let mut file = Vec::new();
    let summary = filled(memory).snapshot().write(&mut file).unwrap();
    assert!(file == GOLDEN, "{}", file.escape_ascii());
    assert_eq!(summary, sample().snapshot().write(&mut Vec::new()).unwrap());
}

#[test]
fn large_files_and_short_reads_make_no_difference() {
    struct Dribble<'a>(&'a [u8]);
    impl Read for Dribble<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let some = into.len().min(7);
            self.0.read(&mut into[..some])
        }
    }
    let mut state = empty();
    let keys: Column = (0..3_000).map(|key| format!("key {key}")).collect();
    let hashes: Vec<u64> = keys.iter().map(key_hash).collect();
    let cells: Vec<u32> = (0..3_000).collect();
    state.intern(keys.as_ref(), &hashes).unwrap();
    state.begin(0);
    let values: Nullable = (0..3_000).map(|key| Some(vec![key as u8; key])).collect();
    state
        .put(
            0,
            Cells {
                keys: &cells,
                namespaces: None,
            },
            values.as_ref(),
        )
        .unwrap();
    state.apply().unwrap();
    let file = bytes(&mut state);
    assert!(file.len() > 4 << 20);
    let mut restored = empty();
    restored.restore(&mut Dribble(&file), "the file").unwrap();
    assert!(bytes(&mut restored) == file);
}

#[test]
fn a_snapshot_is_written_on_another_thread_while_calls_go_on() {
    let mut state = sample();
    let snapshot = state.snapshot();
    let writer = std::thread::spawn(move || {
        let mut file = Vec::new();
        snapshot.write(&mut file).map(|_| file)
    });
    state.drop_timers(TimeDomain::Event);
    state.begin(0);
    state
        .clear(
            0,
            Cells {
                keys: &[0],
                namespaces: None,
            },
        )
        .unwrap();
    state.apply().unwrap();
    assert!(writer.join().unwrap().unwrap() == GOLDEN);
}

#[test]
fn a_header_that_could_not_be_read_back_is_not_written() {
    let long = StateSpec {
        name: "n".repeat(70_000),
        ..schema().states[0].clone()
    };
    let schema = Schema {
        states: vec![long],
        timers: Vec::new(),
    };
    let snapshot = Oracle::new(schema, group_range(0, 1, GROUPS), GROUPS).snapshot();
    let refused = snapshot.write(&mut Vec::new()).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn errors_of_the_stream_are_passed_on() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("pulled the plug"))
        }
    }
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::other("no space"))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    assert_eq!(
        sample()
            .snapshot()
            .write(&mut Broken)
            .unwrap_err()
            .to_string(),
        "no space"
    );
    for good in [0, 30, GOLDEN.len() - 3, GOLDEN.len()] {
        let mut reader = GOLDEN[..good].chain(Broken);
        let error = empty().restore(&mut reader, "the file").unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "after {good}: {error}");
        assert_eq!(error.to_string(), "the file: pulled the plug");
    }
}

#[test]
fn another_format_and_another_kind_of_file_are_told_apart() {
    let mut future = GOLDEN.to_vec();
    future[8] = 2;
    assert_eq!(
        restore(&future).unwrap_err().to_string(),
        "the file: snapshot format 2 is not supported, this build reads format 1"
    );
    let stranger = restore(b"PK\x03\x04 and so on").unwrap_err();
    assert_eq!(
        stranger.to_string(),
        "the file: damaged at byte 0: not a snapshot file"
    );
    let nothing = restore(b"").unwrap_err();
    assert_eq!(
        nothing.to_string(),
        "the file: damaged at byte 0: the file ends early"
    );
}

/// A file of these sections, checksums right, whatever the rows are.
fn file_of(sections: &[(u16, Rows)]) -> Vec<u8> {
    let mut file = Vec::new();
    let range = GroupRange {
        start: 1,
        end: GROUPS,
    };
    let header = Header {
        max_parallelism: GROUPS,
        range,
        id: 1,
        needs: Vec::new(),
        origins: vec![0; range.len()],
        advance: None,
        schema: schema(),
    };
    let mut writer = Writer::new(&mut file, &header).unwrap();
    for (group, rows) in sections {
        let rows: Vec<_> = rows
            .iter()
            .map(|(key, value)| (&**key, RowValue::Is(value)))
            .collect();
        writer.section(SectionKind::Base, *group, 0, &rows).unwrap();
    }
    writer.finish().unwrap();
    file
}

/// A cell's stored key without a namespace, with an empty one.
fn spelled_out(cell: &[u8]) -> Vec<u8> {
    let (_, key) = cell.split_last().unwrap();
    [key, b"\x01\0\x01"].concat()
}

/// A stored key in the given group, so by its hash.
fn key_in(group: u16, table: Table, index: u16, suffix: &[u8]) -> Vec<u8> {
    let keys = (0u32..).map(|number| number.to_be_bytes());
    let key = keys
        .into_iter()
        .find(|key| key_group(key_hash(key), GROUPS) == group)
        .unwrap();
    let namespace = (table == Table::Timers).then(|| (&b""[..]).into());
    StoredKey {
        group,
        table,
        index,
        key: (&key[..]).into(),
        namespace,
        suffix,
    }
    .encode()
}

#[test]
fn rows_that_are_not_what_they_should_be_are_refused_though_every_checksum_holds() {
    let value = |version| {
        StoredValue {
            version,
            expiry: None,
            bytes: b"v",
        }
        .encode()
    };
    let good = (key_in(1, Table::Value, 0, b""), value(1));
    let other_group = key_in(2, Table::Value, 0, b"");
    let mut false_group = other_group.clone();
    false_group[1] = 1;
    let mut no_namespace = key_in(1, Table::Value, 0, &[0; 8]);
    no_namespace[2] = Table::Timers as u8;
    let cases: [(&str, Vec<u8>, Vec<u8>); 14] = [
        ("not a stored key", b"\0\x01".to_vec(), value(1)),
        (
            "does not belong to the section's key group",
            other_group,
            value(1),
        ),
        (
            "does not belong to the section's key group",
            false_group,
            value(1),
        ),
        (
            "no such state in the header",
            key_in(1, Table::Value, 4, b""),
            value(1),
        ),
        (
            "no such timer in the header",
            key_in(1, Table::Timers, 2, &[0; 8]),
            vec![0],
        ),
        (
            "an empty namespace that is spelled out",
            spelled_out(&key_in(1, Table::Value, 0, b"")),
            value(1),
        ),
        (
            "a row of another kind than its state",
            key_in(1, Table::Entries, 0, b""),
            value(1),
        ),
        (
            "a key that does not fit its table",
            key_in(1, Table::Value, 0, b"x"),
            value(1),
        ),
        (
            "a key that does not fit its table",
            key_in(1, Table::Items, 2, &[0; 7]),
            value(1),
        ),
        (
            "a key that does not fit its table",
            key_in(1, Table::Items, 2, &[0x80; 8]),
            value(1),
        ),
        (
            "not a stored value",
            key_in(1, Table::Value, 0, b""),
            vec![9; 20],
        ),
        (
            "another schema version than its state",
            key_in(1, Table::Value, 0, b""),
            value(2),
        ),
        (
            "not a timer's value",
            key_in(1, Table::Timers, 0, &[0; 8]),
            vec![8],
        ),
        (
            "not a timer's key",
            key_in(1, Table::Timers, 0, &[0; 9]),
            vec![0],
        ),
    ];
    let refused = |what: &str, file: &[u8]| match restore(file) {
        Err(Error::Corrupt { what: found, .. }) => {
            assert!(found.contains(what), "{found}, not {what}")
        }
        Err(other) => panic!("{other}, not {what}"),
        Ok(_) => panic!("accepted, not {what}"),
    };
    assert_eq!(
        restore(&file_of(&[(1, Rows::from([good.clone()]))]))
            .unwrap()
            .stats()
            .entries,
        1
    );
    for (what, key, value) in cases {
        refused(what, &file_of(&[(1, Rows::from([(key, value)]))]));
    }
    refused(
        "a timer without a namespace",
        &file_of(&[(1, Rows::from([(no_namespace, vec![0])]))]),
    );

    let rows = Rows::from([good.clone()]);
    refused(
        "key group 1 is out of place",
        &file_of(&[(1, rows.clone()), (1, rows.clone())]),
    );
    refused(
        "key group 0 is out of place",
        &file_of(&[(0, rows.clone())]),
    );
    refused(
        "key group 4 is out of place",
        &file_of(&[(4, rows.clone())]),
    );
    // A timer counted as an entry.
    let timer = (key_in(1, Table::Timers, 0, &[0; 8]), vec![0]);
    refused(
        "announces 2 entries, 0 timers and 0 removals, and holds 1 entries, 1 timers",
        &file_of(&[(1, Rows::from([good.clone(), timer]))]),
    );

    // Twice the same row: the second is a copy, so the section is patched and sealed again.
    let mut file = file_of(&[(1, rows)]);
    let section = sections(&file).unwrap()[0].clone();
    let row = file[section.start + HEAD..section.end - 8].to_vec();
    let length = (2 * row.len() as u64).to_le_bytes();
    file[section.start + HEAD - 8..section.start + HEAD].copy_from_slice(&length);
    file.splice(section.end - 8..section.end - 8, row);
    assert!(reseal(&mut file));
    refused("rows are out of order", &file);
}

#[test]
fn lengths_are_believed_only_as_far_as_they_can_be_true() {
    let rows = Rows::from([(key_in(1, Table::Value, 0, b""), b"\0\x01\0\0\0v".to_vec())]);
    let file = file_of(&[(1, rows)]);
    let start = sections(&file).unwrap()[0].start;
    let patched = |at: usize, number: u32| {
        let mut file = file.clone();
        file[at..at + 4].copy_from_slice(&number.to_le_bytes());
        restore(&file).unwrap_err().to_string()
    };
    assert!(patched(12, u32::MAX).contains("a header of 4294967295 bytes"));
    let row = start + HEAD;
    assert!(patched(row, u32::MAX).contains("more than any row has"));
    assert!(patched(row + 4, u32::MAX).contains("more than any row has"));
    assert!(patched(row, 1 << 20).contains("reaches beyond its section"));
    let mut long = file.clone();
    long[row - 8..row].copy_from_slice(&u64::MAX.to_le_bytes());
    long[row..row + 4].copy_from_slice(&(MAX_ROW as u32 / 2).to_le_bytes());
    assert!(
        restore(&long)
            .unwrap_err()
            .to_string()
            .contains("ends early")
    );
}

/// Each check holds on its own, so that a defect is told where it is.
#[test]
fn section_checksums_and_totals_are_checked_beside_the_file_s_checksum() {
    let reason = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut file = GOLDEN.to_vec();
        file.truncate(file.len() - 8);
        change(&mut file);
        let checksum = xxh3_64(&file);
        file.extend_from_slice(&checksum.to_le_bytes());
        restore(&file).err().map(|error| error.to_string())
    };
    assert_eq!(reason(&|_| ()), None);
    let first = sections(GOLDEN).unwrap()[0].clone();
    let section = reason(&|file| file[first.end - 8] ^= 1).unwrap();
    let at = first.end - 8;
    assert!(
        section.contains(&format!("damaged at byte {at}: checksum of the section")),
        "{section}"
    );
    for field in [4, 12, 20, 28, 36] {
        let totals = reason(&|file| *file.iter_mut().nth_back(36 - field).unwrap() ^= 1).unwrap();
        assert!(totals.contains("the footer announces"), "{totals}");
    }
}

/// Where the sections of a file lie, tag and checksum included; `None` if its lengths make no
/// sense.
fn sections(file: &[u8]) -> Option<Vec<std::ops::Range<usize>>> {
    let header = u32::from_le_bytes(file.get(12..16)?.try_into().ok()?) as usize;
    let (mut at, mut found) = (16 + header + 8, Vec::new());
    while *file.get(at)? != FOOTER {
        let rows = u64::from_le_bytes(file.get(at + HEAD - 8..at + HEAD)?.try_into().ok()?);
        let end = usize::try_from(rows).ok()?.checked_add(at + HEAD + 8)?;
        (end <= file.len()).then(|| found.push(at..end))?;
        at = end;
    }
    Some(found)
}

/// Makes all checksums and the footer's totals right again.
fn reseal(file: &mut Vec<u8>) -> bool {
    let Some(sections) = sections(file) else {
        return false;
    };
    let Some(footer) = sections.last().map(|last| last.end) else {
        return false;
    };
    let mut totals = [0u64; 4];
    for section in &sections {
        for (total, at) in totals.iter_mut().zip([3, 11, 19, 27]) {
            let at = section.start + at;
            *total = total.wrapping_add(u64::from_le_bytes(file[at..at + 8].try_into().unwrap()));
        }
        let checksum = xxh3_64(&file[section.start..section.end - 8]);
        file[section.end - 8..section.end].copy_from_slice(&checksum.to_le_bytes());
    }
    file.truncate(footer);
    file.push(FOOTER);
    file.extend_from_slice(&(sections.len() as u32).to_le_bytes());
    totals
        .iter()
        .for_each(|total| file.extend_from_slice(&total.to_le_bytes()));
    let checksum = xxh3_64(file);
    file.extend_from_slice(&checksum.to_le_bytes());
    true
}

/// A small generator, so that a failure is found again by its number.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    /// Flips, cuts, inserts, deletes, overwrites with a piece from elsewhere, or writes a telling
    /// number.
    fn mutate(&mut self, file: &mut Vec<u8>, from: usize) {
        for _ in 0..=self.below(3) {
            let at = from + self.below(file.len() - from);
            let rest = (file.len() - at).min(1 + self.below(12));
            match self.below(7) {
                0 | 1 => file[at] ^= 1 << self.below(8),
                2 => file[at] = [0, 1, 2, 0x7F, 0x80, 0xFF][self.below(6)],
                3 => file.truncate(at.max(from + 1)),
                4 => {
                    let noise: Vec<u8> =
                        (0..=self.below(9)).map(|_| self.below(256) as u8).collect();
                    file.splice(at..at, noise);
                }
                5 => drop(file.drain(at..at + rest.min(file.len() - from - 1))),
                _ => {
                    let source = self.below(file.len() - rest + 1);
                    file.copy_within(source..source + rest, at);
                }
            }
        }
    }
}

#[test]
fn no_change_of_a_file_goes_unnoticed() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for round in 0..30_000 {
        let mut file = GOLDEN.to_vec();
        random.mutate(&mut file, 0);
        match restore(&file) {
            Ok(_) => assert!(file == GOLDEN, "round {round}: changed and accepted"),
            Err(Error::Corrupt { .. } | Error::Format { .. }) => {}
            Err(other) => panic!("round {round}: {other}"),
        }
    }
    for length in 0..GOLDEN.len() {
        assert!(
            matches!(restore(&GOLDEN[..length]), Err(Error::Corrupt { .. })),
            "cut at {length}"
        );
    }
    for at in 0..GOLDEN.len() {
        for bit in 0..8 {
            let mut file = GOLDEN.to_vec();
            file[at] ^= 1 << bit;
            assert!(restore(&file).is_err(), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn no_change_of_either_of_two_files_goes_unnoticed() {
    let mut random = Random(0xD1B5_4A32_D192_ED03);
    for round in 0..8_000 {
        let (mut base, mut delta) = (GOLDEN_BASE.to_vec(), GOLDEN_DELTA.to_vec());
        let changed = if round % 2 == 0 {
            &mut base
        } else {
            &mut delta
        };
        random.mutate(changed, 0);
        match restore_both(&base, &delta) {
            Ok(_) => assert!(
                base == GOLDEN_BASE && delta == GOLDEN_DELTA,
                "round {round}"
            ),
            Err(Error::Corrupt { .. } | Error::Format { .. }) => {}
            Err(other) => panic!("round {round}: {other}"),
        }
    }
    for length in 0..GOLDEN_DELTA.len() {
        let refused = restore_both(GOLDEN_BASE, &GOLDEN_DELTA[..length]);
        assert!(
            matches!(&refused, Err(Error::Corrupt { file, .. }) if file == "the delta"),
            "cut at {length}"
        );
    }
}

/// A delta behind forged checksums may say what no instance would, but it is taken or refused
/// without harm, and what is taken is well formed.
#[test]
fn a_forged_delta_is_refused_or_makes_a_state_that_can_be_written() {
    let mut random = Random(0x8CB9_2BA7_2F3D_8DD7);
    let body = sections(GOLDEN_DELTA).unwrap()[0].start;
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..8_000 {
        let mut delta = GOLDEN_DELTA.to_vec();
        random.mutate(&mut delta, body);
        if !reseal(&mut delta) {
            continue;
        }
        match restore_both(GOLDEN_BASE, &delta) {
            Ok(mut state) => {
                let written = bytes(&mut state);
                assert!(bytes(&mut restore(&written).unwrap())[body..] == written[body..]);
                accepted += usize::from(delta != GOLDEN_DELTA);
            }
            Err(_) => refused += 1,
        }
    }
    assert!(
        accepted > 100 && refused > 1_000,
        "{accepted} accepted, {refused} refused"
    );
}

/// Behind right checksums the reader still believes nothing: what it accepts is a snapshot that
/// this crate could have written, since writing its sections again gives the same bytes.
#[test]
fn what_is_accepted_behind_forged_checksums_is_still_well_formed() {
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    let body = sections(GOLDEN).unwrap()[0].start;
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..30_000 {
        let mut file = GOLDEN.to_vec();
        random.mutate(&mut file, body);
        if !reseal(&mut file) {
            continue;
        }
        match restore(&file) {
            Ok(mut state) => {
                // The header was left alone; it holds the advance, and the last checksum covers it.
                let (written, footer) = (bytes(&mut state), file.len() - 8);
                let same = written[body..footer] == file[body..footer];
                assert!(same, "round {round}: accepted and not canonical");
                accepted += usize::from(file != GOLDEN);
            }
            Err(_) => refused += 1,
        }
    }
    assert!(
        accepted > 100 && refused > 1_000,
        "{accepted} accepted, {refused} refused"
    );
}
