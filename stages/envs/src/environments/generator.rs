//! Defines the trait of problem generators, which supply problems by level and number, and demonstrations that solve
//! them.
//!
//! `data/synthesize` uses this trait for every environment without knowing tools or formats. Demonstrations script only
//! the agent's turns; the tools supply their results when the turns are played. All results depend only on the
//! arguments.

use crate::formats::ToolFormat;
use crate::tools::ToolCall;
use trainyard_core::Chance;
use trainyard_tables::Problem;

#[derive(Debug, Clone, PartialEq)]
pub enum ScriptedTurn {
    /// A single call, written in the environment's format.
    Call(ToolCall),
    /// Several calls in one turn.
    Calls(Vec<ToolCall>),
    /// Literal text, tool-call markup included.
    Text(String),
    /// The last tool result, repeated as the answer.
    RepeatResult,
}

impl ScriptedTurn {
    /// Returns the text of the turn; `last_result` is the content of the last tool message.
    pub fn text(&self, format: &dyn ToolFormat, last_result: &str) -> String {
        match self {
            Self::Call(call) => format.render(call),
            Self::Calls(calls) => calls.iter().map(|call| format.render(call)).collect::<Vec<_>>().join("\n"),
            Self::Text(text) => text.clone(),
            Self::RepeatResult => last_result.to_string(),
        }
    }
}

/// A demonstration that solves one problem.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Demonstration {
    /// All turns of the episode. The environment ends the episode after the last turn with a correct answer.
    pub turns: Vec<ScriptedTurn>,
    /// Whether some turn is a mistake that a later one corrects.
    pub mistaken: bool,
}

/// Generator of problems for an environment, which returns it from [`crate::Environment::generator`]. Must pass
/// [`crate::conformance::generated::check`].
pub trait ProblemGenerator: Send + Sync {
    /// Returns the highest level; levels start at 1.
    fn max_level(&self) -> u32;
    /// Returns problem number `index` of a level under the seed of `chance`; `level` is clamped. Sets every field but
    /// `split`; `answer` is a correct answer. Two problems are the same exactly if their `canonical` forms are; then
    /// their ids are equal and each accepts the other's answer. No two levels share a problem.
    fn problem(&self, level: u32, index: u64, chance: &Chance) -> Problem;
    /// Returns a demonstration for the problem with the same three arguments. With probability `mistakes`, drawn from
    /// `mistake_chance`, the demonstration makes a mistake that the tools or the environment reveal, and recovers, if a
    /// mistake is possible.
    fn demonstration(
        &self,
        level: u32,
        index: u64,
        chance: &Chance,
        mistakes: f64,
        mistake_chance: &Chance,
    ) -> Demonstration;
    /// Returns words of questions, such as the counted objects, that may be exchanged without effect on the solution.
    fn decoration(&self) -> &'static [&'static str] {
        &[]
    }
    /// Returns the name of the problems in reports, in the plural.
    fn plural(&self) -> &'static str {
        "problems"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::registry::build;
    use serde_json::json;

    #[test]
    fn turns_use_the_environments_format() {
        let tool = crate::tools::registry::tool("calculator").unwrap().specs().remove(0);
        let format = build("code", &[tool]).unwrap();
        let call = |text: &str| ToolCall { name: "calculator".to_string(), arguments: json!({"expression": text}) };
        let text = |turn: ScriptedTurn| turn.text(&*format, "19");
        assert_eq!(text(ScriptedTurn::Call(call("12+7"))), "<tool_call>12+7</tool_call>");
        let two = text(ScriptedTurn::Calls(vec![call("1"), call("2")]));
        assert_eq!(two, "<tool_call>1</tool_call>\n<tool_call>2</tool_call>");
        assert_eq!(format.parse(&two).calls, [Ok(call("1")), Ok(call("2"))]);
        assert_eq!(text(ScriptedTurn::Text("so".to_string())), "so");
        assert_eq!(text(ScriptedTurn::RepeatResult), "19");
    }
}
