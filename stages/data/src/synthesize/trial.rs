//! Runs a trial of the stage, which plays the first demonstrations of a run.

use super::config::SynthesisConfig;
use super::method::{SynthesisContext, SynthesisMethod};
use super::procedural::DEMONSTRATIONS;
use super::splits::Split;
use crate::io;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_api::{Component, StageContext, Trial, TrialEpisode};
use trainyard_chat::Models;
use trainyard_core::{Error, Result};
use trainyard_envs::Environment;
use trainyard_envs::programs::log;
use trainyard_tables::{Problem, Trajectory};

/// Makes as many demonstrations as a trial requires; solutions that a method drops are not replaced.
pub(super) fn trial(
    mut config: SynthesisConfig,
    method: &dyn SynthesisMethod,
    (environment, prompt_environment, models): (&dyn Environment, Option<&dyn Environment>, &Arc<Models>),
    trial: &Trial,
    context: &StageContext,
) -> Result<Vec<TrialEpisode>> {
    let levels = method.levels(&config, environment);
    shorten(&mut config, trial.episodes, levels);
    let mut given = io::read_many_problems(context.many("problems"))?;
    given.truncate(trial.episodes);
    let progress = |_, _| context.stop_if_cancelled();
    let log = log(context);
    let world = SynthesisContext { environment, prompt_environment, models, log: &log, progress: &progress };
    let output = method.make(&config, given, &world)?;
    let problems: BTreeMap<&str, &Problem> = output.problems.iter().map(|p| (p.id.as_str(), p)).collect();
    output.demonstrations.iter().take(trial.episodes).map(|row| tried(row, &problems)).collect()
}

/// Reduces the options to the first `count` demonstrations, in order of level.
fn shorten(config: &mut SynthesisConfig, count: usize, levels: u32) {
    let Some(split) = config.splits.remove(DEMONSTRATIONS) else { return };
    let mut remaining = count as u64;
    let mut first = split.counts(levels);
    for problems in first.values_mut() {
        *problems = (*problems).min(remaining);
        remaining -= *problems;
    }
    config.splits = [(DEMONSTRATIONS.to_string(), Split::by_level(first))].into();
}

fn tried(row: &Trajectory, problems: &BTreeMap<&str, &Problem>) -> Result<TrialEpisode> {
    let problem = problems.get(row.problem_id.as_str()).copied().cloned();
    let problem = problem.ok_or_else(|| Error::bug(format!("demonstration `{}` has no problem", row.id)))?;
    let component = |(name, value): (&String, &f64)| Component { name: name.clone(), weight: 1.0, value: Some(*value) };
    let components = row.rewards.iter().map(component).collect();
    Ok(TrialEpisode { trajectory: row.clone(), problem, correct: row.reward >= 1.0, components })
}
