//! Value state: at most one value a key, or a key and namespace.

use crate::bindings::weir::operator::state::Cells;
use crate::bindings::weir::operator::types::{Column, Nullable};
use crate::codec::Codec;
use crate::context::Context;
use crate::fault::Result;
use crate::host::Host;

use super::cache::Cache;

super::handle! {
    /// One value a key. Made by [`Setup::value`](crate::Setup::value).
    Value<T>
}

impl<T: Codec> Value<T> {
    /// The current key's value; `None` if there is none, or it has expired.
    ///
    /// The first read of a call loads the values of all its keys.
    ///
    /// # Errors
    ///
    /// Bytes that `T` cannot read, or a call that has no key.
    #[inline]
    pub fn get(&self, cx: &mut Context) -> Result<Option<T>> {
        let key = cx.keyed()?;
        match cx.values[self.slot].read(key, cx.keys, &mut *cx.host) {
            Some(bytes) => T::decode(bytes).map(Some),
            None => Ok(None),
        }
    }

    /// Sets the current key's value.
    ///
    /// # Errors
    ///
    /// A value that `T` cannot write, or a call that has no key.
    #[inline]
    pub fn set(&self, cx: &mut Context, value: &T) -> Result {
        let key = cx.keyed()?;
        cx.values[self.slot].write(key, |bytes| value.encode(bytes))?;
        cx.effects = true;
        Ok(())
    }

    /// Removes the current key's value.
    ///
    /// # Errors
    ///
    /// A call that has no key.
    pub fn clear(&self, cx: &mut Context) -> Result {
        let key = cx.keyed()?;
        cx.values[self.slot].remove(key);
        cx.effects = true;
        Ok(())
    }

    /// Renews the time to live, where the state declares that access renews it.
    ///
    /// # Errors
    ///
    /// A call that has no key.
    pub fn touch(&self, cx: &mut Context) -> Result {
        self.at(b"").touch(cx)
    }

    /// The value of the current key in a namespace, such as a window.
    pub fn at<'a>(&self, namespace: &'a (impl AsRef<[u8]> + ?Sized)) -> ValueAt<'a, T> {
        ValueAt {
            state: *self,
            namespace: namespace.as_ref(),
        }
    }

    pub(crate) fn want(&self, cx: &mut Context, namespace: &[u8]) {
        cx.values[self.slot].want(cx.key, namespace);
    }
}

/// The value of the current key in a namespace; the empty namespace is the absent one.
#[derive(Clone, Copy, Debug)]
pub struct ValueAt<'a, T> {
    state: Value<T>,
    namespace: &'a [u8],
}

impl<T: Codec> ValueAt<'_, T> {
    /// The value; `None` if there is none, or it has expired.
    ///
    /// # Errors
    ///
    /// Bytes that `T` cannot read, or a call that has no key.
    pub fn get(&self, cx: &mut Context) -> Result<Option<T>> {
        if self.namespace.is_empty() {
            return self.state.get(cx);
        }
        let key = cx.keyed()?;
        let cells = &mut cx.values[self.state.slot];
        match cells.read_at(key, self.namespace, &cx.namespaces, &mut *cx.host) {
            Some(bytes) => T::decode(bytes).map(Some),
            None => Ok(None),
        }
    }

    /// Sets the value.
    ///
    /// # Errors
    ///
    /// A value that `T` cannot write, or a call that has no key.
    pub fn set(&self, cx: &mut Context, value: &T) -> Result {
        if self.namespace.is_empty() {
            return self.state.set(cx, value);
        }
        let key = cx.keyed()?;
        let mut bytes = Vec::new();
        value.encode(&mut bytes)?;
        cx.values[self.state.slot]
            .spaced
            .write(key, self.namespace, Some(bytes));
        cx.effects = true;
        Ok(())
    }

    /// Removes the value.
    ///
    /// # Errors
    ///
    /// A call that has no key.
    pub fn clear(&self, cx: &mut Context) -> Result {
        if self.namespace.is_empty() {
            return self.state.clear(cx);
        }
        let key = cx.keyed()?;
        cx.values[self.state.slot]
            .spaced
            .write(key, self.namespace, None);
        cx.effects = true;
        Ok(())
    }

    /// Renews the time to live, where the state declares that access renews it.
    ///
    /// # Errors
    ///
    /// A call that has no key.
    pub fn touch(&self, cx: &mut Context) -> Result {
        let key = cx.keyed()?;
        let cells = &mut cx.values[self.state.slot];
        let touched = if self.namespace.is_empty() {
            &mut cells.touched
        } else {
            &mut cells.touched_spaced
        };
        touched.push(key, self.namespace);
        cx.effects = true;
        Ok(())
    }
}

/// What a call knows of one value state.
///
/// The values of keys without a namespace are two columns: the one that the host loaded, by key
/// index, and the one that will be stored, built in place. `written` maps a key index to its row in
/// the latter, plus one.
#[derive(Debug)]
pub(crate) struct ValueCells {
    state: u32,
    loaded: Option<Nullable>,
    written: Vec<u32>,
    at: Cells,
    pending: Nullable,
    /// Rows of `pending` that a later row of the same key replaced.
    stale: usize,
    spaced: Cache,
    wanted: Vec<(u32, Vec<u8>)>,
    touched: Cells,
    touched_spaced: Cells,
}

impl ValueCells {
    pub(crate) fn new(state: u32) -> ValueCells {
        ValueCells {
            state,
            loaded: None,
            written: Vec::new(),
            at: Cells::plain(),
            pending: Nullable::empty(),
            stale: 0,
            spaced: Cache::default(),
            wanted: Vec::new(),
            touched: Cells::plain(),
            touched_spaced: Cells::spaced(),
        }
    }

    /// Forgets the last call; the next has this many keys.
    pub(crate) fn begin(&mut self, keys: u32) {
        self.loaded = None;
        self.written.clear();
        self.written.resize(keys as usize, 0);
        self.forget_pending();
        self.spaced.clear();
        self.wanted.clear();
        self.touched.clear();
        self.touched_spaced.clear();
    }

    fn forget_pending(&mut self) {
        self.at.clear();
        self.pending.clear();
        self.stale = 0;
    }

    #[inline]
    fn read(&mut self, key: u32, keys: u32, host: &mut dyn Host) -> Option<&[u8]> {
        match self.written[key as usize] {
            0 => {
                if self.loaded.is_none() {
                    self.load(keys, host);
                }
                self.loaded.as_ref()?.row(key as usize)
            }
            row => self.pending.row(row as usize - 1),
        }
    }

    #[cold]
    fn load(&mut self, keys: u32, host: &mut dyn Host) {
        let all = Cells {
            keys: (0..keys).collect(),
            namespaces: None,
        };
        self.loaded = Some(host.get(self.state, &all));
    }

    #[inline]
    fn write(&mut self, key: u32, encode: impl FnOnce(&mut Vec<u8>) -> Result) -> Result {
        let start = self.pending.data.len();
        if let Err(fault) = encode(&mut self.pending.data) {
            self.pending.data.truncate(start);
            return Err(fault);
        }
        let written = self.written[key as usize];
        if written != 0 {
            // Most encodings of a state have one length: write over the key's earlier row.
            let row = written as usize - 1;
            let from = self.pending.offsets[row] as usize;
            let to = self.pending.offsets[row + 1] as usize;
            if to - from == self.pending.data.len() - start && self.pending.row(row).is_some() {
                self.pending.data.copy_within(start.., from);
                self.pending.data.truncate(start);
                return Ok(());
            }
            self.stale += 1;
        }
        self.pending.end_row();
        self.note_row(key);
        Ok(())
    }

    fn remove(&mut self, key: u32) {
        self.stale += usize::from(self.written[key as usize] != 0);
        self.pending.push_null();
        self.note_row(key);
    }

    #[inline]
    fn note_row(&mut self, key: u32) {
        self.at.keys.push(key);
        self.written[key as usize] = self.at.keys.len() as u32;
    }

    /// `firing` has the namespaces of the timers that fire in this call, by key index, or no rows.
    fn read_at(
        &mut self,
        key: u32,
        namespace: &[u8],
        firing: &Column,
        host: &mut dyn Host,
    ) -> Option<&[u8]> {
        if self.spaced.find(key, namespace).is_none() {
            if (key as usize) < firing.rows() && firing.row(key as usize) == namespace {
                for (key, namespace) in (0..)
                    .zip(firing.iter())
                    .filter(|(_, namespace)| !namespace.is_empty())
                {
                    self.want(key, namespace);
                }
            } else {
                self.want(key, namespace);
            }
            self.load_wanted(host);
        }
        self.spaced.find(key, namespace)?.value.as_deref()
    }

    fn want(&mut self, key: u32, namespace: &[u8]) {
        self.wanted.push((key, namespace.to_vec()));
    }

    pub(crate) fn load_wanted(&mut self, host: &mut dyn Host) {
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.sort_unstable();
        wanted.dedup();
        let mut at = Cells::spaced();
        for (key, namespace) in &wanted {
            at.push(*key, namespace);
        }
        if !at.keys.is_empty() {
            let found = host.get(self.state, &at);
            for (row, (key, namespace)) in wanted.iter().enumerate() {
                self.spaced.loaded(*key, namespace, found.row(row));
            }
        }
    }

    /// Stores what is pending.
    pub(crate) fn flush(&mut self, host: &mut dyn Host) {
        if self.stale > 0 {
            self.drop_stale();
        }
        if !self.at.keys.is_empty() {
            host.put(self.state, &self.at, &self.pending);
        }
        let mut at = Cells::spaced();
        let mut values = Nullable::empty();
        self.spaced.drain(|key, namespace, value| {
            at.push(key, namespace);
            values.push(value);
        });
        if !at.keys.is_empty() {
            host.put(self.state, &at, &values);
        }
        for touched in [&self.touched, &self.touched_spaced] {
            if !touched.keys.is_empty() {
                host.touch(self.state, touched);
            }
        }
    }

    /// A cell is stored once: keeps the last row of each key.
    fn drop_stale(&mut self) {
        let mut at = Cells::plain();
        let mut pending = Nullable::empty();
        for (row, &key) in self.at.keys.iter().enumerate() {
            if self.written[key as usize] as usize == row + 1 {
                at.keys.push(key);
                pending.push(self.pending.row(row));
            }
        }
        self.at = at;
        self.pending = pending;
        self.stale = 0;
    }
}
