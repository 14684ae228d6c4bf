//! Computes gated units (Shazeer, arXiv 2002.05202): y = act(gate) · up, with gate and up adjacent in one row.
//!
//! Both activations have the form x · sigmoid(z(x)): SiLU with z = x, and GELU's tanh form (arXiv 1606.08415) with z =
//! 2·√(2/π)·(x + 0.044715·x³), because (1 + tanh u) / 2 = sigmoid(2u).

use crate::families::Activation;

/// 2·√(2/π), and the cubic coefficient.
const GELU: (f64, f64) = (1.595_769_121_605_730_7, 0.044_715);

/// Computes y. Rows of `gate_up` are `[gate | up]`, each `width` long; `y` gets `width` per row.
pub fn forward<T: super::KernelScalar>(activation: Activation, gate_up: &[T], width: usize, y: &mut [T]) {
    match activation {
        Activation::Silu => silu(gate_up, width, y),
        Activation::GeluTanh => gelu(gate_up, width, y),
    }
}

/// Computes the backward from the gradient `dy` of y: writes the gradients of gate and up to `d_gate_up`, and the
/// recomputed y to `y`.
pub fn backward<T: super::KernelScalar>(
    activation: Activation,
    gate_up: &[T],
    width: usize,
    dy: &[T],
    d_gate_up: &mut [T],
    y: &mut [T],
) {
    match activation {
        Activation::Silu => silu_backward(gate_up, width, dy, d_gate_up, y),
        Activation::GeluTanh => gelu_backward(gate_up, width, dy, d_gate_up, y),
    }
}

vectorized! {
    fn silu(gate_up: &[T], width: usize, y: &mut [T]) {
        assert!(gate_up.len() == 2 * y.len() && y.len().is_multiple_of(width));
        for (row, y) in gate_up.chunks_exact(2 * width).zip(y.chunks_exact_mut(width)) {
            let (gate, up) = row.split_at(width);
            for ((y, g), u) in y.iter_mut().zip(gate).zip(up) {
                *y = *g * g.sigmoid() * *u;
            }
        }
    }
}

vectorized! {
    fn silu_backward(gate_up: &[T], width: usize, dy: &[T], d_gate_up: &mut [T], y: &mut [T]) {
        assert!(gate_up.len() == 2 * y.len() && dy.len() == y.len() && d_gate_up.len() == gate_up.len());
        let rows = gate_up.chunks_exact(2 * width).zip(d_gate_up.chunks_exact_mut(2 * width));
        for (((row, d_row), dy), y) in rows.zip(dy.chunks_exact(width)).zip(y.chunks_exact_mut(width)) {
            let (gate, up) = row.split_at(width);
            let (d_gate, d_up) = d_row.split_at_mut(width);
            for (((((y, g), u), dy), dg), du) in y.iter_mut().zip(gate).zip(up).zip(dy).zip(d_gate).zip(d_up) {
                let s = g.sigmoid();
                let silu = *g * s;
                *y = silu * *u;
                *du = *dy * silu;
                *dg = *dy * *u * silu.fma(T::ONE - s, s);
            }
        }
    }
}

vectorized! {
    fn gelu(gate_up: &[T], width: usize, y: &mut [T]) {
        assert!(gate_up.len() == 2 * y.len() && y.len().is_multiple_of(width));
        let (scale, cubic) = (T::of(GELU.0), T::of(GELU.1));
        for (row, y) in gate_up.chunks_exact(2 * width).zip(y.chunks_exact_mut(width)) {
            let (gate, up) = row.split_at(width);
            for ((y, g), u) in y.iter_mut().zip(gate).zip(up) {
                let z = *g * scale * (*g * *g).fma(cubic, T::ONE);
                *y = *g * z.sigmoid() * *u;
            }
        }
    }
}

vectorized! {
    fn gelu_backward(gate_up: &[T], width: usize, dy: &[T], d_gate_up: &mut [T], y: &mut [T]) {
        assert!(gate_up.len() == 2 * y.len() && dy.len() == y.len() && d_gate_up.len() == gate_up.len());
        let (scale, cubic, steep) = (T::of(GELU.0), T::of(GELU.1), T::of(3.0 * GELU.1));
        let rows = gate_up.chunks_exact(2 * width).zip(d_gate_up.chunks_exact_mut(2 * width));
        for (((row, d_row), dy), y) in rows.zip(dy.chunks_exact(width)).zip(y.chunks_exact_mut(width)) {
            let (gate, up) = row.split_at(width);
            let (d_gate, d_up) = d_row.split_at_mut(width);
            for (((((y, g), u), dy), dg), du) in y.iter_mut().zip(gate).zip(up).zip(dy).zip(d_gate).zip(d_up) {
                let square = *g * *g;
                let s = (*g * scale * square.fma(cubic, T::ONE)).sigmoid();
                let gelu = *g * s;
                let slope = scale * square.fma(steep, T::ONE);
                *y = gelu * *u;
                *du = *dy * gelu;
                *dg = *dy * *u * (gelu * (T::ONE - s)).fma(slope, s);
            }
        }
    }
}
