//! `out = x · Wᵀ` with weights packed once into panels of 32 outputs.
#![expect(unsafe_code, reason = "the inner tile reads through pointers; the bounds are asserted before")]

use super::lanes::{Lanes, kernel};

/// Output columns of a panel; rows of every output buffer are padded to a multiple of it.
pub const PANEL: usize = 32;

/// A weight matrix `[n, k]` in panels `[n / 32][k][32]`, filled up with zero rows.
#[derive(Debug, Clone, Default)]
pub struct Packed {
    k: usize,
    panels: Vec<f32>,
    /// Padded like the outputs; empty = none.
    bias: Vec<f32>,
}

impl Packed {
    /// Stacks row-major parts `([n_i, k], bias)` on top of each other, each padded to whole panels: part `i` of the
    /// output starts at the sum of the padded sizes before it.
    pub fn new(k: usize, parts: &[(&[f32], Option<&[f32]>)]) -> Self {
        let mut packed = Self { k, ..Self::default() };
        let biased = parts.iter().any(|p| p.1.is_some());
        for (weights, bias) in parts {
            assert!(k > 0 && weights.len() % k == 0, "a part must have whole rows");
            let n = weights.len() / k;
            for first in (0..n).step_by(PANEL) {
                let start = packed.panels.len();
                packed.panels.resize(start + k * PANEL, 0.0);
                for (column, row) in (first..n.min(first + PANEL)).enumerate() {
                    for (i, &w) in weights[row * k..(row + 1) * k].iter().enumerate() {
                        packed.panels[start + i * PANEL + column] = w;
                    }
                }
            }
            if biased {
                packed.bias.extend_from_slice(bias.unwrap_or(&vec![0.0; n]));
                packed.bias.resize(packed.bias.len().next_multiple_of(PANEL), 0.0);
            }
        }
        packed
    }
    /// Columns of an output row, padding included.
    pub fn columns(&self) -> usize {
        self.panels.len() / self.k.max(1)
    }
}

kernel! {
    /// `out[r] = bias + W x[r]`, or with `accumulate` `out[r] += bias + W x[r]`, for `rows` rows.
    ///
    /// `x` has rows of `x_stride >= k` values, `out` rows of exactly `columns()`. Each element starts from the bias and
    /// the old value and adds its products in ascending `k`.
    matmul = matmul_body(weights: &Packed, x: &[f32], x_stride: usize, rows: usize, accumulate: bool, out: &mut [f32])
}

#[inline(always)]
fn matmul_body<L: Lanes>(weights: &Packed, x: &[f32], x_stride: usize, rows: usize, accumulate: bool, out: &mut [f32]) {
    let (k, columns) = (weights.k, weights.columns());
    if rows == 0 {
        return;
    }
    assert!(x_stride >= k && x.len() >= (rows - 1) * x_stride + k && out.len() >= rows * columns);
    for row in out[..rows * columns].chunks_exact_mut(columns) {
        match (accumulate, weights.bias.is_empty()) {
            (false, true) => row.fill(0.0),
            (false, false) => row.copy_from_slice(&weights.bias),
            (true, true) => {}
            (true, false) => row.iter_mut().zip(&weights.bias).for_each(|(o, b)| *o += b),
        }
    }
    let step = 16 * L::VECTORS;
    for (p, panel) in weights.panels.chunks_exact(k * PANEL).enumerate() {
        for column in (0..PANEL).step_by(step) {
            let mut row = 0;
            while row < rows {
                let left = rows - row;
                // SAFETY: `x` holds rows row..row+R of k values at x_stride, `out` the same rows of `columns` values
                // with p * PANEL + column + step <= columns, the panel k rows of PANEL values with column + step <=
                // PANEL.
                unsafe {
                    let x = x.as_ptr().add(row * x_stride);
                    let w = panel.as_ptr().add(column);
                    let o = out.as_mut_ptr().add(row * columns + p * PANEL + column);
                    row += match left {
                        12.. if L::ROWS >= 12 => tiles::<L, 12>(x, x_stride, k, w, o, columns),
                        8.. if L::ROWS >= 8 => tiles::<L, 8>(x, x_stride, k, w, o, columns),
                        6.. if L::ROWS >= 6 => tiles::<L, 6>(x, x_stride, k, w, o, columns),
                        4.. => tiles::<L, 4>(x, x_stride, k, w, o, columns),
                        2.. => tiles::<L, 2>(x, x_stride, k, w, o, columns),
                        _ => tiles::<L, 1>(x, x_stride, k, w, o, columns),
                    };
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn tiles<L: Lanes, const R: usize>(
    x: *const f32,
    x_stride: usize,
    k: usize,
    w: *const f32,
    out: *mut f32,
    out_stride: usize,
) -> usize {
    // SAFETY: as the caller's.
    unsafe {
        match L::VECTORS {
            1 => tile::<L, R, 1>(x, x_stride, k, w, out, out_stride),
            _ => tile::<L, R, 2>(x, x_stride, k, w, out, out_stride),
        }
    }
    R
}

/// `R` rows times `16 N` columns, accumulators in registers.
#[inline(always)]
unsafe fn tile<L: Lanes, const R: usize, const N: usize>(
    x: *const f32,
    x_stride: usize,
    k: usize,
    w: *const f32,
    out: *mut f32,
    out_stride: usize,
) {
    // SAFETY: as the caller's.
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
                *column = L::load(w.add(i * PANEL + 16 * n));
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
