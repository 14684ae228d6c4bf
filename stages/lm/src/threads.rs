//! Lists environment variables that must be set before a training process starts.
//!
//! candle reads its thread count when its pool is first used, and the allocator reads its options when it initializes.
//! Both settings are process-wide, so the parent process sets them. This crate computes on rayon's pool only, and
//! candle's element-wise pool would spin on the same cores, so it gets one thread. The allocator keeps freed pages,
//! because every step allocates tensors of the same sizes again.

/// Variables for the command of a training process, in addition to `RAYON_NUM_THREADS`.
pub const ENVIRONMENT: [(&str, &str); 3] =
    [("CANDLE_NUM_THREADS", "1"), ("MIMALLOC_PURGE_DELAY", "-1"), ("TOKENIZERS_PARALLELISM", "false")];
