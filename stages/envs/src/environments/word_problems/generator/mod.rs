//! Arithmetic stories with a running amount: one sentence, one operation, one line of code.
//!
//! Why so terse: a character-level model of a tenth of a million parameters must learn to translate each sentence into one line
//! (`x+=7`), which it can; the arithmetic itself it cannot, so the tool is needed. A problem of level L has exactly L operations,
//! so no problem belongs to two levels. Every amount on the way is a positive integer; divisions are exact.
//!
//! | level | operations | given numbers | largest amount | distractors |
//! |---|---|---|---|---|
//! | 1 | 1 | up to 2 digits | 999 | 0 |
//! | 2 | 2 | up to 2 digits | 9,999 | 0 |
//! | 3 | 3 | up to 3 digits | 99,999 | 1 |
//! | 4 | 4 | up to 3 digits | 999,999 | 1 |
//! | 5 | 5 | up to 4 digits | 9,999,999 | 1 or 2 |
//!
//! Names and items are decoration: they do not enter the canonical form, so two stories that differ in them only count as one
//! problem. Refuses: chance of its own (a problem is a function of level, index and the given [`Chance`]).

mod draw;
mod mistakes;
mod phrases;
mod story;

pub use mistakes::{Attempt, Mistake};

use phrases::Words;
use story::{Operation, Story, program_lines};
use trainyard_core::{Chance, Digest};
use trainyard_tables::{Message, Problem};

/// Levels are 1 to this.
pub const MAX_LEVEL: u32 = 5;

/// A problem with what its author knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedProblem {
    pub problem: Problem,
    /// The reference program: `["x=12", "x+=7", "x-=5", "x"]`.
    pub solution_lines: Vec<String>,
    /// The same as one expression for a calculator: `12+7-5`.
    pub one_expression: String,
    story: Story,
}

impl GeneratedProblem {
    /// The reference program, one line per sentence that matters, the last one `x`.
    pub fn program(&self) -> String {
        self.solution_lines.join("\n")
    }
    /// The reference as one expression.
    pub fn expression(&self) -> String {
        self.one_expression.clone()
    }
    /// The programs that a demonstrator sends, one per turn: with probability `mistake_rate` a mistaken one first, then the
    /// reference.
    pub fn demonstration(&self, mistake_rate: f64, chance: &Chance) -> Vec<String> {
        self.attempts(mistake_rate, chance).into_iter().map(|attempt| attempt.lines.join("\n")).collect()
    }
    /// Like [`GeneratedProblem::demonstration`], saying which mistake was made.
    pub fn attempts(&self, mistake_rate: f64, chance: &Chance) -> Vec<Attempt> {
        let mut draws = chance.at("mistake", &[]);
        let mistaken = (draws.uniform() < mistake_rate).then(|| mistakes::mistaken(&self.story, &mut draws));
        mistaken.into_iter().chain([Attempt { lines: self.solution_lines.clone(), mistake: None }]).collect()
    }
}

/// The problem number `index` of a level under this chance. `level` is clamped to 1..=[`MAX_LEVEL`].
pub fn generate(level: u32, index: u64, chance: &Chance) -> GeneratedProblem {
    let level = level.clamp(1, MAX_LEVEL);
    let mut draws = chance.at("word-problem", &[u64::from(level), index]);
    let story = Story::draw(level, &mut draws);
    let words = Words::draw(&mut draws);
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
    };
    GeneratedProblem { problem, solution_lines: program_lines(&story), one_expression: expression(&story), story }
}

/// Parentheses only around a sum that is then multiplied or divided.
fn expression(story: &Story) -> String {
    let mut text = story.start.to_string();
    let mut is_sum = false;
    for step in &story.steps {
        let additive = matches!(step.operation, Operation::Add | Operation::Subtract);
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
