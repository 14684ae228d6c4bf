//! Computes content digests: SHA-256 in lower-case hexadecimal. Structured data is hashed as canonical JSON (RFC 8785),
//! so a digest does not depend on the order of keys, the spelling of numbers or white space.

use crate::canonical::canonical_json;
use crate::error::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;

/// A SHA-256 digest as 64 lower-case hexadecimal characters, shared by all copies: a stage's digest occurs in its plan,
/// its events and its manifest, and a run may have 100,000 stages.
///
/// ```
/// use trainyard_core::Digest;
///
/// let digest = Digest::of(b"");
/// assert_eq!(digest.short(), "e3b0c44298fc");
/// assert_eq!(Digest::try_from(digest.to_string()), Ok(digest));
///
/// let (a, b) = (serde_json::json!({"x": 1.0, "y": 2}), serde_json::json!({"y": 2, "x": 1}));
/// assert_eq!(Digest::of_json(&a), Digest::of_json(&b), "neither order nor spelling matters");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(into = "String")]
pub struct Digest(Arc<str>);

impl Digest {
    /// Computes the digest of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(hex::encode(Sha256::digest(bytes)).into())
    }
    /// Computes the digest of a value's canonical JSON. Errors: those of [`canonical_json`].
    pub fn of_json(value: &impl Serialize) -> Result<Self> {
        Ok(Self::of(&canonical_json(value)?))
    }
    /// Returns all 64 characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// Returns the first two characters: the digest's folder in the store.
    pub fn shard(&self) -> &str {
        &self.0[..2]
    }
    /// Returns the first twelve characters, for messages.
    pub fn short(&self) -> &str {
        &self.0[..12]
    }
}

impl TryFrom<String> for Digest {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let valid = text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if valid {
            Ok(Self(text.into()))
        } else {
            Err(format!("`{text}` is not a SHA-256 digest: expected 64 characters 0-9a-f"))
        }
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0.as_ref().to_string()
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short())
    }
}

/// Incremental digest, for files larger than memory.
#[derive(Default, Clone)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Creates a hasher without input.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
    /// Returns the digest of all bytes given.
    pub fn finish(self) -> Digest {
        Digest(hex::encode(self.0.finalize()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_empty_string_has_the_published_digest() {
        assert_eq!(Digest::of(b"").as_str(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }

    #[test]
    fn key_order_and_number_spelling_do_not_matter() {
        let a = json!({"b": 1.0, "a": [1e2, 0.1]});
        let b: serde_json::Value = serde_json::from_str(r#"{ "a":[100, 1e-1], "b":1 }"#).unwrap();
        assert_eq!(canonical_json(&a).unwrap(), canonical_json(&b).unwrap());
        assert_eq!(canonical_json(&a).unwrap(), br#"{"a":[100,0.1],"b":1}"#);
    }

    #[test]
    fn a_digest_parses_only_from_64_hex_characters() {
        assert!(Digest::try_from("E3".to_string()).is_err());
        assert!(Digest::try_from("a".repeat(64)).is_ok());
        assert!(Digest::try_from("g".repeat(64)).is_err());
    }
}
