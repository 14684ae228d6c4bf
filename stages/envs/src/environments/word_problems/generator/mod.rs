//! Generates arithmetic stories with a running amount: one sentence, one operation, one line of code.
//!
//! Stories are terse because a character-level model with 100,000 parameters must learn to translate each sentence into
//! a line (`x+=7`). Such a model can translate but cannot compute, so it needs the tool. A problem of level L has
//! exactly L operations, so no problem belongs to two levels. Intermediate amounts are positive integers; divisions are
//! exact.
//!
//! | level | operations | given numbers | largest amount | distractors |
//! |---|---|---|---|---|
//! | 1 | 1 | up to 2 digits | 999 | 0 |
//! | 2 | 2 | up to 2 digits | 9,999 | 0 |
//! | 3 | 3 | up to 3 digits | 99,999 | 1 |
//! | 4 | 4 | up to 3 digits | 999,999 | 1 |
//! | 5 | 5 | up to 4 digits | 9,999,999 | 1 or 2 |
//!
//! The canonical form is the program. Names, items, templates and distractors are decoration: stories that differ only
//! in decoration count as one problem.

mod draw;
mod mistakes;
mod phrases;
mod story;

pub use mistakes::{Mistake, ProgramAttempt};
pub use phrases::ITEMS;

use phrases::StoryWords;
use story::{Story, StoryOperation, program_lines};
use trainyard_core::{Chance, Digest};
use trainyard_tables::{Message, Problem};

/// Highest level; the lowest is 1.
pub const MAX_LEVEL: u32 = 5;

/// A generated problem with its solution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedProblem {
    /// The problem as a row.
    pub problem: Problem,
    /// The reference program: `["x=12", "x+=7", "x-=5", "x"]`.
    pub solution_lines: Vec<String>,
    /// The reference as one expression for a calculator: `12+7-5`.
    pub one_expression: String,
    story: Story,
}

impl GeneratedProblem {
    /// Returns the reference program: one line per relevant sentence, then `x`.
    pub fn program(&self) -> String {
        self.solution_lines.join("\n")
    }
    /// Returns the reference as one expression.
    pub fn expression(&self) -> String {
        self.one_expression.clone()
    }
    /// Returns the programs of a demonstration, one per turn: the reference, with probability `mistake_rate` preceded
    /// by a mistaken one.
    pub fn demonstration(&self, mistake_rate: f64, chance: &Chance) -> Vec<String> {
        self.attempts(mistake_rate, chance).into_iter().map(|attempt| attempt.lines.join("\n")).collect()
    }
    /// Returns the same programs as [`GeneratedProblem::demonstration`], with the kinds of their mistakes.
    pub fn attempts(&self, mistake_rate: f64, chance: &Chance) -> Vec<ProgramAttempt> {
        let mut draws = chance.at("mistake", &[]);
        let mistaken = (draws.uniform() < mistake_rate).then(|| mistakes::mistaken(&self.story, &mut draws));
        mistaken.into_iter().chain([ProgramAttempt { lines: self.solution_lines.clone(), mistake: None }]).collect()
    }
}

/// Returns problem number `index` of a level under the seed of `chance`. `level` is clamped to 1..=[`MAX_LEVEL`].
pub fn generate(level: u32, index: u64, chance: &Chance) -> GeneratedProblem {
    let level = level.clamp(1, MAX_LEVEL);
    let mut draws = chance.at("word-problem", &[u64::from(level), index]);
    let story = Story::draw(level, &mut draws);
    let words = StoryWords::draw(&mut draws);
    let canonical = story.canonical();
    let problem = Problem {
        id: format!("wp{level}-{}", Digest::of(canonical.as_bytes()).short()),
        messages: vec![Message::new("user", phrases::question(&story, &words))],
        answer: story.amount().to_string(),
        verifier: r#"{"kind":"numeric"}"#.to_string(),
        environment: "word-problems".to_string(),
        level,
        source: "word-problems".to_string(),
        split: String::new(),
        canonical,
        reference: Some(program_lines(&story).join("\n")),
        meta: None,
        parents: Vec::new(),
    };
    GeneratedProblem { problem, solution_lines: program_lines(&story), one_expression: expression(&story), story }
}

/// Returns the program as one expression, with parentheses only around a sum that is then multiplied or divided.
fn expression(story: &Story) -> String {
    let mut text = story.start.to_string();
    let mut is_sum = false;
    for step in &story.steps {
        let additive = matches!(step.operation, StoryOperation::Add | StoryOperation::Subtract);
        if is_sum && !additive {
            text = format!("({text})");
        }
        text.push_str(step.operation.sign());
        text.push_str(&step.number.to_string());
        is_sum = additive;
    }
    text
}

#[cfg(test)]
mod tests;
