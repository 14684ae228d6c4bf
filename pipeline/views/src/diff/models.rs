//! Compares the tensors of two models by name.

use crate::tensors::{StoredTensor, StoredTensors, float_width, values};
use safetensors::Dtype;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::runtime::Handle;
use trainyard_core::{FileEntry, Result};
use trainyard_store::Store;

/// Elements of a tensor that are read at once.
const PART: u64 = 1 << 20;

/// Tensors that differ.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct TensorsDiff {
    /// Number of tensors with the same type, shape and values.
    pub equal: usize,
    /// `‖a−b‖/‖a‖` over all numbers of the tensors that both have in one shape; null if A has no norm or a value is
    /// not finite.
    pub relative: Option<f64>,
    /// Tensors with other values or another type, those with the largest relative difference first.
    pub changed: Vec<ChangedTensor>,
    /// Tensors with another shape.
    pub reshaped: Vec<ReshapedTensor>,
    /// Names of the tensors that only A has.
    pub only_a: Vec<String>,
    /// Names of the tensors that only B has.
    pub only_b: Vec<String>,
}

/// Tensor with other values or another type.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ChangedTensor {
    /// Name of the tensor.
    pub name: String,
    /// Size in each dimension.
    pub shape: Vec<usize>,
    /// Type of A's elements, as `BF16`.
    pub dtype_a: String,
    /// Type of B's elements.
    pub dtype_b: String,
    /// Frobenius norm `‖a−b‖/‖a‖`; null if `‖a‖` is 0 and B differs, if a value is not finite, or for integers.
    pub relative: Option<f64>,
    /// Frobenius norm `‖a−b‖`; null if a value is not finite, or for integers.
    pub norm: Option<f64>,
}

/// Tensor with another shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReshapedTensor {
    /// Name of the tensor.
    pub name: String,
    /// Shape in A.
    pub a: Vec<usize>,
    /// Shape in B.
    pub b: Vec<usize>,
}

/// Compares the tensors of two models, part by part. Blocks the thread.
///
/// Errors: data (a damaged file), naming the model and the file; those of the store.
pub fn compare_tensors(
    store: &Store,
    (name_a, files_a): (&str, &[FileEntry]),
    (name_b, files_b): (&str, &[FileEntry]),
    runtime: &Handle,
) -> Result<TensorsDiff> {
    let mut a = StoredTensors::open(store, files_a, runtime).map_err(|error| error.at(name_a))?;
    let mut b = StoredTensors::open(store, files_b, runtime).map_err(|error| error.at(name_b))?;
    let mut diff = TensorsDiff::default();
    let mut total = SquareSums::default();
    for (name, in_a) in a.by_name.clone() {
        let Some(in_b) = b.by_name.get(&name).cloned() else {
            diff.only_a.push(name);
            continue;
        };
        if in_a.shape != in_b.shape {
            diff.reshaped.push(ReshapedTensor { name, a: in_a.shape, b: in_b.shape });
            continue;
        }
        let compared = compare_tensor((&mut a, name_a), (&mut b, name_b), &name, (&in_a, &in_b))?;
        total.a += compared.sums.a;
        total.difference += compared.sums.difference;
        if compared.is_equal {
            diff.equal += 1;
        } else {
            diff.changed.push(changed(name, in_a, &in_b, &compared));
        }
    }
    diff.only_b = b.by_name.keys().filter(|name| !a.by_name.contains_key(*name)).cloned().collect();
    diff.relative = total.relative();
    diff.changed.sort_by(|a, b| magnitude(b).total_cmp(&magnitude(a)).then_with(|| a.name.cmp(&b.name)));
    Ok(diff)
}

/// Returns the order of a tensor in the list; those without a number are first.
fn magnitude(tensor: &ChangedTensor) -> f64 {
    tensor.relative.unwrap_or(f64::INFINITY)
}

fn changed(name: String, a: StoredTensor, b: &StoredTensor, compared: &ComparedTensor) -> ChangedTensor {
    let sums = compared.has_norm.then_some(&compared.sums);
    ChangedTensor {
        name,
        dtype_a: dtype_name(a.dtype),
        dtype_b: dtype_name(b.dtype),
        shape: a.shape,
        relative: sums.and_then(SquareSums::relative),
        norm: sums.map(|sums| sums.difference.sqrt()).filter(|norm| norm.is_finite()),
    }
}

fn dtype_name(dtype: Dtype) -> String {
    format!("{dtype:?}")
}

/// Sums of squares.
#[derive(Debug, Default, Clone, Copy)]
struct SquareSums {
    a: f64,
    difference: f64,
}

impl SquareSums {
    fn add(&mut self, a: &[f64], b: &[f64]) {
        for (a, b) in a.iter().zip(b) {
            self.a += a * a;
            self.difference += (a - b) * (a - b);
        }
    }
    fn relative(&self) -> Option<f64> {
        let relative = if self.difference == 0.0 { 0.0 } else { (self.difference / self.a).sqrt() };
        relative.is_finite().then_some(relative)
    }
}

/// Result of comparing two tensors of one shape.
struct ComparedTensor {
    is_equal: bool,
    /// Whether both have elements of floating point.
    has_norm: bool,
    sums: SquareSums,
}

fn compare_tensor(
    (a, name_a): (&mut StoredTensors, &str),
    (b, name_b): (&mut StoredTensors, &str),
    name: &str,
    (in_a, in_b): (&StoredTensor, &StoredTensor),
) -> Result<ComparedTensor> {
    let widths = float_width(in_a.dtype).zip(float_width(in_b.dtype));
    // Elements of other types are compared as bytes.
    let (width_a, width_b) = widths.unwrap_or((1, 1));
    let mut compared =
        ComparedTensor { is_equal: in_a.dtype == in_b.dtype, has_norm: widths.is_some(), sums: SquareSums::default() };
    let elements = (in_a.bytes() / width_a).max(in_b.bytes() / width_b);
    for start in (0..elements).step_by(PART as usize) {
        let end = (start + PART).min(elements);
        let bytes_a = a.read(name, start * width_a..end * width_a).map_err(|error| error.at(name_a))?;
        let bytes_b = b.read(name, start * width_b..end * width_b).map_err(|error| error.at(name_b))?;
        compared.is_equal &= bytes_a == bytes_b;
        if widths.is_some() {
            compared.sums.add(&values(in_a.dtype, &bytes_a), &values(in_b.dtype, &bytes_b));
        } else if !compared.is_equal {
            break;
        }
    }
    Ok(compared)
}

#[cfg(test)]
mod tests;
