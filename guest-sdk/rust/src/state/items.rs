//! Items state: a list a key, or a key and namespace, that is appended to and read whole.

use std::collections::BTreeMap;

use crate::bindings::weir::operator::state::Cells;
use crate::bindings::weir::operator::types::Column;
use crate::codec::Codec;
use crate::context::Context;
use crate::fault::Result;
use crate::host::Host;

super::handle! {
    /// A list a key. Made by [`Setup::items`](crate::Setup::items).
    Items<T>
}

impl<T: Codec> Items<T> {
    /// Appends an item to the current key's list.
    ///
    /// # Errors
    ///
    /// An item that `T` cannot write, or a call that has no key.
    pub fn push(&self, cx: &mut Context, item: &T) -> Result {
        self.at(b"").push(cx, item)
    }

    /// The current key's list, in the order in which it was appended. This is a call to the host, and
    /// stores what is pending of this state.
    ///
    /// # Errors
    ///
    /// Bytes that `T` cannot read, or a call that has no key.
    pub fn read(&self, cx: &mut Context) -> Result<Vec<T>> {
        self.at(b"").read(cx)
    }

    /// Empties the current key's list.
    ///
    /// # Errors
    ///
    /// A call that has no key.
    pub fn clear(&self, cx: &mut Context) -> Result {
        self.at(b"").clear(cx)
    }

    /// Renews the time to live, where the state declares that access renews it.
    ///
    /// # Errors
    ///
    /// A call that has no key.
    pub fn touch(&self, cx: &mut Context) -> Result {
        self.at(b"").touch(cx)
    }

    /// The list of the current key in a namespace, such as a window.
    pub fn at<'a>(&self, namespace: &'a (impl AsRef<[u8]> + ?Sized)) -> ItemsAt<'a, T> {
        ItemsAt {
            state: *self,
            namespace: namespace.as_ref(),
        }
    }
}

/// The list of the current key in a namespace; the empty namespace is the absent one.
#[derive(Clone, Copy, Debug)]
pub struct ItemsAt<'a, T> {
    state: Items<T>,
    namespace: &'a [u8],
}

impl<T: Codec> ItemsAt<'_, T> {
    /// Appends an item.
    ///
    /// # Errors
    ///
    /// An item that `T` cannot write, or a call that has no key.
    pub fn push(&self, cx: &mut Context, item: &T) -> Result {
        let key = cx.keyed()?;
        cx.items[self.state.slot]
            .log(self.namespace)
            .append(key, self.namespace, |bytes| item.encode(bytes))?;
        cx.effects = true;
        Ok(())
    }

    /// The list, in the order in which it was appended. This is a call to the host, and stores what is
    /// pending of this state.
    ///
    /// # Errors
    ///
    /// Bytes that `T` cannot read, or a call that has no key.
    pub fn read(&self, cx: &mut Context) -> Result<Vec<T>> {
        let key = cx.keyed()?;
        let cells = &mut cx.items[self.state.slot];
        cells.flush(&mut *cx.host);
        let lists = cx
            .host
            .get_items(cells.state, &Cells::one(key, self.namespace));
        lists.items.iter().map(T::decode).collect()
    }

    /// Empties the list.
    ///
    /// # Errors
    ///
    /// A call that has no key.
    pub fn clear(&self, cx: &mut Context) -> Result {
        let key = cx.keyed()?;
        cx.items[self.state.slot]
            .log(self.namespace)
            .clear(key, self.namespace);
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
        cx.items[self.state.slot]
            .log(self.namespace)
            .touched
            .push(key, self.namespace);
        cx.effects = true;
        Ok(())
    }
}

/// What is pending of one items state.
#[derive(Debug)]
pub(crate) struct ItemCells {
    state: u32,
    plain: Log,
    spaced: Log,
}

impl ItemCells {
    pub(crate) fn new(state: u32) -> ItemCells {
        ItemCells {
            state,
            plain: Log::new(Cells::plain),
            spaced: Log::new(Cells::spaced),
        }
    }

    pub(crate) fn begin(&mut self) {
        self.plain.forget();
        self.spaced.forget();
    }

    fn log(&mut self, namespace: &[u8]) -> &mut Log {
        if namespace.is_empty() {
            &mut self.plain
        } else {
            &mut self.spaced
        }
    }

    /// Stores what is pending.
    pub(crate) fn flush(&mut self, host: &mut dyn Host) {
        self.plain.flush(self.state, host);
        self.spaced.flush(self.state, host);
    }
}

/// Appends in their order, and clears with the number of appends that came before them.
#[derive(Debug)]
struct Log {
    new_cells: fn() -> Cells,
    at: Cells,
    items: Column,
    cleared: Cells,
    appends_before: Vec<usize>,
    touched: Cells,
}

impl Log {
    fn new(new_cells: fn() -> Cells) -> Log {
        Log {
            new_cells,
            at: new_cells(),
            items: Column::empty(),
            cleared: new_cells(),
            appends_before: Vec::new(),
            touched: new_cells(),
        }
    }

    fn forget(&mut self) {
        self.at.clear();
        self.items.clear();
        self.cleared.clear();
        self.appends_before.clear();
        self.touched.clear();
    }

    fn append(
        &mut self,
        key: u32,
        namespace: &[u8],
        encode: impl FnOnce(&mut Vec<u8>) -> Result,
    ) -> Result {
        let start = self.items.data.len();
        if let Err(fault) = encode(&mut self.items.data) {
            self.items.data.truncate(start);
            return Err(fault);
        }
        self.items.end_row();
        self.at.push(key, namespace);
        Ok(())
    }

    fn clear(&mut self, key: u32, namespace: &[u8]) {
        self.cleared.push(key, namespace);
        self.appends_before.push(self.at.keys.len());
    }

    fn flush(&mut self, state: u32, host: &mut dyn Host) {
        if !self.cleared.keys.is_empty() {
            host.clear(state, &self.cleared);
            self.drop_cleared();
        }
        if !self.at.keys.is_empty() {
            host.append(state, &self.at, &self.items);
        }
        if !self.touched.keys.is_empty() {
            host.touch(state, &self.touched);
        }
        self.forget();
    }

    /// A clear supersedes what was appended to its cell before.
    fn drop_cleared(&mut self) {
        let mut from = BTreeMap::new();
        for (row, &appends) in self.appends_before.iter().enumerate() {
            from.insert(
                (self.cleared.keys[row], self.cleared.namespace(row)),
                appends,
            );
        }
        let mut at = (self.new_cells)();
        let mut items = Column::empty();
        for (row, &key) in self.at.keys.iter().enumerate() {
            let namespace = self.at.namespace(row);
            if from
                .get(&(key, namespace))
                .is_none_or(|&appends| row >= appends)
            {
                at.push(key, namespace);
                items.push(self.items.row(row));
            }
        }
        self.at = at;
        self.items = items;
    }
}
