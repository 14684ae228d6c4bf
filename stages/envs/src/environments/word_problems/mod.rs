//! Implements the environment `word-problems`: generated arithmetic stories that need a tool ([`generator`]).
//!
//! The stories are available in any number and level, have reference programs and plausible mistakes, and occur in no
//! data set.

pub mod generator;

use crate::environments::dialogue::Dialogue;
use crate::environments::{Demonstration, DialogueOptions, ExtraOptions, ProblemWorld, ScriptedTurn, mistakes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use trainyard_core::Chance;
use trainyard_tables::Problem;

/// The environment `word-problems`, without options besides those of a dialogue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WordProblems {}

impl ExtraOptions for WordProblems {
    const KIND: &'static str = "word-problems";
    const SUMMARY: &'static str = "generated arithmetic stories, with tools";
    const DOC: &'static str = "The agent may call its tools, then answers with a number in a turn without a call:\n\
        what follows `####`, or the whole turn (`7`), or the only number of a sentence (`extract`). The verifier is\n\
        `numeric`. Generates its own problems;\n\
        demonstrations send the reference program to the first tool and repeat its result.";
    fn dialogue() -> DialogueOptions {
        DialogueOptions::default()
    }
}

/// Returns the default environment of stages whose options name none: word problems with a Python tool and up to four
/// turns.
pub fn default_options() -> Value {
    json!({ "kind": WordProblems::KIND })
}

/// Demonstrations send the reference program to the first tool and repeat its result.
impl ProblemWorld for WordProblems {
    type Options = Self;
    const MAX_LEVEL: u32 = generator::MAX_LEVEL;
    const PLURAL: &'static str = "word problems";
    const DECORATION: &'static [&'static str] = &generator::ITEMS;
    fn new(options: Self) -> Self {
        options
    }
    /// Returns the text between the last `####` and the end of its line, or the whole text.
    fn read_answer(turn: &str) -> Option<String> {
        let text = match turn.rsplit_once("####") {
            Some((_, rest)) => rest.lines().next().unwrap_or(""),
            None => turn,
        };
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_string())
    }
    fn problem(&self, level: u32, index: u64, chance: &Chance) -> Problem {
        generator::generate(level, index, chance).problem
    }
    fn demonstration(
        &self,
        dialogue: &Dialogue,
        level: u32,
        index: u64,
        chance: &Chance,
        mistakes: f64,
        mistake_chance: &Chance,
    ) -> Demonstration {
        let generated = generator::generate(level, index, chance);
        let python = dialogue.options().tools.first().is_some_and(|tool| tool.kind() == "python");
        let programs = if python {
            generated.demonstration(mistakes, mistake_chance)
        } else {
            mistakes::attempts(&generated.expression(), mistakes, mistake_chance)
        };
        let first = programs.iter().filter_map(|program| dialogue.call(program));
        // With a second tool, half of the demonstrations verify the result with it.
        let second = dialogue.options().tools.get(1).filter(|_| mistake_chance.at("second tool", &[]).below(2) == 0);
        let check = second.and_then(|tool| {
            let text = if tool.kind() == "python" { generated.program() } else { generated.expression() };
            dialogue.call_of(tool.kind(), &text)
        });
        let calls = first.chain(check).map(ScriptedTurn::Call);
        Demonstration { turns: calls.chain([ScriptedTurn::RepeatResult]).collect(), mistaken: programs.len() > 1 }
    }
}
