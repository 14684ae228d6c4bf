//! Computes the decoder on a device without gradients, for given sequences or for the next tokens of cached ones.

use super::body::EMBEDDINGS;
use super::cache::{KvSlotHandle, KvSlotPool};
use super::device::Precision;
use super::head::penalty;
use super::layer::{self, Masks, RotaryTables, attention, by_heads, rms_norm, scaled};
use super::layout::BatchLayout;
use super::weights::{LayerSource, LayerWeights};
use crate::adapter::{Adapter, SCORES};
use crate::backend::Parameters;
use crate::batch::SequenceBatch;
use crate::config::ModelConfig;
use crate::decoder::{LoraScale, Weights, expect_weights};
use crate::folder::ModelFolder;
use crate::tensor::candle;
use candle_core::{DType, Device, Result, Tensor};
use trainyard_core::Result as Checked;

/// Rows that are computed together, which limits memory.
const ROWS: usize = 8192;

/// Weights of one version.
pub struct DecoderWeights {
    embeddings: Tensor,
    layers: Vec<LayerWeights>,
    norm: Tensor,
    /// `[vocabulary, hidden]`; `None` for a model with a scoring head.
    pub head: Option<Tensor>,
    /// `[labels, hidden]`.
    pub scores: Option<Tensor>,
}

/// A sequence whose last tokens are not in the cache.
pub struct UncachedSequence<'a> {
    pub tokens: &'a [u32],
    pub cached: usize,
    pub slot: &'a mut KvSlotHandle,
}

/// A model with its cache.
pub struct CandleDecoder {
    pub config: ModelConfig,
    pub device: Device,
    pub model: DecoderWeights,
    /// Adapter of the current weights, for models that have one.
    adapter: Option<Adapter>,
    /// See [`penalty`].
    pub penalty: Option<Tensor>,
    pub precision: Precision,
    angles: RotaryTables,
    pool: KvSlotPool,
}

impl CandleDecoder {
    /// Creates a decoder. Errors: weights or an adapter that do not fit the config.
    pub fn new(model: &ModelFolder, device: Device, precision: Precision) -> Checked<Self> {
        // The pattern names every part of a model, so that the compiler reports a part that is added later.
        let ModelFolder { config, weights, adapter, source: _, chat: _, generation: _ } = model;
        let mut weights = weights.clone();
        weights.extend(adapter.iter().filter_map(Adapter::scores));
        let packed = DecoderWeights::new(config, weights, &device, precision)?;
        let angles = RotaryTables::new(config, &device);
        let pool = KvSlotPool::new(config, precision.dtype(), &device);
        let penalty = penalty(config, &device).map_err(candle)?;
        let config = config.clone();
        let mut decoder = Self { config, device, model: packed, adapter: None, penalty, precision, angles, pool };
        if let Some(adapter) = adapter {
            decoder.set_adapter(adapter.clone())?;
        }
        Ok(decoder)
    }
    /// Replaces the weights. Keys and values in the cache stay those of the earlier weights. For a model with an
    /// adapter, replaces only the adapter's weights.
    pub fn set_weights(&mut self, weights: &Parameters) -> Checked<()> {
        let tensors = weights.to_weights()?;
        match self.adapter.take() {
            Some(adapter) => self.set_adapter(Adapter { tensors, ..adapter })?,
            None => self.model = DecoderWeights::new(&self.config, tensors, &self.device, self.precision)?,
        }
        Ok(())
    }
    /// Replaces the adapter, and its scoring head if it has one.
    fn set_adapter(&mut self, adapter: Adapter) -> Checked<()> {
        adapter.check(&self.config)?;
        let low = Some(LoraScale { rank: adapter.rank, scale: adapter.scale() });
        let on_device = |tensor: &Tensor| tensor.to_device(&self.device)?.to_dtype(DType::F32);
        let find = |name: &str| adapter.tensors.get(name).map(on_device).transpose();
        let (config, dtype) = (&self.config, self.precision.dtype());
        let source = LayerSource { config, find: &find, dtype, lora: low, dropout: None };
        for (index, layer) in self.model.layers.iter_mut().enumerate() {
            layer.set_adapter(&source, index).map_err(candle)?;
        }
        if let Some(scores) = find(SCORES).map_err(candle)? {
            self.model.scores = Some(scores);
        }
        self.adapter = Some(adapter);
        Ok(())
    }
    /// Returns hidden states of all tokens after the last norm, `[rows of the batch, hidden]`, without the cache.
    pub fn hidden(&mut self, batch: &SequenceBatch) -> Result<Tensor> {
        let layout = BatchLayout::new(batch, &self.config, &self.device)?;
        let angles = self.angles.at(&layout.positions, layout.longest)?;
        let dtype = self.precision.dtype();
        let mut x = self.embed(&layout.tokens)?;
        for (index, weights) in self.model.layers.iter().enumerate() {
            let window = self.config.architecture.layers[index].window;
            x = layer::forward(&self.config, index, weights, &x, &angles, &mut |q, k, v| {
                layout.attend(window, [&q, &k, &v], dtype)
            })?;
        }
        rms_norm(&x, &self.model.norm, self.config.rms_norm_eps)
    }
    /// Computes the uncached tokens of all `works` and returns the hidden states after each last token,
    /// `[works, hidden]`.
    pub fn advance(&mut self, works: &mut [UncachedSequence<'_>]) -> Result<Tensor> {
        let longest = works.iter().map(|w| w.tokens.len()).max().unwrap_or(0);
        let mut held: Vec<&mut KvSlotHandle> = works.iter_mut().map(|w| &mut *w.slot).collect();
        self.pool.allocate(&mut held, self.config.num_hidden_layers, longest)?;
        // Longest first, so that padding is small; the results are in the order of the works.
        let new = |w: &UncachedSequence<'_>| w.tokens.len() - w.cached;
        let mut order: Vec<usize> = (0..works.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(new(&works[i])));
        let (mut parts, mut rest) = (Vec::new(), order.as_slice());
        while let Some(&first) = rest.first() {
            let width = new(&works[first]);
            // New tokens of running sequences are not padded to the length of long prompts.
            let alike = rest.iter().take_while(|&&i| (width > 1) == (new(&works[i]) > 1)).count();
            let (part, after) = rest.split_at(alike.min((ROWS / width).max(1)));
            let part: Vec<&UncachedSequence<'_>> = part.iter().map(|&i| &works[i]).collect();
            parts.push(self.advance_part(&part, width)?);
            rest = after;
        }
        let mut mapping = vec![0_u32; works.len()];
        order.iter().enumerate().for_each(|(place, &work)| mapping[work] = place as u32);
        Tensor::cat(&parts, 0)?.index_select(&Tensor::new(mapping, &self.device)?, 0)
    }

    /// Computes `works`, each padded to `width` new tokens by repeating the last one.
    fn advance_part(&mut self, works: &[&UncachedSequence<'_>], width: usize) -> Result<Tensor> {
        let positions = |w: &&UncachedSequence<'_>| -> Vec<u32> {
            (w.cached..w.cached + width).map(|p| p.min(w.tokens.len() - 1) as u32).collect()
        };
        let rows: Vec<Vec<u32>> = works.iter().map(positions).collect();
        let tokens = works.iter().zip(&rows).flat_map(|(w, rows)| rows.iter().map(|p| w.tokens[*p as usize]));
        let tokens = Tensor::new(tokens.collect::<Vec<u32>>(), &self.device)?;
        let slots: Vec<usize> = works.iter().map(|w| w.slot.slot()).collect();
        let length = works.iter().map(|w| w.tokens.len()).max().unwrap_or(0);
        let mapping = self.pool.slot_mapping(&slots, &rows, length)?;
        let at = Tensor::new(rows.concat(), &self.device)?;
        let angles = self.angles.at(&at, length)?;
        let (batch, kv, dtype) = (works.len(), self.config.num_key_value_heads, self.precision.dtype());
        let masks = Masks::new(&self.config, |window| mask(&at, (batch, width, length), window))?;
        let mut x = self.embed(&tokens)?;
        for (index, weights) in self.model.layers.iter().enumerate() {
            let mask = masks.of(self.config.architecture.layers[index].window)?;
            x = layer::forward(&self.config, index, weights, &x, &angles, &mut |q, k, v| {
                let by_heads = |x: &Tensor| by_heads(x, batch, kv, dtype);
                let (keys, values) = self.pool.write(index, &mapping, &by_heads(&k)?, &by_heads(&v)?)?;
                attention(&by_heads(&q)?, &keys, &values, mask)
            })?;
        }
        let last: Vec<u32> = (1..=batch).map(|i| (i * width - 1) as u32).collect();
        let x = x.index_select(&Tensor::new(last, &self.device)?, 0)?;
        rms_norm(&x, &self.model.norm, self.config.rms_norm_eps)
    }
    /// Returns the residual stream before the first layer, `[rows, hidden]`.
    fn embed(&self, tokens: &Tensor) -> Result<Tensor> {
        scaled(self.model.embeddings.index_select(tokens, 0)?, self.config.architecture.embedding_scale)
    }
}

/// Returns the mask `[batch, 1, 1, width, length]`: 0 for keys up to the position of each row and within its window,
/// else -∞.
fn mask(positions: &Tensor, (batch, width, length): (usize, usize, usize), window: Option<usize>) -> Result<Tensor> {
    let keys = Tensor::arange(0, length as u32, positions.device())?.reshape((1, 1, 1, 1, length))?;
    let rows = positions.reshape((batch, 1, 1, width, 1))?;
    let mut allowed = keys.broadcast_le(&rows)?;
    if let Some(window) = window {
        // Integers of this size are exact in float32.
        let ends = (keys.to_dtype(DType::F32)? + window as f64)?;
        allowed = (allowed * ends.broadcast_gt(&rows.to_dtype(DType::F32)?)?)?;
    }
    let zeros = Tensor::zeros(allowed.shape(), DType::F32, positions.device())?;
    allowed.where_cond(&zeros, &(&zeros + f64::NEG_INFINITY)?)
}

impl DecoderWeights {
    fn new(config: &ModelConfig, weights: Weights, device: &Device, precision: Precision) -> Checked<Self> {
        let weights = expect_weights(config, weights)?;
        let on_device = |tensor: &Tensor| tensor.to_device(device)?.to_dtype(DType::F32);
        let find = |name: &str| weights.get(name).map(on_device).transpose();
        let read = || {
            let source = LayerSource { config, find: &find, dtype: precision.dtype(), lora: None, dropout: None };
            let head = if config.num_labels.is_some() {
                None
            } else {
                let name = if config.tie_word_embeddings { EMBEDDINGS } else { "lm_head.weight" };
                Some(source.need(name)?.to_dtype(precision.dtype())?)
            };
            let layers = (0..config.num_hidden_layers).map(|index| LayerWeights::of(&source, index));
            Ok(Self {
                embeddings: source.need(EMBEDDINGS)?,
                layers: layers.collect::<Result<_>>()?,
                norm: source.norm("model.norm")?,
                head,
                scores: config.num_labels.map(|_| source.need(SCORES)).transpose()?,
            })
        };
        read().map_err(candle)
    }
}
