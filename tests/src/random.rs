//! A small generator of random numbers, so that a seed repeats a run's decisions.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Splitmix64 (Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Another sequence each time, for names and ports that nobody else must have.
    pub fn unrepeatable() -> Random {
        // The standard library seeds its hash maps by the system.
        Random(RandomState::new().hash_one(0))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// One of `choices`, which are not none.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// A time shorter than `bound`.
    pub fn time(&mut self, bound: Duration) -> Duration {
        Duration::from_micros(self.below(bound.as_micros().max(1) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_sequence_and_another_has_its_own() {
        let sequence = |seed| {
            let mut random = Random::new(seed);
            (0..10).map(|_| random.below(1_000)).collect::<Vec<_>>()
        };
        assert_eq!(sequence(1), sequence(1));
        assert_ne!(sequence(1), sequence(2));
        assert!(sequence(3).iter().all(|number| *number < 1_000));
    }

    #[test]
    fn an_unrepeatable_sequence_is_not_repeated() {
        assert_ne!(Random::unrepeatable().bits(), Random::unrepeatable().bits());
    }
}
