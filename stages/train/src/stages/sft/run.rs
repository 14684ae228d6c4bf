//! Runs the training loop: batches by length, one optimizer step each, validation, best weights, checkpoints.
//!
//! The batches of all steps follow from lengths, budget and seed (`SftPlan`), so a run that resumes from the step
//! number of a checkpoint produces the same bytes. A step reads the examples of its batch from their file. The input
//! model is measured first and kept if no step gives a lower loss.

use super::config::SftConfig;
use super::plan::SftPlan;
use super::stop::{METRIC, StopEvaluator};
use crate::optimize::{ModelTrainer, micro_batches, sorted_batches};
use crate::spans::step_span;
use serde::{Deserialize, Serialize};
use trainyard_api::StageContext;
use trainyard_api::checkpoint;
use trainyard_api::curves::{LearningCurves, finite};
use trainyard_core::Result;
use trainyard_lm::backend::{OutputGradients, Parameters, TokenPosition};
use trainyard_lm::examples::{Example, ExampleFile};

const BEST: &str = "best.safetensors";

/// Contents of a checkpoint in addition to weights and moments.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SftState {
    /// Number of optimizer steps done.
    pub step: u64,
    /// Number of tokens read.
    pub tokens: u64,
    /// Learning curves so far.
    pub curves: LearningCurves,
    /// Step and loss of the best validation; step 0 is the input model.
    pub best: Option<(u64, f64)>,
    /// Number of validations since the best one.
    pub stale: u64,
    /// Accuracy of sampled episodes at the last measurement, with `stop_at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
}

/// Measurements in addition to the training loss.
pub struct SftEvaluation<'a> {
    /// Held-out examples; they choose the weights to keep, unless `stop` does.
    pub held: &'a ExampleFile,
    /// Episodes that end the training.
    pub stop: Option<&'a mut StopEvaluator>,
}

/// The result of training.
pub struct SftOutcome {
    /// Weights to keep.
    pub weights: Parameters,
    /// State after the last step.
    pub state: SftState,
    /// Number of steps that the budget allows.
    pub planned: u64,
}

/// Trains on `train` as planned. Keeps the weights with the lowest loss on held-out examples. Without such examples, or
/// if sampled episodes end the training, keeps the last weights.
pub fn run(
    config: &SftConfig,
    mut trainer: ModelTrainer,
    (train, mut plan): (&ExampleFile, SftPlan<'_>),
    SftEvaluation { held, mut stop }: SftEvaluation<'_>,
    context: &StageContext,
) -> Result<SftOutcome> {
    let total = plan.steps();
    let keeps_best = stop.is_none();
    let every = config.validation_interval();
    let mut state = SftState::default();
    let mut best: Option<Parameters> = None;
    if let Some((saved, folder)) = checkpoint::latest::<SftState>(context)? {
        trainer.load(&folder, "")?;
        state = saved;
        if state.best.is_some() && keeps_best {
            best = Some(Parameters::load(&folder.join(BEST))?);
        }
    }
    if state.step == 0 && !held.is_empty() {
        validate(config, &trainer, held, (&mut state, &mut best), keeps_best, context)?;
    }
    if state.step == 0 {
        play(stop.as_deref_mut(), &trainer, &mut state, total, context)?;
    }
    while state.step < total && !stopped(config, stop.as_deref(), &state) {
        let _span = step_span(state.step);
        context.stop_if_cancelled()?;
        let batch = examples(train, plan.batch(state.step)?)?;
        step(config, &mut trainer, &batch, &mut state, context)?;
        let last = state.step == total;
        play(stop.as_deref_mut(), &trainer, &mut state, total, context)?;
        let ends = last || stop.as_deref().is_some_and(|stop| state.accuracy.is_some_and(|a| stop.is_reached(a)));
        if !held.is_empty() && (ends || (every > 0 && state.step % every == 0)) {
            validate(config, &trainer, held, (&mut state, &mut best), keeps_best, context)?;
        }
        context.progress(state.step, total, "steps", state.curves.last("loss").map(|l| ("loss", l)));
        if config.checkpoint_every > 0 && state.step % config.checkpoint_every == 0 && !last {
            checkpoint::save(context, state.step, &state, |folder| {
                trainer.save(folder, "")?;
                best.as_ref().map_or(Ok(()), |best| best.save(&folder.join(BEST)))
            })?;
        }
    }
    let weights = match best {
        Some(best) => best,
        None => trainer.weights()?,
    };
    Ok(SftOutcome { weights, state, planned: total })
}

fn stopped(config: &SftConfig, stop: Option<&StopEvaluator>, state: &SftState) -> bool {
    let reached = stop.zip(state.accuracy).is_some_and(|(stop, accuracy)| stop.is_reached(accuracy));
    reached || config.patience.is_some_and(|p| state.stale >= p)
}

/// Measures the accuracy of sampled episodes if a measurement is due.
fn play(
    stop: Option<&mut StopEvaluator>,
    trainer: &ModelTrainer,
    state: &mut SftState,
    total: u64,
    context: &StageContext,
) -> Result<()> {
    let Some(stop) = stop.filter(|stop| stop.is_due(state.step, total)) else { return Ok(()) };
    let accuracy = stop.measure(trainer, state.step, context)?;
    state.curves.point(context, METRIC, state.step, accuracy)?;
    state.accuracy = Some(accuracy);
    Ok(())
}

/// Takes one optimizer step on the mean loss over the batch's tokens.
fn step(
    config: &SftConfig,
    trainer: &mut ModelTrainer,
    members: &[Example],
    state: &mut SftState,
    context: &StageContext,
) -> Result<()> {
    let targets: usize = members.iter().map(Example::loss_tokens).sum();
    let lengths: Vec<usize> = members.iter().map(|e| e.tokens.len()).collect();
    let rate = trainer.rate();
    let mut sum = 0.0;
    for part in micro_batches(&lengths, config.micro_batch_tokens) {
        let (sequences, places) = inputs(part.iter().map(|&k| &members[k]));
        let outputs = trainer.forward(&sequences, &places, 1.0)?;
        sum -= outputs.logprobs.iter().sum::<f64>();
        finite(sum, "the loss", state.step)?;
        let slopes = vec![-1.0 / targets as f64; places.len()];
        trainer.backward(&OutputGradients { logprobs: &slopes, ..OutputGradients::default() })?;
    }
    let report = trainer.step()?;
    let now = state.step;
    state.curves.point(context, "loss", now, sum / targets as f64)?;
    state.curves.point(context, "learning_rate", now, rate)?;
    if let Some(report) = report {
        state.curves.point(context, "grad_norm", now, report.gradient_norm)?;
    }
    state.tokens += lengths.iter().sum::<usize>() as u64;
    state.step += 1;
    Ok(())
}

fn validate(
    config: &SftConfig,
    trainer: &ModelTrainer,
    held: &ExampleFile,
    (state, best): (&mut SftState, &mut Option<Parameters>),
    keeps_best: bool,
    context: &StageContext,
) -> Result<()> {
    let loss = mean_loss(trainer, held, config.micro_batch_tokens)?;
    state.curves.point(context, "validation_loss", state.step, loss)?;
    if !keeps_best {
        state.best = Some((state.step, loss));
    } else if state.best.is_none_or(|(_, lowest)| loss < lowest) {
        state.best = Some((state.step, loss));
        state.stale = 0;
        *best = Some(trainer.weights()?);
    } else {
        state.stale += 1;
    }
    Ok(())
}

/// Returns the mean loss over the tokens in the loss, in nats.
pub fn mean_loss(trainer: &ModelTrainer, held: &ExampleFile, budget: usize) -> Result<f64> {
    let mut sum = 0.0;
    for part in sorted_batches(held.lengths(), budget).iter() {
        let members = examples(held, part)?;
        let (sequences, places) = inputs(members.iter());
        sum -= trainer.evaluate(&sequences, &places, 1.0)?.logprobs.iter().sum::<f64>();
    }
    Ok(sum / held.loss_tokens().max(1) as f64)
}

/// Reads the examples of a batch.
fn examples(file: &ExampleFile, batch: &[u32]) -> Result<Vec<Example>> {
    batch.iter().map(|&i| file.get(i as usize)).collect()
}

fn inputs<'e>(examples: impl Iterator<Item = &'e Example>) -> (Vec<&'e [u32]>, Vec<TokenPosition>) {
    let (sequences, masks): (Vec<&[u32]>, Vec<&[bool]>) =
        examples.map(|example| (example.tokens.as_slice(), example.mask.as_slice())).unzip();
    (sequences, TokenPosition::from_masks(&masks))
}
