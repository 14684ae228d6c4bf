//! Stores keys and values on the device: one slot per sequence in a tensor per layer.
//!
//! All slots have the same number of positions and grow together. A fork shares its parent's slot until it computes its
//! first token. The pool then copies all slots that a step needs in one operation per tensor.

use crate::config::ModelConfig;
use crate::generate::Cache;
use candle_core::{DType, Device, Result, Tensor};
use std::sync::{Arc, Mutex, PoisonError};

/// Positions by which slots grow at least.
const GROWTH: usize = 64;

/// A slot that returns to the pool when its last reference is dropped.
#[derive(Debug)]
pub struct KvSlot {
    pub number: usize,
    free: Arc<Mutex<Vec<usize>>>,
}

impl Drop for KvSlot {
    fn drop(&mut self) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
    }
}

/// A sequence's share of the pool.
#[derive(Debug, Default)]
pub enum KvSlotHandle {
    #[default]
    Empty,
    /// A slot that belongs to the sequence alone.
    Own(Arc<KvSlot>),
    /// A slot of another sequence, with which the first positions are shared.
    Shared(Arc<KvSlot>),
}

impl KvSlotHandle {
    /// Returns the index of the sequence's slot. Call [`KvSlotPool::allocate`] first.
    pub fn slot(&self) -> usize {
        match self {
            Self::Own(slot) | Self::Shared(slot) => slot.number,
            Self::Empty => 0,
        }
    }
}

impl Cache for KvSlotHandle {
    fn prefix(&self, length: usize) -> Self {
        match self {
            Self::Own(slot) | Self::Shared(slot) if length > 0 => Self::Shared(slot.clone()),
            _ => Self::Empty,
        }
    }
}

/// The keys and values of all slots.
pub struct KvSlotPool {
    /// Keys and values per layer, `[slots, kv heads, positions, head_dim]`; empty before the first position.
    layers: Vec<(Tensor, Tensor)>,
    free: Arc<Mutex<Vec<usize>>>,
    slots: usize,
    positions: usize,
    kv_heads: usize,
    dim: usize,
    dtype: DType,
    device: Device,
}

impl KvSlotPool {
    pub fn new(config: &ModelConfig, dtype: DType, device: &Device) -> Self {
        let (kv_heads, dim) = (config.num_key_value_heads, config.head_dim);
        let (free, device) = (Arc::default(), device.clone());
        Self { layers: Vec::new(), free, slots: 0, positions: 0, kv_heads, dim, dtype, device }
    }
    /// Gives each of these sequences a separate slot with at least `positions` positions. Copies the content of shared
    /// slots and grows all slots if necessary.
    pub fn allocate(&mut self, held: &mut [&mut KvSlotHandle], layers: usize, positions: usize) -> Result<()> {
        let needed = held.iter().filter(|held| !matches!(held, KvSlotHandle::Own(_))).count();
        let mut sources: Vec<u32> = (0..self.slots as u32).collect();
        let missing = needed.saturating_sub(self.lock().len());
        self.lock().extend(self.slots..self.slots + missing);
        sources.resize(self.slots + missing, 0);
        let mut copied = missing > 0;
        for held in held.iter_mut() {
            let from = match &**held {
                KvSlotHandle::Own(_) => continue,
                KvSlotHandle::Shared(slot) => Some(slot.number),
                KvSlotHandle::Empty => None,
            };
            let Some(number) = self.take() else { candle_core::bail!("the cache has no free slot") };
            if let Some(from) = from {
                sources[number] = from as u32;
                copied = true;
            }
            **held = KvSlotHandle::Own(Arc::new(KvSlot { number, free: self.free.clone() }));
        }
        if copied {
            self.copy(sources)?;
        }
        if positions > self.positions { self.grow(layers, positions) } else { Ok(()) }
    }
    /// Stores a layer's keys and values `[sequences, kv heads, length, dim]` at `mapping`, and returns the keys and
    /// values of all positions that the attention reads.
    pub fn write(&self, layer: usize, mapping: &KvSlotMapping, k: &Tensor, v: &Tensor) -> Result<(Tensor, Tensor)> {
        let rows = (self.slots * self.kv_heads * self.positions, self.dim);
        let store = |all: &Tensor, new: &Tensor| {
            all.reshape(rows)?.scatter_set(&mapping.index, &new.reshape(mapping.index.dims())?, 0)?;
            let selected = if mapping.all_slots { all.clone() } else { all.index_select(&mapping.slots, 0)? };
            selected.narrow(2, 0, mapping.positions)
        };
        let (keys, values) = &self.layers[layer];
        Ok((store(keys, k)?, store(values, v)?))
    }
    /// Returns the destination of the keys and values of tokens. `rows` are the positions of the new tokens in each
    /// slot (the same number for all); the attention reads the first `positions` positions of every slot.
    pub fn slot_mapping(&self, slots: &[usize], rows: &[Vec<u32>], positions: usize) -> Result<KvSlotMapping> {
        let mut index = Vec::new();
        for (slot, rows) in slots.iter().zip(rows) {
            for head in 0..self.kv_heads {
                let start = ((slot * self.kv_heads + head) * self.positions) as u32;
                index.extend(rows.iter().map(|position| start + position));
            }
        }
        let count = index.len();
        let index = Tensor::from_vec(index, (count, 1), &self.device)?.broadcast_as((count, self.dim))?.contiguous()?;
        let all_slots = slots.iter().copied().eq(0..self.slots);
        let slots: Vec<u32> = slots.iter().map(|slot| *slot as u32).collect();
        Ok(KvSlotMapping { index, slots: Tensor::new(slots, &self.device)?, all_slots, positions })
    }

    /// Replaces the slots by copies: slot i becomes a copy of slot `sources[i]`.
    fn copy(&mut self, sources: Vec<u32>) -> Result<()> {
        self.slots = sources.len();
        let sources = Tensor::new(sources, &self.device)?;
        for (keys, values) in &mut self.layers {
            (*keys, *values) = (keys.index_select(&sources, 0)?, values.index_select(&sources, 0)?);
        }
        Ok(())
    }
    /// Allocates tensors with room for more positions and keeps the existing content.
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
    /// Removes and returns the lowest free slot, or `None` if no slot is free.
    fn take(&self) -> Option<usize> {
        let mut free = self.lock();
        let (place, _) = free.iter().enumerate().min_by_key(|(_, number)| **number)?;
        Some(free.swap_remove(place))
    }
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<usize>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Destination of the keys and values of some rows.
pub struct KvSlotMapping {
    /// `[rows, dim]`: rows of the flat tensor, repeated for every number of the row.
    index: Tensor,
    slots: Tensor,
    /// Whether the slots are all slots of the pool, in order.
    all_slots: bool,
    positions: usize,
}
