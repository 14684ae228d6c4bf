//! The sentences: a start, operations, distractors, a question.
//!
//! Sentences are terse, because a character-level model pays for every letter. Names and things are not part of the canonical
//! form: the same numbers told of somebody else are the same problem.

use std::fmt::Write as _;
use trainyard_core::chance::Draws;

/// One change of the quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Operation {
    const ALL: [Self; 4] = [Self::Add, Self::Subtract, Self::Multiply, Self::Divide];

    /// Python's operator; the division is exact.
    pub fn python(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "//",
        }
    }
    fn apply(self, x: u64, n: u64) -> u64 {
        match self {
            Self::Add => x + n,
            Self::Subtract => x - n,
            Self::Multiply => x * n,
            Self::Divide => x / n,
        }
    }
    /// `{P}` is the person, `{n}` the number.
    fn forms(self) -> &'static [&'static str] {
        match self {
            Self::Add => &["{P} buys {n}.", "{P} finds {n} more.", "{P} gets {n}."],
            Self::Subtract => &["{P} eats {n}.", "{P} gives away {n}.", "{P} loses {n}."],
            Self::Multiply => &["Now it is {n} times as much.", "It grows {n} times."],
            Self::Divide => &["{P} keeps one of {n} equal parts.", "It is split by {n}."],
        }
    }
}

const NAMES: [&str; 8] = ["Ann", "Bob", "Eve", "Ian", "Kim", "Leo", "Mia", "Sam"];
const THINGS: [&str; 8] = ["figs", "nuts", "pens", "eggs", "cups", "toys", "keys", "pins"];
const STARTS: [&str; 2] = ["{P} has {n} {t}.", "{P} starts with {n} {t}."];
const DISTRACTORS: [&str; 3] = ["{O} has {n} {u}.", "{O} is {n}.", "A bag costs {n}."];
const QUESTIONS: [&str; 3] = ["How many?", "How many {t} now?", "How many are left?"];

/// Values never grow beyond this.
const MOST: u64 = 99_999;

/// What a level is made of.
struct Shape {
    operations: usize,
    /// Largest start and largest number added or subtracted.
    numbers: u64,
    /// Probability of a distractor before each operation.
    distraction: f64,
}

impl Shape {
    fn of(level: u32) -> Self {
        let (numbers, distraction) = match level {
            1 => (99, 0.0),
            2 => (199, 0.0),
            3 => (499, 0.2),
            4 => (999, 0.2),
            _ => (2999, 0.25),
        };
        Self { operations: level as usize, numbers, distraction }
    }
}

/// A problem before it becomes a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Story {
    pub text: String,
    pub start: u64,
    pub operations: Vec<(Operation, u64)>,
    pub answer: u64,
    /// Template numbers, operations and numbers in order; names and things left out.
    pub canonical: String,
}

/// Who and what a story is about.
struct Cast {
    person: &'static str,
    other: &'static str,
    thing: &'static str,
    other_thing: &'static str,
}

impl Cast {
    fn draw(draws: &mut Draws) -> Self {
        let (mut names, mut things) = (NAMES, THINGS);
        draws.shuffle(&mut names);
        draws.shuffle(&mut things);
        Self { person: names[0], other: names[1], thing: things[0], other_thing: things[1] }
    }
    fn tell(&self, form: &str, n: u64) -> String {
        let text = form.replace("{P}", self.person).replace("{O}", self.other).replace("{t}", self.thing).replace("{u}", self.other_thing);
        text.replace("{n}", &n.to_string())
    }
}

impl Story {
    pub(super) fn draw(level: u32, draws: &mut Draws) -> Self {
        let (shape, cast) = (Shape::of(level), Cast::draw(draws));
        let start = draws.between(10, shape.numbers as i64) as u64;
        let form = draws.below(STARTS.len() as u64) as usize;
        let mut text = cast.tell(STARTS[form], start);
        let mut canonical = format!("s{form}:{start}");
        let (mut value, mut operations) = (start, Vec::with_capacity(shape.operations));
        for _ in 0..shape.operations {
            if draws.uniform() < shape.distraction {
                let (form, n) = (draws.below(DISTRACTORS.len() as u64) as usize, draws.between(2, shape.numbers as i64) as u64);
                let _ = write!(canonical, "|d{form}:{n}");
                text = format!("{text} {}", cast.tell(DISTRACTORS[form], n));
            }
            let (operation, n) = draw_operation(value, &shape, draws);
            let form = draws.below(operation.forms().len() as u64) as usize;
            let _ = write!(canonical, "|{}{form}:{n}", operation.python());
            text = format!("{text} {}", cast.tell(operation.forms()[form], n));
            value = operation.apply(value, n);
            operations.push((operation, n));
        }
        let question = draws.below(QUESTIONS.len() as u64) as usize;
        let _ = write!(canonical, "|q{question}");
        text = format!("{text} {}", cast.tell(QUESTIONS[question], 0));
        Self { text, start, operations, answer: value, canonical }
    }
}

/// An operation that keeps the value a positive integer within bounds. Adding is always possible.
fn draw_operation(value: u64, shape: &Shape, draws: &mut Draws) -> (Operation, u64) {
    loop {
        let operation = *draws.choose(&Operation::ALL);
        let number = match operation {
            Operation::Add => Some(draws.between(2, shape.numbers as i64) as u64),
            Operation::Subtract => (value > 3).then(|| draws.between(2, (value - 1).min(shape.numbers) as i64) as u64),
            Operation::Multiply => Some(draws.between(2, 9) as u64).filter(|n| value * n <= MOST),
            Operation::Divide => {
                let divisors: Vec<u64> = (2..=9).filter(|n| value.is_multiple_of(*n) && value / n > 1).collect();
                (!divisors.is_empty()).then(|| *draws.choose(&divisors))
            }
        };
        if let Some(n) = number
            && operation.apply(value, n) <= MOST
        {
            return (operation, n);
        }
    }
}
