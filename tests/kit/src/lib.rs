//! Faulty counterparts of what the program depends on, for its tests: a server of chat completions and a store.
//!
//! Only a dev-dependency of other crates (`.ci/walls`). The server of a model, which needs `stages/lm`, is
//! `tests/lm-kit`, so that tests of crates without tensors do not build them.

pub mod chat;
pub mod faults;
