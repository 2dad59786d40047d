//! The value of a stored row.
//!
//! ```text
//! value, item, entry:  flags u8 (1: expires), schema version u32, i64 expiry if it expires, bytes
//! timer:               flags u8 (1: in a chain, 2: waits), i64 until and u32 generation if chained
//! ```
//! Numbers in little endian. Other flags are not defined and refused.

use crate::timers::Chain;

const EXPIRES: u8 = 1;
const CHAINED: u8 = 1;
const WAITS: u8 = 2;

/// A value, item or entry with what is stored beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredValue<'a> {
    /// The schema version that the bytes were written in.
    pub version: u32,
    /// From this processing time on the value is invisible.
    pub expiry: Option<i64>,
    /// What the operator stored.
    pub bytes: &'a [u8],
}

impl<'a> StoredValue<'a> {
    /// The stored bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(13 + self.bytes.len());
        self.append(&mut out);
        out
    }

    /// Appends the stored bytes to `out`.
    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        out.push(if self.expiry.is_some() { EXPIRES } else { 0 });
        out.extend_from_slice(&self.version.to_le_bytes());
        if let Some(expiry) = self.expiry {
            out.extend_from_slice(&expiry.to_le_bytes());
        }
        out.extend_from_slice(self.bytes);
    }

    /// The parts; `None` if these are not a stored value's bytes.
    pub fn decode(stored: &'a [u8]) -> Option<StoredValue<'a>> {
        let (&flags, rest) = stored.split_first()?;
        let (version, rest) = rest.split_first_chunk()?;
        let (expiry, bytes) = match flags {
            0 => (None, rest),
            EXPIRES => rest
                .split_first_chunk()
                .map(|(expiry, rest)| (Some(i64::from_le_bytes(*expiry)), rest))?,
            _ => return None,
        };
        Some(StoredValue {
            version: u32::from_le_bytes(*version),
            expiry,
            bytes,
        })
    }

    /// Whether a call at this processing time sees it.
    pub fn is_live(&self, processing_time: i64) -> bool {
        self.expiry.is_none_or(|expiry| processing_time < expiry)
    }
}

/// The stored bytes of a timer.
pub(crate) fn encode_timer(chain: Option<Chain>, waits: bool) -> Vec<u8> {
    let mut out = vec![if chain.is_some() { CHAINED } else { 0 } | if waits { WAITS } else { 0 }];
    if let Some(chain) = chain {
        out.extend_from_slice(&chain.until.to_le_bytes());
        out.extend_from_slice(&chain.generation.to_le_bytes());
    }
    out
}

/// A timer's chain and whether it waits for the next advance, which only a chained one can.
pub(crate) fn decode_timer(stored: &[u8]) -> Option<(Option<Chain>, bool)> {
    let (&flags, rest) = stored.split_first()?;
    if flags == 0 && rest.is_empty() {
        return Some((None, false));
    }
    if flags & CHAINED == 0 || flags & !(CHAINED | WAITS) != 0 {
        return None;
    }
    let (until, generation) = rest.split_first_chunk()?;
    let chain = Chain {
        until: i64::from_le_bytes(*until),
        generation: u32::from_le_bytes(generation.try_into().ok()?),
    };
    Some((Some(chain), flags & WAITS != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_frozen_and_come_back() {
        let plain = StoredValue {
            version: 0x0102,
            expiry: None,
            bytes: b"v",
        };
        assert_eq!(plain.encode(), b"\0\x02\x01\0\0v");
        let expiring = StoredValue {
            version: 1,
            expiry: Some(-2),
            bytes: b"",
        };
        assert_eq!(
            expiring.encode(),
            b"\x01\x01\0\0\0\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF"
        );
        for value in [plain, expiring] {
            assert_eq!(StoredValue::decode(&value.encode()), Some(value));
        }
        let chain = Chain {
            until: 7,
            generation: 2,
        };
        for (chain, waits) in [(None, false), (Some(chain), false), (Some(chain), true)] {
            assert_eq!(
                decode_timer(&encode_timer(chain, waits)),
                Some((chain, waits))
            );
        }
        assert_eq!(
            encode_timer(Some(chain), true),
            b"\x03\x07\0\0\0\0\0\0\0\x02\0\0\0"
        );
    }

    #[test]
    fn broken_bytes_are_refused() {
        for bytes in [
            &b""[..],
            b"\0\0\0\0",
            b"\x01\0\0\0\0\0\0",
            b"\x02\0\0\0\0\0\0\0\0\0\0\0\0\0",
        ] {
            assert_eq!(StoredValue::decode(bytes), None, "{bytes:?}");
        }
        for bytes in [
            &b""[..],
            b"\0\0",
            b"\x02",
            b"\x01\0\0\0\0\0\0\0\0\0\0\0",
            b"\x04",
            b"\x05\0\0\0\0\0\0\0\0\0\0\0\0",
        ] {
            assert_eq!(decode_timer(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_value_is_gone_at_its_expiry() {
        let value = StoredValue {
            version: 0,
            expiry: Some(10),
            bytes: b"",
        };
        assert_eq!((value.is_live(9), value.is_live(10)), (true, false));
        assert!(
            StoredValue {
                expiry: None,
                ..value
            }
            .is_live(i64::MAX)
        );
    }
}
