//! The commit log: the commit point of a job without an exactly-once Kafka sink, and the fence and memory of every job.
//!
//! A dense sequence of slots, each created conditionally and never changed. A slot holds either the *claim* of an attempt or
//! the *commit* of a checkpoint. An attempt claims the next slot before it touches anything, so whatever slot an older attempt
//! would write next is taken: it finds out when it tries to commit, and stops. A create per checkpoint number would be no such fence: a
//! frozen attempt could wake and create a number that its successor skipped.
//!
//! **Trimming.** Old commits may be deleted, claims never: the slot after the last commit of a replaced attempt is its successor's
//! claim, and that must stay taken. Every slot carries `kept_from`: at most commits below it may have been deleted. So a
//! slot that is missing from there on is a hole (somebody's hands), and what lies below says nothing but that its attempts existed.
//!
//! **A claim in a hole.** A claimant reads the log, freezes, and meanwhile the slot it is about to create is used for a commit and
//! trimmed away. Its create then succeeds. So a claim counts only if no higher slot is there afterwards: the newest
//! slot is never deleted, which makes that check certain.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::commit_point::CommitPoint;
use super::manifest::Lineage;
use super::snapshot::Digest;

/// The version this release writes, and the only one it reads.
pub const FORMAT: u32 = 1;

/// One slot of the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slot {
    format: u32,
    /// Its place in the sequence, also in its contents so that a copied file is noticed.
    pub index: u64,
    /// Commits below this index may have been deleted.
    pub kept_from: u64,
    /// What it holds.
    pub entry: Entry,
}

/// What a slot holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Entry {
    /// From here on only this attempt commits.
    Claim {
        /// Its number.
        attempt: u64,
        /// Where its commits are decided.
        #[serde(default, skip_serializing_if = "CommitPoint::is_storage")]
        commit_point: CommitPoint,
    },
    /// A checkpoint happened.
    Commit(Commit),
    /// An attempt learnt from a commit point outside the log that this checkpoint of an earlier one happened, or has a marker at its own.
    Resolved {
        /// The attempt that wrote this.
        attempt: u64,
        /// What it learnt.
        commit: Commit,
        /// Where the marker is.
        commit_point: CommitPoint,
    },
}

/// The commit of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commit {
    /// The history it belongs to.
    pub lineage: Lineage,
    /// Number of the checkpoint; 0 starts the lineage.
    pub n: u64,
    /// The attempt that took it.
    pub attempt: u64,
    /// Digest of its manifest.
    pub manifest: Digest,
}

impl Entry {
    /// The attempt that wrote it.
    pub fn attempt(&self) -> u64 {
        match self {
            Entry::Claim { attempt, .. } | Entry::Resolved { attempt, .. } => *attempt,
            Entry::Commit(commit) => commit.attempt,
        }
    }

    /// The checkpoint that happened, unless it is a claim.
    pub fn commit(&self) -> Option<&Commit> {
        match self {
            Entry::Claim { .. } => None,
            Entry::Commit(commit) | Entry::Resolved { commit, .. } => Some(commit),
        }
    }
}

/// What is wrong with the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// A slot that must be there is not.
    #[error("slot {missing} is missing, though slot {newest} is there")]
    Hole {
        /// The first one missing.
        missing: u64,
        /// The newest one found.
        newest: u64,
    },
    /// A slot holds something that no release writes.
    #[error("slot {index} is damaged: {what}")]
    Damaged {
        /// The slot.
        index: u64,
        /// What is wrong.
        what: String,
    },
    /// A format that this release does not know.
    #[error(
        "slot {index} has format {found}; this is Weir {} and reads format {FORMAT}",
        env!("CARGO_PKG_VERSION")
    )]
    Format {
        /// The slot.
        index: u64,
        /// The version found.
        found: u32,
    },
}

impl Slot {
    /// The bytes that are stored: a line of JSON and a line with its SHA-256.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).expect("a slot is plain data");
        let digest = Digest::of(&bytes);
        bytes.extend_from_slice(format!("\n{digest}\n").as_bytes());
        bytes
    }

    /// Reads what [`Slot::encode`] wrote at `index`.
    ///
    /// # Errors
    /// [`Defect::Damaged`] and [`Defect::Format`].
    pub fn decode(index: u64, bytes: &[u8]) -> Result<Slot, Defect> {
        #[derive(Deserialize)]
        struct Probe {
            format: u32,
        }
        let damaged = |what: String| Defect::Damaged { index, what };
        let text = std::str::from_utf8(bytes).map_err(|error| damaged(error.to_string()))?;
        let mut lines = text.split('\n');
        let (Some(json), Some(digest), Some(""), None) =
            (lines.next(), lines.next(), lines.next(), lines.next())
        else {
            return Err(damaged("it is not two whole lines".to_owned()));
        };
        if Digest::of(json.as_bytes()).to_string() != digest {
            return Err(damaged("its checksum does not fit".to_owned()));
        }
        let probe: Probe =
            serde_json::from_str(json).map_err(|error| damaged(error.to_string()))?;
        if probe.format != FORMAT {
            return Err(Defect::Format {
                index,
                found: probe.format,
            });
        }
        let slot: Slot = serde_json::from_str(json).map_err(|error| damaged(error.to_string()))?;
        if slot.index != index {
            return Err(damaged(format!(
                "its contents are those of slot {}",
                slot.index
            )));
        }
        if slot.kept_from > index {
            return Err(damaged("it keeps slots only from behind itself".to_owned()));
        }
        Ok(slot)
    }
}

/// The log as read at one moment, or as an owner knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Log {
    slots: BTreeMap<u64, Slot>,
}

impl Log {
    /// From all slots that were found.
    ///
    /// # Errors
    /// [`Defect::Hole`]; and [`Defect::Damaged`] if the slots cannot have been written in this order.
    pub fn new(slots: impl IntoIterator<Item = Slot>) -> Result<Log, Defect> {
        let slots: BTreeMap<u64, Slot> = slots.into_iter().map(|slot| (slot.index, slot)).collect();
        let log = Log { slots };
        let Some(newest) = log.newest() else {
            return Ok(log);
        };
        let mut attempt = 0;
        let kept = log.slots.range(newest.kept_from..);
        for (expected, (_, slot)) in (newest.kept_from..).zip(kept) {
            if slot.index != expected {
                return Err(Defect::Hole {
                    missing: expected,
                    newest: newest.index,
                });
            }
            if slot.entry.attempt() < attempt {
                return Err(Defect::Damaged {
                    index: slot.index,
                    what: format!(
                        "attempt {} wrote after attempt {attempt} had claimed the log",
                        slot.entry.attempt()
                    ),
                });
            }
            attempt = slot.entry.attempt();
        }
        Ok(log)
    }

    /// Whether it has no slot at all.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The newest slot.
    pub fn newest(&self) -> Option<&Slot> {
        self.slots.last_key_value().map(|(_, slot)| slot)
    }

    /// The index of the next slot.
    pub fn next_index(&self) -> u64 {
        self.newest().map_or(0, |slot| slot.index + 1)
    }

    /// Commits below this index may have been deleted.
    pub fn kept_from(&self) -> u64 {
        self.newest().map_or(0, |slot| slot.kept_from)
    }

    /// The highest attempt in any slot, 0 if there is none.
    pub fn newest_attempt(&self) -> u64 {
        self.slots
            .values()
            .map(|slot| slot.entry.attempt())
            .max()
            .unwrap_or(0)
    }

    /// The highest attempt in any slot but one, 0 if there is none.
    pub fn newest_attempt_except(&self, index: u64) -> u64 {
        self.slots
            .values()
            .filter(|slot| slot.index != index)
            .map(|slot| slot.entry.attempt())
            .max()
            .unwrap_or(0)
    }

    /// The commits that are kept, oldest first, with their slots.
    pub fn commits(&self) -> impl DoubleEndedIterator<Item = (u64, &Commit)> {
        self.slots
            .range(self.kept_from()..)
            .filter_map(|(index, slot)| Some((*index, slot.entry.commit()?)))
    }

    /// The claims, oldest first: each attempt with its commit point.
    pub fn claims(&self) -> impl Iterator<Item = (u64, &CommitPoint)> {
        self.slots.values().filter_map(|slot| match &slot.entry {
            Entry::Claim {
                attempt,
                commit_point,
            } => Some((*attempt, commit_point)),
            Entry::Commit(_) | Entry::Resolved { .. } => None,
        })
    }

    /// The slot of the newest commit.
    pub fn newest_commit_slot(&self) -> Option<&Slot> {
        let (index, _) = self.commits().next_back()?;
        self.slots.get(&index)
    }

    /// The newest commit: the checkpoint that happened last.
    pub fn newest_commit(&self) -> Option<&Commit> {
        self.commits().next_back().map(|(_, commit)| commit)
    }

    /// The highest checkpoint number in any slot, 0 if there is none.
    pub fn newest_number(&self) -> u64 {
        self.slots
            .values()
            .filter_map(|slot| Some(slot.entry.commit()?.n))
            .max()
            .unwrap_or(0)
    }

    /// The next slot, as the claim of `attempt`, whose commits are decided at `commit_point`.
    pub fn claim(&self, attempt: u64, commit_point: CommitPoint) -> Slot {
        Slot {
            format: FORMAT,
            index: self.next_index(),
            kept_from: self.kept_from(),
            entry: Entry::Claim {
                attempt,
                commit_point,
            },
        }
    }

    /// The next slot, in which `attempt` notes that an earlier one's `commit` happened, whose marker is at `commit_point`. Nothing is
    /// trimmed with it.
    pub fn resolve(&self, attempt: u64, commit: Commit, commit_point: CommitPoint) -> Slot {
        Slot {
            format: FORMAT,
            index: self.next_index(),
            kept_from: self.kept_from(),
            entry: Entry::Resolved {
                attempt,
                commit,
                commit_point,
            },
        }
    }

    /// The next slot, as a commit after which the newest `retain` commits are kept.
    pub fn commit(&self, commit: Commit, retain: u32) -> Slot {
        let index = self.next_index();
        let older = usize::try_from(retain.max(1) - 1).unwrap_or(usize::MAX);
        // With fewer than `retain` commits nothing more may go. The new one is itself the first of those kept.
        let kept_from = if older == 0 {
            index
        } else {
            let oldest = self.commits().rev().nth(older - 1);
            oldest.map_or(self.kept_from(), |(index, _)| index)
        };
        Slot {
            format: FORMAT,
            index,
            kept_from: kept_from.max(self.kept_from()),
            entry: Entry::Commit(commit),
        }
    }

    /// Takes up a slot that was created.
    pub fn push(&mut self, slot: Slot) {
        debug_assert_eq!(slot.index, self.next_index(), "the log is dense");
        self.slots.insert(slot.index, slot);
    }

    /// The commits that may be deleted, which [`Log::forget`] is told of when they are.
    pub fn trimmable(&self) -> Vec<u64> {
        self.slots
            .range(..self.kept_from())
            .filter(|(_, slot)| slot.entry.commit().is_some())
            .map(|(index, _)| *index)
            .collect()
    }

    /// Drops a slot that was deleted.
    pub fn forget(&mut self, index: u64) {
        self.slots.remove(&index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(n: u64, attempt: u64) -> Commit {
        Commit {
            lineage: Lineage::from_bits(1),
            n,
            attempt,
            manifest: Digest::of(&n.to_le_bytes()),
        }
    }

    fn log(retain: u32) -> Log {
        let mut log = Log::default();
        log.push(log.claim(1, CommitPoint::Storage));
        for n in 0..3 {
            log.push(log.commit(commit(n, 1), retain));
        }
        log.push(log.claim(2, CommitPoint::Storage));
        for n in 4..6 {
            log.push(log.commit(commit(n, 2), retain));
        }
        log
    }

    fn without(log: &Log, gone: &[u64]) -> Result<Log, Defect> {
        let slots = log
            .slots
            .values()
            .filter(|slot| !gone.contains(&slot.index));
        Log::new(slots.cloned())
    }

    #[test]
    fn a_slot_is_read_as_written_and_every_flipped_bit_is_noticed() {
        let slot = log(3).newest().expect("a slot").clone();
        let bytes = slot.encode();
        assert_eq!(Slot::decode(slot.index, &bytes), Ok(slot.clone()));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert!(
                    Slot::decode(slot.index, &flipped).is_err(),
                    "byte {at} bit {bit}"
                );
            }
            assert!(
                Slot::decode(slot.index, &bytes[..at]).is_err(),
                "cut at {at}"
            );
        }
        assert!(Slot::decode(slot.index + 1, &bytes).is_err());
    }

    #[test]
    fn a_later_format_is_told_from_damage() {
        let json = r#"{"format":2,"more":true}"#;
        let bytes = format!("{json}\n{}\n", Digest::of(json.as_bytes()));
        let found = Slot::decode(4, bytes.as_bytes());
        assert_eq!(found, Err(Defect::Format { index: 4, found: 2 }));
    }

    #[test]
    fn trimming_takes_old_commits_and_never_a_claim() {
        // 0 claim 1, 1..=3 commits, 4 claim 2, 5..=6 commits
        let log = log(2);
        assert_eq!(log.kept_from(), 5);
        assert_eq!(log.trimmable(), [1, 2, 3]);
        let trimmed = without(&log, &[1, 2, 3]).expect("no hole");
        assert_eq!(trimmed.newest_commit(), Some(&commit(5, 2)));
        assert!(trimmed.trimmable().is_empty());
        assert_eq!(trimmed.next_index(), 7);
        // Deleted in part, by a crash in the middle: the rest still counts as nothing but old.
        let partly = without(&log, &[2]).expect("no hole");
        assert_eq!(partly.commits().count(), 2);
        assert_eq!(partly.trimmable(), [1, 3]);
    }

    #[test]
    fn a_hole_in_what_is_kept_is_named() {
        let log = log(2);
        let hole = Defect::Hole {
            missing: 5,
            newest: 6,
        };
        assert_eq!(without(&log, &[5]), Err(hole));
        // The newest slot gone cannot be seen in the log itself: witness and manifests notice.
        assert!(without(&log, &[6]).is_ok());
    }

    #[test]
    fn retaining_one_keeps_the_newest_commit_alone() {
        let log = log(1);
        assert_eq!(log.commits().count(), 1);
        assert_eq!(log.newest_commit(), Some(&commit(5, 2)));
    }

    #[test]
    fn a_claim_in_a_trimmed_hole_changes_nothing_but_the_next_attempt() {
        let log = log(2);
        let mut slots: Vec<Slot> = log.slots.values().cloned().collect();
        slots.retain(|slot| ![1, 2, 3].contains(&slot.index));
        let mut stale = Log::default();
        stale.push(stale.claim(1, CommitPoint::Storage));
        slots.push(stale.claim(9, CommitPoint::Storage));
        let read = Log::new(slots).expect("no hole");
        assert_eq!(read.newest_commit(), log.newest_commit());
        assert_eq!(read.newest_attempt(), 9);
        assert_eq!(read.newest_attempt_except(1), 2);
    }

    #[test]
    fn an_older_attempt_after_a_claim_is_damage() {
        let mut log = log(3);
        log.push(log.commit(commit(9, 1), 3));
        assert!(matches!(
            Log::new(log.slots.into_values()),
            Err(Defect::Damaged { index: 7, .. })
        ));
    }
}
