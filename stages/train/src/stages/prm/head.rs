//! Training the scoring head on step labels, and its quality on held-out problems.
//!
//! Why so: the label of a step is a probability, so the loss is binary cross-entropy against it: per step
//! −y·log σ(z) − (1−y)·log(1−σ(z)) with gradient σ(z) − y by the logit z, beside the ranking loss of [`contrast`]. Unlabeled steps (NaN)
//! are left out of the first. Refuses: labels outside 0..1, rows whose labels and steps differ in number.

use super::config::{Config, Trained};
use super::contrast;
use crate::curves::{Curves, finite};
use crate::optimize::trainer::tensor;
use crate::optimize::{Trainer, epoch_batches, micro_batches};
use candle_core::{Device, Tensor};
use std::collections::BTreeMap;
use trainyard_api::StageContext;
use trainyard_core::{Chance, Error, Result};
use trainyard_lm::{Decoder, ModelFolder, TokenBatch};
use trainyard_tables::Trajectory;

/// One rollout with its labeled steps.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Example {
    pub tokens: Vec<u32>,
    /// (last token of the step, label); NaN = read, but not labeled.
    pub steps: Vec<(usize, f64)>,
    pub problem: String,
    /// Whether the rollout ended right, if that is known; then the last of `steps` is where it ends.
    pub right: Option<bool>,
    pub tool_calls: u32,
    pub tool_errors: u32,
}

impl Example {
    /// Steps that have a label.
    pub fn labeled(&self) -> usize {
        self.steps.iter().filter(|(_, label)| !label.is_nan()).count()
    }
}

/// The labeled steps of a row, and its last one if the outcome is known. Errors: data, when lists do not fit.
pub fn example(row: &Trajectory, right: Option<bool>) -> Result<Example> {
    let unlabeled = vec![f32::NAN; row.step_ends.len()];
    let labels = row.step_labels.as_deref().unwrap_or(&unlabeled);
    if labels.len() != row.step_ends.len() {
        let message =
            format!("rollout `{}` has {} step labels, but {} steps", row.id, labels.len(), row.step_ends.len());
        return Err(Error::data(message).help("set `steps` to what the labels were made for (`lines` or `turns`)"));
    }
    let mut steps = Vec::new();
    for (i, (&end, &label)) in row.step_ends.iter().zip(labels).enumerate() {
        if label.is_nan() && !(right.is_some() && i + 1 == labels.len()) {
            continue;
        }
        if !(label.is_nan() || (0.0..=1.0).contains(&label)) || end == 0 || end as usize > row.token_ids.len() {
            return Err(Error::data(format!("rollout `{}` has the label {label} at token {end}", row.id))
                .help("labels are probabilities in 0..1"));
        }
        steps.push((end as usize - 1, f64::from(label)));
    }
    // Without a step there is no place that could tell the outcome.
    let right = right.filter(|_| !steps.is_empty());
    let (tool_calls, tool_errors) = (row.tool_calls, row.tool_errors);
    Ok(Example {
        tokens: row.token_ids.clone(),
        steps,
        problem: row.problem_id.clone(),
        right,
        tool_calls,
        tool_errors,
    })
}

/// A model with a scoring head in training.
pub struct Head {
    pub trainer: Trainer,
    body: bool,
    budget: usize,
    ranking_weight: f64,
}

impl Head {
    /// A fresh head (all scores ½) on the model's decoder.
    pub fn new(config: &Config, model: &ModelFolder, steps: u64) -> Result<Self> {
        let decoder = Decoder::from_weights(&model.config, model.weights.clone())?.into_classifier(1)?;
        let body = config.train == Trained::All;
        let trainer = Trainer::of(decoder, &config.optimizer, steps, |name| body || name == "score.weight");
        Ok(Self { trainer, body, budget: config.micro_batch_tokens, ranking_weight: config.ranking_weight })
    }

    /// One optimizer step on some examples; returns the losses.
    fn step(&mut self, members: &[&Example]) -> Result<Losses> {
        let lengths: Vec<usize> = members.iter().map(|e| e.tokens.len()).collect();
        let parts = micro_batches(&lengths, self.budget);
        // A pair may lie in two micro-batches, so slopes need all logits first; one micro-batch has them from its own forward.
        let whole =
            if parts.len() > 1 { Some(gradients(members, &self.logits(members)?, self.ranking_weight)) } else { None };
        let mut losses = whole.as_ref().map(|(losses, _)| *losses).unwrap_or_default();
        for part in parts {
            let examples: Vec<&Example> = part.iter().map(|&k| members[k]).collect();
            let scores = self.scores(&examples, self.body)?;
            let slopes: Vec<f64> = match &whole {
                Some((_, slopes)) => part.iter().flat_map(|&k| slopes[k].iter().copied()).collect(),
                None => {
                    let (own, slopes) =
                        gradients(&examples, &by_example(numbers(&scores)?, &examples), self.ranking_weight);
                    losses = own;
                    slopes.concat()
                }
            };
            let slopes: Vec<f32> = slopes.into_iter().map(|s| s as f32).collect();
            let slopes = Tensor::from_slice(&slopes, slopes.len(), &Device::Cpu).map_err(tensor)?;
            let surrogate = scores.mul(&slopes).and_then(|t| t.sum_all()).map_err(tensor)?;
            self.trainer.accumulate(&surrogate)?;
        }
        finite(losses.labels, "the loss", self.trainer.steps())?;
        finite(losses.ranking.unwrap_or(0.0), "the ranking loss", self.trainer.steps())?;
        self.trainer.step()?;
        Ok(losses)
    }

    /// Logits `[n]` at the steps of the examples.
    fn scores(&self, examples: &[&Example], gradient: bool) -> Result<Tensor> {
        let batch = TokenBatch::new(examples.iter().map(|e| e.tokens.clone()).collect())?;
        let rows: Vec<u32> = examples
            .iter()
            .enumerate()
            .flat_map(|(i, e)| e.steps.iter().map(move |s| (i, s.0)))
            .map(|(i, t)| batch.row(i, t))
            .collect();
        let hidden = if gradient {
            self.trainer.decoder.hidden(&batch)?
        } else {
            self.trainer.decoder.hidden_no_grad(&batch)?
        };
        self.trainer.decoder.scores(&hidden, &rows)?.flatten_all().map_err(tensor)
    }

    /// The logits at the steps of every example.
    pub fn logits(&self, examples: &[&Example]) -> Result<Vec<Vec<f64>>> {
        let lengths: Vec<usize> = examples.iter().map(|e| e.tokens.len()).collect();
        let mut logits: Vec<Vec<f64>> = vec![Vec::new(); examples.len()];
        for part in micro_batches(&lengths, self.budget) {
            let some: Vec<&Example> = part.iter().map(|&i| examples[i]).filter(|e| !e.steps.is_empty()).collect();
            if some.is_empty() {
                continue;
            }
            let mut values = by_example(numbers(&self.scores(&some, false)?)?, &some).into_iter();
            for &i in part.iter().filter(|&&i| !examples[i].steps.is_empty()) {
                logits[i] = values.next().unwrap_or_default();
            }
        }
        Ok(logits)
    }
}

/// Losses of one optimizer step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Losses {
    /// Mean cross-entropy of the labeled steps, nats.
    pub labels: f64,
    /// Mean loss of the pairs; none without a pair.
    pub ranking: Option<f64>,
}

/// The losses of a batch, and their slope by every logit: the cross-entropy's mean over labeled steps plus `weight` times the ranking
/// loss's mean over pairs.
fn gradients(examples: &[&Example], logits: &[Vec<f64>], weight: f64) -> (Losses, Vec<Vec<f64>>) {
    let count = examples.iter().map(|e| e.labeled()).sum::<usize>().max(1) as f64;
    let mut losses = Losses::default();
    let mut slopes: Vec<Vec<f64>> = logits.iter().map(|z| vec![0.0; z.len()]).collect();
    for ((example, logits), slopes) in examples.iter().zip(logits).zip(&mut slopes) {
        for (((_, label), z), slope) in
            example.steps.iter().zip(logits).zip(slopes).filter(|(((_, label), _), _)| !label.is_nan())
        {
            losses.labels += cross_entropy(*z, *label) / count;
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

/// Cuts a flat list by the numbers of steps.
fn by_example(values: Vec<f64>, examples: &[&Example]) -> Vec<Vec<f64>> {
    let mut values = values.into_iter();
    examples.iter().map(|e| values.by_ref().take(e.steps.len()).collect()).collect()
}

/// Trains a head on the examples; those without a step to read are left out.
pub fn train(
    config: &Config,
    model: &ModelFolder,
    examples: &[Example],
    curves: &mut Curves,
    context: &StageContext,
) -> Result<Head> {
    let groups = sharing_batches(examples);
    if groups.is_empty() {
        return Err(Error::data("no step is labeled")
            .help("give trajectories with `step_labels`, or problems to label by rollouts"));
    }
    let lengths: Vec<usize> = groups.iter().map(|g| g.iter().map(|e| e.tokens.len()).sum()).collect();
    let chance = Chance::new(config.seed).child("prm", &[]);
    let plan: Vec<Vec<usize>> =
        (0..config.epochs).flat_map(|epoch| epoch_batches(&lengths, config.batch_tokens, &chance, epoch)).collect();
    let total = plan.len() as u64;
    let mut head = Head::new(config, model, total)?;
    for (n, batch) in plan.iter().enumerate() {
        context.stop_if_cancelled()?;
        let members: Vec<&Example> = batch.iter().flat_map(|&i| groups[i].iter().copied()).collect();
        let losses = head.step(&members)?;
        curves.point(context, "loss", n as u64, losses.labels)?;
        if let Some(ranking) = losses.ranking {
            curves.point(context, "ranking_loss", n as u64, ranking)?;
        }
        context.progress(n as u64 + 1, total, "steps", Some(("loss", losses.labels)));
    }
    Ok(head)
}

/// Examples of one problem whose outcomes are known share a batch, so that they can be contrasted; others are dealt one by one, since a
/// batch of many problems is the less noisy one.
fn sharing_batches(examples: &[Example]) -> Vec<Vec<&Example>> {
    let mut problems: BTreeMap<&str, Vec<&Example>> = BTreeMap::new();
    let (known, unknown): (Vec<&Example>, Vec<&Example>) =
        examples.iter().filter(|e| !e.steps.is_empty()).partition(|e| e.right.is_some());
    known.into_iter().for_each(|e| problems.entry(&e.problem).or_default().push(e));
    unknown.into_iter().map(|e| vec![e]).chain(problems.into_values()).collect()
}

fn numbers(scores: &Tensor) -> Result<Vec<f64>> {
    Ok(scores.to_vec1::<f32>().map_err(tensor)?.into_iter().map(f64::from).collect())
}

/// 1 / (1 + e⁻ᶻ): the probability behind a logit.
pub fn sigmoid(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

/// Binary cross-entropy of a logit against a soft label, without overflow.
pub fn cross_entropy(z: f64, y: f64) -> f64 {
    z.max(0.0) - z * y + (-z.abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn unlabeled_steps_are_left_out_and_wrong_labels_refused() {
        let row = |ends: &[u32], labels: &[f32]| Trajectory {
            token_ids: vec![1; 9],
            step_ends: ends.to_vec(),
            step_labels: Some(labels.to_vec()),
            ..Trajectory::default()
        };
        assert_eq!(example(&row(&[3, 6, 9], &[0.5, f32::NAN, 1.0]), None).unwrap().steps, [(2, 0.5), (8, 1.0)]);
        assert!(example(&row(&[3], &[1.5]), None).is_err());
        assert!(example(&row(&[3, 6], &[1.0]), None).unwrap_err().help.unwrap().contains("turns"));
        assert!(example(&row(&[12], &[1.0]), None).is_err());
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
            losses.labels + 3.0 * losses.ranking.unwrap()
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
