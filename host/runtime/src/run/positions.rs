//! Positions of Kafka sources, told to their consumer groups once the checkpoint that holds them is confirmed.

use crate::checkpoint::Manifest;
use crate::checkpoint::manifest::SourceEntry;
use crate::job::model::{Job, SourceConnector};

/// See the module. Without Kafka sources it does nothing.
pub(super) struct Positions {
    /// Sources that have a group.
    sources: Vec<String>,
    /// Those of the newest manifest, not yet confirmed.
    newest: Option<(u64, Vec<SourceEntry>)>,
    #[cfg(feature = "kafka")]
    groups: crate::source::GroupOffsets,
}

impl Positions {
    /// For the sources of `job`.
    pub(super) fn of(job: &Job) -> Positions {
        let kafka = job
            .sources
            .iter()
            .filter(|source| matches!(source.connector, SourceConnector::Kafka(_)));
        Positions {
            sources: kafka.map(|source| source.id.to_string()).collect(),
            newest: None,
            #[cfg(feature = "kafka")]
            groups: crate::source::GroupOffsets::new(job),
        }
    }

    /// Takes the positions of a checkpoint that may be confirmed.
    pub(super) fn stored(&mut self, manifest: &Manifest) {
        if self.sources.is_empty() {
            return;
        }
        let of_groups = |entry: &&SourceEntry| self.sources.contains(&entry.id);
        let entries = manifest.sources.iter().filter(of_groups);
        self.newest = Some((manifest.n, entries.cloned().collect()));
    }

    /// Checkpoint `n` is confirmed.
    pub(super) fn confirmed(&mut self, n: u64) {
        let Some((_, entries)) = self.newest.take_if(|(newest, _)| *newest == n) else {
            return;
        };
        #[cfg(feature = "kafka")]
        for entry in entries {
            self.groups.committed(&entry.id, &entry.splits);
        }
        #[cfg(not(feature = "kafka"))]
        drop(entries);
    }
}
