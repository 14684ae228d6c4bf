//! Builds a tokenizer with one token per character, for tiny models.
//!
//! The tokenizer is a byte-pair model without merges, so every `tokenizers` implementation reads it. The alphabet
//! contains the characters of a corpus, all printable ASCII, tab and newline, because a tool may print characters that
//! no demonstration contains. Encoding any other character is an error (see [`Tokenizer::escape`]).

use super::text::Tokenizer;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use trainyard_core::Result;

/// Builds a tokenizer from the characters of `corpus`. Ids: the special tokens in their order, then the characters by
/// code point.
pub fn character_tokenizer<'t>(corpus: impl IntoIterator<Item = &'t str>, special: &[&str]) -> Result<Tokenizer> {
    let mut alphabet: BTreeSet<char> = (' '..='~').chain(['\t', '\n']).collect();
    for text in corpus {
        alphabet.extend(text.chars());
    }
    let mut vocabulary = Map::new();
    for token in special.iter().map(|t| (*t).to_string()).chain(alphabet.into_iter().map(String::from)) {
        let id = vocabulary.len();
        vocabulary.insert(token, json!(id));
    }
    let tokenizer = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added_tokens(special),
        "normalizer": null,
        "pre_tokenizer": null,
        "post_processor": null,
        "decoder": {"type": "Fuse"},
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": false,
            "vocab": vocabulary,
            "merges": [],
        },
    });
    Tokenizer::from_json(&tokenizer.to_string())
}

fn added_tokens(special: &[&str]) -> Vec<Value> {
    let token = |(id, content): (usize, &&str)| {
        json!({
            "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true,
        })
    };
    special.iter().enumerate().map(token).collect()
}
