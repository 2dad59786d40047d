//! Snapshots: what each task hands over when a barrier has passed it.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Digest as _;

use crate::sink::StagedPart;
use crate::source::SplitState;

/// A SHA-256, written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of some bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        hasher.finish()
    }

    pub(super) fn parse(text: &str) -> Option<Digest> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()?;
        }
        Some(Digest(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(64);
        for byte in self.0 {
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        f.write_str(&text)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        let text = String::deserialize(deserializer)?;
        Digest::parse(&text).ok_or_else(|| {
            serde::de::Error::custom("a SHA-256 is 64 lower-case hexadecimal digits")
        })
    }
}

/// Computes a [`Digest`] piece by piece.
#[derive(Clone, Default)]
pub struct Hasher(sha2::Sha256);

impl Hasher {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes taken.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

/// A file in checkpoint storage that holds an operator subtask's state.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredFile {
    /// Its name in the folder `state`: the checkpoint and the attempt that wrote it, and its digest. The first two make
    /// deletion safe: see [`crate::checkpoint::state_file`].
    pub name: String,
    /// SHA-256 of its bytes, verified when it is read.
    pub digest: Digest,
    /// Length in bytes, verified before anything is restored.
    pub bytes: u64,
}

/// One task's part of a checkpoint, all files of which are durable.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskSnapshot {
    /// The source subtask in it.
    pub sources: Vec<SourceSnapshot>,
    /// The operator subtasks in it.
    pub operators: Vec<OperatorSnapshot>,
    /// The sink subtasks in it.
    pub sinks: Vec<SinkSnapshot>,
}

impl TaskSnapshot {
    /// Moves the staged parts of all sinks out of the snapshot. What remains may be carried forward into any number of
    /// manifests; a part belongs into exactly one.
    pub(crate) fn take_staged(&mut self) -> Vec<StagedPart> {
        self.sinks
            .iter_mut()
            .flat_map(|sink| std::mem::take(&mut sink.staged))
            .collect()
    }
}

/// How far a source subtask has read.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceSnapshot {
    /// The source's id.
    pub id: String,
    /// Its splits, done ones included, as of the last record emitted before the barrier.
    pub splits: Vec<SplitState>,
}

/// An operator subtask's state at the barrier.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorSnapshot {
    /// The operator's id.
    pub id: String,
    /// Number of the subtask.
    pub subtask: u16,
    /// How many subtasks the operator has.
    pub parallelism: u16,
    /// Its watermark, so that the first record after a restore is judged as it would have been.
    pub watermark: i64,
    /// Its keyed state and timers, in the order in which a restore reads them: files of earlier checkpoints that hold what has not
    /// changed since, and its own last. Empty where it has neither state nor timers.
    pub files: Vec<StoredFile>,
    /// Bytes that the state took up in memory, as [`crate::memory::held`] counts.
    pub held: u64,
    /// Whether its inputs ended and `finish` ran, which must not run again after a restore from here.
    pub finished: bool,
}

/// What a sink subtask staged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkSnapshot {
    /// The sink's id.
    pub id: String,
    /// Number of the subtask.
    pub subtask: u16,
    /// Parts completed since the last snapshot of this subtask, whether or not that one became a checkpoint. Never one twice.
    pub staged: Vec<StagedPart>,
    /// The part that goes on beyond the barrier, with its length there. A later snapshot has it again, longer, or stages it.
    pub open: Option<StagedPart>,
}
