//! Defines the options of the backend `candle` in a workflow file.

use super::device::{DeviceKind, Precision};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::family::PartOptions;
use trainyard_core::OptionProblem;

/// Options of the backend `candle`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Candle {
    /// Device of the tensors.
    pub device: DeviceKind,
    /// Number type of matrix products.
    pub dtype: Precision,
    /// Compute a layer again in the backward pass instead of keeping all its activations: about a third more work, and
    /// memory for one layer instead of all. Changes no result.
    pub recompute: bool,
}

impl Default for Candle {
    fn default() -> Self {
        Self { device: DeviceKind::default(), dtype: Precision::default(), recompute: true }
    }
}

const DOC: &str = "\
Trains and samples with the tensor operations of candle, on the CPU or on one GPU. `device: cuda` and `device: metal` \
need a build with the feature of that name (`cargo build --release --features cuda`), and `cuda` a stage with \
`resources: {gpus: 1}`.\n\n\
It computes what the backend `cpu` computes, up to rounding: on the CPU in float32, log-probabilities within 1e-4, \
gradients within 1e-3 of their size, and the same tokens for the same seed unless a draw falls between two roundings. \
Unlike on `cpu`, the last bits of a number may depend on the other sequences of its batch, so runs on one device are \
equal only if the same sequences run together.\n\n\
Keys, values, sampling, gradients and AdamW stay on the device; logits are computed in pieces. Where tokens with equal \
logits are at the edge of `top_k` or `top_p`, all of them are kept.\n\n\
With `dtype: bf16` matrix products, keys and values are in bfloat16; norms, softmax, the residual stream, losses, \
log-probabilities, gradients, moments and the weights that the optimizer changes are in float32. candle has no \
bfloat16 products on the CPU.";

impl PartOptions for Candle {
    const KIND: &'static str = "candle";
    const SUMMARY: &'static str = "tensor operations of candle, on the CPU or a GPU";
    const DOC: &'static str = DOC;

    fn check(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        if !self.device.is_built() {
            let message = format!("this build does not compute on `{}`", self.device.name());
            problems.push(OptionProblem::new("/device", message).help(self.device.how_to_build()));
        }
        if self.device == DeviceKind::Cpu && self.dtype == Precision::Bf16 {
            let problem = OptionProblem::new("/dtype", "candle has no bfloat16 products on the CPU");
            problems.push(problem.help("use `dtype: f32`, or a GPU"));
        }
        problems
    }
}

/// Returns advice for a stage that requests a GPU without using it.
pub fn how_to_use_a_gpu() -> String {
    match DeviceKind::gpus().first() {
        Some(kind) => format!("use `backend: {{kind: candle, device: {}}}`, or leave `gpus` out", kind.name()),
        None => "this build computes on the CPU only: build the program with `cargo build --release --features cuda` \
                 (or `metal`) and use `backend: {kind: candle, device: cuda}`, or leave `gpus` out"
            .to_string(),
    }
}
