//! Tokenizers in Hugging Face's `tokenizer.json` format: loading, building, encoding, decoding, digests.
//!
//! Data carries token ids, so a tokenizer is identified by the digest of its canonical JSON and is stored with the
//! model. Encoding adds no token (no BOS, no EOS) and never drops text: text that the vocabulary cannot express is an
//! error.

mod bpe;
mod characters;
mod pieces;
mod prefix_placement;
pub mod special;
#[cfg(test)]
mod tests;
mod text;

pub use bpe::train_bpe;
pub use characters::character_tokenizer;
pub use prefix_placement::PrefixPlacement;
pub use text::Tokenizer;
