//! Computes XXH64 and XXH3, the non-cryptographic hashes of shingles and rows (specification: xxHash fast digest
//! algorithm, version 0.1.1).
//!
//! The hashes enter artifacts, so tests compare the implementation with published vectors. Content digests are SHA-256,
//! in `trainyard_core`.

use twox_hash::{XxHash3_128, XxHash64};

/// Returns the XXH64 of `bytes` under `seed`.
pub fn xxh64(bytes: &[u8], seed: u64) -> u64 {
    XxHash64::oneshot(seed, bytes)
}

/// Returns XXH3 of 128 bits.
pub fn xxh3_128(bytes: &[u8], seed: u64) -> u128 {
    XxHash3_128::oneshot_with_seed(seed, bytes)
}

/// Applies the final mix of XXH64: a bijection that spreads every input bit over the output.
pub fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    hash = (hash ^ (hash >> 29)).wrapping_mul(0x1656_67B1_9E37_79F9);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published vectors, one per branch: empty, tail bytes, four bytes, eight bytes, lanes.
    #[test]
    fn matches_published_vectors() {
        assert_eq!(xxh64(b"", 0), 0xef46_db37_51d8_e999);
        assert_eq!(xxh64(b"a", 0), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(xxh64(b"abc", 0), 0x44bc_2cf5_ad77_0999);
        assert_eq!(xxh64(b"Nobody inspects the spammish repetition", 0), 0xfbce_a83c_8a37_8bf1);
        assert_eq!(xxh64(b"xxhash", 20_141_025), 0xb559_b98d_844e_0635);
    }
}
