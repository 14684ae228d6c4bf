//! Implements the rewards `process` and `http`, which a user program in any language or a service computes
//! (`docs/custom-code.md`).
//!
//! A service receives the same requests as a program ([`super::http`]).

use crate::programs::{
    CustomCodeOptions, CustomCodePage, CustomCodeRole, CustomRoleOptions, EpisodeItem, ExceptionPolicy, request_items,
};
use crate::rewards::{GroupView, Reward, RewardContext, Score, ScoringGroup};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_core::attempt::LogLevel;
use trainyard_core::{Error, MetricInfo, Reduce, Result};
use trainyard_process::{ProgramException, ProgramLog, ProgramOptions, ProgramService, null_log};
use trainyard_tables::{Problem, Trajectory};

/// User-defined code as a reward.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RewardRole;

/// Options of a user-defined reward. In records, `name` replaces the kind.
pub type CustomRewardOptions<P> = CustomRoleOptions<RewardRole, P>;

impl CustomCodeRole for RewardRole {
    const ROLE: &'static str = "reward";
    const BATCH: &'static str = "Maximum number of episodes in one request.";
    const NAME: &'static str = "Name in records, instead of the kind. With `trainyard_bridge`, also the function to \
        use, if the program has\nseveral.";
    const ON_ERROR: &'static str = "Effect of an exception of the program: `fail` ends the stage; with `skip` the \
        reward does not apply to this\nepisode.";
    fn metrics() -> Vec<MetricInfo> {
        let doc = "Episodes that the reward does not apply to because the program raised an exception.";
        vec![MetricInfo::new("exceptions", "episodes", doc).lower().reduced_by(Reduce::Sum)]
    }
}

impl CustomCodePage<ProgramOptions> for RewardRole {
    const SUMMARY: &'static str = "a value that a user program computes, in any language";
    const DOC: &'static str = "value = the number that the program returns for the episode. It receives the messages,\n\
        the answer and whether it is right, counts, the problem, and the rewards before it in the list. Null = does\n\
        not apply. A program may also return one value per turn.\n\n\
        In Python a reward is a function with a decorator (`trainyard init --python`); `docs/custom-code.md` has the\n\
        protocol for any other language. All episodes of a step are sent together, `batch` in one request, to\n\
        `workers` processes. The program must return equal values for equal episodes.\n\n\
        A process that exits is restarted; a request is given up after three of them. Then, or when a request takes\n\
        longer than `timeout`, the stage ends with a retryable error, never with a low reward. An exception ends the\n\
        stage with its traceback, or is counted, depending on `on_error`.";
}

pub struct CustomReward<P> {
    options: CustomRewardOptions<P>,
    peer: Option<Arc<dyn ProgramService>>,
    log: ProgramLog,
    exceptions: u64,
    exception_logged: bool,
}

impl<P: CustomCodeOptions> CustomReward<P> {
    /// Returns the reward without sending a request.
    pub fn new(options: CustomRewardOptions<P>) -> Self {
        Self { options, peer: None, log: null_log(), exceptions: 0, exception_logged: false }
    }
    fn peer(&self) -> Result<&dyn ProgramService> {
        self.peer.as_deref().ok_or_else(|| Error::bug("the reward `process` was used before it was opened"))
    }
    fn record_exception(&mut self, exception: &ProgramException) {
        self.exceptions += 1;
        if !std::mem::replace(&mut self.exception_logged, true) {
            let text = format!("the reward does not apply to an episode: {exception}\n{}", exception.traceback);
            (self.log)(LogLevel::Warn, text.trim_end());
        }
    }
}

impl<P: CustomCodeOptions> Reward for CustomReward<P> {
    fn open(&mut self, context: &RewardContext) -> Result<()> {
        self.peer = Some(self.options.open(context.models.secrets(), &context.log)?);
        self.log = context.log.clone();
        Ok(())
    }
    fn score(&self, r: &Trajectory, p: &Problem, g: &GroupView<'_>) -> Result<Score> {
        let no_rewards = BTreeMap::new();
        let item = EpisodeItem::new(r, p, g.right(r, p), g.earlier(r).unwrap_or(&no_rewards));
        let rows = request_items(self.peer()?, self.options.batch, "score", &[item])?;
        match rows.into_iter().next() {
            Some(Ok(row)) => read(&row),
            Some(Err(_)) if self.options.on_error == ExceptionPolicy::Skip => Ok(Score::not_applicable()),
            Some(Err(exception)) => Err(exception.error().at(place(r))),
            None => Err(Error::bug("a program returned no row")),
        }
    }
    fn score_all(&mut self, groups: &[ScoringGroup<'_>]) -> Result<Vec<Vec<Score>>> {
        let no_rewards = BTreeMap::new();
        let mut items = Vec::new();
        for ScoringGroup { problem, group } in groups {
            for (index, (member, correct)) in group.members.iter().zip(group.correct).enumerate() {
                items.push(EpisodeItem::new(
                    member,
                    problem,
                    *correct,
                    group.earlier.get(index).unwrap_or(&no_rewards),
                ));
            }
        }
        let mut rows = request_items(self.peer()?, self.options.batch, "score", &items)?.into_iter();
        let mut scores = Vec::with_capacity(groups.len());
        for scored_group in groups {
            let mut group = Vec::with_capacity(scored_group.group.members.len());
            for (member, row) in scored_group.group.members.iter().zip(rows.by_ref()) {
                group.push(match row {
                    Ok(row) => read(&row).map_err(|e| e.at(place(member)))?,
                    Err(exception) if self.options.on_error == ExceptionPolicy::Skip => {
                        self.record_exception(&exception);
                        Score::not_applicable()
                    }
                    Err(exception) => {
                        return Err(exception
                            .error()
                            .help("fix the program, or set `on_error: skip`")
                            .at(place(member)));
                    }
                });
            }
            scores.push(group);
        }
        Ok(scores)
    }
    fn metrics(&mut self) -> Vec<(&'static str, f64)> {
        vec![("exceptions", std::mem::take(&mut self.exceptions) as f64)]
    }
}

fn place(r: &Trajectory) -> String {
    format!("episode `{}`", r.id)
}

fn read(row: &Value) -> Result<Score> {
    let number = |value: &Value| value.as_f64().filter(|n| n.is_finite());
    let invalid = || {
        Error::data(format!("the program returned `{row}` for a reward"))
            .help("return {\"value\": a number or null}, with {\"per_turn\": […]} if there is one for each turn")
    };
    let value = match row.get("value") {
        Some(Value::Null) => None,
        Some(value) => Some(number(value).ok_or_else(invalid)?),
        None => return Err(invalid()),
    };
    let turns = row.get("per_turn").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let per_turn = turns.iter().map(|turn| number(turn).ok_or_else(invalid)).collect::<Result<_>>()?;
    Ok(Score { value, per_turn })
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
