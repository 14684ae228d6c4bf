//! The devices that candle computes on, and which of them this build has.

use candle_core::{DType, Device};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::{Error, Result};

/// Where tensors live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// The cores of this machine, by candle's operations.
    #[default]
    Cpu,
    /// The NVIDIA GPU that the stage was given; needs a build with `--features cuda`.
    Cuda,
    /// Apple's GPU; needs a build with `--features metal`.
    Metal,
}

impl DeviceKind {
    /// As written after `device:`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::Metal => "metal",
        }
    }
    /// Whether this build can compute there.
    pub fn is_built(self) -> bool {
        match self {
            Self::Cpu => true,
            Self::Cuda => cfg!(feature = "cuda"),
            Self::Metal => cfg!(feature = "metal"),
        }
    }
    /// The GPUs of this build.
    pub fn gpus() -> Vec<Self> {
        [Self::Cuda, Self::Metal].into_iter().filter(|kind| kind.is_built()).collect()
    }
    /// How to get a build that computes there.
    pub fn how_to_build(self) -> String {
        format!("build the program with `cargo build --release --features {}`, or use `device: cpu`", self.name())
    }
    /// Errors: invalid, if the build or the machine lacks the device.
    pub fn open(self) -> Result<Device> {
        let missing = |e: candle_core::Error| {
            Error::invalid(format!("the device `{}` cannot be used: {e}", self.name()))
                .help("check the driver, and that the stage was given a GPU (`resources: {gpus: 1}`)")
        };
        match self {
            Self::Cpu => Ok(Device::Cpu),
            _ if !self.is_built() => {
                Err(Error::invalid(format!("this build does not compute on `{}`", self.name()))
                    .help(self.how_to_build()))
            }
            // Executors show a process its own GPUs only, so the first one is the stage's.
            Self::Cuda => Device::new_cuda(0).map_err(missing),
            Self::Metal => Device::new_metal(0).map_err(missing),
        }
    }
}

/// The type of numbers in matrix products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// Single precision throughout.
    #[default]
    F32,
    /// Matrix products, keys and values in bfloat16; norms, softmax, residual stream, losses and log-probabilities,
    /// gradients, moments and the weights that the optimizer changes in float32.
    Bf16,
}

impl Precision {
    pub(super) fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::Bf16 => DType::BF16,
        }
    }
}

/// The widest type that the device adds up in.
pub(super) fn widest(device: &Device) -> DType {
    if device.is_metal() { DType::F32 } else { DType::F64 }
}
