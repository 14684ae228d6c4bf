//! Implements the arithmetic of training on slices: matrix products, norms, rotary embedding, causal attention, gated
//! units and the language head, each with a hand-written backward.
//!
//! On two cores, memory traffic and element-wise work limit a training step of a small decoder. Each kernel therefore
//! reads its rows once, in wide vectors, and works on a chunk that stays in the cache. Every reduction has one fixed
//! lane pattern. The code is generic over f32 and f64, so finite differences test the same code that trains.

#[macro_use]
pub(crate) mod simd;

pub mod attention;
pub mod gated;
pub mod head;
pub mod norm;
pub mod product;
pub mod rotary;
mod scalar;
#[cfg(test)]
mod tests;
pub mod vector;

pub use product::{MatrixView, product};
pub use scalar::KernelScalar;
