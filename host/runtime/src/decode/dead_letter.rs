//! Dead letters: input that could not be decoded and records that an operator failed on, with what is needed to find, mend and replay
//! them.

use serde::Serialize;

/// Bytes of the offending input that a dead letter carries; what is longer is cut.
pub(crate) const MAX_VALUE_BYTES: usize = 1024 * 1024;

/// Where a piece of input stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot<'a> {
    /// Id of the source.
    pub(crate) source: &'a str,
    /// Path of the file, or `stdin`.
    pub(crate) file: &'a str,
    /// Line it begins on, from 1.
    pub(crate) line: u64,
    /// Byte of the decompressed input that it begins at, from 0.
    pub(crate) offset: u64,
}

#[derive(Serialize)]
struct DeadLetter<'a> {
    source: &'a str,
    file: &'a str,
    line: u64,
    offset: u64,
    error: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
    /// Present where the value was cut.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

/// A record or timer that an operator failed on.
#[derive(Clone, Debug)]
pub(crate) struct Operator<'a> {
    /// Id of the operator.
    pub(crate) operator: &'a str,
    /// SHA-256 of its component.
    pub(crate) component: &'a str,
    /// Where the record came from, or which timer it was.
    pub(crate) record: Option<&'a str>,
    /// What went wrong, with the guest's message.
    pub(crate) error: String,
    /// The record's key.
    pub(crate) key: Option<&'a [u8]>,
    /// The record's value.
    pub(crate) value: Option<&'a [u8]>,
    /// The record's timestamp.
    pub(crate) time: Option<i64>,
}

impl Operator<'_> {
    /// One JSON object without a line end. Bytes that are no text stand as `key_base64` and `value_base64`; null ones are left out.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let mut letter = serde_json::Map::new();
        let mut put = |name: &str, value: serde_json::Value| letter.insert(name.to_owned(), value);
        put("operator", self.operator.into());
        put("component", self.component.into());
        if let Some(record) = self.record {
            put("record", record.into());
        }
        put("error", self.error.as_str().into());
        for (name, bytes) in [("key", self.key), ("value", self.value)] {
            let Some(bytes) = bytes else { continue };
            match std::str::from_utf8(bytes) {
                Ok(text) => put(name, text.into()),
                Err(_) => put(&format!("{name}_base64"), base64(bytes).into()),
            };
        }
        if let Some(time) = self.time {
            put("time", time.into());
        }
        serde_json::Value::Object(letter).to_string().into_bytes()
    }
}

/// Writes a dead letter to `out`, one JSON object without a line end: `value` as `value` if it is UTF-8, else as
/// `value_base64`.
pub(crate) fn write(
    spot: Spot<'_>,
    error: &str,
    value: &[u8],
    already_cut: bool,
    out: &mut Vec<u8>,
) {
    let mut kept = &value[..value.len().min(MAX_VALUE_BYTES)];
    let cut = already_cut || kept.len() < value.len();
    let mut text = std::str::from_utf8(kept);
    if let Err(error) = text
        && cut
        && error.error_len().is_none()
    {
        // Only the cut made it invalid: it went through a character.
        kept = &kept[..error.valid_up_to()];
        text = std::str::from_utf8(kept);
    }
    let letter = DeadLetter {
        source: spot.source,
        file: spot.file,
        line: spot.line,
        offset: spot.offset,
        error,
        value: text.ok(),
        value_base64: text.is_err().then(|| base64(kept)),
        cut,
    };
    out.clear();
    serde_json::to_writer(out, &letter).expect("strings and numbers are written to memory");
}

/// RFC 4648 base64 with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut block = [0; 4];
        block[1..=chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes(block);
        for i in 0..4 {
            if i <= chunk.len() {
                out.push(ALPHABET[(bits >> (18 - 6 * i) & 63) as usize] as char);
            } else {
                out.push('=');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPOT: Spot<'_> = Spot {
        source: "flights",
        file: "/data/a.csv",
        line: 7,
        offset: 123,
    };

    fn letter(value: &[u8], cut: bool) -> serde_json::Value {
        let mut out = b"old".to_vec();
        write(SPOT, "it \"broke\"", value, cut, &mut out);
        assert!(!out.contains(&b'\n'));
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn text_stays_text() {
        assert_eq!(
            letter("{\"a\"\nä".as_bytes(), false),
            serde_json::json!({
                "source": "flights", "file": "/data/a.csv", "line": 7, "offset": 123,
                "error": "it \"broke\"", "value": "{\"a\"\nä",
            })
        );
    }

    #[test]
    fn other_bytes_become_base64() {
        let letter = letter(b"\xff\x00a", false);
        assert_eq!(letter["value_base64"], "/wBh");
        assert!(letter.get("value").is_none() && letter.get("cut").is_none());
    }

    #[test]
    fn long_values_are_cut_between_characters() {
        let mut value = vec![b'a'; MAX_VALUE_BYTES - 1];
        value.extend_from_slice("ä and more".as_bytes());
        let letter = letter(&value, false);
        assert_eq!(letter["value"].as_str().unwrap().len(), MAX_VALUE_BYTES - 1);
        assert_eq!(letter["cut"], true);
    }

    #[test]
    fn a_value_cut_before_says_so() {
        let letter = letter("aä".as_bytes().split_last().unwrap().1, true);
        assert_eq!(
            (&letter["value"], &letter["cut"]),
            (&"a".into(), &true.into())
        );
    }

    #[test]
    fn base64_vectors_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
