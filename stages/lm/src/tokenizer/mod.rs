//! Loads, builds and applies tokenizers in Hugging Face's `tokenizer.json` format.
//!
//! Data carries token ids, so the digest of its canonical JSON identifies a tokenizer, and the tokenizer is stored with
//! the model. Encoding adds no token (no BOS, no EOS) and never drops text: text that the vocabulary cannot express is
//! an error.

mod added;
mod bpe;
mod characters;
mod growth;
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
