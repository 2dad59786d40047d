//! Randomness that is none: a stream which follows from the operator's id.

use sha2::{Digest, Sha256};

/// SHA-256 of the operator's id and a counter, a block after the other.
pub(crate) struct Random {
    key: [u8; 32],
    blocks: u64,
}

impl Random {
    pub(crate) fn new(operator: &str) -> Self {
        Random {
            key: Sha256::digest(operator.as_bytes()).into(),
            blocks: 0,
        }
    }

    /// The next bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 32);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.block());
        }
        bytes.truncate(count);
        bytes
    }

    /// The next number.
    pub(crate) fn number(&mut self) -> u64 {
        first(&self.block())
    }

    /// Two numbers, the same each time.
    pub(crate) fn seed(&self) -> (u64, u64) {
        (first(&self.key), first(&self.key[8..]))
    }

    fn block(&mut self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.key);
        hash.update(self.blocks.to_le_bytes());
        self.blocks += 1;
        hash.finalize().into()
    }
}

fn first(bytes: &[u8]) -> u64 {
    let bytes = bytes.first_chunk().expect("a hash has 32 bytes");
    u64::from_le_bytes(*bytes)
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn the_stream_follows_from_the_id_and_does_not_repeat() {
        let (mut one, mut same, mut other) = (Random::new("a"), Random::new("a"), Random::new("b"));
        let bytes = one.bytes(100);
        assert_eq!(bytes.len(), 100);
        assert_eq!(bytes, same.bytes(100));
        assert_ne!(bytes, other.bytes(100));
        assert_ne!(bytes, one.bytes(100));
        assert_ne!(one.number(), one.number());
        assert_eq!(one.seed(), same.seed());
        assert_ne!(one.seed(), other.seed());
        assert!(one.bytes(0).is_empty());
    }
}
