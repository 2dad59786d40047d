//! Partitions by key, as the Java client chooses them.

/// MurmurHash2 with the seed of the Java client (`0x9747b28c`), over bytes read in little-endian order.
fn murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    let mut hash = 0x9747_b28c ^ bytes.len() as u32;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (i, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * i);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

/// The partition of records that have `key`, of `partitions`.
pub(super) fn of_key(key: &[u8], partitions: u32) -> i32 {
    let positive = murmur2(key) & 0x7fff_ffff;
    // Kafka numbers partitions by signed numbers of 32 bits.
    (positive % partitions.max(1)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of the Java client's own test.
    #[test]
    fn hashes_are_those_of_the_java_client() {
        for (text, hash) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(text.as_bytes()) as i32, hash, "{text}");
        }
    }

    #[test]
    fn every_key_has_a_partition() {
        for key in [&b""[..], b"a", b"21", b"\xff\xff\xff\xff\xff"] {
            for partitions in [1, 2, 3, 100, i32::MAX as u32] {
                let partition = of_key(key, partitions);
                assert!((0..partitions as i32).contains(&partition), "{key:?}");
            }
        }
    }
}
