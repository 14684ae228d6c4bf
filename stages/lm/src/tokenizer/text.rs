//! Defines [`Tokenizer`], a `tokenizer.json` with its digest.

use super::added::AddedTokens;
use super::growth;
use super::prefix_placement::PrefixPlacement;
use super::special;
use crate::untrusted;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use tokenizers::Tokenizer as Inner;
use trainyard_core::error::io_error;
use trainyard_core::panics::catch_quietly;
use trainyard_core::{Digest, Error, Result};

/// A `tokenizer.json` with its digest.
#[derive(Clone)]
pub struct Tokenizer {
    inner: Inner,
    /// Content of the file.
    json: Value,
    digest: Digest,
    added: AddedTokens,
    /// The supported characters, where the model would silently drop others.
    alphabet: Option<BTreeSet<char>>,
    vocabulary_size: usize,
    prefix_placement: PrefixPlacement,
    /// Other files of its folder, by name.
    config: Map<String, Value>,
    special_map: Map<String, Value>,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokenizer({} tokens, {:?})", self.vocabulary_size(), self.digest)
    }
}

impl Tokenizer {
    /// Reads the text of a `tokenizer.json`. Its truncation, padding and dropout are not applied: with dropout, equal
    /// texts would have different encodings.
    pub fn from_json(text: &str) -> Result<Self> {
        let mut json: Value =
            serde_json::from_str(text).map_err(|e| Error::data(format!("the tokenizer is not valid JSON: {e}")))?;
        growth::expect_bounded(&json)?;
        let text = without_dropout(&mut json).map_or(Cow::Borrowed(text), Cow::Owned);
        let mut inner: Inner = contained("the tokenizer cannot be read", || text.parse::<Inner>())?;
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|e| Error::data(format!("the tokenizer cannot be read: {e}")))?;
        expect_no_panic(&inner)?;
        let added = AddedTokens::new(inner.get_added_tokens_decoder().into_values().map(|t| t.content))?;
        let digest = Digest::of_json(&json)?;
        let vocabulary = inner.get_vocab(true);
        let mut tokenizer = Self {
            alphabet: alphabet(&json, vocabulary.keys()),
            vocabulary_size: vocabulary.into_values().max().map_or(0, |highest| highest as usize + 1),
            inner,
            json,
            digest,
            added,
            prefix_placement: PrefixPlacement::Nowhere,
            config: Map::new(),
            special_map: Map::new(),
        };
        tokenizer.describe();
        tokenizer.prefix_placement = tokenizer.detect_prefix_placement();
        Ok(tokenizer)
    }
    /// Reads `tokenizer.json`, and `tokenizer_config.json` and `special_tokens_map.json` where they exist.
    pub fn load(folder: &Path) -> Result<Self> {
        let path = folder.join("tokenizer.json");
        let Some(text) = untrusted::read_text_if_exists(&path, untrusted::TOKENIZER)? else {
            return Err(Error::invalid(format!("{}: the file does not exist", path.display()))
                .help("save the model with a fast tokenizer (`tokenizer.json`)"));
        };
        let mut tokenizer = Self::from_json(&text).map_err(|e| e.at(path.display()))?;
        if let Some(config) = read_object(&folder.join("tokenizer_config.json"))? {
            tokenizer.config = config;
            tokenizer.config.remove("chat_template");
        }
        if let Some(map) = read_object(&folder.join("special_tokens_map.json"))? {
            tokenizer.special_map = map;
        }
        Ok(tokenizer)
    }
    /// Returns the same tokenizer with names for its special tokens: `bos_token`, `eos_token`, … and their texts.
    pub(crate) fn with_named(mut self, names: Map<String, Value>) -> Self {
        self.config.extend(names.clone());
        self.special_map.extend(names);
        self
    }
    /// Writes `tokenizer.json`, `tokenizer_config.json` (without a chat template) and `special_tokens_map.json`.
    pub fn save(&self, folder: &Path) -> Result<()> {
        write_json(&folder.join("tokenizer.json"), &self.json)?;
        write_json(&folder.join("tokenizer_config.json"), &self.config)?;
        write_json(&folder.join("special_tokens_map.json"), &self.special_map)
    }
    /// Returns the digest of the canonical form of `tokenizer.json`, which identifies the tokenizer in data and models.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }
    /// Returns one more than the highest id: the minimum rows of a model's embedding.
    pub fn vocabulary_size(&self) -> usize {
        self.vocabulary_size
    }
    /// Returns the ids below `rows` without a token, as ascending ranges.
    pub fn unused(&self, rows: usize) -> Vec<Range<u32>> {
        let mut ranges: Vec<Range<u32>> = Vec::new();
        for id in (0..rows as u32).filter(|id| self.inner.id_to_token(*id).is_none()) {
            match ranges.last_mut() {
                Some(last) if last.end == id => last.end += 1,
                _ => ranges.push(id..id + 1),
            }
        }
        ranges
    }
    /// Returns the id of a whole token, or `None` if the vocabulary lacks it.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }
    /// Returns the text of a token as the vocabulary writes it (byte-level tokens are not decoded), or `None` for
    /// unknown ids.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }
    /// Returns whether a token is matched as a whole before the text is split (`<|end|>`, `<tool_call>`).
    pub fn is_added(&self, id: u32) -> bool {
        self.token(id).is_some_and(|t| self.added.contains(&t))
    }
    /// Returns the `pad_token` of the tokenizer's config.
    pub fn pad_token(&self) -> Option<u32> {
        self.named("pad_token")
    }
    /// Returns the `eos_token` of the tokenizer's config.
    pub fn end_token(&self) -> Option<u32> {
        self.named("eos_token")
    }

    /// Encodes a text literally: added tokens in the text become those tokens, and no token is added.
    ///
    /// Errors (kind data): a character that the vocabulary cannot express; the message shows the character and its
    /// position.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        if let Some(alphabet) = &self.alphabet
            && let Some((at, _)) = text.char_indices().find(|(_, c)| !alphabet.contains(c))
        {
            return Err(unknown(text, at));
        }
        let encoding = contained("text cannot be encoded", || self.inner.encode(text, false))?;
        self.check_coverage(text, &encoding)?;
        Ok(encoding.get_ids().to_vec())
    }
    /// Encodes external text: added tokens written in it become ordinary characters, so a tool's output cannot close a
    /// message or open a role.
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>> {
        self.encode_plain_next("", text)
    }
    /// Returns the positions at which the tokenizer adds a prefix to the text that it encodes.
    pub fn prefix_placement(&self) -> PrefixPlacement {
        self.prefix_placement
    }
    /// Returns whether the text contains an added token.
    pub fn has_markup(&self, text: &str) -> bool {
        self.first_added(text).is_some()
    }
    /// Returns the text of tokens, with special tokens written out. Bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        if let Some(bad) = ids.iter().find(|&&id| self.inner.id_to_token(id).is_none()) {
            return Err(Error::data(format!(
                "token {bad} is not in the tokenizer of {} tokens",
                self.vocabulary_size()
            )));
        }
        contained("tokens cannot be decoded", || self.inner.decode(ids, false))
    }
    /// Returns the text with every character that the vocabulary cannot express written as `\uXXXX`.
    pub fn escape<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.encode_plain(text).is_ok() {
            return Cow::Borrowed(text);
        }
        let mut escaped = String::new();
        for c in text.chars() {
            if self.encode_plain(c.encode_utf8(&mut [0; 4])).is_ok() {
                escaped.push(c)
            } else {
                escaped.push_str(&format!("\\u{:04x}", c as u32))
            }
        }
        Cow::Owned(escaped)
    }

    /// Returns `bos_token`, `eos_token`, … of the tokenizer's config, by name.
    pub fn named_tokens(&self) -> Vec<(String, String)> {
        let names = ["bos_token", "eos_token", "pad_token", "unk_token"];
        let id = |name: &str| self.named(name).and_then(|id| self.token(id));
        names.into_iter().filter_map(|name| Some((name.to_string(), id(name)?))).collect()
    }
    /// Returns the types of the steps that join tokens to text.
    pub(crate) fn decoder_kinds(&self) -> Vec<String> {
        let decoder = &self.json["decoder"];
        let steps = decoder["decoders"].as_array().map_or(std::slice::from_ref(decoder), Vec::as_slice);
        steps.iter().filter_map(|step| Some(step["type"].as_str()?.to_string())).collect()
    }
    /// Returns the contents of all added tokens, the longest first.
    pub(super) fn added_contents(&self) -> &[String] {
        self.added.contents()
    }
    /// Returns the byte position and the text of the first added token in a text, or `None` if the text contains no
    /// added token.
    pub(crate) fn first_added(&self, text: &str) -> Option<(usize, &str)> {
        self.added.first_in(text)
    }
    /// Checks that every character belongs to a token, except white space that a pre-tokenizer drops on purpose.
    /// Errors: data, naming the character and its position.
    fn check_coverage(&self, text: &str, encoding: &tokenizers::Encoding) -> Result<()> {
        let unknown_token = self.json["model"]["unk_token"].as_str().and_then(|t| self.token_id(t));
        let mut covered = 0;
        for (&id, &(start, end)) in encoding.get_ids().iter().zip(encoding.get_offsets()) {
            if start > covered && !is_blank(text, covered, start) {
                return Err(unknown(text, covered));
            }
            if Some(id) == unknown_token {
                return Err(unknown(text, start));
            }
            covered = covered.max(end);
        }
        if is_blank(text, covered, text.len()) { Ok(()) } else { Err(unknown(text, covered)) }
    }
    fn named(&self, key: &str) -> Option<u32> {
        let value = self.config.get(key).or_else(|| self.special_map.get(key))?;
        let content = value.as_str().or_else(|| value["content"].as_str())?;
        self.token_id(content)
    }
    /// Sets the companion files of a new tokenizer.
    fn describe(&mut self) {
        let end = [special::END, special::CHATML[1]].into_iter().find(|t| self.token_id(t).is_some());
        let pad = Some(special::PAD).filter(|t| self.token_id(t).is_some());
        let others: Vec<&String> =
            self.added.contents().iter().filter(|t| Some(t.as_str()) != end && Some(t.as_str()) != pad).collect();
        let mut map = Map::new();
        for (key, token) in [("eos_token", end), ("pad_token", pad)] {
            if let Some(token) = token {
                map.insert(key.to_string(), json!(token));
            }
        }
        let mut config = map.clone();
        config.insert("tokenizer_class".to_string(), json!("PreTrainedTokenizerFast"));
        config.insert("clean_up_tokenization_spaces".to_string(), json!(false));
        config.insert("additional_special_tokens".to_string(), json!(others));
        map.insert("additional_special_tokens".to_string(), json!(others));
        self.config = config;
        self.special_map = map;
    }
}

/// Removes the dropout of a model of merges. Returns the text without it, or `None` if the model has no dropout.
fn without_dropout(json: &mut Value) -> Option<String> {
    let dropout = json.get_mut("model")?.get_mut("dropout").filter(|dropout| !dropout.is_null())?;
    *dropout = Value::Null;
    Some(json.to_string())
}

/// Returns the alphabet of a byte-pair model that has neither bytes nor an unknown token to fall back on, or `None` for
/// other models.
fn alphabet<'v>(json: &Value, vocabulary: impl Iterator<Item = &'v String>) -> Option<BTreeSet<char>> {
    let model = &json["model"];
    let drops = model["type"] == "BPE" && model["unk_token"].is_null() && model["byte_fallback"] != true;
    if !drops || !json["pre_tokenizer"].is_null() || !json["normalizer"].is_null() {
        return None;
    }
    let single = |token: &String| {
        let mut chars = token.chars();
        chars.next().filter(|_| chars.next().is_none())
    };
    Some(vocabulary.filter_map(single).collect())
}

fn is_blank(text: &str, start: usize, end: usize) -> bool {
    text.get(start..end).is_some_and(|t| t.trim().is_empty())
}

fn unknown(text: &str, at: usize) -> Error {
    let at = text.floor_char_boundary(at);
    let c = text[at..].chars().next().unwrap_or('?');
    let line = text[..at].matches('\n').count() + 1;
    Error::data(format!(
        "the tokenizer cannot express `{}` (U+{:04X}, line {line} of the text)",
        c.escape_debug(),
        c as u32
    ))
    .help("build the tokenizer on a corpus that contains it, or use `kind: bpe`, which encodes every byte")
}

/// Reason of an error for a panic of the library.
const DAMAGED: &str = "a table of the tokenizer is damaged";

/// Encodes a text that every normalizer changes or looks up. Errors: data, if the library panics.
fn expect_no_panic(inner: &Inner) -> Result<()> {
    // A model may lack these characters, which is no damage.
    catch_quietly(|| inner.encode("a \u{e9}\n", false).is_ok()).map(|_| ()).map_err(|_| {
        Error::data(format!("the tokenizer cannot be read: {DAMAGED}"))
            .help("fetch the tokenizer.json again from its publisher")
    })
}

/// Calls a function of the library, which panics on some tables of a `tokenizer.json` (`precompiled_charsmap`). Errors:
/// data, if it fails or panics.
fn contained<T, E: std::fmt::Display>(failed: &str, call: impl FnOnce() -> Result<T, E>) -> Result<T> {
    let reason = match catch_quietly(call) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(e)) => e.to_string(),
        Err(_) => DAMAGED.to_string(),
    };
    Err(Error::data(format!("{failed}: {reason}")).help("fetch the tokenizer.json again from its publisher"))
}

fn read_object(path: &Path) -> Result<Option<Map<String, Value>>> {
    let Some(text) = untrusted::read_text_if_exists(path, untrusted::OPTIONS)? else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|e| Error::data(format!("{}: {e}", path.display())))
}

fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value).map_err(|e| Error::bug(format!("{}: {e}", path.display())))?;
    text.push('\n');
    std::fs::write(path, text).map_err(|e| io_error(path, &e))
}
