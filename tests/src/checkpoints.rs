//! A job's checkpoint storage, read with nothing but what is documented of it: the tests' own eyes, not the host's.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::output::names;

/// See the module.
#[derive(Clone, Debug)]
pub struct Checkpoints(PathBuf);

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

impl Checkpoints {
    /// In the directory `dir`.
    pub fn at(dir: PathBuf) -> Checkpoints {
        Checkpoints(dir)
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.0
    }

    /// A folder of it.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The files in a folder of it, sorted.
    pub fn files(&self, folder: &str) -> Vec<PathBuf> {
        let dir = self.folder(folder);
        names(&dir).into_iter().map(|name| dir.join(name)).collect()
    }

    /// The slots of the commit log in order: what each holds.
    pub fn slots(&self) -> Vec<Value> {
        let slot = |path: PathBuf| {
            let text = read(&path);
            let line = text.lines().next().unwrap_or_default();
            let slot: Value = serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            slot["entry"].clone()
        };
        self.files("log").into_iter().map(slot).collect()
    }

    /// The numbers of the commits that the log still has.
    pub fn commits(&self) -> Vec<u64> {
        self.slots()
            .iter()
            .filter_map(|slot| slot["commit"]["n"].as_u64())
            .collect()
    }

    /// The manifest of the newest commit, with its path.
    ///
    /// # Panics
    /// Nothing was committed, or the manifest is not there.
    pub fn last_manifest(&self) -> (PathBuf, Value) {
        let slots = self.slots();
        let commit = slots
            .iter()
            .rev()
            .map(|slot| &slot["commit"])
            .find(|commit| !commit.is_null());
        let commit = commit.unwrap_or_else(|| panic!("nothing committed in {}", self.0.display()));
        let path = self
            .folder("manifests")
            .join(format!("{}-{}.json", commit["n"], commit["attempt"]));
        let manifest = serde_json::from_str(&read(&path))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path, manifest)
    }

    /// Bytes of all files in it.
    pub fn bytes(&self) -> u64 {
        ["log", "manifests", "state"]
            .into_iter()
            .flat_map(|folder| self.files(folder))
            .map(|path| fs::metadata(&path).map_or(0, |metadata| metadata.len()))
            .sum()
    }
}
