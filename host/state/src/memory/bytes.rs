//! A short byte string without an allocation.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;

/// The bytes that fit beside the tag and the length in the room of a boxed slice.
const SHORT: usize = 22;

/// An owned byte string, ordered like its bytes. Names, namespaces and values of cells are short as
/// a rule, and an allocation each would cost more than all else that is done with them.
#[derive(Clone)]
pub(super) enum Bytes {
    /// The length and the bytes, zeros behind them.
    Short(u8, [u8; SHORT]),
    Long(Box<[u8]>),
}

impl Bytes {
    /// A prefix and what follows it, as one string.
    #[inline]
    pub(super) fn joined(prefix: &[u8], rest: &[u8]) -> Bytes {
        let length = prefix.len() + rest.len();
        if length <= SHORT {
            let mut bytes = [0; SHORT];
            bytes[..prefix.len()].copy_from_slice(prefix);
            bytes[prefix.len()..length].copy_from_slice(rest);
            Bytes::Short(length as u8, bytes)
        } else {
            Bytes::Long([prefix, rest].concat().into())
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Short(length, bytes) => &bytes[..usize::from(*length)],
            Bytes::Long(bytes) => bytes,
        }
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Bytes {
        Bytes::joined(bytes, &[])
    }
}

impl Borrow<[u8]> for Bytes {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Bytes {
    #[inline]
    fn eq(&self, other: &Bytes) -> bool {
        match (self, other) {
            // Of one size, with zeros behind: cheaper than a comparison of any length.
            (Bytes::Short(length, bytes), Bytes::Short(other_length, other)) => {
                length == other_length && bytes == other
            }
            _ => **self == **other,
        }
    }
}

impl Eq for Bytes {}

impl PartialOrd for Bytes {
    fn partial_cmp(&self, other: &Bytes) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bytes {
    fn cmp(&self, other: &Bytes) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_ones_are_their_bytes() {
        assert_eq!(size_of::<Bytes>(), 24);
        for length in [0, 1, SHORT - 1, SHORT, SHORT + 1, 300] {
            let plain: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
            let bytes = Bytes::from(&plain[..]);
            assert_eq!(*bytes, plain[..]);
            assert_eq!(matches!(bytes, Bytes::Long(_)), length > SHORT);
            for split in [0, length / 2, length] {
                let (prefix, rest) = plain.split_at(split);
                assert_eq!(Bytes::joined(prefix, rest), bytes);
            }
        }
        assert!(Bytes::from(&b"a"[..]) < Bytes::from(&b"a\0"[..]));
        assert!(Bytes::from(&[b'a'; 40][..]) < Bytes::from(&b"b"[..]));
    }
}
