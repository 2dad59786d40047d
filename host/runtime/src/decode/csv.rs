//! CSV rows.
//!
//! The rules, RFC 4180 with the usual latitude: a field that begins with the quote character ends at the next single
//! one, a doubled one inside stands for itself, and line ends inside belong to the field; nothing but a delimiter or
//! the row's end may follow the closing one. A quote character elsewhere is data. Blanks are data. Where rows end is
//! decided by the same rules when the stream is cut ([`crate::source`]'s framer).

/// Where a field lies in its row, without its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Whether doubled quotes inside are to be halved.
    pub(crate) doubled: bool,
}

impl Field {
    /// The field's text. `scratch` holds it where it is not part of the row as it stands.
    pub(crate) fn text<'a>(
        self,
        row: &'a str,
        quote: Option<u8>,
        scratch: &'a mut String,
    ) -> &'a str {
        let mut rest = &row[self.start..self.end];
        let Some(quote) = quote.filter(|_| self.doubled) else {
            return rest;
        };
        scratch.clear();
        while let Some(at) = memchr::memchr(quote, rest.as_bytes()) {
            scratch.push_str(&rest[..=at]);
            rest = &rest[at + 2..];
        }
        scratch.push_str(rest);
        scratch
    }
}

/// The fields of a CSV row.
pub(crate) struct Row<'a> {
    pub(crate) row: &'a str,
    pub(crate) fields: &'a [Field],
    pub(crate) quote: Option<u8>,
    pub(crate) null: Option<&'a str>,
}

impl Row<'_> {
    /// Field `index`, `None` if it is the null token.
    pub(crate) fn field<'a>(&'a self, index: usize, scratch: &'a mut String) -> Option<&'a str> {
        let text = self.fields[index].text(self.row, self.quote, scratch);
        (self.null != Some(text)).then_some(text)
    }
}

/// Finds the fields of `row`, which comes without its line end. `delimiter` and `quote` are different ASCII characters; without a
/// quote nothing is quoted.
pub(crate) fn split(
    row: &str,
    delimiter: u8,
    quote: Option<u8>,
    fields: &mut Vec<Field>,
) -> Result<(), String> {
    let bytes = row.as_bytes();
    fields.clear();
    let mut at = 0;
    loop {
        if let Some(quote) = quote.filter(|quote| bytes.get(at) == Some(quote)) {
            let start = at + 1;
            let mut doubled = false;
            at = start;
            let end = loop {
                let Some(found) = memchr::memchr(quote, &bytes[at..]) else {
                    return Err(format!("field {} has no closing quote", fields.len() + 1));
                };
                at += found + 1;
                if bytes.get(at) != Some(&quote) {
                    break at - 1;
                }
                doubled = true;
                at += 1;
            };
            fields.push(Field {
                start,
                end,
                doubled,
            });
            match bytes.get(at) {
                None => return Ok(()),
                Some(&byte) if byte == delimiter => at += 1,
                Some(_) => {
                    return Err(format!(
                        "text after the closing quote of field {} at byte {}",
                        fields.len(),
                        at + 1
                    ));
                }
            }
        } else {
            match memchr::memchr(delimiter, &bytes[at..]) {
                Some(length) => {
                    fields.push(Field {
                        start: at,
                        end: at + length,
                        doubled: false,
                    });
                    at += length + 1;
                }
                None => {
                    fields.push(Field {
                        start: at,
                        end: bytes.len(),
                        doubled: false,
                    });
                    return Ok(());
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fields(row: &str) -> Result<Vec<String>, String> {
        let mut fields = Vec::new();
        split(row, b',', Some(b'"'), &mut fields)?;
        Ok(fields
            .iter()
            .map(|field| field.text(row, Some(b'"'), &mut String::new()).to_owned())
            .collect())
    }

    #[test]
    fn rows() {
        for (row, expected) in [
            ("", &[""][..]),
            (",", &["", ""]),
            ("a,b", &["a", "b"]),
            ("a,", &["a", ""]),
            ("\"a\"", &["a"]),
            ("\"a,b\",c", &["a,b", "c"]),
            ("\"\"", &[""]),
            ("\"\",", &["", ""]),
            ("\"\"\"\"", &["\""]),
            ("\"a\"\"b\"\"\"", &["a\"b\""]),
            ("\"a\nb\",c", &["a\nb", "c"]),
            ("a\"b,c\"", &["a\"b", "c\""]),
            (" \"a\"", &[" \"a\""]),
            ("ä,\"ö\"\"ü\"", &["ä", "ö\"ü"]),
        ] {
            assert_eq!(fields(row).unwrap(), expected, "{row:?}");
        }
    }

    #[test]
    fn without_a_quote_every_character_but_the_delimiter_is_data() {
        let row = "\"a,b\",\"\"\"";
        let mut fields = Vec::new();
        split(row, b',', None, &mut fields).unwrap();
        let texts: Vec<&str> = fields.iter().map(|f| &row[f.start..f.end]).collect();
        assert_eq!(texts, ["\"a", "b\"", "\"\"\""]);
    }

    #[test]
    fn damaged_rows() {
        assert_eq!(fields("a,\"b").unwrap_err(), "field 2 has no closing quote");
        assert_eq!(fields("\"").unwrap_err(), "field 1 has no closing quote");
        assert_eq!(
            fields("\"a\"\"").unwrap_err(),
            "field 1 has no closing quote"
        );
        assert_eq!(
            fields("\"a\"b").unwrap_err(),
            "text after the closing quote of field 1 at byte 4"
        );
        assert_eq!(
            fields("\"a\" ,b").unwrap_err(),
            "text after the closing quote of field 1 at byte 4"
        );
    }

    /// A row as a writer would write it, each field quoted if it must be or by whim.
    pub(crate) fn write_row(fields: &[(String, bool)], delimiter: char, quote: char) -> String {
        let mut row = String::new();
        for (i, (field, quoted)) in fields.iter().enumerate() {
            if i > 0 {
                row.push(delimiter);
            }
            if *quoted || fields.len() == 1 || field.contains([delimiter, quote, '\n', '\r']) {
                row.push(quote);
                row.push_str(&field.replace(quote, &format!("{quote}{quote}")));
                row.push(quote);
            } else {
                row.push_str(field);
            }
        }
        row
    }

    proptest! {
        #[test]
        fn reads_what_was_written(written in prop::collection::vec(("[a,;\"'\n\r é]{0,6}", any::<bool>()), 1..5), semicolon in any::<bool>(), single in any::<bool>()) {
            let (delimiter, quote) = (if semicolon { ';' } else { ',' }, if single { '\'' } else { '"' });
            let row = write_row(&written, delimiter, quote);
            let mut fields = Vec::new();
            split(&row, delimiter as u8, Some(quote as u8), &mut fields).unwrap();
            let read: Vec<String> = fields.iter().map(|f| f.text(&row, Some(quote as u8), &mut String::new()).to_owned()).collect();
            let written: Vec<String> = written.into_iter().map(|(field, _)| field).collect();
            prop_assert_eq!(read, written);
        }

        /// Whatever is not refused reads as `csv-core` reads it.
        #[test]
        fn agrees_with_csv_core(row in "[a,\"é]{1,12}") {
            if let Ok(read) = fields(&row) {
                let (mut output, mut ends) = ([0; 64], [0; 64]);
                let mut reader = csv_core::Reader::new();
                let (result, read_bytes, _, _) = reader.read_record(format!("{row}\n").as_bytes(), &mut output, &mut ends);
                prop_assert_eq!(result, csv_core::ReadRecordResult::Record);
                prop_assert_eq!(read_bytes, row.len() + 1);
                let mut start = 0;
                let expected: Vec<String> = ends[..read.len()].iter().map(|&end| {
                    let field = String::from_utf8(output[start..end].to_vec()).unwrap();
                    start = end;
                    field
                }).collect();
                prop_assert_eq!(read, expected);
            }
        }
    }
}
