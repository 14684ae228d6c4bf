//! Episodes and problems as user programs and services receive them, and the parsing of their answers. The protocol is
//! in the crate `trainyard-process`.

pub mod batches;
pub mod custom_code_options;
pub mod episode;
pub mod log;
pub mod service;
pub mod verifier;

pub use batches::{BatchSize, ExceptionPolicy, ItemResult, request_items};
pub use custom_code_options::CustomCodeOptions;
pub use episode::{EpisodeItem, ProblemItem};
pub use log::log;
pub use service::ServiceOptions;
pub use verifier::{CustomVerifier, VerifierOptions};
