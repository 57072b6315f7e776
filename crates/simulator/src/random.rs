//! Randomness from one number.

/// A SplitMix64 generator: small, fast, and the same on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // One step apart, neighbouring seeds would give streams that are shifts of each other.
        let mut mixed = Self(seed ^ 0x6a09_e667_f3bc_c909);
        Self(mixed.word())
    }

    /// The next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, or 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The slight bias of the high part does not matter here.
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        (self.word() >> 56) as u8
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    ///
    /// # Panics
    ///
    /// When there is nothing to pick from.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// One of several with weights; each is as likely as its weight among all.
    ///
    /// # Panics
    ///
    /// When there is nothing to pick from.
    pub fn weighted<T: Copy>(&mut self, from: &[(u64, T)]) -> T {
        let total = from.iter().map(|(weight, _)| weight).sum();
        let mut at = self.below(total);
        for (weight, item) in from {
            if at < *weight {
                return *item;
            }
            at -= weight;
        }
        from[0].1
    }
}
