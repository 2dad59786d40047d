//! Batches: what flows between subtasks.
//!
//! A batch is plain columns (a vector a field), never row objects: a row costs several times as much to hand over.
//! A key is hashed once, where it comes into being, and the hash travels with it.

use weir_state::hash;

use crate::headers::{Header, Headers};

/// Records a batch holds at most, and what a builder is sent at.
pub const MAX_ROWS: usize = 1_024;

/// Bytes of keys, values and headers that a builder is sent at.
pub const TARGET_BYTES: usize = 128 * 1024;

/// Bytes of keys, values and headers that an operator gets in one call at most, unless one record has more.
pub const PIECE_BYTES: usize = 1 << 20;

/// A record larger than this is refused.
pub const MAX_RECORD_BYTES: usize = 64 * 1024 * 1024;

/// "No timestamp", and the watermark before the first one.
pub const NO_TIME: i64 = i64::MIN;

/// The watermark at the end of input.
pub const END_OF_TIME: i64 = i64::MAX;

/// Where a record came from: a split of a source and a place in it (line or sequence number, from 1), for messages.
///
/// Packed into 64 bits: 20 of split, 44 of place. `Origin::NONE` for what timers and `finish` emit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(u64);

impl Origin {
    /// No origin.
    pub const NONE: Origin = Origin(u64::MAX);

    const PLACE_BITS: u32 = 44;

    /// Split number `split` (global to the job) at `place`. Both saturate: an origin is for messages only.
    pub fn new(split: u32, place: u64) -> Origin {
        let split = u64::from(split).min((1 << 20) - 2);
        Origin(split << Self::PLACE_BITS | place.min((1 << Self::PLACE_BITS) - 1))
    }

    /// The split and the place, unless it is `NONE`.
    pub fn split_and_place(self) -> Option<(u32, u64)> {
        (self != Origin::NONE).then_some((
            (self.0 >> Self::PLACE_BITS) as u32,
            self.0 & ((1 << Self::PLACE_BITS) - 1),
        ))
    }
}

/// A column of byte strings, some of which may be null.
///
/// `offsets` has n+1 entries from 0. `present` is empty where nothing is null, else a 0 or 1 a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// 0 or 1 a row, or empty for "all present".
    pub present: Vec<u8>,
    /// Row i is `data[offsets[i]..offsets[i + 1]]`.
    pub offsets: Vec<u32>,
    /// The bytes.
    pub data: Vec<u8>,
}

impl Default for Bytes {
    fn default() -> Self {
        Bytes {
            present: Vec::new(),
            offsets: vec![0],
            data: Vec::new(),
        }
    }
}

impl Bytes {
    /// Empty, with room for `rows` rows of `bytes` bytes in all.
    pub fn with_capacity(rows: usize, bytes: usize) -> Bytes {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Bytes {
            present: Vec::new(),
            offsets,
            data: Vec::with_capacity(bytes),
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.offsets.len() == 1
    }

    /// Whether some row is null.
    pub fn has_nulls(&self) -> bool {
        !self.present.is_empty() && self.present.contains(&0)
    }

    /// Row `row`, `None` if it is null.
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        if !self.present.is_empty() && self.present[row] == 0 {
            return None;
        }
        Some(&self.data[self.offsets[row] as usize..self.offsets[row + 1] as usize])
    }

    /// Appends a row.
    pub fn push(&mut self, value: Option<&[u8]>) {
        match value {
            Some(bytes) => {
                self.data.extend_from_slice(bytes);
                if !self.present.is_empty() {
                    self.present.push(1);
                }
            }
            None => {
                if self.present.is_empty() {
                    self.present.resize(self.len(), 1);
                }
                self.present.push(0);
            }
        }
        self.offsets.push(self.data.len() as u32);
    }

    /// Makes it the column of no rows, and keeps its memory.
    pub fn clear(&mut self) {
        self.present.clear();
        self.offsets.truncate(1);
        self.data.clear();
    }

    /// Appends all rows of `other`.
    pub fn extend(&mut self, other: &Bytes) {
        let rows = self.len();
        if !self.present.is_empty() || !other.present.is_empty() {
            if self.present.is_empty() {
                self.present.resize(rows, 1);
            }
            if other.present.is_empty() {
                self.present.resize(rows + other.len(), 1);
            } else {
                self.present.extend_from_slice(&other.present);
            }
        }
        let base = self.data.len() as u32;
        self.data.extend_from_slice(&other.data);
        self.offsets
            .extend(other.offsets[1..].iter().map(|offset| base + offset));
    }
}

/// Records with keys, hashes, values, timestamps, origins and headers, a column each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Keys; null and empty differ.
    pub keys: Bytes,
    /// XXH3-64 of each key, 0 where the key is null.
    pub hashes: Vec<u64>,
    /// Values; null and empty differ.
    pub values: Bytes,
    /// Milliseconds since the epoch, [`NO_TIME`] for none.
    pub times: Vec<i64>,
    /// Where each record came from.
    pub origins: Vec<Origin>,
    /// The records' headers; `None` if no record has any, and only then.
    pub headers: Option<Box<Headers>>,
}

/// The hash of a key as batches carry it: 0 for a null key.
pub fn hash_of(key: Option<&[u8]>) -> u64 {
    key.map_or(0, hash::key_hash)
}

impl Batch {
    /// Empty, with room like `other`'s: the last batch's size is the best guess at the next one's.
    pub fn with_capacity_of(other: &Batch) -> Batch {
        Batch {
            keys: Bytes::with_capacity(other.len(), other.keys.data.len()),
            hashes: Vec::with_capacity(other.len()),
            values: Bytes::with_capacity(other.len(), other.values.data.len()),
            times: Vec::with_capacity(other.len()),
            origins: Vec::with_capacity(other.len()),
            headers: None,
        }
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Bytes it occupies in a channel, columns included.
    pub fn bytes(&self) -> usize {
        self.data_bytes() + self.len() * 32
    }

    /// Bytes of keys, values and headers alone.
    pub fn data_bytes(&self) -> usize {
        let headers = self.headers.as_ref().map_or(0, |headers| headers.bytes());
        self.keys.data.len() + self.values.data.len() + headers
    }

    /// Bytes of the key, the value and the headers of record `row`.
    fn data_bytes_of(&self, row: usize) -> usize {
        let size = |column: &Bytes| (column.offsets[row + 1] - column.offsets[row]) as usize;
        let headers = self.headers.as_ref();
        let headers = headers.map_or(0, |headers| headers.bytes_of(row));
        size(&self.keys) + size(&self.values) + headers
    }

    /// Whether a builder should be sent now.
    pub fn is_full(&self) -> bool {
        self.len() >= MAX_ROWS || self.data_bytes() >= TARGET_BYTES
    }

    /// The headers of record `row`, in order.
    pub fn headers_of(&self, row: usize) -> impl Iterator<Item = Header<'_>> + Clone {
        let headers = self.headers.as_ref();
        headers.into_iter().flat_map(move |headers| headers.of(row))
    }

    /// Appends a record without headers whose key has `hash`.
    // Every record comes through here, most without headers: inlined, with what headers need kept out of line.
    #[inline]
    pub fn push(
        &mut self,
        key: Option<&[u8]>,
        hash: u64,
        value: Option<&[u8]>,
        time: i64,
        origin: Origin,
    ) {
        self.keys.push(key);
        self.hashes.push(hash);
        self.values.push(value);
        self.times.push(time);
        self.origins.push(origin);
        if let Some(headers) = &mut self.headers {
            headers.push_none(1);
        }
    }

    /// Appends a record with `headers` whose key has `hash`.
    #[inline]
    pub fn push_with_headers<'a>(
        &mut self,
        key: Option<&[u8]>,
        hash: u64,
        value: Option<&[u8]>,
        headers: impl IntoIterator<Item = Header<'a>>,
        time: i64,
        origin: Origin,
    ) {
        self.push(key, hash, value, time, origin);
        let rows = self.len();
        for header in headers {
            self.headers
                .get_or_insert_with(|| Box::new(Headers::none(rows)))
                .add(header);
        }
    }

    /// Some of its rows, in order.
    pub fn rows(&self, rows: std::ops::Range<usize>) -> Batch {
        let mut out = Batch::default();
        for row in rows {
            out.push_row(self, row);
        }
        out
    }

    /// The batch in pieces of at most [`MAX_ROWS`] rows and [`PIECE_BYTES`] bytes (or one record), in order: an operator's one call may emit
    /// far more than the next one should get in a call.
    pub fn pieces(self) -> Vec<Batch> {
        if self.len() <= MAX_ROWS && self.data_bytes() <= PIECE_BYTES {
            return vec![self];
        }
        let mut pieces = vec![Batch::default()];
        for row in 0..self.len() {
            let size = self.data_bytes_of(row);
            let last = pieces.last_mut().expect("begins with one");
            if last.len() >= MAX_ROWS
                || (!last.is_empty() && last.data_bytes() + size > PIECE_BYTES)
            {
                pieces.push(Batch::default());
            }
            pieces
                .last_mut()
                .expect("begins with one")
                .push_row(&self, row);
        }
        pieces
    }

    /// Appends all records of `other`.
    pub fn extend(&mut self, other: &Batch) {
        if self.headers.is_some() || other.headers.is_some() {
            let rows = self.len();
            let headers = self
                .headers
                .get_or_insert_with(|| Box::new(Headers::none(rows)));
            match &other.headers {
                Some(others) => headers.extend(others),
                None => headers.push_none(other.len()),
            }
        }
        self.keys.extend(&other.keys);
        self.hashes.extend_from_slice(&other.hashes);
        self.values.extend(&other.values);
        self.times.extend_from_slice(&other.times);
        self.origins.extend_from_slice(&other.origins);
    }

    /// Appends record `row` of `other`.
    pub fn push_row(&mut self, other: &Batch, row: usize) {
        self.push_with_headers(
            other.keys.get(row),
            other.hashes[row],
            other.values.get(row),
            other.headers_of(row),
            other.times[row],
            other.origins[row],
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type OwnedHeader = (Vec<u8>, Option<Vec<u8>>);
    type Row = (Option<Vec<u8>>, Option<Vec<u8>>, Vec<OwnedHeader>, i64);

    /// Rows; in two of three cases without any headers, or mostly without.
    fn arbitrary() -> impl Strategy<Value = Vec<Row>> {
        let text = || prop::collection::vec(any::<u8>(), 0..4);
        let bytes = move || prop::option::of(text());
        let headers = move || prop::collection::vec((text(), bytes()), 0..4);
        let rows = move |headers: BoxedStrategy<Vec<OwnedHeader>>| {
            prop::collection::vec((bytes(), bytes(), headers, any::<i64>()), 0..40)
        };
        prop_oneof![
            rows(Just(Vec::new()).boxed()),
            rows(prop_oneof![9 => Just(Vec::new()), 1 => headers()].boxed()),
            rows(headers().boxed()),
        ]
    }

    fn batch(rows: &[Row]) -> Batch {
        let mut batch = Batch::default();
        for (i, (key, value, headers, time)) in rows.iter().enumerate() {
            let key = key.as_deref();
            let headers = headers
                .iter()
                .map(|(name, contents)| (name.as_slice(), contents.as_deref()));
            batch.push_with_headers(
                key,
                hash_of(key),
                value.as_deref(),
                headers,
                *time,
                Origin::new(3, i as u64),
            );
        }
        batch
    }

    fn rows(batch: &Batch) -> Vec<Row> {
        let has_headers = (0..batch.len()).any(|row| batch.headers_of(row).next().is_some());
        assert_eq!(
            batch.headers.is_some(),
            has_headers,
            "a column only where it is needed"
        );
        let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        (0..batch.len())
            .map(|row| {
                let headers = batch
                    .headers_of(row)
                    .map(|(name, contents)| (name.to_vec(), owned(contents)));
                (
                    owned(batch.keys.get(row)),
                    owned(batch.values.get(row)),
                    headers.collect(),
                    batch.times[row],
                )
            })
            .collect()
    }

    proptest! {
        /// Null and empty stay apart, however batches are put together.
        #[test]
        fn joining_batches_is_appending_their_rows(one in arbitrary(), other in arbitrary()) {
            let mut joined = batch(&one);
            joined.extend(&batch(&other));
            let mut by_row = batch(&one);
            for row in 0..other.len() {
                by_row.push_row(&batch(&other), row);
            }
            let bytes = batch(&one).bytes() + batch(&other).bytes();
            prop_assert_eq!(joined.bytes(), bytes);
            prop_assert_eq!(rows(&joined), [one, other].concat());
            prop_assert_eq!(rows(&joined), rows(&by_row));
            prop_assert_eq!(&joined.hashes, &by_row.hashes);
        }

        /// A call that is cut into smaller ones has the same records.
        #[test]
        fn some_rows_are_those_of_the_batch(all in arbitrary(), from in 0.0..1.0, to in 0.0..1.0) {
            let at = |share: f64| (share * all.len() as f64) as usize;
            let range = at(f64::min(from, to))..at(f64::max(from, to));
            prop_assert_eq!(rows(&batch(&all).rows(range.clone())), all[range].to_vec());
        }

        /// What comes without headers before, between and after does not move them.
        #[test]
        fn records_may_be_pushed_without_headers(some in arbitrary()) {
            let mut mixed = Batch::default();
            let mut expected = Vec::new();
            for row in some {
                let only = batch(std::slice::from_ref(&row));
                mixed.push(None, 0, None, 7, Origin::NONE);
                mixed.push_row(&only, 0);
                expected.extend([(None, None, Vec::new(), 7), row]);
            }
            prop_assert_eq!(rows(&mixed), expected);
        }
    }

    #[test]
    fn pieces_are_the_batch_in_order_and_within_the_caps() {
        let mut large = Batch::default();
        for i in 0..5_000_u64 {
            let value = vec![b'x'; if i % 1_000 == 0 { PIECE_BYTES + 1 } else { 300 }];
            large.push(
                Some(&i.to_le_bytes()),
                i,
                Some(&value),
                i as i64,
                Origin::NONE,
            );
        }
        let pieces = large.clone().pieces();
        let mut joined = Batch::default();
        for piece in &pieces {
            assert!(piece.len() <= MAX_ROWS && !piece.is_empty());
            assert!(piece.len() == 1 || piece.data_bytes() <= PIECE_BYTES);
            joined.extend(piece);
        }
        assert_eq!(joined, large);
    }

    #[test]
    fn headers_count_where_bytes_do() {
        let contents = vec![b'x'; TARGET_BYTES / 4];
        let mut headed = Batch::default();
        let push = |batch: &mut Batch| {
            let headers: [Header<'_>; 2] = [(b"name", Some(&contents)), (b"name", Some(&contents))];
            batch.push_with_headers(None, 0, None, headers, NO_TIME, Origin::NONE);
        };
        push(&mut headed);
        assert!(!headed.is_full());
        push(&mut headed);
        assert!(headed.is_full());
        (2..40).for_each(|_| push(&mut headed));
        let pieces = headed.clone().pieces();
        assert!(pieces.len() > 1, "40 records are more than a piece holds");
        let mut joined = Batch::default();
        for piece in &pieces {
            assert!(piece.data_bytes() <= PIECE_BYTES);
            joined.extend(piece);
        }
        assert_eq!(joined, headed);
    }

    #[test]
    fn origins_pack_and_saturate() {
        assert_eq!(
            Origin::new(7, 123_456).split_and_place(),
            Some((7, 123_456))
        );
        assert_eq!(Origin::NONE.split_and_place(), None);
        let (split, place) = Origin::new(u32::MAX, u64::MAX)
            .split_and_place()
            .expect("not NONE");
        assert_eq!((split, place), ((1 << 20) - 2, (1 << 44) - 1));
    }
}
