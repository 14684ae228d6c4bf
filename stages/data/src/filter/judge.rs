//! Rule `judge`: a language model at an endpoint keeps or rejects each row (`docs/endpoints.md`).

use super::rule::{FilterRule, RuleContext, RuleVerdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use trainyard_api::PartOptions;
use trainyard_chat::{ChatClient, ChatOptions};
use trainyard_core::attempt::LogLevel;
use trainyard_core::{Error, OptionProblem, Result};
use trainyard_envs::judging::{self, DEFAULT, JudgeVerdict};
use trainyard_envs::programs::ExceptionPolicy;
use trainyard_tables::{Problem, Trajectory};

/// Rejects the rows that a model does not keep.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JudgeRule {
    /// The judge: `{endpoint: URL, model: NAME}`, with `temperature: 0` where the server supports it.
    pub model: ChatOptions,
    /// Condition that a row must fulfill to be kept.
    pub rubric: String,
    /// Prompt of the judge, with the places `{{ rubric }}`, `{{ conversation }}`, `{{ question }}`, `{{ answer }}`, `{{
    /// expected }}` and `{{ reference }}`; the last two require the input `problems`.
    pub prompt: String,
    /// Effect of a refusal, or of an answer that is no verdict: `fail` ends the stage, with `skip` the row stays.
    pub on_error: ExceptionPolicy,
}

impl Default for JudgeRule {
    fn default() -> Self {
        let (model, rubric) = (ChatOptions::default(), String::new());
        Self { model, rubric, prompt: DEFAULT.into(), on_error: ExceptionPolicy::default() }
    }
}

impl PartOptions for JudgeRule {
    const KIND: &'static str = "judge";
    const SUMMARY: &'static str = "a language model keeps or rejects each row";
    const DOC: &'static str = "Rejects the rows that a model behind an endpoint does not keep by `rubric`. Its reason\n\
        stands in the verdict, of kept rows too (`docs/endpoints.md`). Every answer is kept by its request and is an\n\
        output (`requests`): a stage that was killed, or runs again, pays for no row twice.\n\n\
        A server that is away ends the stage with a retryable error. A refusal, or an answer that is no verdict, ends\n\
        it too; with `on_error: skip` the row stays, and its verdict says why. Reason: rejected.";
    fn check(&self) -> Vec<OptionProblem> {
        judging::EpisodeJudge::problems(&self.model, &self.prompt, &self.rubric)
    }
}

impl FilterRule for JudgeRule {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn judge(&self, rows: &[&Trajectory], context: &RuleContext<'_>) -> Result<Vec<RuleVerdict>> {
        let texts = (self.prompt.as_str(), self.rubric.as_str());
        let judge = judging::EpisodeJudge::new(texts, "keep", json!({"type": "boolean"}), "true or false");
        let judge = judge.map_err(|problem| Error::invalid(problem.message))?;
        let unknown = |row: &Trajectory| Problem { id: row.problem_id.clone(), ..Problem::default() };
        let problems: Vec<Problem> = rows
            .iter()
            .map(|row| context.problems.get(&row.problem_id).cloned().unwrap_or_else(|| unknown(row)))
            .collect();
        let pairs: Vec<(&Trajectory, &Problem)> = rows.iter().copied().zip(&problems).collect();
        let mut chat = ChatClient::open(context.models, &self.model)?;
        let verdicts = judging::request_verdicts(&judge, &mut chat, &pairs)?;
        let mut unjudged = 0;
        let mut judgments = Vec::with_capacity(rows.len());
        for (row, verdict) in rows.iter().zip(verdicts) {
            judgments.push(match verdict.and_then(read) {
                Ok(judgment) => judgment,
                Err(why) if self.on_error == ExceptionPolicy::Skip => {
                    unjudged += 1;
                    RuleVerdict::KeepWithReason(format!("not judged: {}", why.message))
                }
                Err(why) => {
                    let why = why.at(format!("row `{}`", row.id));
                    return Err(why.help("change `rubric`, `prompt` or `max_tokens`, or set `on_error: skip`"));
                }
            });
        }
        if unjudged > 0 {
            (context.log)(LogLevel::Warn, &format!("{unjudged} of {} rows stay without a verdict", rows.len()));
        }
        Ok(judgments)
    }
}

fn read(judged: JudgeVerdict) -> Result<RuleVerdict> {
    match judged.verdict.as_bool() {
        Some(true) => Ok(RuleVerdict::KeepWithReason(judged.reason)),
        Some(false) => Ok(RuleVerdict::reject("rejected", judged.reason)),
        None => Err(Error::data(format!("the judge answers `{}` to whether the row is kept", judged.verdict))),
    }
}
