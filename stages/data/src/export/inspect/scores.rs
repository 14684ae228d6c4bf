//! Converts the verdict and the rewards of a trajectory to scores of Inspect.

use crate::export::omissions::ExportOmissions;
use trainyard_tables::{AnswerCheck, OrderedValue, Trajectory};

/// Name of the score of a verdict.
const CORRECT: &str = "correct";
/// Name of the score of the weighted sum of the components.
const REWARD: &str = "reward";

/// Returns the scores of a row by name, the verdict first. Rewards that are no numbers are counted.
pub fn scores(row: &Trajectory, omissions: &mut ExportOmissions) -> OrderedValue {
    let rewarded = !row.rewards.is_empty() || row.reward != 0.0;
    let sum = rewarded.then(|| (REWARD.to_string(), row.reward));
    let components = row.rewards.iter().map(|(name, value)| (component_name(name), *value));
    let rewards: Vec<(String, f64)> = sum.into_iter().chain(components).collect();
    let unwritten = rewards.iter().filter(|(_, value)| !value.is_finite()).count();
    omissions.add("rewards that are not finite", unwritten);
    let verdict = row.answer_check.as_ref().map(|check| (CORRECT.to_string(), verdict(check, row.answer.as_deref())));
    let rewards = rewards.into_iter().filter(|(_, value)| value.is_finite());
    let rewards = rewards.map(|(name, value)| (name, OrderedValue::object([("value", OrderedValue::Float(value))])));
    OrderedValue::Object(verdict.into_iter().chain(rewards).collect())
}

/// Returns the name of a component's score, which differs from those of the verdict and the sum.
fn component_name(name: &str) -> String {
    if [CORRECT, REWARD].contains(&name) { format!("reward_{name}") } else { name.to_string() }
}

fn verdict(check: &AnswerCheck, answer: Option<&str>) -> OrderedValue {
    let expected = &check.expected;
    let explanation = match (&check.extracted, &check.unreadable) {
        (Some(extracted), _) => format!("expected `{expected}`, extracted `{extracted}`"),
        (None, Some(reason)) => format!("expected `{expected}`, no readable answer: {reason}"),
        (None, None) => format!("expected `{expected}`, no readable answer"),
    };
    OrderedValue::object([("value", if check.correct { "C" } else { "I" }.into())])
        .with("answer", check.extracted.as_deref().or(answer).map(OrderedValue::from))
        .with("explanation", Some(explanation.into()))
        .with("metadata", Some(OrderedValue::object([("verifier", check.verifier.as_str().into())])))
}
