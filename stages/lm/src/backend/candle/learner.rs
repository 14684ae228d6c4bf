//! Trains a decoder with AdamW on a candle device.

use super::adamw::DeviceAdamW;
use super::body::{DecoderBody, EMBEDDINGS, SavedPass};
use super::device::Precision;
use super::gradients::DeviceGradients;
use super::head::{PredictionTargets, penalty};
use super::layout::BatchLayout;
use super::options::Candle;
use crate::adapter::SCORES;
use crate::backend::{
    Learner, LearnerHead, LearnerOptions, OutputGradients, Outputs, Parameters, TokenPosition, TrainableParameters,
    is_adapter_parameter, learned_files,
};
use crate::batch::SequenceBatch;
use crate::checkpoint::{load_tensors, save_tensors};
use crate::config::ModelConfig;
use crate::decoder::{Dropout, LoraScale, Weights, expect_learned, expect_weights};
use crate::folder::ModelFolder;
use crate::optimizer::StepReport;
use crate::tensor::candle;
use candle_core::{DType, Device, Tensor, Var};
use std::collections::BTreeMap;
use std::path::Path;
use trainyard_core::{Error, Result};

/// State that the last forward keeps for its backward.
struct BackwardState {
    /// `None` if the head alone is trained.
    pass: Option<SavedPass>,
    hidden: Tensor,
    targets: PredictionTargets,
}

/// The learner of the backend `candle`.
pub struct CandleLearner {
    body: DecoderBody,
    /// Whether the model has an adapter, so that its weights are the adapter's.
    adapted: bool,
    /// Dropout of the adapter, if it has any and is trained.
    dropout: Option<Dropout>,
    /// Forward passes since the last step, which number the draws of dropout.
    passes: u64,
    optimizer: DeviceAdamW,
    gradients: Option<DeviceGradients>,
    backward_state: Option<BackwardState>,
    /// See [`penalty`].
    penalty: Option<Tensor>,
}

impl CandleLearner {
    pub fn new(backend: &Candle, model: &ModelFolder, options: &LearnerOptions) -> Result<Self> {
        let device = backend.device.open()?;
        // The pattern names every part of a model, so that the compiler reports a part that is added later.
        let ModelFolder { config, weights, adapter, source: _, chat: _, generation: _ } = model;
        options.trainable.expect(adapter.as_ref())?;
        let (mut config, mut weights, mut factors) = (config.clone(), weights.clone(), Weights::new());
        if let Some(adapter) = adapter {
            adapter.check(&config)?;
            factors = adapter.tensors.clone();
            weights.extend(factors.remove_entry(SCORES));
        }
        if let LearnerHead::Scores(labels) = options.head {
            config.num_labels = Some(labels);
            let zeros = Tensor::zeros((labels, config.hidden_size), DType::F32, &Device::Cpu).map_err(candle)?;
            weights.insert(SCORES.into(), zeros);
        }
        let all = expect_weights(&config, weights)?.into_iter().chain(factors);
        let (learned, frozen) =
            split_parameters(all, options.trainable, adapter.is_some(), (&device, backend.dtype)).map_err(candle)?;
        let low = adapter.as_ref().map(|adapter| LoraScale { rank: adapter.rank, scale: adapter.scale() });
        let penalty = penalty(&config, &device).map_err(candle)?;
        let optimizer = DeviceAdamW::new(learned.clone(), options.optimizer)?;
        let (precision, recompute) = (backend.dtype, backend.recompute);
        Ok(Self {
            body: DecoderBody { config, learned, frozen, lora: low, device, precision, recompute },
            adapted: adapter.is_some(),
            dropout: options.dropout(adapter.as_ref()),
            passes: 0,
            optimizer,
            gradients: None,
            backward_state: None,
            penalty,
        })
    }

    /// Returns the dropout of the next forward pass and counts the pass.
    fn next_dropout(&mut self) -> Option<Dropout> {
        let pass = self.passes;
        self.passes += 1;
        self.dropout.map(|dropout| dropout.for_pass(self.optimizer.steps(), pass))
    }
    fn run(
        &self,
        sequences: &[&[u32]],
        positions: &[TokenPosition],
        temperature: f64,
        what: Purpose,
    ) -> Result<(Outputs, BackwardState)> {
        let batch = SequenceBatch::new(sequences.iter().map(|s| s.to_vec()).collect())?;
        batch.expect_fit(&self.body.config)?;
        let rows = positions.iter().map(|p| batch.row(p.sequence, p.token - 1)).collect();
        // A value after the last token has no target.
        let tokens = positions.iter().map(|p| sequences[p.sequence].get(p.token).copied().unwrap_or(0)).collect();
        let temperature = temperature * self.body.config.architecture.logits_scaling;
        let targets = PredictionTargets { rows, tokens, temperature, penalty: self.penalty.clone() };
        let layout = BatchLayout::new(&batch, &self.body.config, &self.body.device).map_err(candle)?;
        let (dropout, keep) = match what {
            Purpose::Training(dropout) => (dropout, true),
            Purpose::Evaluation => (None, false),
        };
        let (hidden, pass) = self.body.forward(layout, dropout, keep).map_err(candle)?;
        let outputs = self.outputs(&hidden, &targets).map_err(candle)?;
        Ok((outputs, BackwardState { pass, hidden, targets }))
    }
    fn outputs(&self, hidden: &Tensor, targets: &PredictionTargets) -> candle_core::Result<Outputs> {
        if self.scores() {
            let rows = Tensor::new(targets.rows.as_slice(), hidden.device())?;
            let weight = self.body.need(SCORES)?;
            let values = hidden.index_select(&rows, 0)?.matmul(&weight.t()?)?.flatten_all()?.to_vec1::<f32>()?;
            return Ok(Outputs { values: values.into_iter().map(f64::from).collect(), ..Outputs::default() });
        }
        let (logprobs, entropies) = targets.outputs(hidden, &self.body.matrix(self.head())?)?;
        Ok(Outputs { logprobs, entropies, values: Vec::new() })
    }
    fn scores(&self) -> bool {
        self.body.config.num_labels.is_some()
    }
    fn head(&self) -> &'static str {
        if self.body.config.tie_word_embeddings { EMBEDDINGS } else { "lm_head.weight" }
    }

    /// Adds all gradients of the pass. Returns false if `slopes` are all omitted, which means 0.
    fn collect(
        &self,
        kept: BackwardState,
        slopes: &OutputGradients<'_>,
        gradients: &mut DeviceGradients,
    ) -> candle_core::Result<bool> {
        let BackwardState { pass, hidden, targets } = kept;
        let d_hidden = if self.scores() {
            if slopes.values.is_empty() {
                return Ok(false);
            }
            let weight = self.body.need(SCORES)?;
            let (count, labels) = (targets.rows.len(), weight.dim(0)?);
            let values: Vec<f32> = slopes.values.iter().map(|s| *s as f32).collect();
            let values = Tensor::from_vec(values, (count, labels), hidden.device())?;
            let rows = Tensor::new(targets.rows.as_slice(), hidden.device())?;
            if self.body.learned.contains_key(SCORES) {
                gradients.add(SCORES, values.t()?.matmul(&hidden.index_select(&rows, 0)?)?)?;
            }
            hidden.zeros_like()?.index_add(&rows, &values.matmul(&weight)?, 0)?
        } else {
            if slopes.logprobs.is_empty() && slopes.entropies.is_empty() {
                return Ok(false);
            }
            let weight = self.body.matrix(self.head())?;
            let head = (&weight, self.body.learned.contains_key(self.head()));
            let (d_hidden, d_head) = targets.gradients(&hidden, head, slopes.logprobs, slopes.entropies)?;
            if let Some(d_head) = d_head {
                gradients.add(self.head(), d_head)?;
            }
            d_hidden
        };
        match pass {
            Some(pass) => self.body.backward(pass, d_hidden, gradients).map(|()| true),
            None => Ok(true),
        }
    }
}

impl Learner for CandleLearner {
    fn config(&self) -> &ModelConfig {
        &self.body.config
    }
    fn parameters(&self) -> Vec<(String, Vec<usize>)> {
        self.optimizer.parameters().iter().map(|(name, v)| (name.clone(), v.dims().to_vec())).collect()
    }
    fn forward(&mut self, sequences: &[&[u32]], positions: &[TokenPosition], temperature: f64) -> Result<Outputs> {
        self.backward_state = None;
        let dropout = self.next_dropout();
        let (outputs, kept) = self.run(sequences, positions, temperature, Purpose::Training(dropout))?;
        self.backward_state = Some(kept);
        Ok(outputs)
    }
    fn evaluate(&self, sequences: &[&[u32]], positions: &[TokenPosition], temperature: f64) -> Result<Outputs> {
        self.run(sequences, positions, temperature, Purpose::Evaluation).map(|(outputs, _)| outputs)
    }
    fn backward(&mut self, slopes: &OutputGradients<'_>) -> Result<()> {
        let kept =
            self.backward_state.take().ok_or_else(|| Error::bug("a backward pass without a forward pass before it"))?;
        let mut gradients = self.gradients.take().unwrap_or_default();
        let any = self.collect(kept, slopes, &mut gradients).map_err(candle)?;
        self.gradients = (any || !gradients.is_empty()).then_some(gradients);
        Ok(())
    }
    fn step(&mut self, rate: f64) -> Result<Option<StepReport>> {
        (self.backward_state, self.passes) = (None, 0);
        let Some(gradients) = self.gradients.take() else { return Ok(None) };
        self.optimizer.step(&gradients, rate).map(Some)
    }
    fn steps(&self) -> u64 {
        self.optimizer.steps()
    }
    fn weights(&self) -> Result<Parameters> {
        let learned = self.body.learned.iter().map(|(name, var)| (name, var.as_detached_tensor()));
        let frozen = self.body.frozen.iter().map(|(name, tensor)| (name, tensor.clone()));
        let own = learned.chain(frozen).filter(|(name, _)| !self.adapted || is_adapter_parameter(name));
        Parameters::from_weights(&on_cpu(own)?)
    }
    fn save(&self, folder: &Path, prefix: &str) -> Result<()> {
        let (weights, optimizer) = learned_files(folder, prefix);
        let learned = self.body.learned.iter().map(|(name, var)| (name, var.as_detached_tensor()));
        save_tensors(&weights, &on_cpu(learned)?)?;
        save_tensors(&optimizer, &self.optimizer.save()?)
    }
    fn load(&mut self, folder: &Path, prefix: &str) -> Result<()> {
        let (weights, optimizer) = learned_files(folder, prefix);
        (self.backward_state, self.gradients, self.passes) = (None, None, 0);
        let weights = load_tensors(&weights)?;
        for (name, var) in &self.body.learned {
            let tensor = expect_learned(&weights, name, var.dims())?.to_device(&self.body.device).map_err(candle)?;
            var.set(&tensor).map_err(candle)?;
        }
        self.optimizer.load(&load_tensors(&optimizer)?)
    }
}

/// Purpose of a pass through the body.
enum Purpose {
    /// A backward pass follows.
    Training(Option<Dropout>),
    Evaluation,
}

/// Trained and frozen parameters, on the device.
type DeviceParameters = (BTreeMap<String, Var>, Weights);

/// Moves the parameters to the device. Matrices of a frozen base are kept in the type of products, which halves their
/// memory in bfloat16 and changes no number.
fn split_parameters(
    all: impl Iterator<Item = (String, Tensor)>,
    learns: TrainableParameters,
    adapted: bool,
    (device, precision): (&Device, Precision),
) -> candle_core::Result<DeviceParameters> {
    let (mut learned, mut frozen) = DeviceParameters::default();
    for (name, tensor) in all {
        let tensor = tensor.to_device(device)?.to_dtype(DType::F32)?;
        let multiplies = tensor.rank() == 2 && (name.starts_with("model.layers.") || name == "lm_head.weight");
        if learns.includes(&name) {
            learned.insert(name, Var::from_tensor(&tensor)?);
        } else if adapted && multiplies && !is_adapter_parameter(&name) {
            frozen.insert(name, tensor.to_dtype(precision.dtype())?);
        } else {
            frozen.insert(name, tensor);
        }
    }
    Ok((learned, frozen))
}

fn on_cpu<'n>(tensors: impl Iterator<Item = (&'n String, Tensor)>) -> Result<Weights> {
    let fetch = |(name, tensor): (&String, Tensor)| Ok((name.clone(), tensor.copy()?.to_device(&Device::Cpu)?));
    tensors.map(fetch).collect::<candle_core::Result<_>>().map_err(candle)
}
