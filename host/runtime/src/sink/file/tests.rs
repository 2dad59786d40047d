use super::super::tests::{batch, lines};
use super::*;

fn sink(dir: &Path, format: SinkFormat) -> FileSink {
    FileSink::new("out", dir, format, "7c1e0000", 3, 1)
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
    assert_eq!(sink.prepare(1).unwrap(), []);
    sink.write(&lines(&[])).unwrap();
    assert_eq!(sink.prepare(2).unwrap(), []);
    assert_eq!(names(dir.path()), [""; 0]);

    sink.write(&lines(&["1", "{\"a\": 2}"])).unwrap();
    sink.write(&lines(&["3"])).unwrap();
    let first = sink.prepare(3).unwrap();
    assert_eq!(
        first,
        [StagedPart {
            sink: "out".to_owned(),
            dir: dir.path().to_owned(),
            staged: ".part-7c1e0000-3-001-000001.jsonl".to_owned(),
            name: "part-7c1e0000-000003-001.jsonl".to_owned(),
            bytes: 13,
            records: 3,
        }]
    );
    assert_eq!(sink.prepare(4).unwrap(), []);
    sink.write(&lines(&["4"])).unwrap();
    let second = sink.prepare(5).unwrap();
    assert_eq!(names(dir.path()), [&first[0].staged[..], &second[0].staged]);

    // Checkpoint 3 was skipped: its part rides along with 5.
    parts::publish(&[first, second].concat()).unwrap();
    assert_eq!(
        names(dir.path()),
        [
            "part-7c1e0000-000003-001.jsonl",
            "part-7c1e0000-000005-001.jsonl"
        ]
    );
    assert_eq!(
        fs::read_to_string(dir.path().join("part-7c1e0000-000003-001.jsonl")).unwrap(),
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
    let staged = dropped.prepare(1).unwrap();
    dropped.write(&lines(&["b"])).unwrap();
    assert_eq!(names(dir.path()).len(), 2);
    drop(dropped);
    assert_eq!(names(dir.path()), [&staged[0].staged[..]]);
}

#[test]
fn a_restart_within_the_attempt_never_touches_an_earlier_part() {
    let dir = tempfile::tempdir().unwrap();
    let mut before = sink(dir.path(), SinkFormat::Raw);
    before.write(&lines(&["a"])).unwrap();
    let staged = before.prepare(1).unwrap();
    let mut after = sink(dir.path(), SinkFormat::Raw);
    after.write(&lines(&["b"])).unwrap();
    let mut all = after.prepare(2).unwrap();
    all.extend(staged);
    parts::publish(&all).unwrap();
    assert_eq!(
        fs::read_to_string(dir.path().join("part-7c1e0000-000001-001.txt")).unwrap(),
        "a\n"
    );
    assert_eq!(
        fs::read_to_string(dir.path().join("part-7c1e0000-000002-001.txt")).unwrap(),
        "b\n"
    );
}

#[test]
fn large_output_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut sink = sink(dir.path(), SinkFormat::Raw);
    let line = "y".repeat(999);
    for _ in 0..10 {
        sink.write(&lines(&[&line[..]; 200])).unwrap();
    }
    let parts = sink.prepare(1).unwrap();
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
    let parts = sink.prepare(1).unwrap();
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
            Ok(()) => sink.prepare(1).unwrap_err(),
        };
        assert_eq!(error.code(), "W0701");
        assert!(
            error.to_string().contains("`out`") && error.to_string().contains("free some space"),
            "{error}"
        );
        // Nothing is left, and nothing can be staged any more.
        assert_eq!(names(dir.path()), [""; 0]);
        assert_eq!(sink.prepare(1).unwrap_err().code(), "W0704");
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
        sink.prepare(1)
            .unwrap_err()
            .to_string()
            .contains("the disk failed")
    );
    assert_eq!(names(dir.path()), [""; 0]);
    assert_eq!(sink.prepare(2).unwrap_err().code(), "W0704");
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
    assert_eq!(sink.prepare(1).unwrap_err().code(), "W0704");
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
