//! Computes the exponential, gated units and the root-mean-square norm.
//!
//! The exponential splits `x = n ln 2 + r` (Cody and Waite, two constants) and evaluates a polynomial of degree 6 in
//! `r` (coefficients of Cephes `expf`): within 2 units in the last place for results that are normal numbers. Below -87
//! the result is 0, above 88 infinity; NaN stays NaN.
#![expect(unsafe_code, reason = "the kernel macro calls feature-gated code")]

use super::lanes::{Lanes, kernel, tree};

#[inline(always)]
fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
    const LOW: f32 = -87.0;
    const HIGH: f32 = 88.0;
    // Comparisons, unlike min and max, keep NaN.
    let clamped = if x < LOW { LOW } else { x };
    let clamped = if clamped > HIGH { HIGH } else { clamped };
    let shifted = clamped.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(2.121_944_4e-4, n.mul_add(-355.0 / 512.0, clamped));
    let mut p = 1.987_569_2e-4f32;
    for c in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = p.mul_add(r, c);
    }
    let p = p.mul_add(r * r, r + 1.0);
    let scale = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    let value = p * scale;
    let value = if x < LOW { 0.0 } else { value };
    if x > HIGH { f32::INFINITY } else { value }
}

kernel! {
    /// Computes `x[i] = exp(x[i] - shift)` in place and returns the sum of the results (16 lanes by index modulo 16,
    /// then a fixed tree).
    exp_shifted = exp_shifted_body(x: &mut [f32], shift: f32) -> f32
}

#[inline(always)]
pub(super) fn exp_shifted_body<L: Lanes>(x: &mut [f32], shift: f32) -> f32 {
    for v in x.iter_mut() {
        *v = exp(*v - shift);
    }
    let mut lanes = [0.0f32; 16];
    let mut chunks = x.chunks_exact(16);
    for chunk in &mut chunks {
        for (lane, v) in lanes.iter_mut().zip(chunk) {
            *lane += v;
        }
    }
    for (lane, v) in lanes.iter_mut().zip(chunks.remainder()) {
        *lane += v;
    }
    tree(&lanes)
}

kernel! {
    /// Computes `out[i] = silu(gate[i]) * up[i]`.
    silu_times = silu_times_body(gate: &[f32], up: &[f32], out: &mut [f32])
}

#[inline(always)]
fn silu_times_body<L: Lanes>(gate: &[f32], up: &[f32], out: &mut [f32]) {
    assert!(gate.len() == up.len() && up.len() == out.len());
    for ((o, &g), &u) in out.iter_mut().zip(gate).zip(up) {
        *o = g / (1.0 + exp(-g)) * u;
    }
}

kernel! {
    /// Computes `out[i] = gelu(gate[i]) * up[i]`, with GELU in its tanh form:
    /// `x * sigmoid(2 sqrt(2 / pi) (x + 0.044715 x³))`.
    gelu_times = gelu_times_body(gate: &[f32], up: &[f32], out: &mut [f32])
}

#[inline(always)]
fn gelu_times_body<L: Lanes>(gate: &[f32], up: &[f32], out: &mut [f32]) {
    const SCALE: f32 = 1.595_769;
    assert!(gate.len() == up.len() && up.len() == out.len());
    for ((o, &g), &u) in out.iter_mut().zip(gate).zip(up) {
        let z = SCALE * g * (g * g).mul_add(0.044_715, 1.0);
        *o = g / (1.0 + exp(-z)) * u;
    }
}

kernel! {
    /// Computes `out = x / sqrt(mean(x²) + eps) * weight` of one row.
    rms_norm = rms_norm_body(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32])
}

#[inline(always)]
fn rms_norm_body<L: Lanes>(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    assert!(x.len() == weight.len() && x.len() == out.len());
    let mut lanes = [0.0f32; 16];
    let mut chunks = x.chunks_exact(16);
    for chunk in &mut chunks {
        for (lane, v) in lanes.iter_mut().zip(chunk) {
            *lane = v.mul_add(*v, *lane);
        }
    }
    for (lane, v) in lanes.iter_mut().zip(chunks.remainder()) {
        *lane = v.mul_add(*v, *lane);
    }
    let scale = 1.0 / (tree(&lanes) / x.len() as f32 + eps).sqrt();
    for ((o, &v), &w) in out.iter_mut().zip(x).zip(weight) {
        *o = v * scale * w;
    }
}
