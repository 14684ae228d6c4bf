//! Implements the rule `repetition`: the limits on repeated lines, paragraphs and n-grams of Gopher's training data
//! (Rae et al. 2021, arXiv 2112.11446, table A1).

use crate::filter::judged_text::{JudgedText, each_text};
use crate::filter::limits::{above, not_shares};
use crate::filter::repeats::{PartRepeats, Repeats};
use crate::filter::rule::{FilterRule, RuleColumns, RuleContext, RulePass, RuleVerdict};
use memchr::memchr_iter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{OptionProblem, Result};

/// Rejects rows that repeat themselves. Each limit is a share of the text; `null` turns it off.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RepetitionRule {
    /// Text that is judged.
    pub of: JudgedText,
    /// Lines that equal an earlier line, of all lines.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub duplicate_lines: Option<f64>,
    /// Paragraphs that equal an earlier paragraph, of all paragraphs.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub duplicate_paragraphs: Option<f64>,
    /// Characters of lines that equal an earlier line.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub duplicate_line_characters: Option<f64>,
    /// Characters of paragraphs that equal an earlier paragraph.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub duplicate_paragraph_characters: Option<f64>,
    /// Characters of the most frequent two words in a row.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub top_2_gram: Option<f64>,
    /// Characters of the most frequent three words in a row.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub top_3_gram: Option<f64>,
    /// Characters of the most frequent four words in a row.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub top_4_gram: Option<f64>,
    /// Characters of five words in a row that came before.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub duplicate_5_grams: Option<f64>,
    /// Characters of six words in a row that came before.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub duplicate_6_grams: Option<f64>,
    /// Characters of seven words in a row that came before.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub duplicate_7_grams: Option<f64>,
    /// Characters of eight words in a row that came before.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub duplicate_8_grams: Option<f64>,
    /// Characters of nine words in a row that came before.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub duplicate_9_grams: Option<f64>,
    /// Characters of ten words in a row that came before.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub duplicate_10_grams: Option<f64>,
}

impl Default for RepetitionRule {
    fn default() -> Self {
        Self {
            of: JudgedText::default(),
            duplicate_lines: Some(0.3),
            duplicate_paragraphs: Some(0.3),
            duplicate_line_characters: Some(0.2),
            duplicate_paragraph_characters: Some(0.2),
            top_2_gram: Some(0.2),
            top_3_gram: Some(0.18),
            top_4_gram: Some(0.16),
            duplicate_5_grams: Some(0.15),
            duplicate_6_grams: Some(0.14),
            duplicate_7_grams: Some(0.13),
            duplicate_8_grams: Some(0.12),
            duplicate_9_grams: Some(0.11),
            duplicate_10_grams: Some(0.1),
        }
    }
}

/// Length of the first n-grams with a limit.
const SHORTEST: usize = 2;
/// Length from which on all repeated n-grams count, not only the most frequent one.
const DUPLICATES: usize = 5;

impl RepetitionRule {
    fn part_limits(&self) -> [(&'static str, Option<f64>); 4] {
        [
            ("duplicate_lines", self.duplicate_lines),
            ("duplicate_line_characters", self.duplicate_line_characters),
            ("duplicate_paragraphs", self.duplicate_paragraphs),
            ("duplicate_paragraph_characters", self.duplicate_paragraph_characters),
        ]
    }

    /// Returns the limits of n-grams by length, from [`SHORTEST`] on.
    fn gram_limits(&self) -> [(&'static str, Option<f64>); 9] {
        [
            ("top_2_gram", self.top_2_gram),
            ("top_3_gram", self.top_3_gram),
            ("top_4_gram", self.top_4_gram),
            ("duplicate_5_grams", self.duplicate_5_grams),
            ("duplicate_6_grams", self.duplicate_6_grams),
            ("duplicate_7_grams", self.duplicate_7_grams),
            ("duplicate_8_grams", self.duplicate_8_grams),
            ("duplicate_9_grams", self.duplicate_9_grams),
            ("duplicate_10_grams", self.duplicate_10_grams),
        ]
    }

    /// Returns the rejection of a text by the first limit that it exceeds.
    fn rejection(&self, repeats: &mut Repeats, text: &str) -> Option<RuleVerdict> {
        let characters = text.chars().count() as f64;
        let rejection = self.part_rejection(repeats, text, characters);
        rejection.or_else(|| self.gram_rejection(repeats, text, characters))
    }

    fn part_rejection(&self, repeats: &mut Repeats, text: &str, characters: f64) -> Option<RuleVerdict> {
        let feeds = memchr_iter(b'\n', text.as_bytes()).count();
        // A single line repeats no other.
        if feeds == 0 {
            return None;
        }
        let [of_lines, in_lines, of_paragraphs, in_paragraphs] = self.part_limits();
        let exceeded = |found: PartRepeats, of_parts: (&'static str, Option<f64>), in_parts: (_, Option<f64>)| {
            above(of_parts.0, found.repeated as f64 / found.parts as f64, of_parts.1)
                .or_else(|| above(in_parts.0, found.characters as f64 / characters, in_parts.1))
        };
        let found = repeats.of_parts(lines(text), feeds + 1);
        exceeded(found, of_lines, in_lines).or_else(|| {
            let found = repeats.of_parts(paragraphs(text), feeds + 1);
            exceeded(found, of_paragraphs, in_paragraphs)
        })
    }

    fn gram_rejection(&self, repeats: &mut Repeats, text: &str, characters: f64) -> Option<RuleVerdict> {
        let limits = self.gram_limits();
        let used = limits.iter().rposition(|(_, limit)| limit.is_some())? + 1;
        repeats.start(text);
        for (n, (code, limit)) in (SHORTEST..).zip(&limits[..used]) {
            repeats.lengthen();
            if repeats.is_empty() {
                return None;
            }
            if limit.is_some() {
                let repeated = if n < DUPLICATES { repeats.top() } else { repeats.duplicates() };
                let rejection = above(code, repeated as f64 / characters, *limit);
                if rejection.is_some() {
                    return rejection;
                }
            }
        }
        None
    }
}

/// Returns the lines that are not blank, without white space at their ends.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

/// Returns the paragraphs, without white space at their ends.
fn paragraphs(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        if rest.is_empty() {
            return None;
        }
        let (paragraph, after) = rest.split_at(blank_line(rest).unwrap_or(rest.len()));
        rest = after;
        Some(paragraph.trim_end())
    })
}

/// Returns the place of the first line feed that a blank line follows.
fn blank_line(text: &str) -> Option<usize> {
    let is_blank = |next: &str| next.split_once('\n').is_some_and(|(line, _)| line.trim().is_empty());
    memchr_iter(b'\n', text.as_bytes()).find(|at| is_blank(&text[at + 1..]))
}

impl PartOptions for RepetitionRule {
    const KIND: &'static str = "repetition";
    const SUMMARY: &'static str = "rejects texts that repeat lines, paragraphs or phrases";
    const DOC: &'static str = "Rejects rows whose text (`of`: the conversation, the question, the agent's messages)\n\
        repeats itself, by the measures and limits of Gopher's training data (arXiv 2112.11446, table A1). Each limit\n\
        is a share, which may be reached but not exceeded; `null` turns it off. Lines and paragraphs are compared\n\
        without white space at their ends; blank ones do not count. A duplicate equals an earlier one; the first does\n\
        not count. Words are runs of letters and digits in lower case. A phrase of n words reaches from the first\n\
        character of its first word to the last of its last. `top_N_gram` is the share of the text's characters in\n\
        all occurrences of the most frequent phrase of N words, if it occurs more than once; `duplicate_N_grams` is\n\
        the share in all phrases of N words that equal an earlier one. Where phrases overlap, a character counts\n\
        once. The limits were chosen for web pages: among fewer than fifty words two that occur twice may exceed\n\
        `top_2_gram`; set it to null for short texts, and use `of: answer` where answers quote the question. The\n\
        reason is the name of the limit; the detail has the value.";
    fn check(&self) -> Vec<OptionProblem> {
        not_shares(&[&self.part_limits()[..], &self.gram_limits()].concat())
    }
}

impl FilterRule for RepetitionRule {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn columns(&self) -> RuleColumns {
        RuleColumns::named(&["messages"])
    }
    fn start<'a>(&'a self, _: &'a RuleContext<'a>) -> Result<Box<dyn RulePass + 'a>> {
        let judge = |repeats: &mut Repeats, text: &str| self.rejection(repeats, text).unwrap_or(RuleVerdict::Keep);
        Ok(each_text(self.of, Repeats::default, judge))
    }
}

#[cfg(test)]
#[path = "repetition_tests.rs"]
mod tests;
