//! Writes mistaken programs for demonstrations, each one slip away from the reference.
//!
//! Every slip is one that the tool reports. After a plain result, an agent without the answer cannot know that its
//! program was incorrect; fine-tuning, which does not imitate failed turns, would then teach the incorrect program and
//! a second one after any result. The programs really run when demonstrations are made, so the error messages are
//! authentic.

use super::story::{Story, program_lines};
use trainyard_core::chance::PhiloxRng;

/// The kind of a slip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mistake {
    /// A line uses an undefined name: NameError.
    UnknownName,
    /// A line does not parse: SyntaxError, and nothing runs.
    Syntax,
}

/// A program that a demonstration sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramAttempt {
    pub lines: Vec<String>,
    /// Kind of the mistake; `None` = the reference.
    pub mistake: Option<Mistake>,
}

/// Returns a mistaken program: an unknown name or a syntax slip, equally likely.
pub fn mistaken(story: &Story, draws: &mut PhiloxRng) -> ProgramAttempt {
    let mut lines = program_lines(story);
    let mistake = if draws.below(2) == 0 {
        unknown_name(&mut lines, draws);
        Mistake::UnknownName
    } else {
        syntax(&mut lines, draws);
        Mistake::Syntax
    };
    ProgramAttempt { lines, mistake: Some(mistake) }
}

/// Writes `y+=7` instead of `x+=7`, or a final `y`.
fn unknown_name(lines: &mut [String], draws: &mut PhiloxRng) {
    let at = 1 + draws.below(lines.len() as u64 - 1) as usize;
    let name = *draws.choose(&["y", "n", "a"]);
    lines[at] = lines[at].replacen('x', name, 1);
}

/// Inserts a garbled sign, a trailing operator or a stray parenthesis on any line but the last.
fn syntax(lines: &mut [String], draws: &mut PhiloxRng) {
    let at = draws.below(lines.len() as u64 - 1) as usize;
    let line = &lines[at];
    lines[at] = match draws.below(3) {
        0 => line.replacen('=', "==+=", 1),
        1 => format!("{line})"),
        _ => format!("{line}+"),
    };
}
