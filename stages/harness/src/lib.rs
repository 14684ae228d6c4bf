//! Provides the environment `harness`, in which an unchanged third-party agent is an episode (`docs/harness.md`).
//!
//! ```text
//! program --HTTP--> EpisodeRouter --> EpisodeQueue --poll: TurnRequest--> sampling loop
//!         <--HTTP-- ModelResponse <--step: AgentTurn-- sampling loop
//! ```
//!
//! The user-defined program keeps the conversation, calls its own tools and decides when it is done. The policy
//! responds to its requests at a base URL. For the sampling loop, only the form of the steps differs from other
//! environments ([`trainyard_envs::EpisodeStep::TurnRequest`]).
mod address;
mod conversion;
mod environment;
mod episode;
pub mod options;
mod router;
mod sandbox;
mod start;
mod verdict;

pub use environment::Harness;
pub use options::HarnessOptions;
