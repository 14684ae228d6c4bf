//! Computes the RMS norm (Zhang and Sennrich, arXiv 1910.07467): y = x · w / √(mean(x²) + ε), over groups of
//! `weight.len()` numbers.

use super::KernelScalar;
use super::vector::dot;

vectorized! {
    /// Writes y and 1/√(mean(x²) + ε) of each group. `x` and `y` have the same length; `scales` one number per group.
    pub fn forward(x: &[T], weight: &[T], epsilon: T, y: &mut [T], scales: &mut [T]) {
        let width = weight.len();
        assert!(x.len() == y.len() && x.len() == scales.len() * width);
        let share = T::ONE / T::of(width as f64);
        for ((x, y), scale) in x.chunks_exact(width).zip(y.chunks_exact_mut(width)).zip(scales) {
            let s = T::ONE / dot(x, x).fma(share, epsilon).sqrt();
            for ((y, x), w) in y.iter_mut().zip(x).zip(weight) {
                *y = *x * s * *w;
            }
            *scale = s;
        }
    }
}

vectorized! {
    /// Computes y again, with the same bits, from the kept scales.
    pub fn recompute(x: &[T], weight: &[T], scales: &[T], y: &mut [T]) {
        let width = weight.len();
        assert!(x.len() == y.len() && x.len() == scales.len() * width);
        for ((x, y), s) in x.chunks_exact(width).zip(y.chunks_exact_mut(width)).zip(scales) {
            for ((y, x), w) in y.iter_mut().zip(x).zip(weight) {
                *y = *x * *s * *w;
            }
        }
    }
}

vectorized! {
    /// Computes `dx += ∂/∂x` and `dw += ∂/∂w` for the gradient `dy` of y.
    pub fn backward(x: &[T], weight: &[T], scales: &[T], dy: &[T], dx: &mut [T], dw: &mut [T]) {
        let width = weight.len();
        assert!(x.len() == dy.len() && x.len() == dx.len() && x.len() == scales.len() * width && dw.len() == width);
        let share = T::ONE / T::of(width as f64);
        let groups = x.chunks_exact(width).zip(dy.chunks_exact(width)).zip(dx.chunks_exact_mut(width)).zip(scales);
        for (((x, dy), dx), s) in groups {
            let s = *s;
            let projection = weighted_dot(x, dy, weight) * s * s * s * share;
            for ((((dx, x), dy), w), dw) in dx.iter_mut().zip(x).zip(dy).zip(weight).zip(dw.iter_mut()) {
                *dw = (*dy * *x).fma(s, *dw);
                *dx += (*dy * *w).fma(s, -(*x * projection));
            }
        }
    }
}

/// Returns Σ a·b·c.
#[inline(always)]
fn weighted_dot<T: KernelScalar>(a: &[T], b: &[T], c: &[T]) -> T {
    let mut lanes = [T::ZERO; 16];
    let (a_main, a_rest) = a.as_chunks::<16>();
    let (b_main, b_rest) = b.as_chunks::<16>();
    let (c_main, c_rest) = c.as_chunks::<16>();
    for ((a, b), c) in a_main.iter().zip(b_main).zip(c_main) {
        for i in 0..16 {
            lanes[i] = (a[i] * b[i]).fma(c[i], lanes[i]);
        }
    }
    for (i, ((a, b), c)) in a_rest.iter().zip(b_rest).zip(c_rest).enumerate() {
        lanes[i] = (*a * *b).fma(*c, lanes[i]);
    }
    lanes.into_iter().fold(T::ZERO, |sum, x| sum + x)
}
