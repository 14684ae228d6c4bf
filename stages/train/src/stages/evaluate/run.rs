//! Runs the episodes of every model on every problem, once greedily and `samples` times at the sampling temperature,
//! and scores them if there is a process reward model.

use super::config::EvaluateConfig;
use super::result_collector::ResultCollector;
use super::scorer::Scorer;
use crate::config::kv_memory;
use crate::model::PolicyModel;
use crate::programs::ProgramTotals;
use crate::results::ResultRow;
use crate::rollouts::{EpisodeJob, EpisodeLimits, RolloutDriver, ToolWait};
use trainyard_api::CancelToken;
use trainyard_core::{Chance, Result};
use trainyard_envs::Environment;
use trainyard_learn::Rollout;
use trainyard_learn::statistics::StepReduction;
use trainyard_lm::backend::Sampler;
use trainyard_tables::{EpisodeStatus, Problem, SamplingParams, StopReason, Trajectory};

/// Problems whose drawn samples run in one call.
const PROBLEMS_PER_CALL: usize = 64;

/// Values shared by the models.
pub struct Evaluation<'a> {
    pub config: &'a EvaluateConfig,
    pub environment: &'a dyn Environment,
    /// Problems that every model is evaluated on.
    pub problems: &'a [Problem],
    /// Source of all random draws.
    pub chance: Chance,
}

impl Evaluation<'_> {
    /// Runs all episodes of one model and enters them in `ledger`.
    pub fn run(
        &self,
        name: &str,
        policy: &PolicyModel,
        mut scorer: Option<&mut Scorer>,
        ledger: &mut ResultCollector<'_>,
    ) -> Result<()> {
        let context = ledger.context;
        let mut sampler = policy.sampler(context.cpus)?;
        let mut driver = self.greedy(name, policy, &mut *sampler, &context.cancel);
        ledger.next_model();
        let greedy: Vec<EpisodeJob> = (0..self.problems.len()).map(|i| EpisodeJob::root(i, 0)).collect();
        if !ledger.resume()? {
            let finished = driver.run(self.problems, &greedy)?;
            absorb(name, policy, finished, true, scorer.as_deref_mut(), ledger)?;
        }
        if self.config.is_sampled(name) {
            driver.sampling = self.config.sampling.distribution();
            driver.name = format!("evaluate/{name}/drawn");
            let order: Vec<usize> = (0..self.problems.len()).collect();
            for some in order.chunks(PROBLEMS_PER_CALL) {
                if ledger.resume()? {
                    continue;
                }
                let jobs: Vec<EpisodeJob> = some
                    .iter()
                    .flat_map(|&i| (0..self.config.samples).map(move |s| (i, s)))
                    .map(|(i, s)| EpisodeJob::root(i, s))
                    .collect();
                let finished = driver.run(self.problems, &jobs)?;
                absorb(name, policy, finished, false, scorer.as_deref_mut(), ledger)?;
            }
        }
        Ok(())
    }

    /// Creates the driver of the greedy episodes, one of every problem.
    pub fn greedy<'s>(
        &'s self,
        name: &str,
        policy: &'s PolicyModel,
        sampler: &'s mut dyn Sampler,
        cancel: &'s CancelToken,
    ) -> RolloutDriver<'s, 's> {
        RolloutDriver {
            sampler,
            model: &policy.folder,
            environment: self.environment,
            limits: self.limits(),
            sampling: SamplingParams { temperature: 0.0, top_p: 1.0, top_k: 0 },
            chance: self.chance,
            name: format!("evaluate/{name}/greedy"),
            cancel,
        }
    }

    fn limits(&self) -> EpisodeLimits {
        let s = &self.config.sampling;
        EpisodeLimits {
            turn_tokens: s.max_turn_tokens,
            episode_tokens: s.max_episode_tokens,
            running: s.max_running,
            kv_memory: kv_memory(s.kv_memory.as_deref()),
            tool_wait: ToolWait::Trajectory,
        }
    }
}

/// Completes and scores finished episodes and enters them in `ledger`.
fn absorb(
    name: &str,
    policy: &PolicyModel,
    mut finished: Vec<Rollout>,
    greedy: bool,
    scorer: Option<&mut Scorer>,
    ledger: &mut ResultCollector<'_>,
) -> Result<()> {
    for one in &mut finished {
        one.trajectory.model_digest = Some(policy.digest.clone());
        one.trajectory.reward = f64::from(u8::from(one.correct));
    }
    if let Some(scorer) = scorer {
        let mut scored: Vec<&mut Trajectory> =
            finished.iter_mut().filter(|f| !f.failed()).map(|f| &mut f.trajectory).collect();
        scorer.score(&mut scored)?;
    }
    let rows = finished.iter().map(|one| row(name, one, greedy)).collect();
    let programs = ProgramTotals::of(&finished);
    ledger.take(rows, finished.into_iter().map(|one| one.trajectory).collect(), programs)
}

fn row(name: &str, one: &Rollout, greedy: bool) -> ResultRow {
    let t = &one.trajectory;
    let scores: Option<Vec<f64>> = t.step_scores.as_ref().map(|s| s.iter().map(|x| f64::from(*x)).collect());
    let reduce = |how: StepReduction| scores.as_ref().and_then(|s| how.reduce(s));
    ResultRow {
        model: name.to_string(),
        problem_id: t.problem_id.clone(),
        level: t.level,
        sample: if greedy { -1 } else { i32::try_from(t.sample).unwrap_or(i32::MAX) },
        correct: (t.status == EpisodeStatus::Ok).then_some(one.correct),
        answer: t.answer.clone(),
        reward: (t.status == EpisodeStatus::Ok).then_some(t.reward),
        stop_reason: stop(t.stop_reason).to_string(),
        turns: t.turns,
        tool_calls: t.tool_calls,
        tool_errors: t.tool_errors,
        tokens: u32::try_from(one.sampled_tokens()).unwrap_or(u32::MAX),
        logprob: t.logprobs.as_ref().filter(|_| !greedy).map(|l| l.iter().map(|x| f64::from(*x)).sum()),
        prm_min: reduce(StepReduction::Min),
        prm_product: reduce(StepReduction::Product),
        prm_last: reduce(StepReduction::Last),
        // The collector sets the id of a kept rollout.
        ..ResultRow::default()
    }
    .checked(t.answer_check.as_ref())
}

/// Returns the name of a stop reason in tables.
pub(super) fn stop(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Answer => "answer",
        StopReason::End => "end",
        StopReason::Length => "length",
        StopReason::Turns => "turns",
        StopReason::ToolLimit => "tool_limit",
        StopReason::Error => "error",
        StopReason::Cancelled => "cancelled",
    }
}
