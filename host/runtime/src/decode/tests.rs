use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::job::model::{
    Compression, ErrorPolicy, EventTime, Header, NodeId, Place, SourceConnector,
};

fn source(format: Format, key: Option<KeySelector>, time: Option<(&str, TimeFormat)>) -> Source {
    Source {
        id: NodeId::new("flights").unwrap(),
        place: Place::default(),
        connector: SourceConnector::File {
            paths: vec![PathBuf::from("/data/*").display().to_string()],
            compression: Compression::Auto,
            watch: None,
        },
        format,
        key,
        event_time: time.map(|(field, format)| EventTime {
            field: field.to_owned(),
            format,
            out_of_order: Duration::ZERO,
            idle: Duration::from_secs(60),
        }),
        on_error: ErrorPolicy::Fail,
        rate: None,
        parallelism: None,
    }
}

fn one(pointer: &str) -> Option<KeySelector> {
    Some(KeySelector::Pointer(pointer.to_owned()))
}

fn many(pointers: &[&str]) -> Option<KeySelector> {
    Some(KeySelector::Pointers(
        pointers.iter().map(|&pointer| pointer.to_owned()).collect(),
    ))
}

fn csv(null: Option<&str>) -> Format {
    Format::Csv {
        delimiter: b',',
        quote: Some(b'"'),
        null: null.map(str::to_owned),
        header: Header::First,
    }
}

/// Key and time, or the error, of one line.
fn json(
    key: Option<KeySelector>,
    time: Option<(&str, TimeFormat)>,
    line: &str,
) -> Result<(Option<String>, i64), String> {
    let mut decoder = Decoder::new(&source(Format::Json, key, time)).unwrap();
    let decoded = decoder
        .decode(line.as_bytes(), None)
        .map_err(|error| error.to_string())?;
    assert_eq!(decoded.value, line.as_bytes());
    Ok((
        decoded
            .key
            .map(|key| String::from_utf8(key.to_vec()).unwrap()),
        decoded.time,
    ))
}

#[test]
fn raw_lines_pass_unchanged() {
    let mut decoder = Decoder::new(&source(Format::Raw, None, None)).unwrap();
    for line in [&b""[..], b"  ", b"{", b"\xff\x00\r"] {
        assert!(!decoder.is_blank(line));
        assert_eq!(
            decoder.decode(line, None).unwrap(),
            Decoded {
                key: None,
                value: line,
                time: NO_TIME
            }
        );
    }
}

#[test]
fn json_keys() {
    for (line, key) in [
        (r#"{"k":"JFK"}"#, Some("JFK")),
        (r#"{"k":""}"#, Some("")),
        (r#"{"k":"a\u0062\n\""}"#, Some("ab\n\"")),
        (r#"{"k":1.0}"#, Some("1.0")),
        (r#"{"k":-12e3}"#, Some("-12e3")),
        (r#"{"k":true}"#, Some("true")),
        (r#"{"k":null}"#, None),
        (r#"{"x":1}"#, None),
        ("[]", None),
        ("1", None),
    ] {
        assert_eq!(
            json(one("/k"), None, line).unwrap().0.as_deref(),
            key,
            "{line}"
        );
    }
    assert_eq!(
        json(one(""), None, "\"all\"").unwrap().0.as_deref(),
        Some("all")
    );
    assert_eq!(
        json(one("/a/1"), None, r#"{"a":[1,"b"]}"#)
            .unwrap()
            .0
            .as_deref(),
        Some("b")
    );
}

#[test]
fn keys_of_several_fields_have_one_spelling() {
    for (line, key) in [
        (r#"{"a":"x","b":1}"#, r#"["x",1]"#),
        (r#"{"b":1,"a":"\u0078"}"#, r#"["x",1]"#),
        (r#"{"a":"\/\"\\\u000a\u00e4"}"#, r#"["/\"\\\nä",null]"#),
        (r#"{"b":null}"#, "[null,null]"),
    ] {
        assert_eq!(
            json(many(&["/a", "/b"]), None, line).unwrap().0.as_deref(),
            Some(key),
            "{line}"
        );
    }
}

#[test]
fn json_times() {
    let time = |format, line| json(None, Some(("/t", format)), line).map(|decoded| decoded.1);
    assert_eq!(time(TimeFormat::Millis, r#"{"t":0}"#), Ok(0));
    assert_eq!(time(TimeFormat::Millis, r#"{"t":-1}"#), Ok(-1));
    assert_eq!(
        time(TimeFormat::Millis, r#"{"t":"1700000000000"}"#),
        Ok(1_700_000_000_000)
    );
    assert_eq!(
        time(TimeFormat::Seconds, r#"{"t":1.7e9}"#),
        Ok(1_700_000_000_000)
    );
    assert_eq!(
        time(TimeFormat::Rfc3339, r#"{"t":"1970-01-01T00:00:01Z"}"#),
        Ok(1_000)
    );
    assert_eq!(
        time(TimeFormat::Rfc3339, r#"{"t":"\u0031970-01-01T00:00:01Z"}"#),
        Ok(1_000)
    );
    for (line, part) in [
        ("{}", "time `/t` is missing or null"),
        (r#"{"t":null}"#, "time `/t` is missing or null"),
        (r#"{"t":[]}"#, "time `/t` is an array or object"),
        (
            r#"{"t":true}"#,
            "time `/t`: `true` is not a number of milliseconds",
        ),
        (
            r#"{"t":-9223372036854775808}"#,
            "outside the years 0000 to 9999",
        ),
        (
            r#"{"t":9223372036854775807}"#,
            "outside the years 0000 to 9999",
        ),
        (r#"{"t":1700000000000000}"#, "is that the unit?"),
        (r#"{"t":"\ud800"}"#, "half a character"),
    ] {
        let error = time(TimeFormat::Millis, line).unwrap_err();
        assert!(error.contains(part), "{line}: {error}");
    }
}

#[test]
fn json_lines_that_are_no_records() {
    for (line, message) in [
        ("{\"a\":1", "not valid JSON: expected `,` or `}` at byte 7"),
        (
            "{} 1",
            "not valid JSON: text after the end of the value at byte 4",
        ),
        (
            r#"{"k":{}}"#,
            "key `/k` is an array or object; it must be a string, number or boolean",
        ),
        (
            r#"{"k":"\udc00"}"#,
            "key `/k` has a `\\u` escape for half a character",
        ),
    ] {
        assert_eq!(json(one("/k"), None, line).unwrap_err(), message);
        assert_eq!(json(many(&["/k"]), None, line).unwrap_err(), message);
    }
    let mut decoder = Decoder::new(&source(Format::Json, None, None)).unwrap();
    assert_eq!(
        decoder.decode(b"\"a\xff\"", None),
        Err(Error::Record("not valid UTF-8 at byte 3".to_owned()))
    );
    for blank in [&b""[..], b" \t", b"\r"] {
        assert!(decoder.is_blank(blank));
    }
    assert!(!decoder.is_blank(b" 1"));
}

#[test]
fn a_failed_line_leaves_nothing_behind() {
    let mut decoder = Decoder::new(&source(Format::Json, many(&["/a", "/b"]), None)).unwrap();
    assert!(decoder.decode(br#"{"a":"x","b":[]}"#, None).is_err());
    assert_eq!(
        decoder.decode(br#"{"b":2}"#, None).unwrap().key,
        Some(&b"[null,2]"[..])
    );
}

#[test]
fn records_beyond_the_limit_are_refused() {
    let mut decoder = Decoder::new(&source(csv(None), one("/a"), None)).unwrap();
    let columns = decoder.header(b"a").unwrap();
    let row = "x".repeat(MAX_RECORD_BYTES / 2);
    assert_eq!(
        decoder
            .decode(row.as_bytes(), Some(&columns))
            .unwrap_err()
            .to_string(),
        "key and value are longer than 64 MiB together"
    );
}

#[test]
fn csv_rows_become_objects_of_strings() {
    let source = source(
        csv(Some("NA")),
        one("/origin"),
        Some(("/t", TimeFormat::Seconds)),
    );
    let mut decoder = Decoder::new(&source).unwrap();
    let columns = decoder
        .header("t,origin,\"na\"\"mé\n\"".as_bytes())
        .unwrap();
    assert_eq!(columns.names(), ["t", "origin", "na\"mé\n"]);
    let decoded = decoder
        .decode("1.5,JFK,\"a \"\"b\"\",\n\\\"".as_bytes(), Some(&columns))
        .unwrap();
    assert_eq!(
        std::str::from_utf8(decoded.value).unwrap(),
        r#"{"t":"1.5","origin":"JFK","na\"mé\n":"a \"b\",\n\\"}"#
    );
    assert_eq!((decoded.key, decoded.time), (Some(&b"JFK"[..]), 1_500));

    let decoded = decoder.decode(b"0,NA,\"NA\"", Some(&columns)).unwrap();
    assert_eq!(
        std::str::from_utf8(decoded.value).unwrap(),
        r#"{"t":"0","origin":null,"na\"mé\n":null}"#
    );
    assert_eq!((decoded.key, decoded.time), (None, 0));
    assert_eq!(
        decoder.decode(b"0,,", Some(&columns)).unwrap().key,
        Some(&b""[..])
    );

    for (row, message) in [
        ("0,JFK", "2 fields where the header has 3"),
        ("0", "1 field where the header has 3"),
        ("0,JFK,x,y", "4 fields where the header has 3"),
        ("NA,JFK,x", "time `/t` is missing or null"),
        (",JFK,x", "time `/t`: `` is not a number of seconds"),
        (
            "0,\"JFK\"x,y",
            "text after the closing quote of field 2 at byte 8",
        ),
        ("0,\"JFK,y", "field 2 has no closing quote"),
    ] {
        assert_eq!(
            decoder
                .decode(row.as_bytes(), Some(&columns))
                .unwrap_err()
                .to_string(),
            message
        );
    }
    assert_eq!(
        decoder
            .decode(b"0,JFK,\xff", Some(&columns))
            .unwrap_err()
            .to_string(),
        "not valid UTF-8 at byte 7"
    );
}

#[test]
fn csv_keys_of_several_columns() {
    let mut decoder =
        Decoder::new(&source(csv(Some("")), many(&["/b", "/a~1x", "/b"]), None)).unwrap();
    let columns = decoder.header(b"a/x,b").unwrap();
    let decoded = decoder.decode(b",\"q\"\"\"", Some(&columns)).unwrap();
    assert_eq!(
        std::str::from_utf8(decoded.key.unwrap()).unwrap(),
        r#"["q\"",null,"q\""]"#
    );
}

#[test]
fn headers_that_do_not_fit() {
    let decoder = Decoder::new(&source(csv(None), one("/orign"), None)).unwrap();
    for (header, message) in [
        (
            &b"origin,time"[..],
            "no column `orign`; the header has origin, time",
        ),
        (b"orign,a,b,a", "two columns are called `a`"),
        (b"orign,,b", "column 2 has no name in the header"),
        (
            b"orign,\"b",
            "the header is damaged: field 2 has no closing quote",
        ),
        (b"orign,\xff", "the header is not valid UTF-8 at byte 7"),
    ] {
        assert_eq!(
            decoder.header(header),
            Err(Error::Header(message.to_owned()))
        );
    }
}

#[test]
fn settings_that_do_not_go_together() {
    let time = Some(("/t", TimeFormat::Millis));
    let bad_csv = |delimiter, quote| Format::Csv {
        delimiter,
        quote: Some(quote),
        null: None,
        header: Header::First,
    };
    let too_many: Vec<String> = (0..65).map(|i| format!("/{i}")).collect();
    for (source, part) in [
        (
            source(Format::Raw, one("/k"), None),
            "raw lines have no fields",
        ),
        (source(Format::Raw, None, time), "raw lines have no fields"),
        (
            source(csv(None), one("/a/b"), None),
            "`/a/b` names no CSV column",
        ),
        (source(csv(None), one(""), None), "`` names no CSV column"),
        (source(Format::Json, one("k"), None), "must begin with `/`"),
        (
            source(bad_csv(b'"', b'"'), None, None),
            "delimiter and quote must differ",
        ),
        (
            source(bad_csv(b'\n', b'"'), None, None),
            "the delimiter must be",
        ),
        (source(bad_csv(b',', 0xff), None, None), "the quote must be"),
        (
            source(Format::Json, Some(KeySelector::Pointers(too_many)), None),
            "at most 64",
        ),
    ] {
        let error = Decoder::new(&source).unwrap_err();
        assert_eq!(error.code(), "W0604");
        let error = error.to_string();
        assert!(
            error.contains(part) && error.contains("`flights`"),
            "{error}"
        );
    }
}

proptest! {
    /// The value of a written row parses back to its fields.
    #[test]
    fn csv_values_hold_the_fields(rows in prop::collection::vec(prop::collection::vec(("\\PC{0,4}|[,\"\n\r\u{0}\\\\]{0,3}|NA", any::<bool>()), 3), 1..4)) {
        let mut decoder = Decoder::new(&source(csv(Some("NA")), one("/b"), None)).unwrap();
        let columns = decoder.header(b"a,b,c").unwrap();
        for row in rows {
            let line = write_row(&row, ',', '"');
            let expected: Vec<Option<&str>> = row.iter().map(|(field, _)| (field != "NA").then_some(&field[..])).collect();
            let decoded = decoder.decode(line.as_bytes(), Some(&columns)).unwrap();
            let value: serde_json::Value = serde_json::from_slice(decoded.value).unwrap();
            prop_assert_eq!(value, serde_json::json!({"a": expected[0], "b": expected[1], "c": expected[2]}));
            prop_assert_eq!(decoded.key, expected[1].map(str::as_bytes));
        }
    }
}
