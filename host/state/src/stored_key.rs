//! The key of a stored row: one byte string whose order is the order of its parts.
//!
//! ```text
//! key group   u16, big endian
//! table       u8, see `Table`
//! index       u16, big endian: which state or timer, by position in a table of names
//! key         escaped: 0x00 becomes 0x00 0xFF; ended by 0x00 0x01
//! namespace   0x00 if there is none, else 0x01 and the namespace, escaped and ended like the key
//! suffix      nothing for a value, the position for an item (u64), the name for an entry, the
//!             time for a timer (i64 with its sign bit flipped); numbers in big endian
//! ```
//!
//! So a key group is a contiguous range, and so is a cell. No cell's bytes are the beginning of
//! another's, because the end mark sorts below every escaped byte and occurs nowhere else. In
//! memory the index counts the operator's declarations, in a snapshot the tables in its header,
//! which match by name.

use std::borrow::Cow;

/// What a row belongs to. The numbers are in files: assigned once, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Table {
    /// A value.
    Value = 1,
    /// An item of a list.
    Items = 2,
    /// An entry of a map.
    Entries = 3,
    /// A timer.
    Timers = 4,
}

impl Table {
    fn from_tag(tag: u8) -> Option<Table> {
        [Table::Value, Table::Items, Table::Entries, Table::Timers]
            .into_iter()
            .find(|table| *table as u8 == tag)
    }
}

/// A stored key in parts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredKey<'a> {
    /// The group of the key.
    pub group: u16,
    /// What the row belongs to.
    pub table: Table,
    /// Which state or timer.
    pub index: u16,
    /// The key.
    pub key: Cow<'a, [u8]>,
    /// The namespace, if any.
    pub namespace: Option<Cow<'a, [u8]>>,
    /// What tells the rows of one cell apart.
    pub suffix: &'a [u8],
}

/// Bytes before the key.
const HEAD: usize = 5;
const ESCAPED_ZERO: [u8; 2] = [0x00, 0xFF];
const END: [u8; 2] = [0x00, 0x01];
const NO_NAMESPACE: u8 = 0x00;
const NAMESPACE: u8 = 0x01;

/// Writes the part that all rows of a cell share into `out`, in place of what was there. The suffix
/// goes behind it.
pub fn write_cell(
    out: &mut Vec<u8>,
    group: u16,
    table: Table,
    index: u16,
    key: &[u8],
    namespace: Option<&[u8]>,
) {
    out.clear();
    append_cell(out, group, table, index, key, namespace);
}

/// Like [`write_cell`], behind what is in `out`.
pub(crate) fn append_cell(
    out: &mut Vec<u8>,
    group: u16,
    table: Table,
    index: u16,
    key: &[u8],
    namespace: Option<&[u8]>,
) {
    out.extend_from_slice(&group.to_be_bytes());
    out.push(table as u8);
    out.extend_from_slice(&index.to_be_bytes());
    escape(out, key);
    match namespace {
        None => out.push(NO_NAMESPACE),
        Some(namespace) => {
            out.push(NAMESPACE);
            escape(out, namespace);
        }
    }
}

/// The end, exclusive, of the range of rows that `cell` (from [`write_cell`]) shares.
pub fn cell_end(cell: &[u8]) -> Vec<u8> {
    let mut end = cell.to_vec();
    // A cell ends in NO_NAMESPACE or in END; neither byte is 0xFF, and no row continues with the
    // next byte.
    *end.last_mut().expect("a cell has a head") += 1;
    end
}

/// The key group of a stored key.
pub fn group_of(stored: &[u8]) -> u16 {
    u16::from_be_bytes([stored[0], stored[1]])
}

/// A timer's time as the suffix of its key.
pub fn time_suffix(time: i64) -> [u8; 8] {
    (time as u64 ^ (1 << 63)).to_be_bytes()
}

/// The inverse of [`time_suffix`]; `None` if it is not eight bytes.
pub fn suffix_time(suffix: &[u8]) -> Option<i64> {
    Some((u64::from_be_bytes(suffix.try_into().ok()?) ^ (1 << 63)) as i64)
}

impl StoredKey<'_> {
    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        write_cell(
            &mut out,
            self.group,
            self.table,
            self.index,
            &self.key,
            self.namespace.as_deref(),
        );
        out.extend_from_slice(self.suffix);
        out
    }

    /// The parts; `None` if the bytes are not a stored key. Every stored key has one encoding only.
    pub fn decode(stored: &[u8]) -> Option<StoredKey<'_>> {
        let (head, rest) = stored.split_at_checked(HEAD)?;
        let (key, rest) = unescape(rest)?;
        let (&mark, rest) = rest.split_first()?;
        let (namespace, suffix) = match mark {
            NO_NAMESPACE => (None, rest),
            NAMESPACE => unescape(rest).map(|(namespace, rest)| (Some(namespace), rest))?,
            _ => return None,
        };
        Some(StoredKey {
            group: u16::from_be_bytes([head[0], head[1]]),
            table: Table::from_tag(head[2])?,
            index: u16::from_be_bytes([head[3], head[4]]),
            key,
            namespace,
            suffix,
        })
    }
}

fn escape(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut runs = bytes.split(|byte| *byte == 0);
    out.extend_from_slice(runs.next().unwrap_or_default());
    for run in runs {
        out.extend_from_slice(&ESCAPED_ZERO);
        out.extend_from_slice(run);
    }
    out.extend_from_slice(&END);
}

/// The escaped string at the start and what follows it.
fn unescape(bytes: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let mut plain: Cow<'_, [u8]> = Cow::Borrowed(&[]);
    let mut rest = bytes;
    loop {
        let zero = rest.iter().position(|byte| *byte == 0)?;
        let (run, mark, behind) = (&rest[..zero], rest.get(zero..zero + 2)?, &rest[zero + 2..]);
        if plain.is_empty() {
            plain = Cow::Borrowed(run);
        } else {
            plain.to_mut().extend_from_slice(run);
        }
        rest = behind;
        if mark == END {
            return Some((plain, rest));
        }
        if mark != ESCAPED_ZERO {
            return None;
        }
        plain.to_mut().push(0);
    }
}

#[cfg(test)]
mod tests;
