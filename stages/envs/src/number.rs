//! Implements exact rational arithmetic for the calculator and the numeric verifiers: `0.1 + 0.2` is `0.3`.
//!
//! Numerator and denominator are 128-bit integers. A result that needs more than 38 digits is an error, never rounded.

use num_rational::Ratio;
use num_traits::{CheckedAdd as _, CheckedDiv as _, CheckedMul as _, CheckedSub as _, Signed as _, Zero as _};
use std::fmt;

/// A reduced fraction with a positive denominator. Operations return `None` on overflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Number(Ratio<i128>);

impl Number {
    pub const ZERO: Self = Self(Ratio::new_raw(0, 1));
    pub const ONE: Self = Self(Ratio::new_raw(1, 1));

    /// Returns a whole number as a fraction.
    pub fn integer(value: i128) -> Self {
        Self(Ratio::from_integer(value))
    }
    /// Returns `numerator / denominator`, reduced; `None` if the denominator is 0 or one of the numbers is `i128::MIN`.
    pub fn ratio(numerator: i128, denominator: i128) -> Option<Self> {
        let fits = denominator != 0 && numerator != i128::MIN && denominator != i128::MIN;
        fits.then(|| Self(Ratio::new(numerator, denominator)))
    }
    /// Returns the numerator, with the sign.
    pub fn numerator(self) -> i128 {
        *self.0.numer()
    }
    /// Returns the denominator, at least 1.
    pub fn denominator(self) -> i128 {
        *self.0.denom()
    }
    /// Returns whether the denominator is 1.
    pub fn is_integer(self) -> bool {
        self.0.is_integer()
    }
    /// Returns whether the value is 0.
    pub fn is_zero(self) -> bool {
        self.0.is_zero()
    }
    pub fn negate(self) -> Option<Self> {
        Self::ZERO.subtract(self)
    }
    #[expect(clippy::should_implement_trait, reason = "`std::ops::Add` cannot report overflow")]
    pub fn add(self, other: Self) -> Option<Self> {
        self.0.checked_add(&other.0).map(Self)
    }
    pub fn subtract(self, other: Self) -> Option<Self> {
        self.0.checked_sub(&other.0).map(Self)
    }
    pub fn multiply(self, other: Self) -> Option<Self> {
        self.0.checked_mul(&other.0).map(Self)
    }
    /// Divides `self` by `other`. Returns `None` on overflow and on division by zero, which [`Number::is_zero`] of
    /// `other` distinguishes.
    pub fn divide(self, other: Self) -> Option<Self> {
        self.0.checked_div(&other.0).map(Self)
    }
    /// Returns the largest integer ≤ `self`.
    pub fn floor(self) -> Self {
        Self::integer(self.numerator().div_euclid(self.denominator()))
    }
    /// Raises `self` to an integer power. Returns `None` on overflow, and for a negative power of 0.
    pub fn power(self, exponent: i128) -> Option<Self> {
        let base = if exponent < 0 { Self::ONE.divide(self)? } else { self };
        let exponent = exponent.unsigned_abs();
        if base.is_integer() && base.numerator().unsigned_abs() <= 1 {
            // A power of 0, 1 or -1 depends on whether the exponent is 0, odd or even.
            let same = exponent % 2 == 1 || base.is_zero() && exponent > 0;
            return Some(if same { base } else { Self::ONE });
        }
        let exponent = u32::try_from(exponent).ok().filter(|e| *e <= 127)?;
        Self::ratio(base.numerator().checked_pow(exponent)?, base.denominator().checked_pow(exponent)?)
    }
    /// Parses a decimal literal: an optional sign, digits with at most one point, an optional exponent (`1.5e3`).
    /// Returns `None` for other text and on overflow.
    pub fn parse(text: &str) -> Option<Self> {
        let (sign, text) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let (digits, exponent) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() && part.is_empty() {
            return None;
        }
        let mut number: i128 = 0;
        for c in whole.chars().chain(part.chars()) {
            number = number.checked_mul(10)?.checked_add(i128::from(c.to_digit(10)?))?;
        }
        let scale = i32::try_from(part.len()).ok()?.checked_sub(exponent)?;
        let ten = Self::integer(10).power(i128::from(scale.unsigned_abs()));
        let value = Self::integer(sign * number);
        if value.is_zero() {
            return Some(value);
        }
        if scale >= 0 { value.divide(ten?) } else { value.multiply(ten?) }
    }
    /// Returns the nearest float.
    pub fn to_f64(self) -> f64 {
        const EXACT: u128 = 1 << 53;
        let (numerator, denominator) = (self.numerator(), self.denominator());
        if numerator.unsigned_abs() <= EXACT && denominator.unsigned_abs() <= EXACT {
            return numerator as f64 / denominator as f64;
        }
        self.decimal(40).parse().unwrap_or(f64::NAN)
    }
    /// Returns the value in decimal digits by long division, truncated after `places` places.
    fn decimal(self, places: usize) -> String {
        let (numerator, denominator) = (self.numerator().unsigned_abs(), self.denominator().unsigned_abs());
        let sign = if self.0.is_negative() { "-" } else { "" };
        let mut text = format!("{sign}{}", numerator / denominator);
        let mut rest = numerator % denominator;
        if rest != 0 {
            text.push('.');
        }
        for _ in 0..places {
            if rest == 0 {
                break;
            }
            let Some(next) = rest.checked_mul(10) else { break };
            text.push(char::from(b'0' + (next / denominator) as u8));
            rest = next % denominator;
        }
        text
    }
}

/// Writes integers, and decimals of up to 15 places, in full. Writes other numbers as the shortest text of the nearest
/// float, as Python does.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terminates = {
            let mut rest = self.denominator();
            while rest % 2 == 0 {
                rest /= 2;
            }
            while rest % 5 == 0 {
                rest /= 5;
            }
            rest == 1
        };
        let exact = self.decimal(16);
        let places = exact.split_once('.').map_or(0, |(_, part)| part.len());
        if terminates && places <= 15 { f.write_str(&exact) } else { write!(f, "{}", self.to_f64()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n(text: &str) -> Number {
        Number::parse(text).unwrap()
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(n("0.1").add(n("0.2")).unwrap(), n("0.3"));
        assert_eq!(n("1.50").to_string(), "1.5");
        assert_eq!(n("-.25").to_string(), "-0.25");
        assert_eq!(n("1.5e3").to_string(), "1500");
        assert_eq!(n("2e-3").to_string(), "0.002");
        assert_eq!(Number::ratio(1, 3).unwrap().to_string(), "0.3333333333333333");
        assert_eq!(Number::ratio(-2, 3).unwrap().to_string(), "-0.6666666666666666");
        assert_eq!(Number::ratio(6, -4).unwrap().to_string(), "-1.5");
    }

    #[test]
    fn bad_literals_and_overflow_are_errors() {
        for text in ["", ".", "1.2.3", "1a", "--1", "1e", "1e99", "9".repeat(50).as_str()] {
            assert_eq!(Number::parse(text), None, "{text}");
        }
        assert_eq!(Number::integer(i128::MAX).add(Number::ONE), None);
        assert_eq!(Number::integer(10).power(39), None);
        assert_eq!(Number::integer(1).power(1 << 90), Some(Number::ONE));
        assert_eq!(Number::ONE.divide(Number::ZERO), None);
    }

    #[test]
    fn floor_and_order_follow_the_number_line() {
        assert_eq!(n("-3.5").floor(), n("-4"));
        assert!(n("0.333") < Number::ratio(1, 3).unwrap());
        assert_eq!(n("2").power(-2).unwrap(), n("0.25"));
    }
}
