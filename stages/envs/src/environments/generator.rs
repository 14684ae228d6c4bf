//! What a problem generator is: problems by level and number, and the turns with which a demonstrator solves them.
//!
//! Why so: synthesis asks every environment for problems in one way, and knows neither its tools nor its format. The generator
//! belongs to a built environment, so that it scripts calls of the tools that the environment has. Turns are scripted, results are
//! not: they come from the tools when the turns are played. Refuses: chance of its own; all is a function of the arguments.

use crate::formats::ToolFormat;
use crate::tools::ToolCall;
use trainyard_core::Chance;
use trainyard_tables::Problem;

/// One turn of a scripted agent.
#[derive(Debug, Clone, PartialEq)]
pub enum ScriptedTurn {
    /// This call alone, written in the environment's format.
    Call(ToolCall),
    /// These calls in one turn.
    Calls(Vec<ToolCall>),
    /// This text as it stands, tool-call markup included.
    Say(String),
    /// Whatever the tool returned last, as the answer.
    RepeatResult,
}

impl ScriptedTurn {
    /// The text of the turn; `last_result` is what the last tool message says.
    pub fn text(&self, format: &dyn ToolFormat, last_result: &str) -> String {
        match self {
            Self::Call(call) => format.render(call),
            Self::Calls(calls) => calls.iter().map(|call| format.render(call)).collect::<Vec<_>>().join("\n"),
            Self::Say(text) => text.clone(),
            Self::RepeatResult => last_result.to_string(),
        }
    }
}

/// How a demonstrator solves one problem.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Demonstration {
    /// All turns of the episode; the environment ends it after the last one, with the right answer.
    pub turns: Vec<ScriptedTurn>,
    /// Some turn is a mistake that a later one makes good.
    pub mistaken: bool,
}

/// Makes the problems of an environment. Found by [`crate::Environment::generator`], held to its promises by
/// [`crate::conformance::generated::check`].
pub trait ProblemGenerator: Send + Sync {
    /// Levels are 1 to this.
    fn max_level(&self) -> u32;
    /// The problem number `index` of a level under this chance; `level` is clamped to the levels that there are. All is set but
    /// `split`, and `answer` is a right answer. Two problems are the same exactly if their `canonical` is; then their ids are equal,
    /// and each accepts the other's answer. No two levels share one.
    fn problem(&self, level: u32, index: u64, chance: &Chance) -> Problem;
    /// The demonstrator's turns for the problem of the same three arguments. With probability `mistakes`, drawn from
    /// `mistake_chance`, it makes a mistake that its tools or the world show, and recovers; not where no such mistake is possible.
    fn demonstration(
        &self,
        level: u32,
        index: u64,
        chance: &Chance,
        mistakes: f64,
        mistake_chance: &Chance,
    ) -> Demonstration;
    /// Words of questions that are exchanged freely and change nothing about a solution, such as what is counted.
    fn decoration(&self) -> &'static [&'static str] {
        &[]
    }
    /// What reports call many of its problems.
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
    fn turns_are_written_in_the_format_of_the_environment() {
        let tool = crate::tools::registry::tool("calculator").unwrap().spec();
        let format = build("code", &[tool]).unwrap();
        let call = |text: &str| ToolCall { name: "calculator".to_string(), arguments: json!({"expression": text}) };
        let text = |turn: ScriptedTurn| turn.text(&*format, "19");
        assert_eq!(text(ScriptedTurn::Call(call("12+7"))), "<tool_call>12+7</tool_call>");
        let two = text(ScriptedTurn::Calls(vec![call("1"), call("2")]));
        assert_eq!(two, "<tool_call>1</tool_call>\n<tool_call>2</tool_call>");
        assert_eq!(format.parse(&two).calls, [Ok(call("1")), Ok(call("2"))]);
        assert_eq!(text(ScriptedTurn::Say("so".to_string())), "so");
        assert_eq!(text(ScriptedTurn::RepeatResult), "19");
    }
}
