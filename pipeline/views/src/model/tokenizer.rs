//! Describes the tokenizer of a model, from the files that Hugging Face's tokenizers write.

use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use trainyard_core::{Digest, Error, Result};

/// Maximum special tokens in a view.
const MAX_SPECIAL: usize = 64;

/// Tokenizer of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelTokenizer {
    /// Kind, as `byte-level BPE` or `Unigram`.
    pub kind: String,
    /// One more than the highest id.
    pub vocabulary: u64,
    /// Digest of the canonical form of `tokenizer.json`, as in rows with tokens.
    pub digest: String,
    /// Special tokens, those with a role first, and then by id; at most 64.
    pub special: Vec<SpecialToken>,
    /// Number of all special tokens.
    pub special_total: u64,
}

/// Special token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpecialToken {
    /// Text of the token.
    pub text: String,
    /// Id; null if the vocabulary lacks the token.
    pub id: Option<u64>,
    /// Roles, as `eos_token`.
    pub roles: Vec<String>,
}

/// Part of a `tokenizer.json`.
#[derive(Deserialize)]
struct TokenizerFile {
    model: VocabularyModel,
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    decoder: Value,
}

#[derive(Deserialize)]
struct VocabularyModel {
    #[serde(rename = "type")]
    kind: Option<String>,
    vocab: Option<Vocabulary>,
    byte_fallback: Option<bool>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Vocabulary {
    Ids(HashMap<String, u64>),
    Pieces(Vec<IgnoredAny>),
}

#[derive(Deserialize)]
struct AddedToken {
    id: u64,
    content: String,
    #[serde(default)]
    special: bool,
}

impl ModelTokenizer {
    /// Describes the content of a `tokenizer.json`. `roles` are the contents of further files that name special tokens
    /// (`tokenizer_config.json`, `special_tokens_map.json`). Errors: data (another content).
    pub fn of_files(tokenizer: &Value, roles: &[Value]) -> Result<Self> {
        let file = TokenizerFile::deserialize(tokenizer)
            .map_err(|e| Error::data(format!("not a tokenizer of Hugging Face: {e}")))?;
        let mut special = special_tokens(&file, roles);
        let special_total = special.len() as u64;
        special.truncate(MAX_SPECIAL);
        Ok(Self {
            kind: kind(&file),
            vocabulary: vocabulary(&file),
            digest: Digest::of_json(tokenizer)?.to_string(),
            special,
            special_total,
        })
    }
}

fn kind(file: &TokenizerFile) -> String {
    let kind = file.model.kind.as_deref().unwrap_or("unknown");
    if has_byte_level(&file.pre_tokenizer) || has_byte_level(&file.decoder) {
        format!("byte-level {kind}")
    } else if file.model.byte_fallback == Some(true) {
        format!("{kind} with bytes as fallback")
    } else {
        kind.to_string()
    }
}

/// Returns whether a pre-tokenizer or decoder, or one of its parts, is `ByteLevel`.
fn has_byte_level(step: &Value) -> bool {
    let mut parts = ["pretokenizers", "decoders"].into_iter().filter_map(|key| step.get(key)?.as_array()).flatten();
    step["type"] == "ByteLevel" || parts.any(has_byte_level)
}

fn vocabulary(file: &TokenizerFile) -> u64 {
    let highest = match &file.model.vocab {
        Some(Vocabulary::Ids(ids)) => ids.values().copied().max(),
        Some(Vocabulary::Pieces(pieces)) => (pieces.len() as u64).checked_sub(1),
        None => None,
    };
    let added = file.added_tokens.iter().map(|token| token.id).max();
    highest.max(added).map_or(0, |highest| highest.saturating_add(1))
}

fn special_tokens(file: &TokenizerFile, roles: &[Value]) -> Vec<SpecialToken> {
    let known = |text: &str| {
        let added = file.added_tokens.iter().find(|token| token.content == text).map(|token| token.id);
        match &file.model.vocab {
            Some(Vocabulary::Ids(ids)) => added.or_else(|| ids.get(text).copied()),
            _ => added,
        }
    };
    let mut tokens: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for token in file.added_tokens.iter().filter(|token| token.special) {
        tokens.entry(&token.content).or_default();
    }
    let named = roles.iter().filter_map(Value::as_object).flatten().filter(|(role, _)| role.ends_with("_token"));
    for (role, token) in named {
        if let Some(text) = token.as_str().or_else(|| token["content"].as_str()) {
            let of_token = tokens.entry(text).or_default();
            if !of_token.contains(role) {
                of_token.push(role.clone());
            }
        }
    }
    let mut special: Vec<SpecialToken> = tokens
        .into_iter()
        .map(|(text, roles)| SpecialToken { text: text.to_string(), id: known(text), roles })
        .collect();
    special.sort_by_key(|token| (token.roles.is_empty(), token.id));
    special
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn token(text: &str, id: Option<u64>, roles: &[&str]) -> SpecialToken {
        SpecialToken { text: text.into(), id, roles: roles.iter().map(ToString::to_string).collect() }
    }

    #[test]
    fn byte_pairs_have_kind_size_and_special_tokens() {
        let file = json!({
            "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "<s>": 2}, "merges": []},
            "added_tokens": [
                {"id": 3, "content": "<|user|>", "special": true}, {"id": 9, "content": "<|end|>", "special": true},
                {"id": 4, "content": "plain", "special": false},
            ],
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits"}, {"type": "ByteLevel"}]},
            "decoder": null,
        });
        let config = json!({"eos_token": "<|end|>", "bos_token": {"content": "<s>"}, "add_bos_token": true});
        let map = json!({"eos_token": "<|end|>", "pad_token": "<|end|>", "unk_token": "?"});
        let found = ModelTokenizer::of_files(&file, &[config, map]).unwrap();
        assert_eq!((found.kind.as_str(), found.vocabulary, found.special_total), ("byte-level BPE", 10, 4));
        let expected = [
            token("?", None, &["unk_token"]),
            token("<s>", Some(2), &["bos_token"]),
            token("<|end|>", Some(9), &["eos_token", "pad_token"]),
            token("<|user|>", Some(3), &[]),
        ];
        assert_eq!(found.special, expected);
        assert_eq!(found.digest, Digest::of_json(&file).unwrap().to_string());
    }

    #[test]
    fn lists_of_pieces_are_counted_and_special_tokens_are_bounded() {
        let added: Vec<Value> =
            (0..70).map(|id| json!({"id": id, "content": format!("<{id}>"), "special": true})).collect();
        let pieces = json!([["a", -1.5], ["b", -2.0]]);
        let file = json!({"model": {"type": "Unigram", "vocab": pieces}, "added_tokens": added});
        let found = ModelTokenizer::of_files(&file, &[]).unwrap();
        assert_eq!((found.kind.as_str(), found.vocabulary), ("Unigram", 70));
        assert_eq!((found.special.len(), found.special_total), (64, 70));
        let bytes = json!({"model": {"type": "BPE", "vocab": {"a": 5}, "byte_fallback": true}});
        let found = ModelTokenizer::of_files(&bytes, &[]).unwrap();
        assert_eq!((found.kind.as_str(), found.vocabulary), ("BPE with bytes as fallback", 6));
    }

    #[test]
    fn another_content_is_an_error() {
        let error = ModelTokenizer::of_files(&json!({"version": "1.0"}), &[]).unwrap_err();
        assert!(error.message.starts_with("not a tokenizer of Hugging Face: missing field `model`"), "{error}");
    }
}
