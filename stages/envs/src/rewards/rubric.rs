//! `rubric`: the share of a checklist that an episode fulfills, the form of RuscaRL's reward (arXiv 2508.16949), judged by rule.
//!
//! Why so: in the paper a judge model decides about each criterion. Here a rule does: it is exact and cheap, but it rewards the
//! reference's words only, so it fits references whose lines are what an agent would write (programs, equations), not free prose.
//! Refuses: a judge model; credit for meaning.

use crate::calls;
use crate::rewards::reward::own_turns;
use crate::rewards::{GroupView, Reward, Score};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;
use trainyard_tables::{Message, Problem, Trajectory};

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
    const SUMMARY: &'static str = "the share of the reference's lines that occur, and of the answer";
    const DOC: &'static str = "value = points of the fulfilled criteria / points of all. The criteria are the different lines of the problem's `reference`, each worth\n\
        `line_points`, and the right answer, worth `answer_points`. A line is fulfilled if its text stands in one of the agent's turns or in a text\n\
        argument of its calls. Case, white space and GSM8K's `<<…>>` annotations do not matter; a line must not be a part of a longer word or\n\
        number there (`x+=7` is not in `x+=70`). The line `####` of GSM8K is the answer, not a criterion.\n\n\
        Dimensionless, in [0, 1]. Not applicable to records without messages and to problems without a criterion that has points. The paper's\n\
        criteria are judged by a model; here a rule judges, so references should be lines that an agent would write. Source: 2508.16949.";
    fn check(&self) -> Vec<OptionProblem> {
        let named = [("/line_points", self.line_points), ("/answer_points", self.answer_points)];
        let mut problems: Vec<OptionProblem> =
            named.into_iter().filter_map(|(at, points)| OptionProblem::outside(at, points, 0.0..)).collect();
        if self.line_points == 0.0 && self.answer_points == 0.0 {
            problems.push(
                OptionProblem::new("", "no criterion has points")
                    .help("give line_points or answer_points a value above 0"),
            );
        }
        problems
    }
}

pub struct Rubric(pub RubricOptions);

/// Lower case, words joined by single spaces, annotations left out.
fn folded(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once("<<") {
        let Some((_, after)) = inside.split_once(">>") else { break };
        kept.push_str(before);
        rest = after;
    }
    kept.push_str(rest);
    kept.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// The different lines of the reference.
fn criteria(p: &Problem) -> BTreeSet<String> {
    let lines = p.reference.as_deref().unwrap_or_default().lines().map(folded);
    lines.filter(|line| !line.is_empty() && !line.starts_with("####")).collect()
}

/// The agent's texts: each turn, and each text among the arguments of its calls.
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

/// Whether a line stands in a text as more than a part of a longer word or number.
fn stands_in(line: &str, text: &str) -> bool {
    let mut from = 0;
    while let Some(at) = text[from..].find(line).map(|found| from + found) {
        if !joined(&text[..at], line) && !joined(line, &text[at + line.len()..]) {
            return true;
        }
        from = at + text[at..].chars().next().map_or(1, char::len_utf8);
    }
    false
}

/// Whether the border between two texts lies inside of a word or number.
fn joined(left: &str, right: &str) -> bool {
    let (mut before, mut after) = (left.chars().rev(), right.chars());
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    match (before.next(), after.next()) {
        (Some(a), Some(b)) if a.is_alphanumeric() && b.is_alphanumeric() => true,
        // `1` and `.5`, `1.` and `5`: the point belongs to a number.
        (Some(a), Some('.' | ',')) => a.is_ascii_digit() && digit(after.next()),
        (Some('.' | ','), Some(b)) => b.is_ascii_digit() && digit(before.next()),
        _ => false,
    }
}

impl Reward for Rubric {
    fn name(&self) -> &str {
        RubricOptions::KIND
    }
    fn score(&self, r: &Trajectory, p: &Problem, g: &GroupView<'_>) -> Score {
        let turns = own_turns(r, p);
        let (lines, texts) = (criteria(p), texts(&turns));
        let all = self.0.line_points * lines.len() as f64 + self.0.answer_points;
        if turns.is_empty() || all == 0.0 {
            return Score::not_applicable();
        }
        let fulfilled = lines.iter().filter(|line| texts.iter().any(|text| stands_in(line, text))).count();
        let answer = if g.right(r, p) { self.0.answer_points } else { 0.0 };
        let points = self.0.line_points * fulfilled as f64 + answer;
        Score::of(points / all)
    }
}

#[cfg(test)]
#[path = "rubric_tests.rs"]
mod tests;
