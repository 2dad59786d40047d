use std::time::Duration;

use super::super::tests::{batch, lines};
use super::*;
use crate::job::model::CsvOutput;

/// A part ends at each checkpoint.
const EACH: Roll = Roll {
    size: u64::MAX,
    age: Duration::ZERO,
};

/// A part goes on as long as it can.
const NEVER: Roll = Roll {
    size: u64::MAX,
    age: Duration::MAX,
};

fn author() -> Author {
    Author {
        lineage: "7c1e0000".to_owned(),
        attempt: 3,
        subtask: 1,
        next_n: 1,
    }
}

fn rolling(dir: &Path, format: SinkFormat, roll: Roll) -> FileSink {
    let kind = PartKind {
        format,
        compression: SinkCompression::None,
    };
    FileSink::new("out", dir, kind, roll, author())
}

fn sink(dir: &Path, format: SinkFormat) -> FileSink {
    rolling(dir, format, EACH)
}

/// What a barrier stages; nothing is left open.
fn staged_at(sink: &mut FileSink, checkpoint: u64) -> Vec<StagedPart> {
    let prepared = sink.prepare(checkpoint, false).unwrap();
    assert_eq!(prepared.open, None);
    prepared.staged
}

fn content(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join(name)).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_part_an_interval_and_none_for_an_empty_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut sink = sink(dir.path(), SinkFormat::Json);
    assert_eq!(staged_at(&mut sink, 1), []);
    sink.write(&lines(&[])).unwrap();
    assert_eq!(staged_at(&mut sink, 2), []);
    assert_eq!(names(dir.path()), [""; 0]);

    sink.write(&lines(&["1", "{\"a\": 2}"])).unwrap();
    sink.write(&lines(&["3"])).unwrap();
    let first = staged_at(&mut sink, 3);
    assert_eq!(
        first,
        [StagedPart {
            sink: "out".to_owned(),
            dir: dir.path().to_owned(),
            staged: ".part-7c1e0000-3-001-000001.jsonl".to_owned(),
            name: "part-7c1e0000-000003-001-001.jsonl".to_owned(),
            bytes: 13,
            records: 3,
        }]
    );
    assert_eq!(staged_at(&mut sink, 4), []);
    sink.write(&lines(&["4"])).unwrap();
    let second = staged_at(&mut sink, 5);
    assert_eq!(names(dir.path()), [&first[0].staged[..], &second[0].staged]);

    // Checkpoint 3 was skipped: its part rides along with 5.
    parts::publish(&[first, second].concat()).unwrap();
    assert_eq!(
        names(dir.path()),
        [
            "part-7c1e0000-000003-001-001.jsonl",
            "part-7c1e0000-000005-001-001.jsonl"
        ]
    );
    assert_eq!(
        fs::read_to_string(dir.path().join("part-7c1e0000-000003-001-001.jsonl")).unwrap(),
        "1\n{\"a\": 2}\n3\n"
    );
    assert_eq!(
        sink.written(),
        Written {
            records: 4,
            bytes: 15
        }
    );
}

#[test]
fn dropping_removes_the_unprepared_part_only() {
    let dir = tempfile::tempdir().unwrap();
    let mut dropped = sink(dir.path(), SinkFormat::Raw);
    dropped.write(&lines(&["a"])).unwrap();
    let staged = staged_at(&mut dropped, 1);
    dropped.write(&lines(&["b"])).unwrap();
    assert_eq!(names(dir.path()).len(), 2);
    drop(dropped);
    assert_eq!(names(dir.path()), [&staged[0].staged[..]]);
}

#[test]
fn a_part_that_recovery_took_over_for_the_attempt_is_never_touched() {
    let dir = tempfile::tempdir().unwrap();
    let mut before = rolling(dir.path(), SinkFormat::Raw, NEVER);
    before.author.attempt = 2;
    before.write(&lines(&["a"])).unwrap();
    let open = before.prepare(1, false).unwrap().open.unwrap();
    let mut all = parts::adopt(&[open], 3).unwrap().unwrap();
    let mut after = sink(dir.path(), SinkFormat::Raw);
    after.author.next_n = 2;
    after.write(&lines(&["b"])).unwrap();
    all.extend(staged_at(&mut after, 2));
    parts::publish(&all).unwrap();
    assert_eq!(
        fs::read_to_string(dir.path().join("part-7c1e0000-000001-001-001.txt")).unwrap(),
        "a\n"
    );
    assert_eq!(
        fs::read_to_string(dir.path().join("part-7c1e0000-000002-001-001.txt")).unwrap(),
        "b\n"
    );
}

#[test]
fn no_part_gets_the_name_of_one_that_was_taken_over_and_published() {
    let dir = tempfile::tempdir().unwrap();
    let mut before = rolling(dir.path(), SinkFormat::Raw, NEVER);
    before.author.attempt = 2;
    before.write(&lines(&["a"])).unwrap();
    let open = before.prepare(1, false).unwrap().open.unwrap();
    let taken = parts::adopt(&[open], 3).unwrap().unwrap();
    // It is committed before the subtask has anything to write.
    parts::publish(&taken).unwrap();
    let mut after = rolling(dir.path(), SinkFormat::Raw, NEVER);
    after.write(&lines(&["b"])).unwrap();
    let open = after.prepare(3, false).unwrap().open.unwrap();
    // Killed before it was noted that it is published, so the next attempt publishes it again.
    parts::publish(&taken).unwrap();
    assert_eq!(content(dir.path(), &taken[0].name), "a\n");
    assert_eq!(content(dir.path(), &open.staged), "b\n");
}

#[test]
fn a_part_goes_on_over_checkpoints_and_each_finds_all_of_it_so_far_on_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let mut sink = rolling(dir.path(), SinkFormat::Raw, NEVER);
    assert_eq!(sink.prepare(1, false).unwrap(), Prepared::default());
    let mut expected = String::new();
    for checkpoint in 2..6 {
        let line = format!("line {checkpoint}");
        sink.write(&lines(&[&line])).unwrap();
        expected += &format!("{line}\n");
        let prepared = sink.prepare(checkpoint, false).unwrap();
        assert_eq!(prepared.staged, []);
        let open = prepared.open.unwrap();
        assert_eq!(open.name, "part-7c1e0000-000002-001-001.txt");
        assert_eq!(open.bytes, expected.len() as u64);
        assert_eq!(content(dir.path(), &open.staged), expected);
    }
    // Nothing new: it is found again as it was.
    let open = sink.prepare(6, false).unwrap().open.unwrap();
    assert_eq!((open.bytes, open.records), (expected.len() as u64, 4));
    let last = sink.prepare(7, true).unwrap();
    assert_eq!(last.open, None);
    assert_eq!(last.staged, [open]);
    sink.write(&lines(&["next"])).unwrap();
    let next = sink.prepare(8, true).unwrap().staged;
    assert_eq!(next[0].name, "part-7c1e0000-000008-001-001.txt");
}

#[test]
fn a_part_is_complete_as_soon_as_it_is_large_enough_and_none_is_without_records() {
    let dir = tempfile::tempdir().unwrap();
    let roll = Roll { size: 10, ..NEVER };
    let mut sink = rolling(dir.path(), SinkFormat::Raw, roll);
    sink.write(&lines(&["1234", "5678", "90"])).unwrap();
    let prepared = sink.prepare(1, false).unwrap();
    let open = prepared.open.unwrap();
    assert_eq!(prepared.staged.len(), 1);
    assert_eq!((prepared.staged[0].bytes, open.bytes), (10, 3));
    // The open one ends in the middle of the interval, a long line makes one of its own.
    let long = "x".repeat(100);
    sink.write(&lines(&["345678", &long])).unwrap();
    let prepared = sink.prepare(2, false).unwrap();
    assert_eq!(prepared.open, None);
    let names: Vec<_> = prepared.staged.iter().map(|part| &part.name[..]).collect();
    assert_eq!(
        names,
        [
            "part-7c1e0000-000001-001-002.txt",
            "part-7c1e0000-000002-001-001.txt"
        ]
    );
    assert_eq!(content(dir.path(), &open.staged), "90\n345678\n");
}

#[test]
fn a_compressed_part_can_be_read_as_far_as_any_checkpoint_has_it() {
    for (compression, end) in [
        (SinkCompression::Gzip { level: 6 }, ".txt.gz"),
        (SinkCompression::Zstd { level: 3 }, ".txt.zst"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut sink = rolling(dir.path(), SinkFormat::Raw, NEVER);
        sink.kind.compression = compression;
        let mut lengths = Vec::new();
        for checkpoint in 1..5 {
            sink.write(&lines(&["a line"; 1_000])).unwrap();
            let open = sink.prepare(checkpoint, false).unwrap().open.unwrap();
            assert_eq!(open.records, checkpoint * 1_000);
            lengths.push((open, checkpoint as usize));
        }
        for (open, thousands) in lengths {
            let taken = parts::adopt(std::slice::from_ref(&open), 10 + open.records).unwrap();
            let taken = taken.unwrap().remove(0);
            assert!(taken.name.ends_with(end), "{}", taken.name);
            let bytes = fs::read(dir.path().join(&taken.staged)).unwrap();
            assert_eq!(bytes.len() as u64, open.bytes);
            let mut text = String::new();
            if end == ".txt.gz" {
                let mut decoder = flate2::read::MultiGzDecoder::new(&bytes[..]);
                io::Read::read_to_string(&mut decoder, &mut text).unwrap();
            } else {
                text = String::from_utf8(zstd::decode_all(&bytes[..]).unwrap()).unwrap();
            }
            assert_eq!(text, "a line\n".repeat(thousands * 1_000));
        }
        assert_eq!(sink.written().bytes, 4_000 * 7, "of values, not of files");
    }
}

#[test]
fn each_part_of_rows_begins_with_the_names_of_its_columns() {
    let dir = tempfile::tempdir().unwrap();
    let format = SinkFormat::Csv(CsvOutput {
        columns: vec!["a".to_owned(), "b".to_owned()],
        delimiter: b';',
        quote: Some(b'"'),
        null: String::new(),
        header: true,
        missing_is_null: false,
    });
    let roll = Roll { size: 12, ..NEVER };
    let mut sink = rolling(dir.path(), format, roll);
    let value = |i: u32| format!("{{\"b\": {i}, \"a\": \"x\"}}");
    for checkpoint in 1..4 {
        let values = [value(1), value(2)];
        sink.write(&lines(&values.each_ref().map(String::as_str)))
            .unwrap();
        let staged = staged_at(&mut sink, checkpoint);
        assert_eq!(staged.len(), 1);
        assert_eq!(staged[0].records, 2, "records, not rows");
        assert!(staged[0].name.ends_with(".csv"), "{}", staged[0].name);
        assert_eq!(content(dir.path(), &staged[0].staged), "a;b\nx;1\nx;2\n");
    }
    let error = sink.write(&lines(&["{\"a\": 1}"])).unwrap_err();
    assert_eq!(error.code(), "W0702");
    assert_eq!(names(dir.path()).len(), 3, "nothing is begun for it");
}

#[test]
fn an_old_part_is_complete_at_the_next_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let roll = Roll {
        age: Duration::from_secs(60),
        ..NEVER
    };
    let mut sink = rolling(dir.path(), SinkFormat::Raw, roll);
    sink.write(&lines(&["a"])).unwrap();
    assert!(sink.prepare(1, false).unwrap().open.is_some());
    let part = sink.part.as_mut().unwrap();
    part.began = part.began.checked_sub(roll.age).unwrap();
    let prepared = sink.prepare(2, false).unwrap();
    assert_eq!((prepared.open, prepared.staged.len()), (None, 1));
}

#[test]
fn a_failed_attempt_keeps_what_a_checkpoint_may_need_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let roll = Roll { size: 8, ..NEVER };
    for fails in [true, false] {
        let mut sink = rolling(dir.path(), SinkFormat::Json, roll);
        sink.write(&lines(&["1"])).unwrap();
        let open = sink.prepare(1, false).unwrap().open.unwrap();
        // Completes that one, and begins two more.
        sink.write(&lines(&["222222", "33333333", "4"])).unwrap();
        assert_eq!(names(dir.path()).len(), 3);
        if fails {
            sink.write(&lines(&["{"])).unwrap_err();
        } else {
            drop(sink);
        }
        assert_eq!(names(dir.path()), [&open.staged[..]]);
        assert!(content(dir.path(), &open.staged).starts_with("1\n"));
        fs::remove_file(dir.path().join(&open.staged)).unwrap();
    }
}

#[test]
fn a_writer_that_wakes_up_late_does_not_reach_what_was_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let mut old = rolling(dir.path(), SinkFormat::Raw, NEVER);
    old.write(&lines(&["committed"])).unwrap();
    let open = old.prepare(1, false).unwrap().open.unwrap();
    old.write(&lines(&["not committed"])).unwrap();
    old.prepare(2, false).unwrap();
    let taken = parts::adopt(std::slice::from_ref(&open), 4)
        .unwrap()
        .unwrap();
    assert_eq!(taken[0].staged, ".part-7c1e0000-4-001-0000001.txt");
    assert_eq!(content(dir.path(), &taken[0].staged), "committed\n");
    old.write(&lines(&["awake again"])).unwrap();
    old.prepare(3, false).unwrap();
    parts::publish(&taken).unwrap();
    assert_eq!(content(dir.path(), &taken[0].name), "committed\n");
    assert_eq!(parts::sweep(dir.path(), &[], 4).unwrap(), 1);
    old.write(&lines(&["and again"])).unwrap();
    old.prepare(4, true).unwrap();
    assert_eq!(names(dir.path()), [&open.name[..]]);
}

#[test]
fn large_output_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut sink = sink(dir.path(), SinkFormat::Raw);
    let line = "y".repeat(999);
    for _ in 0..10 {
        sink.write(&lines(&[&line[..]; 200])).unwrap();
    }
    let parts = staged_at(&mut sink, 1);
    parts::publish(&parts).unwrap();
    let content = fs::read_to_string(dir.path().join(&parts[0].name)).unwrap();
    assert_eq!(
        (content.len() as u64, parts[0].records),
        (parts[0].bytes, 2_000)
    );
    assert!(content.lines().all(|seen| seen == line));
}

/// Takes ten bytes, two a write, and then says what a full disk says.
struct TenBytes {
    file: File,
    left: usize,
}

impl Write for TenBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let size = bytes.len().min(self.left).min(2);
        if size == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        self.left -= size;
        self.file.write(&bytes[..size])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Storage for TenBytes {
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn ten_bytes(path: &Path) -> io::Result<Box<dyn Storage>> {
    Ok(Box::new(TenBytes {
        file: File::create_new(path)?,
        left: 10,
    }))
}

/// Writes well, but the disk fails when it is to vouch for it.
struct NoSync(File);

impl Write for NoSync {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Storage for NoSync {
    fn sync(&mut self) -> io::Result<()> {
        Err(io::Error::other("the disk failed"))
    }
}

fn no_sync(path: &Path) -> io::Result<Box<dyn Storage>> {
    Ok(Box::new(NoSync(File::create_new(path)?)))
}

#[test]
fn short_writes_are_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    let mut sink = sink(dir.path(), SinkFormat::Raw);
    sink.create = ten_bytes;
    sink.write(&lines(&["abcd", "efgh"])).unwrap();
    let parts = staged_at(&mut sink, 1);
    parts::publish(&parts).unwrap();
    assert_eq!(
        fs::read_to_string(dir.path().join(&parts[0].name)).unwrap(),
        "abcd\nefgh\n"
    );
}

#[test]
fn a_full_disk_publishes_nothing_half() {
    let long = "z".repeat(BUFFER_BYTES);
    for (line, fails_on_write) in [("0123456789", false), (&long[..], true)] {
        let dir = tempfile::tempdir().unwrap();
        let mut sink = sink(dir.path(), SinkFormat::Raw);
        sink.create = ten_bytes;
        sink.write(&lines(&["ok"])).unwrap();
        let wrote = sink.write(&lines(&[line]));
        assert_eq!(wrote.is_err(), fails_on_write);
        let error = match wrote {
            Err(error) => error,
            Ok(()) => sink.prepare(1, false).unwrap_err(),
        };
        assert_eq!(error.code(), "W0701");
        assert!(
            error.to_string().contains("`out`") && error.to_string().contains("free some space"),
            "{error}"
        );
        // Nothing is left, and nothing can be staged any more.
        assert_eq!(names(dir.path()), [""; 0]);
        assert_eq!(sink.prepare(1, false).unwrap_err().code(), "W0704");
        assert_eq!(sink.write(&lines(&["more"])).unwrap_err().code(), "W0704");
    }
}

#[test]
fn a_failed_sync_stages_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut sink = sink(dir.path(), SinkFormat::Raw);
    sink.create = no_sync;
    sink.write(&lines(&["a"])).unwrap();
    assert!(
        sink.prepare(1, false)
            .unwrap_err()
            .to_string()
            .contains("the disk failed")
    );
    assert_eq!(names(dir.path()), [""; 0]);
    assert_eq!(sink.prepare(2, false).unwrap_err().code(), "W0704");
}

#[test]
fn a_value_that_is_no_line_ends_the_interval() {
    let dir = tempfile::tempdir().unwrap();
    let mut sink = sink(dir.path(), SinkFormat::Json);
    assert_eq!(
        sink.write(&batch(&[Some(b"1"), Some(b"{")]))
            .unwrap_err()
            .code(),
        "W0702"
    );
    assert_eq!(sink.prepare(1, false).unwrap_err().code(), "W0704");
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn a_directory_removed_while_running_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut sink = sink(&dir.path().join("gone"), SinkFormat::Raw);
    let error = sink.write(&lines(&["a"])).unwrap_err();
    assert_eq!(error.code(), "W0701");
    assert!(
        error.to_string().contains("gone") && error.to_string().contains("removed"),
        "{error}"
    );
}
