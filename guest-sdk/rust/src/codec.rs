//! How values of state, and names of entries, are written as bytes.
//!
//! Encodings are part of what a job keeps: bytes written by one version of an operator are read by
//! the next. So an encoding never changes; a new layout is a new type with another
//! [`ENCODING`](Codec::ENCODING), a higher schema version and a migration.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::fault::{Fault, Result};

/// A type that state can hold and outputs can carry.
///
/// Implement it for a type of your own where JSON (see [`Json`]) is too slow or too large.
pub trait Codec: Sized {
    /// The encoding's name, declared to the host so that state tools can print values.
    const ENCODING: &'static str;

    /// Appends the value's bytes to `out`. Equal values must give equal bytes.
    ///
    /// # Errors
    ///
    /// A value that has no encoding; what was appended before is dropped.
    fn encode(&self, out: &mut Vec<u8>) -> Result;

    /// Reads what [`encode`](Codec::encode) wrote.
    ///
    /// # Errors
    ///
    /// Bytes that `encode` cannot have written.
    fn decode(bytes: &[u8]) -> Result<Self>;
}

macro_rules! little_endian {
    ($($number:ty, $encoding:literal;)*) => {$(
        impl Codec for $number {
            const ENCODING: &'static str = $encoding;

            #[inline]
            fn encode(&self, out: &mut Vec<u8>) -> Result {
                out.extend_from_slice(&self.to_le_bytes());
                Ok(())
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Result<Self> {
                match bytes.try_into() {
                    Ok(array) => Ok(<$number>::from_le_bytes(array)),
                    Err(_) => Err(wrong_length($encoding, size_of::<$number>(), bytes.len())),
                }
            }
        }
    )*};
}

little_endian! {
    u32, "u32-le";
    u64, "u64-le";
    i32, "i32-le";
    i64, "i64-le";
    f64, "f64-le";
}

#[cold]
fn wrong_length(encoding: &str, expected: usize, found: usize) -> Fault {
    Fault::new(format_args!(
        "a stored {encoding} has {expected} bytes, found {found}"
    ))
}

impl Codec for String {
    const ENCODING: &'static str = "utf8";

    fn encode(&self, out: &mut Vec<u8>) -> Result {
        out.extend_from_slice(self.as_bytes());
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<String> {
        Ok(std::str::from_utf8(bytes)?.to_owned())
    }
}

impl Codec for Vec<u8> {
    const ENCODING: &'static str = "bytes";

    fn encode(&self, out: &mut Vec<u8>) -> Result {
        out.extend_from_slice(self);
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Vec<u8>> {
        Ok(bytes.to_vec())
    }
}

/// The presence of a cell or an entry is all there is to know: a set is entries of `()`.
impl Codec for () {
    const ENCODING: &'static str = "empty";

    fn encode(&self, _out: &mut Vec<u8>) -> Result {
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            Ok(())
        } else {
            Err(wrong_length("empty", 0, bytes.len()))
        }
    }
}

/// Any serde type, as JSON.
///
/// Use `BTreeMap` in it, not `HashMap`: a hash map's order, and so the bytes, differs from run to
/// run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Json<T>(pub T);

impl<T: Serialize + DeserializeOwned> Codec for Json<T> {
    const ENCODING: &'static str = "json";

    fn encode(&self, out: &mut Vec<u8>) -> Result {
        serde_json::to_writer(out, &self.0)?;
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Json<T>> {
        Ok(Json(serde_json::from_slice(bytes)?))
    }
}

/// The name of an entry: its bytes order as the names do, because scans go in byte order.
pub trait EntryName: Sized {
    /// The encoding's name, declared to the host.
    const ENCODING: &'static str;

    /// What a name is passed as: `&str` for `String`, the number itself for numbers.
    type Ref<'a>: Copy;

    /// Appends the name's bytes.
    fn encode(name: Self::Ref<'_>, out: &mut Vec<u8>);

    /// Reads what [`encode`](EntryName::encode) wrote.
    ///
    /// # Errors
    ///
    /// Bytes that `encode` cannot have written.
    fn decode(bytes: &[u8]) -> Result<Self>;
}

impl EntryName for String {
    const ENCODING: &'static str = "utf8";
    type Ref<'a> = &'a str;

    fn encode(name: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(name.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<String> {
        <String as Codec>::decode(bytes)
    }
}

impl EntryName for Vec<u8> {
    const ENCODING: &'static str = "bytes";
    type Ref<'a> = &'a [u8];

    fn encode(name: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(name);
    }

    fn decode(bytes: &[u8]) -> Result<Vec<u8>> {
        Ok(bytes.to_vec())
    }
}

/// Big-endian, so that the bytes order as the numbers.
impl EntryName for u64 {
    const ENCODING: &'static str = "u64-be";
    type Ref<'a> = u64;

    fn encode(name: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&name.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<u64> {
        match bytes.try_into() {
            Ok(array) => Ok(u64::from_be_bytes(array)),
            Err(_) => Err(wrong_length(<u64 as EntryName>::ENCODING, 8, bytes.len())),
        }
    }
}

/// Big-endian with the sign bit turned over, so that negative numbers (times before 1970) come first.
impl EntryName for i64 {
    const ENCODING: &'static str = "i64-ordered-be";
    type Ref<'a> = i64;

    fn encode(name: i64, out: &mut Vec<u8>) {
        out.extend_from_slice(&(name ^ i64::MIN).to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<i64> {
        match bytes.try_into() {
            Ok(array) => Ok(i64::from_be_bytes(array) ^ i64::MIN),
            Err(_) => Err(wrong_length(<i64 as EntryName>::ENCODING, 8, bytes.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name<N: EntryName>(name: N::Ref<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        N::encode(name, &mut bytes);
        bytes
    }

    #[test]
    fn numbers_as_names_order_as_numbers() {
        let numbers = [i64::MIN, -70_000, -1, 0, 1, 255, 256, i64::MAX];
        let names: Vec<_> = numbers.iter().map(|&n| name::<i64>(n)).collect();
        assert!(names.is_sorted());
        for (number, name) in numbers.iter().zip(&names) {
            assert_eq!(<i64 as EntryName>::decode(name), Ok(*number));
        }
        assert!(name::<u64>(255) < name::<u64>(256));
    }

    #[test]
    fn foreign_bytes_are_a_fault_that_names_the_encoding() {
        let fault = <u64 as Codec>::decode(b"abc").unwrap_err();
        assert_eq!(fault.message(), "a stored u64-le has 8 bytes, found 3");
        assert!(<String as Codec>::decode(&[0xff]).is_err());
        assert!(<Json<u8> as Codec>::decode(b"256").is_err());
        assert!(<() as Codec>::decode(b"x").is_err());
    }

    #[test]
    fn values_come_back() {
        fn round<T: Codec + PartialEq + std::fmt::Debug>(value: T) {
            let mut bytes = Vec::new();
            value.encode(&mut bytes).unwrap();
            assert_eq!(T::decode(&bytes).unwrap(), value);
        }
        round(-5_i64);
        round(u64::MAX);
        round(1.5_f64);
        round("wör".to_owned());
        round(vec![0_u8, 255]);
        round(Json((1_u8, "a".to_owned())));
    }
}
