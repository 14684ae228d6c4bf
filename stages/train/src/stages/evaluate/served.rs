//! Evaluates served models, of which only the messages are known.
//!
//! Their rollouts have messages and no tokens: the ids that a server read and sampled are unknown, and ids of another
//! tokenizer would be incorrect.

use super::result_collector::ResultCollector;
use super::run::{Evaluation, stop};
use super::served_model::ServedModel;
use crate::programs::ProgramTotals;
use crate::results::ResultRow;
use std::sync::Arc;
use trainyard_chat::{ChatClient, Models};
use trainyard_core::{MetricInfo, Result};
use trainyard_envs::Environment;
use trainyard_envs::players::{ModelCallMode, PlayedEpisode, Player, PlayerJob, play};
use trainyard_tables::{EpisodeStatus, SamplingParams, Trajectory};

/// Declares the cost metrics of the model called `name`.
pub fn metrics(name: &str) -> Vec<MetricInfo> {
    let of = |metric: MetricInfo| {
        let name = format!("{}_{name}", metric.name);
        MetricInfo { name, ..metric }
    };
    trainyard_chat::metrics().into_iter().map(of).collect()
}

/// Runs all episodes of one model and enters them in the collector. Returns request counts, under the names of
/// [`metrics`].
///
/// Episodes of an earlier attempt are run again with the stored responses, so that the counts and the output `requests`
/// cover all episodes.
pub fn run(
    evaluation: &Evaluation<'_>,
    (name, served): (&str, &ServedModel),
    prompt_environment: Option<&dyn Environment>,
    models: &Arc<Models>,
    ledger: &mut ResultCollector<'_>,
) -> Result<Vec<(String, f64)>> {
    let config = evaluation.config;
    let player = Player {
        environment: evaluation.environment,
        prompt_environment,
        native: served.calls == ModelCallMode::Native,
    };
    ledger.next_model();
    let greedy = SamplingParams { temperature: 0.0, top_p: 1.0, top_k: 0 };
    let mut chats = vec![ChatClient::open(models, &served.at(greedy))?];
    let draws = if config.is_sampled(name) { config.samples } else { 0 };
    let jobs = |draw: u64| -> Vec<PlayerJob<'_>> {
        evaluation.problems.iter().map(|problem| PlayerJob { problem, draw, seed: config.seed }).collect()
    };
    enter(&player, &mut chats[0], (name, true), &jobs(0), ledger)?;
    if draws > 0 {
        let default_sampling = config.sampling.distribution();
        let temperature = served.model.temperature.unwrap_or(default_sampling.temperature);
        chats.push(ChatClient::open(models, &served.at(SamplingParams { temperature, ..default_sampling }))?);
        for draw in 0..u64::from(draws) {
            enter(&player, &mut chats[1], (name, false), &jobs(draw), ledger)?;
        }
    }
    let mut sums: Vec<(String, f64)> = Vec::new();
    for (metric, value) in chats.iter().flat_map(|chat| chat.usage().values()) {
        let metric = format!("{metric}_{name}");
        match sums.iter_mut().find(|(known, _)| *known == metric) {
            Some((_, sum)) => *sum += value,
            None => sums.push((metric, value)),
        }
    }
    Ok(sums)
}

fn enter(
    player: &Player<'_>,
    chat: &mut ChatClient,
    (name, greedy): (&str, bool),
    jobs: &[PlayerJob<'_>],
    ledger: &mut ResultCollector<'_>,
) -> Result<()> {
    let context = ledger.context;
    let played = play(player, chat, jobs, |_| context.stop_if_cancelled())?;
    if let Some(failure) = played.iter().find_map(|one| one.failure.as_ref()) {
        context.warn(format!("model `{name}` did not finish all episodes; first failure: {failure}"));
    }
    if ledger.resume()? {
        return Ok(());
    }
    let how = if greedy { "greedy" } else { "drawn" };
    let (rows, rollouts) = played.into_iter().map(|one| entry(name, how, one)).unzip();
    ledger.take(rows, rollouts, ProgramTotals::default())
}

fn entry(name: &str, how: &str, one: PlayedEpisode) -> (ResultRow, Trajectory) {
    let PlayedEpisode { mut trajectory, correct, tokens, .. } = one;
    let sample = trajectory.sample;
    trajectory.id = format!("evaluate/{name}/{how}/{}/{sample}", trajectory.problem_id);
    let fair = trajectory.status == EpisodeStatus::Ok;
    let row = ResultRow {
        model: name.to_string(),
        problem_id: trajectory.problem_id.clone(),
        level: trajectory.level,
        sample: if how == "greedy" { -1 } else { i32::try_from(sample).unwrap_or(i32::MAX) },
        correct: fair.then_some(correct),
        answer: trajectory.answer.clone(),
        reward: fair.then_some(trajectory.reward),
        stop_reason: stop(trajectory.stop_reason).to_string(),
        turns: trajectory.turns,
        tool_calls: trajectory.tool_calls,
        tool_errors: trajectory.tool_errors,
        tokens: u32::try_from(tokens).unwrap_or(u32::MAX),
        ..ResultRow::default()
    }
    .checked(trajectory.answer_check.as_ref());
    (row, trajectory)
}
