//! Recognizes JSON numbers within bounds, without exponents.

/// Maximum digits before the point: all such integers are exact as float64.
const WHOLE_DIGITS: u8 = 15;
/// Maximum digits after the point.
const FRACTION_DIGITS: u8 = 12;
/// Steps of 1 in the unit of bounds.
const UNIT: i128 = 1_000_000_000_000;
/// The largest number that can be written.
const LARGEST: i128 = 999_999_999_999_999 * UNIT;

/// Rule of a number.
#[derive(Debug, Clone)]
pub struct NumberRule {
    integer: bool,
    /// Bounds, both inclusive, in units of 10⁻¹²; `None` for any number.
    bounds: Option<(i128, i128)>,
}

/// The part of a number before the next byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NumberState {
    Start,
    Minus,
    /// Digits so far as an integer (0 where the rule has no bounds), and how many.
    Whole {
        negative: bool,
        value: i128,
        digits: u8,
        zero: bool,
    },
    /// As before with the digits after the point, and how many of them.
    Fraction {
        negative: bool,
        value: i128,
        digits: u8,
    },
}

/// Bounds of a number in a schema.
#[derive(Debug, Clone, Copy, Default)]
pub struct NumberBounds {
    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
    pub above: Option<f64>,
    pub below: Option<f64>,
}

impl NumberRule {
    /// Creates a rule; `None` if no number that can be written is within the bounds.
    pub fn new(integer: bool, bounds: NumberBounds) -> Option<Self> {
        let NumberBounds { minimum, maximum, above, below } = bounds;
        if [minimum, maximum, above, below].iter().all(Option::is_none) {
            return Some(Self { integer, bounds: None });
        }
        let step = if integer { UNIT } else { 1 };
        let low = minimum.map(|bound| inward(bound, integer, false)).into_iter();
        let low = low.chain(above.map(|bound| outside(bound, integer, step))).max().unwrap_or(-LARGEST);
        let high = maximum.map(|bound| inward(bound, integer, true)).into_iter();
        let high = high.chain(below.map(|bound| -outside(-bound, integer, step))).min().unwrap_or(LARGEST);
        let (low, high) = (low.max(-LARGEST), high.min(LARGEST));
        (low <= high).then_some(Self { integer, bounds: Some((low, high)) })
    }
    /// Returns whether the number may end.
    pub fn may_end(&self, state: &NumberState) -> bool {
        match *state {
            NumberState::Start | NumberState::Minus => false,
            NumberState::Whole { negative, value, .. } => self.contains(negative, value * UNIT, value * UNIT),
            NumberState::Fraction { digits: 0, .. } => false,
            NumberState::Fraction { negative, value, digits } => {
                let value = value * 10_i128.pow(u32::from(FRACTION_DIGITS - digits));
                self.contains(negative, value, value)
            }
        }
    }
    /// Returns the state after a byte, or `None` if no number of the rule continues with it.
    pub fn step(&self, state: &NumberState, byte: u8) -> Option<NumberState> {
        let digit = byte.is_ascii_digit().then(|| i128::from(byte - b'0'));
        let next = match (*state, digit) {
            (NumberState::Start, None) if byte == b'-' => NumberState::Minus,
            (NumberState::Start, Some(digit)) => whole(false, digit),
            // -0 is no integer of most languages.
            (NumberState::Minus, Some(0)) if self.integer => return None,
            (NumberState::Minus, Some(digit)) => whole(true, digit),
            (NumberState::Whole { negative, value, digits, zero: false }, Some(digit)) if digits < WHOLE_DIGITS => {
                NumberState::Whole { negative, value: value * 10 + digit, digits: digits + 1, zero: false }
            }
            (NumberState::Whole { negative, value, .. }, None) if byte == b'.' && !self.integer => {
                NumberState::Fraction { negative, value, digits: 0 }
            }
            (NumberState::Fraction { negative, value, digits }, Some(digit)) if digits < FRACTION_DIGITS => {
                NumberState::Fraction { negative, value: value * 10 + digit, digits: digits + 1 }
            }
            _ => return None,
        };
        let next = if self.bounds.is_none() { without_value(next) } else { next };
        self.can_end(&next).then_some(next)
    }
    /// Returns whether some number within the bounds begins like this.
    fn can_end(&self, state: &NumberState) -> bool {
        match *state {
            NumberState::Start => true,
            NumberState::Minus => self.bounds.is_none_or(|(low, _)| low < 0),
            NumberState::Whole { negative, value, digits, zero } => {
                let more = if zero { 0 } else { WHOLE_DIGITS - digits };
                (0..=more).any(|more| {
                    let scale = 10_i128.pow(u32::from(more));
                    let rest = if self.integer { UNIT } else { 1 };
                    self.contains(negative, value * scale * UNIT, (value + 1) * scale * UNIT - rest)
                })
            }
            NumberState::Fraction { negative, value, digits } => {
                let scale = 10_i128.pow(u32::from(FRACTION_DIGITS - digits));
                self.contains(negative, value * scale, (value + 1) * scale - 1)
            }
        }
    }
    /// Returns whether the bounds contain a part of the range of absolute values from `low` to `high`.
    fn contains(&self, negative: bool, low: i128, high: i128) -> bool {
        let (low, high) = if negative { (-high, -low) } else { (low, high) };
        self.bounds.is_none_or(|(least, most)| low <= most && high >= least)
    }
}

fn whole(negative: bool, digit: i128) -> NumberState {
    NumberState::Whole { negative, value: digit, digits: 1, zero: digit == 0 }
}

/// Returns the state without the value, so that states that differ in nothing else are equal.
fn without_value(state: NumberState) -> NumberState {
    match state {
        NumberState::Whole { digits, zero, .. } => NumberState::Whole { negative: false, value: 0, digits, zero },
        NumberState::Fraction { digits, .. } => NumberState::Fraction { negative: false, value: 0, digits },
        other => other,
    }
}

/// Returns a bound in units, rounded to the inside: down for a maximum, up for a minimum.
fn inward(bound: f64, integer: bool, is_maximum: bool) -> i128 {
    let bound = bound.clamp(-1e15, 1e15);
    let round = |x: f64| if is_maximum { x.floor() } else { x.ceil() };
    if integer { round(bound) as i128 * UNIT } else { round(bound * UNIT as f64) as i128 }
}

/// Returns the lowest number above a bound, in units.
fn outside(bound: f64, integer: bool, step: i128) -> i128 {
    if integer {
        return (bound.clamp(-1e15, 1e15).floor() as i128) * UNIT + step;
    }
    // Float64 must be able to tell the number from the bound.
    let distinct = (bound.abs().min(1e15) * UNIT as f64 * 4.0 * f64::EPSILON) as i128;
    inward(bound, false, false) + step + distinct
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(rule: &NumberRule, text: &str) -> bool {
        let mut state = Some(NumberState::Start);
        for byte in text.bytes() {
            state = state.and_then(|state| rule.step(&state, byte));
        }
        state.is_some_and(|state| rule.may_end(&state))
    }
    fn begins(rule: &NumberRule, text: &str) -> bool {
        let step = |state: Option<NumberState>, byte| state.and_then(|state| rule.step(&state, byte));
        text.bytes().fold(Some(NumberState::Start), step).is_some()
    }

    #[test]
    fn unbounded_numbers_have_the_form_of_json() {
        let (integer, number) =
            (NumberRule::new(true, NumberBounds::default()), NumberRule::new(false, NumberBounds::default()));
        let (integer, number) = (integer.unwrap(), number.unwrap());
        for text in ["0", "-7", "10", "123456789012345"] {
            assert!(accepts(&integer, text) && accepts(&number, text), "{text}");
        }
        for text in ["", "-", "01", "+1", "1.", ".5", "1e3", "--1", "1.5.2"] {
            assert!(!accepts(&integer, text) && !accepts(&number, text), "{text}");
        }
        assert!(accepts(&number, "-0.25") && accepts(&number, "3.0") && !accepts(&integer, "3.0"));
        assert!(!accepts(&integer, "-0") && !accepts(&integer, "1234567890123456"));
    }

    #[test]
    fn integers_stay_within_bounds() {
        let bounds = NumberBounds { minimum: Some(-3.0), maximum: Some(120.0), ..NumberBounds::default() };
        let rule = NumberRule::new(true, bounds).unwrap();
        let written: Vec<i32> = (-200..2000).filter(|n| accepts(&rule, &n.to_string())).collect();
        assert_eq!(written, (-3..=120).collect::<Vec<_>>());
        assert!(begins(&rule, "12") && !begins(&rule, "13 ") && !begins(&rule, "130") && !begins(&rule, "-4"));
        let open = NumberBounds { above: Some(2.0), below: Some(4.0), ..NumberBounds::default() };
        let rule = NumberRule::new(true, open).unwrap();
        assert_eq!(["2", "3", "4"].map(|text| accepts(&rule, text)), [false, true, false]);
        let empty = NumberBounds { above: Some(2.0), below: Some(3.0), ..NumberBounds::default() };
        assert!(NumberRule::new(true, empty).is_none() && NumberRule::new(false, empty).is_some());
    }

    #[test]
    fn fractions_stay_within_bounds() {
        let bounds = NumberBounds { minimum: Some(0.25), below: Some(1.0), ..NumberBounds::default() };
        let rule = NumberRule::new(false, bounds).unwrap();
        for (text, expected) in [
            ("0.25", true),
            ("0.999", true),
            ("0.2", false),
            ("0", false),
            ("1", false),
            ("1.0", false),
            ("-0.5", false),
        ] {
            assert_eq!(accepts(&rule, text), expected, "{text}");
        }
        assert!(begins(&rule, "0.2") && !begins(&rule, "0.1") && !begins(&rule, "1"));
    }
}
