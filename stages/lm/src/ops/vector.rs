//! Provides sums, scaled additions and transposes over slices.

use super::KernelScalar;

/// Independent partial sums of a reduction: enough for two wide registers.
const LANES: usize = 32;

/// Adds the lanes in one fixed tree.
#[inline(always)]
fn tree<T: KernelScalar>(mut lanes: [T; LANES]) -> T {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// Returns Σ a·b. Inlined into the caller's vector width.
#[inline(always)]
pub(crate) fn dot<T: KernelScalar>(a: &[T], b: &[T]) -> T {
    let mut lanes = [T::ZERO; LANES];
    let (a_main, a_rest) = a.as_chunks::<LANES>();
    let (b_main, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_main.iter().zip(b_main) {
        for i in 0..LANES {
            lanes[i] = a[i].fma(b[i], lanes[i]);
        }
    }
    for (i, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        lanes[i] = a.fma(*b, lanes[i]);
    }
    tree(lanes)
}

/// Returns the largest element of a slice, which must not be empty.
#[inline(always)]
pub(crate) fn largest<T: KernelScalar>(a: &[T]) -> T {
    let mut lanes = [a[0]; LANES];
    let (main, rest) = a.as_chunks::<LANES>();
    for chunk in main {
        for i in 0..LANES {
            lanes[i] = chunk[i].maximum(lanes[i]);
        }
    }
    for (i, x) in rest.iter().enumerate() {
        lanes[i] = x.maximum(lanes[i]);
    }
    lanes.into_iter().fold(a[0], |m, x| x.maximum(m))
}

/// Replaces each x by e^(x · scale - shift) and returns their sum.
#[inline(always)]
pub(crate) fn exp_sum<T: KernelScalar>(a: &mut [T], scale: T, shift: T) -> T {
    let mut lanes = [T::ZERO; LANES];
    let (main, rest) = a.as_chunks_mut::<LANES>();
    for chunk in main {
        for i in 0..LANES {
            chunk[i] = chunk[i].fma(scale, -shift).exp();
            lanes[i] += chunk[i];
        }
    }
    for (i, x) in rest.iter_mut().enumerate() {
        *x = x.fma(scale, -shift).exp();
        lanes[i] += *x;
    }
    tree(lanes)
}

vectorized! {
    /// Computes `sum += term`, element by element.
    pub fn add_into(sum: &mut [T], term: &[T]) {
        for (s, t) in sum.iter_mut().zip(term) {
            *s += *t;
        }
    }
}

vectorized! {
    /// Computes `sum += term · scale`, element by element.
    pub fn add_scaled(sum: &mut [T], term: &[T], scale: T) {
        for (s, t) in sum.iter_mut().zip(term) {
            *s = t.fma(scale, *s);
        }
    }
}

vectorized! {
    /// Computes `x *= factor`, element by element.
    pub fn multiply(values: &mut [T], factor: T) {
        for x in values {
            *x *= factor;
        }
    }
}

vectorized! {
    /// Returns Σ x² in double precision.
    pub fn sum_of_squares(values: &[T]) -> f64 {
        let mut lanes = [0.0f64; LANES];
        for chunk in values.chunks(LANES) {
            for (lane, x) in lanes.iter_mut().zip(chunk) {
                let x = x.to_f64();
                *lane += x * x;
            }
        }
        tree(lanes)
    }
}

vectorized! {
    /// Adds `bias` to every row of `rows`.
    pub fn add_bias(rows: &mut [T], bias: &[T]) {
        for row in rows.chunks_exact_mut(bias.len()) {
            for (x, b) in row.iter_mut().zip(bias) {
                *x += *b;
            }
        }
    }
}

vectorized! {
    /// Computes `sums[j] += Σ_rows rows[row][offset + j]` for rows of width `width`.
    pub fn add_columns(rows: &[T], width: usize, offset: usize, sums: &mut [T]) {
        for row in rows.chunks_exact(width) {
            for (s, x) in sums.iter_mut().zip(&row[offset..]) {
                *s += *x;
            }
        }
    }
}

vectorized! {
    /// Writes the transpose of `rows` × `columns` numbers (row stride `stride`) so that `out[c · out_stride + r] =
    /// from[r · stride + c]`.
    pub fn transpose(from: &[T], stride: usize, rows: usize, columns: usize, out: &mut [T], out_stride: usize) {
        const BLOCK: usize = 16;
        let mut first = 0;
        while first + BLOCK <= rows {
            for c in 0..columns {
                let target = &mut out[c * out_stride + first..c * out_stride + first + BLOCK];
                for (r, x) in target.iter_mut().enumerate() {
                    *x = from[(first + r) * stride + c];
                }
            }
            first += BLOCK;
        }
        for r in first..rows {
            for c in 0..columns {
                out[c * out_stride + r] = from[r * stride + c];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reductions_agree_with_plain_sums_at_every_length() {
        for n in 1..100usize {
            let a: Vec<f64> = (0..n).map(|i| (i as f64 * 0.7).sin()).collect();
            let b: Vec<f64> = (0..n).map(|i| (i as f64 * 0.3).cos()).collect();
            let plain: f64 = a.iter().zip(&b).map(|(x, y)| x * y).sum();
            assert!((dot(&a, &b) - plain).abs() < 1e-12);
            assert!((sum_of_squares(&a) - a.iter().map(|x| x * x).sum::<f64>()).abs() < 1e-12);
            assert_eq!(largest(&a), a.iter().copied().fold(f64::MIN, f64::max));
            let mut e = a.clone();
            let sum = exp_sum(&mut e, 2.0, 0.5);
            assert!((sum - a.iter().map(|x| (2.0 * x - 0.5f64).exp()).sum::<f64>()).abs() < 1e-11);
        }
    }

    #[test]
    fn transpose_moves_every_element() {
        let (rows, columns, stride) = (37, 5, 7);
        let from: Vec<f32> = (0..rows * stride).map(|i| i as f32).collect();
        let mut out = vec![0.0; columns * rows];
        transpose(&from, stride, rows, columns, &mut out, rows);
        for r in 0..rows {
            for c in 0..columns {
                assert_eq!(out[c * rows + r], from[r * stride + c]);
            }
        }
    }

    #[test]
    fn columns_and_bias() {
        let mut rows = vec![1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0];
        add_bias(&mut rows, &[10.0, 20.0, 30.0]);
        assert_eq!(rows, [11.0, 22.0, 33.0, 14.0, 25.0, 36.0]);
        let mut sums = vec![0.5, 0.5];
        add_columns(&rows, 3, 1, &mut sums);
        assert_eq!(sums, [47.5, 69.5]);
    }
}
