//! The contract's columns, with the few operations that building and reading them in place needs.
//!
//! A column of n rows has n + 1 offsets that start at 0, also when n = 0. A nullable column may
//! leave `present` empty, which means that no row is null; the methods here keep it empty until the
//! first null arrives.

use crate::bindings::weir::operator::state::Cells;
use crate::bindings::weir::operator::types::{Column, Headers, Nullable};

impl Column {
    pub(crate) fn empty() -> Column {
        Column {
            offsets: vec![0],
            data: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    #[inline]
    pub(crate) fn row(&self, row: usize) -> &[u8] {
        &self.data[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
        self.end_row();
    }

    /// Makes a row of what was appended to `data` since the last one.
    #[inline]
    pub(crate) fn end_row(&mut self) {
        self.offsets.push(self.data.len() as u32);
    }

    pub(crate) fn clear(&mut self) {
        self.offsets.truncate(1);
        self.data.clear();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.rows()).map(|row| self.row(row))
    }
}

impl Nullable {
    pub(crate) fn empty() -> Nullable {
        Nullable {
            present: Vec::new(),
            offsets: vec![0],
            data: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    #[inline]
    pub(crate) fn row(&self, row: usize) -> Option<&[u8]> {
        if !self.present.is_empty() && self.present[row] == 0 {
            return None;
        }
        Some(&self.data[self.offsets[row] as usize..self.offsets[row + 1] as usize])
    }

    #[inline]
    pub(crate) fn push(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => {
                self.data.extend_from_slice(bytes);
                self.end_row();
            }
            None => self.push_null(),
        }
    }

    /// Makes a row of what was appended to `data` since the last one.
    #[inline]
    pub(crate) fn end_row(&mut self) {
        if !self.present.is_empty() {
            self.present.push(1);
        }
        self.offsets.push(self.data.len() as u32);
    }

    pub(crate) fn push_null(&mut self) {
        if self.present.is_empty() {
            self.present.resize(self.rows(), 1);
        }
        self.present.push(0);
        self.offsets.push(self.data.len() as u32);
    }

    pub(crate) fn clear(&mut self) {
        self.present.clear();
        self.offsets.truncate(1);
        self.data.clear();
    }
}

impl Headers {
    pub(crate) fn empty() -> Headers {
        Headers {
            ends: Vec::new(),
            names: Column::empty(),
            contents: Nullable::empty(),
        }
    }

    /// The headers of a row, in order.
    #[inline]
    pub(crate) fn row(&self, row: usize) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let first = match row {
            0 => 0,
            row => self.ends[row - 1],
        };
        (first as usize..self.ends[row] as usize)
            .map(|header| (self.names.row(header), self.contents.row(header)))
    }

    /// Appends a row with these.
    pub(crate) fn push<N: AsRef<[u8]>, C: AsRef<[u8]>>(
        &mut self,
        headers: impl IntoIterator<Item = (N, Option<C>)>,
    ) {
        for (name, contents) in headers {
            self.names.push(name.as_ref());
            self.contents.push(contents.as_ref().map(AsRef::as_ref));
        }
        self.ends.push(self.names.rows() as u32);
    }

    pub(crate) fn clear(&mut self) {
        self.ends.clear();
        self.names.clear();
        self.contents.clear();
    }
}

impl Cells {
    /// Cells without namespaces.
    pub(crate) fn plain() -> Cells {
        Cells {
            keys: Vec::new(),
            namespaces: None,
        }
    }

    /// Cells each of which has a namespace.
    pub(crate) fn spaced() -> Cells {
        Cells {
            keys: Vec::new(),
            namespaces: Some(Column::empty()),
        }
    }

    /// One cell. The empty namespace is the absent one.
    pub(crate) fn one(key: u32, namespace: &[u8]) -> Cells {
        let mut cells = if namespace.is_empty() {
            Cells::plain()
        } else {
            Cells::spaced()
        };
        cells.push(key, namespace);
        cells
    }

    #[inline]
    pub(crate) fn push(&mut self, key: u32, namespace: &[u8]) {
        self.keys.push(key);
        if let Some(namespaces) = &mut self.namespaces {
            namespaces.push(namespace);
        }
    }

    pub(crate) fn namespace(&self, row: usize) -> &[u8] {
        self.namespaces
            .as_ref()
            .map_or(&[], |namespaces| namespaces.row(row))
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        if let Some(namespaces) = &mut self.namespaces {
            namespaces.clear();
        }
    }
}
