//! Rows of a key group, collected in the order in which they were met.

use std::sync::Arc;

use super::{CELL_GONE, GONE, RowValue};
use crate::stored_key::{Table, append_cell};
use crate::stored_value::{StoredValue, encode_timer};
use crate::timers::Chain;

/// Rows gather up to here before the next chunk is begun, so that growing copies little.
const CHUNK: usize = 64 << 10;
/// Length of key and of value before each row.
const HEAD: usize = 2 * size_of::<u32>();

/// The group, table and index of a stored key.
pub(crate) type Place = (u16, Table, u16);

/// Stored rows in chunks. They are sorted by whoever writes them, off the thread that works.
#[derive(Debug, Default)]
pub(crate) struct GroupRows {
    chunks: Vec<Vec<u8>>,
    rows: usize,
    timers: u64,
    bytes: usize,
}

impl GroupRows {
    /// A value, item or entry.
    pub(crate) fn push_row(
        &mut self,
        place: Place,
        key: &[u8],
        namespace: Option<&[u8]>,
        suffix: &[u8],
        value: &StoredValue<'_>,
    ) {
        self.push(place, key, namespace, suffix, |out| {
            let start = out.len();
            value.append(out);
            length(out.len() - start)
        });
    }

    /// A timer, with its chain and whether it waits.
    pub(crate) fn push_timer(
        &mut self,
        place: Place,
        key: &[u8],
        namespace: &[u8],
        suffix: &[u8],
        (chain, waits): (Option<Chain>, bool),
    ) {
        self.timers += 1;
        self.push(place, key, Some(namespace), suffix, |out| {
            let value = encode_timer(chain, waits);
            out.extend_from_slice(&value);
            length(value.len())
        });
    }

    /// A row or timer that is gone.
    pub(crate) fn push_gone(
        &mut self,
        place: Place,
        key: &[u8],
        namespace: Option<&[u8]>,
        suffix: &[u8],
    ) {
        self.push(place, key, namespace, suffix, |_| GONE);
    }

    /// A cell of which all rows are gone.
    pub(crate) fn push_cell_gone(&mut self, place: Place, key: &[u8], namespace: Option<&[u8]>) {
        self.push(place, key, namespace, &[], |_| CELL_GONE);
    }

    /// `value` appends the value and returns its length or what stands for it.
    fn push(
        &mut self,
        (group, table, index): Place,
        key: &[u8],
        namespace: Option<&[u8]>,
        suffix: &[u8],
        value: impl FnOnce(&mut Vec<u8>) -> u32,
    ) {
        if self.chunks.last().is_none_or(|chunk| chunk.len() >= CHUNK) {
            // The first one starts small: there may be many groups of few rows.
            let size = if self.chunks.is_empty() {
                0
            } else {
                CHUNK + CHUNK / 8
            };
            self.chunks.push(Vec::with_capacity(size));
        }
        let chunk = self.chunks.last_mut().expect("there is one now");
        let start = chunk.len();
        chunk.extend_from_slice(&[0; HEAD]);
        append_cell(chunk, group, table, index, key, namespace);
        chunk.extend_from_slice(suffix);
        let key_length = length(chunk.len() - start - HEAD);
        let lengths = [key_length, value(chunk)].map(u32::to_le_bytes);
        chunk[start..start + HEAD].copy_from_slice(lengths.as_flattened());
        self.bytes += chunk.len() - start;
        self.rows += 1;
    }

    pub(crate) fn timers(&self) -> u64 {
        self.timers
    }

    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// The bytes of all rows, each with its lengths.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// All rows by rising key, and with them those of `gone`, which are removals, as far as they did
    /// not come back.
    pub(crate) fn sorted<'a>(
        &'a self,
        gone: &'a [Arc<GroupRows>],
    ) -> Vec<(&'a [u8], RowValue<'a>)> {
        let all = self.rows + gone.iter().map(|gone| gone.rows).sum::<usize>();
        // The first bytes beside the row, so that most comparisons need not look it up.
        let mut rows: Vec<(u128, &[u8], RowValue<'_>)> = Vec::with_capacity(all);
        let gone_rows = gone.iter().flat_map(|gone| gone.iter());
        rows.extend(
            self.iter()
                .chain(gone_rows)
                .map(|(key, value)| (prefix(key), key, value)),
        );
        if gone.is_empty() {
            rows.sort_unstable_by(|left, right| {
                left.0.cmp(&right.0).then_with(|| left.1.cmp(right.1))
            });
        } else {
            rows.sort_unstable_by(|left, right| {
                let order = left.0.cmp(&right.0).then_with(|| left.1.cmp(right.1));
                order.then_with(|| rank(left.2).cmp(&rank(right.2)))
            });
            // The value of a row, if it is there, stands before its removals.
            rows.dedup_by(|later, kept| {
                later.1 == kept.1 && (kept.2 != RowValue::CellGone || later.2 == RowValue::CellGone)
            });
        }
        rows.into_iter()
            .map(|(_, key, value)| (key, value))
            .collect()
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], RowValue<'_>)> {
        self.chunks.iter().flat_map(|chunk| {
            let mut rest = chunk.as_slice();
            std::iter::from_fn(move || {
                let (head, behind) = rest.split_first_chunk::<HEAD>()?;
                let ([key, value], _) = head.as_chunks() else {
                    unreachable!("the head is two lengths");
                };
                let (key, behind) = behind.split_at(u32::from_le_bytes(*key) as usize);
                let value = match u32::from_le_bytes(*value) {
                    GONE => RowValue::Gone,
                    CELL_GONE => RowValue::CellGone,
                    length => RowValue::Is(&behind[..length as usize]),
                };
                rest = match value {
                    RowValue::Is(value) => &behind[value.len()..],
                    _ => behind,
                };
                Some((key, value))
            })
        })
    }
}

/// The order of rows of the same key.
fn rank(value: RowValue<'_>) -> u8 {
    match value {
        RowValue::CellGone => 0,
        RowValue::Is(_) => 1,
        RowValue::Gone => 2,
    }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a call's budget is below 4 GiB")
}

/// The first bytes of a key behind its group, as a number that sorts like them.
fn prefix(key: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    let behind = &key[size_of::<u16>()..];
    let length = behind.len().min(bytes.len());
    bytes[..length].copy_from_slice(&behind[..length]);
    u128::from_be_bytes(bytes)
}
