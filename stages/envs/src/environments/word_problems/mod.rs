//! `word-problems`: generated arithmetic stories that need a tool ([`generator`]). They are available in any number and
//! level, with reference programs and plausible mistakes, and are in no data set.

pub mod generator;

use crate::environments::dialogue::Dialogue;
use crate::environments::{
    Demonstration, DialogueEnvironment, DialogueOptions, EnvironmentSetup, ExtraOptions, ProblemGenerator,
    ScriptedTurn, WithDialogue, mistakes,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_core::{Chance, Result};
use trainyard_tables::Problem;

/// `word-problems` has no options besides those of a dialogue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WordProblemsExtra {}

impl ExtraOptions for WordProblemsExtra {
    const KIND: &'static str = "word-problems";
    const SUMMARY: &'static str = "generated arithmetic stories, with tools";
    const DOC: &'static str = "The agent may call its tools, then answers with a number in a turn without a call:\n\
        what follows `####`, or the whole turn (`7`). The verifier is `numeric`. Generates its own problems;\n\
        demonstrations send the reference program to the first tool and repeat its result.";
    fn dialogue() -> DialogueOptions {
        DialogueOptions::default()
    }
}

pub type WordProblemsOptions = WithDialogue<WordProblemsExtra>;

/// Returns the environment of stages that name none: word problems with a Python tool and up to four turns.
pub fn default_options() -> Value {
    json!({ "kind": <WordProblemsExtra as ExtraOptions>::KIND })
}

pub struct WordProblems(Arc<Dialogue>);

impl WordProblems {
    /// Returns an environment with these options.
    pub fn new(options: WordProblemsOptions, setup: &EnvironmentSetup) -> Result<Self> {
        Ok(Self(Dialogue::new(options.dialogue, setup, read_answer)?))
    }
}

/// Returns the text between the last `####` and the end of its line, or the whole text.
fn read_answer(text: &str) -> Option<String> {
    let text = match text.rsplit_once("####") {
        Some((_, rest)) => rest.lines().next().unwrap_or(""),
        None => text,
    };
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_string())
}

impl DialogueEnvironment for WordProblems {
    const KIND: &'static str = WordProblemsExtra::KIND;
    fn dialogue(&self) -> &Arc<Dialogue> {
        &self.0
    }
    fn makes_problems(&self) -> Option<&dyn ProblemGenerator> {
        Some(self)
    }
}

/// Demonstrations send the reference program to the first tool and repeat its result.
impl ProblemGenerator for WordProblems {
    fn max_level(&self) -> u32 {
        generator::MAX_LEVEL
    }
    fn problem(&self, level: u32, index: u64, chance: &Chance) -> Problem {
        generator::generate(level, index, chance).problem
    }
    fn demonstration(
        &self,
        level: u32,
        index: u64,
        chance: &Chance,
        mistakes: f64,
        mistake_chance: &Chance,
    ) -> Demonstration {
        let generated = generator::generate(level, index, chance);
        let python = self.0.options().tools.first().is_some_and(|tool| tool.kind() == "python");
        let programs = if python {
            generated.demonstration(mistakes, mistake_chance)
        } else {
            mistakes::attempts(&generated.expression(), mistakes, mistake_chance)
        };
        let first = programs.iter().filter_map(|program| self.0.call(program));
        // With a second tool, half of the demonstrations verify the result with it.
        let second = self.0.options().tools.get(1).filter(|_| mistake_chance.at("second tool", &[]).below(2) == 0);
        let check = second.and_then(|tool| {
            let text = if tool.kind() == "python" { generated.program() } else { generated.expression() };
            self.0.call_of(tool.kind(), &text)
        });
        let calls = first.chain(check).map(ScriptedTurn::Call);
        Demonstration { turns: calls.chain([ScriptedTurn::RepeatResult]).collect(), mistaken: programs.len() > 1 }
    }
    fn decoration(&self) -> &'static [&'static str] {
        &generator::ITEMS
    }
    fn plural(&self) -> &'static str {
        "word problems"
    }
}
