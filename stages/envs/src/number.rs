//! Exact rational arithmetic for the calculator and the numeric verifiers: `0.1 + 0.2` is `0.3`.
//!
//! Numerator and denominator are 128-bit integers; a result that needs more than 38 digits is an error, never rounded.

use std::cmp::Ordering;
use std::fmt;

/// A reduced fraction with a positive denominator. Operations return `None` on overflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Number {
    over: i128,
    under: i128,
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Number {
    pub const ZERO: Self = Self { over: 0, under: 1 };
    pub const ONE: Self = Self { over: 1, under: 1 };

    /// Converts a whole number.
    pub fn integer(value: i128) -> Self {
        Self { over: value, under: 1 }
    }
    /// Returns `over / under`, reduced; `None` if `under` is 0.
    pub fn ratio(over: i128, under: i128) -> Option<Self> {
        if under == 0 {
            return None;
        }
        let divisor = i128::try_from(gcd(over.unsigned_abs(), under.unsigned_abs())).ok()?;
        let (over, under) = (over / divisor, under / divisor);
        if under > 0 {
            Some(Self { over, under })
        } else {
            Some(Self { over: over.checked_neg()?, under: under.checked_neg()? })
        }
    }
    /// Returns the numerator, with the sign.
    pub fn numerator(self) -> i128 {
        self.over
    }
    /// Returns the denominator, at least 1.
    pub fn denominator(self) -> i128 {
        self.under
    }
    /// Returns whether the denominator is 1.
    pub fn is_integer(self) -> bool {
        self.under == 1
    }
    /// Returns whether the value is 0.
    pub fn is_zero(self) -> bool {
        self.over == 0
    }
    pub fn negate(self) -> Option<Self> {
        Some(Self { over: self.over.checked_neg()?, under: self.under })
    }
    #[expect(clippy::should_implement_trait, reason = "`std::ops::Add` cannot report overflow")]
    pub fn add(self, other: Self) -> Option<Self> {
        let common = i128::try_from(gcd(self.under.unsigned_abs(), other.under.unsigned_abs())).ok()?;
        let (a, b) = (other.under / common, self.under / common);
        let over = self.over.checked_mul(a)?.checked_add(other.over.checked_mul(b)?)?;
        Self::ratio(over, self.under.checked_mul(a)?)
    }
    pub fn subtract(self, other: Self) -> Option<Self> {
        self.add(other.negate()?)
    }
    pub fn multiply(self, other: Self) -> Option<Self> {
        // Reducing crosswise first makes the product fit whenever its reduced form does.
        let left = Self::ratio(self.over, other.under)?;
        let right = Self::ratio(other.over, self.under)?;
        Self::ratio(left.over.checked_mul(right.over)?, left.under.checked_mul(right.under)?)
    }
    /// Divides. `None` on overflow and on division by zero, which [`Number::is_zero`] distinguishes.
    pub fn divide(self, other: Self) -> Option<Self> {
        self.multiply(Self::ratio(other.under, other.over)?)
    }
    /// Returns the largest integer ≤ `self`.
    pub fn floor(self) -> Self {
        Self::integer(self.over.div_euclid(self.under))
    }
    /// Raises `self` to an integer power.
    pub fn power(self, exponent: i128) -> Option<Self> {
        let base = if exponent < 0 { Self::ratio(self.under, self.over)? } else { self };
        let exponent = exponent.unsigned_abs();
        if base.under == 1 && base.over.abs() <= 1 {
            let odd = exponent % 2 == 1;
            return Some(Self::integer(if exponent == 0 {
                1
            } else if odd {
                base.over
            } else {
                base.over.abs()
            }));
        }
        let exponent = u32::try_from(exponent).ok().filter(|e| *e <= 127)?;
        Some(Self { over: base.over.checked_pow(exponent)?, under: base.under.checked_pow(exponent)? })
    }
    /// Parses a decimal literal: an optional sign, digits with at most one point, an optional exponent (`1.5e3`).
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
        let mut over: i128 = 0;
        for c in whole.chars().chain(part.chars()) {
            over = over.checked_mul(10)?.checked_add(i128::from(c.to_digit(10)?))?;
        }
        let scale = i32::try_from(part.len()).ok()?.checked_sub(exponent)?;
        let ten = Self::integer(10).power(i128::from(scale.unsigned_abs()));
        let value = Self::integer(sign * over);
        if value.is_zero() {
            return Some(value);
        }
        if scale >= 0 { value.divide(ten?) } else { value.multiply(ten?) }
    }
    /// Returns the nearest float.
    pub fn to_f64(self) -> f64 {
        const EXACT: i128 = 1 << 53;
        if self.over.abs() <= EXACT && self.under <= EXACT {
            return self.over as f64 / self.under as f64;
        }
        self.decimal(40).parse().unwrap_or(f64::NAN)
    }
    /// Returns decimal digits by long division, truncated after `places` places.
    fn decimal(self, places: usize) -> String {
        let (over, under) = (self.over.unsigned_abs(), self.under.unsigned_abs());
        let mut text = format!("{}{}", if self.over < 0 { "-" } else { "" }, over / under);
        let mut rest = over % under;
        if rest != 0 {
            text.push('.');
        }
        for _ in 0..places {
            if rest == 0 {
                break;
            }
            let Some(next) = rest.checked_mul(10) else { break };
            text.push(char::from(b'0' + (next / under) as u8));
            rest = next % under;
        }
        text
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.subtract(*other) {
            Some(difference) => Some(difference.over.cmp(&0)),
            None => self.to_f64().partial_cmp(&other.to_f64()),
        }
    }
}

/// Integers and decimals of up to 15 places in full; anything longer as the shortest text of the nearest float, as in
/// Python.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terminates = {
            let mut under = self.under;
            while under % 2 == 0 {
                under /= 2;
            }
            while under % 5 == 0 {
                under /= 5;
            }
            under == 1
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
