//! Implements the reward `judged`: the points that a language model at an endpoint gives an episode by a rubric.

use crate::judging::{DEFAULT, EpisodeJudge, JudgeVerdict, request_verdicts};
use crate::programs::ExceptionPolicy;
use crate::rewards::{GroupView, Reward, RewardContext, Score, ScoringGroup};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::{Mutex, MutexGuard, PoisonError};
use trainyard_api::PartOptions;
use trainyard_chat::{ChatClient, ChatOptions, ChatUsage};
use trainyard_core::attempt::LogLevel;
use trainyard_core::{Error, MetricInfo, OptionProblem, Reduce, Result};
use trainyard_process::{ProgramLog, null_log};
use trainyard_tables::{Problem, Trajectory};

/// Options of the reward `judged`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JudgedOptions {
    /// Judge: `{endpoint: URL, model: NAME}`, with `temperature: 0` where the server supports it.
    pub model: ChatOptions,
    /// Criteria for which the judge gives points.
    pub rubric: String,
    /// Prompt of the judge, with the placeholders `{{ rubric }}`, `{{ conversation }}`, `{{ question }}`, `{{ answer
    /// }}`, `{{ expected }}` and `{{ reference }}`.
    pub prompt: String,
    /// Maximum number of points, from 1; the reward is the share of them.
    #[schemars(range(min = 1, max = 1000))]
    pub points: u32,
    /// Name in records, instead of `judged`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Effect of a refusal, or of an answer that is not a verdict: `fail` ends the stage; with `skip` the reward does
    /// not apply to this episode.
    pub on_error: ExceptionPolicy,
}

impl Default for JudgedOptions {
    fn default() -> Self {
        let (model, rubric, name) = (ChatOptions::default(), String::new(), String::new());
        Self { model, rubric, prompt: DEFAULT.into(), points: 10, name, on_error: ExceptionPolicy::default() }
    }
}

impl PartOptions for JudgedOptions {
    const KIND: &'static str = "judged";
    const SUMMARY: &'static str = "points that a language model gives by a rubric";
    const DOC: &'static str = "value = points / `points`, in [0, 1], where a model behind an endpoint gives the\n\
        points by `rubric` and states a reason (`docs/endpoints.md`). All episodes of a step are sent together. Every\n\
        response is stored by its request, so equal episodes are judged and paid for once.\n\n\
        An unreachable server ends the stage with a retryable error, never with a low reward. A refusal, or a\n\
        response without readable points, ends it too, or is counted, depending on `on_error`. A policy can learn to\n\
        persuade the judge: inspect the episodes with the most points.";
    fn metrics() -> Vec<MetricInfo> {
        let doc = "Episodes that the reward does not apply to because there is no readable verdict on them.";
        let unjudged = MetricInfo::new("unjudged", "episodes", doc).lower().reduced_by(Reduce::Sum);
        let requests = trainyard_chat::metrics().into_iter().map(|metric| metric.reduced_by(Reduce::Sum));
        requests.chain([unjudged]).collect()
    }
    fn check(&self) -> Vec<OptionProblem> {
        let mut problems = EpisodeJudge::problems(&self.model, &self.prompt, &self.rubric);
        problems.extend(OptionProblem::out_of_range("/points", self.points, 1..=1000));
        problems
    }
}

pub struct JudgedReward {
    options: JudgedOptions,
    judge: EpisodeJudge,
    chat: Option<Mutex<ChatClient>>,
    log: ProgramLog,
    unjudged: u64,
    skip_logged: bool,
    /// Usage that was already reported as metrics.
    reported: ChatUsage,
}

impl JudgedReward {
    /// Returns the reward without sending a request. Errors: invalid, if the prompt has an unknown placeholder.
    pub fn new(options: JudgedOptions) -> Result<Self> {
        let schema = json!({"type": "integer", "minimum": 0, "maximum": options.points});
        let words = format!("a whole number of points from 0 to {}", options.points);
        let judge = EpisodeJudge::new((&options.prompt, &options.rubric), "points", schema, words);
        let judge = judge.map_err(|problem| Error::invalid(problem.message))?;
        let (chat, log, unjudged, skip_logged) = (None, null_log(), 0, false);
        Ok(Self { options, judge, chat, log, unjudged, skip_logged, reported: ChatUsage::default() })
    }
    fn chat(&self) -> Result<MutexGuard<'_, ChatClient>> {
        let chat = self.chat.as_ref().ok_or_else(|| Error::bug("the reward `judged` was used before it was opened"))?;
        Ok(chat.lock().unwrap_or_else(PoisonError::into_inner))
    }
    fn value(&self, verdict: Result<JudgeVerdict>) -> Result<f64> {
        let (verdict, max) = (verdict?.verdict, f64::from(self.options.points));
        let points = verdict.as_f64().filter(|points| (0.0..=max).contains(points));
        let points = points.ok_or_else(|| Error::data(format!("the judge gave `{verdict}` of {max} points")))?;
        Ok(points / max)
    }
    /// Returns the score of an episode, and the error if the options skip it.
    fn score_of(&self, r: &Trajectory, verdict: Result<JudgeVerdict>) -> Result<(Score, Option<Error>)> {
        match self.value(verdict) {
            Ok(value) => Ok((Score::of(value), None)),
            Err(error) if self.options.on_error == ExceptionPolicy::Skip => Ok((Score::not_applicable(), Some(error))),
            Err(error) => {
                let error = error.at(format!("episode `{}`", r.id));
                Err(error.help("change `rubric`, `prompt` or `max_tokens`, or set `on_error: skip`"))
            }
        }
    }
    fn record_skip(&mut self, r: &Trajectory, error: &Error) {
        self.unjudged += 1;
        if !std::mem::replace(&mut self.skip_logged, true) {
            (self.log)(LogLevel::Warn, &format!("the reward `judged` does not apply to episode `{}`: {error}", r.id));
        }
    }
}

impl Reward for JudgedReward {
    fn open(&mut self, context: &RewardContext) -> Result<()> {
        self.chat = Some(Mutex::new(ChatClient::open(&context.models, &self.options.model)?));
        self.log = context.log.clone();
        Ok(())
    }
    fn score(&self, r: &Trajectory, p: &Problem, _: &GroupView<'_>) -> Result<Score> {
        let verdict = request_verdicts(&self.judge, &mut *self.chat()?, &[(r, p)])?.pop();
        let verdict = verdict.ok_or_else(|| Error::bug("a judge returned no verdict"))?;
        Ok(self.score_of(r, verdict)?.0)
    }
    fn score_all(&mut self, groups: &[ScoringGroup<'_>]) -> Result<Vec<Vec<Score>>> {
        let members = |group: &ScoringGroup<'_>| group.group.members.len();
        let rows: Vec<(&Trajectory, &Problem)> =
            groups.iter().flat_map(|group| group.group.members.iter().map(|member| (*member, group.problem))).collect();
        let verdicts = {
            let mut chat = self.chat()?;
            chat.begin_round();
            request_verdicts(&self.judge, &mut chat, &rows)?
        };
        let mut scores = Vec::with_capacity(rows.len());
        for ((row, _), verdict) in rows.iter().zip(verdicts) {
            let (score, error) = self.score_of(row, verdict)?;
            error.iter().for_each(|error| self.record_skip(row, error));
            scores.push(score);
        }
        let mut scores = scores.into_iter();
        Ok(groups.iter().map(|group| scores.by_ref().take(members(group)).collect()).collect())
    }
    fn metrics(&mut self) -> Vec<(&'static str, f64)> {
        let usage = self.chat().map(|chat| chat.usage()).unwrap_or_default();
        let new = usage.since(&std::mem::replace(&mut self.reported, usage));
        let unjudged = ("unjudged", std::mem::take(&mut self.unjudged) as f64);
        new.values().into_iter().chain([unjudged]).collect()
    }
}

#[cfg(test)]
#[path = "judged_tests.rs"]
mod tests;
