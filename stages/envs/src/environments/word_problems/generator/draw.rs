//! Draws the numbers and structure of a story, without its words.

use super::phrases::{self, FORMS};
use super::story::{Distractor, Story, StoryOperation, StoryStep};
use trainyard_core::chance::PhiloxRng;

/// Bounds of a level.
struct Bounds {
    /// Largest number to start with, add or subtract.
    given: i64,
    /// Largest intermediate amount.
    amount: i64,
    /// Largest factor or divisor.
    factor: i64,
    distractors: (i64, i64),
}

fn bounds(level: u32) -> Bounds {
    let bounds = |given, amount, factor, distractors| Bounds { given, amount, factor, distractors };
    match level {
        1 => bounds(99, 999, 9, (0, 0)),
        2 => bounds(99, 9_999, 12, (0, 0)),
        3 => bounds(999, 99_999, 25, (1, 1)),
        4 => bounds(999, 999_999, 50, (1, 1)),
        _ => bounds(9_999, 9_999_999, 99, (1, 2)),
    }
}

impl Story {
    pub fn draw(level: u32, draws: &mut PhiloxRng) -> Self {
        let bounds = bounds(level);
        let start = draws.between(2, bounds.given);
        let start_form = draws.below(phrases::STARTS) as usize;
        let mut steps: Vec<StoryStep> = Vec::new();
        let mut amount = start;
        for _ in 0..level {
            let last = steps.last().map(|s| s.operation);
            let step = next_step(amount, last, &bounds, draws);
            amount = step.operation.apply(amount, step.number);
            steps.push(step);
        }
        let count = draws.between(bounds.distractors.0, bounds.distractors.1);
        let mut distractors: Vec<Distractor> = (0..count)
            .map(|_| Distractor {
                before: draws.below(u64::from(level) + 1) as usize,
                number: draws.between(2, bounds.given.min(999)),
                form: draws.below(phrases::DISTRACTORS) as usize,
            })
            .collect();
        distractors.sort_by_key(|d| d.before);
        Self { start, start_form, steps, distractors, question_form: draws.below(phrases::QUESTIONS) as usize }
    }
}

/// Returns an operation that is possible at this amount, each kind equally likely. A division never follows a
/// multiplication, so that a step does not undo the previous one.
fn next_step(amount: i64, last: Option<StoryOperation>, bounds: &Bounds, draws: &mut PhiloxRng) -> StoryStep {
    let mut possible: Vec<(StoryOperation, Vec<i64>)> = Vec::new();
    for operation in StoryOperation::ALL {
        let numbers: Vec<i64> = match operation {
            StoryOperation::Add => ends(2, bounds.given.min(bounds.amount - amount)),
            StoryOperation::Subtract => ends(1, bounds.given.min(amount - 1)),
            StoryOperation::Multiply => ends(2, bounds.factor.min(bounds.amount / amount)),
            StoryOperation::Divide if last == Some(StoryOperation::Multiply) => Vec::new(),
            StoryOperation::Divide => (2..=bounds.factor.min(amount - 1)).filter(|d| amount % d == 0).collect(),
        };
        if !numbers.is_empty() {
            possible.push((operation, numbers));
        }
    }
    let (operation, numbers) = draws.choose(&possible).clone();
    let number = match (operation, numbers.as_slice()) {
        (StoryOperation::Divide, divisors) => *draws.choose(divisors),
        (_, [low, high]) => draws.between(*low, *high),
        (_, only) => only[0],
    };
    StoryStep { operation, number, form: draws.below(FORMS) as usize }
}

/// Returns the two ends of a range; empty if the range is empty.
fn ends(low: i64, high: i64) -> Vec<i64> {
    if low <= high { vec![low, high] } else { Vec::new() }
}
