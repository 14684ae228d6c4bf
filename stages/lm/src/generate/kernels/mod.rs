//! The arithmetic of inference on `f32` slices: products, norms, attention, exponentials.
//!
//! Why so: a library's matrix product chooses its blocking by the batch, so a row's last bits would depend on what shares the
//! batch. Here every output element is one chain of fused multiply-adds over `k` in ascending order, every reduction runs over
//! 16 fixed lanes with one fixed tree, and nothing is ever split by the number of rows or threads. As a fused multiply-add is
//! rounded once on any hardware, the bits are the same with AVX-512, with AVX2 and with portable code, too. Refuses: nothing at
//! run time; lengths are asserted at the edge of each kernel.

mod attention;
mod elementwise;
mod lanes;
mod matmul;
#[cfg(test)]
mod tests;

pub use super::cache::AttentionShape;
pub use attention::{AttentionScratch, attention};
pub use elementwise::{exp_shifted, rms_norm, silu_times};
pub use lanes::Isa;
pub use matmul::{PANEL, Packed, matmul};
