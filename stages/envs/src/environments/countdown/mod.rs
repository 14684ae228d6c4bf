//! `countdown`: make a target from given numbers, each used at most once, with `+ - * /` and parentheses. The problems
//! are hard to solve, trivial to check and need no knowledge.

pub mod generator;

use crate::environments::answer::marked_or_last_line;
use crate::environments::dialogue::Dialogue;
use crate::environments::{
    Demonstration, DialogueEnvironment, DialogueOptions, EnvironmentSetup, ExtraOptions, ProblemGenerator,
    ScriptedTurn, WithDialogue,
};
use generator::{Puzzle, PuzzleRules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use trainyard_core::{Chance, OptionProblem, Result};
use trainyard_tables::Problem;

/// Options of `countdown` in addition to those of a dialogue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CountdownExtra {
    /// Largest given number of generated puzzles; null = that of the level (99, 20, 25, 50, 100).
    #[schemars(range(min = 10, max = 1000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest: Option<u32>,
    /// Operations of generated solutions: `+` and some of `-`, `*`, `/`.
    #[serde(skip_serializing_if = "is_all")]
    pub operations: String,
}

impl Default for CountdownExtra {
    fn default() -> Self {
        let PuzzleRules { largest, operations } = PuzzleRules::default();
        Self { largest, operations }
    }
}

fn is_all(operations: &String) -> bool {
    *operations == PuzzleRules::default().operations
}

impl ExtraOptions for CountdownExtra {
    const KIND: &'static str = "countdown";
    const SUMMARY: &'static str = "make a target number from given numbers, with tools";
    const DOC: &'static str = "The agent may try expressions with its tools. A turn without a call is the answer:\n\
        what follows `####`, or `\\boxed{}`, or else the last line. The verifier `countdown` evaluates it exactly and\n\
        accepts any expression that makes the target. As in the game, numbers may be left over; the data of TinyZero\n\
        (github.com/Jiayi-Pan/TinyZero) requires every number. Generates its own problems.";
    fn dialogue() -> DialogueOptions {
        DialogueOptions {
            tools: vec!["calculator".into()],
            max_turns: 8,
            max_tool_calls: 8,
            ..DialogueOptions::default()
        }
    }
    fn check(&self) -> Vec<OptionProblem> {
        let mut problems: Vec<OptionProblem> =
            self.largest.and_then(|n| OptionProblem::out_of_range("/largest", n, 10..=1000)).into_iter().collect();
        let known = self.operations.chars().all(|sign| "+-*/".contains(sign));
        if !known || !self.operations.contains('+') {
            let message = format!("`{}` is no set of operations", self.operations);
            let problem = OptionProblem::new("/operations", message);
            problems.push(problem.help("write `+`, which joins any two numbers, and some of `-`, `*`, `/`"));
        }
        problems
    }
}

/// Options of `countdown`: those of a dialogue, by default with the calculator and 8 turns.
pub type CountdownOptions = WithDialogue<CountdownExtra>;

/// The environment `countdown`.
pub struct Countdown {
    dialogue: Arc<Dialogue>,
    form: PuzzleRules,
}

impl Countdown {
    /// An environment with these options.
    pub fn new(options: CountdownOptions, setup: &EnvironmentSetup) -> Result<Self> {
        let CountdownExtra { largest, operations } = options.extra;
        let dialogue = Dialogue::new(options.dialogue, setup, marked_or_last_line)?;
        Ok(Self { dialogue, form: PuzzleRules { largest, operations } })
    }
}

impl DialogueEnvironment for Countdown {
    const KIND: &'static str = CountdownExtra::KIND;
    fn dialogue(&self) -> &Arc<Dialogue> {
        &self.dialogue
    }
    fn makes_problems(&self) -> Option<&dyn ProblemGenerator> {
        Some(self)
    }
}

/// Demonstrations try the known solution and answer with it; a mistake is an expression with another value or an error.
impl ProblemGenerator for Countdown {
    fn max_level(&self) -> u32 {
        generator::MAX_LEVEL
    }
    fn problem(&self, level: u32, index: u64, chance: &Chance) -> Problem {
        Puzzle::at(&self.form, level, index, chance).problem(level.clamp(1, generator::MAX_LEVEL))
    }
    fn demonstration(
        &self,
        level: u32,
        index: u64,
        chance: &Chance,
        mistakes: f64,
        mistake_chance: &Chance,
    ) -> Demonstration {
        let puzzle = Puzzle::at(&self.form, level, index, chance);
        let mut draws = mistake_chance.at("mistake", &[]);
        let mistake = (draws.uniform() < mistakes).then(|| puzzle.mistake(&self.form, &mut draws));
        let mistaken = mistake.is_some();
        let tries = mistake.into_iter().chain([puzzle.expression.clone()]);
        let calls = tries.filter_map(|expression| self.dialogue.call(&expression)).map(ScriptedTurn::Call);
        Demonstration { turns: calls.chain([ScriptedTurn::Text(puzzle.expression)]).collect(), mistaken }
    }
    fn plural(&self) -> &'static str {
        "countdown puzzles"
    }
}
