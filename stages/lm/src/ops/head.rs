//! Computes log-probability and entropy of chosen tokens from hidden rows, as one node of candle's graph.
//!
//! The forward pass keeps the logits for the backward pass if there are few enough of them. Otherwise both passes
//! compute the logits for a few rows at a time. Gradients flow from both results to the hidden states and to the head's
//! matrix. With p = softmax(z) and z = logits / temperature: ∂ log p_t / ∂ z_j = [j = t] - p_j and ∂ H / ∂ z_j = -p_j
//! (log p_j + H).

use super::vector::{exp_sum, largest, transpose};
use super::{KernelScalar, MatrixView, product};
use crate::tensor::candle;
use candle_core::{CpuStorage, CustomOp2, DType, Layout, Shape, Storage, Tensor};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use trainyard_core::{Error, Result};

/// Rows whose shares of the matrix's gradient are summed before they are added to it.
const ROWS: usize = 128;
/// Maximum numbers of a matrix that is transposed once for a pass, and of logits in memory at once where they are not
/// kept.
const LOGITS: usize = 1 << 24;
/// Maximum logits that a forward keeps.
const MAX_KEPT_LOGITS: usize = 1 << 27;

/// Computes the log-probability of `targets[j]` and the entropy at `rows[j]` of `hidden` `[R, H]`, under the head
/// `weight` `[V, H]`: `([n], [n])`. `unused` rows of the head have probability 0 and no gradient.
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
            "{} rows and {} targets: pass equal numbers of both, at least one",
            rows.len(),
            targets.len()
        )));
    }
    if width != depth {
        return Err(Error::bug(format!("hidden rows are {width} wide, but the head takes {depth}")));
    }
    if let Some(row) = rows.iter().find(|r| **r as usize >= total) {
        return Err(Error::bug(format!("row {row} is out of range: there are {total} hidden rows")));
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
    let keep = hidden.track_op() && rows.len() * vocabulary <= MAX_KEPT_LOGITS;
    let both = match hidden.dtype() {
        DType::F64 => hidden.apply_op2(
            &weight,
            LanguageHeadOp::<f64> { places, unused, temperature, learned, keep, kept_logits: Mutex::default() },
        ),
        _ => hidden.apply_op2(
            &weight,
            LanguageHeadOp::<f32> { places, unused, temperature, learned, keep, kept_logits: Mutex::default() },
        ),
    };
    let both = both.map_err(candle)?;
    Ok((both.get(0).map_err(candle)?, both.get(1).map_err(candle)?))
}

/// Division of the rows of a pass. Only `chain` affects bits.
#[derive(Clone, Copy)]
struct Division {
    /// Rows of one share of the matrix's gradient.
    chain: usize,
    /// Rows of one task.
    task: usize,
    /// Rows whose logits are in memory at once where they are not kept.
    block: usize,
    /// Rows of the matrix whose gradient is one task.
    tile: usize,
}

impl Division {
    fn of(vocabulary: usize, keep: bool) -> Self {
        let max_rows = LOGITS / vocabulary;
        let chain = if max_rows >= 2 * ROWS { ROWS } else { (max_rows / 2).max(1) };
        // Each task packs a large matrix anew, so tasks must be large, too.
        let task = if keep && vocabulary >= 1 << 13 { chain * (4 * ROWS).div_ceil(chain) } else { chain };
        Self { chain, task, block: chain * (max_rows / chain).max(1), tile: (vocabulary / 64).clamp(32, 256) }
    }
}

/// Returns the bytes of the float32 numbers that are in memory at once for this many rows: logits, and the matrix if it
/// is transposed.
pub fn block_bytes(vocabulary: usize, width: usize, rows: usize) -> u64 {
    let transposed = if vocabulary * width <= LOGITS { vocabulary * width } else { 0 };
    let all = rows * vocabulary;
    let logits = if all <= MAX_KEPT_LOGITS { all } else { LOGITS };
    (logits + transposed) as u64 * size_of::<f32>() as u64
}

struct LanguageHeadOp<T> {
    /// (hidden row, target token).
    places: Vec<(usize, usize)>,
    unused: Vec<Range<usize>>,
    temperature: f64,
    /// Whether the matrix has a gradient.
    learned: bool,
    /// Whether the forward keeps the logits.
    keep: bool,
    /// Logits of all places, kept by the forward for the backward.
    kept_logits: Mutex<Option<Vec<T>>>,
}

/// The matrix, transposed where it is small enough.
struct TransposedHead<'a, T> {
    weight: &'a [T],
    copy: Option<Vec<T>>,
    vocabulary: usize,
    width: usize,
}

impl<'a, T: KernelScalar> TransposedHead<'a, T> {
    fn new(weight: &'a [T], width: usize) -> Self {
        let vocabulary = weight.len() / width;
        let copy = (weight.len() <= LOGITS).then(|| {
            let mut out = vec![T::ZERO; weight.len()];
            transpose(weight, width, vocabulary, width, &mut out, vocabulary);
            out
        });
        Self { weight, copy, vocabulary, width }
    }
    fn view(&self) -> MatrixView<'_, T> {
        match &self.copy {
            Some(copy) => MatrixView::rows(copy, self.vocabulary),
            None => MatrixView::rows(self.weight, self.width).transposed(),
        }
    }
}

fn slice<'a, T: KernelScalar>(storage: &'a CpuStorage, layout: &Layout) -> candle_core::Result<&'a [T]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&T::cpu_storage_as_slice(storage)?[start..end]),
        None => candle_core::bail!("the language head needs contiguous tensors"),
    }
}

impl<T: KernelScalar> LanguageHeadOp<T> {
    fn gather(&self, places: &[(usize, usize)], hidden: &[T], width: usize) -> Vec<T> {
        let mut out = Vec::with_capacity(places.len() * width);
        for (row, _) in places {
            out.extend_from_slice(&hidden[row * width..(row + 1) * width]);
        }
        out
    }

    /// Sets unused logits so far below the others that they add 0 to every sum. Negative infinity would make 0 · ∞ in
    /// the entropy a NaN.
    fn mask(&self, row: &mut [T]) {
        if !self.unused.is_empty() {
            let low = largest(row) - T::of(1e6);
            self.unused.iter().for_each(|range| row[range.clone()].fill(low));
        }
    }
    /// Clears the gradients of unused logits, which are not quite 0 in float32.
    fn clear(&self, row: &mut [T]) {
        self.unused.iter().for_each(|range| row[range.clone()].fill(T::ZERO));
    }

    /// Computes the logits of gathered rows, without the unused ones.
    fn logits(&self, transposed: &TransposedHead<'_, T>, gathered: &[T], logits: &mut [T]) {
        let TransposedHead { vocabulary, width, .. } = *transposed;
        let size = (gathered.len() / width, vocabulary, width);
        product(size, MatrixView::rows(gathered, width), transposed.view(), logits, vocabulary, false);
        logits.chunks_exact_mut(vocabulary).for_each(|row| self.mask(row));
    }

    /// Computes the gradients of hidden states and weight (empty if it is frozen) from the gradients of both results
    /// (`[2, n]`).
    fn gradients(&self, hidden: &[T], weight: &[T], width: usize, upstream: &[T]) -> (Vec<T>, Vec<T>) {
        let mut kept = self.kept_logits.lock().unwrap_or_else(PoisonError::into_inner).take();
        let transposed = TransposedHead::new(weight, width);
        let (vocabulary, n) = (transposed.vocabulary, self.places.len());
        let learned = if self.learned { weight.len() } else { 0 };
        let (mut d_hidden, mut d_weight) = (vec![T::ZERO; hidden.len()], vec![T::ZERO; learned]);
        let division = Division::of(vocabulary, kept.is_some());
        let block = if kept.is_some() { n } else { division.block };
        for first in (0..n).step_by(block) {
            let places = &self.places[first..(first + block).min(n)];
            let slopes = (&upstream[first..n], &upstream[n + first..]);
            let gathered = self.gather(places, hidden, width);
            let (mut logits, known) = match kept.take() {
                Some(logits) => (logits, true),
                None => (vec![T::ZERO; places.len() * vocabulary], false),
            };
            let mut d_gathered = vec![T::ZERO; places.len() * width];
            let task = division.task;
            let rows = gathered.par_chunks(task * width).zip(d_gathered.par_chunks_mut(task * width));
            let tasks = places.par_chunks(task).zip(logits.par_chunks_mut(task * vocabulary)).zip(rows).enumerate();
            tasks.for_each(|(i, ((places, logits), (gathered, d_gathered)))| {
                if !known {
                    self.logits(&transposed, gathered, logits);
                }
                let slopes = (&slopes.0[i * task..], &slopes.1[i * task..]);
                self.logit_gradients(places, slopes, logits, vocabulary);
                let size = (places.len(), width, vocabulary);
                let d_logits = MatrixView::rows(logits, vocabulary);
                product(size, d_logits, MatrixView::rows(weight, width), d_gathered, width, false);
            });
            let pieces =
                |rows: usize| (0..rows).step_by(division.chain).map(move |at| (at, division.chain.min(rows - at)));
            d_weight.par_chunks_mut(division.tile * width).enumerate().for_each(|(tile, out)| {
                for (at, depth) in pieces(places.len()) {
                    let d_logits = &logits[at * vocabulary + tile * division.tile..];
                    let columns = MatrixView { data: d_logits, row: 1, column: vocabulary };
                    let rows = MatrixView::rows(&gathered[at * width..], width);
                    product((out.len() / width, width, depth), columns, rows, out, width, true);
                }
            });
            for ((row, _), d) in places.iter().zip(d_gathered.chunks_exact(width)) {
                super::vector::add_into(&mut d_hidden[row * width..(row + 1) * width], d);
            }
        }
        (d_hidden, d_weight)
    }

    /// Converts the logits of some rows to their gradients, given the gradients of the rows' results.
    fn logit_gradients(&self, places: &[(usize, usize)], slopes: (&[T], &[T]), logits: &mut [T], vocabulary: usize) {
        let inverse = T::of(1.0 / self.temperature);
        let slopes = slopes.0.iter().zip(slopes.1);
        for (((_, target), row), (logprob, entropy)) in
            places.iter().zip(logits.chunks_exact_mut(vocabulary)).zip(slopes)
        {
            row_gradient(row, *target, inverse, *logprob, *entropy);
            self.clear(row);
        }
    }
}

impl<T: KernelScalar> CustomOp2 for LanguageHeadOp<T> {
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
        let transposed = TransposedHead::new(weight, width);
        let (vocabulary, n) = (transposed.vocabulary, self.places.len());
        let inverse = T::of(1.0 / self.temperature);
        let mut out = vec![T::ZERO; 2 * n];
        let mut kept = self.keep.then(|| vec![T::ZERO; n * vocabulary]);
        let rows = Division::of(vocabulary, self.keep).task;
        let (logprobs, entropies) = out.split_at_mut(n);
        let read = |places: &[(usize, usize)], logits: &mut [T], (logprobs, entropies): (&mut [T], &mut [T])| {
            self.logits(&transposed, &self.gather(places, hidden, width), logits);
            let results = places.iter().zip(logits.chunks_exact(vocabulary)).zip(logprobs).zip(entropies);
            for ((((_, target), row), logprob), entropy) in results {
                (*logprob, *entropy) = row_values(row, *target, inverse);
            }
        };
        let results = logprobs.par_chunks_mut(rows).zip(entropies.par_chunks_mut(rows));
        let tasks = self.places.par_chunks(rows).zip(results);
        match &mut kept {
            Some(kept) => tasks.zip(kept.par_chunks_mut(rows * vocabulary)).for_each(|((places, results), logits)| {
                read(places, logits, results);
            }),
            None => tasks.for_each(|(places, results)| {
                read(places, &mut vec![T::ZERO; places.len() * vocabulary], results);
            }),
        }
        *self.kept_logits.lock().unwrap_or_else(PoisonError::into_inner) = kept;
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
    /// Computes the log-probability of `target` and the entropy of softmax(row · inverse).
    fn row_values(row: &[T], target: usize, inverse: T) -> (T, T) {
        let top = largest(row) * inverse;
        let chosen = row[target] * inverse - top;
        let (sum, spread) = exp_moments(row, inverse, top);
        let log_sum = sum.ln();
        (chosen - log_sum, log_sum - spread / sum)
    }
}

vectorized! {
    /// Converts the row to the gradient of d_logprob · log p(target) + d_entropy · H with respect to the unscaled
    /// logits.
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

/// Returns Σ e^y and Σ e^y · y for y = x · scale - shift.
#[inline(always)]
fn exp_moments<T: KernelScalar>(row: &[T], scale: T, shift: T) -> (T, T) {
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
