//! Keys and values on the device: one slot per sequence in a tensor per layer.
//!
//! Slots hold equally many positions and grow together. A fork shares its parent's slot until it computes something of
//! its own; all slots that a step needs are then copied in one operation per tensor.

use crate::config::ModelConfig;
use crate::generate::Cache;
use candle_core::{DType, Device, Result, Tensor};
use std::sync::{Arc, Mutex, PoisonError};

/// Positions by which slots grow at least.
const GROWTH: usize = 64;

/// A slot that goes back to the pool when nobody needs it.
#[derive(Debug)]
pub struct Slot {
    pub number: usize,
    free: Arc<Mutex<Vec<usize>>>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
    }
}

/// What a sequence holds of the pool.
#[derive(Debug, Default)]
pub enum Held {
    #[default]
    Nothing,
    /// A slot of its own.
    Own(Arc<Slot>),
    /// A slot of another sequence, of which the first positions are its own as well.
    Shared(Arc<Slot>),
}

impl Held {
    /// The number of its own slot, after [`Pool::arrange`].
    pub fn slot(&self) -> usize {
        match self {
            Self::Own(slot) | Self::Shared(slot) => slot.number,
            Self::Nothing => 0,
        }
    }
}

impl Cache for Held {
    fn prefix(&self, length: usize) -> Self {
        match self {
            Self::Own(slot) | Self::Shared(slot) if length > 0 => Self::Shared(slot.clone()),
            _ => Self::Nothing,
        }
    }
}

/// The keys and values of all slots.
pub struct Pool {
    /// Keys and values per layer, `[slots, kv heads, positions, head_dim]`; none before the first position.
    layers: Vec<(Tensor, Tensor)>,
    free: Arc<Mutex<Vec<usize>>>,
    slots: usize,
    positions: usize,
    kv_heads: usize,
    dim: usize,
    dtype: DType,
    device: Device,
}

impl Pool {
    pub fn new(config: &ModelConfig, dtype: DType, device: &Device) -> Self {
        let (kv_heads, dim) = (config.num_key_value_heads, config.head_dim);
        let (free, device) = (Arc::default(), device.clone());
        Self { layers: Vec::new(), free, slots: 0, positions: 0, kv_heads, dim, dtype, device }
    }
    /// Gives each of these sequences a slot of its own with at least `positions` positions.
    pub fn arrange(&mut self, held: &mut [&mut Held], layers: usize, positions: usize) -> Result<()> {
        let needed = held.iter().filter(|held| !matches!(held, Held::Own(_))).count();
        let mut sources: Vec<u32> = (0..self.slots as u32).collect();
        let missing = needed.saturating_sub(self.lock().len());
        self.lock().extend(self.slots..self.slots + missing);
        sources.resize(self.slots + missing, 0);
        let mut copied = missing > 0;
        for held in held.iter_mut() {
            let from = match &**held {
                Held::Own(_) => continue,
                Held::Shared(slot) => Some(slot.number),
                Held::Nothing => None,
            };
            let Some(number) = self.take() else { candle_core::bail!("the cache has lost a slot") };
            if let Some(from) = from {
                sources[number] = from as u32;
                copied = true;
            }
            **held = Held::Own(Arc::new(Slot { number, free: self.free.clone() }));
        }
        if copied {
            self.copy(sources)?;
        }
        if positions > self.positions { self.grow(layers, positions) } else { Ok(()) }
    }
    /// Stores a layer's keys and values `[sequences, kv heads, length, dim]` where [`Pool::places`] says, and gives
    /// those of all positions that are read.
    pub fn write(&self, layer: usize, places: &Places, k: &Tensor, v: &Tensor) -> Result<(Tensor, Tensor)> {
        let rows = (self.slots * self.kv_heads * self.positions, self.dim);
        let store = |all: &Tensor, new: &Tensor| {
            all.reshape(rows)?.scatter_set(&places.index, &new.reshape(places.index.dims())?, 0)?;
            let own = if places.whole { all.clone() } else { all.index_select(&places.slots, 0)? };
            own.narrow(2, 0, places.positions)
        };
        let (keys, values) = &self.layers[layer];
        Ok((store(keys, k)?, store(values, v)?))
    }
    /// Where tokens go: of each slot, the positions of its rows (equally many for all); `positions` are read.
    pub fn places(&self, slots: &[usize], rows: &[Vec<u32>], positions: usize) -> Result<Places> {
        let mut index = Vec::new();
        for (slot, rows) in slots.iter().zip(rows) {
            for head in 0..self.kv_heads {
                let start = ((slot * self.kv_heads + head) * self.positions) as u32;
                index.extend(rows.iter().map(|position| start + position));
            }
        }
        let count = index.len();
        let index = Tensor::from_vec(index, (count, 1), &self.device)?.broadcast_as((count, self.dim))?.contiguous()?;
        let whole = slots.iter().copied().eq(0..self.slots);
        let slots: Vec<u32> = slots.iter().map(|slot| *slot as u32).collect();
        Ok(Places { index, slots: Tensor::new(slots, &self.device)?, whole, positions })
    }

    /// Every slot becomes a copy of the one that `sources` says.
    fn copy(&mut self, sources: Vec<u32>) -> Result<()> {
        self.slots = sources.len();
        let sources = Tensor::new(sources, &self.device)?;
        for (keys, values) in &mut self.layers {
            (*keys, *values) = (keys.index_select(&sources, 0)?, values.index_select(&sources, 0)?);
        }
        Ok(())
    }
    /// New tensors with room for more positions; what is there stays.
    fn grow(&mut self, layers: usize, positions: usize) -> Result<()> {
        let positions = positions.next_multiple_of(GROWTH).max(self.positions + self.positions / 2);
        let more = positions - self.positions;
        for (keys, values) in &mut self.layers {
            (*keys, *values) = (keys.pad_with_zeros(2, 0, more)?, values.pad_with_zeros(2, 0, more)?);
        }
        let shape = (self.slots, self.kv_heads, positions, self.dim);
        while self.layers.len() < layers {
            let zeros = || Tensor::zeros(shape, self.dtype, &self.device);
            self.layers.push((zeros()?, zeros()?));
        }
        self.positions = positions;
        Ok(())
    }
    /// The lowest free slot.
    fn take(&self) -> Option<usize> {
        let mut free = self.lock();
        let (place, _) = free.iter().enumerate().min_by_key(|(_, number)| **number)?;
        Some(free.swap_remove(place))
    }
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<usize>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the keys and values of some rows go.
pub struct Places {
    /// `[rows, dim]`: rows of the flat tensor, repeated for every number of the row.
    index: Tensor,
    slots: Tensor,
    /// All slots of the pool in order.
    whole: bool,
    positions: usize,
}
