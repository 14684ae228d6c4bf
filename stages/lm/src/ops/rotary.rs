//! Rotary position embedding (Su et al., arXiv 2104.09864) in the half-split form of Hugging Face: dimension i turns
//! with dimension i + d/2 by the angle position · θ^(-2i/d).

use super::Scalar;

/// Cosines and sines, `[positions, dim / 2]` each.
#[derive(Debug, Clone, Default)]
pub struct Angles<T> {
    /// Cosines, row after row: position · half + i.
    pub cos: Vec<T>,
    /// Sines in the same layout.
    pub sin: Vec<T>,
    half: usize,
    theta: f64,
}

impl<T: Scalar> Angles<T> {
    /// Extends the tables to at least `positions`; what is there already stays.
    pub fn cover(&mut self, positions: usize, dim: usize, theta: f64) {
        let half = dim / 2;
        if self.half != half || self.theta != theta {
            *self = Self { cos: Vec::new(), sin: Vec::new(), half, theta };
        }
        for position in self.cos.len() / half..positions {
            for i in 0..half {
                let angle = position as f64 * theta.powf(-2.0 * i as f64 / dim as f64);
                self.cos.push(T::of(angle.cos()));
                self.sin.push(T::of(angle.sin()));
            }
        }
    }
}

vectorized! {
    /// Turns the first `heads` heads of each row (row r is position r; rows are `stride` wide), forward or back.
    pub fn rotate(rows: &mut [T], stride: usize, heads: usize, dim: usize, cos: &[T], sin: &[T], back: bool) {
        let half = dim / 2;
        let sign = if back { -T::ONE } else { T::ONE };
        for ((row, cos), sin) in rows.chunks_exact_mut(stride).zip(cos.chunks_exact(half)).zip(sin.chunks_exact(half)) {
            for head in row[..heads * dim].chunks_exact_mut(dim) {
                let (low, high) = head.split_at_mut(half);
                for (((a, b), c), s) in low.iter_mut().zip(high).zip(cos).zip(sin) {
                    let (x, y, s) = (*a, *b, *s * sign);
                    *a = x * *c - y * s;
                    *b = y * *c + x * s;
                }
            }
        }
    }
}
