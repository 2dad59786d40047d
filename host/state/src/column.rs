//! Columns of byte strings, the layout in which a batch crosses the component boundary.
//!
//! A column of n rows has n + 1 offsets, from 0 to the length of the data, never decreasing. A
//! nullable column has in addition a byte a row, 1 for present and 0 for null; no bytes at all mean
//! that nothing is null. Null and empty are different. Columns that come from a guest are checked
//! before they get here; a malformed one may panic.

/// A borrowed column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnRef<'a> {
    /// n + 1 offsets into `data`.
    pub offsets: &'a [u32],
    /// The rows, one after the other.
    pub data: &'a [u8],
}

impl<'a> ColumnRef<'a> {
    /// The number of rows.
    pub fn len(self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are no rows.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// A row.
    pub fn get(self, row: usize) -> &'a [u8] {
        &self.data[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    /// All rows in order.
    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        (0..self.len()).map(move |row| self.get(row))
    }
}

/// A borrowed nullable column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NullableRef<'a> {
    /// Empty if nothing is null, else a byte a row.
    pub present: &'a [u8],
    /// n + 1 offsets into `data`; a null row is empty there.
    pub offsets: &'a [u32],
    /// The rows, one after the other.
    pub data: &'a [u8],
}

impl<'a> NullableRef<'a> {
    /// The number of rows.
    pub fn len(self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are no rows.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// A row, or null.
    pub fn get(self, row: usize) -> Option<&'a [u8]> {
        let present = self.present.is_empty() || self.present[row] != 0;
        present.then(|| &self.data[self.offsets[row] as usize..self.offsets[row + 1] as usize])
    }

    /// All rows in order.
    pub fn iter(self) -> impl Iterator<Item = Option<&'a [u8]>> {
        (0..self.len()).map(move |row| self.get(row))
    }
}

impl<'a> From<ColumnRef<'a>> for NullableRef<'a> {
    fn from(column: ColumnRef<'a>) -> Self {
        NullableRef {
            present: &[],
            offsets: column.offsets,
            data: column.data,
        }
    }
}

/// An owned column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// n + 1 offsets into `data`.
    pub offsets: Vec<u32>,
    /// The rows, one after the other.
    pub data: Vec<u8>,
}

impl Column {
    /// A column without rows.
    pub fn new() -> Column {
        Column {
            offsets: vec![0],
            data: Vec::new(),
        }
    }

    /// Borrows it.
    pub fn as_ref(&self) -> ColumnRef<'_> {
        ColumnRef {
            offsets: &self.offsets,
            data: &self.data,
        }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.as_ref().len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A row.
    pub fn get(&self, row: usize) -> &[u8] {
        self.as_ref().get(row)
    }

    /// All rows in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.as_ref().iter()
    }

    /// Appends a row.
    ///
    /// # Panics
    /// If the data outgrows 4 GiB, which no batch and no call's budget allows.
    pub fn push(&mut self, row: &[u8]) {
        self.data.extend_from_slice(row);
        self.offsets.push(end(&self.data));
    }

    /// Removes all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.offsets.clear();
        self.offsets.push(0);
        self.data.clear();
    }
}

impl Default for Column {
    fn default() -> Self {
        Column::new()
    }
}

impl<T: AsRef<[u8]>> FromIterator<T> for Column {
    fn from_iter<I: IntoIterator<Item = T>>(rows: I) -> Self {
        let mut column = Column::new();
        rows.into_iter().for_each(|row| column.push(row.as_ref()));
        column
    }
}

/// An owned nullable column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nullable {
    /// Empty if nothing is null, else a byte a row.
    pub present: Vec<u8>,
    /// n + 1 offsets into `data`; a null row is empty there.
    pub offsets: Vec<u32>,
    /// The rows, one after the other.
    pub data: Vec<u8>,
}

impl Nullable {
    /// A column without rows.
    pub fn new() -> Nullable {
        Nullable {
            present: Vec::new(),
            offsets: vec![0],
            data: Vec::new(),
        }
    }

    /// Borrows it.
    pub fn as_ref(&self) -> NullableRef<'_> {
        NullableRef {
            present: &self.present,
            offsets: &self.offsets,
            data: &self.data,
        }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.as_ref().len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A row, or null.
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        self.as_ref().get(row)
    }

    /// All rows in order.
    pub fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.as_ref().iter()
    }

    /// Appends a row or a null.
    ///
    /// # Panics
    /// If the data outgrows 4 GiB, which no batch and no call's budget allows.
    pub fn push(&mut self, row: Option<&[u8]>) {
        if row.is_none() && self.present.is_empty() {
            self.present.resize(self.len(), 1);
            self.present.push(0);
        } else if !self.present.is_empty() {
            self.present.push(u8::from(row.is_some()));
        }
        self.data.extend_from_slice(row.unwrap_or_default());
        self.offsets.push(end(&self.data));
    }

    /// Removes all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.present.clear();
        self.offsets.clear();
        self.offsets.push(0);
        self.data.clear();
    }
}

impl Default for Nullable {
    fn default() -> Self {
        Nullable::new()
    }
}

impl<T: AsRef<[u8]>> FromIterator<Option<T>> for Nullable {
    fn from_iter<I: IntoIterator<Item = Option<T>>>(rows: I) -> Self {
        let mut column = Nullable::new();
        rows.into_iter()
            .for_each(|row| column.push(row.as_ref().map(AsRef::as_ref)));
        column
    }
}

fn end(data: &[u8]) -> u32 {
    u32::try_from(data.len()).expect("a column holds less than 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_and_empty_differ_and_a_late_null_marks_the_rows_before_it_present() {
        let mut column = Nullable::new();
        column.push(Some(b"a"));
        column.push(Some(b""));
        assert!(column.present.is_empty());
        column.push(None);
        column.push(Some(b"bc"));
        assert_eq!(column.present, [1, 1, 0, 1]);
        assert_eq!(column.offsets, [0, 1, 1, 1, 3]);
        assert_eq!(
            column.iter().collect::<Vec<_>>(),
            [Some(&b"a"[..]), Some(b""), None, Some(b"bc")]
        );
        column.clear();
        assert_eq!(column, Nullable::new());
    }

    #[test]
    fn the_first_row_may_be_null() {
        let column: Nullable = [None, Some("x")].into_iter().collect();
        assert_eq!(column.present, [0, 1]);
        assert_eq!((column.get(0), column.get(1)), (None, Some(&b"x"[..])));
    }

    #[test]
    fn a_column_gives_back_its_rows_and_views_as_nullable_without_nulls() {
        let column: Column = ["", "ab", "c"].into_iter().collect();
        assert_eq!(column.iter().collect::<Vec<_>>(), [&b""[..], b"ab", b"c"]);
        let nullable = NullableRef::from(column.as_ref());
        assert_eq!((nullable.len(), nullable.get(0)), (3, Some(&b""[..])));
        assert_eq!((Column::new().len(), Column::new().is_empty()), (0, true));
    }
}
