//! Provides test doubles of the program's dependencies with faults on demand: a server of chat completions and an
//! object store.
//!
//! Other crates may use this crate only as a dev-dependency (`.ci/walls`). The mock server of a model needs `stages/lm`
//! and is therefore in `tests/lm-kit`, so that tests of crates without tensors do not build `stages/lm`.

pub mod chat;
pub mod faults;
