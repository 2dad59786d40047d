//! What output rows inherit from the rows of their call.

use super::*;
use crate::headers::Header;

const ONE: &[Header<'_>] = &[(b"a", Some(b"1")), (b"a", Some(b"")), (b"", None)];
const TWO: &[Header<'_>] = &[(b"\xff", Some(b"\0"))];

/// Records with the headers [`ONE`], none and [`TWO`].
fn records() -> CallRows {
    let mut batch = Batch::default();
    for (row, headers) in [ONE, &[], TWO].into_iter().enumerate() {
        let value = [row as u8];
        let headers = headers.iter().copied();
        batch.push_with_headers(None, 0, Some(&value), headers, 7, Origin::NONE);
    }
    CallRows::Records(Arc::new(batch))
}

fn rows(origins: &[u32], headers: Option<Headers>) -> Rows {
    let column = |bytes: Bytes| Column {
        offsets: bytes.offsets,
        data: bytes.data,
    };
    Rows {
        origins: origins.to_vec(),
        keys: None,
        values: Some(Nullable {
            present: Vec::new(),
            offsets: vec![0; origins.len() + 1],
            data: Vec::new(),
        }),
        times: None,
        headers: headers.map(|headers| weir_operator::Headers {
            ends: headers.ends,
            names: column(headers.names),
            contents: Nullable {
                present: headers.contents.present,
                offsets: headers.contents.offsets,
                data: headers.contents.data,
            },
        }),
    }
}

fn headers(batch: &Batch) -> Vec<Vec<Header<'_>>> {
    let of = |row| batch.headers_of(row).collect();
    (0..batch.len()).map(of).collect()
}

#[test]
fn rows_have_the_headers_of_their_origins() {
    let from = records();
    let all = inherit(rows(&[0, 1, 2], None), &from, false);
    assert_eq!(headers(&all), [ONE, &[], TWO]);
    let some = inherit(rows(&[2, 1, 0, 0], None), &from, true);
    assert_eq!(headers(&some), [TWO, &[], ONE, ONE]);
}

#[test]
fn rows_that_inherit_none_have_no_column() {
    let from = records();
    let without = inherit(rows(&[1, 1], None), &from, false);
    assert_eq!(without.headers, None);
    let no_rows = inherit(rows(&[], None), &from, false);
    assert_eq!(no_rows.headers, None);
}

#[test]
fn headers_that_are_given_replace_those_of_the_origins() {
    let from = records();
    let mut given = Headers::default();
    given.push(TWO.iter().copied());
    given.push(ONE.iter().copied());
    let batch = inherit(rows(&[0, 2], Some(given)), &from, false);
    assert_eq!(headers(&batch), [TWO, ONE]);
    let taken_away = inherit(rows(&[0, 2], Some(Headers::none(2))), &from, false);
    assert_eq!(taken_away.headers, None);
}

#[test]
fn calls_without_records_have_no_headers_to_inherit() {
    let rows = |headers| Rows {
        times: Some(vec![1]),
        origins: Vec::new(),
        ..rows(&[0], headers)
    };
    let batch = inherit(rows(None), &CallRows::Nothing, true);
    assert_eq!((batch.len(), batch.headers), (1, None));
    let mut given = Headers::default();
    given.push(ONE.iter().copied());
    let batch = inherit(rows(Some(given)), &CallRows::Nothing, true);
    assert_eq!(headers(&batch), [ONE]);
}
