//! SwiGLU (Shazeer, arXiv 2002.05202): y = gate · sigmoid(gate) · up, with gate and up side by side in one row.

vectorized! {
    /// Rows of `gate_up` are `[gate | up]`, each `width` long; `y` gets `width` per row.
    pub fn forward(gate_up: &[T], width: usize, y: &mut [T]) {
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
    /// From the gradient `dy` of y: writes the gradients of gate and up in place of `d_gate_up`, and y once more in
    /// place of `y`.
    pub fn backward(gate_up: &[T], width: usize, dy: &[T], d_gate_up: &mut [T], y: &mut [T]) {
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
