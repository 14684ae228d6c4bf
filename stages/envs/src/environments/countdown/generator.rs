//! Generates countdown puzzles.
//!
//! The generator first draws an expression, by joining two terms at a time as a player does; the value of the
//! expression becomes the target. So every puzzle has a solution that uses all its numbers. Intermediate values are
//! positive integers, and divisions are exact.
//!
//! | level | numbers | largest number | largest target |
//! |---|---|---|---|
//! | 1 | 2 | 99 | 999 |
//! | 2 | 3 | 20 | 99 |
//! | 3 | 4 | 25 | 199 |
//! | 4 | 5 | 50 | 499 |
//! | 5 | 6 | 100 | 999 |
//!
//! A [`PuzzleRules`] may change the largest number and restrict the operations, which creates levels in between.
//!
//! Level 1 needs large numbers, because small ones form too few pairs. Levels differ in the count of numbers, so no
//! puzzle belongs to two. The canonical form is the sorted numbers and the target. A puzzle is too easy, and drawn
//! again, if the target is among the numbers or, with three or more numbers, two of them make it.

use crate::environments::mistakes::broken;
use trainyard_core::chance::PhiloxRng;
use trainyard_core::{Chance, Digest};
use trainyard_tables::{Message, Problem};

/// Highest level; the lowest is 1.
pub const MAX_LEVEL: u32 = 5;
/// Largest intermediate product.
const MAX_PRODUCT: i64 = 1_000_000;

/// Numbers and operations of the puzzles of a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PuzzleRules {
    /// Largest given number; `None` = that of the level.
    pub largest: Option<u32>,
    /// Operations of solutions: some of `+-*/`, with `+`, which joins any two numbers.
    pub operations: String,
}

impl Default for PuzzleRules {
    fn default() -> Self {
        Self { largest: None, operations: "+-*/".into() }
    }
}

/// A puzzle with its known solution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Puzzle {
    /// The given numbers, sorted.
    pub numbers: Vec<i64>,
    /// The number to make.
    pub target: i64,
    /// A solution that uses every number.
    pub expression: String,
}

impl Puzzle {
    /// Returns puzzle number `index` of a level under the seed of `chance`. `level` is clamped to 1..=[`MAX_LEVEL`].
    pub fn at(rules: &PuzzleRules, level: u32, index: u64, chance: &Chance) -> Self {
        let level = level.clamp(1, MAX_LEVEL);
        Self::draw(rules, level, &mut chance.at("countdown", &[u64::from(level), index]))
    }
    fn draw(rules: &PuzzleRules, level: u32, draws: &mut PhiloxRng) -> Self {
        let (largest, max_target) = match level {
            1 => (99, 999),
            2 => (20, 99),
            3 => (25, 199),
            4 => (50, 499),
            _ => (100, 999),
        };
        let largest = rules.largest.map_or(largest, i64::from);
        loop {
            let mut numbers: Vec<i64> = (0..=level).map(|_| draws.between(1, largest)).collect();
            let PuzzleTerm { value: target, text: expression, .. } = joined(&numbers, &rules.operations, draws);
            if target <= max_target && !easy(&numbers, target) {
                numbers.sort_unstable();
                return Self { numbers, target, expression };
            }
        }
    }
    /// Returns the canonical form: `3,5,7,8=48`.
    pub fn canonical(&self) -> String {
        format!("{}={}", self.listed(","), self.target)
    }
    /// Returns the puzzle as a problem of `level`.
    pub fn problem(&self, level: u32) -> Problem {
        let canonical = self.canonical();
        let question =
            format!("Make {} from {}, each at most once, with + - * / and ( ).", self.target, self.listed(" "));
        Problem {
            id: format!("cd{level}-{}", Digest::of(canonical.as_bytes()).short()),
            messages: vec![Message::new("user", question)],
            answer: self.expression.clone(),
            verifier: r#"{"kind":"countdown"}"#.to_string(),
            environment: "countdown".to_string(),
            level,
            source: "countdown".to_string(),
            split: String::new(),
            canonical,
            reference: Some(self.expression.clone()),
            meta: None,
            parents: Vec::new(),
        }
    }
    /// Returns a careless first try: an expression that makes another number, or one that does not parse.
    pub fn mistake(&self, rules: &PuzzleRules, draws: &mut PhiloxRng) -> String {
        let tries = if draws.below(2) == 0 { 0 } else { 100 };
        let other =
            (0..tries).map(|_| joined(&self.numbers, &rules.operations, draws)).find(|term| term.value != self.target);
        other.map_or_else(|| broken(&self.expression, draws), |term| term.text)
    }
    fn listed(&self, between: &str) -> String {
        self.numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(between)
    }
}

/// An intermediate expression.
struct PuzzleTerm {
    value: i64,
    text: String,
    /// Precedence: 0 = sum or difference, 1 = product or quotient, 2 = number.
    rank: u8,
}

impl PuzzleTerm {
    /// Returns the text, in parentheses if its precedence is below `rank`.
    fn within(&self, rank: u8) -> String {
        if self.rank < rank { format!("({})", self.text) } else { self.text.clone() }
    }
}

/// Joins all numbers in random order with random operators. `numbers` must not be empty.
fn joined(numbers: &[i64], operations: &str, draws: &mut PhiloxRng) -> PuzzleTerm {
    let mut terms: Vec<PuzzleTerm> =
        numbers.iter().map(|n| PuzzleTerm { value: *n, text: n.to_string(), rank: 2 }).collect();
    while terms.len() > 1 {
        let left = terms.swap_remove(draws.below(terms.len() as u64) as usize);
        let right = terms.swap_remove(draws.below(terms.len() as u64) as usize);
        terms.push(join(&left, &right, operations, draws));
    }
    terms.swap_remove(0)
}

fn join(left: &PuzzleTerm, right: &PuzzleTerm, operations: &str, draws: &mut PhiloxRng) -> PuzzleTerm {
    let (a, b) = (left.value, right.value);
    let mut possible = vec![('+', a + b)];
    if a > b {
        possible.push(('-', a - b));
    }
    if a * b <= MAX_PRODUCT {
        possible.push(('*', a * b));
    }
    if b > 1 && a % b == 0 {
        possible.push(('/', a / b));
    }
    possible.retain(|(sign, _)| operations.contains(*sign));
    let (sign, value) = *draws.choose(&possible);
    let (rank, right_rank) = match sign {
        '+' => (0, 0),
        '-' => (0, 1),
        '*' => (1, 1),
        _ => (1, 2),
    };
    PuzzleTerm { value, text: format!("{}{sign}{}", left.within(rank), right.within(right_rank)), rank }
}

/// Returns whether one number, or two of three or more, make the target.
fn easy(numbers: &[i64], target: i64) -> bool {
    let makes = |a: i64, b: i64| [a + b, a - b, a * b].contains(&target) || a == b * target;
    let mut pairs = numbers.iter().enumerate().flat_map(|(i, a)| {
        let others = numbers.iter().enumerate().filter(move |(j, _)| *j != i);
        others.map(move |(_, b)| (*a, *b))
    });
    numbers.contains(&target) || numbers.len() > 2 && pairs.any(|(a, b)| makes(a, b))
}

#[cfg(test)]
#[path = "generator_tests.rs"]
mod tests;
