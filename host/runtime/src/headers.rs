//! Headers of records: names with contents, as Kafka has them.
//!
//! Most records have none, so a batch has this column only if one of its records does, and a record without headers costs one
//! comparison on its way.

use weir_operator::{ColumnRef, HeadersRef, NullableRef};

use crate::batch::Bytes;

/// One header: its name, and its contents, which may be null. Null and empty differ.
pub type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// What a header counts for beside its bytes, where bytes are counted: without it, empty headers were free.
const HEADER_BYTES: usize = 16;

/// The headers of n rows; each row has any number of them, in order, and names may repeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// For each row the number of headers of all rows up to and including it.
    pub ends: Vec<u32>,
    /// The names, those of the first row first. None is null.
    pub names: Bytes,
    /// The contents, one a name.
    pub contents: Bytes,
}

impl Headers {
    /// `rows` rows without headers.
    pub fn none(rows: usize) -> Headers {
        Headers {
            ends: vec![0; rows],
            ..Headers::default()
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.ends.len()
    }

    /// Whether no row has a header.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Bytes that they count for.
    pub fn bytes(&self) -> usize {
        self.names.data.len() + self.contents.data.len() + self.names.len() * HEADER_BYTES
    }

    /// Bytes that those of row `row` count for.
    pub fn bytes_of(&self, row: usize) -> usize {
        let (first, end) = self.place(row);
        let data = |column: &Bytes| (column.offsets[end] - column.offsets[first]) as usize;
        data(&self.names) + data(&self.contents) + (end - first) * HEADER_BYTES
    }

    /// Where the headers of row `row` begin and end.
    fn place(&self, row: usize) -> (usize, usize) {
        let first = match row {
            0 => 0,
            row => self.ends[row - 1],
        };
        (first as usize, self.ends[row] as usize)
    }

    /// The headers of row `row`, in order.
    pub fn of(&self, row: usize) -> impl Iterator<Item = Header<'_>> + Clone {
        let (first, end) = self.place(row);
        (first..end).map(|at| {
            let name = self.names.get(at).expect("no name is null");
            (name, self.contents.get(at))
        })
    }

    /// Appends rows without headers.
    #[inline(never)]
    pub fn push_none(&mut self, rows: usize) {
        self.ends
            .resize(self.rows() + rows, self.names.len() as u32);
    }

    /// Appends a row with these.
    pub fn push<'a>(&mut self, headers: impl IntoIterator<Item = Header<'a>>) {
        self.push_none(1);
        for header in headers {
            self.add(header);
        }
    }

    /// Adds a header to the last row, of which there must be one.
    #[inline(never)]
    pub fn add(&mut self, (name, contents): Header<'_>) {
        self.names.push(Some(name));
        self.contents.push(contents);
        *self.ends.last_mut().expect("there is a row to add to") += 1;
    }

    /// Appends all rows of `other`.
    pub fn extend(&mut self, other: &Headers) {
        let before = self.names.len() as u32;
        self.ends.extend(other.ends.iter().map(|end| before + end));
        self.names.extend(&other.names);
        self.contents.extend(&other.contents);
    }

    /// The rows that `origins` names.
    pub fn gather(&self, origins: &[u32]) -> Headers {
        let mut out = Headers::default();
        out.ends.reserve(origins.len());
        for origin in origins {
            out.push(self.of(*origin as usize));
        }
        out
    }

    /// Makes it the column of no rows, and keeps its memory.
    pub fn clear(&mut self) {
        self.ends.clear();
        self.names.clear();
        self.contents.clear();
    }

    /// The column, lent to a guest's call.
    pub fn lent(&self) -> HeadersRef<'_> {
        HeadersRef {
            ends: &self.ends,
            names: ColumnRef {
                offsets: &self.names.offsets,
                data: &self.names.data,
            },
            contents: NullableRef {
                present: &self.contents.present,
                offsets: &self.contents.offsets,
                data: &self.contents.data,
            },
        }
    }

    /// The column as a batch has it: none if no row has a header.
    pub fn into_column(self) -> Option<Box<Headers>> {
        (!self.is_empty()).then(|| Box::new(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(headers: &Headers) -> Vec<Vec<Header<'_>>> {
        (0..headers.rows())
            .map(|row| headers.of(row).collect())
            .collect()
    }

    const TWICE: [Header<'_>; 3] = [(b"a", Some(b"1")), (b"a", None), (b"", Some(b""))];

    #[test]
    fn order_repetitions_nulls_and_empty_ones_are_kept() {
        let mut headers = Headers::default();
        headers.push([]);
        headers.push(TWICE);
        headers.push([(&b"\xff"[..], Some(&b"\0"[..]))]);
        let expected = [
            vec![],
            TWICE.to_vec(),
            vec![(&b"\xff"[..], Some(&b"\0"[..]))],
        ];
        assert_eq!(rows(&headers), expected);
        assert_eq!(rows(&headers.gather(&[1, 0, 1])), [&TWICE[..], &[], &TWICE]);
    }

    #[test]
    fn a_row_counts_for_what_all_count_for_less_the_others() {
        let mut headers = Headers::none(1);
        headers.push(TWICE);
        headers.push([(&b"name"[..], None)]);
        let of = [0, 3 + 3 * HEADER_BYTES, 4 + HEADER_BYTES];
        assert_eq!([0, 1, 2].map(|row| headers.bytes_of(row)), of);
        assert_eq!(headers.bytes(), of.iter().sum::<usize>());
    }

    #[test]
    fn a_column_without_a_header_is_none() {
        assert_eq!(Headers::none(3).into_column(), None);
        let mut headers = Headers::none(2);
        headers.add((b"a", None));
        let column = headers.clone().into_column().expect("it has one");
        assert_eq!(*column, headers);
        headers.clear();
        assert_eq!(headers, Headers::default());
    }
}
