//! Implements the rule `symbols`: the limits on words, symbols and lines of Gopher's training data (Rae et al. 2021,
//! arXiv 2112.11446, section A.1.1).

use crate::filter::judged_text::{JudgedText, each_text};
use crate::filter::limits::{above, below, not_shares};
use crate::filter::rule::{FilterRule, RuleColumns, RuleContext, RulePass, RuleVerdict};
use crate::filter::symbol_counts::SymbolCounts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{OptionProblem, Result};

/// Rejects rows whose words, symbols or lines are not those of prose. `null` turns a limit off.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SymbolsRule {
    /// Text that is judged.
    pub of: JudgedText,
    /// Least number of characters.
    pub min_characters: Option<u64>,
    /// Greatest number of characters.
    pub max_characters: Option<u64>,
    /// Least number of words.
    pub min_words: Option<u64>,
    /// Greatest number of words.
    pub max_words: Option<u64>,
    /// Least mean number of characters of a word.
    #[schemars(range(min = 0.0))]
    pub min_word_length: Option<f64>,
    /// Greatest mean number of characters of a word.
    #[schemars(range(min = 0.0))]
    pub max_word_length: Option<f64>,
    /// Most symbols `#` per word.
    #[schemars(range(min = 0.0))]
    pub max_hashes: Option<f64>,
    /// Most ellipses (`...` or `…`) per word.
    #[schemars(range(min = 0.0))]
    pub max_ellipses: Option<f64>,
    /// Greatest share of lines that start with a bullet.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub max_bullet_lines: Option<f64>,
    /// Greatest share of lines that end with an ellipsis.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub max_ellipsis_lines: Option<f64>,
    /// Least share of words with a letter.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_alphabetic_words: Option<f64>,
    /// How many of the English words the, be, to, of, and, that, have, with must occur.
    #[schemars(range(min = 0, max = 8))]
    pub min_stop_words: Option<u64>,
}

impl Default for SymbolsRule {
    fn default() -> Self {
        Self {
            of: JudgedText::default(),
            min_characters: None,
            max_characters: None,
            min_words: Some(50),
            max_words: Some(100_000),
            min_word_length: Some(3.0),
            max_word_length: Some(10.0),
            max_hashes: Some(0.1),
            max_ellipses: Some(0.1),
            max_bullet_lines: Some(0.9),
            max_ellipsis_lines: Some(0.3),
            min_alphabetic_words: Some(0.8),
            min_stop_words: Some(2),
        }
    }
}

impl SymbolsRule {
    /// Returns the rejection of a text by the first limit that it does not keep.
    fn rejection(&self, text: &str) -> Option<RuleVerdict> {
        let counts = SymbolCounts::of(text);
        self.size_rejection(&counts)
            .or_else(|| self.word_rejection(&counts))
            .or_else(|| self.line_rejection(text))
            .or_else(|| below("few_stop_words", f64::from(counts.stop_words), real(self.min_stop_words)))
    }

    fn size_rejection(&self, counts: &SymbolCounts) -> Option<RuleVerdict> {
        let (characters, words) = (counts.characters as f64, counts.words as f64);
        below("too_few_characters", characters, real(self.min_characters))
            .or_else(|| above("too_many_characters", characters, real(self.max_characters)))
            .or_else(|| below("too_few_words", words, real(self.min_words)))
            .or_else(|| above("too_many_words", words, real(self.max_words)))
    }

    /// Compares ratios to the number of words; `None` for a text without words.
    fn word_rejection(&self, counts: &SymbolCounts) -> Option<RuleVerdict> {
        let per_word = |count: usize| count as f64 / counts.words as f64;
        if counts.words == 0 {
            return None;
        }
        below("short_words", per_word(counts.word_characters), self.min_word_length)
            .or_else(|| above("long_words", per_word(counts.word_characters), self.max_word_length))
            .or_else(|| above("hashes", per_word(counts.hashes), self.max_hashes))
            .or_else(|| above("ellipses", per_word(counts.ellipses), self.max_ellipses))
            .or_else(|| below("few_alphabetic_words", per_word(counts.alphabetic_words), self.min_alphabetic_words))
    }

    /// Compares shares of the lines that are not blank.
    fn line_rejection(&self, text: &str) -> Option<RuleVerdict> {
        let (mut lines, mut bullets, mut ellipses) = (0u32, 0u32, 0u32);
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            lines += 1;
            bullets += u32::from(starts_with_bullet(line));
            ellipses += u32::from(line.ends_with("...") || line.ends_with('…'));
        }
        let of_lines = |count: u32| f64::from(count) / f64::from(lines.max(1));
        above("bullet_lines", of_lines(bullets), self.max_bullet_lines)
            .or_else(|| above("ellipsis_lines", of_lines(ellipses), self.max_ellipsis_lines))
    }

    fn shares(&self) -> [(&'static str, Option<f64>); 3] {
        [
            ("max_bullet_lines", self.max_bullet_lines),
            ("max_ellipsis_lines", self.max_ellipsis_lines),
            ("min_alphabetic_words", self.min_alphabetic_words),
        ]
    }

    fn ratios(&self) -> [(&'static str, Option<f64>); 4] {
        [
            ("min_word_length", self.min_word_length),
            ("max_word_length", self.max_word_length),
            ("max_hashes", self.max_hashes),
            ("max_ellipses", self.max_ellipses),
        ]
    }
}

fn real(limit: Option<u64>) -> Option<f64> {
    limit.map(|limit| limit as f64)
}

/// Whether a line starts with a bullet, or with one of the marks of a list in Markdown and a space.
fn starts_with_bullet(line: &str) -> bool {
    line.starts_with(['•', '‣', '◦', '▪', '●', '⁃']) || ["- ", "* ", "+ "].iter().any(|mark| line.starts_with(mark))
}

impl PartOptions for SymbolsRule {
    const KIND: &'static str = "symbols";
    const SUMMARY: &'static str = "rejects texts with unusual lengths, symbols or lines";
    const DOC: &'static str = "Rejects rows whose text (`of`: the conversation, the question, the agent's messages)\n\
        is not within the limits of Gopher's training data (arXiv 2112.11446, section A.1.1), or not within\n\
        `min_characters` and `max_characters`. A limit may be reached; `null` turns it off. Words are what white\n\
        space separates, with their punctuation. Lines are those that are not blank. A bullet is one of • ‣ ◦ ▪ ● ⁃,\n\
        or `-`, `*` or `+` and a space. Stop words are compared without case and punctuation, and each counts once.\n\
        The defaults were chosen for English web pages. For chats set `min_words` to 1 or null, since good answers\n\
        are short, and `min_stop_words` to null; for languages other than English `min_stop_words` to null; for\n\
        languages without spaces between words `min_words`, `max_word_length` and `min_stop_words` to null and\n\
        `min_characters` instead; for mathematics and code `min_word_length` and `min_alphabetic_words` to null; for\n\
        answers in Markdown raise `max_hashes` and `max_bullet_lines`. Reasons: too_few_characters,\n\
        too_many_characters, too_few_words, too_many_words, short_words, long_words, hashes, ellipses,\n\
        few_alphabetic_words, bullet_lines, ellipsis_lines, few_stop_words; the detail has the value.";
    fn check(&self) -> Vec<OptionProblem> {
        let mut problems = not_shares(&self.shares());
        problems.extend(self.ratios().iter().filter_map(|(name, limit)| {
            limit.and_then(|limit| OptionProblem::out_of_range(format!("/{name}"), limit, 0.0..))
        }));
        let stop_words = self.min_stop_words.and_then(|n| OptionProblem::out_of_range("/min_stop_words", n, 0..=8));
        problems.extend(stop_words);
        problems.extend(reversed(
            ["characters", "words"],
            [self.min_characters, self.min_words],
            [self.max_characters, self.max_words],
        ));
        problems.extend(reversed(["word_length"], [self.min_word_length], [self.max_word_length]));
        problems
    }
}

/// Reports lower limits above their upper limits, by the names that `min_` and `max_` precede.
fn reversed<T: PartialOrd + std::fmt::Display, const N: usize>(
    names: [&str; N],
    low: [Option<T>; N],
    high: [Option<T>; N],
) -> Vec<OptionProblem> {
    let problem = |((name, low), high): ((&str, Option<T>), Option<T>)| {
        OptionProblem::reversed_bounds((&format!("/min_{name}"), low?), (&format!("/max_{name}"), high?))
    };
    names.into_iter().zip(low).zip(high).filter_map(problem).collect()
}

impl FilterRule for SymbolsRule {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn columns(&self) -> RuleColumns {
        RuleColumns::named(&["messages"])
    }
    fn start<'a>(&'a self, _: &'a RuleContext<'a>) -> Result<Box<dyn RulePass + 'a>> {
        let judge = |(): &mut (), text: &str| self.rejection(text).unwrap_or(RuleVerdict::Keep);
        Ok(each_text(self.of, || (), judge))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a rule with one limit, which it sets; all others are off.
    fn only(set: impl Fn(&mut SymbolsRule)) -> SymbolsRule {
        let mut rule = SymbolsRule {
            of: JudgedText::Conversation,
            min_characters: None,
            max_characters: None,
            min_words: None,
            max_words: None,
            min_word_length: None,
            max_word_length: None,
            max_hashes: None,
            max_ellipses: None,
            max_bullet_lines: None,
            max_ellipsis_lines: None,
            min_alphabetic_words: None,
            min_stop_words: None,
        };
        set(&mut rule);
        rule
    }

    /// Returns the rejection's code and detail, empty if the text is kept.
    fn judge(rule: &SymbolsRule, text: &str) -> String {
        match rule.rejection(text) {
            Some(RuleVerdict::Reject { code, detail }) => format!("{code}: {detail}"),
            _ => String::new(),
        }
    }

    fn default() -> SymbolsRule {
        SymbolsRule::default()
    }

    #[test]
    fn numbers_of_characters_and_words_by_hand() {
        let rule = only(|rule| (rule.min_characters, rule.max_characters) = (Some(2), Some(3)));
        assert_eq!(
            ["é", "éa", "éab", "éabc"].map(|text| judge(&rule, text)),
            ["too_few_characters: 1, at least 2", "", "", "too_many_characters: 4, at most 3"]
        );
        let rule = only(|rule| (rule.min_words, rule.max_words) = (default().min_words, default().max_words));
        assert_eq!(judge(&rule, &"a ".repeat(49)), "too_few_words: 49, at least 50");
        assert_eq!(judge(&rule, &"a\n".repeat(50)), "");
        assert_eq!(judge(&rule, &"a ".repeat(100_000)), "");
        assert_eq!(judge(&rule, &"a ".repeat(100_001)), "too_many_words: 100001, at most 100000");
        assert_eq!(judge(&default(), ""), "too_few_words: 0, at least 50");
        assert_eq!(judge(&only(|rule| rule.max_hashes = Some(0.0)), ""), "");
    }

    #[test]
    fn ratios_of_words_by_hand() {
        let (low, high) = (default().min_word_length, default().max_word_length);
        let rule = only(|rule| (rule.min_word_length, rule.max_word_length) = (low, high));
        assert_eq!(judge(&rule, "ab abcd"), "");
        assert_eq!(judge(&rule, "ab abc"), "short_words: 2.5000, at least 3");
        assert_eq!(judge(&rule, "ééééééééé abcdefghijk"), "");
        assert_eq!(judge(&rule, "abcdefghij abcdefghijk"), "long_words: 10.5000, at most 10");
        let ten = "a b c d e f g h i j";
        let rule = only(|rule| rule.max_hashes = default().max_hashes);
        assert_eq!(judge(&rule, &format!("#{ten}")), "");
        assert_eq!(judge(&rule, &format!("#{ten}#")), "hashes: 0.2000, at most 0.1");
        let rule = only(|rule| rule.max_ellipses = default().max_ellipses);
        assert_eq!(judge(&rule, &format!("{ten}...")), "");
        assert_eq!(judge(&rule, &format!("a… {ten}...")), "ellipses: 0.1818, at most 0.1");
        let rule = only(|rule| rule.min_alphabetic_words = default().min_alphabetic_words);
        assert_eq!(judge(&rule, "a é 3rd 4-x 5"), "");
        assert_eq!(judge(&rule, "a é 3rd 4-5 5"), "few_alphabetic_words: 0.6000, at least 0.8");
    }

    #[test]
    fn shares_of_lines_by_hand() {
        let rule = only(|rule| rule.max_bullet_lines = default().max_bullet_lines);
        let nine = "- a\n* b\n+ c\n\n•d\n ‣ e\n◦ f\n▪ g\n● h\n⁃ i\n";
        assert_eq!(judge(&rule, &format!("{nine}-5 is no bullet")), "");
        assert_eq!(judge(&rule, &format!("{nine}**bold**")), "");
        assert_eq!(judge(&rule, &format!("{nine}- j")), "bullet_lines: 1, at most 0.9");
        let rule = only(|rule| rule.max_ellipsis_lines = default().max_ellipsis_lines);
        assert_eq!(judge(&rule, "a...\nb… \nc....\nd\ne\n\nf\ng\nh\ni\nj"), "");
        assert_eq!(judge(&rule, "a...\nb… \nc....\nd\ne\n\nf\ng\nh\ni"), "ellipsis_lines: 0.3333, at most 0.3");
    }

    #[test]
    fn stop_words_count_once_each() {
        let rule = only(|rule| rule.min_stop_words = default().min_stop_words);
        assert_eq!(judge(&rule, "The cat and a dog."), "");
        assert_eq!(judge(&rule, "THE end, (with) it"), "");
        assert_eq!(judge(&rule, "the cat, the other dog"), "few_stop_words: 1, at least 2");
    }

    #[test]
    fn wrong_limits_are_named() {
        let rule = SymbolsRule {
            min_words: Some(9),
            max_words: Some(8),
            min_word_length: Some(11.0),
            max_hashes: Some(-1.0),
            max_bullet_lines: Some(2.0),
            min_stop_words: Some(9),
            ..default()
        };
        let pointers: Vec<String> = rule.check().into_iter().map(|problem| problem.pointer).collect();
        assert_eq!(pointers, ["/max_bullet_lines", "/max_hashes", "/min_stop_words", "/min_words", "/min_word_length"]);
        assert_eq!(default().check().len(), 0);
    }
}
