//! Training the scoring head on step labels, and its quality on held-out problems.
//!
//! Why so: the label of a step is a probability, so the loss is binary cross-entropy against it: per step
//! −y·log σ(z) − (1−y)·log(1−σ(z)) with gradient σ(z) − y by the logit z. Unlabelled steps (NaN) are left out. Refuses: labels outside
//! 0..1, rows whose labels and steps differ in number.

use super::config::{Config, Trained};
use crate::curves::{Curves, finite};
use crate::optimize::trainer::tensor;
use crate::optimize::{Trainer, epoch_batches, micro_batches};
use candle_core::{Device, Tensor};
use trainyard_api::StageContext;
use trainyard_core::{Chance, Error, Result};
use trainyard_lm::{Decoder, ModelFolder, TokenBatch};
use trainyard_tables::Trajectory;

/// One rollout with its labelled steps.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Example {
    pub tokens: Vec<u32>,
    /// (last token of the step, label).
    pub steps: Vec<(usize, f64)>,
}

/// The labelled steps of a row. Errors: data, when lists do not fit.
pub fn example(row: &Trajectory) -> Result<Example> {
    let labels = row.step_labels.as_deref().unwrap_or(&[]);
    if labels.len() != row.step_ends.len() {
        let message = format!("rollout `{}` has {} step labels, but {} steps", row.id, labels.len(), row.step_ends.len());
        return Err(Error::data(message).help("set `steps` to what the labels were made for (`lines` or `turns`)"));
    }
    let mut steps = Vec::new();
    for (&end, &label) in row.step_ends.iter().zip(labels).filter(|(_, l)| !l.is_nan()) {
        if !(0.0..=1.0).contains(&label) || end == 0 || end as usize > row.token_ids.len() {
            return Err(
                Error::data(format!("rollout `{}` has the label {label} at token {end}", row.id)).help("labels are probabilities in 0..1")
            );
        }
        steps.push((end as usize - 1, f64::from(label)));
    }
    Ok(Example { tokens: row.token_ids.clone(), steps })
}

/// A model with a scoring head in training.
pub struct Head {
    pub trainer: Trainer,
    body: bool,
    budget: usize,
}

impl Head {
    /// A fresh head (all scores ½) on the model's decoder.
    pub fn new(config: &Config, model: &ModelFolder, steps: u64) -> Result<Self> {
        let decoder = Decoder::from_weights(&model.config, model.weights.clone())?.into_classifier(1)?;
        let body = config.train == Trained::All;
        let trainer = Trainer::of(decoder, &config.optimizer, steps, |name| body || name == "score.weight");
        Ok(Self { trainer, body, budget: config.micro_batch_tokens })
    }

    /// One optimizer step on the mean loss over the labelled steps of some examples; returns that loss.
    fn step(&mut self, members: &[&Example]) -> Result<f64> {
        let lengths: Vec<usize> = members.iter().map(|e| e.tokens.len()).collect();
        let count: usize = members.iter().map(|e| e.steps.len()).sum();
        let mut loss = 0.0;
        for part in micro_batches(&lengths, self.budget) {
            let examples: Vec<&Example> = part.iter().map(|&k| members[k]).collect();
            let (scores, labels) = self.scores(&examples, self.body)?;
            let logits = numbers(&scores)?;
            loss += logits.iter().zip(&labels).map(|(z, y)| cross_entropy(*z, *y)).sum::<f64>();
            let slopes: Vec<f32> = logits.iter().zip(&labels).map(|(z, y)| ((sigmoid(*z) - y) / count as f64) as f32).collect();
            let slopes = Tensor::from_slice(&slopes, slopes.len(), &Device::Cpu).map_err(tensor)?;
            let surrogate = scores.mul(&slopes).and_then(|t| t.sum_all()).map_err(tensor)?;
            self.trainer.accumulate(&surrogate)?;
        }
        let loss = finite(loss / count as f64, "the loss", self.trainer.steps())?;
        self.trainer.step()?;
        Ok(loss)
    }

    /// Logits `[n]` at the labelled steps, and their labels.
    fn scores(&self, examples: &[&Example], gradient: bool) -> Result<(Tensor, Vec<f64>)> {
        let batch = TokenBatch::new(examples.iter().map(|e| e.tokens.clone()).collect())?;
        let rows: Vec<u32> =
            examples.iter().enumerate().flat_map(|(i, e)| e.steps.iter().map(move |s| (i, s.0))).map(|(i, t)| batch.row(i, t)).collect();
        let hidden = if gradient { self.trainer.decoder.hidden(&batch)? } else { self.trainer.decoder.hidden_no_grad(&batch)? };
        let scores = self.trainer.decoder.scores(&hidden, &rows)?.flatten_all().map_err(tensor)?;
        Ok((scores, examples.iter().flat_map(|e| e.steps.iter().map(|s| s.1)).collect()))
    }

    /// (predicted probability, label) of every labelled step, in order of the examples.
    pub fn predict(&self, examples: &[Example]) -> Result<(Vec<f64>, Vec<f64>)> {
        let lengths: Vec<usize> = examples.iter().map(|e| e.tokens.len()).collect();
        let mut predicted: Vec<Vec<f64>> = vec![Vec::new(); examples.len()];
        for part in micro_batches(&lengths, self.budget) {
            let some: Vec<&Example> = part.iter().map(|&i| &examples[i]).collect();
            let (scores, _) = self.scores(&some, false)?;
            let mut values = numbers(&scores)?.into_iter().map(sigmoid);
            for (&i, e) in part.iter().zip(&some) {
                predicted[i] = values.by_ref().take(e.steps.len()).collect();
            }
        }
        let labels = examples.iter().flat_map(|e| e.steps.iter().map(|s| s.1)).collect();
        Ok((predicted.concat(), labels))
    }
}

/// Trains a head on the examples; those without a labelled step are left out.
pub fn train(config: &Config, model: &ModelFolder, examples: &[Example], curves: &mut Curves, context: &StageContext) -> Result<Head> {
    let used: Vec<&Example> = examples.iter().filter(|e| !e.steps.is_empty()).collect();
    if used.is_empty() {
        return Err(Error::data("no step is labelled").help("give trajectories with `step_labels`, or problems to label by rollouts"));
    }
    let lengths: Vec<usize> = used.iter().map(|e| e.tokens.len()).collect();
    let chance = Chance::new(config.seed).child("prm", &[]);
    let plan: Vec<Vec<usize>> = (0..config.epochs).flat_map(|epoch| epoch_batches(&lengths, config.batch_tokens, &chance, epoch)).collect();
    let total = plan.len() as u64;
    let mut head = Head::new(config, model, total)?;
    for (n, batch) in plan.iter().enumerate() {
        context.stop_if_cancelled()?;
        let members: Vec<&Example> = batch.iter().map(|&i| used[i]).collect();
        let loss = head.step(&members)?;
        curves.point(context, "loss", n as u64, loss)?;
        context.progress(n as u64 + 1, total, "steps", Some(("loss", loss)));
    }
    Ok(head)
}

fn numbers(scores: &Tensor) -> Result<Vec<f64>> {
    Ok(scores.to_vec1::<f32>().map_err(tensor)?.into_iter().map(f64::from).collect())
}

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
    fn unlabelled_steps_are_left_out_and_wrong_labels_refused() {
        let row = |ends: &[u32], labels: &[f32]| Trajectory {
            token_ids: vec![1; 9],
            step_ends: ends.to_vec(),
            step_labels: Some(labels.to_vec()),
            ..Trajectory::default()
        };
        assert_eq!(example(&row(&[3, 6, 9], &[0.5, f32::NAN, 1.0])).unwrap().steps, [(2, 0.5), (8, 1.0)]);
        assert!(example(&row(&[3], &[1.5])).is_err());
        assert!(example(&row(&[3, 6], &[1.0])).unwrap_err().help.unwrap().contains("turns"));
        assert!(example(&row(&[12], &[1.0])).is_err());
    }
}
