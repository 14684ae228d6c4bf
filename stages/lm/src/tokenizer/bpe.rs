//! Trains a byte-level byte-pair tokenizer (arXiv 1508.07909; bytes as in GPT-2).
//!
//! Digits are separated before merging, so that numbers are encoded alike at any length. The alphabet contains all 256
//! bytes, so no text is unknown. The result depends on the corpus only, because the trainer counts pairs exactly and
//! breaks ties by the pair.

use super::text::Tokenizer;
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::{AddedToken, TokenizerBuilder};
use trainyard_core::{Error, Result};

/// Trains a tokenizer of at most `vocabulary_size` tokens, including special tokens and the 256 bytes.
///
/// Errors (kind invalid): a vocabulary without room for a single merge, an empty corpus.
pub fn train_bpe<'t>(
    corpus: impl IntoIterator<Item = &'t str>,
    vocabulary_size: usize,
    special: &[&str],
) -> Result<Tokenizer> {
    let least = 256 + special.len();
    if vocabulary_size <= least {
        return Err(Error::invalid(format!("a vocabulary of {vocabulary_size} tokens has no room for merges")).help(
            format!("bytes and special tokens take {least}: use a larger `vocabulary_size`, or `kind: characters`"),
        ));
    }
    let texts: Vec<String> = corpus.into_iter().flat_map(|t| between(t, special)).collect();
    if texts.is_empty() {
        return Err(Error::invalid("the corpus to train a tokenizer on is empty").help("wire the input `corpus`"));
    }
    train(texts, vocabulary_size, special).map_err(|e| Error::bug(format!("training the tokenizer: {e}")))
}

/// Returns the text between special tokens. Special tokens are tokens already and must not contribute to the merges.
fn between(text: &str, special: &[&str]) -> Vec<String> {
    let mut parts = vec![text.to_string()];
    for token in special {
        parts = parts.iter().flat_map(|p| p.split(token)).map(str::to_string).collect();
    }
    parts.retain(|p| !p.is_empty());
    parts
}

fn train(
    texts: Vec<String>,
    vocabulary_size: usize,
    special: &[&str],
) -> Result<Tokenizer, Box<dyn std::error::Error + Send + Sync>> {
    let bytes = ByteLevel::new(false, true, true);
    let steps = vec![PreTokenizerWrapper::Digits(Digits::new(true)), PreTokenizerWrapper::ByteLevel(bytes)];
    let mut tokenizer = TokenizerBuilder::new()
        .with_model(BPE::default())
        .with_normalizer(None::<tokenizers::NormalizerWrapper>)
        .with_pre_tokenizer(Some(Sequence::new(steps)))
        .with_post_processor(None::<tokenizers::PostProcessorWrapper>)
        .with_decoder(Some(bytes))
        .build()?;
    let mut trainer = BpeTrainerBuilder::new()
        .show_progress(false)
        .vocab_size(vocabulary_size)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .special_tokens(special.iter().map(|t| AddedToken::from(*t, true)).collect())
        .build();
    tokenizer.train(&mut trainer, texts.into_iter())?;
    let json = tokenizer.to_string(false)?;
    Tokenizer::from_json(&json).map_err(Into::into)
}
