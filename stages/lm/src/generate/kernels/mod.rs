//! Implements the arithmetic of inference on `f32` slices: products, norms, attention, exponentials.
//!
//! A library's matrix product chooses its blocking by the batch, so the last bits of a row would depend on the batch's
//! other rows. Here every output element is one chain of fused multiply-adds over `k` in ascending order, every
//! reduction runs over 16 fixed lanes with one fixed tree, and the order of a sum never depends on the number of rows
//! or threads. The bits are the same with AVX-512, AVX2 and portable code.

mod attention;
mod distribution;
mod elementwise;
mod lanes;
mod matmul;
#[cfg(test)]
mod tests;

pub use super::cache::AttentionShape;
pub use attention::{AttentionScratch, attention};
pub use distribution::{all_finite, divide_and_shift, dot_wide, first_highest, sum_wide};
pub use elementwise::{exp_shifted, gelu_times, rms_norm, silu_times};
pub use lanes::Isa;
pub use matmul::{PANEL, PackedMatrix, matmul};
