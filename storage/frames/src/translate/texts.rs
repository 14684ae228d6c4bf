//! Translates tests and functions of texts. SQLite's own (`length`, `LIKE`) end at a zero character, and its letter
//! case is that of ASCII; functions of `trainyard_query` see the whole text.

use super::value::{Kind, TypedExpr, truth};
use polars::prelude::{BooleanChunked, Column, DataType, Expr, Field, Int64Chunked, IntoColumn, StringChunked};
use regex::Regex;

/// SQLite refuses longer patterns.
const LONGEST_PATTERN: usize = 50_000;
/// No text has more characters.
const LONGEST_TEXT: u64 = 1 << 40;

impl TypedExpr {
    /// Tests every text.
    pub fn matches(self, test: impl Fn(&str) -> bool + Send + Sync + 'static) -> Option<Expr> {
        let tested = move |column: Column| {
            let texts = column.str()?;
            let found: BooleanChunked = texts.iter().map(|text| text.map(&test)).collect();
            Ok(found.with_name(texts.name().clone()).into_column())
        };
        self.mapped_text(tested, DataType::Boolean)
    }
    /// Tests every text by a LIKE pattern, with regard to case.
    pub fn like(self, pattern: &str) -> Option<Expr> {
        let matcher = LikePattern::new(pattern)?;
        self.matches(move |text| matcher.is_match(until_zero(text)))
    }
    /// Returns the number of characters.
    pub fn length(self) -> Option<Self> {
        let counted = |column: Column| {
            let texts = column.str()?;
            let length = |text: &str| until_zero(text).chars().count() as i64;
            let counts: Int64Chunked = texts.iter().map(|text| text.map(length)).collect();
            Ok(counts.with_name(texts.name().clone()).into_column())
        };
        self.mapped_text(counted, DataType::Int64).map(|expr| Self::new(Kind::Int(LONGEST_TEXT), expr))
    }
    /// Changes the case of ASCII letters.
    pub fn with_case(self, change: fn(&str) -> String) -> Option<Self> {
        if let Some(text) = &self.text {
            return Some(Self::literal_text(&change(text)));
        }
        let changed = move |column: Column| {
            let texts = column.str()?;
            let changed: StringChunked = texts.iter().map(|text| text.map(change)).collect();
            Ok(changed.with_name(texts.name().clone()).into_column())
        };
        self.mapped_text(changed, DataType::String).map(|expr| Self::new(Kind::Text, expr))
    }

    fn mapped_text(
        self,
        function: impl Fn(Column) -> polars::prelude::PolarsResult<Column> + Send + Sync + 'static,
        to: DataType,
    ) -> Option<Expr> {
        (self.kind == Kind::Text)
            .then(|| self.expr.map(function, move |_, field| Ok(Field::new(field.name().clone(), to.clone()))))
    }
}

/// Returns a test of every text as a value.
pub(crate) fn tested(value: TypedExpr, test: impl Fn(&str) -> bool + Send + Sync + 'static) -> Option<TypedExpr> {
    value.matches(test).map(truth)
}

fn until_zero(text: &str) -> &str {
    text.split('\0').next().unwrap_or_default()
}

/// A LIKE pattern.
enum LikePattern {
    Equals(String),
    StartsWith(String),
    EndsWith(String),
    Contains(String),
    Other(Regex),
}

impl LikePattern {
    fn new(pattern: &str) -> Option<Self> {
        if pattern.len() > LONGEST_PATTERN || pattern.contains('\0') {
            return None;
        }
        let parts: Vec<&str> = pattern.split('%').collect();
        if pattern.contains('_') {
            return Self::regex(pattern);
        }
        match parts.as_slice() {
            [text] => Some(Self::Equals((*text).to_string())),
            [start, ""] => Some(Self::StartsWith((*start).to_string())),
            ["", end] => Some(Self::EndsWith((*end).to_string())),
            ["", part, ""] => Some(Self::Contains((*part).to_string())),
            _ => Self::regex(pattern),
        }
    }
    fn regex(pattern: &str) -> Option<Self> {
        let piece = |character: char| match character {
            '%' => ".*".to_string(),
            '_' => ".".to_string(),
            other => regex::escape(other.encode_utf8(&mut [0; 4])),
        };
        let body: String = pattern.chars().map(piece).collect();
        Regex::new(&format!("(?s)^{body}$")).ok().map(Self::Other)
    }
    fn is_match(&self, text: &str) -> bool {
        match self {
            Self::Equals(expected) => text == expected,
            Self::StartsWith(start) => text.starts_with(start.as_str()),
            Self::EndsWith(end) => text.ends_with(end.as_str()),
            Self::Contains(part) => text.contains(part.as_str()),
            Self::Other(regex) => regex.is_match(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_patterns_match_as_in_sql() {
        let is_match = |pattern: &str, text: &str| LikePattern::new(pattern).unwrap().is_match(text);
        let cases = [
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a%", "a", true),
            ("%c", "abc", true),
            ("%b%", "abc", true),
            ("%", "", true),
            ("a%c", "abxc", true),
            ("a%c", "abxcd", false),
            ("_", "é", true),
            ("a_c", "a\nc", true),
            ("a_c", "ac", false),
            ("a.c", "abc", false),
            ("%a%b%", "xaxbx", true),
            ("%a%b%", "xbxax", false),
            ("ABC", "abc", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(is_match(pattern, text), expected, "{pattern} {text}");
        }
        assert!(LikePattern::new(&"a".repeat(LONGEST_PATTERN + 1)).is_none());
    }
}
