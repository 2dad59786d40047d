//! A key's slot: one cache line with all that a counting operator needs.

/// Longest key inside a slot.
pub(super) const KEY: usize = 24;
/// Longest first value inside a slot; an expiry takes eight bytes of it.
pub(super) const VALUE: usize = 18;
const EXPIRY: usize = size_of::<i64>();

/// Key lengths that say something else.
const LONG_KEY: u8 = u8::MAX - 1;
const FREE: u8 = u8::MAX;

/// The first value's tag: these bits, and its length below.
const PRESENT: u8 = 0x80;
const EXPIRES: u8 = 0x40;
const LENGTH: u8 = 0x3F;
/// The length of a value that lies in the annex.
const LONG_VALUE: u8 = LENGTH;

/// A key, its value in the first value state without a namespace, and where the rest is.
///
/// A slot never moves while it is in use, and its number is its name.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Slot {
    pub(super) hash: u64,
    /// The number of the annex + 1; 0 is none.
    pub(super) annex: u32,
    /// Where the key stands in the dictionary of the call that has it there. What an older call
    /// left is told by the dictionary, whose slot of that index is another.
    pub(super) index: u32,
    /// Of the first value; see [`Keeper`](super::keeper::Keeper).
    pub(super) stamp: u32,
    key_len: u8,
    tag: u8,
    key: [u8; KEY],
    value: [u8; VALUE],
}

const _: () = assert!(size_of::<Slot>() == 64);

/// The first value as it lies in a slot.
pub(super) enum First<'a> {
    Inside(&'a [u8]),
    /// In the annex.
    Long,
}

impl Slot {
    pub(super) const UNUSED: Slot = Slot {
        hash: 0,
        annex: 0,
        index: 0,
        stamp: 0,
        key_len: FREE,
        tag: 0,
        key: [0; KEY],
        value: [0; VALUE],
    };

    /// Whether it belongs to no key.
    pub(super) fn is_free(&self) -> bool {
        self.key_len == FREE
    }

    /// The key, or `None` if it lies in the annex.
    #[inline]
    pub(super) fn short_key(&self) -> Option<&[u8]> {
        self.key.get(..usize::from(self.key_len))
    }

    /// The bytes that a short key lies in, with what is behind it.
    #[inline]
    pub(super) fn key_room(&self) -> &[u8; KEY] {
        &self.key
    }

    /// Gives the slot to a key; whether the key is too long to lie inside.
    pub(super) fn take(&mut self, hash: u64, key: &[u8]) -> bool {
        *self = Slot {
            hash,
            stamp: self.stamp,
            key_len: LONG_KEY,
            ..Slot::UNUSED
        };
        if let Some(room) = self.key.get_mut(..key.len()) {
            room.copy_from_slice(key);
            self.key_len = key.len() as u8;
        }
        self.key_len == LONG_KEY
    }

    #[inline]
    pub(super) fn has_first(&self) -> bool {
        self.tag & PRESENT != 0
    }

    #[inline]
    pub(super) fn first(&self) -> Option<(First<'_>, Option<i64>)> {
        if !self.has_first() {
            return None;
        }
        let (expiry, room) = self.parts();
        let length = self.tag & LENGTH;
        let first = if length == LONG_VALUE {
            First::Long
        } else {
            First::Inside(&room[..usize::from(length)])
        };
        Some((first, expiry))
    }

    /// The first value's length and the bytes that it lies in from the start, if it is there, does
    /// not expire, and lies inside.
    #[inline]
    pub(super) fn plain_first(&self) -> Option<(usize, &[u8; VALUE])> {
        let length = self.tag ^ PRESENT;
        (usize::from(length) <= VALUE).then_some((usize::from(length), &self.value))
    }

    #[inline]
    fn parts(&self) -> (Option<i64>, &[u8]) {
        if self.tag & EXPIRES == 0 {
            return (None, &self.value);
        }
        let (expiry, room) = self.value.split_at(EXPIRY);
        let expiry = expiry.try_into().expect("split at an expiry's size");
        (Some(i64::from_le_bytes(expiry)), room)
    }

    /// Sets the first value if it lies inside; whether it does.
    #[inline(always)]
    pub(super) fn set_first(&mut self, bytes: &[u8], expiry: Option<i64>) -> bool {
        let head = if expiry.is_some() { EXPIRY } else { 0 };
        if bytes.len() > VALUE - head {
            return false;
        }
        self.tag = bytes.len() as u8 | PRESENT;
        if let Some(expiry) = expiry {
            self.tag |= EXPIRES;
            self.value[..EXPIRY].copy_from_slice(&expiry.to_le_bytes());
        }
        copy_short(bytes, &mut self.value[head..]);
        true
    }

    /// Says that the first value lies in the annex.
    pub(super) fn set_long_first(&mut self, expiry: Option<i64>) {
        self.set_first(&[], expiry);
        self.tag |= LONG_VALUE;
    }

    pub(super) fn clear_first(&mut self) {
        self.tag = 0;
    }

    pub(super) fn release(&mut self) {
        self.key_len = FREE;
        self.tag = 0;
    }

    /// Whether it is the slot of this key, which has this hash; `None` if its key lies in the annex.
    #[inline]
    pub(super) fn is(&self, hash: u64, key: &[u8]) -> Option<bool> {
        if self.hash != hash {
            return Some(false);
        }
        if self.key_len == LONG_KEY {
            return None;
        }
        Some(
            usize::from(self.key_len) == key.len()
                && self.short_key().is_some_and(|own| equal_short(own, key)),
        )
    }
}

/// Copies at most 24 bytes: for lengths that are only known at run time, a call of `memcpy` is much
/// of what a small value costs.
#[inline(always)]
fn copy_short(from: &[u8], to: &mut [u8]) {
    let length = from.len();
    if length == 8 {
        to[..8].copy_from_slice(&from[..8]);
    } else {
        to[..length].copy_from_slice(from);
    }
}

/// Compares two strings of one length of at most 24 bytes, by overlapping words.
#[inline(always)]
fn equal_short(left: &[u8], right: &[u8]) -> bool {
    let length = left.len();
    if length >= 8 {
        let mut same = word(left, 0) == word(right, 0);
        if length > 16 {
            same &= word(left, 8) == word(right, 8);
        }
        same & (word(left, length - 8) == word(right, length - 8))
    } else if length >= 4 {
        let half = |bytes: &[u8], at: usize| bytes[at..at + 4] == right[at..at + 4];
        half(left, 0) & half(left, length - 4)
    } else {
        left.iter().zip(right).all(|(left, right)| left == right)
    }
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(
        bytes[at..at + 8]
            .try_into()
            .expect("a range of eight bytes"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_every_length_are_told_apart_at_every_byte() {
        for length in 0..40usize {
            let key: Vec<u8> = (1..=length as u8).collect();
            let mut slot = Slot::UNUSED;
            assert!(slot.is_free());
            assert_eq!(slot.take(7, &key), length > KEY);
            assert!(!slot.is_free());
            if length > KEY {
                assert_eq!((slot.short_key(), slot.is(7, &key)), (None, None));
                continue;
            }
            assert_eq!(slot.short_key(), Some(&key[..]));
            assert_eq!(
                (slot.is(7, &key), slot.is(8, &key)),
                (Some(true), Some(false))
            );
            for byte in 0..length {
                let mut other = key.clone();
                other[byte] ^= 0x80;
                assert_eq!(slot.is(7, &other), Some(false), "byte {byte} of {length}");
            }
            assert_eq!(slot.is(7, &[&key[..], b"\0"].concat()), Some(false));
        }
    }

    #[test]
    fn values_of_every_length_lie_inside_or_say_that_they_do_not() {
        let mut slot = Slot::UNUSED;
        assert!(slot.first().is_none());
        for expiry in [None, Some(i64::MIN), Some(i64::MAX)] {
            for length in 0..30usize {
                let value: Vec<u8> = (1..=length as u8).collect();
                let fits = length <= VALUE - expiry.map_or(0, |_| EXPIRY);
                assert_eq!(slot.set_first(&value, expiry), fits);
                if !fits {
                    slot.set_long_first(expiry);
                }
                let (first, expires) = slot.first().unwrap();
                assert_eq!(expires, expiry);
                match first {
                    First::Inside(bytes) => assert!(fits && bytes == value),
                    First::Long => assert!(!fits),
                }
                let plain = slot.plain_first().map(|(length, room)| &room[..length]);
                assert_eq!(plain, (fits && expiry.is_none()).then_some(&value[..]));
            }
        }
        slot.clear_first();
        assert!(slot.first().is_none() && slot.plain_first().is_none());
    }
}
