//! The environment `harness`: an unchanged third-party agent is an episode.
//!
//! ```text
//! program --HTTP--> EpisodeRouter --> EpisodeQueue --poll: TurnRequest--> sampling loop
//!         <--HTTP-- ModelResponse <--step: AgentTurn-- sampling loop
//! ```
//!
//! The user-defined program keeps the conversation, calls its own tools and decides when it is done; the policy
//! responds to its requests at a base URL. To the sampling loop it differs from other environments only in the form of
//! its steps ([`trainyard_envs::EpisodeStep::TurnRequest`]).
mod conversion;
mod environment;
mod episode;
pub mod options;
mod router;
mod start;
mod verdict;

pub use environment::Harness;
pub use options::HarnessOptions;
