//! A timer's place among the timers of its key.

use super::bytes::Bytes;
use crate::stored_key::{suffix_time, time_suffix};

const TIME: usize = size_of::<i64>();

/// Time, declared timer, namespace: the order of a key's timers, in which they fire.
#[inline]
pub(super) fn timer_key(time: i64, timer: u16, namespace: &[u8]) -> Bytes {
    let mut head = [0; TIME + 2];
    head[..TIME].copy_from_slice(&time_suffix(time));
    head[TIME..].copy_from_slice(&timer.to_be_bytes());
    Bytes::joined(&head, namespace)
}

/// The time of a timer.
#[inline]
pub(super) fn timer_time(key: &[u8]) -> i64 {
    let time = key.get(..TIME).and_then(suffix_time);
    time.expect("a timer's key begins with its time")
}

/// The declared timer of a timer.
#[inline]
pub(super) fn timer_index(key: &[u8]) -> u16 {
    let index = key[TIME..].first_chunk();
    u16::from_be_bytes(*index.expect("a timer's key names its timer"))
}

/// Bytes of a timer's time and namespace.
#[inline]
pub(super) fn timer_bytes(key: &[u8]) -> usize {
    key.len() - size_of::<u16>()
}

/// The inverse of [`timer_key`].
pub(super) fn timer_parts(key: &[u8]) -> (i64, u16, &[u8]) {
    let namespace = &key[TIME + size_of::<u16>()..];
    (timer_time(key), timer_index(key), namespace)
}
