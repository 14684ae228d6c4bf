//! Defines the options of saved weights: the type of their numbers and the size of the files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::OptionProblem;
use trainyard_core::units::parse_size;

/// Number type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum SavedType {
    /// Single precision: as computed.
    #[default]
    F32,
    /// Rounded to bfloat16, which halves the files.
    Bf16,
}

impl SavedType {
    /// Returns the name in `config.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::Bf16 => "bfloat16",
        }
    }
    /// Returns the bytes of a number.
    pub(super) fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }
}

/// Format of the weights of the model that a stage publishes. Resume points are float32, and so are the tensors of an
/// adapter; its base keeps the files that it was read from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SaveOptions {
    /// Number type: `f32`, or `bf16`, which halves the files and rounds every number to 8 significant bits.
    pub dtype: SavedType,
    /// Maximum size of a file, such as `2GB`: several files and an index, as transformers writes them; null = one file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard_size: Option<String>,
}

impl SaveOptions {
    /// Returns whether all options are unset, in which case they are left out of a config and its digest.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
    /// Returns all problems of the options; `at` is their pointer in the config.
    pub fn problems(&self, at: &str) -> Vec<OptionProblem> {
        let problem = |message: String| OptionProblem::new(format!("{at}/shard_size"), message);
        match self.shard_size.as_deref().map(parse_size) {
            Some(Err(why)) => vec![problem(why)],
            Some(Ok(0)) => vec![problem("a file needs at least 1 byte".into()).help("use a size such as `2GB`")],
            _ => Vec::new(),
        }
    }
    /// Returns the maximum bytes of numbers in one file.
    pub(super) fn shard_bytes(&self) -> usize {
        let bytes = self.shard_size.as_deref().and_then(|text| parse_size(text).ok());
        bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX)
    }
}

/// Returns the bits of the nearest bfloat16, halves to even.
pub(super) fn bf16_bits(x: f32) -> u16 {
    half::bf16::from_f32(x).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_the_nearest_and_halves_to_even() {
        // The spacing of bfloat16 between 1 and 2 is 2⁻⁷.
        let step = 0.5f32.powi(7);
        let rounded = |x: f32| f32::from_bits(u32::from(bf16_bits(x)) << 16);
        for (x, expected) in [
            (1.0, 1.0),
            (-1.0 - step, -1.0 - step),
            (1.0 + 0.4 * step, 1.0),
            (1.0 + 0.6 * step, 1.0 + step),
            (1.0 + 0.5 * step, 1.0),
            (1.0 + 1.5 * step, 1.0 + 2.0 * step),
            (0.0, 0.0),
            (f32::MIN_POSITIVE, f32::MIN_POSITIVE),
        ] {
            assert_eq!(rounded(x), expected, "{x}");
        }
        assert!(rounded(-0.0).is_sign_negative());
        assert_eq!(rounded(f32::MAX), f32::INFINITY, "above the largest bfloat16");
    }

    #[test]
    fn invalid_shard_size_is_reported() {
        let of = |size: &str| SaveOptions { shard_size: Some(size.into()), ..SaveOptions::default() };
        assert_eq!(of("2GB").problems("/save"), []);
        assert_eq!(of("2GB").shard_bytes(), 2_000_000_000);
        for wrong in ["much", "0"] {
            assert_eq!(of(wrong).problems("/save")[0].pointer, "/save/shard_size", "{wrong}");
        }
        assert_eq!(SaveOptions::default().shard_bytes(), usize::MAX);
    }
}
