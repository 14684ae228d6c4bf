//! Defines the two number types of the training kernels: f32 for training, f64 for tests by finite differences.

use candle_core::WithDType;
use std::ops::Neg;

/// A floating-point number with the functions that the kernels need, in a form that compilers can vectorize.
pub trait KernelScalar: WithDType + Neg<Output = Self> + Default + std::fmt::Debug {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Returns the number of this type that is nearest to `value`.
    fn of(value: f64) -> Self;
    /// Returns e to the power of self; results below the smallest normal number may be 0.
    fn exp(self) -> Self;
    /// Returns the natural logarithm.
    fn ln(self) -> Self;
    /// Returns the square root.
    fn sqrt(self) -> Self;
    /// Returns `self * factor + term`, rounded once.
    fn fma(self, factor: Self, term: Self) -> Self;
    /// Returns the larger of the two; `other` if either is NaN.
    #[inline(always)]
    fn maximum(self, other: Self) -> Self {
        if self > other { self } else { other }
    }
    /// Returns 1 / (1 + e^-self).
    #[inline(always)]
    fn sigmoid(self) -> Self {
        Self::ONE / (Self::ONE + (-self).exp())
    }
}

impl KernelScalar for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    #[inline(always)]
    fn of(value: f64) -> Self {
        value as Self
    }
    /// Splits x into n · ln 2 + r, |r| ≤ ln 2 / 2, evaluates the Taylor polynomial of degree 7 in r and builds 2^n
    /// from its bits. Largest relative error 1.2e-7 on [-87, 88]; below, the result is about 1e-38; NaN stays NaN.
    #[inline(always)]
    fn exp(self) -> Self {
        const ROUND: f32 = 12_582_912.0; // 1.5 · 2^23: adding it leaves the nearest whole number in the low bits
        let x = if self < -87.0 { -87.0 } else { self };
        let x = if x > 88.0 { 88.0 } else { x };
        let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
        let n = shifted - ROUND;
        // ln 2 in two parts: the first has trailing zero bits, so n times it is exact
        let r = n.mul_add(-0.693_359_4, x);
        let r = n.mul_add(2.121_944_4e-4, r);
        let p = 1.984_127e-4f32;
        let p = p.mul_add(r, 1.388_889e-3);
        let p = p.mul_add(r, 8.333_333e-3);
        let p = p.mul_add(r, 4.166_666_8e-2);
        let p = p.mul_add(r, 1.666_666_7e-1);
        let p = p.mul_add(r, 0.5);
        let p = p.mul_add(r, 1.0);
        let p = p.mul_add(r, 1.0);
        p * Self::from_bits((shifted.to_bits().wrapping_add(127)) << 23)
    }
    #[inline(always)]
    fn ln(self) -> Self {
        self.ln()
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        self.sqrt()
    }
    #[inline(always)]
    fn fma(self, factor: Self, term: Self) -> Self {
        self.mul_add(factor, term)
    }
}

impl KernelScalar for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    #[inline(always)]
    fn of(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn exp(self) -> Self {
        self.exp()
    }
    #[inline(always)]
    fn ln(self) -> Self {
        self.ln()
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        self.sqrt()
    }
    #[inline(always)]
    fn fma(self, factor: Self, term: Self) -> Self {
        self.mul_add(factor, term)
    }
}

#[cfg(test)]
mod tests {
    use super::KernelScalar;

    #[test]
    fn exp_is_accurate_over_its_whole_range() {
        let mut worst = 0.0f64;
        for i in 0..=1_750_000 {
            let x = -87.0f32 + i as f32 * 1e-4;
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(KernelScalar::exp(x)) / exact - 1.0).abs());
        }
        assert!(worst < 2e-7, "{worst}");
        assert_eq!(KernelScalar::exp(0.0f32), 1.0);
        assert!(KernelScalar::exp(-1e30f32) < 1e-37 && KernelScalar::exp(f32::NEG_INFINITY) < 1e-37);
        assert!(KernelScalar::exp(f32::NAN).is_nan());
    }
}
