//! What must stand in the environment of a process that trains, before it starts.
//!
//! Why so: rayon and candle read their thread counts once, when their pools are first used, and the allocator reads its options
//! when it initializes; all three are process-wide, so the parent that starts the process sets them. This crate computes on
//! rayon's pool only; candle's own element-wise pool would spin on the same cores, so it is held at one thread. The allocator is
//! told to keep freed pages: tensors of the same size come back at every step. Refuses: reading or changing the environment of
//! the running process.

/// The variables for a process that may use `cpus` threads (0 counts as 1). Set all of them on the child's command.
pub fn environment(cpus: usize) -> [(&'static str, String); 4] {
    let cpus = cpus.max(1);
    [
        ("RAYON_NUM_THREADS", cpus.to_string()),
        ("CANDLE_NUM_THREADS", "1".into()),
        ("MIMALLOC_PURGE_DELAY", "-1".into()),
        ("TOKENIZERS_PARALLELISM", "false".into()),
    ]
}
