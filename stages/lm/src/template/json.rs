//! JSON as Python's `json.dumps(value, ensure_ascii=False)` prints it, which is what Hugging Face's `tojson` does.
//!
//! Separators are `", "` and `": "`, nothing is escaped for HTML, floats print as Python's `repr`. Keys come sorted,
//! since values pass through maps that sort.

use serde_json::Value;

/// With `indent`, items stand on lines of their own.
pub fn python_json(value: &Value, indent: Option<usize>) -> String {
    let mut out = String::new();
    write(value, indent, 0, &mut out);
    out
}

fn write(value: &Value, indent: Option<usize>, depth: usize, out: &mut String) {
    match value {
        Value::Number(n) => match n.as_f64() {
            Some(x) if n.is_f64() => out.push_str(&float(x)),
            _ => out.push_str(&n.to_string()),
        },
        Value::Array(items) if !items.is_empty() => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                separate(i, indent, depth + 1, out);
                write(item, indent, depth + 1, out);
            }
            end(indent, depth, out);
            out.push(']');
        }
        Value::Object(items) if !items.is_empty() => {
            out.push('{');
            for (i, (key, item)) in items.iter().enumerate() {
                separate(i, indent, depth + 1, out);
                write(&Value::String(key.clone()), indent, depth + 1, out);
                out.push_str(": ");
                write(item, indent, depth + 1, out);
            }
            end(indent, depth, out);
            out.push('}');
        }
        Value::String(s) => string(s, out),
        // Null, booleans and empty containers print alike.
        other => out.push_str(&other.to_string()),
    }
}

fn separate(index: usize, indent: Option<usize>, depth: usize, out: &mut String) {
    match indent {
        None if index > 0 => out.push_str(", "),
        None => {}
        Some(width) => {
            if index > 0 {
                out.push(',');
            }
            out.push('\n');
            out.push_str(&" ".repeat(width * depth));
        }
    }
}

fn end(indent: Option<usize>, depth: usize, out: &mut String) {
    if let Some(width) = indent {
        out.push('\n');
        out.push_str(&" ".repeat(width * depth));
    }
}

fn string(text: &str, out: &mut String) {
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
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Python's `repr` of a float: shortest digits, exponents below -4 and from 16 on.
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
    use serde_json::json;

    /// Right sides printed by CPython 3.12.
    #[test]
    fn prints_as_python_does() {
        let value = json!({"a": [1, 2.0, 1e16, 1e-5, 0.1, true, null], "b": {}, "c": "<é>\"\\\n\u{1}\u{7f}", "d": []});
        let expected = "{\"a\": [1, 2.0, 1e+16, 1e-05, 0.1, true, null], \"b\": {}, \
            \"c\": \"<é>\\\"\\\\\\n\\u0001\u{7f}\", \"d\": []}";
        assert_eq!(python_json(&value, None), expected);
        assert_eq!(
            python_json(&json!({"a": [1, {}], "b": 2}), Some(2)),
            "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": 2\n}"
        );
        assert_eq!(
            python_json(&json!([123456789012345680.0, -1.5e-7, 1234.5]), None),
            "[1.2345678901234568e+17, -1.5e-07, 1234.5]"
        );
    }
}
