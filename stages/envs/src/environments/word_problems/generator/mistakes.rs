//! Programs as a careless agent would write them first: each is one slip away from the reference.
//!
//! A slip shows in what the tool returns: an exception, a fraction, or an amount that no story allows. Only when no such slip is
//! possible is a wrong operation left that the result alone does not give away. They are run for real when demonstrations are
//! made, so their results are the tool's own.

use super::draw::{Operation, Story};
use super::program_lines;
use trainyard_core::chance::Draws;

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mistake {
    /// A line uses a name that does not exist: NameError.
    UnknownName,
    /// A line cannot be read: SyntaxError; nothing ran.
    Syntax,
    /// A line computes something else.
    WrongOperation,
}

/// One program that a demonstrator sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub lines: Vec<String>,
    /// None = the reference.
    pub mistake: Option<Mistake>,
}

/// A mistaken program; two of five are unknown names, two syntax slips, one a wrong operation.
pub fn mistaken(story: &Story, draws: &mut Draws) -> Attempt {
    let mistake = match draws.below(5) {
        0 | 1 => Mistake::UnknownName,
        2 | 3 => Mistake::Syntax,
        _ => Mistake::WrongOperation,
    };
    let mut lines = program_lines(story);
    match mistake {
        Mistake::UnknownName => unknown_name(&mut lines, draws),
        Mistake::Syntax => syntax(&mut lines, draws),
        Mistake::WrongOperation => wrong_operation(story, &mut lines, draws),
    }
    Attempt { lines, mistake: Some(mistake) }
}

/// `y+=7`, or `y` at the end.
fn unknown_name(lines: &mut [String], draws: &mut Draws) {
    let at = 1 + draws.below(lines.len() as u64 - 1) as usize;
    let name = *draws.choose(&["y", "n", "a"]);
    lines[at] = lines[at].replacen('x', name, 1);
}

/// A doubled or missing sign, or a stray parenthesis, on any line but the last.
fn syntax(lines: &mut [String], draws: &mut Draws) {
    let at = draws.below(lines.len() as u64 - 1) as usize;
    let line = &lines[at];
    lines[at] = match draws.below(3) {
        0 => line.replacen('=', "==+=", 1),
        1 => format!("{line})"),
        _ => format!("{line}+"),
    };
}

/// One step with another operation; if possible one whose result cannot be an amount.
fn wrong_operation(story: &Story, lines: &mut [String], draws: &mut Draws) {
    let amounts = story.amounts();
    let shows = |at: usize| {
        let step = story.steps[at];
        match step.operation {
            // A float shows itself at the end.
            Operation::Divide => Some("/"),
            // A negative amount stays negative only if nothing large is added later; the last step is safe.
            Operation::Add if at + 1 == story.steps.len() && step.number > amounts[at] => Some("-"),
            _ => None,
        }
    };
    let telling: Vec<(usize, &str)> = (0..story.steps.len()).filter_map(|at| shows(at).map(|sign| (at, sign))).collect();
    let (at, sign) = if telling.is_empty() {
        let at = draws.below(story.steps.len() as u64) as usize;
        let sign = match story.steps[at].operation {
            Operation::Add => "-",
            Operation::Subtract | Operation::Multiply | Operation::Divide => "+",
        };
        (at, sign)
    } else {
        *draws.choose(&telling)
    };
    lines[at + 1] = format!("x{sign}={}", story.steps[at].number);
}
