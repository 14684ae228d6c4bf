//! Stores weights compactly: weights that are all bfloat16 take two bytes each in memory.
//!
//! Conversion to float32 is exact, so no result depends on the storage.

/// Returns whether every number is a bfloat16: the lower half of each is 0.
pub fn is_bf16(numbers: &[f32]) -> bool {
    numbers.iter().all(|x| x.to_bits() & 0xffff == 0)
}

/// Returns the bits of a number that is a bfloat16.
pub fn bf16_bits(number: f32) -> u16 {
    half::bf16::from_f32(number).to_bits()
}

/// The rows of a table.
pub enum CompactRows {
    /// As float32.
    Full(Vec<f32>),
    /// As the bits of bfloat16.
    Half(Vec<u16>),
}

impl CompactRows {
    /// Stores the numbers of all rows, as bfloat16 if every number is one, else as float32.
    pub fn new(numbers: Vec<f32>) -> Self {
        if is_bf16(&numbers) { Self::Half(numbers.into_iter().map(bf16_bits).collect()) } else { Self::Full(numbers) }
    }
    /// Copies `out.len()` numbers from index `start` on to `out`.
    pub fn copy(&self, start: usize, out: &mut [f32]) {
        let end = start + out.len();
        match self {
            Self::Full(numbers) => out.copy_from_slice(&numbers[start..end]),
            Self::Half(bits) => {
                for (x, bits) in out.iter_mut().zip(&bits[start..end]) {
                    *x = half::bf16::from_bits(*bits).to_f32();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_restored_bit_for_bit() {
        let half = [1.0, -0.5, 3.140625, 0.0, -0.0, f32::MIN_POSITIVE];
        let full = [1.0, 0.1, 2.0, 3.0, 4.0, 5.0];
        for (numbers, is_half) in [(half, true), (full, false)] {
            let rows = CompactRows::new(numbers.to_vec());
            assert_eq!(matches!(rows, CompactRows::Half(_)), is_half);
            let mut out = [9.0; 3];
            rows.copy(2, &mut out);
            assert_eq!(out.map(f32::to_bits), [numbers[2], numbers[3], numbers[4]].map(f32::to_bits));
        }
    }
}
