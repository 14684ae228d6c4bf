//! A decoder with AdamW: tensors stay in here, numbers go out.

use crate::backend::{Head, Learner, LearnerOptions, Learns, Outputs, Parameters, Place, Slopes, learned_files};
use crate::batch::TokenBatch;
use crate::checkpoint::{load_tensors, save_tensors};
use crate::config::ModelConfig;
use crate::decoder::Decoder;
use crate::folder::ModelFolder;
use crate::optimizer::{AdamW, Gradients, StepReport};
use crate::tensor::candle;
use candle_core::{Device, Tensor, Var};
use std::collections::BTreeMap;
use std::path::Path;
use trainyard_core::{Error, Result};

const SCORES: &str = "score.weight";

/// Outputs that are still connected to the weights.
enum Graph {
    Tokens { logprobs: Tensor, entropies: Tensor },
    Values(Tensor),
}

/// The learner of the reference backend.
pub struct CpuLearner {
    decoder: Decoder,
    /// Whether the decoder under the head learns.
    body: bool,
    /// The parameters that learn; the others are frozen.
    learned: BTreeMap<String, Var>,
    optimizer: AdamW,
    gradients: Option<Gradients>,
    /// The graph of the last forward, kept until its backward.
    graph: Option<Graph>,
}

impl CpuLearner {
    pub fn new(model: &ModelFolder, options: &LearnerOptions) -> Result<Self> {
        let mut decoder = Decoder::from_weights(&model.config, model.weights.clone())?;
        if let Head::Scores(labels) = options.head {
            decoder = decoder.into_classifier(labels)?;
        }
        let learns = |name: &str| options.learns == Learns::All || name == SCORES;
        let parameters = decoder.parameters().iter().filter(|(name, _)| learns(name));
        let learned: BTreeMap<String, Var> = parameters.map(|(name, v)| (name.clone(), v.clone())).collect();
        let optimizer = AdamW::new(&learned, options.optimizer);
        let body = options.learns == Learns::All;
        Ok(Self { decoder, body, learned, optimizer, gradients: None, graph: None })
    }

    fn run(&self, sequences: &[&[u32]], places: &[Place], temperature: f64, gradient: bool) -> Result<Graph> {
        let batch = TokenBatch::new(sequences.iter().map(|s| s.to_vec()).collect())?;
        let rows: Vec<u32> = places.iter().map(|p| batch.row(p.sequence, p.token - 1)).collect();
        let hidden = if gradient { self.decoder.hidden(&batch)? } else { self.decoder.hidden_no_grad(&batch)? };
        if self.decoder.config().num_labels.is_some() {
            return Ok(Graph::Values(self.decoder.scores(&hidden, &rows)?.flatten_all().map_err(candle)?));
        }
        let targets: Vec<u32> = places.iter().map(|p| sequences[p.sequence][p.token]).collect();
        let (logprobs, entropies) = self.decoder.logprobs(&hidden, &rows, &targets, temperature)?;
        Ok(Graph::Tokens { logprobs, entropies })
    }
}

impl Graph {
    fn outputs(&self) -> Result<Outputs> {
        Ok(match self {
            Self::Tokens { logprobs, entropies } => {
                Outputs { logprobs: numbers(logprobs)?, entropies: numbers(entropies)?, values: Vec::new() }
            }
            Self::Values(values) => Outputs { values: numbers(values)?, ..Outputs::default() },
        })
    }
    /// Σ slope·output, or none if all slopes are 0.
    fn surrogate(&self, slopes: &Slopes<'_>) -> Result<Option<Tensor>> {
        let pairs = match self {
            Self::Tokens { logprobs, entropies } => {
                vec![(logprobs, slopes.logprobs), (entropies, slopes.entropies)]
            }
            Self::Values(values) => vec![(values, slopes.values)],
        };
        let mut sum: Option<Tensor> = None;
        for (outputs, slopes) in pairs.into_iter().filter(|(_, slopes)| !slopes.is_empty()) {
            let term = weighted(outputs, slopes)?;
            sum = Some(match sum {
                Some(sum) => sum.add(&term).map_err(candle)?,
                None => term,
            });
        }
        Ok(sum)
    }
}

impl Learner for CpuLearner {
    fn config(&self) -> &ModelConfig {
        self.decoder.config()
    }
    fn parameters(&self) -> Vec<(String, Vec<usize>)> {
        self.learned.iter().map(|(name, v)| (name.clone(), v.dims().to_vec())).collect()
    }
    fn forward(&mut self, sequences: &[&[u32]], places: &[Place], temperature: f64) -> Result<Outputs> {
        // The memory of the last graph is used again by the next.
        self.graph = None;
        let graph = self.run(sequences, places, temperature, self.body)?;
        let outputs = graph.outputs()?;
        self.graph = Some(graph);
        Ok(outputs)
    }
    fn evaluate(&self, sequences: &[&[u32]], places: &[Place], temperature: f64) -> Result<Outputs> {
        self.run(sequences, places, temperature, false)?.outputs()
    }
    fn backward(&mut self, slopes: &Slopes<'_>) -> Result<()> {
        let graph = self.graph.take().ok_or_else(|| Error::bug("a backward pass without a forward pass before it"))?;
        let Some(surrogate) = graph.surrogate(slopes)? else { return Ok(()) };
        let store = surrogate.backward().map_err(candle)?;
        let fresh = Gradients::collect(&self.learned, &store)?;
        match &mut self.gradients {
            Some(sum) => sum.add(&fresh)?,
            none => *none = Some(fresh),
        }
        Ok(())
    }
    fn step(&mut self, rate: f64) -> Result<Option<StepReport>> {
        self.graph = None;
        let Some(gradients) = self.gradients.take() else { return Ok(None) };
        self.optimizer.step(&gradients, rate).map(Some)
    }
    fn steps(&self) -> u64 {
        self.optimizer.steps()
    }
    fn weights(&self) -> Result<Parameters> {
        let tensors = self.decoder.parameters().iter().map(|(name, v)| (name.clone(), v.as_detached_tensor()));
        Parameters::from_weights(&tensors.collect())
    }
    fn save(&self, folder: &Path, prefix: &str) -> Result<()> {
        let (weights, optimizer) = learned_files(folder, prefix);
        save_tensors(&weights, &self.decoder.weights()?)?;
        save_tensors(&optimizer, &self.optimizer.save()?)
    }
    fn load(&mut self, folder: &Path, prefix: &str) -> Result<()> {
        let (weights, optimizer) = learned_files(folder, prefix);
        (self.graph, self.gradients) = (None, None);
        self.decoder.set_weights(&load_tensors(&weights)?)?;
        self.optimizer.load(&load_tensors(&optimizer)?)
    }
}

fn numbers(tensor: &Tensor) -> Result<Vec<f64>> {
    Ok(tensor.to_vec1::<f32>().map_err(candle)?.into_iter().map(f64::from).collect())
}

fn weighted(outputs: &Tensor, slopes: &[f64]) -> Result<Tensor> {
    let slopes: Vec<f32> = slopes.iter().map(|s| *s as f32).collect();
    let slopes = Tensor::from_slice(&slopes, slopes.len(), &Device::Cpu).map_err(candle)?;
    outputs.mul(&slopes).and_then(|t| t.sum_all()).map_err(candle)
}
