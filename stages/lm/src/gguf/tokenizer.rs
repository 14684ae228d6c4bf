//! Converts a GGUF file's vocabulary to a `tokenizer.json`.
//!
//! The file names its pre-tokenizer (`tokenizer.ggml.pre`) but does not describe it. The pipelines of the known names
//! follow the models' own `tokenizer.json`. Unknown names are errors, since a guessed pre-tokenizer could split numbers
//! or words differently without an error.

use super::metadata::Metadata;
use crate::tokenizer::Tokenizer;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use trainyard_core::{Error, Result};

/// Kinds of tokens, in `tokenizer.ggml.token_type`.
const CONTROL: usize = 3;
const USER_DEFINED: usize = 4;

/// Maximum bytes of a token: finding the merges of a token takes the square of its length.
const LONGEST_TOKEN: usize = 1_024;

/// Patterns that split words; `DIGITS` is replaced by the pattern for a run of digits.
const WORDS: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+",
    r"|\s+(?!\S)|\s+"
);

/// Preprocessing of text before the merges.
struct Pipeline {
    normalizer: Value,
    pre_tokenizer: Value,
    decoder: Value,
    /// Whether words that are in the vocabulary become one token without merges.
    ignore_merges: bool,
    /// Whether characters that the vocabulary lacks become bytes `<0x…>`.
    byte_fallback: bool,
}

/// Returns the tokenizer of the vocabulary, with the names of its special tokens.
pub(super) fn tokenizer(metadata: &Metadata<'_>) -> Result<Tokenizer> {
    let tokens: Vec<String> = metadata.texts("tokenizer.ggml.tokens")?.into_iter().map(str::to_string).collect();
    if let Some(token) = tokens.iter().find(|token| token.len() > LONGEST_TOKEN) {
        return Err(Error::data(format!("a token of `tokenizer.ggml.tokens` has {} bytes", token.len()))
            .help(format!("fetch the file again: tokens have at most {LONGEST_TOKEN} bytes")));
    }
    let kind = metadata.text("tokenizer.ggml.model")?;
    let gemma = metadata.text("general.architecture")?.starts_with("gemma");
    let (tokens, pipeline, merges) = match kind {
        "gpt2" => (tokens, byte_level(metadata.text("tokenizer.ggml.pre")?)?, merges(metadata)?),
        "llama" if gemma => {
            let tokens: Vec<String> = tokens.into_iter().map(spaces).collect();
            // Gemma's scores do not follow its merges; the order of its tokens does.
            let order: Vec<f32> = (0..tokens.len()).map(|i| -(i as f32)).collect();
            let merges = implied_merges(&tokens, &order);
            (tokens, sentence_piece(None), merges)
        }
        "llama" => {
            let merges = implied_merges(&tokens, &metadata.numbers("tokenizer.ggml.scores")?);
            (tokens, sentence_piece(Some(metadata.flag_or("tokenizer.ggml.add_space_prefix", true)?)), merges)
        }
        other => {
            return Err(Error::invalid(format!("GGUF tokenizers of the kind `{other}` are not supported"))
                .help("use a file with `gpt2` or `llama`, or the model's Hugging Face folder"));
        }
    };
    let unknown = metadata.token("unknown").filter(|_| kind == "llama").and_then(|id| tokens.get(id as usize));
    let json = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added(metadata, &tokens)?,
        "normalizer": pipeline.normalizer,
        "pre_tokenizer": pipeline.pre_tokenizer,
        "post_processor": beginning(metadata, &tokens)?,
        "decoder": pipeline.decoder,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": pipeline.byte_fallback, "byte_fallback": pipeline.byte_fallback,
            "ignore_merges": pipeline.ignore_merges, "merges": merges,
            "vocab": tokens.iter().enumerate().map(|(i, t)| (t.clone(), json!(i))).collect::<Map<_, _>>(),
        },
    });
    let names = [("bos_token", "bos"), ("eos_token", "eos"), ("pad_token", "padding"), ("unk_token", "unknown")];
    let name = |(ours, theirs): (&str, &str)| {
        let token = metadata.token(theirs).and_then(|id| tokens.get(id as usize))?;
        Some((ours.to_string(), json!(token)))
    };
    Ok(Tokenizer::from_json(&json.to_string())?.with_named(names.into_iter().filter_map(name).collect()))
}

/// Returns the pipeline of byte-level pairs, by the name of the pre-tokenizer.
fn byte_level(pre: &str) -> Result<Pipeline> {
    let bytes = |use_regex: bool| {
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
        "use_regex": use_regex})
    };
    let after = |split: Value, use_regex| json!({"type": "Sequence", "pretokenizers": [split, bytes(use_regex)]});
    let words = |digits: &str| {
        let regex = WORDS.replace("DIGITS", digits);
        after(json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false}), false)
    };
    let pipeline = |normalizer, pre_tokenizer, ignore_merges| Pipeline {
        normalizer,
        pre_tokenizer,
        decoder: bytes(true),
        ignore_merges,
        byte_fallback: false,
    };
    match pre {
        "gpt-2" | "gpt2" => Ok(pipeline(Value::Null, bytes(true), false)),
        "smollm" => Ok(pipeline(Value::Null, after(json!({"type": "Digits", "individual_digits": true}), true), false)),
        "llama-bpe" | "llama3" | "llama-v3" => Ok(pipeline(Value::Null, words(r"\p{N}{1,3}"), true)),
        "qwen2" => Ok(pipeline(json!({"type": "NFC"}), words(r"\p{N}"), false)),
        other => Err(Error::invalid(format!("the file's pre-tokenizer `{other}` is not supported"))
            .help("use a file with gpt-2, smollm, llama-bpe or qwen2, or the model's Hugging Face folder")),
    }
}

/// Returns the pipeline of SentencePiece's pairs, which writes spaces as `▁`. With `prefix`, a text's first word gets
/// one too. Gemma has no such option (`None`) and splits at spaces.
fn sentence_piece(prefix: Option<bool>) -> Pipeline {
    let space = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let mut steps = vec![
        json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if prefix == Some(true) {
        steps.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    let scheme = if prefix == Some(true) { "first" } else { "never" };
    let (normalizer, pre_tokenizer) = match prefix {
        None => (
            space,
            json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
            "invert": false}),
        ),
        Some(_) => (
            Value::Null,
            json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme,
            "split": false}),
        ),
    };
    let decoder = json!({"type": "Sequence", "decoders": steps});
    Pipeline { normalizer, pre_tokenizer, decoder, ignore_merges: false, byte_fallback: true }
}

/// Replaces runs of spaces, which Gemma's files contain literally, by runs of `▁`, the form in which they are merged.
fn spaces(token: String) -> String {
    if !token.is_empty() && token.chars().all(|c| c == ' ') { token.replace(' ', "▁") } else { token }
}

fn merges(metadata: &Metadata<'_>) -> Result<Vec<(String, String)>> {
    let pair = |merge: &str| {
        let (left, right) = merge.split_once(' ')?;
        Some((left.to_string(), right.to_string()))
    };
    let merges = metadata.texts("tokenizer.ggml.merges")?;
    merges
        .into_iter()
        .map(pair)
        .collect::<Option<_>>()
        .ok_or_else(|| Error::data("an entry of `tokenizer.ggml.merges` is not a pair").help("fetch the file again"))
}

/// Returns the merges that a vocabulary implies: every token that two others form, in the order of falling scores.
/// Among the pairs that form one token, pairs with a longer left part come first, as in transformers.
fn implied_merges(tokens: &[String], scores: &[f32]) -> Vec<(String, String)> {
    let ids: HashMap<&str, usize> = tokens.iter().enumerate().map(|(i, t)| (t.as_str(), i)).collect();
    let mut merges: Vec<(f32, usize, &str, &str)> = Vec::new();
    for (token, score) in tokens.iter().zip(scores) {
        for (length, (at, _)) in token.char_indices().enumerate().skip(1) {
            let (left, right) = token.split_at(at);
            if ids.contains_key(left) && ids.contains_key(right) {
                merges.push((*score, length, left, right));
            }
        }
    }
    merges.sort_by(|a, b| {
        let right = |m: &(f32, usize, &str, &str)| m.3.chars().count();
        b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)).then_with(|| right(b).cmp(&right(a)))
    });
    merges.into_iter().map(|(_, _, left, right)| (left.to_string(), right.to_string())).collect()
}

/// Returns the tokens that are matched as a whole before the text is split.
fn added(metadata: &Metadata<'_>, tokens: &[String]) -> Result<Vec<Value>> {
    let kinds = match metadata.get("tokenizer.ggml.token_type") {
        Some(_) => metadata.sizes("tokenizer.ggml.token_type")?,
        None => Vec::new(),
    };
    let entry = |(id, (token, kind)): (usize, (&String, &usize))| {
        let special = *kind == CONTROL;
        (special || *kind == USER_DEFINED).then(|| {
            json!({"id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": special})
        })
    };
    Ok(tokens.iter().zip(&kinds).enumerate().filter_map(entry).collect())
}

/// Returns the tokens that other programs add before a text if the file requires them; encoding in this crate adds
/// none.
fn beginning(metadata: &Metadata<'_>, tokens: &[String]) -> Result<Value> {
    let add_bos = metadata.flag_or("tokenizer.ggml.add_bos_token", false)?;
    let begin = metadata.token("bos").and_then(|id| Some((id, tokens.get(id as usize)?)));
    let Some((id, token)) = begin.filter(|_| add_bos) else { return Ok(Value::Null) };
    let mark = |kind: u8| json!({"SpecialToken": {"id": token, "type_id": kind}});
    let text = |name: &str, kind: u8| json!({"Sequence": {"id": name, "type_id": kind}});
    Ok(json!({
        "type": "TemplateProcessing",
        "single": [mark(0), text("A", 0)],
        "pair": [mark(0), text("A", 0), mark(1), text("B", 1)],
        "special_tokens": {token: {"id": token, "ids": [id], "tokens": [token]}},
    }))
}
