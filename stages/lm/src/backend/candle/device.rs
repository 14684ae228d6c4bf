//! Defines the devices that candle computes on and reports which of them this build supports.

use candle_core::{DType, Device};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::{Error, Result};

/// Device of the tensors.
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
    /// Returns the name that follows `device:`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::Metal => "metal",
        }
    }
    /// Returns whether this build can compute on the device.
    pub fn is_built(self) -> bool {
        match self {
            Self::Cpu => true,
            Self::Cuda => cfg!(feature = "cuda"),
            Self::Metal => cfg!(feature = "metal"),
        }
    }
    /// Returns the GPUs that this build supports.
    pub fn gpus() -> Vec<Self> {
        [Self::Cuda, Self::Metal].into_iter().filter(|kind| kind.is_built()).collect()
    }
    /// Returns instructions to build the program with support for the device.
    pub fn how_to_build(self) -> String {
        format!("build the program with `cargo build --release --features {}`, or use `device: cpu`", self.name())
    }
    /// Opens the device. Errors: invalid, if the build or the machine lacks it.
    pub fn open(self) -> Result<Device> {
        let missing = |e: candle_core::Error| {
            Error::invalid(format!("the device `{}` cannot be used: {e}", self.name()))
                .help("check the driver, and that the stage requests a GPU (`resources: {gpus: 1}`)")
        };
        match self {
            Self::Cpu => Ok(Device::Cpu),
            _ if !self.is_built() => {
                Err(Error::invalid(format!("this build does not compute on `{}`", self.name()))
                    .help(self.how_to_build()))
            }
            // Executors make only the stage's GPUs visible to a process, so the first one is the stage's.
            Self::Cuda => Device::new_cuda(0).map_err(missing),
            Self::Metal => Device::new_metal(0).map_err(missing),
        }
    }
}

/// Number type of matrix products.
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

/// Returns the widest type in which the device sums.
pub(super) fn widest(device: &Device) -> DType {
    if device.is_metal() { DType::F32 } else { DType::F64 }
}
