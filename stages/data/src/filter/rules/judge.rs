//! Implements the rule `judge`: a language model at an endpoint keeps or rejects each row (`docs/endpoints.md`).

use crate::custom_rows::EPISODE_COLUMNS;
use crate::filter::rows::RuleRows;
use crate::filter::rule::{FilterRule, RuleColumns, RuleContext, RulePass, RuleVerdict};
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
    const DOC: &'static str = "Rejects the rows that a model at an endpoint does not keep by `rubric`. Its reason\n\
        is in the verdict, also for kept rows (`docs/endpoints.md`). Every response is stored by its request and\n\
        written to the output `requests`, so a killed or repeated stage pays for no row twice.\n\n\
        An unreachable server ends the stage with a retryable error. A refusal, or a response without a verdict, ends\n\
        it too; with `on_error: skip` the row stays, and its verdict has the reason. Reason: rejected.";
    fn check(&self) -> Vec<OptionProblem> {
        judging::EpisodeJudge::problems(&self.model, &self.prompt, &self.rubric)
    }
}

impl FilterRule for JudgeRule {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn columns(&self) -> RuleColumns {
        RuleColumns::named(&EPISODE_COLUMNS)
    }
    fn start<'a>(&'a self, context: &'a RuleContext<'a>) -> Result<Box<dyn RulePass + 'a>> {
        let texts = (self.prompt.as_str(), self.rubric.as_str());
        let judge = judging::EpisodeJudge::new(texts, "keep", json!({"type": "boolean"}), "true or false");
        let judge = judge.map_err(|problem| Error::invalid(problem.message))?;
        let chat = ChatClient::open(context.models, &self.model)?;
        Ok(Box::new(JudgePass { rule: self, judge, chat, context, rows: 0, unjudged: 0 }))
    }
}

struct JudgePass<'a> {
    rule: &'a JudgeRule,
    judge: judging::EpisodeJudge,
    chat: ChatClient,
    context: &'a RuleContext<'a>,
    rows: usize,
    unjudged: usize,
}

impl RulePass for JudgePass<'_> {
    fn judge(&mut self, rows: &RuleRows) -> Result<Vec<RuleVerdict>> {
        let rows = rows.trajectories()?;
        let unknown_problem = |row: &Trajectory| Problem { id: row.problem_id.clone(), ..Problem::default() };
        let problem = |row: &Trajectory| self.context.problems.get(&row.problem_id).cloned();
        let problems: Vec<Problem> =
            rows.iter().map(|row| problem(row).unwrap_or_else(|| unknown_problem(row))).collect();
        let pairs: Vec<(&Trajectory, &Problem)> = rows.iter().zip(&problems).collect();
        let verdicts = judging::request_verdicts(&self.judge, &mut self.chat, &pairs)?;
        self.rows += rows.len();
        rows.iter().zip(verdicts).map(|(row, verdict)| self.verdict(row, verdict)).collect()
    }
    fn finish(&mut self) -> Result<()> {
        if self.unjudged > 0 {
            let text = format!("{} of {} rows have no verdict and are kept", self.unjudged, self.rows);
            (self.context.log)(LogLevel::Warn, &text);
        }
        Ok(())
    }
}

impl JudgePass<'_> {
    fn verdict(&mut self, row: &Trajectory, verdict: Result<JudgeVerdict>) -> Result<RuleVerdict> {
        match verdict.and_then(read) {
            Ok(judgment) => Ok(judgment),
            Err(error) if self.rule.on_error == ExceptionPolicy::Skip => {
                self.unjudged += 1;
                Ok(RuleVerdict::KeepWithReason(format!("not judged: {}", error.message)))
            }
            Err(error) => {
                let error = error.at(format!("row `{}`", row.id));
                Err(error.help("change `rubric`, `prompt` or `max_tokens`, or set `on_error: skip`"))
            }
        }
    }
}

fn read(verdict: JudgeVerdict) -> Result<RuleVerdict> {
    match verdict.verdict.as_bool() {
        Some(true) => Ok(RuleVerdict::KeepWithReason(verdict.reason)),
        Some(false) => Ok(RuleVerdict::reject("rejected", verdict.reason)),
        None => Err(Error::data(format!("the judge's verdict is `{}`, expected true or false", verdict.verdict))),
    }
}
