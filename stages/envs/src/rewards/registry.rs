//! All rewards, sorted by kind.

use crate::programs::{OwnPage, PeerOptions, ServiceOptions};
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

type Line = PartKind<dyn Reward>;

/// Returns the registry line of a reward in user-defined code.
fn own<P: PeerOptions>() -> Line
where
    RewardRole: OwnPage<P>,
{
    Line::new(|options: process::OwnRewardOptions<P>, ()| Ok(Box::new(process::OwnReward::new(options))))
}

/// Returns the rewards of this crate.
pub fn family() -> Family<dyn Reward> {
    let members = vec![
        Line::new(|o, ()| Ok(Box::new(answer::Answer(o)))),
        Line::new(|o, ()| Ok(Box::new(call_match::CallMatch(o)))),
        Line::new(|o, ()| Ok(Box::new(expression::Expression::new(o)?))),
        Line::new(|o, ()| Ok(Box::new(format::Format(o)))),
        Line::new(|o, ()| Ok(Box::new(hierarchical::Hierarchical(o)))),
        own::<ServiceOptions>(),
        Line::new(|o, ()| Ok(Box::new(json_path::JsonPath::new(o)?))),
        Line::new(|o, ()| Ok(Box::new(json_pointer::JsonPointer(o)))),
        Line::new(|o, ()| Ok(Box::new(judged::Judged::new(o)?))),
        Line::new(|o, ()| Ok(Box::new(knowledge_boundary::KnowledgeBoundary(o)))),
        Line::new(|o, ()| Ok(Box::new(length::Length(o)))),
        Line::new(|o, ()| Ok(Box::new(pattern::Pattern::new(o)?))),
        own::<ProgramOptions>(),
        Line::new(|o, ()| Ok(Box::new(rubric::Rubric(o)))),
        Line::new(|o, ()| Ok(Box::new(tool_efficiency::ToolEfficiency::new(o)))),
        Line::new(|o, ()| Ok(Box::new(tool_success::ToolSuccess(o)))),
        Line::new(|o, ()| Ok(Box::new(tool_turns::ToolTurns(o)))),
        Line::new(|o, ()| Ok(Box::new(verdict::Verdict(o)))),
    ];
    Family::new("rewards", "reward", members)
}
