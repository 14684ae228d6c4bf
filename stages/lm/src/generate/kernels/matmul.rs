//! Computes `out = x · Wᵀ` with weights that are packed once into panels of 32 outputs.
//!
//! Weights that are all bfloat16, as most published models are saved, take two bytes each in a panel. Conversion to
//! float32 is exact, so no bit of a result depends on the storage.
#![expect(unsafe_code, reason = "the inner tile reads through pointers; the bounds are asserted before")]

use super::lanes::{Isa, Lanes, kernel};
use crate::generate::numbers::{bf16_bits, is_bf16};
use rayon::prelude::*;
use std::ops::Range;

/// Output columns of a panel; rows of every output buffer are padded to a multiple of it.
pub const PANEL: usize = 32;

/// A weight matrix `[n, k]` in panels `[n / 32][k][32]`, padded with zero rows.
#[derive(Debug, Clone, Default)]
pub struct PackedMatrix {
    k: usize,
    panels: Panels,
    /// Bias, padded like the outputs; empty = no bias.
    bias: Vec<f32>,
}

#[derive(Debug, Clone)]
enum Panels {
    Full(Vec<f32>),
    Half(Vec<Bf16Pair>),
}

impl Default for Panels {
    fn default() -> Self {
        Self::Full(Vec::new())
    }
}

/// Two bfloat16 weights of a panel's row: column `i` below column `i + 16`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(transparent)]
struct Bf16Pair(u32);

/// Storage type of the 32 weights of a panel's row.
trait PanelElement: Copy + Default + Send + Sync {
    /// Elements of a row.
    const ROW: usize;
    /// Writes a weight into its column.
    fn put(row: &mut [Self], column: usize, weight: f32);
    /// Loads the first or, with `second`, the second sixteen weights of a row.
    ///
    /// # Safety
    /// As for [`Lanes`]; `row` points to a row of [`PanelElement::ROW`] elements.
    unsafe fn sixteen<L: Lanes>(row: *const Self, second: bool) -> L::V;
}

impl PanelElement for f32 {
    const ROW: usize = PANEL;
    fn put(row: &mut [Self], column: usize, weight: f32) {
        row[column] = weight;
    }
    #[inline(always)]
    unsafe fn sixteen<L: Lanes>(row: *const Self, second: bool) -> L::V {
        // SAFETY: the caller ensures that `row` points to 32 floats, so both offsets leave 16 of them, and that the
        // processor has the instructions of `L`.
        unsafe { L::load(row.add(if second { 16 } else { 0 })) }
    }
}

impl PanelElement for Bf16Pair {
    const ROW: usize = PANEL / 2;
    fn put(row: &mut [Self], column: usize, weight: f32) {
        row[column % 16].0 |= u32::from(bf16_bits(weight)) << (16 * (column / 16));
    }
    #[inline(always)]
    unsafe fn sixteen<L: Lanes>(row: *const Self, second: bool) -> L::V {
        let row = row.cast::<u32>();
        // SAFETY: the caller ensures that `row` points to 16 pairs and that the processor has the instructions of `L`.
        // `Bf16Pair` is `repr(transparent)`, so a pair has the layout of its word.
        unsafe { if second { L::load_high(row) } else { L::load_low(row) } }
    }
}

impl PackedMatrix {
    /// Stacks row-major parts `([n_i, k], bias)` on top of each other, each padded to whole panels: part `i` of the
    /// output starts at the sum of the padded sizes before it.
    pub fn new(k: usize, parts: &[(&[f32], Option<&[f32]>)]) -> Self {
        let half = parts.iter().all(|(weights, _)| is_bf16(weights));
        let panels = if half { Panels::Half(stacked(k, parts)) } else { Panels::Full(stacked(k, parts)) };
        let mut bias = Vec::new();
        if parts.iter().any(|(_, bias)| bias.is_some()) {
            for (weights, own) in parts {
                bias.extend_from_slice(own.unwrap_or(&vec![0.0; weights.len() / k]));
                bias.resize(bias.len().next_multiple_of(PANEL), 0.0);
            }
        }
        Self { k, panels, bias }
    }
    /// Returns the columns of an output row, including padding.
    pub fn columns(&self) -> usize {
        let numbers = match &self.panels {
            Panels::Full(panels) => panels.len(),
            Panels::Half(panels) => 2 * panels.len(),
        };
        numbers / self.k.max(1)
    }
    /// Returns the bytes of the weights.
    pub fn bytes(&self) -> usize {
        match &self.panels {
            Panels::Full(panels) => size_of_val(panels.as_slice()),
            Panels::Half(panels) => size_of_val(panels.as_slice()),
        }
    }
    /// Divides the panels into about equal parts for this many threads. Large products get several parts per thread,
    /// because a thread may be late.
    fn parts(&self, threads: usize) -> Vec<Range<usize>> {
        let panels = self.columns() / PANEL;
        let parts = threads * (panels / (16 * threads)).clamp(1, 4);
        (0..parts).map(|i| panels * i / parts..panels * (i + 1) / parts).collect()
    }
}

/// Packs the panels of all parts, one after another.
fn stacked<W: PanelElement>(k: usize, parts: &[(&[f32], Option<&[f32]>)]) -> Vec<W> {
    let mut stacked = Vec::new();
    for (weights, _) in parts {
        assert!(k > 0 && weights.len() % k == 0, "a part must have whole rows");
        let start = stacked.len();
        stacked.resize(start + (weights.len() / k).div_ceil(PANEL) * k * W::ROW, W::default());
        let panels = stacked[start..].par_chunks_exact_mut(k * W::ROW);
        panels.zip(weights.par_chunks(k * PANEL)).for_each(|(panel, rows)| fill(panel, rows, k));
    }
    stacked
}

/// Interleaves rows of `k` weights. Only a few lines of the panel are written at a time.
fn fill<W: PanelElement>(panel: &mut [W], rows: &[f32], k: usize) {
    for (i, panel) in panel.chunks_mut(16 * W::ROW).enumerate() {
        for (column, row) in rows.chunks_exact(k).enumerate() {
            for (w, line) in row[16 * i..].iter().zip(panel.chunks_exact_mut(W::ROW)) {
                W::put(line, column, *w);
            }
        }
    }
}

/// The results of a product as a pointer that threads share; each thread writes only the columns of its panels.
#[derive(Clone, Copy)]
pub struct MatmulOutput(*mut f32);

// SAFETY: each panel belongs to one part of `matmul`, so threads write to disjoint ranges, and `matmul` borrows the
// results until all threads are done.
unsafe impl Send for MatmulOutput {}
// SAFETY: `MatmulOutput` only copies the pointer, and writes through copies are disjoint, as for `Send`.
unsafe impl Sync for MatmulOutput {}

/// Computes `out[r] = bias + W x[r]`, or with `accumulate` `out[r] += bias + W x[r]`, for `rows` rows.
///
/// `x` has rows of `x_stride >= k` values, `out` rows of exactly `columns()`; panics if a slice is too short. Each
/// element starts from the bias and the old value and adds its products in ascending `k`. With more than one thread,
/// the panels are divided over rayon's current pool.
pub fn matmul(
    (isa, threads): (Isa, usize),
    weights: &PackedMatrix,
    (x, x_stride): (&[f32], usize),
    rows: usize,
    accumulate: bool,
    out: &mut [f32],
) {
    if rows == 0 {
        return;
    }
    let (k, columns) = (weights.k, weights.columns());
    assert!(x_stride >= k && x.len() >= (rows - 1) * x_stride + k && out.len() >= rows * columns);
    let out = MatmulOutput(out.as_mut_ptr());
    let x = (x, x_stride);
    if threads == 1 {
        panels(isa, weights, 0..columns / PANEL, x, rows, accumulate, out);
    } else {
        weights.parts(threads).into_par_iter().for_each(|part| {
            panels(isa, weights, part, x, rows, accumulate, out);
        });
    }
}

kernel! {
    /// Computes the columns of the panels in `part`. [`matmul`] has checked the sizes, and no other thread uses these
    /// panels.
    panels = panels_body(
        weights: &PackedMatrix,
        part: Range<usize>,
        x: (&[f32], usize),
        rows: usize,
        accumulate: bool,
        out: MatmulOutput,
    )
}

#[inline(always)]
fn panels_body<L: Lanes>(
    weights: &PackedMatrix,
    part: Range<usize>,
    x: (&[f32], usize),
    rows: usize,
    accumulate: bool,
    out: MatmulOutput,
) {
    match &weights.panels {
        Panels::Full(panels) => panels_of::<L, f32>(weights, panels, part, x, rows, accumulate, out),
        Panels::Half(panels) => panels_of::<L, Bf16Pair>(weights, panels, part, x, rows, accumulate, out),
    }
}

#[inline(always)]
fn panels_of<L: Lanes, W: PanelElement>(
    weights: &PackedMatrix,
    panels: &[W],
    part: Range<usize>,
    (x, x_stride): (&[f32], usize),
    rows: usize,
    accumulate: bool,
    out: MatmulOutput,
) {
    let (k, columns) = (weights.k, weights.columns());
    let step = 16 * L::VECTORS;
    for p in part {
        let panel = &panels[p * k * W::ROW..(p + 1) * k * W::ROW];
        for row in 0..rows {
            // SAFETY: `matmul` has checked that `out` holds `rows` rows of `columns` values. Only this call uses the
            // columns of panel `p`, and the slice ends before the pointer is used again.
            let out = unsafe { std::slice::from_raw_parts_mut(out.0.add(row * columns + p * PANEL), PANEL) };
            match (accumulate, weights.bias.get(p * PANEL..(p + 1) * PANEL)) {
                (false, None) => out.fill(0.0),
                (false, Some(bias)) => out.copy_from_slice(bias),
                (true, None) => {}
                (true, Some(bias)) => out.iter_mut().zip(bias).for_each(|(o, b)| *o += b),
            }
        }
        for column in (0..PANEL).step_by(step) {
            let mut row = 0;
            while row < rows {
                let left = rows - row;
                // SAFETY: `x` holds k values at each of the rows row..row + R, as `matmul` has checked. `out` holds
                // `columns` values per row, and p * PANEL + column + step <= columns. The panel holds k rows of PANEL
                // weights, and column + step <= PANEL. The kernel enables the instructions of `L`.
                unsafe {
                    let x = x.as_ptr().add(row * x_stride);
                    let w = (panel.as_ptr(), column / 16);
                    let o = out.0.add(row * columns + p * PANEL + column);
                    row += match left {
                        12.. if L::ROWS >= 12 => tiles::<L, W, 12>(x, x_stride, k, w, o, columns),
                        8.. if L::ROWS >= 8 => tiles::<L, W, 8>(x, x_stride, k, w, o, columns),
                        6.. if L::ROWS >= 6 => tiles::<L, W, 6>(x, x_stride, k, w, o, columns),
                        4.. => tiles::<L, W, 4>(x, x_stride, k, w, o, columns),
                        2.. => tiles::<L, W, 2>(x, x_stride, k, w, o, columns),
                        _ => tiles::<L, W, 1>(x, x_stride, k, w, o, columns),
                    };
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn tiles<L: Lanes, W: PanelElement, const R: usize>(
    x: *const f32,
    x_stride: usize,
    k: usize,
    w: (*const W, usize),
    out: *mut f32,
    out_stride: usize,
) -> usize {
    // SAFETY: the caller ensures the bounds for `R` rows and 16 · `L::VECTORS` columns, which are the bounds of `tile`.
    unsafe {
        match L::VECTORS {
            1 => tile::<L, W, R, 1>(x, x_stride, k, w, out, out_stride),
            _ => tile::<L, W, R, 2>(x, x_stride, k, w, out, out_stride),
        }
    }
    R
}

/// Adds the products of `R` rows and `16 N` columns to `out`, with accumulators in registers. `w` is a panel and the
/// index of the first sixteen columns to use.
#[inline(always)]
unsafe fn tile<L: Lanes, W: PanelElement, const R: usize, const N: usize>(
    x: *const f32,
    x_stride: usize,
    k: usize,
    (w, first): (*const W, usize),
    out: *mut f32,
    out_stride: usize,
) {
    // SAFETY: the caller ensures that `x` holds `R` rows of k values, `out` `R` rows of 16 `N` values, and the panel k
    // rows with the columns from `first`, and that the processor has the instructions of `L`.
    unsafe {
        let mut sums = [[L::splat(0.0); N]; R];
        for (r, sums) in sums.iter_mut().enumerate() {
            for (n, sum) in sums.iter_mut().enumerate() {
                *sum = L::load(out.add(r * out_stride + 16 * n));
            }
        }
        for i in 0..k {
            let mut columns = [L::splat(0.0); N];
            for (n, column) in columns.iter_mut().enumerate() {
                *column = W::sixteen::<L>(w.add(i * W::ROW), first + n > 0);
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let value = L::splat(*x.add(r * x_stride + i));
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = L::fma(value, column, *sum);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (n, &sum) in sums.iter().enumerate() {
                L::store(out.add(r * out_stride + 16 * n), sum);
            }
        }
    }
}
