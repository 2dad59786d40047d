use proptest::prelude::*;

use super::*;
use crate::job::model::Header;

const CSV: Format = Format::Csv {
    delimiter: b',',
    quote: Some(b'"'),
    null: None,
    header: Header::First,
};

#[derive(Debug, PartialEq, Eq)]
struct Row {
    bytes: Vec<u8>,
    line: u64,
    offset: u64,
    too_long: bool,
    /// Where the next one begins.
    after: Mark,
}

/// All frames of `stream`, pushed in in pieces of the given sizes in turn.
fn frames(format: &Format, limit: usize, stream: &[u8], pieces: &[usize]) -> Vec<Row> {
    let mut framer = Framer::with_limit(format, limit);
    drain(&mut framer, stream, pieces)
}

fn drain(framer: &mut Framer, mut stream: &[u8], pieces: &[usize]) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut pieces = pieces.iter().cycle();
    loop {
        while let Some(frame) = framer.next() {
            let (bytes, line, offset, too_long) = (
                frame.bytes.to_vec(),
                frame.line,
                frame.offset,
                frame.too_long,
            );
            rows.push(Row {
                bytes,
                line,
                offset,
                too_long,
                after: framer.mark(),
            });
        }
        if framer.is_done() {
            return rows;
        }
        assert!(!framer.ended, "an ended stream is drained");
        if stream.is_empty() {
            framer.finish();
            continue;
        }
        let size = (*pieces.next().unwrap()).min(stream.len());
        let room = framer.room();
        let size = size.min(room.len());
        room[..size].copy_from_slice(&stream[..size]);
        framer.filled(size);
        stream = &stream[size..];
    }
}

fn texts(format: &Format, stream: &str) -> Vec<(u64, String)> {
    frames(format, 1_000, stream.as_bytes(), &[3])
        .into_iter()
        .map(|row| (row.line, String::from_utf8(row.bytes).unwrap()))
        .collect()
}

#[test]
fn lines() {
    for (stream, expected) in [
        ("", &[][..]),
        ("\u{feff}", &[]),
        ("\n", &[(1, "")]),
        ("a", &[(1, "a")]),
        ("a\n", &[(1, "a")]),
        ("a\r\n", &[(1, "a")]),
        ("a\nb", &[(1, "a"), (2, "b")]),
        ("a\r\n\r\n\nb\r\n", &[(1, "a"), (2, ""), (3, ""), (4, "b")]),
        ("a\rb\r\r\nc\r", &[(1, "a\rb\r"), (2, "c\r")]),
        ("\u{feff}a\n\u{feff}b", &[(1, "a"), (2, "\u{feff}b")]),
        ("\u{feff}\n", &[(1, "")]),
        ("\"a\n\"b\n", &[(1, "\"a"), (2, "\"b")]),
    ] {
        let expected: Vec<_> = expected
            .iter()
            .map(|&(line, text)| (line, text.to_owned()))
            .collect();
        assert_eq!(texts(&Format::Raw, stream), expected, "{stream:?}");
    }
    // Half a byte order mark is data.
    assert_eq!(
        frames(&Format::Raw, 9, b"\xef\xbb", &[1])[0].bytes,
        b"\xef\xbb"
    );
    assert_eq!(
        frames(&Format::Raw, 9, b"\xef\xbb\n", &[1])[0].bytes,
        b"\xef\xbb"
    );
}

#[test]
fn rows() {
    for (stream, expected) in [
        ("a,b\nc,d\r\n", &[(1, "a,b"), (2, "c,d")][..]),
        ("\"a\nb\",c\nd", &[(1, "\"a\nb\",c"), (3, "d")]),
        (
            "a,\"\r\n\"\"\n\"\r\nd",
            &[(1, "a,\"\r\n\"\"\n\""), (4, "d")],
        ),
        ("a\"b\nc\"d\n", &[(1, "a\"b"), (2, "c\"d")]),
        ("\"a\"b\"\nc\n", &[(1, "\"a\"b\""), (2, "c")]),
        ("a,\"b\nc", &[(1, "a,\"b\nc")]),
        ("\"\"\n\n", &[(1, "\"\""), (2, "")]),
        ("\u{feff}\"a\n\"\nb", &[(1, "\"a\n\""), (3, "b")]),
    ] {
        let expected: Vec<_> = expected
            .iter()
            .map(|&(line, text)| (line, text.to_owned()))
            .collect();
        assert_eq!(texts(&CSV, stream), expected, "{stream:?}");
    }
}

#[test]
fn a_frame_at_the_limit_passes_and_one_over_it_does_not() {
    for end in ["", "\n", "\r\n"] {
        let rows = frames(&Format::Raw, 4, format!("abcd{end}").as_bytes(), &[1]);
        assert_eq!(
            (&rows[0].bytes[..], rows[0].too_long),
            (&b"abcd"[..], false)
        );
    }
    let stream = b"ok\nabcdefgh\r\nok\nabcde";
    for piece in 1..stream.len() {
        let rows = frames(&Format::Raw, 4, stream, &[piece]);
        let seen: Vec<_> = rows
            .iter()
            .map(|row| (&row.bytes[..], row.line, row.offset, row.too_long))
            .collect();
        assert_eq!(
            seen,
            [
                (&b"ok"[..], 1, 0, false),
                (b"abcd", 2, 3, true),
                (b"ok", 3, 13, false),
                (b"abcd", 4, 16, true),
            ]
        );
    }
}

#[test]
fn a_row_that_never_closes_its_quote_is_passed_over_to_the_end() {
    let stream = b"a\n\"bcdef\nghi\njkl\n";
    for piece in 1..stream.len() {
        let rows = frames(&CSV, 4, stream, &[piece]);
        assert_eq!(rows.len(), 2);
        assert_eq!(
            (rows[1].line, rows[1].offset, rows[1].too_long),
            (2, 2, true)
        );
        assert_eq!(rows[1].after.offset, stream.len() as u64);
    }
}

#[test]
fn a_mark_taken_while_passing_over_is_the_frame_s_beginning() {
    let mut framer = Framer::with_limit(&Format::Raw, 4);
    let push = |framer: &mut Framer, bytes: &[u8]| {
        framer.room()[..bytes.len()].copy_from_slice(bytes);
        framer.filled(bytes.len());
    };
    push(&mut framer, b"ab\n");
    assert_eq!(framer.next().unwrap().bytes, b"ab");
    let start = framer.mark();
    assert_eq!(
        start,
        Mark {
            offset: 3,
            line: 2,
            tail: tail_hash(b"ab\n")
        }
    );
    for _ in 0..3 {
        push(&mut framer, b"0123456789");
        assert_eq!(framer.next(), None);
        assert_eq!(framer.mark(), start);
    }
    push(&mut framer, b"\n");
    assert!(framer.next().unwrap().too_long);
    assert_eq!(framer.mark().offset, 34);
    assert_eq!(framer.mark().line, 3);
}

#[test]
fn memory_is_bounded_by_the_limit() {
    let mut framer = Framer::with_limit(&Format::Raw, 1_000_000);
    for _ in 0..200 {
        let room = framer.room();
        room.fill(b'x');
        let size = room.len();
        framer.filled(size);
        assert_eq!(framer.next(), None);
    }
    assert!(
        framer.buffer.len() < 1_000_000 + HISTORY + 3 * CHUNK,
        "{}",
        framer.buffer.len()
    );
    framer.finish();
    assert!(framer.next().unwrap().too_long);
}

/// The rules, written for a whole stream in memory.
fn oracle(format: &Format, stream: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let stream = stream.strip_prefix(BYTE_ORDER_MARK).unwrap_or(stream);
    let (mut rows, mut row, mut line, mut start) = (Vec::new(), Vec::new(), 1, 1);
    let mut quotes_open = false;
    let mut field_start = true;
    let mut bytes = stream.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let in_quotes = quotes_open;
        if *format == CSV {
            if quotes_open {
                if byte == b'"' {
                    if bytes.peek() == Some(&b'"') {
                        row.push(byte);
                        bytes.next();
                    } else {
                        quotes_open = false;
                    }
                }
            } else {
                quotes_open = field_start && byte == b'"';
            }
            field_start = !in_quotes && byte == b',';
        }
        line += u64::from(byte == b'\n');
        if byte == b'\n' && !in_quotes {
            if row.last() == Some(&b'\r') {
                row.pop();
            }
            rows.push((start, std::mem::take(&mut row)));
            start = line;
            field_start = true;
        } else {
            row.push(byte);
        }
    }
    if !row.is_empty() {
        rows.push((start, row));
    }
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn pieces_do_not_matter(stream in "\u{feff}?[ab,\"\r\n]{0,40}", pieces in prop::collection::vec(1..9_usize, 1..5), rows in any::<bool>(), limit in 1..30_usize) {
        let format = if rows { CSV } else { Format::Raw };
        let whole = frames(&format, limit, stream.as_bytes(), &[1_000]);
        prop_assert_eq!(&frames(&format, limit, stream.as_bytes(), &pieces), &whole);
        let expected: Vec<_> = oracle(&format, stream.as_bytes()).into_iter()
            .map(|(line, mut bytes)| {
                let too_long = bytes.len() > limit;
                bytes.truncate(limit);
                (line, bytes, too_long)
            })
            .collect();
        let seen: Vec<_> = whole.into_iter().map(|row| (row.line, row.bytes, row.too_long)).collect();
        prop_assert_eq!(seen, expected);
    }

    #[test]
    fn every_mark_resumes(stream in "\u{feff}?[ab,\"\r\n]{0,40}", piece in 1..9_usize, rows in any::<bool>()) {
        let format = if rows { CSV } else { Format::Raw };
        let whole = frames(&format, 1_000, stream.as_bytes(), &[piece]);
        for (i, row) in whole.iter().enumerate() {
            let at = row.after.offset as usize;
            prop_assert_eq!(row.after.tail, tail_hash(&stream.as_bytes()[..at]));
            let mut framer = Framer::resume(&format, row.after.offset, row.after.line, &stream.as_bytes()[..at]);
            prop_assert_eq!(framer.mark(), row.after);
            prop_assert_eq!(&drain(&mut framer, &stream.as_bytes()[at..], &[piece])[..], &whole[i + 1..]);
        }
    }
}
