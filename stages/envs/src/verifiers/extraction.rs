//! Extracts an answer from a text that is not itself the answer, such as `It is 0 degrees in Bergen.`
//!
//! An answer is marked by `####` or `\boxed{}`, else by a phrase (`Answer: 7`, `the answer is 7`), else by quotation
//! marks, backticks or bold type. A verifier of numbers also accepts the only number of the text. If two different
//! answers are equally well marked, none is extracted.

use super::extract::{BOXED, braced};
use super::literals::literals;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the answer is found in a text that is not itself the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Extraction {
    /// The marked answer or the only number; texts with several different ones are unreadable.
    #[default]
    Auto,
    /// As `auto`, but the last of several different numbers is the answer.
    LastNumber,
    /// The text as a whole.
    None,
}

impl Extraction {
    /// Returns whether this is the default.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Form of the answers of a verifier, which determines how they are found in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerForm {
    /// The text as a whole, as the environment read it.
    Whole,
    /// A text in a syntax that [`super::Verifier::reads`] recognizes, whole or marked.
    Marked,
    /// A number, whole, marked, or the only one in a text.
    Number,
    /// Words, whole or marked.
    Words,
}

/// Result of an extraction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extracted {
    /// The answer.
    Found(String),
    /// No answer in the text.
    Absent,
    /// Several different answers: the reason in words.
    Ambiguous(String),
}

/// Functions of a verifier that an extraction needs.
pub struct Comparison<'a> {
    /// Returns whether a text has the form of an answer.
    pub reads: &'a dyn Fn(&str) -> bool,
    /// Returns whether two answers are equal.
    pub equal: &'a dyn Fn(&str, &str) -> bool,
}

impl Comparison<'_> {
    /// Returns the answer that all candidates agree on.
    fn agreed(&self, what: &str, candidates: &[String]) -> Extracted {
        let Some(first) = candidates.first() else { return Extracted::Absent };
        match candidates.iter().find(|other| !(self.equal)(first, other)) {
            None => Extracted::Found(first.clone()),
            Some(other) => Extracted::Ambiguous(format!("different {what}: {first}, {other}")),
        }
    }
    /// Returns the only number of a text.
    fn only_number(&self, text: &str) -> Extracted {
        let numbers: Vec<String> = literals(text).into_iter().map(str::to_string).collect();
        match numbers.iter().find(|number| !(self.reads)(number)) {
            Some(odd) => Extracted::Ambiguous(format!("`{odd}` is not a number that can be compared")),
            None => self.agreed("numbers", &numbers),
        }
    }
    /// Returns a marked text if it has the form of an answer, else its only number if numbers are compared.
    fn candidate(&self, form: AnswerForm, marked: &str) -> Option<String> {
        let marked = marked.trim();
        if !marked.is_empty() && (self.reads)(marked) {
            return Some(marked.to_string());
        }
        match (form, self.only_number(marked)) {
            (AnswerForm::Number, Extracted::Found(number)) => Some(number),
            _ => None,
        }
    }
}

/// Extracts the answer of this form from a text.
pub fn extract(text: &str, form: AnswerForm, extraction: Extraction, comparison: &Comparison<'_>) -> Extracted {
    for marks in [boxed, phrases, quotations] {
        let candidates: Vec<String> =
            marks(text).into_iter().filter_map(|marked| comparison.candidate(form, marked)).collect();
        match comparison.agreed("marked answers", &candidates) {
            Extracted::Absent => {}
            found => return found,
        }
    }
    if form != AnswerForm::Number {
        return Extracted::Absent;
    }
    match comparison.only_number(text) {
        Extracted::Ambiguous(_) if extraction == Extraction::LastNumber => {
            let last = literals(text).into_iter().rfind(|number| (comparison.reads)(number));
            last.map_or(Extracted::Absent, |number| Extracted::Found(number.to_string()))
        }
        found => found,
    }
}

/// Returns whether a text is a sentence or several lines, rather than words that name something.
pub fn is_prose(text: &str) -> bool {
    let text = text.trim();
    text.contains('\n') || text.ends_with(['.', '!', '?']) && text.split_whitespace().count() >= 4
}

/// Returns the texts after `####` and in `\boxed{}`.
fn boxed(text: &str) -> Vec<&str> {
    let after = text.match_indices("####").filter_map(|(at, mark)| text[at + mark.len()..].lines().next());
    let inside = text.match_indices(BOXED).filter_map(|(at, mark)| braced(&text[at + mark.len()..]));
    after.chain(inside).collect()
}

/// Returns the texts after `Answer:` and `the answer is`, up to the end of the line; an empty rest means the next line
/// that is not blank.
fn phrases(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    while let Some(line) = lines.next() {
        match after_phrase(line) {
            Some("") => found.extend(lines.peek().copied().map(undecorated)),
            Some(rest) => found.push(rest),
            None => {}
        }
    }
    found
}

/// Returns the rest of a line after its last `answer:` or `answer is`, in any case.
fn after_phrase(line: &str) -> Option<&str> {
    const WORD: &str = "answer";
    // ASCII folding keeps the positions.
    let folded = line.to_ascii_lowercase();
    let at = folded.rfind(WORD)?;
    if folded[..at].ends_with(char::is_alphanumeric) {
        return None;
    }
    let rest = line[at + WORD.len()..].trim_start_matches(['*', '_', ' ']);
    let rest = match rest.strip_prefix(':') {
        Some(rest) => rest,
        None => {
            let verb = rest.get(..2).filter(|verb| verb.eq_ignore_ascii_case("is"))?;
            let rest = &rest[verb.len()..];
            let rest = rest.strip_prefix(':').unwrap_or(rest);
            if rest.starts_with(char::is_alphanumeric) {
                return None;
            }
            rest
        }
    };
    Some(undecorated(rest))
}

/// Removes bold type, quotation marks and the period at the end of a sentence.
fn undecorated(text: &str) -> &str {
    let around = |c: char| c.is_whitespace() || matches!(c, '*' | '_' | '`' | '"' | '“' | '”');
    let text = text.trim_matches(around);
    let last_word = text.rsplit(char::is_whitespace).next().unwrap_or(text);
    let text = match text.strip_suffix(['.', '!']) {
        // The period of an abbreviation (`U.S.`) belongs to the answer.
        Some(before) if last_word.matches('.').count() <= 1 => before,
        _ => text,
    };
    text.trim_matches(around)
}

/// Returns the texts in double quotation marks, backticks and bold type.
fn quotations(text: &str) -> Vec<&str> {
    const MARKS: [(&str, &str); 4] = [("\"", "\""), ("“", "”"), ("`", "`"), ("**", "**")];
    let mut found = Vec::new();
    for (open, close) in MARKS {
        let mut rest = text;
        while let Some((_, after)) = rest.split_once(open)
            && let Some((inside, after)) = after.split_once(close)
        {
            found.push(undecorated(inside));
            rest = after;
        }
    }
    found.retain(|inside| !inside.is_empty());
    found
}
