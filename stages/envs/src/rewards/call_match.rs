//! Implements the reward `call_match`: graded agreement of the first turn's calls with the gold calls, from ToolRL
//! (arXiv 2504.13958, section 3.3).
//!
//! A nearly correct call earns more than an unrelated one. [`crate::calls`] documents the formula.

use crate::calls::{self, equal, gold_calls};
use crate::rewards::format::turn_is_formed;
use crate::rewards::reward::agent_turns;
use crate::rewards::{GroupView, Reward, Score};
use crate::tools::ToolCall;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{OptionProblem, Result, above};
use trainyard_tables::{Problem, StopReason, Trajectory};

/// How agreement is graded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Granularity {
    /// Tool names, parameter names and values each count.
    Fine,
    /// All or nothing: the calls are equal or they are not.
    Exact,
}

/// Options of the reward `call_match`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CallMatchOptions {
    /// How agreement is graded.
    pub granularity: Granularity,
    /// Value added for a well-formed turn, whatever it calls.
    #[schemars(range(min = 0))]
    pub format: f64,
    /// Value of equal calls; calls with nothing in common get its negative. Above 0.
    #[schemars(range(min = 0))]
    pub scale: f64,
}

impl Default for CallMatchOptions {
    fn default() -> Self {
        Self { granularity: Granularity::Fine, format: 1.0, scale: 3.0 }
    }
}

impl PartOptions for CallMatchOptions {
    const KIND: &'static str = "call_match";
    const SUMMARY: &'static str = "graded agreement of the first turn's calls with the gold calls";
    const DOC: &'static str = "value = format·[the turn is well formed] + graded, for the first turn only:\n\
        granularity `fine`: graded = scale·(2·S/S_max − 1), which is 6·S/S_max − 3 for scale 3;\n\
        granularity `exact`: graded = scale if the calls are equal in any order, else −scale (the paper's coarse\n\
        ablation);\n\
        value = −scale if the turn is malformed or cut off: its calls are not read.\n\n\
        S = |names(P) ∩ names(G)| / |names(P) ∪ names(G)| + the largest sum over pairings of\n\
        |keys(g) ∩ keys(p)| / |keys(g) ∪ keys(p)| + the number of equal values, 0 where the tools differ;\n\
        S_max = 1 + Σ_g (1 + |keys(g)|). G are the gold and P the predicted calls, names as multisets.\n\n\
        The gold calls are the problem's verifier data,\n\
        `{\"kind\": \"calls\", \"gold\": [{\"name\": …, \"arguments\": {…}}]}`; with an empty list, a turn\n\
        without a call is right. In [−scale, scale + format]. Does not apply to problems without gold calls or to\n\
        records without messages. Source: 2504.13958.";
    fn check(&self) -> Vec<OptionProblem> {
        let problems = [
            OptionProblem::out_of_range("/format", self.format, 0.0..),
            OptionProblem::out_of_range("/scale", self.scale, above(0.0)),
        ];
        problems.into_iter().flatten().collect()
    }
}

pub struct CallMatchReward(pub CallMatchOptions);

impl CallMatchReward {
    fn graded(&self, predicted: &[ToolCall], gold: &[ToolCall]) -> f64 {
        let scale = self.0.scale;
        match self.0.granularity {
            Granularity::Exact if equal(predicted, gold) => scale,
            Granularity::Exact => -scale,
            Granularity::Fine => {
                let (s, maximum) = calls::score(predicted, gold);
                scale * (2.0 * s / maximum - 1.0)
            }
        }
    }
}

impl Reward for CallMatchReward {
    fn score(&self, r: &Trajectory, p: &Problem, _g: &GroupView<'_>) -> Result<Score> {
        let turns = agent_turns(r, p);
        let (Some(gold), Some((at, first))) = (gold_calls(&p.verifier), turns.first()) else {
            return Ok(Score::not_applicable());
        };
        let cut = turns.len() == 1 && r.stop_reason == StopReason::Length;
        let predicted = match first.tool_calls.as_deref() {
            _ if cut || !turn_is_formed(&r.messages, *at) => None,
            None => Some(Vec::new()),
            Some(text) => calls::read(text),
        };
        Ok(Score::of(match predicted {
            None => -self.0.scale,
            Some(predicted) => self.0.format + self.graded(&predicted, &gold),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewards::kit::{answer, called, calling, episode};
    use crate::rewards::reward::score_alone;
    use serde_json::{Value, json};

    fn gold() -> Problem {
        let gold =
            json!([{"name": "get", "arguments": {"city": "Paris", "days": 3}}, {"name": "now", "arguments": {}}]);
        Problem { verifier: json!({"kind": "calls", "gold": gold}).to_string(), ..Problem::default() }
    }

    fn call(name: &str, arguments: Value) -> ToolCall {
        ToolCall { name: name.to_string(), arguments }
    }

    fn value(granularity: Granularity, calls: &[ToolCall]) -> f64 {
        let options = CallMatchOptions { granularity, ..CallMatchOptions::default() };
        score_alone(&CallMatchReward(options), &episode(&[vec![calling(calls)]]), &gold()).value.unwrap()
    }

    #[test]
    fn granularity_is_fine_or_exact() {
        let (get, now) = (call("get", json!({"city": "Paris", "days": 3})), call("now", json!({})));
        // S: names 1/2, parameter names 1/3, one value; S_max = 5.
        let near = [call("get", json!({"city": "Paris", "unit": "C"}))];
        assert!((value(Granularity::Fine, &near) - (1.0 + 6.0 * (0.5 + 1.0 / 3.0 + 1.0) / 5.0 - 3.0)).abs() < 1e-12);
        assert_eq!(value(Granularity::Exact, &near), -2.0);
        for granularity in [Granularity::Fine, Granularity::Exact] {
            assert_eq!(value(granularity, &[now.clone(), get.clone()]), 4.0, "equal calls in any order");
            assert_eq!(value(granularity, &[call("put", json!({}))]), -2.0, "nothing in common");
        }
        let scaled = CallMatchOptions { format: 0.5, scale: 1.0, ..CallMatchOptions::default() };
        let r = episode(&[vec![calling(&[get, now])]]);
        assert_eq!(score_alone(&CallMatchReward(scaled), &r, &gold()).value, Some(1.5));
    }

    #[test]
    fn only_the_first_turn_counts_and_malformed_ones_get_the_minimum() {
        let reward = CallMatchReward(CallMatchOptions::default());
        let score = |r: &Trajectory| score_alone(&reward, r, &gold()).value;
        // Names 1/2 of a sum of 5, parameters of `now` 1: S = 3/2.
        let right_later = episode(&[called(&["now"]), called(&["get", "now"]), answer("7")]);
        assert!((score(&right_later).unwrap() - (1.0 + 6.0 * 1.5 / 5.0 - 3.0)).abs() < 1e-12);
        assert_eq!(score(&episode(&[answer("no call at all")])), Some(-2.0));
        let mut broken = episode(&[called(&["now"]), answer("7")]);
        broken.messages[0].content.push_str("<tool_call>{");
        assert_eq!(score(&broken), Some(-3.0));
        let cut = Trajectory { stop_reason: StopReason::Length, ..episode(&[answer("I would call")]) };
        assert_eq!(score(&cut), Some(-3.0));
        assert_eq!(score(&Trajectory::default()), None);
        assert_eq!(score_alone(&reward, &episode(&[answer("7")]), &Problem::default()).value, None);
    }

    #[test]
    fn turn_without_calls_matches_an_empty_gold_list() {
        let p = Problem { verifier: r#"{"kind":"calls","gold":[]}"#.to_string(), ..Problem::default() };
        let reward = CallMatchReward(CallMatchOptions::default());
        assert_eq!(score_alone(&reward, &episode(&[answer("I have no tool for that")]), &p).value, Some(4.0));
        assert_eq!(score_alone(&reward, &episode(&[called(&["now"])]), &p).value, Some(-2.0));
    }

    #[test]
    fn options_out_of_range_are_rejected() {
        assert_eq!(CallMatchOptions::default().check(), []);
        let bad = CallMatchOptions { format: -1.0, scale: 0.0, ..CallMatchOptions::default() };
        assert_eq!(bad.check().iter().map(|p| p.pointer.as_str()).collect::<Vec<_>>(), ["/format", "/scale"]);
    }
}
