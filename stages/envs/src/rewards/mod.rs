//! Contains the rewards, which map a finished episode and its group to a number.

pub mod answer;
pub mod call_match;
pub mod context;
pub(crate) mod count;
pub mod expression;
pub mod format;
pub mod hierarchical;
pub mod http;
pub mod json_path;
pub mod json_pointer;
pub mod judged;
#[cfg(test)]
pub(crate) mod kit;
pub mod knowledge_boundary;
pub mod length;
pub mod pattern;
pub mod process;
pub mod registry;
pub mod reward;
pub mod rubric;
pub mod tool_efficiency;
pub mod tool_success;
pub mod tool_turns;
pub mod verdict;
pub mod weighted;

pub use context::RewardContext;
pub use registry::family;
pub use reward::{GroupView, Reward, Score, ScoringGroup, verified};
pub use verdict::VERDICT;
pub use weighted::{RewardList, WeightedReward};
