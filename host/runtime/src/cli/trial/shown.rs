//! What `weir try` prints: a JSON object a line.

use std::fmt::Write;

use serde::de::IgnoredAny;

use crate::decode::dead_letter::base64;
use crate::headers::Header;

/// One line in the making. Fields come out in the order in which they are added.
#[derive(Debug)]
pub(super) struct Shown(String);

impl Shown {
    /// A line of this kind.
    pub(super) fn new(kind: &str) -> Shown {
        Shown(format!("{{\"kind\":{}", quoted(kind)))
    }

    fn put(mut self, name: &str, json: &str) -> Shown {
        write!(self.0, ",{}:{json}", quoted(name)).expect("a String takes it");
        self
    }

    /// A text.
    pub(super) fn text(self, name: &str, text: &str) -> Shown {
        self.put(name, &quoted(text))
    }

    /// A number.
    pub(super) fn number(self, name: &str, number: u64) -> Shown {
        self.put(name, &number.to_string())
    }

    /// A time, left out if it is none. `end` is what is due when all input has ended.
    pub(super) fn time(self, name: &str, millis: i64) -> Shown {
        match millis {
            i64::MIN => self,
            i64::MAX => self.text(name, "end"),
            millis => self.put(name, &millis.to_string()),
        }
    }

    /// Bytes: as they are if they are a JSON object or array in one line, else as text, else as base64 under a name that says so.
    pub(super) fn bytes(self, name: &str, bytes: Option<&[u8]>) -> Shown {
        let Some(bytes) = bytes else {
            return self.put(name, "null");
        };
        match std::str::from_utf8(bytes) {
            Ok(text) if is_compound(text) => self.put(name, text),
            Ok(text) => self.text(name, text),
            Err(_) => self.text(&format!("{name}_base64"), &base64(bytes)),
        }
    }

    /// Headers, left out if there are none: as text, else all of them as base64 under a name that says so.
    pub(super) fn headers<'a>(self, headers: impl Iterator<Item = Header<'a>>) -> Shown {
        let headers: Vec<_> = headers.collect();
        if headers.is_empty() {
            return self;
        }
        fn text(bytes: &[u8]) -> Option<String> {
            std::str::from_utf8(bytes).ok().map(str::to_owned)
        }
        let as_text = |(name, contents): &Header<'_>| {
            let contents = match contents {
                Some(contents) => Some(text(contents)?),
                None => None,
            };
            Some((text(name)?, contents))
        };
        let texts: Option<Vec<_>> = headers.iter().map(as_text).collect();
        match texts {
            Some(texts) => self.put("headers", &serde_json::json!(texts).to_string()),
            None => {
                let encoded: Vec<_> = headers
                    .iter()
                    .map(|(name, contents)| (base64(name), contents.map(base64)))
                    .collect();
                self.put("headers_base64", &serde_json::json!(encoded).to_string())
            }
        }
    }

    /// Bytes of state in an encoding of the SDK's; others as [`Shown::bytes`].
    pub(super) fn encoded(self, name: &str, encoding: &str, bytes: &[u8]) -> Shown {
        let number = match (encoding, bytes.len()) {
            ("u32-le", 4) => array(bytes).map(|b| u32::from_le_bytes(b).to_string()),
            ("i32-le", 4) => array(bytes).map(|b| i32::from_le_bytes(b).to_string()),
            ("u64-le", 8) => array(bytes).map(|b| u64::from_le_bytes(b).to_string()),
            ("i64-le", 8) => array(bytes).map(|b| i64::from_le_bytes(b).to_string()),
            ("u64-be", 8) => array(bytes).map(|b| u64::from_be_bytes(b).to_string()),
            // Its order is that of the numbers, so the sign's bit is turned over.
            ("i64-ordered-be", 8) => {
                array(bytes).map(|b| (i64::from_be_bytes(b) ^ i64::MIN).to_string())
            }
            ("f64-le", 8) => array(bytes)
                .map(f64::from_le_bytes)
                .filter(|number| number.is_finite())
                .map(|number| number.to_string()),
            ("json", _) => std::str::from_utf8(bytes)
                .ok()
                .filter(|text| is_json(text))
                .map(str::to_owned),
            _ => None,
        };
        match number {
            Some(number) => self.put(name, &number),
            None => self.bytes(name, Some(bytes)),
        }
    }

    /// The line, without its end.
    pub(super) fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

fn array<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn is_json(text: &str) -> bool {
    !text.contains(['\n', '\r']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

fn is_compound(text: &str) -> bool {
    text.starts_with(['{', '[']) && is_json(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_json_and_values_stay_readable() {
        let line = Shown::new("output")
            .number("line", 3)
            .text("output", "a \"b\"")
            .bytes("key", Some(b"7"))
            .bytes("value", Some(br#"{"a": [1]}"#))
            .bytes("other", Some(b"\xff"))
            .bytes("none", None)
            .time("time", i64::MIN)
            .time("until", i64::MAX)
            .finish();
        assert_eq!(
            line,
            r#"{"kind":"output","line":3,"output":"a \"b\"","key":"7","value":{"a": [1]},"other_base64":"/w==","none":null,"until":"end"}"#
        );
        assert!(is_json(&line));
        let broken = Shown::new("x").bytes("value", Some(b"{\n}")).finish();
        assert_eq!(broken, r#"{"kind":"x","value":"{\n}"}"#);
    }

    #[test]
    fn headers_are_shown_if_there_are_any() {
        let shown = |headers: &[Header<'_>]| {
            let line = Shown::new("x").headers(headers.iter().copied()).finish();
            assert!(is_json(&line));
            line
        };
        assert_eq!(shown(&[]), r#"{"kind":"x"}"#);
        assert_eq!(
            shown(&[(b"n", Some(b"{}")), (b"n", None), (b"", Some(b""))]),
            r#"{"kind":"x","headers":[["n","{}"],["n",null],["",""]]}"#
        );
        assert_eq!(
            shown(&[(b"n", Some(b"\xff")), (b"m", None)]),
            r#"{"kind":"x","headers_base64":[["bg==","/w=="],["bQ==",null]]}"#
        );
    }

    #[test]
    fn state_is_shown_by_its_encoding() {
        let shown =
            |encoding: &str, bytes: &[u8]| Shown::new("s").encoded("v", encoding, bytes).finish();
        let value = |json: &str| format!(r#"{{"kind":"s","v":{json}}}"#);
        assert_eq!(shown("u64-le", &7_u64.to_le_bytes()), value("7"));
        assert_eq!(shown("i32-le", &(-7_i32).to_le_bytes()), value("-7"));
        assert_eq!(shown("f64-le", &0.5_f64.to_le_bytes()), value("0.5"));
        assert_eq!(shown("u64-be", &7_u64.to_be_bytes()), value("7"));
        let ordered = (-7_i64 ^ i64::MIN).to_be_bytes();
        assert_eq!(shown("i64-ordered-be", &ordered), value("-7"));
        assert_eq!(shown("json", b"\"x\""), value("\"x\""));
        assert_eq!(shown("utf8", b"x"), value("\"x\""));
        assert_eq!(shown("u64-le", b"x"), value("\"x\""), "not what it says");
    }
}
