//! Entries state: a map a key, or a key and namespace, whose names are ordered.

use std::collections::BTreeSet;

use crate::bindings::weir::operator::state::Cells;
use crate::bindings::weir::operator::types::{Column, Nullable};
use crate::codec::{Codec, EntryName};
use crate::context::Context;
use crate::fault::Result;
use crate::host::Host;

use super::cache::Cache;

/// Entries a page of a scan asks for.
const PAGE: u32 = 1_024;

super::handle! {
    /// A map a key. Made by [`Setup::entries`](crate::Setup::entries).
    Entries<N, T>
}

impl<N: EntryName, T: Codec> Entries<N, T> {
    /// The entry of this name in the current key's map; `None` if there is none, or it has expired.
    ///
    /// # Errors
    ///
    /// Bytes that `T` cannot read, or a call that has no key.
    pub fn get(&self, cx: &mut Context, name: N::Ref<'_>) -> Result<Option<T>> {
        self.at(b"").get(cx, name)
    }

    /// Sets the entry of this name in the current key's map.
    ///
    /// # Errors
    ///
    /// A value that `T` cannot write, or a call that has no key.
    pub fn set(&self, cx: &mut Context, name: N::Ref<'_>, value: &T) -> Result {
        self.at(b"").set(cx, name, value)
    }

    /// Removes the entry of this name from the current key's map.
    ///
    /// # Errors
    ///
    /// A call that has no key.
    pub fn remove(&self, cx: &mut Context, name: N::Ref<'_>) -> Result {
        self.at(b"").remove(cx, name)
    }

    /// Reads a range of the current key's map, in the order of the names. This is a call to the host a
    /// page, and stores what is pending of this state.
    ///
    /// # Errors
    ///
    /// Bytes that `N` or `T` cannot read, or a call that has no key.
    pub fn scan(&self, cx: &mut Context, range: Range<'_, N>) -> Result<Vec<(N, T)>> {
        self.at(b"").scan(cx, range)
    }

    /// Removes all entries of the current key's map.
    ///
    /// # Errors
    ///
    /// A call that has no key.
    pub fn clear(&self, cx: &mut Context) -> Result {
        self.at(b"").clear(cx)
    }

    /// Removes the entries of a range of the current key's map; see [`EntriesAt::clear_range`].
    ///
    /// # Errors
    ///
    /// A call that has no key.
    pub fn clear_range(&self, cx: &mut Context, range: Range<'_, N>) -> Result {
        self.at(b"").clear_range(cx, range)
    }

    /// Renews the time to live, where the state declares that access renews it.
    ///
    /// # Errors
    ///
    /// A call that has no key.
    pub fn touch(&self, cx: &mut Context) -> Result {
        self.at(b"").touch(cx)
    }

    /// The map of the current key in a namespace, such as a window.
    pub fn at<'a>(&self, namespace: &'a (impl AsRef<[u8]> + ?Sized)) -> EntriesAt<'a, N, T> {
        EntriesAt {
            state: *self,
            namespace: namespace.as_ref(),
        }
    }

    pub(crate) fn want(&self, cx: &mut Context, namespace: &[u8], name: N::Ref<'_>) {
        let key = cx.key;
        cx.entries[self.slot].want(key, namespace, |bytes| N::encode(name, bytes));
    }
}

/// Which entries a scan or a removal is about: from `start` on, before `end`.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a, N: EntryName> {
    start: Option<N::Ref<'a>>,
    end: Option<N::Ref<'a>>,
    descending: bool,
    limit: usize,
}

impl<'a, N: EntryName> Range<'a, N> {
    /// All entries, in ascending order of their names.
    pub fn all() -> Self {
        Range {
            start: None,
            end: None,
            descending: false,
            limit: usize::MAX,
        }
    }

    /// Leaves out the names before this one.
    pub fn from(mut self, start: N::Ref<'a>) -> Self {
        self.start = Some(start);
        self
    }

    /// Leaves out this name and those after it.
    pub fn to(mut self, end: N::Ref<'a>) -> Self {
        self.end = Some(end);
        self
    }

    /// Reads from the last name to the first.
    pub fn descending(mut self) -> Self {
        self.descending = true;
        self
    }

    /// Reads this many entries at most.
    pub fn limit(mut self, entries: usize) -> Self {
        self.limit = entries;
        self
    }

    fn bounds(&self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let bytes = |name: N::Ref<'a>| {
            let mut bytes = Vec::new();
            N::encode(name, &mut bytes);
            bytes
        };
        (self.start.map(bytes), self.end.map(bytes))
    }
}

/// The map of the current key in a namespace; the empty namespace is the absent one.
#[derive(Clone, Copy, Debug)]
pub struct EntriesAt<'a, N, T> {
    state: Entries<N, T>,
    namespace: &'a [u8],
}

impl<N: EntryName, T: Codec> EntriesAt<'_, N, T> {
    /// The entry of this name; `None` if there is none, or it has expired.
    ///
    /// # Errors
    ///
    /// Bytes that `T` cannot read, or a call that has no key.
    pub fn get(&self, cx: &mut Context, name: N::Ref<'_>) -> Result<Option<T>> {
        let key = cx.keyed()?;
        let cells = &mut cx.entries[self.state.slot];
        match cells.read(
            key,
            self.namespace,
            |bytes| N::encode(name, bytes),
            &mut *cx.host,
        ) {
            Some(bytes) => T::decode(bytes).map(Some),
            None => Ok(None),
        }
    }

    /// Sets the entry of this name.
    ///
    /// # Errors
    ///
    /// A value that `T` cannot write, or a call that has no key.
    pub fn set(&self, cx: &mut Context, name: N::Ref<'_>, value: &T) -> Result {
        let key = cx.keyed()?;
        let mut bytes = Vec::new();
        value.encode(&mut bytes)?;
        cx.entries[self.state.slot].write(
            key,
            self.namespace,
            |bytes| N::encode(name, bytes),
            Some(bytes),
        );
        cx.effects = true;
        Ok(())
    }

    /// Removes the entry of this name.
    ///
    /// # Errors
    ///
    /// A call that has no key.
    pub fn remove(&self, cx: &mut Context, name: N::Ref<'_>) -> Result {
        let key = cx.keyed()?;
        cx.entries[self.state.slot].write(
            key,
            self.namespace,
            |bytes| N::encode(name, bytes),
            None,
        );
        cx.effects = true;
        Ok(())
    }

    /// Reads a range, in the order of the names. This is a call to the host a page, and stores what is
    /// pending of this state.
    ///
    /// # Errors
    ///
    /// Bytes that `N` or `T` cannot read, or a call that has no key.
    pub fn scan(&self, cx: &mut Context, range: Range<'_, N>) -> Result<Vec<(N, T)>> {
        let key = cx.keyed()?;
        let cells = &mut cx.entries[self.state.slot];
        cells.flush(&mut *cx.host);
        let at = Cells::one(key, self.namespace);
        let (mut start, mut end) = range.bounds();
        let mut entries = Vec::new();
        while entries.len() < range.limit {
            let limit = PAGE.min(u32::try_from(range.limit - entries.len()).unwrap_or(PAGE));
            let page = cx.host.scan(
                cells.state,
                &at,
                &bound(&start),
                &bound(&end),
                range.descending,
                limit,
            );
            for (name, value) in page.names.iter().zip(page.values.iter()) {
                entries.push((N::decode(name)?, T::decode(value)?));
            }
            if page.more.first().is_none_or(|&more| more == 0) || page.names.rows() == 0 {
                break;
            }
            let last = page.names.row(page.names.rows() - 1);
            if range.descending {
                end = Some(last.to_vec());
            } else {
                start = Some([last, &[0]].concat());
            }
        }
        Ok(entries)
    }

    /// Removes the entries of a range; its order and limit mean nothing here. Stores what is pending of
    /// this state.
    ///
    /// # Errors
    ///
    /// A call that has no key.
    pub fn clear_range(&self, cx: &mut Context, range: Range<'_, N>) -> Result {
        let key = cx.keyed()?;
        cx.effects = true;
        let cells = &mut cx.entries[self.state.slot];
        cells.flush(&mut *cx.host);
        let (start, end) = range.bounds();
        let at = Cells::one(key, self.namespace);
        cx.host
            .clear_entries(cells.state, &at, &bound(&start), &bound(&end));
        cells.forget(key, self.namespace);
        Ok(())
    }

    /// Removes all entries.
    ///
    /// # Errors
    ///
    /// A call that has no key.
    pub fn clear(&self, cx: &mut Context) -> Result {
        let key = cx.keyed()?;
        let cells = &mut cx.entries[self.state.slot];
        cells.forget(key, self.namespace);
        cells.cleared.insert((key, self.namespace.to_vec()));
        cells.pending_clears = true;
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
        cx.entries[self.state.slot]
            .touched
            .insert((key, self.namespace.to_vec()));
        cx.effects = true;
        Ok(())
    }
}

fn bound(name: &Option<Vec<u8>>) -> Nullable {
    let mut bound = Nullable::empty();
    bound.push(name.as_deref());
    bound
}

/// What a call knows of one entries state. A path is the namespace's length, the namespace and the
/// entry's name.
#[derive(Debug)]
pub(crate) struct EntryCells {
    state: u32,
    cache: Cache,
    path: Vec<u8>,
    wanted: Vec<(u32, Vec<u8>)>,
    /// Cells that this call has cleared: what is not in the cache is known to be absent.
    cleared: BTreeSet<(u32, Vec<u8>)>,
    pending_clears: bool,
    touched: BTreeSet<(u32, Vec<u8>)>,
}

impl EntryCells {
    pub(crate) fn new(state: u32) -> EntryCells {
        EntryCells {
            state,
            cache: Cache::default(),
            path: Vec::new(),
            wanted: Vec::new(),
            cleared: BTreeSet::new(),
            pending_clears: false,
            touched: BTreeSet::new(),
        }
    }

    pub(crate) fn begin(&mut self) {
        self.cache.clear();
        self.wanted.clear();
        self.cleared.clear();
        self.pending_clears = false;
        self.touched.clear();
    }

    fn set_path(&mut self, namespace: &[u8], name: impl FnOnce(&mut Vec<u8>)) {
        self.path.clear();
        self.path
            .extend_from_slice(&(namespace.len() as u32).to_le_bytes());
        self.path.extend_from_slice(namespace);
        name(&mut self.path);
    }

    fn read(
        &mut self,
        key: u32,
        namespace: &[u8],
        name: impl FnOnce(&mut Vec<u8>),
        host: &mut dyn Host,
    ) -> Option<&[u8]> {
        self.set_path(namespace, name);
        if self.cache.find(key, &self.path).is_none() {
            if self.cleared.contains(&(key, namespace.to_vec())) {
                return None;
            }
            self.wanted.push((key, self.path.clone()));
            self.load_wanted(host);
        }
        self.cache.find(key, &self.path)?.value.as_deref()
    }

    fn write(
        &mut self,
        key: u32,
        namespace: &[u8],
        name: impl FnOnce(&mut Vec<u8>),
        value: Option<Vec<u8>>,
    ) {
        self.set_path(namespace, name);
        self.cache.write(key, &self.path, value);
    }

    fn want(&mut self, key: u32, namespace: &[u8], name: impl FnOnce(&mut Vec<u8>)) {
        self.set_path(namespace, name);
        self.wanted.push((key, self.path.clone()));
    }

    pub(crate) fn load_wanted(&mut self, host: &mut dyn Host) {
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.sort_unstable();
        wanted.dedup();
        let (mut plain, mut spaced) = (Named::new(Cells::plain()), Named::new(Cells::spaced()));
        for (key, path) in &wanted {
            let (namespace, name) = split(path);
            let named = if namespace.is_empty() {
                &mut plain
            } else {
                &mut spaced
            };
            named.push(*key, namespace, name, None);
        }
        for named in [plain, spaced]
            .iter()
            .filter(|named| !named.at.keys.is_empty())
        {
            let found = host.get_entries(self.state, &named.at, &named.names);
            for (row, &key) in named.at.keys.iter().enumerate() {
                self.set_path(named.at.namespace(row), |path| {
                    path.extend_from_slice(named.names.row(row))
                });
                self.cache.loaded(key, &self.path, found.row(row));
            }
        }
    }

    fn forget(&mut self, key: u32, namespace: &[u8]) {
        self.set_path(namespace, |_| ());
        self.cache.forget(key, &self.path);
    }

    /// Stores what is pending: clears first, since what was written before them is forgotten.
    pub(crate) fn flush(&mut self, host: &mut dyn Host) {
        if std::mem::take(&mut self.pending_clears) {
            for cells in by_shape(&self.cleared) {
                host.clear(self.state, &cells);
            }
        }
        let (mut plain, mut spaced) = (Named::new(Cells::plain()), Named::new(Cells::spaced()));
        self.cache.drain(|key, path, value| {
            let (namespace, name) = split(path);
            let named = if namespace.is_empty() {
                &mut plain
            } else {
                &mut spaced
            };
            named.push(key, namespace, name, value);
        });
        for named in [plain, spaced]
            .iter()
            .filter(|named| !named.at.keys.is_empty())
        {
            host.put_entries(self.state, &named.at, &named.names, &named.values);
        }
        for cells in by_shape(&std::mem::take(&mut self.touched)) {
            host.touch(self.state, &cells);
        }
        // What the host holds now is no longer told apart from what it held before.
        self.cleared.clear();
    }
}

/// Entries of one call to the host.
struct Named {
    at: Cells,
    names: Column,
    values: Nullable,
}

impl Named {
    fn new(at: Cells) -> Named {
        Named {
            at,
            names: Column::empty(),
            values: Nullable::empty(),
        }
    }

    fn push(&mut self, key: u32, namespace: &[u8], name: &[u8], value: Option<&[u8]>) {
        self.at.push(key, namespace);
        self.names.push(name);
        self.values.push(value);
    }
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let (length, rest) = path
        .split_first_chunk::<4>()
        .expect("a path begins with its namespace's length");
    rest.split_at(u32::from_le_bytes(*length) as usize)
}

/// The cells with and without namespaces, which a call cannot mix, leaving out an empty one.
fn by_shape(cells: &BTreeSet<(u32, Vec<u8>)>) -> impl Iterator<Item = Cells> {
    let (mut plain, mut spaced) = (Cells::plain(), Cells::spaced());
    for (key, namespace) in cells {
        if namespace.is_empty() {
            &mut plain
        } else {
            &mut spaced
        }
        .push(*key, namespace);
    }
    [plain, spaced]
        .into_iter()
        .filter(|cells| !cells.keys.is_empty())
}
