//! What follows once the claim stands: a new lineage or the old one, committed output made visible, leftovers swept, witnesses written.

use std::path::PathBuf;

use super::{Outcome, Plan, Recovery, Step, judge};
use crate::checkpoint::log::Commit;
use crate::checkpoint::manifest::{Header, Manifest, ManifestId};
use crate::checkpoint::witness::{self, Witness};
use crate::sink::StagedPart;

impl Recovery {
    /// Nothing of any earlier attempt can be committed any more, and what was is known.
    pub(super) fn established(&mut self) -> Step {
        let Some(Plan::Fresh { replaces }) = &self.plan else {
            return Step::ListManifests;
        };
        let header = Header {
            lineage: self.setup.lineage.clone(),
            id: ManifestId {
                n: 0,
                attempt: self.attempt,
            },
            parent: None,
            finished: false,
            last: false,
        };
        let mut manifest = Manifest::assemble(&self.setup.identity, header, [], Vec::new());
        manifest.replaces.clone_from(replaces);
        Step::StoreManifest(Box::new(manifest))
    }

    pub(super) fn begin_lineage(&mut self, commit: Commit) -> Step {
        Step::CommitMarker(self.own_log().commit(commit, u32::MAX))
    }

    /// Manifests of checkpoints that were not committed and never will be. Only of older attempts: this one may have been replaced
    /// without knowing it, and a newer one's manifest may be about to be committed.
    pub(super) fn never_happened(&self, ids: Vec<ManifestId>) -> Vec<ManifestId> {
        let restored = self.manifest().map_or(0, |manifest| manifest.n);
        ids.into_iter()
            .filter(|id| id.n > restored && id.attempt < self.attempt)
            .collect()
    }

    pub(super) fn manifest(&self) -> Option<&Manifest> {
        match &self.plan {
            Some(Plan::Resume { manifest, .. }) => Some(manifest),
            _ => None,
        }
    }

    /// Parts in directories whose witness is behind. Where it is not, they were published, and readers may have taken them away.
    pub(super) fn unpublished(&self) -> Vec<StagedPart> {
        match &self.plan {
            Some(Plan::Resume { manifest, behind }) => judge::parts_in(manifest, behind),
            _ => Vec::new(),
        }
    }

    pub(super) fn sweep(&self) -> Step {
        let keep = self.manifest().map_or(Vec::new(), |manifest| {
            [&manifest.staged[..], &manifest.open].concat()
        });
        Step::Sweep {
            dirs: judge::dirs(&self.setup.identity, self.manifest()),
            keep,
            attempt: self.attempt,
        }
    }

    /// What was committed of open parts is complete with that: nobody goes on with them.
    pub(super) fn adopt(&self) -> Step {
        let open = self.manifest().map_or(&[][..], |manifest| &manifest.open);
        if open.is_empty() {
            return self.bear_witness();
        }
        Step::Adopt {
            open: open.to_vec(),
            attempt: self.attempt,
        }
    }

    /// Says beside the output that something becomes visible, before it does.
    pub(super) fn announce(&self) -> Step {
        let mut dirs: Vec<PathBuf> = Vec::new();
        for part in self.unpublished() {
            if !dirs.contains(&part.dir) {
                dirs.push(part.dir);
            }
        }
        if dirs.is_empty() {
            return self.sweep();
        }
        Step::WriteWitnesses {
            dirs,
            witness: self.witness(false),
        }
    }

    pub(super) fn witness(&self, complete: bool) -> Witness {
        let manifest = self.manifest();
        let lineage = manifest.map_or(&self.setup.lineage, |manifest| &manifest.lineage);
        Witness {
            format: witness::FORMAT,
            job: self.setup.identity.job.clone(),
            lineage: lineage.clone(),
            n: manifest.map_or(0, |manifest| manifest.n),
            complete,
            attempt: self.attempt,
        }
    }

    pub(super) fn bear_witness(&self) -> Step {
        let mut dirs = judge::dirs(&self.setup.identity, None);
        if let Some(Plan::Resume { behind, .. }) = &self.plan {
            for dir in behind {
                if !dirs.contains(dir) {
                    dirs.push(dir.clone());
                }
            }
        }
        Step::WriteWitnesses {
            dirs,
            witness: self.witness(true),
        }
    }

    pub(super) fn done(&mut self) -> Step {
        let (lineage, manifest) = match self.plan.take() {
            Some(Plan::Resume { manifest, .. }) => (manifest.lineage.clone(), Some(*manifest)),
            _ => (self.setup.lineage.clone(), None),
        };
        let finished = manifest.as_ref().is_some_and(|manifest| manifest.finished);
        Step::Done(Box::new(Outcome {
            attempt: self.attempt,
            lineage,
            next_n: self.next_n,
            // Number 0 only says that the lineage began: nothing was read, nothing is to be restored.
            manifest: manifest.filter(|manifest| manifest.n > 0),
            finished,
            carried: std::mem::take(&mut self.carried),
        }))
    }
}
