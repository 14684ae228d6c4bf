//! Lists the forms in which the value of a secret appears in texts: raw, and escaped for JSON, Python, Rust, URLs and
//! base64.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use std::fmt::Write as _;

/// Characters that Python's `quote` and most URL encoders keep.
const UNRESERVED: &str = "-._~";
/// Characters that Python's `quote` keeps by default.
const PATH: &str = "-._~/";
/// Characters that JavaScript's `encodeURIComponent` keeps.
const COMPONENT: &str = "-._~!'()*";

/// Returns the forms of a value, without repetitions. The value itself is the first one.
pub fn forms(value: &str) -> Vec<String> {
    let json = json(value);
    let mut all = vec![value.to_string(), ascii(&json), json.replace('/', "\\/"), json];
    all.extend([python_repr(value, false), python_repr(value, true), value.escape_debug().to_string()]);
    for kept in [UNRESERVED, PATH, COMPONENT] {
        all.extend([percent(value, kept, true), percent(value, kept, false)]);
    }
    all.push(percent(value, UNRESERVED, true).replace("%20", "+"));
    all.extend(base64_parts(value.as_bytes()));
    let mut seen = Vec::new();
    for form in all {
        if !seen.contains(&form) {
            seen.push(form);
        }
    }
    seen
}

/// Escapes a text as in a JSON string, without the quotes.
fn json(value: &str) -> String {
    let text = serde_json::Value::from(value).to_string();
    text[1..text.len() - 1].to_string()
}

/// Replaces characters outside of ASCII by `\uXXXX`, as Python's `json.dumps` does.
fn ascii(json: &str) -> String {
    let mut text = String::new();
    for unit in json.encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii() => text.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => {
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
    }
    text
}

/// Escapes a text as Python's `repr` does, without the quotes. `single` tells whether single quotes are escaped, as in
/// texts that contain both kinds of quotes.
fn python_repr(value: &str, single: bool) -> String {
    let mut text = String::new();
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\'' if single => text.push_str("\\'"),
            c if c.is_control() => {
                let _ = write!(text, "\\x{:02x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text
}

/// Escapes all bytes as `%XX` except letters, digits and `kept`.
fn percent(value: &str, kept: &str, upper: bool) -> String {
    let mut text = String::new();
    for byte in value.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || (byte.is_ascii() && kept.contains(c)) {
            text.push(c);
        } else if upper {
            let _ = write!(text, "%{byte:02X}");
        } else {
            let _ = write!(text, "%{byte:02x}");
        }
    }
    text
}

/// Returns what the base64 of every text that contains the value has in common, for the three places at which the value
/// may begin within a group of three bytes.
fn base64_parts(value: &[u8]) -> Vec<String> {
    let mut parts = Vec::new();
    for (before, first) in [(0, 0), (1, 2), (2, 3)] {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(value);
        // The characters from `first` to `end` depend on the value alone.
        let end = bytes.len() * 8 / 6;
        for encoded in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            parts.push(encoded.get(first..end).unwrap_or_default().to_string());
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VALUE: &str = "pa'ss \"wörd\\/1\n😀?";

    #[test]
    fn forms_of_other_languages_are_listed() {
        let all = forms(VALUE);
        // All but the last are printed by Python: `json.dumps`, `repr`, `quote`, `quote_plus`.
        for expected in [
            VALUE,
            r#"pa'ss \"w\u00f6rd\\/1\n\ud83d\ude00?"#,
            r#"pa'ss \"wörd\\/1\n😀?"#,
            r#"pa\'ss "wörd\\/1\n😀?"#,
            "pa%27ss%20%22w%C3%B6rd%5C/1%0A%F0%9F%98%80%3F",
            "pa%27ss+%22w%C3%B6rd%5C%2F1%0A%F0%9F%98%80%3F",
            "pa%27ss%20%22w%c3%b6rd%5c%2f1%0a%f0%9f%98%80%3f",
        ] {
            assert!(all.iter().any(|form| form == expected), "{expected} is not in {all:#?}");
        }
        assert_eq!(forms("abcdefgh")[0], "abcdefgh");
        assert!(forms("abcdefgh").contains(&"YWJjZGVmZ2".to_string()), "of YWJjZGVmZ2g=");
    }

    proptest! {
        /// The base64 of any text around a value contains one of its forms.
        #[test]
        fn base64_of_surrounding_texts_contains_a_form(
            before in prop::collection::vec(any::<u8>(), 0..20),
            value in "[a-zA-Z0-9_/+-]{8,40}",
            after in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let all = [before.as_slice(), value.as_bytes(), after.as_slice()].concat();
            let forms = forms(&value);
            for encoded in [STANDARD_NO_PAD.encode(&all), URL_SAFE_NO_PAD.encode(&all)] {
                prop_assert!(forms.iter().any(|form| encoded.contains(form.as_str())), "{encoded}: {forms:?}");
            }
        }
    }
}
