//! What a reader emitted, for tests.

use super::{Emit, Error, Progress, Reader, SplitState, Subtask};
use crate::batch::Origin;
use crate::decode::dead_letter::Letter;
use crate::headers::Header;
use crate::job::model;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) split: u32,
    pub(super) key: Option<String>,
    pub(super) value: Vec<u8>,
    pub(super) headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    pub(super) time: i64,
    pub(super) origin: Option<(u32, u64)>,
}

impl Row {
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.value).unwrap()
    }
}

/// Collects rows, `allowance` of them before it is full.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) rows: Vec<Row>,
    pub(super) allowance: usize,
    pub(super) skipped: Vec<u32>,
    pub(super) dead_letters: Vec<serde_json::Value>,
    /// `open 1`, `done 1`, in order.
    pub(super) events: Vec<String>,
}

impl Collected {
    pub(super) fn texts(&self) -> Vec<&str> {
        self.rows.iter().map(Row::text).collect()
    }

    /// Reads `count` more records, or to the end.
    pub(super) fn read(&mut self, reader: &mut dyn Reader, count: usize) -> Result<(), Error> {
        self.allowance = self.rows.len().saturating_add(count);
        while self.rows.len() < self.allowance {
            if reader.read(self)? == Progress::Ended {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn read_all(&mut self, reader: &mut dyn Reader) -> Result<(), Error> {
        self.read(reader, usize::MAX)
    }
}

impl Emit for Collected {
    fn record(
        &mut self,
        split: u32,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        time: i64,
        origin: Origin,
    ) {
        let none = &mut std::iter::empty();
        self.record_with_headers(split, key, value, none, time, origin);
    }

    fn record_with_headers(
        &mut self,
        split: u32,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &mut dyn Iterator<Item = Header<'_>>,
        time: i64,
        origin: Origin,
    ) {
        self.rows.push(Row {
            split,
            key: key.map(|key| String::from_utf8(key.to_vec()).unwrap()),
            value: value.unwrap().to_vec(),
            headers: headers
                .map(|(name, contents)| (name.to_vec(), contents.map(<[u8]>::to_vec)))
                .collect(),
            time,
            origin: origin.split_and_place(),
        });
    }

    fn skipped(&mut self, split: u32) {
        self.skipped.push(split);
    }

    fn dead_letter(&mut self, _split: u32, letter: &Letter<'_>, _origin: Origin) {
        self.dead_letters
            .push(serde_json::from_slice(&letter.to_json()).unwrap());
    }

    fn opened(&mut self, split: u32) {
        self.events.push(format!("open {split}"));
    }

    fn done(&mut self, split: u32) {
        self.events.push(format!("done {split}"));
    }

    fn full(&self) -> bool {
        self.rows.len() >= self.allowance
    }
}

/// Checks `splits` before somebody goes on from them; gives the warnings.
pub(super) fn resume(source: &model::Source, splits: &[SplitState]) -> Result<Vec<String>, Error> {
    let (resumed, warnings) = super::resume(source, splits.to_vec())?;
    assert_eq!(resumed, splits, "files add nothing");
    Ok(warnings)
}

/// The reader of a source's only subtask.
pub(super) fn open(
    source: &model::Source,
    splits: Vec<SplitState>,
    first_split: u32,
) -> Result<Box<dyn Reader>, Error> {
    let subtask = Subtask {
        number: 0,
        of: 1,
        first_split,
        all: &[],
        read_ahead: 0,
    };
    super::open(source, splits, subtask)
}
