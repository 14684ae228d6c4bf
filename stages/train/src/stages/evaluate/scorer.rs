//! Scores finished episodes with a process reward model: the score is the logit of `score.weight` at the last token of
//! each step, through a sigmoid.
//!
//! Ranking samples, labeling rollouts and measuring the head use the same positions and the same kernels.

use crate::contexts::steps_by_context;
use crate::model::PolicyModel;
use crate::rollouts::StepKind;
use trainyard_core::{Error, Result};
use trainyard_lm::ModelFolder;
use trainyard_lm::backend::Sampler;
use trainyard_tables::Trajectory;

/// Model with a scoring head and its sampler.
pub struct Scorer {
    policy: PolicyModel,
    sampler: Box<dyn Sampler>,
    /// Unit of a step.
    pub steps: StepKind,
}

impl Scorer {
    /// Creates a scorer. Errors: invalid, if the model has no head of one label.
    pub fn new(policy: PolicyModel, steps: StepKind, threads: usize) -> Result<Self> {
        let sampler = policy.sampler(threads)?;
        match sampler.score_labels() {
            1 => Ok(Self { policy, sampler, steps }),
            n => Err(Error::invalid(format!("input `prm` has {n} score labels, expected 1"))
                .help("give the output `model` of a `prm` stage")),
        }
    }
    /// Rejects a model with another tokenizer or template.
    pub fn expect_same_text(&self, model: &ModelFolder) -> Result<()> {
        let chat = &model.chat;
        self.policy.folder.expect_digests(
            chat.tokenizer().digest().as_str(),
            chat.template().digest().as_str(),
            "the evaluated model",
        )
    }
    /// Sets `step_ends` and `step_scores` of every row; scores are in (0, 1).
    pub fn score(&mut self, rows: &mut [&mut Trajectory]) -> Result<()> {
        for row in rows.iter_mut() {
            row.step_ends =
                self.steps.ends(self.policy.folder.chat.tokenizer(), &row.token_ids, &row.loss_mask, &row.turn)?;
        }
        let read: Vec<&Trajectory> = rows.iter().map(|row| &**row).collect();
        let (sequences, positions) = steps_by_context(&read);
        let places: Vec<&[u32]> = positions.iter().map(Vec::as_slice).collect();
        let mut scored = self.sampler.score(&sequences, &places)?.into_iter();
        for row in rows.iter_mut() {
            let logits: Vec<f32> = scored.by_ref().take(row.restarts.len() + 1).flatten().collect();
            if let Some(bad) = logits.iter().find(|x| !x.is_finite()) {
                return Err(Error::data(format!("the process reward model scores {bad} on rollout `{}`", row.id))
                    .help("its weights contain NaN: train it again"));
            }
            row.step_scores = Some(logits.into_iter().map(sigmoid).collect());
        }
        Ok(())
    }
}

/// Returns 1 / (1 + e⁻ˣ), the probability of a logit.
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}
