//! The language head: log-probability and entropy of chosen tokens straight from hidden rows, as one node of candle's
//! graph.
//!
//! The logits of all rows are never held; both directions compute them again for a few rows at a time. Gradients flow
//! from both results to the hidden states and to the head's matrix. With p = softmax(z), z = logits / temperature: ∂
//! log p_t / ∂ z_j = [j = t] - p_j and ∂ H / ∂ z_j = -p_j (log p_j + H).

use super::vector::{exp_sum, largest, transpose};
use super::{Matrix, Scalar, product};
use crate::tensor::candle;
use candle_core::{CpuStorage, CustomOp2, DType, Layout, Shape, Storage, Tensor};
use rayon::prelude::*;
use std::marker::PhantomData;
use std::ops::Range;
use trainyard_core::{Error, Result};

/// Rows of one task.
const ROWS: usize = 128;
/// Largest number of logits held at once in the backward.
const LOGITS: usize = 1 << 24;
/// Rows of the head's matrix whose gradient is one task.
const TILE: usize = 32;

/// Log-probability of `targets[j]` and entropy at `rows[j]` of `hidden` `[R, H]`, under the head `weight` `[V, H]`:
/// `([n], [n])`. Rows of the head that are `unused` have probability 0 and no gradient.
pub fn logprobs(
    hidden: &Tensor,
    weight: &Tensor,
    unused: &[Range<u32>],
    rows: &[u32],
    targets: &[u32],
    temperature: f64,
) -> Result<(Tensor, Tensor)> {
    let ((total, width), (vocabulary, depth)) = (hidden.dims2().map_err(candle)?, weight.dims2().map_err(candle)?);
    if rows.is_empty() || rows.len() != targets.len() {
        return Err(Error::bug(format!(
            "{} rows and {} targets: give as many of both, at least one",
            rows.len(),
            targets.len()
        )));
    }
    if width != depth {
        return Err(Error::bug(format!("hidden rows are {width} wide, but the head takes {depth}")));
    }
    if let Some(row) = rows.iter().find(|r| **r as usize >= total) {
        return Err(Error::bug(format!("there is no row {row} among {total} hidden rows")));
    }
    if let Some(token) = targets.iter().find(|t| **t as usize >= vocabulary) {
        return Err(Error::data(format!("target token {token} is outside the vocabulary of {vocabulary} tokens"))
            .help("use data that was made with this model's tokenizer"));
    }
    if !(temperature > 0.0 && temperature.is_finite()) {
        return Err(
            Error::invalid(format!("temperature {temperature} is out of range")).help("use a temperature above 0")
        );
    }
    let places = rows.iter().zip(targets).map(|(r, t)| (*r as usize, *t as usize)).collect();
    let unused: Vec<Range<usize>> = unused.iter().map(|r| r.start as usize..r.end as usize).collect();
    let (hidden, weight) = (hidden.contiguous().map_err(candle)?, weight.contiguous().map_err(candle)?);
    let learned = weight.track_op();
    let both = match hidden.dtype() {
        DType::F64 => {
            hidden.apply_op2(&weight, Head::<f64> { places, unused, temperature, learned, number: PhantomData })
        }
        _ => hidden.apply_op2(&weight, Head::<f32> { places, unused, temperature, learned, number: PhantomData }),
    };
    let both = both.map_err(candle)?;
    Ok((both.get(0).map_err(candle)?, both.get(1).map_err(candle)?))
}

/// Rows of one task: a large vocabulary leaves fewer, so that two tasks hold no more than [`LOGITS`].
fn task_rows(vocabulary: usize) -> usize {
    let most = LOGITS / vocabulary;
    if most >= 2 * ROWS { ROWS } else { (most / 2).max(1) }
}

/// Bytes of the float32 numbers that are held at once for so many rows: logits, and the matrix if it is turned.
pub fn block_bytes(vocabulary: usize, width: usize, rows: usize) -> u64 {
    let turned = if vocabulary * width <= LOGITS { vocabulary * width } else { 0 };
    ((rows * vocabulary).min(LOGITS) + turned) as u64 * size_of::<f32>() as u64
}

struct Head<T> {
    /// (hidden row, target token).
    places: Vec<(usize, usize)>,
    unused: Vec<Range<usize>>,
    temperature: f64,
    /// Whether the matrix has a gradient.
    learned: bool,
    number: PhantomData<T>,
}

/// The matrix with depth as rows where it is small enough to be turned once.
struct Turned<'a, T> {
    weight: &'a [T],
    copy: Option<Vec<T>>,
    vocabulary: usize,
    width: usize,
}

impl<'a, T: Scalar> Turned<'a, T> {
    fn new(weight: &'a [T], width: usize) -> Self {
        let vocabulary = weight.len() / width;
        let copy = (weight.len() <= LOGITS).then(|| {
            let mut out = vec![T::ZERO; weight.len()];
            transpose(weight, width, vocabulary, width, &mut out, vocabulary);
            out
        });
        Self { weight, copy, vocabulary, width }
    }
    fn view(&self) -> Matrix<'_, T> {
        match &self.copy {
            Some(copy) => Matrix::rows(copy, self.vocabulary),
            None => Matrix::rows(self.weight, self.width).transposed(),
        }
    }
}

fn slice<'a, T: Scalar>(storage: &'a CpuStorage, layout: &Layout) -> candle_core::Result<&'a [T]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&T::cpu_storage_as_slice(storage)?[start..end]),
        None => candle_core::bail!("the language head needs contiguous tensors"),
    }
}

impl<T: Scalar> Head<T> {
    fn gather(&self, places: &[(usize, usize)], hidden: &[T], width: usize) -> Vec<T> {
        let mut out = Vec::with_capacity(places.len() * width);
        for (row, _) in places {
            out.extend_from_slice(&hidden[row * width..(row + 1) * width]);
        }
        out
    }

    /// Puts unused logits so far below the others that they add nothing to any sum. Minus infinity would make the
    /// entropy's 0 · ∞ a NaN.
    fn mask(&self, row: &mut [T]) {
        if !self.unused.is_empty() {
            let low = largest(row) - T::of(1e6);
            self.unused.iter().for_each(|range| row[range.clone()].fill(low));
        }
    }
    /// Takes the gradients of unused logits away, which are not quite 0 in float32.
    fn clear(&self, row: &mut [T]) {
        self.unused.iter().for_each(|range| row[range.clone()].fill(T::ZERO));
    }

    /// Gradients of hidden states and weight (empty if it does not learn) from those of both results (`[2, n]`).
    fn gradients(&self, hidden: &[T], weight: &[T], width: usize, upstream: &[T]) -> (Vec<T>, Vec<T>) {
        let turned = Turned::new(weight, width);
        let (vocabulary, n) = (turned.vocabulary, self.places.len());
        let learned = if self.learned { weight.len() } else { 0 };
        let (mut d_hidden, mut d_weight) = (vec![T::ZERO; hidden.len()], vec![T::ZERO; learned]);
        let inverse = T::of(1.0 / self.temperature);
        let rows = task_rows(vocabulary);
        let block = rows * (LOGITS / vocabulary / rows).max(1);
        for first in (0..n).step_by(block) {
            let places = &self.places[first..(first + block).min(n)];
            let pieces: Vec<(Vec<T>, Vec<T>, Vec<T>)> = places
                .par_chunks(rows)
                .enumerate()
                .map(|(i, places)| {
                    let (start, m) = (first + i * rows, places.len());
                    let gathered = self.gather(places, hidden, width);
                    let mut logits = vec![T::ZERO; m * vocabulary];
                    product(
                        (m, vocabulary, width),
                        Matrix::rows(&gathered, width),
                        turned.view(),
                        &mut logits,
                        vocabulary,
                        false,
                    );
                    for (j, ((_, target), row)) in places.iter().zip(logits.chunks_exact_mut(vocabulary)).enumerate() {
                        self.mask(row);
                        row_gradient(row, *target, inverse, upstream[start + j], upstream[n + start + j]);
                        self.clear(row);
                    }
                    let mut d_gathered = vec![T::ZERO; m * width];
                    product(
                        (m, width, vocabulary),
                        Matrix::rows(&logits, vocabulary),
                        Matrix::rows(weight, width),
                        &mut d_gathered,
                        width,
                        false,
                    );
                    (gathered, logits, d_gathered)
                })
                .collect();
            d_weight.par_chunks_mut(TILE * width).enumerate().for_each(|(tile, out)| {
                for (gathered, d_logits, _) in &pieces {
                    let columns = Matrix { data: &d_logits[tile * TILE..], row: 1, column: vocabulary };
                    product(
                        (out.len() / width, width, gathered.len() / width),
                        columns,
                        Matrix::rows(gathered, width),
                        out,
                        width,
                        true,
                    );
                }
            });
            for (places, (_, _, d_gathered)) in places.chunks(rows).zip(&pieces) {
                for ((row, _), d) in places.iter().zip(d_gathered.chunks_exact(width)) {
                    super::vector::add_into(&mut d_hidden[row * width..(row + 1) * width], d);
                }
            }
        }
        (d_hidden, d_weight)
    }
}

impl<T: Scalar> CustomOp2 for Head<T> {
    fn name(&self) -> &'static str {
        "language head"
    }

    fn cpu_fwd(
        &self,
        hidden: &CpuStorage,
        h_layout: &Layout,
        weight: &CpuStorage,
        w_layout: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        let (hidden, weight, width) =
            (slice::<T>(hidden, h_layout)?, slice::<T>(weight, w_layout)?, h_layout.dims()[1]);
        let turned = Turned::new(weight, width);
        let (vocabulary, n) = (turned.vocabulary, self.places.len());
        let inverse = T::of(1.0 / self.temperature);
        let mut out = vec![T::ZERO; 2 * n];
        let (logprobs, entropies) = out.split_at_mut(n);
        let rows = task_rows(vocabulary);
        let tasks = self.places.par_chunks(rows).zip(logprobs.par_chunks_mut(rows)).zip(entropies.par_chunks_mut(rows));
        tasks.for_each(|((places, logprobs), entropies)| {
            let m = places.len();
            let gathered = self.gather(places, hidden, width);
            let mut logits = vec![T::ZERO; m * vocabulary];
            product(
                (m, vocabulary, width),
                Matrix::rows(&gathered, width),
                turned.view(),
                &mut logits,
                vocabulary,
                false,
            );
            let results = places.iter().zip(logits.chunks_exact_mut(vocabulary)).zip(logprobs).zip(entropies);
            for ((((_, target), row), logprob), entropy) in results {
                self.mask(row);
                (*logprob, *entropy) = row_values(row, *target, inverse);
            }
        });
        Ok((T::to_cpu_storage_owned(out), Shape::from((2, n))))
    }

    fn bwd(
        &self,
        hidden: &Tensor,
        weight: &Tensor,
        _res: &Tensor,
        grad: &Tensor,
    ) -> candle_core::Result<(Option<Tensor>, Option<Tensor>)> {
        let grad = grad.contiguous()?;
        let ((hs, hl), (ws, wl), (gs, gl)) =
            (hidden.storage_and_layout(), weight.storage_and_layout(), grad.storage_and_layout());
        let (Storage::Cpu(hs), Storage::Cpu(ws), Storage::Cpu(gs)) = (&*hs, &*ws, &*gs) else {
            candle_core::bail!("the language head runs on the CPU")
        };
        let (d_hidden, d_weight) = self.gradients(slice(hs, hl)?, slice(ws, wl)?, hl.dims()[1], slice(gs, gl)?);
        let device = hidden.device();
        let d_weight = self.learned.then(|| Tensor::from_vec(d_weight, wl.shape(), device)).transpose()?;
        Ok((Some(Tensor::from_vec(d_hidden, hl.shape(), device)?), d_weight))
    }
}

vectorized! {
    /// Log-probability of `target` and entropy of softmax(row · inverse).
    fn row_values(row: &[T], target: usize, inverse: T) -> (T, T) {
        let top = largest(row) * inverse;
        let chosen = row[target] * inverse - top;
        let (sum, spread) = exp_moments(row, inverse, top);
        let log_sum = sum.ln();
        (chosen - log_sum, log_sum - spread / sum)
    }
}

vectorized! {
    /// The row becomes the gradient of d_logprob · log p(target) + d_entropy · H with respect to the unscaled logits.
    fn row_gradient(row: &mut [T], target: usize, inverse: T, d_logprob: T, d_entropy: T) {
        let top = largest(row) * inverse;
        if d_entropy == T::ZERO {
            let sum = exp_sum(row, inverse, top);
            let share = -(d_logprob * inverse / sum);
            for x in row.iter_mut() {
                *x *= share;
            }
        } else {
            let shift = top + exp_moments(row, inverse, top).0.ln();
            let entropy = -exp_moments(row, inverse, shift).1;
            for x in row.iter_mut() {
                let log_p = x.fma(inverse, -shift);
                *x = -(log_p.exp() * (log_p + entropy).fma(d_entropy, d_logprob) * inverse);
            }
        }
        row[target] += d_logprob * inverse;
    }
}

/// Σ e^y and Σ e^y · y for y = x · scale - shift.
#[inline(always)]
fn exp_moments<T: Scalar>(row: &[T], scale: T, shift: T) -> (T, T) {
    let (mut sums, mut spreads) = ([T::ZERO; 16], [T::ZERO; 16]);
    let (main, rest) = row.as_chunks::<16>();
    for chunk in main {
        for i in 0..16 {
            let y = chunk[i].fma(scale, -shift);
            let e = y.exp();
            sums[i] += e;
            spreads[i] = e.fma(y, spreads[i]);
        }
    }
    for (i, x) in rest.iter().enumerate() {
        let y = x.fma(scale, -shift);
        let e = y.exp();
        sums[i] += e;
        spreads[i] = e.fma(y, spreads[i]);
    }
    let add = |lanes: [T; 16]| lanes.into_iter().fold(T::ZERO, |sum, x| sum + x);
    (add(sums), add(spreads))
}
