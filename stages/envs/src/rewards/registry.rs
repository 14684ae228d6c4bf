//! All rewards of this build: one line each, sorted; and their weighted sum.

use crate::options::{PartKind, find, part, read};
use crate::rewards::{Reward, answer, format, length, tool_success};
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::{Error, OptionProblem, Result};
use trainyard_tables::{Problem, Trajectory};

type Build = fn(&Value) -> Result<Box<dyn Reward>>;

/// Every reward, by name.
pub fn kinds() -> Vec<PartKind<Build>> {
    vec![
        part::<answer::AnswerOptions, Build>("1 if the final answer is right", |o| Ok(Box::new(answer::Answer(read(o)?)))),
        part::<format::FormatOptions, Build>("1 if every turn is well formed", |o| Ok(Box::new(format::Format(read(o)?)))),
        part::<length::LengthOptions, Build>("a penalty that grows near the length limit", |o| Ok(Box::new(length::Length(read(o)?)))),
        part::<tool_success::ToolSuccessOptions, Build>("the share of tool calls without an error", |o| {
            Ok(Box::new(tool_success::ToolSuccess(read(o)?)))
        }),
    ]
}

/// A reward with its weight in the sum: the entry `{kind: format, weight: 0.1, …}` of a config.
pub struct WeightedReward {
    pub weight: f64,
    pub reward: Box<dyn Reward>,
}

/// Splits `weight` (1 if absent) from a reward's own options.
fn split_weight(options: &Value) -> Result<(f64, Value)> {
    let mut own = options.clone();
    let weight = own.as_object_mut().and_then(|map| map.remove("weight"));
    let weight = match weight {
        None => 1.0,
        Some(value) => value.as_f64().ok_or_else(|| Error::invalid("the weight of a reward must be a number"))?,
    };
    Ok((weight, own))
}

/// Builds one entry of the list `rewards`.
pub fn build(options: &Value) -> Result<WeightedReward> {
    let (weight, own) = split_weight(options)?;
    let kinds = kinds();
    let reward = (find("reward", &kinds, &own)?.build)(&own)?;
    Ok(WeightedReward { weight, reward })
}

/// One entry with all defaults filled in.
pub fn complete(options: &Value) -> Result<Value> {
    let (weight, own) = split_weight(options)?;
    let kinds = kinds();
    let mut whole = (find("reward", &kinds, &own)?.complete)(&own)?;
    whole["weight"] = Value::from(weight);
    Ok(whole)
}

/// Everything wrong with one entry; pointers are relative to it.
pub fn check(options: &Value) -> Vec<OptionProblem> {
    let kinds = kinds();
    let (own, mut problems) = match split_weight(options) {
        Ok((_, own)) => (own, Vec::new()),
        Err(e) => {
            let mut own = options.clone();
            own.as_object_mut().map(|map| map.remove("weight"));
            (own, vec![OptionProblem::new("/weight", e.message)])
        }
    };
    match find("reward", &kinds, &own) {
        Ok(kind) => problems.extend((kind.check)(&own)),
        Err(e) => problems.push(OptionProblem { pointer: "/kind".to_string(), message: e.message, help: e.help }),
    }
    problems
}

/// The reward of one episode: every component by name, their weighted sum, and the weighted sum per agent turn (empty if no
/// component scores turns). Components that do not apply are left out of all three.
pub fn score(rewards: &[WeightedReward], r: &Trajectory, p: &Problem) -> (BTreeMap<String, f64>, f64, Vec<f64>) {
    let mut components = BTreeMap::new();
    let mut total = 0.0;
    let mut turns: Vec<f64> = Vec::new();
    for WeightedReward { weight, reward } in rewards {
        let score = reward.score(r, p);
        if let Some(value) = score.value {
            components.insert(reward.name().to_string(), value);
            total += weight * value;
        }
        if turns.len() < score.per_turn.len() {
            turns.resize(score.per_turn.len(), 0.0);
        }
        for (sum, value) in turns.iter_mut().zip(&score.per_turn) {
            *sum += weight * value;
        }
    }
    (components, total, turns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use trainyard_tables::StopReason;

    #[test]
    fn names_are_sorted_and_every_entry_completes_and_builds() {
        let kinds = kinds();
        assert!(kinds.iter().map(|k| k.name).collect::<Vec<_>>().is_sorted());
        for kind in kinds {
            let options = json!({"kind": kind.name});
            let whole = complete(&options).unwrap();
            assert_eq!(complete(&whole).unwrap(), whole);
            assert_eq!(whole["weight"], json!(1.0));
            assert_eq!(build(&whole).unwrap().reward.name(), kind.name);
            assert_eq!(check(&whole), []);
            assert!((kind.schema)().is_object());
        }
    }

    #[test]
    fn mistakes_in_an_entry_are_all_reported() {
        assert_eq!(check(&json!({"kind": "answer", "weight": "x", "colour": 1})).len(), 2);
        assert_eq!(check(&json!({"kind": "beauty"}))[0].pointer, "/kind");
        assert!(build(&json!({"kind": "answer", "colour": 1})).is_err());
        assert!(build(&json!({"weight": 2})).is_err());
    }

    #[test]
    fn the_sum_is_weighted_and_components_are_kept() {
        let rewards = [build(&json!({"kind": "answer"})).unwrap(), build(&json!({"kind": "format", "weight": 0.5})).unwrap()];
        let p = Problem { answer: "7".to_string(), ..Problem::default() };
        let message = trainyard_tables::Message::new("assistant", "7");
        let r =
            Trajectory { answer: Some("7".to_string()), stop_reason: StopReason::Answer, messages: vec![message], ..Trajectory::default() };
        let (components, total, turns) = score(&rewards, &r, &p);
        assert_eq!(components, BTreeMap::from([("answer".to_string(), 1.0), ("format".to_string(), 1.0)]));
        assert_eq!(total, 1.5);
        assert_eq!(turns, [0.5]);
    }
}
