//! The environment `harness`: an unchanged third-party agent is an episode.
//!
//! ```text
//! program --HTTP--> Switchboard --> Seat --poll: Asked--> sampling loop --step: turn--> answer --HTTP--> program
//! ```
//!
//! The user-defined program keeps the conversation, calls its own tools and decides when it is done; the policy answers
//! its calls at a base URL. To the sampling loop it differs from other environments only in the form of its steps
//! ([`trainyard_envs::Step::Asked`]).
mod conversion;
mod environment;
mod episode;
pub mod options;
mod router;
mod start;
mod verdict;

pub use environment::Harness;
pub use options::HarnessOptions;
