//! Rows of CSV from JSON objects.
//!
//! The rules, RFC 4180: a field is quoted if it holds the delimiter, a quote or a line end, or would be taken for null; a quote inside
//! is doubled. Rows end with LF. A string is written as its text, a number or boolean as it stands, an array or object as its
//! JSON text, null as the null token.

use std::ops::Range;

use super::Error;
use crate::batch::Batch;
use crate::decode::json::{self, Scalar};
use crate::job::model::CsvOutput;

/// Writes rows; see the module.
pub(super) struct Rows {
    output: CsvOutput,
    pointers: Vec<json::Pointer>,
    found: Vec<Option<Range<usize>>>,
    /// Of the pointers of one walk.
    some: Vec<Option<Range<usize>>>,
    text: Vec<u8>,
}

impl Rows {
    pub(super) fn new(output: CsvOutput) -> Rows {
        let pointer = |name: &String| {
            let name = name.replace('~', "~0").replace('/', "~1");
            json::Pointer::parse(&format!("/{name}")).expect("escaped as pointers are")
        };
        Rows {
            pointers: output.columns.iter().map(pointer).collect(),
            output,
            found: Vec::new(),
            some: Vec::new(),
            text: Vec::new(),
        }
    }

    /// Appends the row that names the columns, if there is to be one, with its line end.
    pub(super) fn header(&self, out: &mut Vec<u8>) {
        if !self.output.header {
            return;
        }
        for (index, name) in self.output.columns.iter().enumerate() {
            self.delimit(index, out);
            self.field(name.as_bytes(), out)
                .expect("names that cannot be written are refused with the job");
        }
        out.push(b'\n');
    }

    /// Appends the row of record `row`, without its line end.
    pub(super) fn row(
        &mut self,
        sink: &str,
        batch: &Batch,
        row: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        self.try_row(batch.values.get(row), out)
            .map_err(|what| Error::Value {
                sink: sink.to_owned(),
                origin: batch.origins[row],
                what,
            })
    }

    fn try_row(&mut self, value: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), String> {
        const REMEDY: &str = "correct it in the operator before";
        let value = value.ok_or_else(|| {
            format!("a record without a value (a deletion) cannot be written as a row; {REMEDY}")
        })?;
        let text = std::str::from_utf8(value)
            .map_err(|_| format!("a value is not valid UTF-8; {REMEDY}"))?;
        self.found.clear();
        for pointers in self.pointers.chunks(json::MAX_POINTERS) {
            json::walk(text, pointers, &mut self.some)
                .map_err(|fault| format!("a value is {fault}; {REMEDY}"))?;
            self.found.append(&mut self.some);
        }
        if !text.trim_start().starts_with('{') {
            return Err(format!(
                "a value is no JSON object, so it has no columns; {REMEDY}"
            ));
        }
        for index in 0..self.found.len() {
            self.delimit(index, out);
            let found = &self.found[index];
            let name = &self.output.columns[index];
            if found.is_none() && !self.output.missing_is_null {
                return Err(format!(
                    "a value has no `{name}`, which is a column; {REMEDY}, or write an empty field with `csv: {{missing: empty}}`"
                ));
            }
            self.text.clear();
            let written = match json::scalar(text, found) {
                None => {
                    self.null(out);
                    Ok(())
                }
                Some(Scalar::String(inner)) => {
                    json::unescape(inner.as_bytes(), &mut self.text).map_err(
                        |json::LoneSurrogate| {
                            format!("`{name}` has a `\\u` escape for half a character; {REMEDY}")
                        },
                    )?;
                    self.field(&self.text, out)
                }
                Some(Scalar::Other(text)) => self.field(text.as_bytes(), out),
                Some(Scalar::Compound) => {
                    let range = found.clone().unwrap_or_default();
                    self.field(&text.as_bytes()[range], out)
                }
            };
            written.map_err(|what| {
                format!("`{name}` holds {what}, and there are no quotes (`quote: none`) to put around it; {REMEDY}")
            })?;
        }
        Ok(())
    }

    fn delimit(&self, index: usize, out: &mut Vec<u8>) {
        if index > 0 {
            out.push(self.output.delimiter);
        }
    }

    fn null(&self, out: &mut Vec<u8>) {
        match self.output.quote {
            // An empty line is no row.
            Some(quote) if self.output.null.is_empty() && self.output.columns.len() == 1 => {
                out.extend([quote, quote]);
            }
            _ => out.extend_from_slice(self.output.null.as_bytes()),
        }
    }

    fn field(&self, text: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
        let delimiter = self.output.delimiter;
        let Some(quote) = self.output.quote else {
            if memchr::memchr(delimiter, text).is_some() {
                return Err("the delimiter");
            }
            if memchr::memchr2(b'\n', b'\r', text).is_some() {
                return Err("a line end");
            }
            out.extend_from_slice(text);
            return Ok(());
        };
        let special = |byte: &u8| [delimiter, quote, b'\n', b'\r'].contains(byte);
        if !text.iter().any(special) && text != self.output.null.as_bytes() && !text.is_empty() {
            out.extend_from_slice(text);
            return Ok(());
        }
        out.push(quote);
        for byte in text {
            if *byte == quote {
                out.push(quote);
            }
            out.push(*byte);
        }
        out.push(quote);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::batch;
    use super::*;
    use crate::batch::Origin;

    fn output(columns: &[&str]) -> CsvOutput {
        CsvOutput {
            columns: columns.iter().map(|&name| name.to_owned()).collect(),
            delimiter: b',',
            quote: Some(b'"'),
            null: String::new(),
            header: true,
            missing_is_null: false,
        }
    }

    fn row(output: &CsvOutput, value: &str) -> Result<String, String> {
        let mut out = Vec::new();
        let mut rows = Rows::new(output.clone());
        rows.try_row(Some(value.as_bytes()), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn rows_by_example() {
        let ab = output(&["a", "b/~\"c"]);
        let mut header = Vec::new();
        Rows::new(ab.clone()).header(&mut header);
        assert_eq!(header, b"a,\"b/~\"\"c\"\n");
        for (value, expected) in [
            (r#"{"b/~\"c": 1.50, "a": "x", "more": [1]}"#, "x,1.50"),
            (r#" {"a": null, "b/~\"c": true} "#, ",true"),
            (r#"{"a": "", "b/~\"c": "x,y"}"#, "\"\",\"x,y\""),
            (r#"{"a": "q\"q", "b/~\"c": "l\nl"}"#, "\"q\"\"q\",\"l\nl\""),
            (r#"{"a": [1, "z"], "b/~\"c": {}}"#, "\"[1, \"\"z\"\"]\",{}"),
            (
                r#"{"a": "é", "b/~\"c": 12345678901234567890}"#,
                "é,12345678901234567890",
            ),
        ] {
            assert_eq!(row(&ab, value).unwrap(), expected, "{value}");
        }
        let nulls = CsvOutput {
            null: "NA".to_owned(),
            delimiter: b';',
            missing_is_null: true,
            ..output(&["a", "b", "c"])
        };
        assert_eq!(
            row(&nulls, r#"{"a": "NA", "b": null}"#).unwrap(),
            "\"NA\";NA;NA"
        );
        let one = output(&["a"]);
        assert_eq!(
            row(&one, r#"{"a": null}"#).unwrap(),
            "\"\"",
            "an empty line is no row"
        );
    }

    #[test]
    fn what_is_no_row_is_refused_with_the_place_and_the_remedy() {
        let mut rows = Rows::new(output(&["a"]));
        for (value, what) in [
            (None, "without a value"),
            (Some(&b"{"[..]), "not valid JSON"),
            (Some(b"\"\xff\""), "not valid UTF-8"),
            (Some(b"[1]"), "no JSON object"),
            (Some(b"{\"b\": 1}"), "has no `a`, which is a column"),
            (Some(b"{\"a\": \"\\ud800\"}"), "half a character"),
        ] {
            let batch = batch(&[None, value]);
            let error = rows.row("out", &batch, 1, &mut Vec::new()).unwrap_err();
            assert_eq!(error.code(), "W0702");
            let text = error.to_string();
            assert!(
                text.contains(what) && text.contains("operator before"),
                "{text}"
            );
            let Error::Value { origin, .. } = error else {
                panic!("{error}")
            };
            assert_eq!(origin, Origin::new(2, 2));
        }
        let bare = CsvOutput {
            quote: None,
            ..output(&["a"])
        };
        for value in [r#"{"a": "x,y"}"#, r#"{"a": "x\ny"}"#] {
            let what = row(&bare, value).unwrap_err();
            assert!(what.contains("`quote: none`"), "{what}");
        }
        assert_eq!(row(&bare, r#"{"a": "say \"x\""}"#).unwrap(), "say \"x\"");
    }

    #[test]
    fn more_columns_than_one_walk_takes() {
        let names: Vec<String> = (0..150).map(|i| format!("c{i}")).collect();
        let many = output(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let members: Vec<String> = (0..150).rev().map(|i| format!("\"c{i}\": {i}")).collect();
        let expected: Vec<String> = (0..150).map(|i| i.to_string()).collect();
        let value = format!("{{{}}}", members.join(","));
        assert_eq!(row(&many, &value).unwrap(), expected.join(","));
    }

    proptest! {
        /// `csv-core` reads what was written.
        #[test]
        fn is_read_back(fields in prop::collection::vec("[a,\"\n\r é]{0,6}", 1..5)) {
            let names: Vec<String> = (0..fields.len()).map(|i| format!("c{i}")).collect();
            let output = output(&names.iter().map(String::as_str).collect::<Vec<_>>());
            let object: serde_json::Map<String, serde_json::Value> =
                names.into_iter().zip(fields.iter().map(|field| field.as_str().into())).collect();
            let written = row(&output, &serde_json::Value::from(object).to_string()).unwrap();
            let (mut text, mut ends) = ([0; 256], [0; 16]);
            let mut reader = csv_core::Reader::new();
            let (result, _, _, count) = reader.read_record(format!("{written}\n").as_bytes(), &mut text, &mut ends);
            prop_assert_eq!(result, csv_core::ReadRecordResult::Record);
            let mut start = 0;
            let read: Vec<String> = ends[..count].iter().map(|&end| {
                let field = String::from_utf8(text[start..end].to_vec()).unwrap();
                start = end;
                field
            }).collect();
            prop_assert_eq!(read, fields);
        }
    }
}
