//! Components in checkpoint storage: their bytes, and what they declared.
//!
//! A manifest names the component of every operator, and says what it declared, so that a start can tell whether another
//! one fits before it loads anything. The bytes lie in `components/<attempt>-<sha256>`: whoever has lost the file of a
//! running job finds it there.
//!
//! **Why the attempt is in the name.** Each attempt stores its components anew, before its first manifest, under names of its
//! own, and deletes only those of older attempts. If attempts shared a name, one that was replaced could, waking in the middle of its
//! collection, delete what its successor had found there and named in a manifest. As it is, what a woken attempt K
//! deletes is of an attempt before K and in no manifest that K retains; manifests of such attempts that a successor still
//! retains are among those, since the successor's log goes on from K's.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_operator::{Component, Description};

use super::snapshot::Digest;
use super::storage::{CheckpointStorage, Key};
use crate::fault_point;

/// The component of an operator, as a manifest names it. Kinds are spelled as in the contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComponentEntry {
    /// SHA-256 of its file.
    pub sha256: Digest,
    /// Kinds of its inputs, by name.
    pub inputs: BTreeMap<String, String>,
    /// Its states, by name.
    pub states: BTreeMap<String, StateEntry>,
    /// Time domains of its timers, by name.
    pub timers: BTreeMap<String, String>,
}

/// A state as an operator declared it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateEntry {
    /// What a cell holds.
    pub kind: String,
    /// Schema version of the values.
    pub version: u32,
}

impl ComponentEntry {
    /// Of a loaded component and what it declares under the job's configuration.
    pub fn of(component: &Component, description: &Description) -> ComponentEntry {
        let inputs = description.inputs.iter();
        let states = description.states.iter();
        let timers = description.timers.iter();
        ComponentEntry {
            sha256: Digest::parse(component.sha256()).expect("a SHA-256 in lower-case hex"),
            inputs: inputs
                .map(|input| (input.name.clone(), input.kind.to_string()))
                .collect(),
            states: states
                .map(|state| {
                    let entry = StateEntry {
                        kind: state.kind.to_string(),
                        version: state.version,
                    };
                    (state.name.clone(), entry)
                })
                .collect(),
            timers: timers
                .map(|timer| (timer.name.clone(), timer.domain.to_string()))
                .collect(),
        }
    }
}

/// What a component's name in checkpoint storage says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ComponentName {
    pub(super) attempt: u64,
    pub(super) digest: Digest,
}

impl fmt::Display for ComponentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.attempt, self.digest)
    }
}

impl ComponentName {
    /// `None` for anything else that may lie in the folder.
    pub(super) fn parse(text: &str) -> Option<ComponentName> {
        let (attempt, digest) = text.split_once('-')?;
        let name = ComponentName {
            attempt: attempt.parse().ok()?,
            digest: Digest::parse(digest)?,
        };
        (name.to_string() == text).then_some(name)
    }
}

/// The bytes of a run's components, by digest: what an attempt stores before its first manifest.
#[derive(Clone, Default)]
pub struct ComponentFiles {
    bytes: BTreeMap<Digest, Arc<[u8]>>,
    /// The attempt that has stored them.
    stored_by: Option<u64>,
}

/// Digests only: components are large.
impl fmt::Debug for ComponentFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.bytes.keys()).finish()
    }
}

impl ComponentFiles {
    /// Of the bytes of components; equal ones are kept once.
    pub fn new(components: impl IntoIterator<Item = Arc<[u8]>>) -> ComponentFiles {
        let bytes = components
            .into_iter()
            .map(|bytes| (Digest::of(&bytes), bytes));
        ComponentFiles {
            bytes: bytes.collect(),
            stored_by: None,
        }
    }

    /// Makes all of them durable under the names of `attempt`, unless that was done.
    pub(super) fn store(
        &mut self,
        storage: &dyn CheckpointStorage,
        attempt: u64,
    ) -> io::Result<()> {
        if self.stored_by == Some(attempt) {
            return Ok(());
        }
        for (digest, bytes) in &self.bytes {
            let name = ComponentName {
                attempt,
                digest: *digest,
            };
            let failed = |error: io::Error| {
                io::Error::new(error.kind(), format!("component {digest}: {error}"))
            };
            let mut upload = storage.upload().map_err(failed)?;
            upload.write_all(bytes).map_err(failed)?;
            upload.finish(&Key::component(name)).map_err(failed)?;
        }
        fault_point::pass("after-components");
        self.stored_by = Some(attempt);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_whose_they_are_and_foreign_ones_say_nothing() {
        let digest = Digest::of(b"x");
        let name = ComponentName { attempt: 3, digest };
        assert_eq!(ComponentName::parse(&name.to_string()), Some(name));
        for text in [
            "",
            "3",
            "3-ab",
            &digest.to_string(),
            &format!("03-{digest}"),
            &format!("12-3-{digest}"),
            &format!("3-{digest}.wasm"),
        ] {
            assert_eq!(ComponentName::parse(text), None, "{text}");
        }
    }
}
