//! The files that a watching source has read to their ends and that are still where they were: what is not to be read again.
//!
//! Every checkpoint has all of it, so a file is a record of a fixed 48 bytes: a hash of its name, large enough never to be that of
//! another, its size, when it was changed, the hash of its beginning, and which directory it was seen in. In a manifest the records
//! stand in base64.

use std::cell::OnceCell;
use std::collections::HashMap;

/// Bytes of a file's record.
const RECORD: usize = 48;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A file's size, and when it was changed, in nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) size: u64,
    pub(super) modified: i64,
}

/// A file that was read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Finished {
    pub(super) stamp: Stamp,
    /// XXH3-64 of its first 64 KiB.
    pub(super) head: u64,
    /// The directory that it was last seen in, 0 where that is not known: see [`super::watch`].
    pub(super) dir: u64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    files: HashMap<u128, Finished>,
    /// As text, until something changes.
    text: OnceCell<String>,
}

/// What a file is found by.
pub(super) fn key(name: &str) -> u128 {
    xxhash_rust::xxh3::xxh3_128(name.as_bytes())
}

/// The subtask of `of` that reads the file with this key.
pub(super) fn subtask(key: u128, of: u32) -> u32 {
    (key % u128::from(of.max(1))) as u32
}

impl Ledger {
    pub(super) fn get(&self, key: u128) -> Option<Finished> {
        self.files.get(&key).copied()
    }

    pub(super) fn insert(&mut self, key: u128, finished: Finished) {
        if self.files.insert(key, finished) != Some(finished) {
            self.text.take();
        }
    }

    pub(super) fn remove(&mut self, key: u128) {
        self.files.remove(&key);
        self.text.take();
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(u128, Finished) -> bool) {
        let before = self.files.len();
        self.files.retain(|key, finished| keep(*key, *finished));
        if self.files.len() < before {
            self.text.take();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The part of each of `of` subtasks.
    pub(super) fn deal(self, of: u32, to: &mut [Ledger]) {
        for (key, finished) in self.files {
            to[subtask(key, of) as usize].insert(key, finished);
        }
    }

    pub(super) fn text(&self) -> &str {
        self.text.get_or_init(|| {
            let mut keys: Vec<_> = self.files.iter().collect();
            keys.sort_unstable_by_key(|(key, _)| **key);
            let mut bytes = Vec::with_capacity(keys.len() * RECORD);
            for (key, finished) in keys {
                bytes.extend(key.to_le_bytes());
                bytes.extend(finished.stamp.size.to_le_bytes());
                bytes.extend(finished.stamp.modified.to_le_bytes());
                bytes.extend(finished.head.to_le_bytes());
                bytes.extend(finished.dir.to_le_bytes());
            }
            encode(&bytes)
        })
    }

    /// From what [`Ledger::text`] gave; `None` for anything else.
    pub(super) fn parse(text: &str) -> Option<Ledger> {
        let bytes = decode(text)?;
        if !bytes.len().is_multiple_of(RECORD) {
            return None;
        }
        let mut ledger = Ledger::default();
        for record in bytes.chunks_exact(RECORD) {
            let (key, rest) = record.split_first_chunk::<16>()?;
            let (size, rest) = rest.split_first_chunk::<8>()?;
            let (modified, rest) = rest.split_first_chunk::<8>()?;
            let (head, dir) = rest.split_first_chunk::<8>()?;
            let finished = Finished {
                stamp: Stamp {
                    size: u64::from_le_bytes(*size),
                    modified: i64::from_le_bytes(*modified),
                },
                head: u64::from_le_bytes(*head),
                dir: u64::from_le_bytes(dir.try_into().ok()?),
            };
            ledger.insert(u128::from_le_bytes(*key), finished);
        }
        Some(ledger)
    }
}

/// Base64 of bytes whose number is a multiple of three, so that nothing is to be padded.
fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() / 3 * 4);
    for three in bytes.chunks_exact(3) {
        let bits = u32::from(three[0]) << 16 | u32::from(three[1]) << 8 | u32::from(three[2]);
        for shift in [18, 12, 6, 0] {
            text.push(char::from(DIGITS[(bits >> shift & 63) as usize]));
        }
    }
    text
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| DIGITS.iter().position(|digit| *digit == byte);
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for four in text.as_bytes().chunks_exact(4) {
        let mut bits = 0;
        for byte in four {
            bits = bits << 6 | digit(*byte)?;
        }
        bytes.extend([(bits >> 16) as u8, (bits >> 8) as u8, bits as u8]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(i: u64) -> Finished {
        Finished {
            stamp: Stamp {
                size: i,
                modified: -(i as i64),
            },
            head: u64::MAX - i,
            dir: i << 60,
        }
    }

    fn ledger(files: u64) -> Ledger {
        let mut ledger = Ledger::default();
        for i in 0..files {
            ledger.insert(key(&format!("file {i}")), finished(i));
        }
        ledger
    }

    #[test]
    fn it_is_read_as_written_and_takes_64_characters_a_file() {
        for files in [0, 1, 2, 1_000] {
            let written = ledger(files);
            assert_eq!(written.text().len() as u64, files * 64);
            let read = Ledger::parse(written.text()).unwrap();
            assert_eq!(read.files, written.files);
            assert_eq!(read.text(), written.text());
        }
    }

    #[test]
    fn the_text_follows_every_change() {
        let mut ledger = ledger(3);
        let mut before = ledger.text().to_owned();
        let mut changed = |ledger: &Ledger| {
            let now = ledger.text().to_owned();
            std::mem::replace(&mut before, now.clone()) != now
        };
        ledger.insert(key("file 1"), finished(1));
        assert!(!changed(&ledger), "nothing new");
        ledger.insert(key("file 1"), finished(9));
        assert!(changed(&ledger));
        ledger.remove(key("file 2"));
        assert!(changed(&ledger));
        ledger.retain(|_, _| true);
        assert!(!changed(&ledger));
        ledger.retain(|of, _| of != key("file 1"));
        assert!(changed(&ledger));
        assert_eq!(ledger.get(key("file 0")), Some(finished(0)));
        assert_eq!(ledger.get(key("file 1")), None);
    }

    #[test]
    fn dealt_and_dealt_again_nothing_is_lost() {
        let mut all = vec![ledger(100)];
        for of in [3_u32, 1, 4] {
            let mut next = vec![Ledger::default(); of as usize];
            for ledger in all {
                ledger.deal(of, &mut next);
            }
            let files: usize = next.iter().map(|ledger| ledger.files.len()).sum();
            assert_eq!(files, 100);
            all = next;
        }
        for (i, ledger) in all.iter().enumerate() {
            assert!(ledger.files.keys().all(|key| subtask(*key, 4) == i as u32));
            assert!(!ledger.is_empty());
        }
    }

    #[test]
    fn what_is_damaged_is_not_read() {
        let text = ledger(2).text().to_owned();
        for damaged in [&text[..64 + 4], &text[..63], &text.replace(&text[..1], "!")] {
            assert!(Ledger::parse(damaged).is_none(), "{damaged}");
        }
    }
}
