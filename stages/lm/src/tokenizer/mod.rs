//! Tokenizers in the `tokenizer.json` format of Hugging Face: loading, building, encoding, decoding, digests.
//!
//! Why so: the data carries token ids, so a tokenizer is identified by the digest of its canonical JSON and travels with the
//! model. Encoding adds no token of its own (no BOS, no EOS). Refuses: text that the vocabulary cannot express (never a silent
//! loss), ids outside the vocabulary.

mod bpe;
mod characters;
pub mod special;
#[cfg(test)]
mod tests;
mod text;

pub use bpe::train_bpe;
pub use characters::character_tokenizer;
pub use text::Tokenizer;
