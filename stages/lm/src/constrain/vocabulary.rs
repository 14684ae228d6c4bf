//! Returns the bytes that each token of a tokenizer writes.

use crate::tokenizer::Tokenizer;
use std::collections::{BTreeMap, HashSet};
use trainyard_core::{Error, Result};

/// The bytes of a tokenizer's tokens.
#[derive(Debug)]
pub struct TokenBytes {
    /// Ordinary tokens, sorted by their bytes.
    pub(super) sorted: Vec<SortedToken>,
    /// Added tokens, such as `<tool_call>`, which free text does not contain.
    pub(super) added: Vec<(u32, Vec<u8>)>,
    by_id: BTreeMap<u32, Vec<u8>>,
    /// Bytes of the ordinary tokens that are no longer than a character.
    short: HashSet<Vec<u8>>,
}

/// A token with the bytes that it shares with the one before it.
#[derive(Debug)]
pub(super) struct SortedToken {
    pub bytes: Vec<u8>,
    pub shared: usize,
    pub id: u32,
}

/// Notation of bytes in a vocabulary.
#[derive(Debug, Clone, Copy)]
enum Notation {
    /// One character of GPT-2's alphabet for each byte.
    ByteLevel,
    /// Text, with `▁` for a space if the flag is set, and `<0x0A>` for a byte.
    Text { spaces: bool },
}

impl TokenBytes {
    /// Reads the vocabulary of a tokenizer. Errors: invalid, for a tokenizer whose tokens are no parts of texts.
    pub fn new(tokenizer: &Tokenizer) -> Result<Self> {
        let notation = notation(tokenizer)?;
        let alphabet = byte_alphabet();
        let (mut ordinary, mut added) = (Vec::new(), Vec::new());
        for id in 0..tokenizer.vocabulary_size() as u32 {
            let Some(token) = tokenizer.token(id) else { continue };
            if tokenizer.is_added(id) {
                added.push((id, token.into_bytes()));
            } else if let Some(bytes) = bytes(&token, notation, &alphabet).filter(|bytes| !bytes.is_empty()) {
                ordinary.push((bytes, id));
            }
        }
        ordinary.sort();
        let by_id = ordinary.iter().map(|(bytes, id)| (*id, bytes.clone())).chain(added.iter().cloned()).collect();
        let short = ordinary.iter().map(|(bytes, _)| bytes).filter(|bytes| bytes.len() <= 4).cloned().collect();
        let mut sorted: Vec<SortedToken> = Vec::with_capacity(ordinary.len());
        for (bytes, id) in ordinary {
            let before = sorted.last().map_or(&[][..], |token| token.bytes.as_slice());
            let shared = before.iter().zip(&bytes).take_while(|(a, b)| a == b).count();
            sorted.push(SortedToken { bytes, shared, id });
        }
        Ok(Self { sorted, added, by_id, short })
    }
    /// Returns the bytes of a token, or `None` if it writes none.
    pub fn of(&self, id: u32) -> Option<&[u8]> {
        self.by_id.get(&id).map(Vec::as_slice)
    }
    /// Checks that every text can be written. Errors: invalid, with the first character that no token writes.
    pub(super) fn expect_writable<'t>(&self, texts: impl Iterator<Item = &'t [u8]>) -> Result<()> {
        for text in texts {
            if self.added.iter().any(|(_, added)| added == text) {
                continue;
            }
            for character in String::from_utf8_lossy(text).chars() {
                let mut buffer = [0; 4];
                let bytes = character.encode_utf8(&mut buffer).as_bytes();
                if !self.short.contains(bytes) && !bytes.iter().all(|byte| self.short.contains(&[*byte][..])) {
                    let message = format!("the model's tokenizer cannot write `{}`", character.escape_debug());
                    return Err(Error::invalid(message).help("use names and values that its vocabulary contains"));
                }
            }
        }
        Ok(())
    }
}

/// Returns the notation of a tokenizer from its decoder. Errors: invalid, for a decoder that joins tokens otherwise.
fn notation(tokenizer: &Tokenizer) -> Result<Notation> {
    let kinds = tokenizer.decoder_kinds();
    let has = |kind: &str| kinds.iter().any(|found| found == kind);
    if has("ByteLevel") {
        return Ok(Notation::ByteLevel);
    }
    if let Some(other) = kinds.iter().find(|kind| ["WordPiece", "BPEDecoder", "CTC"].contains(&kind.as_str())) {
        return Err(Error::invalid(format!(
            "output of a given form does not support tokenizers with the decoder {other}"
        ))
        .help("use a model with a byte-level tokenizer or one of the SentencePiece kind"));
    }
    Ok(Notation::Text { spaces: has("Replace") || has("Metaspace") })
}

fn bytes(token: &str, notation: Notation, alphabet: &BTreeMap<char, u8>) -> Option<Vec<u8>> {
    match notation {
        Notation::ByteLevel => token.chars().map(|c| alphabet.get(&c).copied()).collect(),
        Notation::Text { spaces } => {
            let code = token.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
            if let Some(byte) = code.filter(|code| code.len() == 2).and_then(|code| u8::from_str_radix(code, 16).ok()) {
                return Some(vec![byte]);
            }
            Some(if spaces { token.replace('▁', " ").into_bytes() } else { token.as_bytes().to_vec() })
        }
    }
}

/// Returns GPT-2's alphabet: bytes that print are written as themselves, the others as characters from U+0100 on.
fn byte_alphabet() -> BTreeMap<char, u8> {
    let mut alphabet = BTreeMap::new();
    let mut next = 0x100;
    for byte in 0..=u8::MAX {
        let prints = matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
        let character = if prints { Some(char::from(byte)) } else { char::from_u32(next) };
        next += u32::from(!prints);
        alphabet.extend(character.map(|character| (character, byte)));
    }
    alphabet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::{character_tokenizer, train_bpe};

    #[test]
    fn bytes_of_tokens_are_those_of_the_text() {
        let bpe = train_bpe(["the cat sat on the mat, the cat ran"], 280, &["<|end|>"]).unwrap();
        let characters = character_tokenizer(["é☃"], &["<|end|>"]).unwrap();
        for (tokenizer, text) in [(&bpe, "the cat ☃ é\n<|end|>{\"a\": 1}"), (&characters, "é ☃\n<|end|>{}")] {
            let vocabulary = TokenBytes::new(tokenizer).unwrap();
            let ids = tokenizer.encode(text).unwrap();
            let bytes: Vec<u8> = ids.iter().flat_map(|id| vocabulary.of(*id).unwrap().to_vec()).collect();
            assert_eq!(String::from_utf8(bytes).unwrap(), text);
            assert_eq!(vocabulary.added.len(), 1);
        }
    }

    #[test]
    fn characters_without_token_are_named() {
        let vocabulary = TokenBytes::new(&character_tokenizer(["é"], &["<|end|>"]).unwrap()).unwrap();
        assert!(vocabulary.expect_writable([&b"{\"a\":"[..], "é".as_bytes(), b"<|end|>"].into_iter()).is_ok());
        let error = vocabulary.expect_writable(["☃".as_bytes()].into_iter()).unwrap_err();
        assert!(error.to_string().contains('☃'), "{error}");
    }
}
