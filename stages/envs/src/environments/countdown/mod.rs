//! Implements the environment `countdown`: the agent makes a target from given numbers, each used at most once, with `+
//! - * /` and parentheses.
//!
//! The problems are hard to solve, trivial to check, and require no knowledge.

pub mod generator;

use crate::environments::dialogue::Dialogue;
use crate::environments::{Demonstration, DialogueOptions, ExtraOptions, ProblemWorld, ScriptedTurn};
use generator::{Puzzle, PuzzleRules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::{Chance, OptionProblem};
use trainyard_tables::Problem;

/// The environment `countdown`: its options besides those of a dialogue, by default with the calculator and 8 turns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Countdown {
    /// Largest given number of generated puzzles; null = that of the level (99, 20, 25, 50, 100).
    #[schemars(range(min = 10, max = 1000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest: Option<u32>,
    /// Operations of generated solutions: `+` and some of `-`, `*`, `/`.
    #[serde(skip_serializing_if = "is_all")]
    pub operations: String,
}

impl Default for Countdown {
    fn default() -> Self {
        let PuzzleRules { largest, operations } = PuzzleRules::default();
        Self { largest, operations }
    }
}

fn is_all(operations: &String) -> bool {
    *operations == PuzzleRules::default().operations
}

impl ExtraOptions for Countdown {
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
            let message = format!("`{}` is not a set of operations", self.operations);
            let problem = OptionProblem::new("/operations", message);
            problems.push(problem.help("write `+`, which joins any two numbers, and some of `-`, `*`, `/`"));
        }
        problems
    }
}

impl Countdown {
    fn rules(&self) -> PuzzleRules {
        PuzzleRules { largest: self.largest, operations: self.operations.clone() }
    }
}

/// Demonstrations try the known solution and answer with it; a mistake is an expression with another value or an error.
impl ProblemWorld for Countdown {
    type Options = Self;
    const MAX_LEVEL: u32 = generator::MAX_LEVEL;
    const PLURAL: &'static str = "countdown puzzles";
    fn new(options: Self) -> Self {
        options
    }
    fn problem(&self, level: u32, index: u64, chance: &Chance) -> Problem {
        Puzzle::at(&self.rules(), level, index, chance).problem(level.clamp(1, generator::MAX_LEVEL))
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
        let rules = self.rules();
        let puzzle = Puzzle::at(&rules, level, index, chance);
        let mut draws = mistake_chance.at("mistake", &[]);
        let mistake = (draws.uniform() < mistakes).then(|| puzzle.mistake(&rules, &mut draws));
        let mistaken = mistake.is_some();
        let attempts = mistake.into_iter().chain([puzzle.expression.clone()]);
        let calls = attempts.filter_map(|expression| dialogue.call(&expression)).map(ScriptedTurn::Call);
        Demonstration { turns: calls.chain([ScriptedTurn::Text(puzzle.expression)]).collect(), mistaken }
    }
}
