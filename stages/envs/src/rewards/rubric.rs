//! Implements the reward `rubric`: the share of a checklist that an episode fulfills, after RuscaRL (arXiv 2508.16949).
//!
//! In the paper, a model judges the criteria; here, a rule looks for lines of the reference. The rule is exact and
//! cheap, but fits only references whose lines an agent would write itself (programs, equations), not prose.

use crate::calls;
use crate::rewards::reward::agent_turns;
use crate::rewards::{GroupView, Reward, Score};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use trainyard_api::PartOptions;
use trainyard_core::{OptionProblem, Result};
use trainyard_tables::{Message, Problem, Trajectory};

/// Options of the reward `rubric`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RubricOptions {
    /// Points of each line of the reference.
    #[schemars(range(min = 0))]
    pub line_points: f64,
    /// Points of the right answer.
    #[schemars(range(min = 0))]
    pub answer_points: f64,
}

impl Default for RubricOptions {
    fn default() -> Self {
        Self { line_points: 1.0, answer_points: 1.0 }
    }
}

impl PartOptions for RubricOptions {
    const KIND: &'static str = "rubric";
    const SUMMARY: &'static str = "share of the reference's lines found in the episode, plus the answer";
    const DOC: &'static str = "value = points of the fulfilled criteria / points of all criteria.\n\n\
        Each distinct line of the problem's `reference` is a criterion worth `line_points`; the right answer is one\n\
        worth `answer_points`. A line is fulfilled if it occurs in one of the agent's turns or in a text argument of\n\
        its calls. Case, white space and GSM8K's `<<…>>` annotations are ignored. A match must not be part of a\n\
        longer word or number (`x+=7` is not in `x+=70`). GSM8K's line `####` holds the answer and is not a\n\
        criterion.\n\n\
        In [0, 1]. Does not apply to records without messages or to problems where no criterion has points. The paper\n\
        judges criteria by a model; this rule needs references made of lines that an agent would write.\n\
        Source: 2508.16949.";
    fn check(&self) -> Vec<OptionProblem> {
        let named = [("/line_points", self.line_points), ("/answer_points", self.answer_points)];
        let mut problems: Vec<OptionProblem> =
            named.into_iter().filter_map(|(at, points)| OptionProblem::out_of_range(at, points, 0.0..)).collect();
        if self.line_points == 0.0 && self.answer_points == 0.0 {
            problems.push(
                OptionProblem::new("", "no criterion has any points")
                    .help("give line_points or answer_points a value above 0"),
            );
        }
        problems
    }
}

pub struct RubricReward(pub RubricOptions);

/// Returns the text in lower case with single spaces, without annotations.
fn folded(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once("<<") {
        let Some((_, after)) = inside.split_once(">>") else { break };
        plain.push_str(before);
        rest = after;
    }
    plain.push_str(rest);
    plain.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// Returns the distinct lines of the reference, folded, without empty lines and the line of the answer.
fn criteria(p: &Problem) -> BTreeSet<String> {
    let lines = p.reference.as_deref().unwrap_or_default().lines().map(folded);
    lines.filter(|line| !line.is_empty() && !line.starts_with("####")).collect()
}

/// Returns the agent's texts: each turn and each string among its call arguments.
fn texts(turns: &[(usize, &Message)]) -> Vec<String> {
    let mut found = Vec::new();
    for (_, turn) in turns {
        found.push(folded(&turn.content));
        for call in turn.tool_calls.as_deref().and_then(calls::read).unwrap_or_default() {
            strings(&call.arguments, &mut found);
        }
    }
    found
}

fn strings(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(folded(text)),
        Value::Array(list) => list.iter().for_each(|v| strings(v, found)),
        Value::Object(map) => map.values().for_each(|v| strings(v, found)),
        _ => {}
    }
}

/// Returns whether a line occurs in a text, other than as a part of a longer word or number.
fn contains_whole(line: &str, text: &str) -> bool {
    let mut from = 0;
    while let Some(at) = text[from..].find(line).map(|found| from + found) {
        if !joined(&text[..at], line) && !joined(line, &text[at + line.len()..]) {
            return true;
        }
        from = at + text[at..].chars().next().map_or(1, char::len_utf8);
    }
    false
}

/// Returns whether the boundary between two texts is inside a word or number.
fn joined(left: &str, right: &str) -> bool {
    let (mut before, mut after) = (left.chars().rev(), right.chars());
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    match (before.next(), after.next()) {
        (Some(a), Some(b)) if a.is_alphanumeric() && b.is_alphanumeric() => true,
        // `1` and `.5`, or `1.` and `5`: the point belongs to a number.
        (Some(a), Some('.' | ',')) => a.is_ascii_digit() && digit(after.next()),
        (Some('.' | ','), Some(b)) => b.is_ascii_digit() && digit(before.next()),
        _ => false,
    }
}

impl Reward for RubricReward {
    fn score(&self, r: &Trajectory, p: &Problem, g: &GroupView<'_>) -> Result<Score> {
        let turns = agent_turns(r, p);
        let (lines, texts) = (criteria(p), texts(&turns));
        let all = self.0.line_points * lines.len() as f64 + self.0.answer_points;
        if turns.is_empty() || all == 0.0 {
            return Ok(Score::not_applicable());
        }
        let fulfilled = lines.iter().filter(|line| texts.iter().any(|text| contains_whole(line, text))).count();
        let answer = if g.right(r, p) { self.0.answer_points } else { 0.0 };
        let points = self.0.line_points * fulfilled as f64 + answer;
        Ok(Score::of(points / all))
    }
}

#[cfg(test)]
#[path = "rubric_tests.rs"]
mod tests;
