//! Connects the residual stream to its branches, attention and MLP: the norm before a branch, the norm and the scale
//! after the branch, and the backward of both.
//!
//! Families differ in which of these exist.

use super::linear::{ChunkContext, LinearView};
use super::state::{LoraRows, fit};
use crate::config::ModelConfig;
use crate::ops::vector::{add_bias, add_into, add_scaled};
use crate::ops::{KernelScalar, norm};

/// Constants that all branches of a decoder share.
#[derive(Clone, Copy)]
pub(super) struct BranchConfig<T> {
    pub hidden: usize,
    pub epsilon: T,
    /// Factor on the output of a branch.
    pub scale: f64,
}

/// A branch, which adds `norm(linear(input) + bias)` to the residual stream.
pub(super) struct Branch<'a, T> {
    pub place: ChunkContext<'a>,
    pub input: &'a [T],
    pub linear: &'a LinearView<'a, T>,
    /// The linear layer's transposed weight; `None` if the pass did not transpose it.
    pub transposed: Option<&'a [T]>,
    /// Rows of the adapter.
    pub lora: &'a mut LoraRows<T>,
    pub bias: Option<&'a [T]>,
    pub norm: Option<&'a [T]>,
}

/// The norm after a branch, with the state that the forward kept.
pub(super) struct OutNorm<'a, T> {
    pub weight: Option<&'a [T]>,
    pub raw: &'a [T],
    pub scales: &'a [T],
    /// The chunk's share of the weight's gradient.
    pub share: &'a mut Vec<T>,
}

impl<T: KernelScalar> BranchConfig<T> {
    pub fn of(config: &ModelConfig) -> Self {
        Self {
            hidden: config.hidden_size,
            epsilon: T::of(config.rms_norm_eps),
            scale: config.architecture.residual_scale,
        }
    }
    /// Computes the branch's input: the residual rows, normed if there is a norm.
    pub fn normalize_input(&self, x: &[T], weight: Option<&[T]>, normed: &mut [T], scales: &mut [T]) {
        match weight {
            Some(weight) => norm::forward(x, weight, self.epsilon, normed, scales),
            None => normed.copy_from_slice(x),
        }
    }

    /// Adds a branch to the residual rows: directly, or through its norm and the scale. Leaves the norm's input in
    /// `raw`.
    pub fn add_branch(
        &self,
        mut branch: Branch<'_, T>,
        residual: &mut [T],
        buffer: &mut Vec<T>,
        raw: &mut [T],
        scales: &mut [T],
    ) {
        let rows = residual.len() / self.hidden;
        match branch.norm {
            None if self.scale == 1.0 => self.apply(&mut branch, residual, true),
            None => {
                let result = fit(buffer, residual.len());
                self.apply(&mut branch, result, false);
                add_scaled(residual, result, T::of(self.scale));
            }
            Some(weight) => {
                let (raw, result) = (&mut raw[..residual.len()], fit(buffer, residual.len()));
                self.apply(&mut branch, raw, false);
                norm::forward(raw, weight, self.epsilon, result, &mut scales[..rows]);
                add_scaled(residual, result, T::of(self.scale));
            }
        }
    }

    /// Computes `out = linear(input) + bias`, or `out +=` with `add`.
    fn apply(&self, branch: &mut Branch<'_, T>, out: &mut [T], add: bool) {
        let Branch { place, input, linear, transposed, .. } = *branch;
        linear.forward(place.rows, input, transposed, (&mut *out, add));
        linear.add_lora(place, input, branch.lora, out, self.hidden);
        if let Some(bias) = branch.bias {
            add_bias(out, bias);
        }
    }

    /// Computes the gradient of a branch's output from the gradient of the residual stream to which the branch was
    /// added. Leaves `d` empty if both are the same.
    pub fn output_gradient<'t>(
        &self,
        out: OutNorm<'_, T>,
        d_residual: &'t [T],
        buffer: &mut Vec<T>,
        d: &'t mut Vec<T>,
    ) -> &'t [T] {
        if out.weight.is_none() && self.scale == 1.0 {
            d.clear();
            return d_residual;
        }
        let (n, rows) = (d_residual.len(), d_residual.len() / self.hidden);
        let d = zeroed(d, n);
        match out.weight {
            None => add_scaled(d, d_residual, T::of(self.scale)),
            Some(weight) => {
                let d_normed = zeroed(buffer, n);
                add_scaled(d_normed, d_residual, T::of(self.scale));
                let share = zeroed(out.share, self.hidden);
                norm::backward(&out.raw[..n], weight, &out.scales[..rows], d_normed, d, share);
            }
        }
        d
    }
}

/// Propagates the gradient of a branch's input to the residual rows `x`, and recomputes the branch's input.
pub(super) fn residual_gradient<T: KernelScalar>(
    x: &[T],
    weight: Option<&[T]>,
    scales: &[T],
    d_normed: &[T],
    normed: &mut [T],
    d_x: &mut [T],
    share: &mut Vec<T>,
) {
    match weight {
        Some(weight) => {
            norm::recompute(x, weight, scales, normed);
            norm::backward(x, weight, scales, d_normed, d_x, zeroed(share, weight.len()));
        }
        None => {
            normed.copy_from_slice(x);
            add_into(d_x, d_normed);
        }
    }
}

/// Returns the first `n` numbers of a buffer, all 0. Grows the buffer if necessary.
pub(super) fn zeroed<T: KernelScalar>(buffer: &mut Vec<T>, n: usize) -> &mut [T] {
    let part = fit(buffer, n);
    part.fill(T::ZERO);
    part
}
