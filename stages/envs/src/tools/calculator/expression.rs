//! Parses and evaluates the calculator's expressions by precedence climbing:
//!
//! ```text
//! sum     = product (('+' | '-') product)*
//! product = unary (('*' | '/' | '//' | '%') unary)*
//! unary   = ('+' | '-') unary | power
//! power   = atom ('**' unary)?
//! atom    = number | '(' sum ')'
//! ```
//!
//! As in Python, `-2**2` is -4, `2**-1` is 0.5 and `2**3**2` is 512.

use crate::number::Number;

const MAX_DEPTH: usize = 64;
const MAX_BYTES: usize = 4096;

/// Evaluates an expression. The error is the line that the agent sees.
pub fn evaluate(text: &str) -> Result<Number, String> {
    if text.len() > MAX_BYTES {
        return Err(format!("SyntaxError: the expression is longer than {MAX_BYTES} bytes"));
    }
    let mut parser = CalculatorParser { rest: text.trim(), depth: 0 };
    if parser.rest.is_empty() {
        return Err("SyntaxError: the expression is empty".to_string());
    }
    let value = parser.sum()?;
    if parser.rest.is_empty() { Ok(value) } else { Err(parser.unexpected()) }
}

struct CalculatorParser<'a> {
    rest: &'a str,
    depth: usize,
}

impl CalculatorParser<'_> {
    fn unexpected(&self) -> String {
        match self.rest.chars().next() {
            None => "SyntaxError: the expression ends too early".to_string(),
            Some(c) if c.is_alphabetic() || c == '_' => {
                let name: String = self.rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                format!("NameError: name '{name}' is not defined")
            }
            Some(c) => format!("SyntaxError: unexpected '{c}'"),
        }
    }
    /// Consumes and returns the first of `operators` with which the rest begins. Longer operators must precede their
    /// prefixes in the list.
    fn operator(&mut self, operators: &[&'static str]) -> Option<&'static str> {
        let found = operators.iter().find(|o| self.rest.starts_with(**o))?;
        self.rest = self.rest[found.len()..].trim_start();
        Some(found)
    }
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        if self.depth == MAX_DEPTH {
            return Err("SyntaxError: too many nested parentheses".to_string());
        }
        self.depth += 1;
        let value = parse(self);
        self.depth -= 1;
        value
    }
    fn sum(&mut self) -> Result<Number, String> {
        let mut value = self.product()?;
        while let Some(operator) = self.operator(&["+", "-"]) {
            let right = self.product()?;
            value = apply(operator, value, right)?;
        }
        Ok(value)
    }
    fn product(&mut self) -> Result<Number, String> {
        let mut value = self.unary()?;
        while !self.rest.starts_with("**")
            && let Some(operator) = self.operator(&["*", "//", "/", "%"])
        {
            let right = self.unary()?;
            value = apply(operator, value, right)?;
        }
        Ok(value)
    }
    fn unary(&mut self) -> Result<Number, String> {
        match self.operator(&["+", "-"]) {
            Some("-") => self.deeper(Self::unary)?.negate().ok_or_else(too_large),
            Some(_) => self.deeper(Self::unary),
            None => self.power(),
        }
    }
    fn power(&mut self) -> Result<Number, String> {
        let base = self.atom()?;
        if self.operator(&["**"]).is_none() {
            return Ok(base);
        }
        let exponent = self.deeper(Self::unary)?;
        apply("**", base, exponent)
    }
    fn atom(&mut self) -> Result<Number, String> {
        if self.operator(&["("]).is_some() {
            let value = self.deeper(Self::sum)?;
            return if self.operator(&[")"]).is_some() { Ok(value) } else { Err(self.unexpected()) };
        }
        let length = literal_length(self.rest);
        if length == 0 {
            return Err(self.unexpected());
        }
        let (literal, rest) = self.rest.split_at(length);
        self.rest = rest.trim_start();
        Number::parse(&literal.replace('_', "")).ok_or_else(|| format!("SyntaxError: invalid number '{literal}'"))
    }
}

/// Returns the length in bytes of the number literal at the beginning of `text`.
fn literal_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    if !matches!(bytes.first(), Some(b'0'..=b'9' | b'.')) {
        return 0;
    }
    let mut at = 0;
    while at < bytes.len() {
        let sign_of_exponent = matches!(bytes[at], b'+' | b'-') && matches!(bytes[at - 1], b'e' | b'E');
        if !(bytes[at].is_ascii_digit() || matches!(bytes[at], b'.' | b'_' | b'e' | b'E') || sign_of_exponent) {
            break;
        }
        at += 1;
    }
    at
}

fn too_large() -> String {
    "OverflowError: the result needs more than 38 digits".to_string()
}

fn apply(operator: &str, a: Number, b: Number) -> Result<Number, String> {
    if matches!(operator, "/" | "//" | "%") && b.is_zero() || operator == "**" && a.is_zero() && b < Number::ZERO {
        return Err("ZeroDivisionError: division by zero".to_string());
    }
    let floored = || a.divide(b).map(Number::floor);
    let value = match operator {
        "+" => a.add(b),
        "-" => a.subtract(b),
        "*" => a.multiply(b),
        "/" => a.divide(b),
        "//" => floored(),
        "%" => floored().and_then(|q| a.subtract(q.multiply(b)?)),
        _ if !b.is_integer() => return Err("ValueError: the exponent must be a whole number".to_string()),
        _ => a.power(b.numerator()),
    };
    value.ok_or_else(too_large)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn show(text: &str) -> String {
        match evaluate(text) {
            Ok(value) => value.to_string(),
            Err(message) => message,
        }
    }

    /// Compares values with those that CPython 3 prints, without a trailing `.0`.
    #[test]
    fn precedence_and_signs_match_python() {
        for (text, value) in [
            ("1+2*3", "7"),
            ("(1+2)*3", "9"),
            ("-2**2", "-4"),
            ("2**-1", "0.5"),
            ("2**3**2", "512"),
            ("7//2", "3"),
            ("-7//2", "-4"),
            ("7//-2", "-4"),
            ("-7%3", "2"),
            ("7%-3", "-2"),
            ("10-4-3", "3"),
            ("100/10/5", "2"),
            ("3*4%5", "2"),
            (" 12 * ( 3 + .5 ) ", "42"),
            ("1_000*2", "2000"),
            ("48/2", "24"),
            ("1/3", "0.3333333333333333"),
            ("0.1+0.2", "0.3"),
            ("--3", "3"),
            ("5.5//2", "2"),
            ("1.5e2-1", "149"),
            ("2**100", "1267650600228229401496703205376"),
        ] {
            assert_eq!(show(text), value, "{text}");
        }
    }

    #[test]
    fn errors_name_the_mistake() {
        for (text, message) in [
            ("", "SyntaxError: the expression is empty"),
            ("3+", "SyntaxError: the expression ends too early"),
            ("3 4", "SyntaxError: unexpected '4'"),
            ("(3", "SyntaxError: the expression ends too early"),
            ("3)", "SyntaxError: unexpected ')'"),
            ("x=3", "NameError: name 'x' is not defined"),
            ("1/0", "ZeroDivisionError: division by zero"),
            ("1%0", "ZeroDivisionError: division by zero"),
            ("0**-1", "ZeroDivisionError: division by zero"),
            ("2**0.5", "ValueError: the exponent must be a whole number"),
            ("10**40", "OverflowError: the result needs more than 38 digits"),
            ("1.2.3", "SyntaxError: invalid number '1.2.3'"),
            ("2 ** * 3", "SyntaxError: unexpected '*'"),
            ("é", "NameError: name 'é' is not defined"),
        ] {
            assert_eq!(show(text), message, "{text}");
        }
        assert_eq!(show(&"(".repeat(5000)), "SyntaxError: the expression is longer than 4096 bytes");
        assert_eq!(show(&"(".repeat(4000)), "SyntaxError: too many nested parentheses");
        assert_eq!(show(&"-".repeat(4000)), "SyntaxError: too many nested parentheses");
    }

    proptest! {
        #[test]
        fn any_text_is_handled(text in "[-0-9+*/%(). ex]{0,40}") {
            let _ = evaluate(&text);
        }

        #[test]
        fn integers_follow_the_division_law(a in -10_000i128..10_000, b in -100i128..100) {
            prop_assume!(b != 0);
            let quotient = evaluate(&format!("{a}//{b}")).unwrap().numerator();
            let rest = evaluate(&format!("{a}%{b}")).unwrap().numerator();
            prop_assert_eq!(quotient * b + rest, a);
            prop_assert!(rest == 0 || (rest < 0) == (b < 0));
            prop_assert!(rest.abs() < b.abs());
        }
    }
}
