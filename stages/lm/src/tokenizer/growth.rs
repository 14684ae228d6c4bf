//! Limits how much longer a `tokenizer.json` may make a text, before it is applied to any.
//!
//! A normalizer or decoder that replaces `a` by ten of it, nine times in sequence, makes a gigabyte of one letter. The
//! growth is bounded from above: by the number of characters after each step, and by that of each character that a
//! step replaces.

use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::{Error, Result};

/// Maximum characters that one may become. Those of published models become at most some thousands by this bound.
const GROWTH: u128 = 10_000;

/// Checks the normalizer and the decoder of a `tokenizer.json`. Errors: data, naming the part.
pub fn expect_bounded(json: &Value) -> Result<()> {
    for (part, key) in [("normalizer", "normalizers"), ("decoder", "decoders")] {
        let mut steps = Vec::new();
        flatten(&json[part], key, &mut steps);
        if growth(&steps) > GROWTH {
            let message =
                format!("the tokenizer cannot be read: its {part} makes more than {GROWTH} characters of one");
            return Err(Error::data(message).help("fetch the tokenizer.json again from its publisher"));
        }
    }
    Ok(())
}

/// Appends the steps of a part, in order.
fn flatten<'j>(part: &'j Value, key: &str, steps: &mut Vec<&'j Value>) {
    match part[key].as_array() {
        Some(list) => list.iter().for_each(|step| flatten(step, key, steps)),
        None => steps.push(part),
    }
}

/// Characters of a text that had one, at most.
struct LongestText {
    total: u128,
    /// Numbers of the characters that a step replaces.
    counts: BTreeMap<char, u128>,
}

/// Returns a bound on the characters that these steps make of one; more than [`GROWTH`] may be any number.
fn growth(steps: &[&Value]) -> u128 {
    let replaced = steps.iter().filter_map(|step| single(step["pattern"]["String"].as_str()?));
    let mut text = LongestText { total: 1, counts: replaced.map(|c| (c, 1)).collect() };
    for step in steps {
        text.apply(step);
        if text.total > GROWTH {
            break;
        }
    }
    text.total
}

/// Returns the character of a text that has one.
fn single(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

impl LongestText {
    fn apply(&mut self, step: &Value) {
        match step["type"].as_str().unwrap_or_default() {
            "Replace" => self.replace(step),
            "Prepend" => self.add(1, step["prepend"].as_str().unwrap_or_default()),
            // The longest decompositions of Unicode.
            "NFKC" | "NFKD" | "Precompiled" => self.map(18),
            "NFC" | "NFD" | "BertNormalizer" | "ByteLevel" => self.map(4),
            "Lowercase" => self.map(2),
            // Others remove or exchange characters.
            _ => self.map(1),
        }
    }
    /// Takes into account that each character may become so many of any.
    fn map(&mut self, factor: u128) {
        self.total = self.total.saturating_mul(factor);
        self.counts.values_mut().for_each(|count| *count = self.total);
    }
    fn replace(&mut self, step: &Value) {
        let content = step["content"].as_str().unwrap_or_default();
        let Some(pattern) = step["pattern"]["String"].as_str().filter(|pattern| !pattern.is_empty()) else {
            // Such a pattern may match before every character and at the end.
            return self.add(self.total.saturating_add(1), content);
        };
        let Some(character) = single(pattern) else {
            return self.add(self.total.div_ceil(pattern.chars().count() as u128), content);
        };
        let removed = self.counts.insert(character, 0).unwrap_or(0).min(self.total);
        self.total -= removed;
        self.add(removed, content);
    }
    /// Adds a text so many times.
    fn add(&mut self, times: u128, text: &str) {
        for character in text.chars() {
            self.total = self.total.saturating_add(times);
            if let Some(count) = self.counts.get_mut(&character) {
                *count = count.saturating_add(times);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn replace(pattern: &str, content: &str) -> Value {
        json!({"type": "Replace", "pattern": {"String": pattern}, "content": content})
    }

    fn checked(normalizers: Vec<Value>) -> Result<()> {
        expect_bounded(&json!({"normalizer": {"type": "Sequence", "normalizers": normalizers}, "decoder": null}))
    }

    #[test]
    fn texts_that_multiply_are_refused() {
        let tenfold = "a".repeat(10);
        for normalizers in [
            vec![replace("a", &tenfold); 9],
            vec![replace("", &tenfold); 5],
            vec![replace("ab", &"ab".repeat(20)); 9],
            vec![json!({"type": "Replace", "pattern": {"Regex": "(?=x)|"}, "content": tenfold}); 5],
            vec![replace("a", &"b".repeat(101)), replace("b", &"c".repeat(101))],
            vec![replace("a", &"B".repeat(101)), json!({"type": "Lowercase"}), replace("b", &"a".repeat(101))],
            vec![json!({"type": "Sequence", "normalizers": vec![replace("a", &tenfold); 9]})],
            vec![json!({"type": "Prepend", "prepend": "a".repeat(10_001)})],
        ] {
            let error = checked(normalizers.clone()).expect_err(&format!("{normalizers:?}"));
            assert!(error.message.contains("its normalizer makes more than 10000 characters of one"), "{error}");
        }
        let decoder = json!({"normalizer": null, "decoder": replace("", &"a".repeat(100_000))});
        assert!(expect_bounded(&decoder).unwrap_err().message.contains("its decoder"));
    }

    #[test]
    fn parts_of_published_models_are_bounded() {
        let prepend = json!({"type": "Prepend", "prepend": "\u{2581}"});
        let spaces = json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "});
        let t5 = [replace("``", "\""), replace("''", "\""), json!({"type": "NFKD"}), json!({"type": "StripAccents"})];
        let commas: Vec<Value> = ('a'..='z').map(|c| replace(&c.to_string(), ", ")).collect();
        for normalizers in [
            vec![],
            vec![prepend, replace(" ", "\u{2581}")],
            [t5.as_slice(), &[json!({"type": "Lowercase"}), json!({"type": "Precompiled"}), spaces]].concat(),
            commas,
            vec![replace("a", "b"); 1_000],
        ] {
            checked(normalizers).unwrap();
        }
        let decoders = [replace("\u{2581}", " "), json!({"type": "ByteFallback"}), json!({"type": "Fuse"})];
        expect_bounded(&json!({"decoder": {"type": "Sequence", "decoders": decoders}})).unwrap();
    }
}
