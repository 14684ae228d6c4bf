//! Defines the tree on which every pass after the YAML reader works: lists, maps and scalars, each with its position.
//!
//! A scalar keeps its text and whether it was quoted, because numbers, durations and sizes are read later, by the type
//! declared at their position.

use crate::diagnostic::Span;
use serde_json::Value;

/// A value of the file with its position.
#[derive(Debug, Clone, PartialEq)]
pub struct YamlNode {
    /// Position in its file.
    pub span: Span,
    pub content: YamlContent,
}

/// The three forms of a YAML node.
#[derive(Debug, Clone, PartialEq)]
pub enum YamlContent {
    /// A value without parts.
    Scalar(YamlScalar),
    /// Items in file order.
    List(Vec<YamlNode>),
    /// In file order; keys are unique.
    Map(Vec<YamlEntry>),
}

/// A value without parts, as it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct YamlScalar {
    /// Text after YAML's escapes and folding.
    pub text: String,
    /// Neither quoted nor a block scalar; only such text can be a number, a bool or null.
    pub plain: bool,
}

/// A key with its position, and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct YamlEntry {
    /// As written, without quotes.
    pub key: String,
    pub key_span: Span,
    pub value: YamlNode,
}

impl YamlNode {
    /// Returns the scalar, if it is one.
    pub fn scalar(&self) -> Option<&YamlScalar> {
        match &self.content {
            YamlContent::Scalar(s) => Some(s),
            _ => None,
        }
    }
    /// Returns the items, if it is a list.
    pub fn list(&self) -> Option<&[YamlNode]> {
        match &self.content {
            YamlContent::List(items) => Some(items),
            _ => None,
        }
    }
    /// Returns the entries, if it is a map.
    pub fn map(&self) -> Option<&[YamlEntry]> {
        match &self.content {
            YamlContent::Map(entries) => Some(entries),
            _ => None,
        }
    }
    /// Returns the value of a key, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&YamlNode> {
        self.map()?.iter().find(|e| e.key == key).map(|e| &e.value)
    }
    /// Returns the value of a key, mutable.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        match &mut self.content {
            YamlContent::Map(entries) => entries.iter_mut().find(|e| e.key == key).map(|e| &mut e.value),
            _ => None,
        }
    }
    /// Returns the node at an RFC 6901 pointer.
    pub fn at_mut(&mut self, pointer: &str) -> Option<&mut Self> {
        pointer.split('/').skip(1).try_fold(self, |node, part| match node.content {
            YamlContent::List(ref mut items) => items.get_mut(part.parse::<usize>().ok()?),
            _ => node.get_mut(&part.replace("~1", "/").replace("~0", "~")),
        })
    }
    /// Returns the value as plain YAML, for positions without a schema.
    pub fn value(&self) -> Value {
        match &self.content {
            YamlContent::Scalar(scalar) => core_value(scalar),
            YamlContent::List(items) => items.iter().map(Self::value).collect(),
            YamlContent::Map(entries) => {
                Value::Object(entries.iter().map(|e| (e.key.clone(), e.value.value())).collect())
            }
        }
    }
    /// Whether the node is plain `null`, `~` or empty.
    pub fn is_null(&self) -> bool {
        self.scalar().is_some_and(|s| s.plain && is_null(&s.text))
    }
    /// Describes the node for messages.
    pub fn describe(&self) -> String {
        match &self.content {
            YamlContent::Scalar(_) if self.is_null() => "nothing".into(),
            YamlContent::Scalar(s) => format!("`{}`", shorten(&s.text)),
            YamlContent::List(_) => "a list".into(),
            YamlContent::Map(_) => "a map".into(),
        }
    }
}

/// Shortens text for a message: one line, at most 60 characters.
pub fn shorten(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.chars().count() <= 60 { line } else { format!("{}…", line.chars().take(59).collect::<String>()) }
}

/// Describes why a text is not the wanted number, if known.
pub fn number_help(expected: &str, text: &str) -> Option<String> {
    if !expected.contains("number") {
        return None;
    }
    if text.matches(',').count() == 1 && number(&text.replace(',', ".")).is_some() {
        return Some(format!("decimals take a point: write `{}`", text.replace(',', ".")));
    }
    let digits = text.replace(['_', ' ', ','], "");
    (digits != text && number(&digits).is_some()).then(|| format!("write `{digits}`"))
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null")
}

/// Returns a scalar's value by YAML 1.2's core schema, for positions without a declared type. Bools are `true` and
/// `false` only; `.inf` and `.nan` have no JSON form and stay text.
pub fn core_value(scalar: &YamlScalar) -> Value {
    if !scalar.plain {
        return Value::String(scalar.text.clone());
    }
    match scalar.text.as_str() {
        text if is_null(text) => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        text => number(text).unwrap_or_else(|| Value::String(text.to_string())),
    }
}

/// Parses `[-+]?[0-9]+`, `0o17`, `0xff`, or the core schema's float form.
pub fn number(text: &str) -> Option<Value> {
    if let Some(octal) = text.strip_prefix("0o") {
        return unsigned(octal, 8);
    }
    if let Some(hexadecimal) = text.strip_prefix("0x") {
        return unsigned(hexadecimal, 16);
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        let unsigned = text.strip_prefix('+').unwrap_or(text);
        let whole = unsigned.parse::<i64>().ok().map(Value::from);
        return whole.or_else(|| unsigned.parse::<u64>().ok().map(Value::from)).or_else(|| float(text));
    }
    let mantissa = digits.split(['e', 'E']).next().unwrap_or("");
    let well_formed = digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    if well_formed && mantissa.bytes().any(|b| b.is_ascii_digit()) { float(text) } else { None }
}

fn unsigned(digits: &str, radix: u32) -> Option<Value> {
    let valid = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    if valid { u64::from_str_radix(digits, radix).ok().map(Value::from) } else { None }
}

fn float(text: &str) -> Option<Value> {
    text.parse::<f64>().ok().filter(|f| f.is_finite()).map(Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_in_other_notations_are_understood() {
        assert_eq!(number_help("a number", "0,01").unwrap(), "decimals take a point: write `0.01`");
        assert_eq!(number_help("a whole number", "10_000").unwrap(), "write `10000`");
        assert_eq!(number_help("a whole number", "many"), None);
        assert_eq!(number_help("text", "0,01"), None);
    }

    #[test]
    fn scalars_are_read_by_the_core_schema() {
        let cases = [
            ("1", json!(1)),
            ("-7", json!(-7)),
            ("+7", json!(7)),
            ("0o17", json!(15)),
            ("0xff", json!(255)),
            ("1e-5", json!(1e-5)),
            (".5", json!(0.5)),
            ("1.", json!(1.0)),
            ("true", json!(true)),
            ("True", json!("True")),
            ("yes", json!("yes")),
            ("", json!(null)),
            ("~", json!(null)),
            ("e5", json!("e5")),
            (".", json!(".")),
            ("1-2", json!("1-2")),
            (".inf", json!(".inf")),
            ("2026-11-21", json!("2026-11-21")),
            ("99999999999999999999", json!(99999999999999999999.0)),
        ];
        for (text, value) in cases {
            assert_eq!(core_value(&YamlScalar { text: text.into(), plain: true }), value, "{text}");
        }
        assert_eq!(core_value(&YamlScalar { text: "1".into(), plain: false }), json!("1"));
    }
}
