//! Decodes tokens incrementally. A token may end within a character, which a later token completes.

use trainyard_core::Result;
use trainyard_lm::tokenizer::Tokenizer;

/// Tokens after which an incomplete character is returned as U+FFFD.
const MAX_PENDING_TOKENS: usize = 8;

/// Decoder of a sequence of tokens. The texts of neighboring tokens may depend on each other (spaces, bytes), so each
/// token is decoded together with the previous ones.
#[derive(Debug, Default)]
pub struct TokenDecoder {
    window: Vec<u32>,
    /// Tokens of the window whose text was already returned.
    emitted: usize,
}

impl TokenDecoder {
    /// Returns the text that this token completes.
    pub fn push(&mut self, tokenizer: &Tokenizer, token: u32) -> Result<String> {
        self.window.push(token);
        let decoded = tokenizer.decode(&self.window)?;
        if decoded.ends_with('\u{fffd}') && self.window.len() - self.emitted < MAX_PENDING_TOKENS {
            return Ok(String::new());
        }
        self.emit(tokenizer, &decoded)
    }
    /// Returns the text of the remaining tokens.
    pub fn end(&mut self, tokenizer: &Tokenizer) -> Result<String> {
        if self.emitted == self.window.len() {
            return Ok(String::new());
        }
        let decoded = tokenizer.decode(&self.window)?;
        self.emit(tokenizer, &decoded)
    }
    fn emit(&mut self, tokenizer: &Tokenizer, decoded: &str) -> Result<String> {
        let before = tokenizer.decode(&self.window[..self.emitted])?;
        let shared = before.bytes().zip(decoded.bytes()).take_while(|(a, b)| a == b).count();
        let text = decoded[decoded.floor_char_boundary(shared)..].to_string();
        self.window.drain(..self.emitted);
        self.emitted = self.window.len();
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_lm::tokenizer::train_bpe;

    #[test]
    fn characters_are_never_split() {
        let tokenizer = train_bpe(["the cat sat on the mat, the cat ran"], 280, &["<|end|>"]).unwrap();
        for text in ["the cat sat", "naïve ☃ 漢字 🙂!", "<|end|>x", "  a  b\n\n"] {
            let ids = tokenizer.encode(text).unwrap();
            let mut pieces = TokenDecoder::default();
            let mut all = String::new();
            for id in &ids {
                let piece = pieces.push(&tokenizer, *id).unwrap();
                assert!(!piece.contains('\u{fffd}'), "{text}: {piece}");
                all += &piece;
            }
            assert_eq!(all + &pieces.end(&tokenizer).unwrap(), text);
        }
        let half = tokenizer.encode("☃").unwrap();
        assert!(half.len() > 1, "a character of several tokens");
        let mut pieces = TokenDecoder::default();
        assert_eq!(pieces.push(&tokenizer, half[0]).unwrap(), "");
        assert_eq!(pieces.end(&tokenizer).unwrap(), "\u{fffd}", "an incomplete character is returned at the end");
    }
}
