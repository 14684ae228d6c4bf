//! The environment `harness`: somebody's agent, unchanged, is an episode.
//!
//! ```text
//! program --HTTP--> Switchboard --> Seat --poll: Asked--> sampling loop --step: turn--> answer --HTTP--> program
//! ```
//!
//! The program of the user keeps the conversation, calls its own tools and decides when it is done; the policy answers
//! its calls behind a base URL. The sampling loop cannot tell it from other environments, but for the form of its steps
//! ([`trainyard_envs::Step::Asked`]).
#![warn(missing_docs)]

mod environment;
mod episode;
pub mod options;
mod start;
mod switchboard;
mod verdict;
mod view;

pub use environment::Harness;
pub use options::HarnessOptions;
