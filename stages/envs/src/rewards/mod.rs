//! Rewards: functions from a finished episode, seen beside its group, to a number.

pub mod answer;
pub mod call_match;
pub mod format;
pub mod hierarchical;
#[cfg(test)]
pub(crate) mod kit;
pub mod knowledge_boundary;
pub mod length;
pub mod registry;
pub mod reward;
pub mod rubric;
pub mod tool_efficiency;
pub mod tool_success;
pub mod tool_turns;
pub mod weighted;

pub use registry::family;
pub use reward::{GroupView, Reward, Score, verified};
pub use weighted::{RewardList, WeightedReward};
