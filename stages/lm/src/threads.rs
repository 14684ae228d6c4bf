//! What must stand in the environment of a process that trains, before it starts.
//!
//! Why so: candle reads its thread count once, when its pool is first used, and the allocator its options when it initializes; both
//! are process-wide, so the parent that starts the process sets them. This crate computes on rayon's pool only; candle's own
//! element-wise pool would spin on the same cores, so it is held at one thread. The allocator is told to keep freed pages: tensors
//! of the same size come back at every step. Refuses: reading or changing the environment of the running process.

/// Variables for the command of such a process, beside `RAYON_NUM_THREADS`.
pub const ENVIRONMENT: [(&str, &str); 3] =
    [("CANDLE_NUM_THREADS", "1"), ("MIMALLOC_PURGE_DELAY", "-1"), ("TOKENIZERS_PARALLELISM", "false")];
