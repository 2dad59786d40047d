//! Reading checkpoint storage while another host may be writing it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::checkpoint::LocalDirectory;
use crate::checkpoint::component::ComponentName;
use crate::checkpoint::log::{Defect, Log, Slot};
use crate::checkpoint::manifest::{Manifest, ManifestId};
use crate::checkpoint::recovery::{Owner, Seen};
use crate::checkpoint::snapshot::Digest;
use crate::checkpoint::storage::{CheckpointStorage, Folder, Key};

/// How often the log is read again because it changed in between, before what was found is believed.
const READS: u32 = 64;

/// The version of `job.json` this release writes, and the only one it reads.
const OWNER_FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnerFile {
    format: u32,
    job: String,
}

/// The contents of `job.json`.
pub(super) fn encode_owner(job: &str) -> Vec<u8> {
    let owner = OwnerFile {
        format: OWNER_FORMAT,
        job: job.to_owned(),
    };
    serde_json::to_vec(&owner).expect("an owner is plain data")
}

pub(super) fn owner(storage: &dyn CheckpointStorage) -> io::Result<Owner> {
    #[derive(Deserialize)]
    struct Probe {
        format: u32,
    }
    let Some(bytes) = storage.get(&Key::owner())? else {
        return Ok(Owner::Nobody);
    };
    let found = match serde_json::from_slice::<Probe>(&bytes) {
        Ok(probe) if probe.format != OWNER_FORMAT => {
            return Ok(Owner::Unusable(format!(
                "it has format {}; this is Weir {} and reads format {OWNER_FORMAT}",
                probe.format,
                env!("CARGO_PKG_VERSION")
            )));
        }
        Ok(_) => serde_json::from_slice::<OwnerFile>(&bytes),
        Err(error) => Err(error),
    };
    Ok(match found {
        Ok(owner) => Owner::Job(owner.job),
        Err(error) => Owner::Unusable(format!("it is damaged: {error}")),
    })
}

/// The log. A listing is no moment in time: it may miss a slot that is created meanwhile and have a later one, and slots may be
/// trimmed between listing and reading. So missing slots are asked for by name, and a hole is believed if it is found twice under the
/// same newest slot.
pub(super) fn log(storage: &dyn CheckpointStorage) -> io::Result<Result<Log, Defect>> {
    let mut before = None;
    for _ in 0..READS {
        let slots = match slots(storage)? {
            Ok(slots) => slots,
            Err(defect) => return Ok(Err(defect)),
        };
        let log = Log::new(slots.into_values());
        match log {
            Err(Defect::Hole { missing, newest }) if before != Some((missing, newest)) => {
                before = Some((missing, newest));
            }
            log => return Ok(log),
        }
    }
    Err(io::Error::other(
        "the commit log changes faster than it can be read",
    ))
}

fn slots(storage: &dyn CheckpointStorage) -> io::Result<Result<BTreeMap<u64, Slot>, Defect>> {
    let mut slots = BTreeMap::new();
    let mut listed: Vec<u64> = storage
        .list(Folder::Log)?
        .iter()
        .filter_map(|name| Key::slot_index(name))
        .collect();
    listed.sort_unstable();
    let mut take = |index: u64| -> io::Result<Result<bool, Defect>> {
        let Some(bytes) = storage.get(&Key::slot(index))? else {
            return Ok(Ok(false));
        };
        Ok(Slot::decode(index, &bytes).map(|slot| {
            slots.insert(index, slot);
            true
        }))
    };
    let mut next = 0;
    for index in listed {
        if let Err(defect) = take(index)? {
            return Ok(Err(defect));
        }
        next = index + 1;
    }
    // What came after the listing.
    loop {
        match take(next)? {
            Ok(true) => next += 1,
            Ok(false) => break,
            Err(defect) => return Ok(Err(defect)),
        }
    }
    let kept_from = slots.last_key_value().map_or(0, |(_, slot)| slot.kept_from);
    let newest = slots.last_key_value().map_or(0, |(index, _)| *index);
    let missed: Vec<u64> = (kept_from..newest)
        .filter(|index| !slots.contains_key(index))
        .collect();
    for index in missed {
        let Some(bytes) = storage.get(&Key::slot(index))? else {
            // A hole; nothing further can be told from here.
            break;
        };
        match Slot::decode(index, &bytes) {
            Ok(slot) => slots.insert(index, slot),
            Err(defect) => return Ok(Err(defect)),
        };
    }
    Ok(Ok(slots))
}

/// The highest slot that is there.
pub(super) fn highest_slot(storage: &dyn CheckpointStorage) -> io::Result<Option<u64>> {
    let names = storage.list(Folder::Log)?;
    Ok(names.iter().filter_map(|name| Key::slot_index(name)).max())
}

pub(super) fn manifest_ids(storage: &dyn CheckpointStorage) -> io::Result<Vec<ManifestId>> {
    let names = storage.list(Folder::Manifests)?;
    let mut ids: Vec<ManifestId> = names
        .iter()
        .filter_map(|name| ManifestId::from_file_name(name))
        .collect();
    ids.sort_unstable();
    Ok(ids)
}

/// All manifests. One that vanishes between listing and reading was collected by a host that still runs, and is left out.
pub(super) fn manifests(storage: &dyn CheckpointStorage) -> io::Result<Vec<Seen>> {
    let mut seen = Vec::new();
    for id in manifest_ids(storage)? {
        let Some(bytes) = storage.get(&Key::manifest(id))? else {
            continue;
        };
        let contents = Manifest::decode(id, &bytes).map(|manifest| (manifest, Digest::of(&bytes)));
        seen.push(Seen { id, contents });
    }
    Ok(seen)
}

/// A component that checkpoint storage keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptComponent {
    /// The checkpoint that was taken with it.
    pub n: u64,
    /// Its file.
    pub file: PathBuf,
}

/// The component that `operator` of `job` had at the newest commit in the checkpoint storage at `dir`, if it is still there. For a
/// message only: nothing is locked or written, and whatever is wrong is for a start to say.
pub fn kept_component(dir: &Path, job: &str, operator: &str) -> Option<KeptComponent> {
    let storage = LocalDirectory::look(dir).ok()??;
    if owner(&storage).ok()? != Owner::Job(job.to_owned()) {
        return None;
    }
    let log = log(&storage).ok()?.ok()?;
    let commit = log.newest_commit()?;
    let id = ManifestId {
        n: commit.n,
        attempt: commit.attempt,
    };
    let manifest = Manifest::decode(id, &storage.get(&Key::manifest(id)).ok()??).ok()?;
    let key = Key::component(ComponentName {
        attempt: manifest.attempt,
        digest: manifest.components.get(operator)?.sha256,
    });
    storage.size(&key).ok()??;
    Some(KeptComponent {
        n: manifest.n,
        file: storage.root().join(key.as_str()),
    })
}
