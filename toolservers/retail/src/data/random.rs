//! Deterministic pseudo-random numbers: `SplitMix64`.

/// A stream of numbers from a seed.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to, but not including, `bound`; 0 if `bound` is not positive.
    pub(crate) fn below(&mut self, bound: i64) -> i64 {
        let bound = u64::try_from(bound).unwrap_or(0).max(1);
        i64::try_from(self.next() % bound).unwrap_or(0)
    }

    /// A number between both bounds, inclusive.
    pub(crate) fn within(&mut self, lowest: i64, highest: i64) -> i64 {
        lowest + self.below(highest - lowest + 1)
    }

    /// True in `chance` percent of cases.
    pub(crate) fn percent(&mut self, chance: i64) -> bool {
        self.below(100) < chance
    }

    /// The index of one of the weights, with probability proportional to it.
    pub(crate) fn weighted(&mut self, weights: &[i64]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (place, weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0 {
                return place;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_matches_the_published_one() {
        let mut random = Random::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn zero_weights_are_never_drawn() {
        let mut random = Random::new(7);
        for _ in 0..1_000 {
            assert_eq!(random.weighted(&[0, 3, 0]), 1);
            assert!((5..=7).contains(&random.within(5, 7)));
        }
    }
}
