//! A decoder with AdamW on a candle device.

use super::adamw::AdamW;
use super::body::{Body, EMBEDDINGS, Pass};
use super::gradients::Gradients;
use super::head::{Targets, penalty};
use super::layout::Layout;
use super::options::Candle;
use super::refused::expect_no_adapter;
use crate::backend::{Head, Learner, LearnerOptions, Learns, Outputs, Parameters, Place, Slopes, learned_files};
use crate::batch::TokenBatch;
use crate::checkpoint::{load_tensors, save_tensors};
use crate::config::ModelConfig;
use crate::decoder::{Weights, expect_weights};
use crate::folder::ModelFolder;
use crate::optimizer::StepReport;
use crate::tensor::candle;
use candle_core::{DType, Device, Tensor, Var};
use std::path::Path;
use trainyard_core::{Error, Result};

const SCORES: &str = "score.weight";

/// What the last forward leaves for its backward.
struct Kept {
    /// None: the body is frozen.
    pass: Option<Pass>,
    hidden: Tensor,
    targets: Targets,
}

/// The learner of the backend `candle`.
pub struct CandleLearner {
    body: Body,
    learns: Learns,
    optimizer: AdamW,
    gradients: Option<Gradients>,
    kept: Option<Kept>,
    /// See [`penalty`].
    penalty: Option<Tensor>,
}

impl CandleLearner {
    pub fn new(backend: &Candle, model: &ModelFolder, options: &LearnerOptions) -> Result<Self> {
        let device = backend.device.open()?;
        // Every part of a model is named: one that is added must be looked at here.
        let ModelFolder { config, weights, adapter, source: _, chat: _, generation: _ } = model;
        expect_no_adapter(adapter.as_ref())?;
        let (mut config, mut weights) = (config.clone(), weights.clone());
        if let Head::Scores(labels) = options.head {
            config.num_labels = Some(labels);
            let zeros = Tensor::zeros((labels, config.hidden_size), DType::F32, &Device::Cpu).map_err(candle)?;
            weights.insert(SCORES.into(), zeros);
        }
        let weights = expect_weights(&config, weights)?;
        let place = |(name, tensor): (String, Tensor)| {
            let tensor = tensor.to_device(&device)?.to_dtype(DType::F32)?;
            Ok((name, Var::from_tensor(&tensor)?))
        };
        let vars = weights.into_iter().map(place).collect::<candle_core::Result<_>>().map_err(candle)?;
        let body = Body::new(config, vars, device, backend.dtype, backend.recompute);
        let learns = |name: &str| match options.learns {
            Learns::All => true,
            Learns::Scores => name == SCORES,
            Learns::Adapter | Learns::Nothing => false,
        };
        let learned = body.weights.iter().filter(|(name, _)| learns(name));
        let learned = learned.map(|(name, var)| (name.clone(), var.clone())).collect();
        let optimizer = AdamW::new(learned, options.optimizer)?;
        let penalty = penalty(&body.config, &body.device).map_err(candle)?;
        Ok(Self { body, learns: options.learns, optimizer, gradients: None, kept: None, penalty })
    }

    fn run(&self, sequences: &[&[u32]], places: &[Place], temperature: f64, keep: bool) -> Result<(Outputs, Kept)> {
        let batch = TokenBatch::new(sequences.iter().map(|s| s.to_vec()).collect())?;
        batch.expect_fit(&self.body.config)?;
        let rows = places.iter().map(|p| batch.row(p.sequence, p.token - 1)).collect();
        // A value after the last token has no target.
        let tokens = places.iter().map(|p| sequences[p.sequence].get(p.token).copied().unwrap_or(0)).collect();
        let temperature = temperature * self.body.config.architecture.logits_scaling;
        let targets = Targets { rows, tokens, temperature, penalty: self.penalty.clone() };
        let layout = Layout::new(&batch, &self.body.config, &self.body.device).map_err(candle)?;
        let (hidden, pass) = self.body.forward(layout, keep).map_err(candle)?;
        let outputs = self.outputs(&hidden, &targets).map_err(candle)?;
        Ok((outputs, Kept { pass, hidden, targets }))
    }
    fn outputs(&self, hidden: &Tensor, targets: &Targets) -> candle_core::Result<Outputs> {
        if self.scores() {
            let rows = Tensor::new(targets.rows.as_slice(), hidden.device())?;
            let weight = self.body.weights[SCORES].as_detached_tensor();
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

    /// Adds all gradients of the pass. False if every slope is 0 by being left out.
    fn collect(&self, kept: Kept, slopes: &Slopes<'_>, gradients: &mut Gradients) -> candle_core::Result<bool> {
        let Kept { pass, hidden, targets } = kept;
        let d_hidden = if self.scores() {
            if slopes.values.is_empty() {
                return Ok(false);
            }
            let weight = self.body.weights[SCORES].as_detached_tensor();
            let (count, labels) = (targets.rows.len(), weight.dim(0)?);
            let values: Vec<f32> = slopes.values.iter().map(|s| *s as f32).collect();
            let values = Tensor::from_vec(values, (count, labels), hidden.device())?;
            let rows = Tensor::new(targets.rows.as_slice(), hidden.device())?;
            gradients.add(SCORES, values.t()?.matmul(&hidden.index_select(&rows, 0)?)?)?;
            hidden.zeros_like()?.index_add(&rows, &values.matmul(&weight)?, 0)?
        } else {
            if slopes.logprobs.is_empty() && slopes.entropies.is_empty() {
                return Ok(false);
            }
            let weight = self.body.matrix(self.head())?;
            let (d_hidden, d_head) = targets.gradients(&hidden, &weight, slopes.logprobs, slopes.entropies)?;
            gradients.add(self.head(), d_head)?;
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
    fn forward(&mut self, sequences: &[&[u32]], places: &[Place], temperature: f64) -> Result<Outputs> {
        self.kept = None;
        let (outputs, kept) = self.run(sequences, places, temperature, self.learns == Learns::All)?;
        self.kept = Some(kept);
        Ok(outputs)
    }
    fn evaluate(&self, sequences: &[&[u32]], places: &[Place], temperature: f64) -> Result<Outputs> {
        self.run(sequences, places, temperature, false).map(|(outputs, _)| outputs)
    }
    fn backward(&mut self, slopes: &Slopes<'_>) -> Result<()> {
        let kept = self.kept.take().ok_or_else(|| Error::bug("a backward pass without a forward pass before it"))?;
        let mut gradients = self.gradients.take().unwrap_or_default();
        let any = self.collect(kept, slopes, &mut gradients).map_err(candle)?;
        self.gradients = (any || !gradients.is_empty()).then_some(gradients);
        Ok(())
    }
    fn step(&mut self, rate: f64) -> Result<Option<StepReport>> {
        self.kept = None;
        let Some(gradients) = self.gradients.take() else { return Ok(None) };
        self.optimizer.step(&gradients, rate).map(Some)
    }
    fn steps(&self) -> u64 {
        self.optimizer.steps()
    }
    fn weights(&self) -> Result<Parameters> {
        Parameters::from_weights(&self.on_cpu()?)
    }
    fn save(&self, folder: &Path, prefix: &str) -> Result<()> {
        let (weights, optimizer) = learned_files(folder, prefix);
        save_tensors(&weights, &self.on_cpu()?)?;
        save_tensors(&optimizer, &self.optimizer.save()?)
    }
    fn load(&mut self, folder: &Path, prefix: &str) -> Result<()> {
        let (weights, optimizer) = learned_files(folder, prefix);
        (self.kept, self.gradients) = (None, None);
        let weights = expect_weights(&self.body.config, load_tensors(&weights)?)?;
        for (name, var) in &self.body.weights {
            let tensor = weights[name].to_device(&self.body.device).map_err(candle)?;
            var.set(&tensor).map_err(candle)?;
        }
        self.optimizer.load(&load_tensors(&optimizer)?)
    }
}

impl CandleLearner {
    fn on_cpu(&self) -> Result<Weights> {
        let fetch = |(name, var): (&String, &Var)| {
            let tensor = var.as_detached_tensor().copy()?.to_device(&Device::Cpu)?;
            Ok((name.clone(), tensor))
        };
        self.body.weights.iter().map(fetch).collect::<candle_core::Result<_>>().map_err(candle)
    }
}
