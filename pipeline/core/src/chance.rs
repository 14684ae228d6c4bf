//! Generates counter-based random numbers: every draw is a pure function of a seed, a purpose and indices.
//!
//! A rollout's tokens therefore do not depend on the rest of its batch, on the number of threads or on restarts of the
//! process, and no generator state has to be saved or shared. The generator is Philox 4x32-10 (Salmon et al., SC 2011).
//! Its key and the upper half of its counter are a hash of seed, purpose and indices; the lower half of the counter
//! numbers the blocks of draws.

use sha2::{Digest as _, Sha256};

/// A source of random numbers for one seed. Cheap to copy.
///
/// ```
/// use trainyard_core::Chance;
///
/// let chance = Chance::new(7);
/// let draw = |turn, token| chance.at("sample", &[turn, token]).uniform();
/// assert_eq!(draw(0, 3), draw(0, 3), "the same place gives the same number");
/// assert_ne!(draw(0, 3), draw(3, 0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chance {
    seed: u64,
}

impl Chance {
    /// Creates the source of this seed.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }
    /// Returns the seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }
    /// Returns the generator for a purpose and indices, such as `at("sample", &[problem, sample, turn, token])`.
    pub fn at(&self, purpose: &str, indices: &[u64]) -> PhiloxRng {
        let mut hash = Sha256::new();
        hash.update(self.seed.to_le_bytes());
        hash.update((purpose.len() as u64).to_le_bytes());
        hash.update(purpose.as_bytes());
        for index in indices {
            hash.update(index.to_le_bytes());
        }
        let h = hash.finalize();
        let word = |i: usize| u32::from_le_bytes([h[4 * i], h[4 * i + 1], h[4 * i + 2], h[4 * i + 3]]);
        PhiloxRng { key: [word(0), word(1)], block: [word(2), word(3)], counter: 0, buffer: [0; 4], used: 4 }
    }
    /// Returns a separate source for a part that uses its own indices (a stage, an arm, an epoch).
    pub fn child(&self, purpose: &str, indices: &[u64]) -> Self {
        Self { seed: self.at(purpose, indices).next_u64() }
    }
}

/// An endless sequence of draws. Equal seeds, purposes and indices give equal sequences.
#[derive(Debug, Clone)]
pub struct PhiloxRng {
    key: [u32; 2],
    block: [u32; 2],
    counter: u64,
    buffer: [u32; 4],
    used: usize,
}

impl PhiloxRng {
    /// Returns 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        if self.used == 4 {
            let counter = [self.counter as u32, (self.counter >> 32) as u32, self.block[0], self.block[1]];
            self.buffer = philox4x32_10(counter, self.key);
            self.counter += 1;
            self.used = 0;
        }
        self.used += 1;
        self.buffer[self.used - 1]
    }
    /// Returns 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        u64::from(self.next_u32()) | (u64::from(self.next_u32()) << 32)
    }
    /// Returns a uniform number in [0, 1) with 53 bits.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
    /// Returns a uniform integer in `0..n` without bias (Lemire 2019). Panics if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "below(0) has no value");
        let threshold = n.wrapping_neg() % n;
        loop {
            let wide = u128::from(self.next_u64()) * u128::from(n);
            if wide as u64 >= threshold {
                return (wide >> 64) as u64;
            }
        }
    }
    /// Returns a uniform integer in `low..=high`. Panics if `low` is larger than `high`.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        assert!(low <= high, "between({low}, {high}) has no value");
        low + self.below((high - low) as u64 + 1) as i64
    }
    /// Returns a standard normal number (Box–Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
    /// Returns an index drawn in proportion to non-negative weights; `None` if their sum is not positive.
    pub fn weighted(&mut self, weights: &[f64]) -> Option<usize> {
        let total: f64 = weights.iter().sum();
        if total.is_nan() || total <= 0.0 {
            return None;
        }
        let mut remaining = self.uniform() * total;
        let mut last = None;
        for (i, &w) in weights.iter().enumerate().filter(|(_, w)| **w > 0.0) {
            last = Some(i);
            if remaining < w {
                break;
            }
            remaining -= w;
        }
        last
    }
    /// Puts the items in random order (Fisher–Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
    /// Returns one of the items. Panics if `items` is empty.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}

fn philox4x32_10(mut c: [u32; 4], mut k: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let a = u64::from(c[0]) * 0xD251_1F53;
        let b = u64::from(c[2]) * 0xCD9E_8D57;
        c = [(b >> 32) as u32 ^ c[1] ^ k[0], b as u32, (a >> 32) as u32 ^ c[3] ^ k[1], a as u32];
        k = [k[0].wrapping_add(0x9E37_79B9), k[1].wrapping_add(0xBB67_AE85)];
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known-answer vectors of the Random123 distribution (kat_vectors, philox4x32 10).
    #[test]
    fn philox_matches_the_published_vectors() {
        assert_eq!(philox4x32_10([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox4x32_10([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox4x32_10([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn draws_are_independent_and_reproducible() {
        let chance = Chance::new(7);
        let draw = |p: &str, i: &[u64]| chance.at(p, i).next_u64();
        assert_eq!(draw("a", &[1, 2]), draw("a", &[1, 2]));
        assert_ne!(draw("a", &[1, 2]), draw("a", &[2, 1]));
        assert_ne!(draw("a", &[1]), draw("b", &[1]));
        assert_ne!(Chance::new(8).at("a", &[1]).next_u64(), draw("a", &[1]));
    }

    #[test]
    fn uniform_and_normal_have_their_moments() {
        let mut d = Chance::new(1).at("moments", &[]);
        let n = 100_000;
        let mean = (0..n).map(|_| d.uniform()).sum::<f64>() / f64::from(n);
        assert!((mean - 0.5).abs() < 5.0 * 0.289 / f64::from(n).sqrt(), "{mean}");
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..n {
            let x = d.normal();
            sum += x;
            squares += x * x;
        }
        assert!((sum / f64::from(n)).abs() < 0.02 && (squares / f64::from(n) - 1.0).abs() < 0.03);
    }

    #[test]
    fn weighted_never_picks_a_zero_weight() {
        let mut d = Chance::new(3).at("w", &[]);
        for _ in 0..1000 {
            assert_eq!(d.weighted(&[0.0, 2.0, 0.0]), Some(1));
        }
        assert_eq!(d.weighted(&[0.0, 0.0]), None);
    }
}
