//! Implements the reward `answer`: whether the final answer is correct.

use crate::rewards::{GroupView, Reward, Score};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::Result;
use trainyard_tables::{Problem, Trajectory};

/// Options of the reward `answer`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AnswerOptions {
    /// Value of a right answer.
    pub correct: f64,
    /// Value of a wrong or missing answer.
    pub wrong: f64,
}

impl Default for AnswerOptions {
    fn default() -> Self {
        Self { correct: 1.0, wrong: 0.0 }
    }
}

impl PartOptions for AnswerOptions {
    const KIND: &'static str = "answer";
    const SUMMARY: &'static str = "1 for a right final answer";
    const DOC: &'static str = "value = `correct` if the problem's verifier accepts the final answer, else `wrong`; a\n\
        missing answer is wrong.\n\n\
        In environments that judge the state they end in (`grid-world`, `customer-service`), that state is the\n\
        answer, whatever the agent says.";
}

pub struct AnswerReward(pub AnswerOptions);

impl Reward for AnswerReward {
    fn score(&self, r: &Trajectory, p: &Problem, g: &GroupView<'_>) -> Result<Score> {
        Ok(Score::of(if g.right(r, p) { self.0.correct } else { self.0.wrong }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewards::reward::score_alone;

    #[test]
    fn right_wrong_and_missing() {
        let reward = AnswerReward(AnswerOptions { correct: 1.0, wrong: -0.5 });
        let p = Problem { answer: "12".to_string(), ..Problem::default() };
        let with = |answer: Option<&str>| Trajectory { answer: answer.map(str::to_string), ..Trajectory::default() };
        assert_eq!(score_alone(&reward, &with(Some("12.0")), &p).value, Some(1.0));
        assert_eq!(score_alone(&reward, &with(Some("13")), &p).value, Some(-0.5));
        assert_eq!(score_alone(&reward, &with(None), &p).value, Some(-0.5));
    }
}
