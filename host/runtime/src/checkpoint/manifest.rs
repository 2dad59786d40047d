//! Manifests: the one file that names everything that belongs to a checkpoint.
//!
//! Written last, by conditional create, and named `<n>-<attempt>.json`: two attempts never write the same name, and a number is
//! never used twice. A manifest decides nothing; only the commit log says which one happened.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::commit_point::CommitPoint;
use super::component::ComponentEntry;
use super::snapshot::{Digest, StoredFile, TaskSnapshot};
use crate::sink::StagedPart;
use crate::source::SplitState;

/// The version this release writes, and the only one it reads.
pub const FORMAT: u32 = 1;

/// Which history a checkpoint belongs to: 32 hexadecimal digits, drawn when a job starts from nothing.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lineage(String);

impl Lineage {
    /// A lineage of 128 random bits (whoever calls has the randomness).
    pub fn from_bits(bits: u128) -> Lineage {
        Lineage(format!("{bits:032x}"))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The first eight digits: enough to tell two lineages of one job apart in a message.
impl fmt::Display for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.get(..8).unwrap_or(&self.0))
    }
}

impl fmt::Debug for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names a manifest: what its file is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ManifestId {
    /// Number of the checkpoint.
    pub n: u64,
    /// The attempt that took it.
    pub attempt: u64,
}

impl ManifestId {
    /// From a file name in the folder `manifests`; `None` for anything else that may lie there.
    pub fn from_file_name(name: &str) -> Option<ManifestId> {
        let (n, attempt) = name.strip_suffix(".json")?.split_once('-')?;
        let id = ManifestId {
            n: n.parse().ok()?,
            attempt: attempt.parse().ok()?,
        };
        (id.to_string() == name).then_some(id)
    }
}

impl fmt::Display for ManifestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}.json", self.n, self.attempt)
    }
}

/// What of a job goes into each of its manifests and is compared on recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The job's name.
    pub job: String,
    /// Number of key groups.
    pub max_parallelism: u16,
    /// Where it is decided whether a checkpoint happened.
    pub commit_point: CommitPoint,
    /// The file sinks.
    pub sinks: Vec<SinkEntry>,
    /// The topics that Kafka sinks write to.
    pub topics: Vec<TopicEntry>,
    /// Each operator's component, by operator id.
    pub components: BTreeMap<String, ComponentEntry>,
}

/// Everything that belongs to one checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// The release that wrote it.
    pub weir: String,
    /// The job's name.
    pub job: String,
    /// The history it belongs to.
    pub lineage: Lineage,
    /// Number of the checkpoint; 0 starts a lineage and restores nothing.
    pub n: u64,
    /// The attempt that took it.
    pub attempt: u64,
    /// The checkpoint confirmed before it; `None` for number 0. A log that does not reach it was rolled back.
    pub parent: Option<u64>,
    /// Number 0 only: lineages whose output was accepted to lie beside this one's.
    pub replaces: Vec<Lineage>,
    /// Whether every input had ended: nothing is left to do.
    pub finished: bool,
    /// Whether its attempt ended with it, because the job was finished or asked to stop.
    #[serde(default)]
    pub last: bool,
    /// Where it is decided whether it happened.
    #[serde(default, skip_serializing_if = "CommitPoint::is_storage")]
    pub commit_point: CommitPoint,
    /// Number of key groups.
    pub max_parallelism: u16,
    /// When it was written, milliseconds since the epoch by the wall clock; for people and for noticing a bad clock.
    pub taken_at: i64,
    /// Processing time at that moment, as operators know it. It differs from `taken_at` where the wall clock is not trusted.
    pub processing_time: i64,
    /// Each operator's component, by operator id.
    pub components: BTreeMap<String, ComponentEntry>,
    /// Positions of the sources, by id.
    pub sources: Vec<SourceEntry>,
    /// State of the operators, by id.
    pub operators: Vec<OperatorEntry>,
    /// The file sinks and their directories.
    pub sinks: Vec<SinkEntry>,
    /// The topics that Kafka sinks write to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<TopicEntry>,
    /// What becomes visible when this checkpoint is confirmed.
    pub staged: Vec<StagedPart>,
    /// Parts that went on beyond the barrier, with their lengths there: committed as well, but not visible yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<StagedPart>,
}

/// A source in a manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceEntry {
    /// Its id.
    pub id: String,
    /// All its splits by number, whichever subtask read them.
    pub splits: Vec<SplitState>,
}

/// An operator in a manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorEntry {
    /// Its id.
    pub id: String,
    /// How many subtasks it had.
    pub parallelism: u16,
    /// One a subtask, by number.
    pub subtasks: Vec<SubtaskEntry>,
}

/// An operator subtask in a manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubtaskEntry {
    /// Its number.
    pub subtask: u16,
    /// The key groups it owned, from the first up to but not including the second.
    pub groups: (u16, u16),
    /// Its watermark.
    pub watermark: i64,
    /// Its keyed state and timers, in the order in which a restore reads them.
    pub files: Vec<StoredFile>,
    /// Bytes that the state took up in memory, so that a restore that cannot fit is refused before it begins.
    pub held: u64,
    /// Whether `finish` ran.
    pub finished: bool,
}

/// A file sink in a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SinkEntry {
    /// Its id.
    pub id: String,
    /// Its directory, absolute.
    pub dir: PathBuf,
}

/// A topic that a Kafka sink writes to, in a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicEntry {
    /// The sink's id.
    pub sink: String,
    /// The cluster's own id.
    pub cluster: String,
    /// The topic.
    pub topic: String,
    /// Its id: a topic that was deleted and created again has another.
    pub topic_id: String,
}

/// Why a manifest cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// A format that this release does not know.
    #[error("it has format {found}, written by Weir {weir}; this is Weir {} and reads format {FORMAT}", env!("CARGO_PKG_VERSION"))]
    Format {
        /// The version found.
        found: u32,
        /// The release that wrote it.
        weir: String,
    },
    /// Not what any release writes.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

/// What is known of a checkpoint before its contents are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its history.
    pub lineage: Lineage,
    /// Its number and attempt.
    pub id: ManifestId,
    /// The checkpoint confirmed before it.
    pub parent: Option<u64>,
    /// Whether every input had ended.
    pub finished: bool,
    /// Whether its attempt ends with it.
    pub last: bool,
}

impl Manifest {
    /// Puts a checkpoint together. Source and operator subtasks are sorted by id and number, so that equal checkpoints have
    /// equal manifests whatever the order of acknowledgements. `taken_at` and `processing_time` are left 0 for whoever has
    /// the clocks.
    pub fn assemble<'a>(
        identity: &Identity,
        header: Header,
        snapshots: impl IntoIterator<Item = &'a TaskSnapshot>,
        staged: Vec<StagedPart>,
    ) -> Manifest {
        let mut splits: BTreeMap<&str, Vec<SplitState>> = BTreeMap::new();
        let mut subtasks: BTreeMap<&str, (u16, Vec<SubtaskEntry>)> = BTreeMap::new();
        let mut open = Vec::new();
        for snapshot in snapshots {
            open.extend(snapshot.sinks.iter().filter_map(|sink| sink.open.clone()));
            for source in &snapshot.sources {
                let all = splits.entry(&source.id).or_default();
                all.extend_from_slice(&source.splits);
            }
            for operator in &snapshot.operators {
                let (parallelism, entries) = subtasks.entry(&operator.id).or_default();
                *parallelism = operator.parallelism;
                entries.push(SubtaskEntry {
                    subtask: operator.subtask,
                    groups: group_range(
                        operator.subtask,
                        operator.parallelism,
                        identity.max_parallelism,
                    ),
                    watermark: operator.watermark,
                    files: operator.files.clone(),
                    held: operator.held,
                    finished: operator.finished,
                });
            }
        }
        open.sort_by(|one, other| (&one.dir, &one.staged).cmp(&(&other.dir, &other.staged)));
        Manifest {
            format: FORMAT,
            weir: env!("CARGO_PKG_VERSION").to_owned(),
            job: identity.job.clone(),
            lineage: header.lineage,
            n: header.id.n,
            attempt: header.id.attempt,
            parent: header.parent,
            replaces: Vec::new(),
            finished: header.finished,
            last: header.last,
            commit_point: identity.commit_point.clone(),
            max_parallelism: identity.max_parallelism,
            taken_at: 0,
            processing_time: 0,
            components: identity.components.clone(),
            sources: splits
                .into_iter()
                .map(|(id, mut splits)| {
                    splits.sort_by_key(|split| split.split);
                    SourceEntry {
                        id: id.to_owned(),
                        splits,
                    }
                })
                .collect(),
            operators: subtasks
                .into_iter()
                .map(|(id, (parallelism, mut subtasks))| {
                    subtasks.sort_by_key(|entry| entry.subtask);
                    OperatorEntry {
                        id: id.to_owned(),
                        parallelism,
                        subtasks,
                    }
                })
                .collect(),
            sinks: identity.sinks.clone(),
            topics: identity.topics.clone(),
            staged,
            open,
        }
    }

    /// Its number and attempt.
    pub fn id(&self) -> ManifestId {
        ManifestId {
            n: self.n,
            attempt: self.attempt,
        }
    }

    /// Every state file that it needs.
    pub fn files(&self) -> impl Iterator<Item = &StoredFile> {
        self.operators
            .iter()
            .flat_map(|operator| &operator.subtasks)
            .flat_map(|subtask| &subtask.files)
    }

    /// The bytes that are stored, and their digest, which the commit log records.
    pub fn encode(&self) -> (Vec<u8>, Digest) {
        let bytes = serde_json::to_vec_pretty(self)
            .expect("a manifest has only string keys and plain values");
        let digest = Digest::of(&bytes);
        (bytes, digest)
    }

    /// Reads what [`Manifest::encode`] wrote. Strict: unknown fields and formats are defects, and so are contents that do not
    /// belong to the name `id`.
    ///
    /// # Errors
    /// [`Defect`].
    pub fn decode(id: ManifestId, bytes: &[u8]) -> Result<Manifest, Defect> {
        #[derive(Deserialize)]
        struct Probe {
            format: u32,
            #[serde(default)]
            weir: String,
        }
        let damaged = |error: serde_json::Error| Defect::Damaged(error.to_string());
        // The format first: fields that a later one added must not be reported as damage.
        let probe: Probe = serde_json::from_slice(bytes).map_err(damaged)?;
        if probe.format != FORMAT {
            return Err(Defect::Format {
                found: probe.format,
                weir: probe.weir,
            });
        }
        let manifest: Manifest = serde_json::from_slice(bytes).map_err(damaged)?;
        if manifest.id() != id {
            return Err(Defect::Damaged(format!(
                "its contents are those of {}",
                manifest.id()
            )));
        }
        if (manifest.n == 0) != manifest.parent.is_none() {
            return Err(Defect::Damaged(
                "only checkpoint 0 has no parent".to_owned(),
            ));
        }
        Ok(manifest)
    }
}

/// The key groups of a subtask: those g with g * parallelism / max == subtask.
fn group_range(subtask: u16, parallelism: u16, max_parallelism: u16) -> (u16, u16) {
    let parallelism = u32::from(parallelism.max(1));
    let first = |subtask: u32| {
        let group = (subtask * u32::from(max_parallelism)).div_ceil(parallelism);
        u16::try_from(group).unwrap_or(max_parallelism)
    };
    (first(subtask.into()), first(u32::from(subtask) + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            job: "j".to_owned(),
            max_parallelism: 128,
            sinks: vec![SinkEntry {
                id: "out".to_owned(),
                dir: PathBuf::from("/out"),
            }],
            commit_point: CommitPoint::Storage,
            topics: Vec::new(),
            components: BTreeMap::new(),
        }
    }

    fn sample() -> Manifest {
        let header = Header {
            lineage: Lineage::from_bits(0x7c1e << 112),
            id: ManifestId { n: 7, attempt: 2 },
            parent: Some(5),
            finished: false,
            last: false,
        };
        let snapshot = |subtask: u16| TaskSnapshot {
            sources: vec![super::super::SourceSnapshot {
                id: "in".to_owned(),
                splits: vec![SplitState {
                    split: u32::from(subtask),
                    name: "f".to_owned(),
                    done: false,
                    max_time: i64::MIN,
                    position: serde_json::json!({"offset": 3}),
                }],
            }],
            operators: vec![super::super::OperatorSnapshot {
                id: "op".to_owned(),
                subtask,
                parallelism: 3,
                watermark: -1,
                files: vec![StoredFile {
                    name: "s".to_owned(),
                    digest: Digest::of(b"s"),
                    bytes: 1,
                }],
                held: 1,
                finished: false,
            }],
            sinks: Vec::new(),
        };
        Manifest::assemble(
            &identity(),
            header,
            &[snapshot(2), snapshot(0), snapshot(1)],
            Vec::new(),
        )
    }

    #[test]
    fn what_is_written_is_read_and_order_of_arrival_does_not_show() {
        let manifest = sample();
        let (bytes, _) = manifest.encode();
        assert_eq!(
            Manifest::decode(manifest.id(), &bytes),
            Ok(manifest.clone())
        );
        let splits: Vec<u32> = manifest.sources[0].splits.iter().map(|s| s.split).collect();
        assert_eq!(splits, [0, 1, 2]);
        let groups: Vec<_> = manifest.operators[0]
            .subtasks
            .iter()
            .map(|s| s.groups)
            .collect();
        assert_eq!(groups, [(0, 43), (43, 86), (86, 128)]);
    }

    #[test]
    fn group_ranges_are_those_of_the_owner_formula() {
        for max in [1_u16, 7, 128, 32_768] {
            for parallelism in [1_u16, 2, 3, 5, 7].into_iter().filter(|p| *p <= max) {
                for subtask in 0..parallelism {
                    let (start, end) = group_range(subtask, parallelism, max);
                    let owner =
                        |group: u16| u32::from(group) * u32::from(parallelism) / u32::from(max);
                    assert!((start..end).all(|group| owner(group) == u32::from(subtask)));
                    assert!(start == 0 || owner(start - 1) < u32::from(subtask));
                }
                assert_eq!(group_range(parallelism - 1, parallelism, max).1, max);
            }
        }
    }

    #[test]
    fn a_later_format_is_refused_with_both_versions() {
        let text = r#"{"format": 9, "weir": "3.1.0", "novelty": true}"#;
        let id = ManifestId { n: 7, attempt: 2 };
        let defect = Manifest::decode(id, text.as_bytes()).expect_err("format 9 is unknown");
        assert_eq!(
            defect,
            Defect::Format {
                found: 9,
                weir: "3.1.0".to_owned()
            }
        );
        let message = defect.to_string();
        assert!(
            message.contains("format 9") && message.contains("format 1"),
            "{message}"
        );
        assert!(message.contains("3.1.0") && message.contains(env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn unknown_fields_truncation_and_a_foreign_name_are_damage() {
        let manifest = sample();
        let (bytes, _) = manifest.encode();
        let text = String::from_utf8(bytes.clone()).expect("JSON is UTF-8");
        let extra = text.replacen('{', r#"{"surprise": 1,"#, 1);
        let decode = |bytes: &[u8]| Manifest::decode(manifest.id(), bytes);
        assert!(matches!(decode(extra.as_bytes()), Err(Defect::Damaged(_))));
        assert!(matches!(
            decode(&bytes[..bytes.len() - 2]),
            Err(Defect::Damaged(_))
        ));
        let other = ManifestId { n: 8, attempt: 2 };
        assert!(matches!(
            Manifest::decode(other, &bytes),
            Err(Defect::Damaged(_))
        ));
    }

    #[test]
    fn only_canonical_file_names_are_manifests() {
        let id = ManifestId { n: 12, attempt: 3 };
        assert_eq!(ManifestId::from_file_name("12-3.json"), Some(id));
        for name in [
            "012-3.json",
            "12-3",
            "12.json",
            "a-3.json",
            "12-3.json.bak",
            "+12-3.json",
        ] {
            assert_eq!(ManifestId::from_file_name(name), None, "{name}");
        }
    }
}
