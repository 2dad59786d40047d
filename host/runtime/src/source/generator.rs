//! Made up records, the same on every run: for benchmarks and trials.
//!
//! Record i is a pure function of i and the settings: key `k` and a number that is a mix of i, value a JSON object with
//! i and the key, filled up to the length asked for. Split s of n has the records i with i mod n = s; a subtask deals
//! out its splits' records by the smallest i, so that they stay close to each other in time.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Emit, Error, Progress, Reader, SplitState, position};
use crate::batch::{MAX_RECORD_BYTES, NO_TIME, Origin};
use crate::job::model::{Generator, NodeId};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    /// Records of the split so far.
    at: u64,
    /// Number of splits that the sequence is dealt to.
    of: u32,
    /// Records in all, if it ends.
    records: Option<u64>,
}

fn to_json(position: &Position) -> serde_json::Value {
    serde_json::to_value(position).expect("a position is plain data")
}

/// The splits of a sequence, none of them begun.
pub(super) fn discover(source: &NodeId, settings: &Generator) -> Result<Vec<SplitState>, Error> {
    Layout::of(source, settings)?;
    let position = to_json(&Position {
        at: 0,
        of: settings.splits,
        records: settings.records,
    });
    Ok((0..settings.splits)
        .map(|split| SplitState {
            split,
            name: format!("generator {split}"),
            done: false,
            max_time: NO_TIME,
            position: position.clone(),
        })
        .collect())
}

/// Checks that the sequence is dealt out as it was.
pub(super) fn resume(
    source: &NodeId,
    settings: &Generator,
    splits: &[SplitState],
) -> Result<Vec<String>, Error> {
    for split in splits {
        let position: Position = position(source, split)?;
        for (what, recorded, now) in [
            (
                "splits",
                Some(u64::from(position.of)),
                Some(u64::from(settings.splits)),
            ),
            ("records", position.records, settings.records),
        ] {
            if recorded != now {
                let word = |count: Option<u64>| {
                    count.map_or("no limit".to_owned(), |count| count.to_string())
                };
                return Err(Error::Changed(format!(
                    "source `{source}`: the job began with `{what}` at {}, now it is {}; undo that, or move the output away and start over with `--fresh`",
                    word(recorded),
                    word(now)
                )));
            }
        }
    }
    Ok(Vec::new())
}

/// What a value holds, by the room there is for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// `{"n":7}` and blanks.
    Number,
    /// `{"n":7,"key":"k3"}`, with `,"pad":"xx"` if there is room for it and blanks if not.
    NumberAndKey,
}

impl Layout {
    fn of(source: &NodeId, settings: &Generator) -> Result<Layout, Error> {
        let invalid =
            |what: String| Error::Invalid(format!("source `{source}`: generator: {what}"));
        if settings.splits == 0 || settings.keys == 0 {
            return Err(invalid("`splits` and `keys` must be at least 1".to_owned()));
        }
        if settings.value_bytes > MAX_RECORD_BYTES / 2 {
            return Err(invalid(format!(
                "`value_bytes` is {}, more than {}",
                settings.value_bytes,
                MAX_RECORD_BYTES / 2
            )));
        }
        let digits = |largest: u64| largest.checked_ilog10().unwrap_or(0) as usize + 1;
        let number = digits(
            settings
                .records
                .map_or(u64::MAX, |records| records.saturating_sub(1)),
        );
        let key = digits(settings.keys - 1);
        let needed = r#"{"n":}"#.len() + number;
        if settings.value_bytes < needed {
            return Err(invalid(format!(
                "`value_bytes` is {}, but the number of a record alone may take {needed}",
                settings.value_bytes
            )));
        }
        let with_key = needed + r#","key":"k""#.len() + key;
        Ok(if settings.value_bytes < with_key {
            Layout::Number
        } else {
            Layout::NumberAndKey
        })
    }
}

/// A well spread function of `i` (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
fn mix(i: u64) -> u64 {
    let mut z = i.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Another such function, so that keys and disorder have nothing to do with each other.
fn mix_again(i: u64) -> u64 {
    mix(i ^ 0xd1b5_4a32_d192_ed03)
}

/// Appends `number` in decimal.
fn push_decimal(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[derive(Debug)]
struct Share {
    state: SplitState,
    /// Number of its next record.
    next: u64,
}

/// The reader of a generator's subtask.
#[derive(Debug)]
pub(super) struct Sequence {
    settings: Generator,
    layout: Layout,
    first_split: u32,
    shares: Vec<Share>,
    /// The shares that have records left, by index, in the order of their next records.
    turns: VecDeque<usize>,
    pad: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
    announced: bool,
}

impl Sequence {
    pub(super) fn open(
        source: &NodeId,
        settings: &Generator,
        splits: Vec<SplitState>,
        first_split: u32,
    ) -> Result<Sequence, Error> {
        let layout = Layout::of(source, settings)?;
        resume(source, settings, &splits)?;
        let mut shares = Vec::with_capacity(splits.len());
        for state in splits {
            let position: Position = position(source, &state)?;
            let next = position.at.saturating_mul(u64::from(settings.splits));
            shares.push(Share {
                next: next.saturating_add(u64::from(state.split)),
                state,
            });
        }
        shares.sort_by_key(|share| share.next);
        let turns = (0..shares.len())
            .filter(|&index| !shares[index].state.done)
            .collect();
        Ok(Sequence {
            pad: vec![b'x'; settings.value_bytes],
            settings: settings.clone(),
            layout,
            first_split,
            shares,
            turns,
            key: Vec::with_capacity(21),
            value: Vec::with_capacity(settings.value_bytes),
            announced: false,
        })
    }

    /// Leaves key and value of record `i` in their buffers, and returns its time.
    fn make(&mut self, i: u64) -> i64 {
        let settings = &self.settings;
        self.key.clear();
        self.key.push(b'k');
        push_decimal(mix(i) % settings.keys, &mut self.key);

        let value = &mut self.value;
        value.clear();
        value.extend_from_slice(br#"{"n":"#);
        push_decimal(i, value);
        if self.layout == Layout::NumberAndKey {
            value.extend_from_slice(br#","key":""#);
            value.extend_from_slice(&self.key);
            value.push(b'"');
            let gap = settings.value_bytes - value.len() - 1;
            const EMPTY_PAD: usize = br#","pad":"""#.len();
            if gap >= EMPTY_PAD {
                value.extend_from_slice(br#","pad":""#);
                value.extend_from_slice(&self.pad[..gap - EMPTY_PAD]);
                value.push(b'"');
            }
        }
        value.resize(settings.value_bytes - 1, b' ');
        value.push(b'}');

        let passed = i.saturating_mul(settings.step_micros) / 1_000;
        let back = match settings.disorder {
            0 => 0,
            disorder => mix_again(i) % disorder.saturating_add(1),
        };
        settings
            .start
            .saturating_add_unsigned(passed)
            .saturating_sub_unsigned(back)
            .max(NO_TIME + 1)
    }

    fn is_over(&self, i: u64) -> bool {
        self.settings.records.is_some_and(|records| i >= records)
    }
}

impl Reader for Sequence {
    fn read(&mut self, emit: &mut dyn Emit) -> Result<Progress, Error> {
        if !self.announced {
            self.announced = true;
            for &index in &self.turns {
                emit.opened(self.shares[index].state.split);
            }
        }
        let step = u64::from(self.settings.splits);
        while let Some(&index) = self.turns.front() {
            let i = self.shares[index].next;
            if self.is_over(i) {
                self.turns.pop_front();
                let state = &mut self.shares[index].state;
                state.done = true;
                emit.done(state.split);
                continue;
            }
            if emit.full() {
                return Ok(Progress::More);
            }
            let time = self.make(i);
            let share = &mut self.shares[index];
            share.state.max_time = share.state.max_time.max(time);
            share.next = i.saturating_add(step);
            let split = share.state.split;
            let place = share.next / step;
            let origin = Origin::new(self.first_split.saturating_add(split), place);
            emit.record(split, Some(&self.key), Some(&self.value), time, origin);

            // Nearly always behind all others; not where splits were read at different paces before a restart.
            self.turns.pop_front();
            let next = self.shares[index].next;
            let place = match self.turns.back() {
                Some(&last) if self.shares[last].next > next => self
                    .turns
                    .partition_point(|&other| self.shares[other].next < next),
                _ => self.turns.len(),
            };
            self.turns.insert(place, index);
        }
        Ok(Progress::Ended)
    }

    fn splits(&self) -> Vec<SplitState> {
        let step = u64::from(self.settings.splits);
        let mut splits: Vec<SplitState> = self
            .shares
            .iter()
            .map(|share| {
                let at = share.next / step;
                let position = Position {
                    at,
                    of: self.settings.splits,
                    records: self.settings.records,
                };
                SplitState {
                    position: to_json(&position),
                    ..share.state.clone()
                }
            })
            .collect();
        splits.sort_by_key(|split| split.split);
        splits
    }

    fn share(&self) -> Option<(u64, u64)> {
        let records = self.settings.records?;
        let step = u64::from(self.settings.splits);
        let (mut read, mut all) = (0, 0);
        for share in &self.shares {
            read += share.next / step;
            all += records
                .saturating_sub(u64::from(share.state.split))
                .div_ceil(step);
        }
        Some((read, all))
    }
}

#[cfg(test)]
mod tests;
