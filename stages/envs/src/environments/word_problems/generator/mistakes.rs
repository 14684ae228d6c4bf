//! Programs as a careless agent would write them first: each is one slip away from the reference.
//!
//! Why so: only slips that the tool reports are made. After a plain result an agent without the answer cannot know that its program
//! was wrong, and fine-tuning, which leaves failed turns out of what it imitates, would teach the wrong program and a second one after
//! any result. They are run for real when demonstrations are made, so the messages are the tool's own.

use super::story::{Story, program_lines};
use trainyard_core::chance::Draws;

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mistake {
    /// A line uses a name that does not exist: NameError.
    UnknownName,
    /// A line cannot be read: SyntaxError; nothing ran.
    Syntax,
}

/// One program that a demonstrator sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub lines: Vec<String>,
    /// None = the reference.
    pub mistake: Option<Mistake>,
}

/// A mistaken program; one half are unknown names, the other syntax slips.
pub fn mistaken(story: &Story, draws: &mut Draws) -> Attempt {
    let mut lines = program_lines(story);
    let mistake = if draws.below(2) == 0 {
        unknown_name(&mut lines, draws);
        Mistake::UnknownName
    } else {
        syntax(&mut lines, draws);
        Mistake::Syntax
    };
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
