//! Implements the rule `answer`: the environment's verifier must accept the row's final answer.
//!
//! In an imported conversation the answer is the whole last message, because no environment has parsed it. The rule
//! parses such an answer as the environment parses an agent's last message, and uses other answers unchanged.

use crate::filter::rule::{FilterRule, RuleColumns, RuleContext, RulePass, RuleVerdict, each_row, unwired};
use crate::text::short;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{Error, OptionProblem, Result, WiredInputs};
use trainyard_envs::Environment;
use trainyard_tables::{EpisodeStatus, Trajectory};

/// Rejects rows whose answer is wrong, missing, or to an unknown problem.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerRule {}

impl PartOptions for AnswerRule {
    const KIND: &'static str = "answer";
    const SUMMARY: &'static str = "the environment's verifier accepts the final answer";
    const DOC: &'static str = "Rejects rows whose answer is wrong, missing, or to an unknown problem, and episodes\n\
        that are infrastructure failures. Needs the input `problems`. Reasons: wrong, no_answer, unknown_problem,\n\
        infrastructure.";
}

impl FilterRule for AnswerRule {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn columns(&self) -> RuleColumns {
        RuleColumns::named(&["problem_id", "messages", "answer", "status"])
    }
    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        unwired(Self::KIND, "problems", inputs)
    }
    fn start<'a>(&'a self, context: &'a RuleContext<'a>) -> Result<Box<dyn RulePass + 'a>> {
        if context.problems.is_empty() {
            return Err(Error::invalid("no problems to verify answers with")
                .help("wire input `problems`, or remove the rule from `rules`"));
        }
        Ok(each_row(move |row| judge(row, context)))
    }
}

fn judge(row: &Trajectory, context: &RuleContext<'_>) -> Result<RuleVerdict> {
    if row.status == EpisodeStatus::Infrastructure {
        return Ok(RuleVerdict::reject("infrastructure", "the episode ended with an infrastructure failure"));
    }
    let Some(problem) = context.problems.get(&row.problem_id) else {
        return Ok(RuleVerdict::reject("unknown_problem", row.problem_id.clone()));
    };
    Ok(match answer(row, context.environment) {
        None => RuleVerdict::reject("no_answer", ""),
        Some(answer) if context.environment.verify(problem, &answer)? => RuleVerdict::Keep,
        Some(answer) => {
            RuleVerdict::reject("wrong", format!("`{}` where `{}` is expected", short(&answer, 60), problem.answer))
        }
    })
}

/// Returns the row's answer. If it is the whole last message, the environment parses the answer from it where it can.
fn answer(row: &Trajectory, environment: &dyn Environment) -> Option<String> {
    let answer = row.answer.as_ref()?;
    let is_whole_message = row.messages.last().is_some_and(|last| last.content == *answer);
    let read = if is_whole_message { environment.read_answer(answer) } else { None };
    Some(read.unwrap_or_else(|| answer.clone()))
}
