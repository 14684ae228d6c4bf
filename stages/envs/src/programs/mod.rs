//! Episodes and problems as user programs and services receive them, and the parsing of their answers. The protocol is
//! in the crate `trainyard-process`.

pub mod answers;
pub mod episode;
pub mod log;
pub mod own;
pub mod peer_options;
pub mod service;
pub mod verifier;

pub use answers::{Batch, OnError, Row, ask};
pub use episode::{EpisodeItem, ProblemItem};
pub use log::log;
pub use own::{OwnOptions, OwnPage, OwnRole};
pub use peer_options::PeerOptions;
pub use service::ServiceOptions;
pub use verifier::{OwnVerifier, VerifierOptions};
