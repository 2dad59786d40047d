//! What stands on standard input: records, watermarks and the clock, a line each.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::de::IgnoredAny;

use crate::batch::END_OF_TIME;
use crate::decode::json::{self, Pointer, Scalar};
use crate::headers::Header;
use crate::job::suggest;

/// Fields of a line, in the order of [`Reader::envelope`]'s pointers.
const FIELDS: [&str; 8] = [
    "key",
    "value",
    "time",
    "headers",
    "input",
    "watermark",
    "processing_time",
    "kind",
];

/// Further fields of dead letters and of what `weir try` itself prints, so that both can be read: they say nothing of the record.
const PASSED_OVER: [&str; 6] = ["operator", "component", "record", "error", "line", "output"];

/// A record as it was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// The input it is for, if it says so.
    pub(super) input: Option<String>,
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
    /// Its timestamp, if it has one.
    pub(super) time: Option<i64>,
    /// Its headers in order: name and contents.
    pub(super) headers: Vec<(String, Option<String>)>,
}

impl Record {
    pub(super) fn headers(&self) -> impl Iterator<Item = Header<'_>> {
        self.headers.iter().map(|(name, contents)| {
            let contents = contents.as_ref().map(String::as_bytes);
            (name.as_bytes(), contents)
        })
    }
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A record.
    Record(Record),
    /// Event time advances to this.
    Watermark(i64),
    /// The clock stands at this from now on.
    ProcessingTime(i64),
    /// There is nothing to do.
    Nothing,
}

/// How lines are read.
#[derive(Debug)]
pub(super) struct Reader {
    /// Whether every line is a value.
    plain: bool,
    /// What is the key of a value.
    key: Option<Pointer>,
    envelope: Vec<Pointer>,
}

impl Reader {
    /// With the options of the verb. `key` is a JSON pointer.
    ///
    /// # Errors
    /// `key` is none.
    pub(super) fn new(plain: bool, key: Option<&str>) -> Result<Reader, String> {
        let envelope = FIELDS.map(|field| {
            Pointer::parse(&format!("/{field}")).expect("a slash and a name are a pointer")
        });
        Ok(Reader {
            plain,
            key: key.map(Pointer::parse).transpose()?,
            envelope: envelope.into(),
        })
    }

    /// Reads a line, without its end.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(&self, line: &[u8]) -> Result<Line, String> {
        if let Some(pointer) = &self.key {
            return self.keyed(line, pointer);
        }
        let begins = line.iter().find(|byte| !byte.is_ascii_whitespace());
        match begins {
            Some(b'{') if !self.plain => envelope(text(line)?, &self.envelope),
            None if !self.plain => Ok(Line::Nothing),
            _ => Ok(Line::Record(Record {
                value: Some(line.to_vec()),
                ..Record::default()
            })),
        }
    }

    /// A JSON value that holds its key, as a source with `key:` reads it.
    fn keyed(&self, line: &[u8], pointer: &Pointer) -> Result<Line, String> {
        let line_text = text(line)?;
        if line_text.trim().is_empty() {
            return Ok(Line::Nothing);
        }
        let mut found = Vec::new();
        json::walk(line_text, std::slice::from_ref(pointer), &mut found)
            .map_err(|fault| format!("not JSON: {fault}"))?;
        let key = bytes(line_text, &found[0]).map_err(|what| format!("the key {what}"))?;
        Ok(Line::Record(Record {
            key,
            value: Some(line.to_vec()),
            ..Record::default()
        }))
    }
}

fn text(line: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(line).map_err(|_| "not UTF-8".to_owned())
}

fn envelope(line: &str, pointers: &[Pointer]) -> Result<Line, String> {
    let mut found = Vec::new();
    json::walk(line, pointers, &mut found).map_err(|fault| format!("not JSON: {fault}"))?;
    let names: BTreeMap<String, IgnoredAny> =
        serde_json::from_str(line).map_err(|error| format!("not JSON: {error}"))?;
    for name in names.keys() {
        if !FIELDS.contains(&name.as_str()) && !PASSED_OVER.contains(&name.as_str()) {
            let shown = name.escape_debug();
            return Err(match suggest::nearest(name, FIELDS) {
                Some(meant) => format!("unknown field `{shown}`; did you mean `{meant}`?"),
                None => format!("unknown field `{shown}`"),
            });
        }
    }
    let [
        key,
        value,
        time,
        headers,
        input,
        watermark,
        processing_time,
        kind,
    ] = &found[..]
    else {
        unreachable!("a place a pointer")
    };
    let named = |field, place| bytes(line, place).map_err(|what| format!("`{field}` {what}"));
    let whole = |field, place| -> Result<Option<i64>, String> {
        match json::scalar(line, place) {
            None => Ok(None),
            Some(Scalar::Other(number)) => number
                .parse()
                .map(Some)
                .map_err(|_| format!("`{field}` is not whole milliseconds")),
            // As `weir try` prints the time of what waits for the end of input.
            Some(Scalar::String("end")) => Ok(Some(END_OF_TIME)),
            Some(_) => Err(format!("`{field}` is not a number")),
        }
    };
    if named("kind", kind)?.is_some_and(|kind| kind != b"output") {
        return Ok(Line::Nothing);
    }
    for (field, place, line_of) in [
        ("watermark", watermark, Line::Watermark as fn(i64) -> Line),
        ("processing_time", processing_time, Line::ProcessingTime),
    ] {
        if let Some(millis) = whole(field, place)? {
            return if names.len() == 1 {
                Ok(line_of(millis))
            } else {
                Err(format!("`{field}` stands alone in its line"))
            };
        }
    }
    if names.is_empty() {
        return Err("an empty object; a record has a `key` or a `value`".to_owned());
    }
    let input = named("input", input)?
        .map(String::from_utf8)
        .transpose()
        .map_err(|_| "`input` is not UTF-8".to_owned())?;
    Ok(Line::Record(Record {
        input,
        key: named("key", key)?,
        value: named("value", value)?,
        time: whole("time", time)?,
        headers: headers_in(line, headers)?,
    }))
}

/// The headers that stand at a place; none for null and for what is not there.
fn headers_in(
    line: &str,
    place: &Option<Range<usize>>,
) -> Result<Vec<(String, Option<String>)>, String> {
    let Some(place) = place else {
        return Ok(Vec::new());
    };
    let headers: Result<Option<_>, _> = serde_json::from_str(&line[place.clone()]);
    headers
        .map(Option::unwrap_or_default)
        .map_err(|error| format!("`headers` is not a list of [name, contents]: {error}"))
}

/// A string's bytes, or the text of anything else; `None` for null and for what is not there.
fn bytes(line: &str, place: &Option<Range<usize>>) -> Result<Option<Vec<u8>>, &'static str> {
    match (json::scalar(line, place), place) {
        (None, _) | (_, None) => Ok(None),
        (Some(Scalar::String(inner)), _) => {
            let mut out = Vec::with_capacity(inner.len());
            json::unescape(inner.as_bytes(), &mut out)
                .map_err(|_| "has half a character (a lone surrogate)")?;
            Ok(Some(out))
        }
        (Some(Scalar::Other(text)), _) => Ok(Some(text.as_bytes().to_vec())),
        (Some(Scalar::Compound), Some(place)) => Ok(Some(line.as_bytes()[place.clone()].to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Line, String> {
        Reader::new(false, None).unwrap().read(line.as_bytes())
    }

    fn record(key: Option<&str>, value: Option<&str>) -> Record {
        let owned = |text: &str| text.as_bytes().to_vec();
        Record {
            key: key.map(owned),
            value: value.map(owned),
            ..Record::default()
        }
    }

    #[test]
    fn records_carry_text_or_json_as_it_stands() {
        let expected = Record {
            input: Some("left".into()),
            time: Some(-5),
            ..record(Some("a\n"), Some(r#"{"b" : [1,2.0]}"#))
        };
        let line = r#"{"key":"a\n", "value":{"b" : [1,2.0]}, "time":-5, "input":"left"}"#;
        assert_eq!(read(line), Ok(Line::Record(expected)));
        let number = Ok(Line::Record(record(Some("1.0"), None)));
        assert_eq!(read(r#"{"key":1.0,"value":null}"#), number);
        let plain = Ok(Line::Record(record(None, Some("to be"))));
        assert_eq!(read("to be"), plain);
        assert_eq!(read("  "), Ok(Line::Nothing));
    }

    #[test]
    fn headers_are_pairs_in_order() {
        let headers = |line: &str| match read(line) {
            Ok(Line::Record(record)) => Ok(record.headers),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error),
        };
        let line = r#"{"value":"a","headers":[["n","\u00e9"],["n",null],["",""]]}"#;
        let header = |name: &str, contents: Option<&str>| (name.into(), contents.map(Into::into));
        let expected = vec![
            header("n", Some("é")),
            header("n", None),
            header("", Some("")),
        ];
        assert_eq!(headers(line), Ok(expected));
        for none in ["[]", "null"] {
            let line = format!(r#"{{"value":"a","headers":{none}}}"#);
            assert_eq!(headers(&line), Ok(Vec::new()));
        }
        for bad in [
            r#"{"n":"1"}"#,
            r#"[["n"]]"#,
            r#"[["n",1]]"#,
            r#"[[null,"1"]]"#,
            "1",
            r#""n""#,
        ] {
            let error = headers(&format!(r#"{{"value":"a","headers":{bad}}}"#)).expect_err(bad);
            assert!(
                error.starts_with("`headers` is not a list of [name, contents]"),
                "{error}"
            );
        }
    }

    #[test]
    fn time_is_moved_by_lines_of_its_own() {
        assert_eq!(read(r#"{"watermark":7}"#), Ok(Line::Watermark(7)));
        let clock = Ok(Line::ProcessingTime(9));
        assert_eq!(read(r#"{"processing_time":9}"#), clock);
    }

    #[test]
    fn what_try_prints_and_dead_letters_are_read_again() {
        let output = r#"{"kind":"output","line":3,"output":"words","key":"a","value":"b"}"#;
        let expected = Ok(Line::Record(record(Some("a"), Some("b"))));
        assert_eq!(read(output), expected);
        let letter = r#"{"operator":"o","component":"c","record":"f line 1","error":"e","key":"a","value":"b"}"#;
        assert_eq!(read(letter), expected);
        let last = read(r#"{"kind":"output","output":"o","key":"a","value":"b","time":"end"}"#);
        let expected = Record {
            time: Some(i64::MAX),
            ..record(Some("a"), Some("b"))
        };
        assert_eq!(last, Ok(Line::Record(expected)));
        let state = r#"{"kind":"state","key":"a","value":1}"#;
        assert_eq!(read(state), Ok(Line::Nothing));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (line, words) in [
            (r#"{"valu":1}"#, "did you mean `value`?"),
            (r#"{"customer":"ada"}"#, "unknown field `customer`"),
            ("{", "not JSON"),
            ("{}", "empty object"),
            (r#"{"watermark":1,"key":"a"}"#, "stands alone"),
            (r#"{"time":1.5,"value":"a"}"#, "whole milliseconds"),
            (r#"{"time":"1","value":"a"}"#, "not a number"),
            (r#"{"key":"\ud800"}"#, "lone surrogate"),
        ] {
            let error = read(line).expect_err(line);
            assert!(error.contains(words), "{line}: {error}");
        }
    }

    #[test]
    fn plain_lines_are_values_and_may_hold_their_key() {
        let line = r#"{"customer":"ada","amount":3}"#;
        let plain = Reader::new(true, None).unwrap().read(line.as_bytes());
        assert_eq!(plain, Ok(Line::Record(record(None, Some(line)))));
        let keyed = Reader::new(false, Some("/customer")).unwrap();
        let expected = Ok(Line::Record(record(Some("ada"), Some(line))));
        assert_eq!(keyed.read(line.as_bytes()), expected);
        let without = keyed.read(br#"{"amount":3}"#);
        assert_eq!(
            without,
            Ok(Line::Record(record(None, Some(r#"{"amount":3}"#))))
        );
        assert!(keyed.read(b"x").is_err());
        assert!(Reader::new(false, Some("customer")).is_err());
    }
}
