//! Rule `answer`: the environment's verifier must accept the row's final answer.
//!
//! Why it reads: an imported conversation has its whole last message as answer, because no environment was there to read it; so it is
//! read here, as the environment reads an agent's last message. An answer that is not the message was read before. Refuses: running
//! without the problems, because expected answers stand there and nowhere else.

use super::rule::{Judgment, Rule, World};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{Error, Result};
use trainyard_envs::Environment;
use trainyard_tables::{Status, Trajectory};

/// Rejects rows whose answer is wrong, missing, or to an unknown problem.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer {}

impl PartOptions for Answer {
    const KIND: &'static str = "answer";
    const SUMMARY: &'static str = "the environment's verifier accepts the final answer";
    const DOC: &'static str = "Rejects rows whose answer is wrong, missing, or to an unknown problem, and episodes that failed as infrastructure. Needs the input\n\
        `problems`. Reasons: wrong, no_answer, unknown_problem, infrastructure.";
}

impl Rule for Answer {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn judge(&self, rows: &[&Trajectory], world: &World<'_>) -> Result<Vec<Judgment>> {
        if world.problems.is_empty() {
            return Err(Error::invalid("no problems to verify answers with")
                .help("wire input `problems`, or take the rule out of `rules`"));
        }
        Ok(rows.iter().map(|row| judge(row, world)).collect())
    }
}

fn judge(row: &Trajectory, world: &World<'_>) -> Judgment {
    if row.status == Status::Infrastructure {
        return Judgment::reject("infrastructure", "the episode failed, not the agent");
    }
    let Some(problem) = world.problems.get(&row.problem_id) else {
        return Judgment::reject("unknown_problem", row.problem_id.clone());
    };
    match answer(row, world.environment) {
        None => Judgment::reject("no_answer", ""),
        Some(answer) if world.environment.verify(problem, &answer) => Judgment::Keep,
        Some(answer) => {
            Judgment::reject("wrong", format!("`{}` where `{}` is expected", short(&answer), problem.answer))
        }
    }
}

/// The row's answer; read by the environment if it is the last message as it stands, where there is something to read.
fn answer(row: &Trajectory, environment: &dyn Environment) -> Option<String> {
    let answer = row.answer.as_ref()?;
    let whole = row.messages.last().is_some_and(|last| last.content == *answer);
    let read = if whole { environment.read_answer(answer) } else { None };
    Some(read.unwrap_or_else(|| answer.clone()))
}

/// At most 60 characters.
fn short(text: &str) -> String {
    let mut out: String = text.chars().take(60).collect();
    if out.len() < text.len() {
        out.push('…');
    }
    out
}
