use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::job::model::{
    ErrorPolicy, EventTime, Header, KeySelector, Place, Source, SourceConnector, TimeFormat,
};
use crate::source::collected::{Collected, open, resume};
use crate::source::{assign, discover};

use super::*;

const CSV: Format = Format::Csv {
    delimiter: b',',
    quote: Some(b'"'),
    null: None,
    header: Header::First,
};

/// A file source called `in`.
pub(in crate::source) fn source(paths: &[&str], format: Format) -> Source {
    Source {
        id: NodeId::new("in").unwrap(),
        place: Place::default(),
        connector: SourceConnector::File {
            paths: paths.iter().map(|&path| path.to_owned()).collect(),
            compression: Compression::Auto,
            watch: None,
        },
        format,
        key: None,
        event_time: None,
        on_error: ErrorPolicy::Fail,
        rate: None,
        parallelism: None,
    }
}

/// A directory with `files`, and a source that reads all of them.
struct Input {
    dir: tempfile::TempDir,
    source: Source,
}

impl Input {
    fn new(format: Format, files: &[(&str, &[u8])]) -> Input {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            fs::write(dir.path().join(name), content).unwrap();
        }
        let source = source(&[dir.path().join("*").to_str().unwrap()], format);
        Input { dir, source }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn splits(&self) -> Vec<SplitState> {
        discover(&self.source).unwrap()
    }

    fn reader(&self, splits: Vec<SplitState>) -> Box<dyn Reader> {
        open(&self.source, splits, 5).unwrap()
    }

    fn read_all(&self) -> Result<Collected, Error> {
        let mut seen = Collected::default();
        seen.read_all(&mut *self.reader(self.splits()))?;
        Ok(seen)
    }

    /// States after reading `count` records.
    fn after(&self, count: usize) -> Vec<SplitState> {
        let mut reader = self.reader(self.splits());
        Collected::default().read(&mut *reader, count).unwrap();
        through_json(reader.splits())
    }

    /// Goes on from `splits` as a restarted job would.
    fn go_on(&self, splits: Vec<SplitState>) -> Result<Collected, Error> {
        resume(&self.source, &splits)?;
        let mut seen = Collected::default();
        for dealt in assign(splits, 2) {
            seen.read_all(&mut *open(&self.source, dealt, 5)?)?;
        }
        Ok(seen)
    }
}

/// As a checkpoint would store them.
fn through_json(splits: Vec<SplitState>) -> Vec<SplitState> {
    serde_json::from_str(&serde_json::to_string(&splits).unwrap()).unwrap()
}

fn gzip(pieces: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in pieces {
        let mut encoder = flate2::write::GzEncoder::new(&mut out, flate2::Compression::fast());
        encoder.write_all(piece).unwrap();
        encoder.finish().unwrap();
    }
    out
}

fn zstd(pieces: &[&[u8]]) -> Vec<u8> {
    // A skippable frame comes first, as some writers have it.
    let mut out = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc".to_vec();
    for piece in pieces {
        out.extend(zstd::encode_all(*piece, 1).unwrap());
    }
    out
}

/// `content` as a plain file, as gzip of three members and as zstd of three frames, cut without regard to lines.
fn encodings(content: &[u8]) -> [(&'static str, Vec<u8>); 3] {
    let (a, b) = (content.len() / 3, content.len() / 2);
    let pieces = [&content[..a], &content[a..b], &content[b..]];
    [
        ("a", content.to_vec()),
        ("a.gz", gzip(&pieces)),
        ("a.zst", zstd(&pieces)),
    ]
}

#[test]
fn lines_of_all_encodings() {
    for (name, content) in encodings(b"\xef\xbb\xbffirst\r\n\nthird\nlast") {
        let input = Input::new(Format::Raw, &[(name, &content)]);
        let seen = input.read_all().unwrap();
        assert_eq!(seen.texts(), ["first", "", "third", "last"], "{name}");
        let origins: Vec<_> = seen.rows.iter().map(|row| row.origin.unwrap()).collect();
        assert_eq!(origins, [(5, 1), (5, 2), (5, 3), (5, 4)]);
        assert_eq!(seen.events, ["open 0", "done 0"]);
    }
}

#[test]
fn files_come_sorted_by_bytes_one_at_a_time() {
    let input = Input::new(
        Format::Raw,
        &[
            ("b", b"3\n"),
            ("B", b"1\n"),
            ("a10", b"2\n"),
            ("\u{e4}", b"4"),
            ("empty", b""),
            (".hidden", b"x\n"),
        ],
    );
    fs::create_dir(input.path("c")).unwrap();
    let seen = input.read_all().unwrap();
    assert_eq!(seen.texts(), ["1", "2", "3", "4"]);
    let events: Vec<_> = (0..5)
        .flat_map(|split| [format!("open {split}"), format!("done {split}")])
        .collect();
    assert_eq!(seen.events, events);
}

#[test]
fn empty_files_and_headers_alone_are_done_at_once() {
    for content in [&b""[..], b"\xef\xbb\xbf", b"\n\n", b"a,b", b"a,b\r\n\r\n"] {
        let seen = Input::new(CSV, &[("a", content)]).read_all().unwrap();
        assert_eq!((seen.rows.len(), seen.events.len()), (0, 2));
    }
    let seen = Input::new(Format::Json, &[("a", b"\n  \r\n\t\n1\n\n")])
        .read_all()
        .unwrap();
    assert_eq!(
        (seen.texts(), seen.rows[0].origin),
        (vec!["1"], Some((5, 4)))
    );
}

#[test]
fn paths_that_lead_nowhere_are_named() {
    let input = Input::new(Format::Raw, &[("a", b"x")]);
    let dir = input.dir.path().to_str().unwrap();
    let refused = |pattern: &str| discover(&source(&[pattern], Format::Raw)).unwrap_err();
    for (path, part) in [
        (format!("{dir}/*.csv"), "no file matches"),
        (format!("{dir}/b"), "no file matches"),
        (dir.to_owned(), "is a directory; write"),
        (format!("{dir}/[a"), "not a pattern"),
        ("/dev/null".to_owned(), "not a regular file"),
        ("/dev/nul[l]".to_owned(), "not a regular file"),
    ] {
        let error = refused(&path);
        assert_eq!(error.code(), "W0604");
        let text = error.to_string();
        assert!(
            text.contains(part)
                && text.contains(&path.replace("[l]", "l"))
                && text.contains("`in`"),
            "{text}"
        );
    }
    std::os::unix::fs::symlink("/nowhere", input.path("dangling")).unwrap();
    let error = refused(&format!("{dir}/*"));
    assert_eq!(error.code(), "W0601");
    assert!(error.to_string().contains("dangling"), "{error}");
}

#[test]
fn a_path_that_exists_is_no_pattern_and_counts_once() {
    let input = Input::new(Format::Raw, &[("a[1].txt", b"x"), ("a1.txt", b"y")]);
    let path = |name: &str| input.path(name).to_str().unwrap().to_owned();
    let (literal, pattern) = (path("a[1].txt"), path("a*.txt"));
    let names = |paths: &[&str]| -> Vec<String> {
        discover(&source(paths, Format::Raw))
            .unwrap()
            .into_iter()
            .map(|split| split.name)
            .collect()
    };
    assert_eq!(names(&[&literal]), [&literal[..]]);
    assert_eq!(
        names(&[&literal, &pattern, &literal]),
        [path("a1.txt"), literal.clone()]
    );
}

/// Rows with quoted line ends, in several files, in every encoding: stopped after every record, both at once and in many
/// small steps, reading goes on as if nothing had been.
#[test]
fn resumes_at_every_record() {
    let mut content = b"\xef\xbb\xbfid,\"time\",text\r\n".to_vec();
    for i in 0..40 {
        write!(
            content,
            "{i},{},\"line\r\n{i} \"\"x\"\"\n\"{}",
            1_000 - i * 7 % 13,
            if i % 3 == 0 { "\r\n" } else { "\n" }
        )
        .unwrap();
        if i % 10 == 0 {
            content.extend_from_slice(b"\r\n");
        }
    }
    content.extend_from_slice(b"40,1,last");
    for (name, encoded) in encodings(&content) {
        let mut input = Input::new(CSV, &[(name, &encoded), ("z", b"id,time,text\n41,0,other")]);
        input.source.key = Some(KeySelector::Pointer("/id".to_owned()));
        input.source.event_time = Some(EventTime {
            field: "/time".to_owned(),
            format: TimeFormat::Millis,
            out_of_order: Duration::ZERO,
            idle: Duration::ZERO,
        });
        let whole = input.read_all().unwrap().rows;
        assert_eq!(whole.len(), 42);
        assert_eq!(
            whole[3].text(),
            r#"{"id":"3","time":"992","text":"line\r\n3 \"x\"\n"}"#
        );
        let mut states = input.splits();
        for (count, next) in whole.iter().enumerate() {
            let splits = input.after(count);
            let max_time = whole[..count]
                .iter()
                .filter(|row| row.split == 0)
                .map(|row| row.time)
                .max();
            assert_eq!(splits[0].max_time, max_time.unwrap_or(NO_TIME));
            let mut rest = input.go_on(splits).unwrap().rows;
            rest.sort_by_key(|row| row.origin);
            assert_eq!(rest, whole[count..], "{name} after {count}");

            let mut reader = input.reader(states);
            let mut seen = Collected::default();
            seen.read(&mut *reader, 1).unwrap();
            assert_eq!(&seen.rows[0], next);
            states = through_json(reader.splits());
        }
        assert!(input.after(usize::MAX).iter().all(|split| split.done));
        assert_eq!(input.go_on(input.after(usize::MAX)).unwrap().rows, []);
    }
}

/// As above, with positions beyond the history that is hashed, and lines over several reads.
#[test]
fn resumes_in_large_files() {
    let lines: Vec<String> = (0..12)
        .map(|i| format!("{i} {}", "abcdefg".repeat(i * 7_000)))
        .collect();
    let content = lines.join("\n").into_bytes();
    assert!(content.len() > 2_000_000);
    for (name, encoded) in encodings(&content) {
        let input = Input::new(Format::Raw, &[(name, &encoded)]);
        for count in 0..=lines.len() {
            let splits = input.after(count);
            assert_eq!(splits[0].position["at"] == 0, count == 0);
            let seen = input.go_on(splits).unwrap();
            assert!(seen.texts() == lines[count..], "{name} after {count}");
            assert_eq!(seen.events, ["open 0", "done 0"]);
        }
    }
}

#[test]
fn half_read_files_come_in_order_and_hold_the_watermark_at_once() {
    let input = Input::new(
        Format::Raw,
        &[
            ("a", b"1\n"),
            ("b", b"2\n3\n"),
            ("c", b"4\n"),
            ("d", b"5\n6\n"),
        ],
    );
    let mut splits = input.splits();
    for split in [1, 3] {
        let mut reader = input.reader(vec![splits[split].clone()]);
        Collected::default().read(&mut *reader, 1).unwrap();
        splits[split] = reader.splits().remove(0);
    }
    let mut seen = Collected::default();
    let mut reader = input.reader(splits);
    seen.read_all(&mut *reader).unwrap();
    assert_eq!(seen.texts(), ["1", "3", "4", "6"]);
    assert_eq!(
        seen.events,
        [
            "open 1", "open 3", "open 0", "done 0", "done 1", "open 2", "done 2", "done 3"
        ]
    );
    assert_eq!(
        reader
            .splits()
            .iter()
            .map(|split| split.split)
            .collect::<Vec<_>>(),
        [0, 1, 2, 3]
    );
}

/// Every kind of change to a file that was read in part.
#[test]
fn a_changed_file_stops_the_job_by_name() {
    let content: Vec<u8> = (0..30_000)
        .flat_map(|i| format!("line {i}\n").into_bytes())
        .collect();
    type Change = fn(&Path, &[u8]);
    let changes: [(&str, Change); 6] = [
        ("is gone", |path, _| fs::remove_file(path).unwrap()),
        ("it had 318890 bytes, now 318889", |path, content| {
            fs::write(path, &content[..content.len() - 1]).unwrap()
        }),
        ("it had 318890 bytes, now 0", |path, _| {
            fs::write(path, b"").unwrap()
        }),
        ("its first 65536 bytes had the hash", |path, content| {
            let mut content = content.to_vec();
            content[0] = b'L';
            fs::write(path, content).unwrap();
        }),
        ("bytes before line 20001 had the hash", |path, content| {
            let mut content = content.to_vec();
            content[200_000] ^= 1;
            fs::write(path, content).unwrap();
        }),
        ("bytes before line 20001 had the hash", |path, content| {
            let mut content = content.to_vec();
            content.insert(150_000, b'x');
            fs::write(path, content).unwrap();
        }),
    ];
    for (part, change) in changes {
        let input = Input::new(Format::Raw, &[("a", &content)]);
        let splits = input.after(20_000);
        assert_eq!(input.go_on(splits.clone()).unwrap().rows.len(), 10_000);
        change(&input.path("a"), &content);
        let error = input.go_on(splits).unwrap_err();
        assert_eq!(error.code(), "W0603");
        let text = error.to_string();
        assert!(text.contains(part), "{text}");
        assert!(
            text.contains(input.path("a").to_str().unwrap()) && text.contains("--fresh"),
            "{text}"
        );
    }
}

#[test]
fn a_changed_compressed_file_stops_the_job_by_name() {
    let content: Vec<u8> = (0..30_000)
        .flat_map(|i| format!("line {i}\n").into_bytes())
        .collect();
    let shorter = &content[..100_000];
    let mut other = content.clone();
    other[200_000] ^= 1;
    // Stored, not compressed, so that the beginning and the size on disk stay as they were.
    let stored = |content: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    };
    let mut padded = stored(shorter);
    padded.extend(gzip(&[b""]).repeat(20_000));
    for (changed, part) in [
        (stored(&other), "bytes before line 20001 had the hash"),
        (
            padded,
            "208890 bytes (decompressed) were read of it, now there are 100000",
        ),
    ] {
        let input = Input::new(Format::Raw, &[("a", &stored(&content))]);
        let splits = input.after(20_000);
        fs::write(input.path("a"), changed).unwrap();
        let error = input.go_on(splits).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn unread_files_are_checked_too_and_may_grow() {
    let input = Input::new(Format::Raw, &[("a", b"1\n"), ("b", b"2\n")]);
    let splits = input.after(1);
    fs::write(input.path("b"), b"2\n3\n").unwrap();
    assert_eq!(input.go_on(splits.clone()).unwrap().texts(), ["2", "3"]);
    fs::write(input.path("b"), b"9\n").unwrap();
    assert_eq!(input.go_on(splits).unwrap_err().code(), "W0603");
}

#[test]
fn a_file_that_shrinks_while_it_is_read_stops_the_job() {
    let input = Input::new(Format::Raw, &[("a", b"1\n"), ("b", b"2\n3\n")]);
    let mut reader = input.reader(input.splits());
    let mut seen = Collected::default();
    seen.read(&mut *reader, 2).unwrap();
    // The reader has all of it already; another one opens it after the check.
    seen.read_all(&mut *reader).unwrap();
    assert_eq!(seen.texts(), ["1", "2", "3"]);

    let long = "x".repeat(600_000);
    let input = Input::new(Format::Raw, &[("a", format!("1\n{long}\n").as_bytes())]);
    let mut reader = input.reader(input.splits());
    Collected::default().read(&mut *reader, 1).unwrap();
    fs::write(input.path("a"), b"1\n").unwrap();
    let error = Collected::default().read_all(&mut *reader).unwrap_err();
    assert_eq!(error.code(), "W0603");
    assert!(
        error
            .to_string()
            .contains("it had 600003 bytes and ended after"),
        "{error}"
    );
}

#[test]
fn finished_files_may_go_but_not_change() {
    let input = Input::new(Format::Raw, &[("a", b"1\n"), ("b", b"2\n3\n")]);
    let splits = input.after(2);
    assert!(splits[0].done);

    fs::write(input.path("a"), b"1\nmore\n").unwrap();
    let warnings = resume(&input.source, &splits).unwrap();
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].contains("grew from 2 to 7 bytes"),
        "{warnings:?}"
    );
    assert_eq!(input.go_on(splits.clone()).unwrap().texts(), ["3"]);

    for changed in [&b"1"[..], b"x\n"] {
        fs::write(input.path("a"), changed).unwrap();
        assert_eq!(resume(&input.source, &splits).unwrap_err().code(), "W0603");
    }
    fs::remove_file(input.path("a")).unwrap();
    assert_eq!(input.go_on(splits).unwrap().texts(), ["3"]);
}

/// A file that grew between its discovery and its end is known by what was read of it.
#[test]
fn a_finished_file_is_recorded_as_it_was_read() {
    let input = Input::new(Format::Raw, &[("a", b"1\n")]);
    let splits = input.splits();
    fs::write(input.path("a"), b"1\n2\n").unwrap();
    let mut reader = input.reader(splits);
    Collected::default().read_all(&mut *reader).unwrap();
    let splits = reader.splits();
    assert_eq!(splits[0].position["file"]["size"], 4);
    assert_eq!(resume(&input.source, &splits).unwrap(), [""; 0]);
    fs::write(input.path("a"), b"1\n9\n").unwrap();
    assert_eq!(resume(&input.source, &splits).unwrap_err().code(), "W0603");
}

#[test]
fn new_files_are_reported_and_not_read() {
    let input = Input::new(Format::Raw, &[("b", b"1\n2\n")]);
    let splits = input.after(1);
    for name in ["a", "c", "d", "e"] {
        fs::write(input.path(name), b"new\n").unwrap();
    }
    let warnings = resume(&input.source, &splits).unwrap();
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].contains("/a, ") && warnings[0].ends_with(" and 1 more"),
        "{warnings:?}"
    );
    assert_eq!(input.go_on(splits).unwrap().texts(), ["2"]);
}

#[test]
fn decode_errors_follow_the_policy() {
    let content = b"{\"a\":1}\n{\"a\":\n\xff\n\n{\"a\":2}\n";
    let mut input = Input::new(Format::Json, &[("a.json", content)]);
    let name = input.path("a.json").to_str().unwrap().to_owned();

    let error = input.read_all().unwrap_err();
    assert_eq!(error.code(), "W0602");
    let text = error.to_string();
    assert!(
        text.starts_with(&format!(
            "{name} line 2: not valid JSON: unexpected end at byte 6;"
        )),
        "{text}"
    );
    assert!(
        text.contains("on_error: skip") && text.contains("`in`"),
        "{text}"
    );

    input.source.on_error = ErrorPolicy::Skip;
    let seen = input.read_all().unwrap();
    assert_eq!(
        (seen.texts(), &seen.skipped),
        (vec!["{\"a\":1}", "{\"a\":2}"], &vec![0, 0])
    );

    input.source.on_error = ErrorPolicy::DeadLetter(NodeId::new("rejects").unwrap());
    let seen = input.read_all().unwrap();
    assert_eq!(seen.texts().len(), 2);
    assert_eq!(
        seen.dead_letters,
        [
            serde_json::json!({
                "source": "in", "file": name, "line": 2, "offset": 8,
                "error": "not valid JSON: unexpected end at byte 6", "value": "{\"a\":",
            }),
            serde_json::json!({
                "source": "in", "file": name, "line": 3, "offset": 14,
                "error": "not valid UTF-8 at byte 1", "value_base64": "/w==",
            }),
        ]
    );
}

#[test]
fn a_damaged_csv_row_costs_that_row() {
    let mut input = Input::new(
        CSV,
        &[("a", b"a,b\n1,2\n1,2,3\n\"1\"x,2\n3,4\n\"5,6\n7,8\n")],
    );
    input.source.on_error = ErrorPolicy::DeadLetter(NodeId::new("rejects").unwrap());
    let seen = input.read_all().unwrap();
    assert_eq!(
        seen.texts(),
        [r#"{"a":"1","b":"2"}"#, r#"{"a":"3","b":"4"}"#]
    );
    let letters: Vec<_> = seen
        .dead_letters
        .iter()
        .map(|letter| {
            (
                letter["line"].as_u64().unwrap(),
                letter["error"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        letters,
        [
            (3, "3 fields where the header has 2"),
            (4, "text after the closing quote of field 1 at byte 4"),
            (6, "field 1 has no closing quote"),
        ]
    );
}

#[test]
fn csv_files_without_a_header_and_without_quotes() {
    let content = b"\xef\xbb\xbf1,\"a\r\n2,b\"\n\n3,";
    let named = |header| Format::Csv {
        delimiter: b',',
        quote: None,
        null: None,
        header,
    };
    let names = Header::Names(vec!["n".to_owned(), "text".to_owned()]);
    for (header, n, text) in [(names, "n", "text"), (Header::Numbered, "1", "2")] {
        let mut input = Input::new(named(header), &[("a", content), ("b", b"4,d")]);
        input.source.key = Some(KeySelector::Pointer(format!("/{n}")));
        let expected: Vec<String> = [("1", "\\\"a"), ("2", "b\\\""), ("3", ""), ("4", "d")]
            .iter()
            .map(|(first, second)| format!(r#"{{"{n}":"{first}","{text}":"{second}"}}"#))
            .collect();
        let seen = input.read_all().unwrap();
        assert_eq!(seen.texts(), expected);
        assert_eq!(seen.rows[2].key.as_deref(), Some("3"));
        assert_eq!(
            seen.rows[2].origin,
            Some((5, 4)),
            "lines count from the first row"
        );
        for count in 0..4 {
            let splits = through_json(input.after(count));
            let rest = input.go_on(splits).unwrap();
            let mut rest = rest.texts();
            rest.sort_unstable();
            assert_eq!(rest, expected[count..]);
        }
    }
    // The first row says how many columns there are; another number of fields is an error with the line.
    let input = Input::new(named(Header::Numbered), &[("a", b"1,2\n1,2,3\n")]);
    let error = input.read_all().unwrap_err().to_string();
    assert!(
        error.contains("line 2") && error.contains("3 fields"),
        "{error}"
    );
}

#[test]
fn a_header_that_does_not_fit_names_the_file_whatever_the_policy() {
    for content in [&b"a,a\n"[..], b"a,,b\n", b"a,\"b\n"] {
        let mut input = Input::new(CSV, &[("bad.csv", content)]);
        input.source.on_error = ErrorPolicy::Skip;
        let error = input.read_all().unwrap_err();
        assert_eq!(error.code(), "W0604");
        assert!(error.to_string().contains("bad.csv"), "{error}");
    }
}

#[test]
fn a_line_over_the_limit_costs_that_line() {
    let mut content = b"1\n\"".to_vec();
    content.resize(65 * 1024 * 1024, b'x');
    content.extend_from_slice(b"\"\n2\n");
    let mut input = Input::new(Format::Json, &[("a", &content)]);
    let error = input.read_all().unwrap_err().to_string();
    assert!(error.contains("line 2: longer than 64 MiB"), "{error}");
    input.source.on_error = ErrorPolicy::DeadLetter(NodeId::new("rejects").unwrap());
    let seen = input.read_all().unwrap();
    assert_eq!(seen.texts(), ["1", "2"]);
    assert_eq!(seen.dead_letters[0]["cut"], true);
    assert_eq!(
        seen.dead_letters[0]["value"].as_str().unwrap().len(),
        1024 * 1024
    );
    // A stop in its midst goes on from its beginning, and each call comes back in between.
    let mut reader = input.reader(input.splits());
    let mut seen = Collected {
        allowance: usize::MAX,
        ..Collected::default()
    };
    let mut calls = 0;
    while seen.dead_letters.is_empty() {
        calls += 1;
        let splits = reader.splits();
        assert!(calls == 1 || splits[0].position["at"] == 2);
        if calls == 3 {
            assert_eq!(input.go_on(splits).unwrap().texts(), ["2"]);
        }
        reader.read(&mut seen).unwrap();
    }
    assert!(calls > 10);
}

#[test]
fn damaged_compression_is_named() {
    let content: Vec<u8> = (0..5_000)
        .flat_map(|i| format!("line {}\n", i * 7_919 % 5_003).into_bytes())
        .collect();
    for (name, encoded) in &encodings(&content)[1..] {
        let mut flipped = encoded.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 0x55;
        let garbage = [encoded, &b"garbage"[..]].concat();
        for damaged in [&encoded[..encoded.len() - 3], &flipped, &garbage] {
            let error = Input::new(Format::Raw, &[(name, damaged)])
                .read_all()
                .unwrap_err();
            assert_eq!(error.code(), "W0601");
            let text = error.to_string();
            assert!(
                text.contains(name) && (text.contains("gzip") || text.contains("zstd")),
                "{text}"
            );
        }
    }
}

#[test]
fn compression_can_be_settled() {
    let content = gzip(&[b"x\n"]);
    let mut input = Input::new(Format::Raw, &[("a", &content)]);
    let set = |input: &mut Input, to| {
        let SourceConnector::File { compression, .. } = &mut input.source.connector else {
            unreachable!()
        };
        *compression = to;
    };
    set(&mut input, Compression::Gzip);
    assert_eq!(input.read_all().unwrap().texts(), ["x"]);
    set(&mut input, Compression::Zstd);
    assert_eq!(input.read_all().unwrap_err().code(), "W0604");
    fs::write(input.path("a"), b"\x1f\x8b\x08 no gzip\n").unwrap();
    set(&mut input, Compression::Plain);
    assert_eq!(
        input.read_all().unwrap().rows[0].value,
        b"\x1f\x8b\x08 no gzip"
    );
}

#[test]
fn positions_of_another_kind_of_source_are_refused() {
    let input = Input::new(Format::Raw, &[("a", b"1\n")]);
    let mut splits = input.splits();
    splits[0].position = serde_json::json!({"at": 3, "of": 2, "records": null});
    for error in [
        resume(&input.source, &splits).unwrap_err(),
        open(&input.source, splits, 0).err().unwrap(),
    ] {
        assert_eq!(error.code(), "W0603");
        assert!(error.to_string().contains("another kind"), "{error}");
    }
}

#[test]
fn share_counts_bytes_on_disk() {
    let content: Vec<u8> = (0..60_000)
        .flat_map(|i| format!("{i}\n").into_bytes())
        .collect();
    for (name, encoded) in encodings(&content) {
        let all = encoded.len() as u64 + 2;
        let input = Input::new(Format::Raw, &[(name, &encoded), ("z", b"1\n")]);
        let mut reader = input.reader(input.splits());
        let mut seen = Collected::default();
        assert_eq!(reader.share(), Some((0, all)));
        seen.read(&mut *reader, 10).unwrap();
        let (read, of) = reader.share().unwrap();
        assert!(read > 0 && read < all && of == all, "{read}");
        seen.read_all(&mut *reader).unwrap();
        assert_eq!(reader.share(), Some((all, all)));
    }
}

#[test]
fn two_ways_to_one_file_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("in")).unwrap();
    fs::write(dir.path().join("in/a"), "1\n").unwrap();
    std::os::unix::fs::symlink(dir.path().join("in"), dir.path().join("link")).unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (one, other) = (path("in/*"), path("link/a"));
    let error = discover(&source(&[&one, &other], Format::Raw)).unwrap_err();
    assert!(error.to_string().contains("are one file"), "{error}");
    let again = path("in/a");
    let splits = discover(&source(&[&one, &again], Format::Raw)).unwrap();
    assert_eq!(splits.len(), 1, "the same path is no second one");
}

#[test]
fn a_file_that_is_not_compressed_as_is_said_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("plain.txt");
    fs::write(&plain, "1\n").unwrap();
    for said in [Compression::Gzip, Compression::Zstd] {
        let mut source = source(&[plain.to_str().unwrap()], Format::Raw);
        let SourceConnector::File { compression, .. } = &mut source.connector else {
            unreachable!("it is a file source");
        };
        *compression = said;
        let splits = discover(&source).unwrap();
        let mut reader = Files::open(&source, splits, 0).unwrap();
        let error = Collected::default().read(&mut reader, 1).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Invalid(_)), "{text}");
        assert!(
            text.contains("plain.txt") && text.contains("no compression"),
            "{text}"
        );
    }
}
