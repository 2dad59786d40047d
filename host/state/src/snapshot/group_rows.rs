//! Rows of a key group, collected in the order in which they were met.

use crate::stored_key::{Table, append_cell};
use crate::stored_value::{StoredValue, encode_timer};
use crate::timers::Chain;

/// Rows gather up to here before the next chunk is begun, so that growing copies little.
const CHUNK: usize = 64 << 10;
/// Length of key and of value before each row.
const HEAD: usize = 2 * size_of::<u32>();

/// Stored rows in chunks. They are sorted by whoever writes them, off the thread that works.
#[derive(Debug, Default)]
pub(crate) struct GroupRows {
    chunks: Vec<Vec<u8>>,
    rows: usize,
    timers: u64,
}

impl GroupRows {
    /// A value, item or entry. The place is group, table and index.
    pub(crate) fn push_row(
        &mut self,
        place: (u16, Table, u16),
        key: &[u8],
        namespace: Option<&[u8]>,
        suffix: &[u8],
        value: &StoredValue<'_>,
    ) {
        self.push(place, key, namespace, suffix, |out| value.append(out));
    }

    /// A timer, with its chain and whether it waits.
    pub(crate) fn push_timer(
        &mut self,
        place: (u16, Table, u16),
        key: &[u8],
        namespace: &[u8],
        suffix: &[u8],
        (chain, waits): (Option<Chain>, bool),
    ) {
        self.timers += 1;
        self.push(place, key, Some(namespace), suffix, |out| {
            out.extend_from_slice(&encode_timer(chain, waits));
        });
    }

    fn push(
        &mut self,
        (group, table, index): (u16, Table, u16),
        key: &[u8],
        namespace: Option<&[u8]>,
        suffix: &[u8],
        value: impl FnOnce(&mut Vec<u8>),
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
        let middle = chunk.len();
        value(chunk);
        let lengths = [middle - start - HEAD, chunk.len() - middle].map(|length| {
            u32::try_from(length)
                .expect("a call's budget is below 4 GiB")
                .to_le_bytes()
        });
        chunk[start..start + HEAD].copy_from_slice(lengths.as_flattened());
        self.rows += 1;
    }

    pub(crate) fn timers(&self) -> u64 {
        self.timers
    }

    /// All rows by rising key.
    pub(crate) fn sorted(&self) -> Vec<(&[u8], &[u8])> {
        // The first bytes beside the row, so that most comparisons need not look it up.
        let mut rows: Vec<(u128, &[u8], &[u8])> = Vec::with_capacity(self.rows);
        for mut rest in self.chunks.iter().map(Vec::as_slice) {
            while let Some((head, behind)) = rest.split_first_chunk::<HEAD>() {
                let ([key, value], _) = head.as_chunks() else {
                    unreachable!("the head is two lengths");
                };
                let (key, behind) = behind.split_at(u32::from_le_bytes(*key) as usize);
                let (value, behind) = behind.split_at(u32::from_le_bytes(*value) as usize);
                rows.push((prefix(key), key, value));
                rest = behind;
            }
        }
        rows.sort_unstable_by(|left, right| left.0.cmp(&right.0).then_with(|| left.1.cmp(right.1)));
        rows.into_iter()
            .map(|(_, key, value)| (key, value))
            .collect()
    }
}

/// The first bytes of a key behind its group, as a number that sorts like them.
fn prefix(key: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    let behind = &key[size_of::<u16>()..];
    let length = behind.len().min(bytes.len());
    bytes[..length].copy_from_slice(&behind[..length]);
    u128::from_be_bytes(bytes)
}
