//! Writes the RFC 8785 form of JSON: sorted keys, ECMAScript numbers, no white space.
//!
//! The plan of 100,000 stages is hashed in this form, so common values take a fast path. Where keys are ASCII, the
//! order of a `serde_json` map is that of the RFC, and whole numbers up to 2^53 are written as they are. The crate that
//! implements every rule writes all other values: fractions, large numbers, maps with other keys.

use crate::error::{Error, Result};
use serde::Serialize;
use serde_json::{Number, Value};

/// Largest whole number up to which every ECMAScript number has the same digits.
const EXACT: u64 = 1 << 53;

/// Returns the RFC 8785 form of a serializable value.
///
/// Errors: bug, if the value contains NaN or an infinity, which have no RFC 8785 form.
pub fn canonical_json(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json_canonicalizer::to_vec(value).map_err(|e| Error::bug(format!("no canonical JSON for this value: {e}")))
}

/// Appends the canonical form of a value to `text`; much faster than [`canonical_json`].
///
/// ```
/// let mut text = Vec::new();
/// trainyard_core::canonical::write_value(&serde_json::json!({"b": [1.0, "x"], "a": 1e-7}), &mut text).unwrap();
/// assert_eq!(text, br#"{"a":1e-7,"b":[1,"x"]}"#);
/// ```
pub fn write_value(value: &Value, text: &mut Vec<u8>) -> Result<()> {
    match value {
        Value::Null => text.extend_from_slice(b"null"),
        Value::Bool(true) => text.extend_from_slice(b"true"),
        Value::Bool(false) => text.extend_from_slice(b"false"),
        Value::Number(number) => write_number(number, text)?,
        Value::String(string) => write_text(string, text)?,
        Value::Array(items) => {
            text.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    text.push(b',');
                }
                write_value(item, text)?;
            }
            text.push(b']');
        }
        Value::Object(map) if !map.keys().all(|key| key.is_ascii()) => text.extend(canonical_json(map)?),
        Value::Object(map) => {
            text.push(b'{');
            for (i, (key, item)) in map.iter().enumerate() {
                if i > 0 {
                    text.push(b',');
                }
                write_text(key, text)?;
                text.push(b':');
                write_value(item, text)?;
            }
            text.push(b'}');
        }
    }
    Ok(())
}

/// Appends the canonical form of a string to `text`.
pub fn write_text(string: &str, text: &mut Vec<u8>) -> Result<()> {
    let plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    if !string.bytes().all(plain) {
        // The escapes of `serde_json` are those of the RFC.
        return serde_json::to_writer(text, string).map_err(|e| Error::bug(format!("no JSON for a text: {e}")));
    }
    text.push(b'"');
    text.extend_from_slice(string.as_bytes());
    text.push(b'"');
    Ok(())
}

fn write_number(number: &Number, text: &mut Vec<u8>) -> Result<()> {
    let exact = match (number.as_i64(), number.as_u64()) {
        (Some(whole), _) => whole.unsigned_abs() <= EXACT,
        (None, Some(whole)) => whole <= EXACT,
        (None, None) => false,
    };
    if exact {
        text.extend_from_slice(number.to_string().as_bytes());
    } else {
        text.extend(canonical_json(number)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn short(value: &Value) -> Vec<u8> {
        let mut text = Vec::new();
        write_value(value, &mut text).unwrap();
        text
    }

    #[test]
    fn fast_path_equals_the_reference_form() {
        let values = [
            json!({"b": 1.0, "a": [1e2, 0.1, -0.0, 1e21, 5e-324], "": null}),
            json!([0, -1, EXACT, EXACT + 1, u64::MAX, i64::MIN, -(EXACT as i64), -(EXACT as i64) - 1]),
            json!({"\u{1f600}": 1, "\u{fb33}": 2, "é": {"z": true, "y": false}}),
            json!(["\u{0}\u{8}\t\n\u{b}\u{c}\r\u{1f}\u{7f}\u{2028}", "\"\\/", "ä\u{1f600}"]),
        ];
        for value in values {
            assert_eq!(short(&value), canonical_json(&value).unwrap(), "{value}");
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|map| map.into_iter().collect::<Value>()),
            ]
        })
    }

    proptest! {
        #[test]
        fn canonical_form_of_every_value_type(value in any_value()) {
            prop_assert_eq!(short(&value), canonical_json(&value).unwrap());
        }
    }
}
