//! Columns: what is as long as a batch, and how a column from a guest is checked.

use std::fmt;

/// n byte strings, borrowed. String i is `data[offsets[i]..offsets[i + 1]]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnRef<'a> {
    /// n + 1 positions in `data`, from 0, never decreasing, the last being the length of `data`;
    /// `[0]` for n = 0.
    pub offsets: &'a [u32],
    /// The strings one after another.
    pub data: &'a [u8],
}

/// n byte strings that may be null, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NullableRef<'a> {
    /// A byte a string, 1 if it is there and 0 if it is null; empty if none is null.
    pub present: &'a [u8],
    /// As in [`ColumnRef`]; a null is empty.
    pub offsets: &'a [u32],
    /// As in [`ColumnRef`].
    pub data: &'a [u8],
}

/// n byte strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// As in [`ColumnRef`].
    pub offsets: Vec<u32>,
    /// As in [`ColumnRef`].
    pub data: Vec<u8>,
}

/// n byte strings that may be null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nullable {
    /// As in [`NullableRef`].
    pub present: Vec<u8>,
    /// As in [`NullableRef`].
    pub offsets: Vec<u32>,
    /// As in [`NullableRef`].
    pub data: Vec<u8>,
}

/// The headers of n rows, borrowed; each row has any number of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadersRef<'a> {
    /// For each row the number of headers of all rows up to and including it; the last is the number
    /// of names.
    pub ends: &'a [u32],
    /// The headers' names, those of the first row first.
    pub names: ColumnRef<'a>,
    /// The headers' contents, one a name.
    pub contents: NullableRef<'a>,
}

/// The headers of n rows; each row has any number of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headers {
    /// As in [`HeadersRef`].
    pub ends: Vec<u32>,
    /// As in [`HeadersRef`].
    pub names: Column,
    /// As in [`HeadersRef`].
    pub contents: Nullable,
}

/// Records of one input for [`Instance::process`](crate::Instance::process).
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// The input's position in the description.
    pub input: u32,
    /// The keys. For a keyed input they are distinct and none is null; for an unkeyed one they are
    /// the rows' keys.
    pub distinct: NullableRef<'a>,
    /// For each row the position of its key in `distinct`; empty for an unkeyed input, which means
    /// the identity.
    pub index: &'a [u32],
    /// The rows' values.
    pub values: NullableRef<'a>,
    /// The rows' timestamps in milliseconds since 1970; `i64::MIN` for none.
    pub times: &'a [i64],
    /// The rows' headers; `None` if no row has any. The guest sees them only if the input asks for
    /// them, but output rows inherit them in any case, and they count in
    /// [`Limits::output_bytes`](crate::Limits::output_bytes).
    pub headers: Option<HeadersRef<'a>>,
}

/// Due timers of one time domain for [`Instance::on_timers`](crate::Instance::on_timers). No key
/// occurs twice.
#[derive(Debug, Clone, Copy)]
pub struct Firing<'a> {
    /// The timers' keys.
    pub keys: ColumnRef<'a>,
    /// For each row the timer's position in the description.
    pub timers: &'a [u32],
    /// The namespaces; empty for a timer without one.
    pub namespaces: ColumnRef<'a>,
    /// The times the timers were set for.
    pub times: &'a [i64],
}

/// The time of a call, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The operator's watermark; `i64::MIN` before the first, `i64::MAX` at the end of input.
    pub watermark: i64,
    /// The wall clock, by which TTLs are judged.
    pub processing_time: i64,
}

impl Column {
    /// The column, borrowed.
    pub fn as_ref(&self) -> ColumnRef<'_> {
        ColumnRef {
            offsets: &self.offsets,
            data: &self.data,
        }
    }
}

impl Nullable {
    /// The column, borrowed.
    pub fn as_ref(&self) -> NullableRef<'_> {
        NullableRef {
            present: &self.present,
            offsets: &self.offsets,
            data: &self.data,
        }
    }
}

impl Headers {
    /// The headers, borrowed.
    pub fn as_ref(&self) -> HeadersRef<'_> {
        HeadersRef {
            ends: &self.ends,
            names: self.names.as_ref(),
            contents: self.contents.as_ref(),
        }
    }
}

/// What is wrong with a column from a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    NoOffsets,
    FirstOffset {
        found: u32,
    },
    Decreasing {
        position: usize,
        before: u32,
        found: u32,
    },
    LastOffset {
        found: u32,
        data: usize,
    },
    Count {
        found: usize,
        needed: usize,
    },
    TooLong {
        position: usize,
        bytes: usize,
        limit: usize,
    },
    PresentLength {
        found: usize,
        needed: usize,
    },
    PresentByte {
        position: usize,
        found: u8,
    },
    NullWithBytes {
        position: usize,
    },
    DecreasingEnd {
        position: usize,
        before: u32,
        found: u32,
    },
    LastEnd {
        found: u32,
        names: usize,
    },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Malformed::NoOffsets => {
                f.write_str("no offsets; a column of n strings has n + 1, also for n = 0")
            }
            Malformed::FirstOffset { found } => write!(f, "the first offset is {found}, not 0"),
            Malformed::Decreasing {
                position,
                before,
                found,
            } => {
                write!(
                    f,
                    "offset {position} ({found}) is smaller than the one before it ({before})"
                )
            }
            Malformed::LastOffset { found, data } => {
                write!(
                    f,
                    "the last offset is {found}, but there are {data} bytes of data"
                )
            }
            Malformed::Count { found, needed } => {
                write!(f, "a length of {found} where {needed} is needed")
            }
            Malformed::TooLong {
                position,
                bytes,
                limit,
            } => {
                write!(
                    f,
                    "string {position} has {bytes} bytes; the limit is {limit}"
                )
            }
            Malformed::PresentLength { found, needed } => {
                write!(f, "`present` has {found} bytes for {needed} strings")
            }
            Malformed::PresentByte { position, found } => {
                write!(
                    f,
                    "`present` has the byte {found} at {position}; only 0 and 1 have a meaning"
                )
            }
            Malformed::NullWithBytes { position } => {
                write!(f, "string {position} is null and has bytes")
            }
            Malformed::DecreasingEnd {
                position,
                before,
                found,
            } => {
                write!(
                    f,
                    "end {position} ({found}) is smaller than the one before it ({before})"
                )
            }
            Malformed::LastEnd { found, names } => {
                write!(f, "the last end is {found}, but there are {names} names")
            }
        }
    }
}

impl ColumnRef<'_> {
    /// Checks that this is a column, no string of which is longer than `longest`, and returns the
    /// number of strings.
    pub(crate) fn check(self, longest: usize) -> Result<usize, Malformed> {
        let (&first, &last) = match (self.offsets.first(), self.offsets.last()) {
            (Some(first), Some(last)) => (first, last),
            _ => return Err(Malformed::NoOffsets),
        };
        if first != 0 {
            return Err(Malformed::FirstOffset { found: first });
        }
        if !self.offsets.is_sorted() {
            for (position, pair) in self.offsets.windows(2).enumerate() {
                if pair[1] < pair[0] {
                    return Err(Malformed::Decreasing {
                        position: position + 1,
                        before: pair[0],
                        found: pair[1],
                    });
                }
            }
        }
        if last as usize != self.data.len() {
            return Err(Malformed::LastOffset {
                found: last,
                data: self.data.len(),
            });
        }
        if self.data.len() > longest {
            for (position, pair) in self.offsets.windows(2).enumerate() {
                let bytes = (pair[1] - pair[0]) as usize;
                if bytes > longest {
                    return Err(Malformed::TooLong {
                        position,
                        bytes,
                        limit: longest,
                    });
                }
            }
        }
        Ok(self.offsets.len() - 1)
    }
}

impl NullableRef<'_> {
    /// Checks that this is a column, no string of which is longer than `longest`, and returns the
    /// number of strings.
    pub(crate) fn check(self, longest: usize) -> Result<usize, Malformed> {
        let count = ColumnRef {
            offsets: self.offsets,
            data: self.data,
        }
        .check(longest)?;
        if self.present.is_empty() {
            return Ok(count);
        }
        if self.present.len() != count {
            return Err(Malformed::PresentLength {
                found: self.present.len(),
                needed: count,
            });
        }
        for (position, &byte) in self.present.iter().enumerate() {
            if byte > 1 {
                return Err(Malformed::PresentByte {
                    position,
                    found: byte,
                });
            }
            if byte == 0 && self.offsets[position] != self.offsets[position + 1] {
                return Err(Malformed::NullWithBytes { position });
            }
        }
        Ok(count)
    }
}

/// Checks the length of a list that belongs to `needed` rows or cells.
pub(crate) fn check_count(found: usize, needed: usize) -> Result<(), Malformed> {
    if found == needed {
        Ok(())
    } else {
        Err(Malformed::Count { found, needed })
    }
}

/// Checks where the headers of `rows` rows end, of which there are `names`.
pub(crate) fn check_ends(ends: &[u32], rows: usize, names: usize) -> Result<(), Malformed> {
    check_count(ends.len(), rows)?;
    if let Some(position) = ends.windows(2).position(|pair| pair[1] < pair[0]) {
        return Err(Malformed::DecreasingEnd {
            position: position + 1,
            before: ends[position],
            found: ends[position + 1],
        });
    }
    let found = ends.last().copied().unwrap_or(0);
    if found as usize == names {
        Ok(())
    } else {
        Err(Malformed::LastEnd { found, names })
    }
}

#[cfg(test)]
mod tests {
    use super::{ColumnRef, Malformed, NullableRef, check_ends};

    fn column(offsets: &[u32], data: &[u8]) -> Result<usize, Malformed> {
        ColumnRef { offsets, data }.check(4)
    }

    fn nullable(present: &[u8], offsets: &[u32], data: &[u8]) -> Result<usize, Malformed> {
        NullableRef {
            present,
            offsets,
            data,
        }
        .check(4)
    }

    #[test]
    fn well_formed_columns_are_counted() {
        assert_eq!(column(&[0], b""), Ok(0));
        assert_eq!(column(&[0, 0], b""), Ok(1));
        assert_eq!(column(&[0, 4, 4, 8], b"abcdefgh"), Ok(3));
        assert_eq!(nullable(&[], &[0, 1, 1], b"a"), Ok(2));
        assert_eq!(nullable(&[1, 0], &[0, 1, 1], b"a"), Ok(2));
        assert_eq!(nullable(&[], &[0], b""), Ok(0));
    }

    #[test]
    fn ends_cover_the_names() {
        assert_eq!(check_ends(&[], 0, 0), Ok(()));
        assert_eq!(check_ends(&[0, 2, 2], 3, 2), Ok(()));
        let count = |found, needed| Err(Malformed::Count { found, needed });
        assert_eq!(check_ends(&[0], 2, 0), count(1, 2));
        assert_eq!(
            check_ends(&[0, 2, 1], 3, 1),
            Err(Malformed::DecreasingEnd {
                position: 2,
                before: 2,
                found: 1
            })
        );
        let last = |found, names| Err(Malformed::LastEnd { found, names });
        assert_eq!(check_ends(&[1, u32::MAX], 2, 1), last(u32::MAX, 1));
        assert_eq!(check_ends(&[], 0, 1), last(0, 1));
    }

    #[test]
    fn every_defect_is_named() {
        assert_eq!(column(&[], b""), Err(Malformed::NoOffsets));
        assert_eq!(
            column(&[1, 2], b"ab"),
            Err(Malformed::FirstOffset { found: 1 })
        );
        assert_eq!(
            column(&[0, 2, 1, 2], b"ab"),
            Err(Malformed::Decreasing {
                position: 2,
                before: 2,
                found: 1
            })
        );
        assert_eq!(
            column(&[0, 1], b"ab"),
            Err(Malformed::LastOffset { found: 1, data: 2 })
        );
        assert_eq!(
            column(&[0, 9], b"ab"),
            Err(Malformed::LastOffset { found: 9, data: 2 })
        );
        assert_eq!(
            column(&[0, 1, 6], b"abcdef"),
            Err(Malformed::TooLong {
                position: 1,
                bytes: 5,
                limit: 4
            })
        );
        assert_eq!(
            nullable(&[1], &[0, 1, 1], b"a"),
            Err(Malformed::PresentLength {
                found: 1,
                needed: 2
            })
        );
        assert_eq!(
            nullable(&[1, 2], &[0, 1, 1], b"a"),
            Err(Malformed::PresentByte {
                position: 1,
                found: 2
            })
        );
        assert_eq!(
            nullable(&[0, 1], &[0, 1, 1], b"a"),
            Err(Malformed::NullWithBytes { position: 0 })
        );
    }
}
