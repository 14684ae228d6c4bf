//! Trains the scoring head on step labels.
//!
//! The label of a step is a probability, so the loss is binary cross-entropy against the label: per step −y·log σ(z) −
//! (1−y)·log(1−σ(z)), with slope σ(z) − y by the logit z, plus the ranking loss of [`contrast`]. Unlabeled steps (NaN)
//! are left out of the cross-entropy.

use super::config::{PrmConfig, TrainedWeights};
use super::contrast;
use super::example::{Example, sigmoid};
use crate::model::PolicyModel;
use crate::optimize::{ModelTrainer, TrainableParams, TrainingMethod, epoch_batches, micro_batches};
use crate::spans::step_span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use trainyard_api::StageContext;
use trainyard_api::curves::{LearningCurves, finite};
use trainyard_core::{Chance, Error, Result};
use trainyard_lm::backend::{self, OutputGradients, TokenPosition, TrainableParameters};

/// Default number of optimizer steps between resume points.
const CHECKPOINT_EVERY: u64 = 50;

/// A model with a scoring head in training.
pub struct ScoringHead {
    pub trainer: ModelTrainer,
    budget: usize,
    ranking_weight: f64,
}

impl ScoringHead {
    /// Creates a new head (all scores ½) on the model's decoder.
    pub fn new(
        config: &PrmConfig,
        (policy, learns): (&mut PolicyModel, TrainableParameters),
        steps: u64,
        context: &StageContext,
    ) -> Result<Self> {
        let learns = if config.train == TrainedWeights::All { learns } else { TrainableParameters::Scores };
        let learned = TrainableParams { learns, seed: config.seed };
        let head = backend::LearnerHead::Scores(1);
        let optimizer = config.optimizer.settle(TrainingMethod::Prm, &policy.folder, learns, context);
        let trainer = policy.trainer(&optimizer, steps, head, learned)?;
        Ok(Self { trainer, budget: config.micro_batch_tokens, ranking_weight: config.ranking_weight })
    }

    /// Takes one optimizer step on the examples and returns the losses before the step.
    fn step(&mut self, members: &[&Example]) -> Result<Losses> {
        let lengths: Vec<usize> = members.iter().map(|e| e.tokens.len()).collect();
        let parts = micro_batches(&lengths, self.budget);
        // A pair may be split over two micro-batches, so slopes need all logits first; a single micro-batch has them
        // from its own forward pass.
        let full_batch =
            if parts.len() > 1 { Some(gradients(members, &self.logits(members)?, self.ranking_weight)) } else { None };
        let mut losses = full_batch.as_ref().map(|(losses, _)| *losses).unwrap_or_default();
        for part in parts {
            let examples: Vec<&Example> = part.iter().map(|&k| members[k]).collect();
            let (sequences, places) = inputs(&examples);
            let scores = self.trainer.forward(&sequences, &places, 1.0)?.values;
            let slopes: Vec<f64> = match &full_batch {
                Some((_, slopes)) => part.iter().flat_map(|&k| slopes[k].iter().copied()).collect(),
                None => {
                    let (batch_losses, slopes) =
                        gradients(&examples, &by_example(scores, &examples), self.ranking_weight);
                    losses = batch_losses;
                    slopes.concat()
                }
            };
            self.trainer.backward(&OutputGradients { values: &slopes, ..OutputGradients::default() })?;
        }
        for (loss, name) in [(losses.labels, "the loss"), (losses.ranking, "the ranking loss")] {
            finite(loss.unwrap_or(0.0), name, self.trainer.steps())?;
        }
        self.trainer.step()?;
        Ok(losses)
    }

    /// Computes the logits at the steps of every example.
    pub fn logits(&self, examples: &[&Example]) -> Result<Vec<Vec<f64>>> {
        let lengths: Vec<usize> = examples.iter().map(|e| e.tokens.len()).collect();
        let mut logits: Vec<Vec<f64>> = vec![Vec::new(); examples.len()];
        for part in micro_batches(&lengths, self.budget) {
            let some: Vec<&Example> = part.iter().map(|&i| examples[i]).filter(|e| !e.steps.is_empty()).collect();
            if some.is_empty() {
                continue;
            }
            let (sequences, places) = inputs(&some);
            let scores = self.trainer.evaluate(&sequences, &places, 1.0)?.values;
            let mut values = by_example(scores, &some).into_iter();
            for &i in part.iter().filter(|&&i| !examples[i].steps.is_empty()) {
                logits[i] = values.next().unwrap_or_default();
            }
        }
        Ok(logits)
    }
}

/// Returns the tokens of examples, and the positions of the ends of their steps: a score is read after the last token
/// of its step.
fn inputs<'e>(examples: &[&'e Example]) -> (Vec<&'e [u32]>, Vec<TokenPosition>) {
    let of = |(sequence, e): (usize, &&Example)| -> Vec<TokenPosition> {
        e.steps.iter().map(|(last, _)| TokenPosition { sequence, token: last + 1 }).collect()
    };
    (examples.iter().map(|e| e.tokens.as_slice()).collect(), examples.iter().enumerate().flat_map(of).collect())
}

/// Losses of one optimizer step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Losses {
    /// Mean cross-entropy of the labeled steps, in nats; `None` without a labeled step.
    pub labels: Option<f64>,
    /// Mean loss of the pairs; `None` without a pair.
    pub ranking: Option<f64>,
}

/// Returns the losses of a batch, and the slope of their weighted sum by every logit: the cross-entropy's mean over
/// labeled steps plus `weight` times the ranking loss's mean over pairs.
fn gradients(examples: &[&Example], logits: &[Vec<f64>], weight: f64) -> (Losses, Vec<Vec<f64>>) {
    let count = examples.iter().map(|e| e.labeled()).sum::<usize>().max(1) as f64;
    let mut losses = Losses::default();
    let mut slopes: Vec<Vec<f64>> = logits.iter().map(|z| vec![0.0; z.len()]).collect();
    for ((example, logits), slopes) in examples.iter().zip(logits).zip(&mut slopes) {
        for (((_, label), z), slope) in
            example.steps.iter().zip(logits).zip(slopes).filter(|(((_, label), _), _)| !label.is_nan())
        {
            *losses.labels.get_or_insert(0.0) += cross_entropy(*z, *label) / count;
            *slope = (sigmoid(*z) - label) / count;
        }
    }
    let pairs = if weight > 0.0 { contrast::pairs(examples) } else { Vec::new() };
    for &(right, wrong) in &pairs {
        let last = |i: usize| logits[i].last().copied().unwrap_or(0.0);
        let (loss, slope) = contrast::ranking_loss(last(right), last(wrong));
        let share = slope * weight / pairs.len() as f64;
        *losses.ranking.get_or_insert(0.0) += loss / pairs.len() as f64;
        slopes[right].last_mut().into_iter().for_each(|s| *s -= share);
        slopes[wrong].last_mut().into_iter().for_each(|s| *s += share);
    }
    (losses, slopes)
}

/// Splits a flat list by the numbers of steps of the examples.
fn by_example(values: Vec<f64>, examples: &[&Example]) -> Vec<Vec<f64>> {
    let mut values = values.into_iter();
    examples.iter().map(|e| values.by_ref().take(e.steps.len()).collect()).collect()
}

/// Progress of the training.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct HeadState {
    /// Optimizer steps done.
    pub step: u64,
    /// Learning curves so far.
    pub curves: LearningCurves,
}

/// Trains a head on the examples, from a resume point if there is one. Examples without a step are left out.
pub fn train(
    config: &PrmConfig,
    policy: (&mut PolicyModel, TrainableParameters),
    examples: &[Example],
    resumed: Option<(HeadState, PathBuf)>,
    save: &dyn Fn(&HeadState, &ModelTrainer) -> Result<()>,
    context: &StageContext,
) -> Result<(ScoringHead, LearningCurves)> {
    let groups = sharing_batches(examples);
    if groups.is_empty() {
        return Err(Error::data("no step has a label")
            .help("wire `trajectories` with `step_labels`, or `problems` to label by rollouts"));
    }
    let tokens = |group: &Vec<&Example>| group.iter().map(|e| e.tokens.len()).sum::<usize>();
    let lengths: Vec<u32> = groups.iter().map(|group| u32::try_from(tokens(group)).unwrap_or(u32::MAX)).collect();
    let chance = Chance::new(config.seed).child("prm", &[]);
    let epoch = |epoch| epoch_batches(&lengths, config.batch_tokens, &chance, epoch);
    let plan: Vec<Vec<u32>> =
        (0..config.epochs).flat_map(|number| epoch(number).iter().map(<[u32]>::to_vec).collect::<Vec<_>>()).collect();
    let total = plan.len() as u64;
    let mut head = ScoringHead::new(config, policy, total, context)?;
    let mut state = HeadState::default();
    if let Some((saved, folder)) = resumed {
        head.trainer.load(&folder, "")?;
        state = saved;
    }
    let every = config.checkpoint_every.unwrap_or(CHECKPOINT_EVERY);
    for (n, batch) in plan.iter().enumerate().skip(state.step as usize) {
        let _span = step_span(n as u64);
        context.stop_if_cancelled()?;
        let members: Vec<&Example> = batch.iter().flat_map(|&i| groups[i as usize].iter().copied()).collect();
        let losses = head.step(&members)?;
        for (name, loss) in [("loss", losses.labels), ("ranking_loss", losses.ranking)] {
            if let Some(loss) = loss {
                state.curves.point(context, name, n as u64, loss)?;
            }
        }
        // A batch of only contrasted rollouts has no label, so the progress shows the newest loss.
        state.step = n as u64 + 1;
        context.progress(state.step, total, "steps", state.curves.last("loss").map(|loss| ("loss", loss)));
        if every > 0 && state.step.is_multiple_of(every) && state.step < total {
            save(&state, &head.trainer)?;
        }
    }
    Ok((head, state.curves))
}

/// Groups examples that must share a batch: examples of one problem with known outcomes, which are contrasted. All
/// others are separate, because batches of many problems are less noisy.
fn sharing_batches(examples: &[Example]) -> Vec<Vec<&Example>> {
    let mut problems: BTreeMap<&str, Vec<&Example>> = BTreeMap::new();
    let (known, unknown): (Vec<&Example>, Vec<&Example>) =
        examples.iter().filter(|e| !e.steps.is_empty()).partition(|e| e.right.is_some());
    known.into_iter().for_each(|e| problems.entry(&e.problem).or_default().push(e));
    unknown.into_iter().map(|e| vec![e]).chain(problems.into_values()).collect()
}

/// Computes the binary cross-entropy of a logit against a soft label, without overflow.
pub fn cross_entropy(z: f64, y: f64) -> f64 {
    z.max(0.0) - z * y + (-z.abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::prm::example::example;
    use trainyard_tables::Trajectory;

    #[test]
    fn the_gradient_of_the_loss_is_the_finite_difference() {
        for (z, y) in [(0.3, 0.0), (-2.0, 1.0), (1.5, 0.25), (40.0, 0.5)] {
            let difference = (cross_entropy(z + 1e-6, y) - cross_entropy(z - 1e-6, y)) / 2e-6;
            assert!((difference - (sigmoid(z) - y)).abs() < 1e-8);
        }
        assert!((cross_entropy(0.0, 0.5) - std::f64::consts::LN_2).abs() < 1e-15);
        assert!(cross_entropy(800.0, 0.0).is_finite());
    }

    #[test]
    fn the_slopes_of_a_batch_are_finite_differences_and_the_last_step_is_read_where_the_outcome_is_known() {
        let row = |right: Option<bool>, labels: Option<Vec<f32>>| {
            let row = Trajectory {
                token_ids: vec![1; 9],
                step_ends: vec![3, 9],
                step_labels: labels,
                ..Trajectory::default()
            };
            example(&row, right).unwrap()
        };
        let labels = Some(vec![0.5, f32::NAN]);
        let examples =
            [row(Some(true), labels.clone()), row(Some(false), None), row(Some(false), labels), row(None, None)];
        assert_eq!(examples.iter().map(|e| e.steps.len()).collect::<Vec<_>>(), [2, 1, 2, 0]);
        let examples: Vec<&Example> = examples.iter().collect();
        let logits = vec![vec![0.2, -0.4], vec![0.7], vec![-1.0, 0.1], vec![]];
        let loss = |logits: &[Vec<f64>]| {
            let losses = gradients(&examples, logits, 3.0).0;
            losses.labels.unwrap() + 3.0 * losses.ranking.unwrap()
        };
        let slopes = gradients(&examples, &logits, 3.0).1;
        for i in 0..logits.len() {
            for j in 0..logits[i].len() {
                let mut moved = [logits.clone(), logits.clone()];
                moved[0][i][j] += 1e-6;
                moved[1][i][j] -= 1e-6;
                let difference = (loss(&moved[0]) - loss(&moved[1])) / 2e-6;
                assert!((difference - slopes[i][j]).abs() < 1e-8, "{i} {j}");
            }
        }
        assert_eq!(gradients(&examples, &logits, 0.0).0.ranking, None);
    }

    #[test]
    fn a_batch_without_a_label_has_no_loss_on_labels() {
        let unlabeled = |right| Example { right: Some(right), steps: vec![(0, f64::NAN)], ..Example::default() };
        let (right, wrong) = (unlabeled(true), unlabeled(false));
        let (losses, _) = gradients(&[&right, &wrong], &[vec![0.0], vec![0.0]], 1.0);
        assert_eq!(losses.labels, None);
        assert!((losses.ranking.unwrap() - std::f64::consts::LN_2).abs() < 1e-15);
    }

    #[test]
    fn rollouts_with_an_outcome_share_a_batch_by_problem() {
        let one = |problem: &str, right: Option<bool>| Example {
            problem: problem.into(),
            right,
            steps: vec![(0, 1.0)],
            ..Example::default()
        };
        let examples = [
            one("a", Some(true)),
            one("b", None),
            one("a", Some(false)),
            one("b", None),
            Example { right: Some(true), ..Example::default() },
        ];
        assert_eq!(sharing_batches(&examples).iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 2]);
    }
}
