//! Numbers that look random, where the same seed has to give the same ones.

/// SplitMix64, the generator of Steele, Lea and Flood: any seed is a good one, and is all its state.
#[derive(Clone, Copy, Debug)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// Any number. The first one is a bijection of the seed in which every bit depends on every other.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `limit`, which is at least 1.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_reference() {
        let mut random = SplitMix64(1_234_567);
        let numbers = [(); 3].map(|()| random.draw());
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
        assert!((0..100).all(|_| random.below(7) < 7));
    }
}
