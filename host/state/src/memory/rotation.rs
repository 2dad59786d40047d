//! Which key groups a snapshot writes in full: what bounds the files that a restore reads, and what
//! is written over time.
//!
//! A group's rows are a *chain* of sections: a base, which holds all rows, and the deltas behind
//! it, each in the file of another snapshot. A group is written in full
//!
//! * when its deltas have come to more than half of its base. Groups that change alike come to that
//!   point at the same time, so a snapshot rewrites only about twice what it writes in deltas,
//!   the worst groups first. That keeps up: deltas of half a base take its rewriting. At once is
//!   rewritten what has deltas larger than its base, or would get one of more than half of it.
//! * so that the files needed stay [`FILES`] at most. The oldest file in which a group has more than
//!   an unchanged base is left by a share of such groups at each snapshot, such that all have left
//!   it when the bound is reached. Should it be passed nevertheless, because groups change in turns
//!   that no share foresees, all groups leave the file that they can leave with the fewest bytes.
//!
//! A group that does not change is not rewritten, as a rule, and nothing is when nothing changed.

use std::collections::BTreeMap;

/// Files that a restore reads at most, the newest included.
pub(super) const FILES: usize = 32;

/// A group's rows in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// The id of the snapshot.
    pub(super) file: u64,
    pub(super) bytes: u64,
    pub(super) rows: u64,
}

/// The base and the deltas behind it, by rising file. A group that holds nothing has no sections.
pub(super) type Chain = Vec<Section>;

/// What changed in a group since its chain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    /// So many rows, and so many bytes of removals beside them.
    Some {
        rows: u64,
        removals: u64,
    },
    /// Nobody knows.
    Unknown,
}

/// What a snapshot writes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Nothing,
    Delta,
    Base,
}

/// Bytes of all sections.
pub(super) fn bytes(chain: &[Section]) -> u64 {
    chain.iter().map(|section| section.bytes).sum()
}

/// What a group's deltas come to, this snapshot's included, beside its base.
#[derive(Clone, Copy)]
struct Weight {
    base: u64,
    deltas: u64,
    /// This snapshot's, about.
    next: u64,
}

impl Weight {
    fn of(chain: &[Section], rows: u64, removals: u64) -> Weight {
        let Some((base, behind)) = chain.split_first() else {
            // Nothing to put a delta on.
            return Weight {
                base: 0,
                deltas: u64::MAX,
                next: 0,
            };
        };
        let row = base.bytes.div_ceil(base.rows.max(1));
        let next = rows.saturating_mul(row).saturating_add(removals);
        let deltas: u64 = behind.iter().map(|delta| delta.bytes).sum();
        Weight {
            base: base.bytes,
            deltas: deltas.saturating_add(next),
            next,
        }
    }

    fn is_heavy(&self) -> bool {
        self.deltas > self.base / 2
    }

    fn is_too_heavy(&self) -> bool {
        self.next > self.base / 2 || self.deltas > self.base
    }
}

/// What to write of each group.
pub(super) fn plan(chains: &[Chain], changes: &[Change]) -> Vec<Plan> {
    let mut plan = Vec::with_capacity(chains.len());
    let mut heavy: Vec<(usize, Weight)> = Vec::new();
    let mut next = 0u64;
    for (group, (chain, change)) in chains.iter().zip(changes).enumerate() {
        plan.push(match *change {
            Change::Nothing => Plan::Nothing,
            Change::Unknown => Plan::Base,
            Change::Some { rows, removals } => {
                let weight = Weight::of(chain, rows, removals);
                next = next.saturating_add(weight.next);
                if weight.is_too_heavy() {
                    Plan::Base
                } else {
                    if weight.is_heavy() {
                        heavy.push((group, weight));
                    }
                    Plan::Delta
                }
            }
        });
    }
    // The most deltas for its base first: compared as fractions.
    let share =
        |weight: &Weight, other: &Weight| u128::from(weight.deltas) * u128::from(other.base);
    heavy.sort_by(|(_, left), (_, right)| share(right, left).cmp(&share(left, right)));
    let mut left = next.saturating_mul(2);
    for (group, weight) in heavy {
        if left == 0 {
            break;
        }
        plan[group] = Plan::Base;
        left = left.saturating_sub(weight.base);
    }
    if plan.iter().any(|plan| *plan != Plan::Nothing) {
        leave_files(chains, &mut plan);
    }
    plan
}

/// Writes groups in full for the sake of the number of files.
fn leave_files(chains: &[Chain], plan: &mut [Plan]) {
    let mut files = dependents(chains, plan);
    let room = (FILES - 1).saturating_sub(files.len());
    let rotates =
        |group: &usize, plan: &[Plan]| chains[*group].len() > 1 || plan[*group] == Plan::Delta;
    let oldest = files
        .values()
        .map(|groups| groups.iter().copied().filter(|group| rotates(group, plan)))
        .map(Vec::from_iter)
        .find(|groups| !groups.is_empty());
    if let Some(groups) = oldest {
        let share = groups.len() / (room + 1);
        for group in &groups[..share] {
            plan[*group] = Plan::Base;
        }
    }
    files = dependents(chains, plan);
    while files.len() > FILES - 1 {
        let base = |group: &usize| chains[*group].first().map_or(0, |base| base.bytes);
        let cheapest = files
            .values()
            .min_by_key(|groups| groups.iter().map(base).sum::<u64>());
        for group in cheapest.into_iter().flatten() {
            plan[*group] = Plan::Base;
        }
        files = dependents(chains, plan);
    }
}

/// The files of the chains that go on, each with the groups that need it.
fn dependents(chains: &[Chain], plan: &[Plan]) -> BTreeMap<u64, Vec<usize>> {
    let mut files: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (group, chain) in chains.iter().enumerate() {
        if plan[group] != Plan::Base {
            for section in chain {
                files.entry(section.file).or_default().push(group);
            }
        }
    }
    files
}

/// The files that a snapshot of this plan needs beside its own, and for each group the place among
/// them of the file that its rows begin in, or their number for its own.
pub(super) fn needs(chains: &[Chain], plan: &[Plan]) -> (Vec<u64>, Vec<u16>) {
    let files: Vec<u64> = dependents(chains, plan).into_keys().collect();
    let origins = chains.iter().zip(plan).map(|(chain, plan)| {
        let begins = chain.first().filter(|_| *plan != Plan::Base);
        let place = begins.map_or(files.len(), |base| {
            files.partition_point(|file| *file < base.file)
        });
        u16::try_from(place).expect("few files are needed")
    });
    let origins = origins.collect();
    (files, origins)
}

/// A group's chain behind a snapshot that wrote this section of it; nothing is written if it has no
/// rows.
pub(super) fn extend(chain: &[Section], plan: Plan, written: Section) -> Chain {
    let mut chain = match plan {
        Plan::Base => Chain::new(),
        Plan::Delta | Plan::Nothing => chain.to_vec(),
    };
    if written.rows > 0 {
        chain.push(written);
    }
    chain
}

#[cfg(test)]
mod tests;
