//! Prints JSON as Python's `json.dumps` does, which is the output of Hugging Face's `tojson`.
//!
//! Keys are in the order of the value, floats print as Python's `repr`, and no character is escaped for HTML.

use super::limits::{DEPTH, TEXT, exceeded};
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// The options of `json.dumps` that templates may give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonStyle {
    /// Whether characters beyond ASCII are written as `\uXXXX`.
    pub ensure_ascii: bool,
    /// Spaces per level; items are on separate lines.
    pub indent: Option<usize>,
    /// Between items, and between a key and its value.
    pub separators: (String, String),
    /// Whether keys are sorted by their characters.
    pub sort_keys: bool,
}

impl JsonStyle {
    /// Returns the style of `json.dumps` with this indent.
    pub fn new(indent: Option<usize>) -> Self {
        let item = if indent.is_some() { "," } else { ", " };
        Self { ensure_ascii: false, indent, separators: (item.to_string(), ": ".to_string()), sort_keys: false }
    }
    /// Returns a value as JSON text. Errors: an undefined value, and a value without a form in JSON.
    pub fn text(&self, value: &Value) -> Result<String, Error> {
        let mut out = String::new();
        self.write(value, 0, &mut out)?;
        Ok(out)
    }

    fn write(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        if depth > DEPTH {
            return Err(exceeded("a value for JSON is nested too deeply", DEPTH));
        }
        if out.len() > TEXT {
            return Err(exceeded("a JSON text has too many bytes", TEXT));
        }
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number if value.is_integer() => out.push_str(&value.to_string()),
            ValueKind::Number => out.push_str(&float(f64::try_from(value.clone())?)),
            ValueKind::String => self.string(value.as_str().unwrap_or_default(), out),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.container(('[', ']'), &items, depth, out, |item, out| self.write(item, depth + 1, out))?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort_by_key(ToString::to_string);
                }
                self.container(('{', '}'), &keys, depth, out, |key, out| {
                    self.string(&key.to_string(), out);
                    out.push_str(&self.separators.1);
                    self.write(&value.get_item(key)?, depth + 1, out)
                })?;
            }
            other => {
                let message = format!("a value of the kind `{other}` cannot be written as JSON");
                return Err(Error::new(ErrorKind::BadSerialization, message));
            }
        }
        Ok(())
    }

    fn container(
        &self,
        (open, close): (char, char),
        items: &[Value],
        depth: usize,
        out: &mut String,
        write: impl Fn(&Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(open);
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                out.push_str(&self.separators.0);
            }
            self.line(depth + 1, out);
            write(item, out)?;
        }
        if !items.is_empty() {
            self.line(depth, out);
        }
        out.push(close);
        Ok(())
    }

    fn line(&self, depth: usize, out: &mut String) {
        if let Some(width) = self.indent {
            out.push('\n');
            out.push_str(&" ".repeat(width * depth));
        }
    }

    fn string(&self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
                c if self.ensure_ascii && (c as u32) > 0x7e => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

/// Returns Python's `repr` of a float: shortest digits, exponents below -4 and from 16 on.
fn float(x: f64) -> String {
    let scientific = format!("{x:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if x != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{x}");
    if plain.contains('.') { plain } else { format!("{plain}.0") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(json: &str, style: &JsonStyle) -> String {
        style.text(&serde_json::from_str(json).unwrap()).unwrap()
    }

    /// The expected texts were printed by CPython 3.12.
    #[test]
    fn prints_as_python_does() {
        let value = r#"{"b":{},"a":[1,2.0,1e16,1e-5,0.1,true,null],"c":"<é>\"\\\n\u0001\u007f","d":[]}"#;
        let expected = "{\"b\": {}, \"a\": [1, 2.0, 1e+16, 1e-05, 0.1, true, null], \
            \"c\": \"<é>\\\"\\\\\\n\\u0001\u{7f}\", \"d\": []}";
        assert_eq!(print(value, &JsonStyle::new(None)), expected);
        assert_eq!(
            print(r#"{"b":[1,{}],"a":2}"#, &JsonStyle::new(Some(2))),
            "{\n  \"b\": [\n    1,\n    {}\n  ],\n  \"a\": 2\n}"
        );
        assert_eq!(
            print("[123456789012345680.0,-1.5e-7,1234.5]", &JsonStyle::new(None)),
            "[1.2345678901234568e+17, -1.5e-07, 1234.5]"
        );
        let compact = JsonStyle {
            ensure_ascii: true,
            separators: (",".into(), ":".into()),
            sort_keys: true,
            ..JsonStyle::new(None)
        };
        assert_eq!(print(r#"{"b":"é😀","a":[1,2]}"#, &compact), r#"{"a":[1,2],"b":"\u00e9\ud83d\ude00"}"#);
        assert!(JsonStyle::new(None).text(&Value::UNDEFINED).is_err());
    }
}
