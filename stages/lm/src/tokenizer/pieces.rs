//! Encodes a text in pieces with the same tokens as the whole text.
//!
//! Tokenizers of the SentencePiece kind add a space before the encoded text: Llama 2 before every stretch between added
//! tokens, others before the text alone. A piece in the middle of a text must not get such a space. `tokenizer.json`
//! does not state the behavior, so [`Tokenizer`] determines it by encoding.

use super::prefix_placement::PrefixPlacement;
use super::text::Tokenizer;
use trainyard_core::{Error, Result};

/// Texts that are encoded before a piece and whose tokens are removed again.
const ANCHORS: [&str; 3] = ["\n", "a", "="];

impl Tokenizer {
    /// Encodes a piece that follows `before` in a text.
    ///
    /// Errors: those of [`Tokenizer::encode`]; a piece whose tokens cannot be separated from the tokens of the text
    /// before it.
    pub fn encode_next(&self, before: &str, piece: &str) -> Result<Vec<u32>> {
        let begins = match self.prefix_placement() {
            PrefixPlacement::Nowhere => true,
            PrefixPlacement::Text => before.is_empty(),
            PrefixPlacement::Segment => before.is_empty() || self.ends_with_added(before),
        };
        if begins || piece.is_empty() {
            return self.encode(piece);
        }
        for anchor in ANCHORS {
            let (alone, joined) = (self.encode(anchor)?, self.encode(&format!("{anchor}{piece}"))?);
            if let Some(ids) = joined.strip_prefix(alone.as_slice()) {
                return Ok(ids.to_vec());
            }
        }
        Err(Error::data("the tokenizer cannot encode this text in pieces")
            .help("use a model whose tokenizer does not merge words with the text before them"))
    }
    /// Encodes external text that follows `before`: added tokens in the text become ordinary characters.
    pub fn encode_plain_next(&self, before: &str, text: &str) -> Result<Vec<u32>> {
        let (mut ids, mut done) = (Vec::new(), 0);
        while let Some((start, token)) = self.first_added(&text[done..]) {
            // The text is split inside the added token, so that neither part contains it.
            let cut = done + start + token.chars().next().map_or(1, char::len_utf8);
            ids.extend(self.encode_next(&format!("{before}{}", &text[..done]), &text[done..cut])?);
            done = cut;
        }
        ids.extend(self.encode_next(&format!("{before}{}", &text[..done]), &text[done..])?);
        Ok(ids)
    }
    /// Determines by encoding the value that [`Self::prefix_placement`] returns.
    pub(super) fn detect_prefix_placement(&self) -> PrefixPlacement {
        let encode = |text: &str| self.encode(text).ok();
        let (Some(anchor), Some(alone), Some(joined)) = (encode("\n"), encode("b"), encode("\nb")) else {
            return PrefixPlacement::Nowhere;
        };
        match joined.strip_prefix(anchor.as_slice()) {
            None => return PrefixPlacement::Nowhere,
            Some(tail) if tail == alone => return PrefixPlacement::Nowhere,
            Some(_) => {}
        }
        let after = |token: &String| {
            let joined = encode(&format!("{token}b"))?;
            Some(joined.strip_prefix(encode(token)?.as_slice())? == alone.as_slice())
        };
        if self.added_contents().iter().find_map(after).unwrap_or(false) {
            PrefixPlacement::Segment
        } else {
            PrefixPlacement::Text
        }
    }
    fn ends_with_added(&self, text: &str) -> bool {
        self.added_contents().iter().any(|token| text.ends_with(token.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Returns a byte-pair tokenizer of a few words with U+2581 for a space, as those of Llama 2 and TinyLlama.
    fn sentence_piece(normalizer: Value, pre_tokenizer: Value) -> Tokenizer {
        let tokens = "<unk> <s> </s> ▁ a b c . ▁a ▁b ab ▁ab = < / s >".split(' ').chain(["\n"]);
        let vocabulary: Value = tokens
            .enumerate()
            .map(|(id, token)| (token.to_string(), json!(id)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let added = |id: u32, content: &str| {
            json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true})
        };
        let tokenizer = json!({
            "version": "1.0", "truncation": null, "padding": null,
            "added_tokens": [added(0, "<unk>"), added(1, "<s>"), added(2, "</s>")],
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": null,
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ]},
            "model": {
                "type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": false, "ignore_merges": false,
                "vocab": vocabulary, "merges": [["▁", "a"], ["▁", "b"], ["a", "b"], ["▁", "ab"], ["▁a", "b"]],
            },
        });
        Tokenizer::from_json(&tokenizer.to_string()).unwrap()
    }
    fn llama2() -> Tokenizer {
        let space = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
        let normalizer = json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, space]});
        sentence_piece(normalizer, Value::Null)
    }
    fn first_alone() -> Tokenizer {
        let scheme = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false});
        sentence_piece(Value::Null, scheme)
    }

    #[test]
    fn pieces_are_encoded_as_the_whole_is() {
        assert_eq!(
            (llama2().prefix_placement(), first_alone().prefix_placement()),
            (PrefixPlacement::Segment, PrefixPlacement::Text)
        );
        let text = "<s>ab\nb a</s>ba ab=b.</s>a";
        for tokenizer in [llama2(), first_alone()] {
            let whole = tokenizer.encode(text).unwrap();
            for cut in ["<s>".len(), "<s>ab\n".len(), "<s>ab\nb a</s>".len(), "<s>ab\nb a</s>ba ab=".len()] {
                let mut pieces = tokenizer.encode(&text[..cut]).unwrap();
                pieces.extend(tokenizer.encode_next(&text[..cut], &text[cut..]).unwrap());
                assert_eq!(pieces, whole, "cut at {cut}");
            }
            let naive = [tokenizer.encode("<s>ab\n").unwrap(), tokenizer.encode(&text["<s>ab\n".len()..]).unwrap()];
            assert_ne!(naive.concat(), whole);
        }
    }

    #[test]
    fn plain_text_gets_no_space_where_it_is_cut() {
        let tokenizer = llama2();
        let ids = tokenizer.encode_plain_next("<s>ab\n", "a</s>b").unwrap();
        assert!(!ids.contains(&2));
        let tokens: Vec<String> = ids.iter().map(|id| tokenizer.token(*id).unwrap()).collect();
        assert_eq!(tokens.concat(), "a</s>b");
    }
}
