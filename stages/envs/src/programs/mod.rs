//! Serializes episodes and problems for user programs and services, and parses their answers.
//!
//! The crate `trainyard-process` implements the protocol; `docs/design/0036-custom-code-over-http.md` describes
//! services.

pub mod batches;
pub mod custom;
pub mod custom_code_options;
pub mod episode;
pub mod log;
pub mod service;
pub mod verifier;

pub use batches::{BatchSize, ExceptionPolicy, ItemResult, request_items};
pub use custom::{CustomCodePage, CustomCodeRole, CustomRoleOptions};
pub use custom_code_options::CustomCodeOptions;
pub use episode::{EpisodeItem, ProblemItem};
pub use log::log;
pub use service::ServiceOptions;
pub use verifier::{CustomVerifier, VerifierOptions};
