//! Splits text into tokens with byte ranges.

use super::dialect::ExpressionDialect;
use super::fault::ExpressionError;
use serde_json::Value;
use std::ops::Range;

/// A word or symbol of the language.
#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    Number(Value),
    Text(String),
    /// Letters, digits and `_`; starts with no digit.
    Name(String),
    /// `||`, `==`, `(`, …
    Symbol(&'static str),
}

/// A token and its bytes in the text.
pub type SpannedToken = (Token, Range<usize>);

/// Symbols, longest first, so that `<=` wins over `<`.
const SYMBOLS: [&str; 22] = [
    "||", "&&", "==", "!=", "<=", ">=", "<", ">", "!", "+", "-", "*", "/", "%", "(", ")", "[", "]", ",", ".", "{", "}",
];

/// Symbols that only lists, keys and maps need.
const OF_PARTS: [&str; 5] = ["[", "]", ".", "{", "}"];

/// Splits `text` into tokens from `start` on. With `embedded`, stops at the first `}}` outside of strings and returns
/// its position. Fails at the first text that is no token of the dialect.
pub fn tokens(
    text: &str,
    start: usize,
    embedded: bool,
    dialect: &ExpressionDialect,
) -> Result<(Vec<SpannedToken>, usize), ExpressionError> {
    let known = |s: &&'static str| !dialect.numbers || !OF_PARTS.contains(s);
    let mut found = Vec::new();
    let mut at = start;
    loop {
        let rest = &text[at..];
        let Some(first) = rest.chars().next() else {
            if embedded {
                return Err(ExpressionError::new(&(start..text.len()), "this `${{` is never closed")
                    .help("end the expression with `}}`"));
            }
            return Ok((found, at));
        };
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        if embedded && rest.starts_with("}}") {
            return Ok((found, at));
        }
        let (token, length) = match first {
            '0'..='9' | '.' if dialect.numbers => loose_number(rest, at)?,
            '0'..='9' => number(rest, at)?,
            '\'' if !dialect.numbers => single_quoted(rest, at)?,
            '"' if !dialect.numbers => double_quoted(rest, at)?,
            c if c.is_ascii_alphabetic() || c == '_' => {
                let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                (Token::Name(rest[..length].to_string()), length)
            }
            c => match SYMBOLS.into_iter().filter(known).find(|s| rest.starts_with(s)) {
                Some(symbol) => (Token::Symbol(symbol), symbol.len()),
                None => {
                    let place = at..at + c.len_utf8();
                    let fault =
                        ExpressionError::misplaced(&place, format!("unexpected character `{c}` in an expression"));
                    return Err(match c {
                        '=' => fault.help("to compare, write `==`"),
                        '&' => fault.help("write `&&`"),
                        '|' => fault.help("write `||`"),
                        _ => fault,
                    });
                }
            },
        };
        found.push((token, at..at + length));
        at += length;
    }
}

fn number(rest: &str, at: usize) -> Result<(Token, usize), ExpressionError> {
    let bytes = rest.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut length = digits(0);
    let mut float = false;
    if bytes.get(length) == Some(&b'.') && bytes.get(length + 1).is_some_and(u8::is_ascii_digit) {
        float = true;
        length += 1 + digits(length + 1);
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = digits(length + 1 + sign);
        if exponent > 0 {
            float = true;
            length += 1 + sign + exponent;
        }
    }
    let text = &rest[..length];
    let range = at..at + length;
    if bytes.get(length).is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_') {
        return Err(ExpressionError::new(&range, format!("`{text}` is followed by letters"))
            .help("expressions have no durations and sizes"));
    }
    let value = if float {
        text.parse::<f64>().ok().filter(|f| f.is_finite()).map(Value::from)
    } else {
        text.parse::<i64>().ok().map(Value::from)
    };
    value
        .map(|v| (Token::Number(v), length))
        .ok_or_else(|| ExpressionError::new(&range, format!("the number `{text}` is too large")))
}

/// Reads a number such as `.5`, `1.` or `1e-3`, always a float; a word may follow at once.
fn loose_number(rest: &str, at: usize) -> Result<(Token, usize), ExpressionError> {
    let mut length = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    if rest[length..].starts_with(['e', 'E']) {
        let signed = rest[length + 1..].starts_with(['-', '+']);
        let from = length + 1 + usize::from(signed);
        let digits = rest[from..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - from);
        length = if digits > 0 { from + digits } else { length };
    }
    let text = &rest[..length];
    let value = text.parse::<f64>().ok().filter(|f| f.is_finite());
    value
        .map(|f| (Token::Number(f.into()), length))
        .ok_or_else(|| ExpressionError::misplaced(&(at..at + length), format!("`{text}` is no number")))
}

/// Reads a string in single quotes: `'it''s'`.
fn single_quoted(rest: &str, at: usize) -> Result<(Token, usize), ExpressionError> {
    let mut text = String::new();
    let mut characters = rest.char_indices().skip(1).peekable();
    while let Some((i, c)) = characters.next() {
        match c {
            '\'' if characters.peek().is_some_and(|(_, c)| *c == '\'') => {
                characters.next();
                text.push('\'');
            }
            '\'' => return Ok((Token::Text(text), i + 1)),
            c => text.push(c),
        }
    }
    Err(ExpressionError::new(&(at..at + 1), "this string is never closed").help("end it with `'`"))
}

/// Reads a string in double quotes, with JSON's escapes.
fn double_quoted(rest: &str, at: usize) -> Result<(Token, usize), ExpressionError> {
    let mut escaped = false;
    for (i, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => {
                return match serde_json::from_str(&rest[..=i]) {
                    Ok(text) => Ok((Token::Text(text), i + 1)),
                    Err(_) => Err(ExpressionError::new(&(at..at + i + 1), "this string has an unknown escape")
                        .help("use \\\" \\\\ \\n \\t \\uXXXX, or single quotes")),
                };
            }
            _ => {}
        }
    }
    Err(ExpressionError::new(&(at..at + 1), "this string is never closed").help("end it with `\"`"))
}
