//! Lists the rewards of this crate, sorted by kind.

use crate::programs::{CustomCodeOptions, CustomCodePage, ServiceOptions};
use crate::rewards::process::RewardRole;
use crate::rewards::{
    Reward, answer, call_match, expression, format, hierarchical, json_path, json_pointer, judged, knowledge_boundary,
    length, pattern, process, rubric, tool_efficiency, tool_success, tool_turns, verdict,
};
use trainyard_api::{Family, PartKind, PartOptions};
use trainyard_process::ProgramOptions;

/// Returns the registry line of a reward whose options are the reward itself.
pub fn reward<P: PartOptions + Reward>() -> PartKind<dyn Reward> {
    PartKind::new::<P>(|options, ()| Ok(Box::new(options)))
}

type RewardKind = PartKind<dyn Reward>;

/// Returns the registry line of a reward in user-defined code.
fn custom<P: CustomCodeOptions>() -> RewardKind
where
    RewardRole: CustomCodePage<P>,
{
    RewardKind::new(|options: process::CustomRewardOptions<P>, ()| Ok(Box::new(process::CustomReward::new(options))))
}

/// Returns the rewards of this crate.
pub fn family() -> Family<dyn Reward> {
    let members = vec![
        RewardKind::new(|o, ()| Ok(Box::new(answer::AnswerReward(o)))),
        RewardKind::new(|o, ()| Ok(Box::new(call_match::CallMatchReward(o)))),
        RewardKind::new(|o, ()| Ok(Box::new(expression::ExpressionReward::new(o)?))),
        RewardKind::new(|o, ()| Ok(Box::new(format::FormatReward(o)))),
        RewardKind::new(|o, ()| Ok(Box::new(hierarchical::HierarchicalReward(o)))),
        custom::<ServiceOptions>(),
        RewardKind::new(|o, ()| Ok(Box::new(json_path::JsonPathReward::new(o)?))),
        RewardKind::new(|o, ()| Ok(Box::new(json_pointer::JsonPointerReward(o)))),
        RewardKind::new(|o, ()| Ok(Box::new(judged::JudgedReward::new(o)?))),
        RewardKind::new(|o, ()| Ok(Box::new(knowledge_boundary::KnowledgeBoundaryReward(o)))),
        RewardKind::new(|o, ()| Ok(Box::new(length::LengthReward(o)))),
        RewardKind::new(|o, ()| Ok(Box::new(pattern::PatternReward::new(o)?))),
        custom::<ProgramOptions>(),
        RewardKind::new(|o, ()| Ok(Box::new(rubric::RubricReward(o)))),
        RewardKind::new(|o, ()| Ok(Box::new(tool_efficiency::ToolEfficiencyReward::new(o)))),
        RewardKind::new(|o, ()| Ok(Box::new(tool_success::ToolSuccessReward(o)))),
        RewardKind::new(|o, ()| Ok(Box::new(tool_turns::ToolTurnsReward(o)))),
        RewardKind::new(|o, ()| Ok(Box::new(verdict::VerdictReward(o)))),
    ];
    Family::new("rewards", "reward", members)
}
