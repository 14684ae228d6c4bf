//! Numbers that can be joined to make a target.
//!
//! An expression is drawn first, by joining two terms at a time as a player does, and its value is the target; so every puzzle has
//! a solution, and the one that is known uses all numbers. Values on the way are positive integers, divisions are exact.
//!
//! | level | numbers | largest number | largest target |
//! |---|---|---|---|
//! | 1 | 2 | 99 | 999 |
//! | 2 | 3 | 20 | 99 |
//! | 3 | 4 | 25 | 199 |
//! | 4 | 5 | 50 | 499 |
//! | 5 | 6 | 100 | 999 |
//!
//! Two numbers must be large, or there are too few pairs. A level has its own count of numbers, so no puzzle belongs to two. The
//! canonical form is the sorted numbers with the target. Refuses: a target that is one of the numbers or, of three numbers and
//! more, that two of them make.

use crate::environments::mistakes::broken;
use trainyard_core::chance::Draws;
use trainyard_core::{Chance, Digest};
use trainyard_tables::{Message, Problem};

/// Levels are 1 to this.
pub const MAX_LEVEL: u32 = 5;
/// Products on the way stay below.
const MOST: i64 = 1_000_000;

/// A puzzle with its known solution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Puzzle {
    /// Sorted.
    pub numbers: Vec<i64>,
    pub target: i64,
    /// Makes the target and uses every number.
    pub expression: String,
}

impl Puzzle {
    /// The puzzle number `index` of a level under this chance. `level` is clamped to 1..=[`MAX_LEVEL`].
    pub fn at(level: u32, index: u64, chance: &Chance) -> Self {
        let level = level.clamp(1, MAX_LEVEL);
        Self::draw(level, &mut chance.at("countdown", &[u64::from(level), index]))
    }
    fn draw(level: u32, draws: &mut Draws) -> Self {
        let (largest, most) = match level {
            1 => (99, 999),
            2 => (20, 99),
            3 => (25, 199),
            4 => (50, 499),
            _ => (100, 999),
        };
        loop {
            let mut numbers: Vec<i64> = (0..=level).map(|_| draws.between(1, largest)).collect();
            let Term { value: target, text: expression, .. } = joined(&numbers, draws);
            if target <= most && !easy(&numbers, target) {
                numbers.sort_unstable();
                return Self { numbers, target, expression };
            }
        }
    }
    /// `3,5,7,8=48`.
    pub fn canonical(&self) -> String {
        format!("{}={}", self.listed(","), self.target)
    }
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
        }
    }
    /// What a careless player tries first: the numbers joined to something else, or an expression that cannot be read.
    pub fn mistake(&self, draws: &mut Draws) -> String {
        let tries = if draws.below(2) == 0 { 0 } else { 100 };
        let other = (0..tries).map(|_| joined(&self.numbers, draws)).find(|term| term.value != self.target);
        other.map_or_else(|| broken(&self.expression, draws), |term| term.text)
    }
    fn listed(&self, between: &str) -> String {
        self.numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(between)
    }
}

/// What has been joined so far.
struct Term {
    value: i64,
    text: String,
    /// How tightly it holds together: 0 a sum or difference, 1 a product or quotient, 2 a number.
    rank: u8,
}

impl Term {
    /// In parentheses unless it holds at least so tightly.
    fn within(&self, rank: u8) -> String {
        if self.rank < rank { format!("({})", self.text) } else { self.text.clone() }
    }
}

/// All numbers joined in an order and by signs that chance picks. `numbers` must not be empty.
fn joined(numbers: &[i64], draws: &mut Draws) -> Term {
    let mut terms: Vec<Term> = numbers.iter().map(|n| Term { value: *n, text: n.to_string(), rank: 2 }).collect();
    while terms.len() > 1 {
        let left = terms.swap_remove(draws.below(terms.len() as u64) as usize);
        let right = terms.swap_remove(draws.below(terms.len() as u64) as usize);
        terms.push(join(&left, &right, draws));
    }
    terms.swap_remove(0)
}

fn join(left: &Term, right: &Term, draws: &mut Draws) -> Term {
    let (a, b) = (left.value, right.value);
    let mut possible = vec![('+', a + b)];
    if a > b {
        possible.push(('-', a - b));
    }
    if a * b <= MOST {
        possible.push(('*', a * b));
    }
    if b > 1 && a % b == 0 {
        possible.push(('/', a / b));
    }
    let (sign, value) = *draws.choose(&possible);
    let (rank, behind) = match sign {
        '+' => (0, 0),
        '-' => (0, 1),
        '*' => (1, 1),
        _ => (1, 2),
    };
    Term { value, text: format!("{}{sign}{}", left.within(rank), right.within(behind)), rank }
}

/// Whether one number, or two of three and more, make the target.
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
