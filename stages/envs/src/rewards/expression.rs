//! Implements the reward `expression`, which one line of text computes from the counts of an episode.

use crate::rewards::count::{EpisodeCounts, Formula, parse};
use crate::rewards::{GroupView, Reward, Score};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{Error, OptionProblem, Result};
use trainyard_tables::{Problem, Trajectory};

/// Options of the reward `expression`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExpressionOptions {
    /// Expression, such as `correct - 0.01 * tool_calls`.
    pub value: String,
}

impl Default for ExpressionOptions {
    fn default() -> Self {
        Self { value: "correct".to_string() }
    }
}

impl PartOptions for ExpressionOptions {
    const KIND: &'static str = "expression";
    const SUMMARY: &'static str = "a formula over counts of the episode";
    const DOC: &'static str = "value = the expression `value`, such as `correct - 0.01 * tool_calls` or\n\
        `if(correct, max(0.5, 1 - turns / 10), 0)`. It names\n\n\
        `correct` (1 if the answer is right, else 0), `answered` (1 if there is an answer), `tool_calls`,\n\
        `tool_errors`, `turns`, `tokens` (that the policy sampled), `level` (of the problem) and `step` (of the run,\n\
        from 0).\n\n\
        It is the language of `${{ … }}` over numbers: `+ - * / %`, comparisons (`< <= > >= == !=`, which are 1 or\n\
        0), `&&`, `||`, `!` (or `and`, `or`, `not`; `not` applies to a whole comparison), and the functions\n\
        `abs(a)`, `if(condition, then, else)`, `max(a, …)`, `min(a, …)`, `sqrt(a)`. A value that is not finite,\n\
        as after a division by zero, ends the stage.";
    fn check(&self) -> Vec<OptionProblem> {
        let problem =
            |words| OptionProblem::new("/value", words).help("write for example `correct - 0.01 * tool_calls`");
        parse(&self.value).err().map(problem).into_iter().collect()
    }
}

pub struct ExpressionReward {
    options: ExpressionOptions,
    formula: Formula,
}

impl ExpressionReward {
    /// Returns the reward. Errors: invalid, if the expression does not parse.
    pub fn new(options: ExpressionOptions) -> Result<Self> {
        let formula = parse(&options.value).map_err(Error::invalid)?;
        Ok(Self { options, formula })
    }
}

impl Reward for ExpressionReward {
    fn score(&self, r: &Trajectory, p: &Problem, g: &GroupView<'_>) -> Result<Score> {
        let truth = |holds: bool| f64::from(u8::from(holds));
        let tokens = r.loss_mask.iter().filter(|sampled| **sampled).count() as f64;
        let counts = [p.level, r.tool_calls, r.tool_errors, r.turns].map(f64::from);
        let [level, tool_calls, tool_errors, turns] = counts;
        let (answered, correct) = (truth(r.answer.is_some()), truth(g.right(r, p)));
        let step = g.step as f64;
        let counts = EpisodeCounts([answered, correct, level, step, tokens, tool_calls, tool_errors, turns]);
        let value = self.formula.evaluate(&counts)?;
        if value.is_finite() {
            return Ok(Score::of(value));
        }
        Err(Error::data(format!("`{}` is {value} for episode `{}`", self.options.value, r.id))
            .help("write an expression that is always finite, such as `if(turns > 0, 1 / turns, 0)`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewards::count::NAMES;
    use crate::rewards::reward::score_alone;

    fn reward(value: &str) -> ExpressionReward {
        ExpressionReward::new(ExpressionOptions { value: value.to_string() }).unwrap()
    }

    #[test]
    fn names_evaluate_to_their_counts() {
        let r = Trajectory {
            answer: Some("7".to_string()),
            loss_mask: vec![false, true, true],
            tool_calls: 5,
            tool_errors: 7,
            turns: 11,
            ..Trajectory::default()
        };
        let p = Problem { answer: "7".to_string(), level: 3, ..Problem::default() };
        for (name, expected) in NAMES.iter().zip([1.0, 1.0, 3.0, 0.0, 2.0, 5.0, 7.0, 11.0]) {
            assert_eq!(score_alone(&reward(name), &r, &p).value, Some(expected), "{name}");
        }
        let wrong = Trajectory { answer: None, ..r };
        assert_eq!(score_alone(&reward("correct + answered"), &wrong, &p).value, Some(0.0));
    }

    #[test]
    fn an_infinite_value_is_an_error_of_the_episode() {
        let r = Trajectory { id: "rl/0/p/1".to_string(), ..Trajectory::default() };
        let g = GroupView { step: 0, steps: 1, members: &[&r], correct: &[true], earlier: &[] };
        let error = reward("1 / turns").score(&r, &Problem::default(), &g).unwrap_err();
        assert!(error.message.contains("`1 / turns` is inf for episode `rl/0/p/1`"), "{error}");
    }

    #[test]
    fn invalid_expressions_are_rejected() {
        assert_eq!(ExpressionOptions::default().check(), []);
        let bad = ExpressionOptions { value: "corect".to_string() };
        assert_eq!(bad.check()[0].pointer, "/value");
        assert!(ExpressionReward::new(bad).is_err());
    }
}
