//! A timer's place among the timers of its key.

use super::bytes::Bytes;
use crate::stored_key::{suffix_time, time_suffix};

const TIME: usize = size_of::<i64>();

/// Time, declared timer, namespace: the order of a key's timers, in which they fire.
pub(super) fn timer_key(time: i64, timer: u16, namespace: &[u8]) -> Bytes {
    let mut head = [0; TIME + 2];
    head[..TIME].copy_from_slice(&time_suffix(time));
    head[TIME..].copy_from_slice(&timer.to_be_bytes());
    Bytes::joined(&head, namespace)
}

/// The inverse of [`timer_key`].
pub(super) fn timer_parts(key: &[u8]) -> (i64, u16, &[u8]) {
    let (time, rest) = key.split_at(TIME);
    let (timer, namespace) = rest
        .split_first_chunk()
        .expect("a timer's key names its timer");
    let time = suffix_time(time).expect("split at a time's size");
    (time, u16::from_be_bytes(*timer), namespace)
}
