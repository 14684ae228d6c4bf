//! Implements the reference learner: a decoder with AdamW that keeps its tensors private and returns numbers.

use crate::backend::{
    Learner, LearnerHead, LearnerOptions, OutputGradients, Outputs, Parameters, TokenPosition, TrainableParameters,
    is_adapter_parameter, learned_files,
};
use crate::batch::SequenceBatch;
use crate::checkpoint::{load_tensors, save_tensors};
use crate::config::ModelConfig;
use crate::decoder::{Decoder, Dropout};
use crate::folder::ModelFolder;
use crate::optimizer::{AdamW, Gradients, StepReport};
use crate::tensor::candle;
use candle_core::{Device, Tensor};
use std::path::Path;
use trainyard_core::{Error, Result};

/// Outputs that are still connected to the weights.
enum Graph {
    Tokens { logprobs: Tensor, entropies: Tensor },
    Values(Tensor),
}

/// The learner of the reference backend.
pub struct CpuLearner {
    decoder: Decoder,
    /// Whether any parameter below the head is trained.
    body: bool,
    /// Whether the model has an adapter, so that its weights are the adapter's.
    adapted: bool,
    /// Share and source of the adapter's dropout, if it has any and is trained.
    dropout: Option<Dropout>,
    /// Forward passes since the last step, which number the draws of dropout.
    passes: u64,
    optimizer: AdamW,
    gradients: Option<Gradients>,
    /// The graph of the last forward, kept until its backward.
    graph: Option<Graph>,
}

impl CpuLearner {
    pub fn new(model: &ModelFolder, options: &LearnerOptions) -> Result<Self> {
        let adapter = model.adapter.as_ref();
        let learns = options.trainable;
        learns.expect(adapter)?;
        let learned = |name: &str| learns.includes(name);
        let mut decoder = Decoder::new(&model.config, model.weights.clone(), adapter, learned)?;
        if let LearnerHead::Scores(labels) = options.head {
            decoder = decoder.into_classifier(labels)?;
        }
        let optimizer = AdamW::new(decoder.parameters(), options.optimizer);
        Ok(Self {
            decoder,
            body: matches!(learns, TrainableParameters::All | TrainableParameters::Adapter),
            adapted: adapter.is_some(),
            dropout: options.dropout(adapter),
            passes: 0,
            optimizer,
            gradients: None,
            graph: None,
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
        pass: PassMode,
    ) -> Result<Graph> {
        let batch = SequenceBatch::new(sequences.iter().map(|s| s.to_vec()).collect())?;
        let rows: Vec<u32> = positions.iter().map(|p| batch.row(p.sequence, p.token - 1)).collect();
        let hidden = match pass {
            PassMode::Training(dropout) => self.decoder.hidden_with(&batch, dropout)?,
            PassMode::Evaluation => self.decoder.hidden_no_grad(&batch)?,
        };
        if self.decoder.config().num_labels.is_some() {
            return Ok(Graph::Values(self.decoder.scores(&hidden, &rows)?.flatten_all().map_err(candle)?));
        }
        let targets: Vec<u32> = positions.iter().map(|p| sequences[p.sequence][p.token]).collect();
        let (logprobs, entropies) = self.decoder.logprobs(&hidden, &rows, &targets, temperature)?;
        Ok(Graph::Tokens { logprobs, entropies })
    }
}

/// Purpose of a pass through the decoder.
enum PassMode {
    /// A backward pass follows.
    Training(Option<Dropout>),
    Evaluation,
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
    /// Returns Σ slope·output, or `None` if all slopes are omitted, which means 0.
    fn surrogate(&self, slopes: &OutputGradients<'_>) -> Result<Option<Tensor>> {
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
        self.decoder.parameters().iter().map(|(name, v)| (name.clone(), v.dims().to_vec())).collect()
    }
    fn forward(&mut self, sequences: &[&[u32]], positions: &[TokenPosition], temperature: f64) -> Result<Outputs> {
        // The next graph reuses the memory of the last one.
        self.graph = None;
        let pass = if self.body { PassMode::Training(self.next_dropout()) } else { PassMode::Evaluation };
        let graph = self.run(sequences, positions, temperature, pass)?;
        let outputs = graph.outputs()?;
        self.graph = Some(graph);
        Ok(outputs)
    }
    fn evaluate(&self, sequences: &[&[u32]], positions: &[TokenPosition], temperature: f64) -> Result<Outputs> {
        self.run(sequences, positions, temperature, PassMode::Evaluation)?.outputs()
    }
    fn backward(&mut self, slopes: &OutputGradients<'_>) -> Result<()> {
        let graph = self.graph.take().ok_or_else(|| Error::bug("a backward pass without a forward pass before it"))?;
        let Some(surrogate) = graph.surrogate(slopes)? else { return Ok(()) };
        let store = surrogate.backward().map_err(candle)?;
        let fresh = Gradients::collect(self.decoder.parameters(), store)?;
        match &mut self.gradients {
            Some(sum) => sum.add(&fresh)?,
            none => *none = Some(fresh),
        }
        Ok(())
    }
    fn step(&mut self, rate: f64) -> Result<Option<StepReport>> {
        (self.graph, self.passes) = (None, 0);
        let Some(gradients) = self.gradients.take() else { return Ok(None) };
        self.optimizer.step(&gradients, rate).map(Some)
    }
    fn steps(&self) -> u64 {
        self.optimizer.steps()
    }
    fn weights(&self) -> Result<Parameters> {
        let mut weights = self.decoder.current();
        weights.retain(|name, _| !self.adapted || is_adapter_parameter(name));
        Parameters::from_weights(&weights)
    }
    fn save(&self, folder: &Path, prefix: &str) -> Result<()> {
        let (weights, optimizer) = learned_files(folder, prefix);
        let learned = self.decoder.parameters().iter().map(|(name, v)| (name.clone(), v.as_detached_tensor()));
        save_tensors(&weights, &learned.collect())?;
        self.optimizer.save(&optimizer)
    }
    fn load(&mut self, folder: &Path, prefix: &str) -> Result<()> {
        let (weights, optimizer) = learned_files(folder, prefix);
        (self.graph, self.gradients, self.passes) = (None, None, 0);
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
