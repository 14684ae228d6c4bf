//! Cuts the surroundings of a match out of a text, on one line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Maximum characters before a match.
const BEFORE: usize = 40;
/// Maximum characters of the shown match.
const FOUND: usize = 80;
/// Maximum characters after a match.
const AFTER: usize = 60;
/// Mark of left-out text.
const CUT: char = '…';

/// Match in a message with the text around it; white space is reduced to single spaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Excerpt {
    /// Text before the match.
    pub before: String,
    /// Text that matches.
    pub found: String,
    /// Text after the match.
    pub after: String,
}

impl Excerpt {
    /// Returns the excerpt of a match.
    pub(super) fn of(text: &str, range: Range<usize>) -> Self {
        let (before, after) = (&text[..range.start], &text[range.end..]);
        // White space may shrink, so some more characters are looked at, but never a whole long message.
        let start = before.char_indices().rev().take(4 * BEFORE).last().map_or(before.len(), |(at, _)| at);
        let tail: Vec<char> = one_line(&before[start..]).chars().collect();
        let from = tail.len().saturating_sub(BEFORE);
        let is_cut = from > 0 || start > 0;
        Self {
            before: is_cut.then_some(CUT).into_iter().chain(tail[from..].iter().copied()).collect(),
            found: beginning(&text[range], FOUND),
            after: beginning(after, AFTER),
        }
    }
}

/// Returns the beginning of a text on one line.
fn beginning(text: &str, max: usize) -> String {
    let end = text.char_indices().nth(4 * max).map_or(text.len(), |(at, _)| at);
    let line = one_line(&text[..end]);
    let is_cut = end < text.len() || line.chars().count() > max;
    line.chars().take(max).chain(is_cut.then_some(CUT)).collect()
}

/// Replaces each run of white space by one space.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_whitespace() {
            true if line.ends_with(' ') => {}
            true => line.push(' '),
            false => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(text: &str, found: &str) -> [String; 3] {
        let start = text.find(found).unwrap();
        let Excerpt { before, found, after } = Excerpt::of(text, start..start + found.len());
        [before, found, after]
    }

    #[test]
    fn excerpts_are_one_bounded_line() {
        assert_eq!(excerpt("a match\n\n  here\tand on", "here"), ["a match ", "here", " and on"]);
        assert_eq!(excerpt("here", "here"), ["", "here", ""]);
        let long = format!("{}here{}", "ä".repeat(500), "ö".repeat(500));
        let [before, found, after] = excerpt(&long, "here");
        assert_eq!(before, format!("…{}", "ä".repeat(BEFORE)));
        assert_eq!((found.as_str(), after), ("here", format!("{}…", "ö".repeat(AFTER))));
        let wide = "x".repeat(10_000);
        assert_eq!(excerpt(&wide, &wide)[1], format!("{}…", "x".repeat(FOUND)));
        let spaced = format!("a{}b", " ".repeat(1000));
        assert_eq!(excerpt(&spaced, "b"), ["… ", "b", ""]);
    }
}
