//! Implements the reward `pattern`: whether a regular expression matches the text of an episode.

use crate::rewards::{GroupView, Reward, Score};
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use trainyard_api::PartOptions;
use trainyard_core::{Error, OptionProblem, Result};
use trainyard_tables::{Problem, Trajectory};

/// Text to match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum EpisodeTextSource {
    /// The final answer as the environment read it.
    #[default]
    Answer,
    /// The agent's last message.
    LastMessage,
    /// All messages, each after its role and a line feed.
    Conversation,
}

impl EpisodeTextSource {
    /// Returns the text of an episode, if any.
    pub fn text(self, r: &Trajectory) -> Option<Cow<'_, str>> {
        match self {
            Self::Answer => r.answer.as_deref().map(Cow::Borrowed),
            Self::LastMessage => {
                let last = r.messages.iter().rfind(|m| m.role == "assistant");
                last.map(|m| Cow::Borrowed(m.content.as_str()))
            }
            Self::Conversation if r.messages.is_empty() => None,
            Self::Conversation => {
                Some(Cow::Owned(r.messages.iter().map(|m| format!("{}\n{}\n", m.role, m.content)).collect()))
            }
        }
    }
}

/// Options of the reward `pattern`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PatternOptions {
    /// Regular expression. May match anywhere in the text; `^` and `$` anchor it to the ends.
    pub pattern: String,
    /// Text to match.
    pub of: EpisodeTextSource,
    /// Reward if the expression matches.
    pub matches: f64,
    /// Reward if the expression does not match, or the text is absent.
    pub otherwise: f64,
}

impl Default for PatternOptions {
    fn default() -> Self {
        Self { pattern: String::new(), of: EpisodeTextSource::Answer, matches: 1.0, otherwise: 0.0 }
    }
}

impl PartOptions for PatternOptions {
    const KIND: &'static str = "pattern";
    const SUMMARY: &'static str = "whether a regular expression matches the text of the episode";
    const DOC: &'static str = "value = `matches` if the regular expression `pattern` matches somewhere in the text,\n\
        else `otherwise`. The text is the final answer, the agent's last message or the whole conversation (`of`).\n\
        The syntax is that of Rust's crate `regex`, which supports neither look-around nor back-references, so that\n\
        every pattern takes time in proportion to the text: `(?i)` ignores case, `(?s)` lets `.` match line feeds.";
    fn check(&self) -> Vec<OptionProblem> {
        let wrong = compiled(&self.pattern).err().map(|error| {
            let problem = OptionProblem::new("/pattern", error.message);
            error.help.into_iter().fold(problem, OptionProblem::help)
        });
        let numbers = [("/matches", self.matches), ("/otherwise", self.otherwise)];
        wrong.into_iter().chain(numbers.iter().filter_map(|(at, n)| OptionProblem::not_finite(*at, *n))).collect()
    }
}

/// Compiles a regular expression. Errors: invalid, with the problem.
pub fn compiled(pattern: &str) -> Result<Regex> {
    let help = "write for example `pattern: '^[0-9]+$'`";
    if pattern.is_empty() {
        return Err(Error::invalid("`pattern` is empty").help(help));
    }
    Regex::new(pattern).map_err(|e| {
        // The last line describes the error; those above show its position.
        let words = e.to_string();
        let last = words.lines().last().unwrap_or_default().trim_start_matches("error: ").to_string();
        Error::invalid(format!("`{pattern}` is not a regular expression: {last}")).help(help)
    })
}

pub struct PatternReward {
    options: PatternOptions,
    regex: Regex,
}

impl PatternReward {
    /// Returns the reward. Errors: invalid, if the pattern is not a regular expression.
    pub fn new(options: PatternOptions) -> Result<Self> {
        let regex = compiled(&options.pattern)?;
        Ok(Self { options, regex })
    }
}

impl Reward for PatternReward {
    fn score(&self, r: &Trajectory, _p: &Problem, _g: &GroupView<'_>) -> Result<Score> {
        let found = self.options.of.text(r).is_some_and(|text| self.regex.is_match(&text));
        Ok(Score::of(if found { self.options.matches } else { self.options.otherwise }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewards::kit::{answer, called, episode};
    use crate::rewards::reward::score_alone;

    #[test]
    fn pattern_is_matched_with_the_chosen_text() {
        let mut r = episode(&[called(&["search"]), answer("The answer is 42.")]);
        r.answer = Some("42".to_string());
        let value = |pattern: &str, of| {
            let options = PatternOptions { pattern: pattern.to_string(), of, matches: 2.0, otherwise: -1.0 };
            score_alone(&PatternReward::new(options).unwrap(), &r, &Problem::default()).value
        };
        assert_eq!(value("^[0-9]+$", EpisodeTextSource::Answer), Some(2.0));
        assert_eq!(value("^[0-9]+$", EpisodeTextSource::LastMessage), Some(-1.0));
        assert_eq!(value("(?i)ANSWER", EpisodeTextSource::LastMessage), Some(2.0));
        assert_eq!(value("done", EpisodeTextSource::Conversation), Some(2.0));
        assert_eq!(value("done", EpisodeTextSource::LastMessage), Some(-1.0));
        let options = PatternOptions { pattern: ".".to_string(), ..PatternOptions::default() };
        let silent = Trajectory::default();
        assert_eq!(score_alone(&PatternReward::new(options).unwrap(), &silent, &Problem::default()).value, Some(0.0));
    }

    #[test]
    fn invalid_options_are_rejected() {
        for pattern in ["", "(", "(?=a)", "a{1000000000}"] {
            let bad = PatternOptions { pattern: pattern.to_string(), ..PatternOptions::default() };
            assert_eq!(bad.check()[0].pointer, "/pattern", "{pattern}");
            assert!(!bad.check()[0].message.contains('\n'));
        }
        let bad = PatternOptions { pattern: "a".into(), matches: f64::NAN, ..PatternOptions::default() };
        assert_eq!(bad.check()[0].pointer, "/matches");
    }
}
