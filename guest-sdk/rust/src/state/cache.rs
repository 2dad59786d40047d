//! What a call knows of cells that are addressed by more than their key.

use std::collections::BTreeMap;

/// One cell or entry: its bytes, if there are any, and whether the host has them already.
#[derive(Debug)]
pub(crate) struct Cached {
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) dirty: bool,
}

/// Cells by key and path (a namespace, or a namespace and an entry's name). Ordered, so that what is
/// stored is the same in every run.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    keys: BTreeMap<u32, BTreeMap<Vec<u8>, Cached>>,
    dirty: bool,
}

impl Cache {
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.dirty = false;
    }

    pub(crate) fn find(&self, key: u32, path: &[u8]) -> Option<&Cached> {
        self.keys.get(&key)?.get(path)
    }

    /// Notes what the host answered; what was written since stays.
    pub(crate) fn loaded(&mut self, key: u32, path: &[u8], value: Option<&[u8]>) {
        let cells = self.keys.entry(key).or_default();
        if !cells.contains_key(path) {
            cells.insert(
                path.to_vec(),
                Cached {
                    value: value.map(<[u8]>::to_vec),
                    dirty: false,
                },
            );
        }
    }

    pub(crate) fn write(&mut self, key: u32, path: &[u8], value: Option<Vec<u8>>) {
        self.dirty = true;
        let cells = self.keys.entry(key).or_default();
        match cells.get_mut(path) {
            Some(cached) => *cached = Cached { value, dirty: true },
            None => {
                cells.insert(path.to_vec(), Cached { value, dirty: true });
            }
        }
    }

    /// Forgets the cells of a key whose path begins with `prefix`, written or not.
    pub(crate) fn forget(&mut self, key: u32, prefix: &[u8]) {
        if let Some(cells) = self.keys.get_mut(&key) {
            cells.retain(|path, _| !path.starts_with(prefix));
        }
    }

    /// Hands each written cell to `store`, in order, and counts it as stored.
    pub(crate) fn drain(&mut self, mut store: impl FnMut(u32, &[u8], Option<&[u8]>)) {
        if !self.dirty {
            return;
        }
        self.dirty = false;
        for (&key, cells) in &mut self.keys {
            for (path, cached) in cells.iter_mut().filter(|(_, cached)| cached.dirty) {
                cached.dirty = false;
                store(key, path, cached.value.as_deref());
            }
        }
    }
}
