//! Reads and writes named tensors in safetensors files, one tensor at a time.
//!
//! Neither direction holds a second copy of a whole file in memory.

use super::format::{SavedType, bf16_bits};
use crate::tensor::candle;
use crate::untrusted;
use candle_core::{DType, Device, Tensor};
use memmap2::{Mmap, UncheckedAdvice};
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensorError, SafeTensors};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// Numbers of a tensor to write.
pub(crate) enum Numbers<'a> {
    /// A tensor of type f32, f64 or u32.
    Tensor(&'a Tensor),
    /// Float32 numbers in row order, with their shape.
    Floats(&'a [f32], &'a [usize]),
}

/// Writes tensors (f32, f64, u32) as one safetensors file with metadata `{"format": "pt"}`. Equal tensors give equal
/// bytes.
pub fn save_tensors(path: &Path, tensors: &BTreeMap<String, Tensor>) -> Result<()> {
    save_numbers(path, &tensors.iter().map(|(name, tensor)| (name.clone(), Numbers::Tensor(tensor))).collect())
}

/// Writes the file of [`save_tensors`] from numbers in any memory.
pub(crate) fn save_numbers(path: &Path, numbers: &BTreeMap<String, Numbers<'_>>) -> Result<()> {
    save_as(path, numbers, SavedType::F32)
}

/// Writes float32 numbers, which must be finite, as another type.
pub(super) fn save_as(path: &Path, numbers: &BTreeMap<String, Numbers<'_>>, dtype: SavedType) -> Result<()> {
    let raw = |(name, numbers)| Ok((name, EncodedTensor::of(name, numbers, dtype)?));
    let raw: Vec<(&str, EncodedTensor<'_>)> =
        numbers.iter().map(|(name, n)| raw((name.as_str(), n))).collect::<Result<_>>()?;
    let metadata = HashMap::from([("format".to_string(), "pt".to_string())]);
    let failed = |e: SafeTensorError| match e {
        SafeTensorError::IoError(e) => io_error(path, &e),
        other => Error::bug(format!("{}: {other}", path.display())),
    };
    safetensors::serialize_to_file(raw, Some(metadata), path).map_err(failed)
}

/// Numbers that are converted to little-endian bytes on writing.
struct EncodedTensor<'a> {
    dtype: Dtype,
    shape: &'a [usize],
    numbers: &'a Numbers<'a>,
}

impl<'a> EncodedTensor<'a> {
    fn of(name: &str, numbers: &'a Numbers<'a>, floats: SavedType) -> Result<Self> {
        let floats = match floats {
            SavedType::F32 => Dtype::F32,
            SavedType::Bf16 => Dtype::BF16,
        };
        let (dtype, shape) = match numbers {
            Numbers::Floats(_, shape) => (floats, *shape),
            Numbers::Tensor(tensor) => match tensor.dtype() {
                DType::F32 => (floats, tensor.dims()),
                DType::F64 => (Dtype::F64, tensor.dims()),
                DType::U32 => (Dtype::U32, tensor.dims()),
                other => {
                    let message = format!("`{name}` has the type {other:?}, which checkpoints do not support");
                    return Err(Error::bug(message));
                }
            },
        };
        Ok(Self { dtype, shape, numbers })
    }
    fn bytes(&self) -> candle_core::Result<Vec<u8>> {
        Ok(match self.numbers {
            Numbers::Floats(values, _) => self.floats(values),
            Numbers::Tensor(tensor) => {
                let flat = tensor.flatten_all()?;
                match self.dtype {
                    Dtype::F64 => flat.to_vec1::<f64>()?.iter().flat_map(|x| x.to_le_bytes()).collect(),
                    Dtype::U32 => flat.to_vec1::<u32>()?.iter().flat_map(|x| x.to_le_bytes()).collect(),
                    _ => self.floats(&flat.to_vec1::<f32>()?),
                }
            }
        })
    }
    fn floats(&self, values: &[f32]) -> Vec<u8> {
        match self.dtype {
            Dtype::BF16 => values.iter().flat_map(|x| bf16_bits(*x).to_le_bytes()).collect(),
            _ => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        }
    }
}

impl safetensors::View for EncodedTensor<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }
    fn shape(&self) -> &[usize] {
        self.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Owned(self.bytes().expect("the type was checked before"))
    }
    fn data_len(&self) -> usize {
        let size = match self.dtype {
            Dtype::F64 => 8,
            Dtype::BF16 => 2,
            _ => 4,
        };
        self.shape.iter().product::<usize>() * size
    }
}

/// Reads all tensors of a safetensors file; f16 and bf16 become f32.
pub fn load_tensors(path: &Path) -> Result<BTreeMap<String, Tensor>> {
    let mut tensors = BTreeMap::new();
    each(path, |name, tensor| {
        tensors.insert(name, tensor);
        Ok(())
    })?;
    Ok(tensors)
}

/// Returns the shapes of all tensors of a safetensors file, without reading the tensors.
pub(crate) fn load_shapes(path: &Path) -> Result<BTreeMap<String, Vec<usize>>> {
    let map = map(path)?;
    let file = header(map.as_deref().unwrap_or_default(), path)?;
    Ok(file.tensors().into_iter().map(|(name, view)| (name, view.shape().to_vec())).collect())
}

/// Passes the tensors of a file to `take`, one at a time. Maps the file into memory and releases the pages of each
/// tensor after it was read.
pub(super) fn each(path: &Path, mut take: impl FnMut(String, Tensor) -> Result<()>) -> Result<()> {
    let map = map(path)?;
    let file = header(map.as_deref().unwrap_or_default(), path)?;
    for (name, view) in file.tensors() {
        let tensor = read(&name, &view).map_err(|e| e.at(path.display()))?;
        take(name, tensor)?;
        if let Some(map) = &map {
            give_back(map, view.data());
        }
    }
    Ok(())
}

fn header<'f>(bytes: &'f [u8], path: &Path) -> Result<SafeTensors<'f>> {
    SafeTensors::deserialize(bytes).map_err(|e| {
        let reason = match e {
            SafeTensorError::HeaderTooSmall
            | SafeTensorError::InvalidHeaderLength
            | SafeTensorError::MetadataIncompleteBuffer => "the file is truncated".to_string(),
            other => format!("not a valid safetensors file: {other}"),
        };
        Error::data(format!("{}: {reason}", path.display())).help("fetch or write the file again")
    })
}

/// Maps the file into memory; returns `None` if it is empty.
fn map(path: &Path) -> Result<Option<Mmap>> {
    let file = untrusted::open(path)?;
    if file.metadata().map_err(|e| io_error(path, &e))?.len() == 0 {
        return Ok(None);
    }
    #[expect(unsafe_code, reason = "a mapped file could be changed by others while it is read")]
    // SAFETY: the map is valid while no process changes or truncates the file. Files of models and resume points are
    // written once and then only read, and the store makes its files read-only. A folder of another user (`from`,
    // `serve-model`) must not change while it is read (`docs/security.md`).
    let map = unsafe { Mmap::map(&file) };
    map.map(Some).map_err(|e| io_error(path, &e))
}

/// Advises the system that these bytes of `map` are no longer needed; the system may ignore the advice.
fn give_back(map: &Mmap, bytes: &[u8]) {
    let start = bytes.as_ptr() as usize - map.as_ptr() as usize;
    #[expect(unsafe_code, reason = "some pieces of advice change what a map holds")]
    // SAFETY: `bytes` are within the map. The map is read-only and backed by a file, so pages that `DontNeed` drops are
    // read from the file again with the same content.
    let advised = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, start, bytes.len()) };
    advised.ok();
}

fn read(name: &str, view: &TensorView<'_>) -> Result<Tensor> {
    let (data, shape) = (view.data(), view.shape().to_vec());
    let bits = |i: usize| u16::from_le_bytes([data[2 * i], data[2 * i + 1]]);
    let halves = data.len() / 2;
    let tensor = match view.dtype() {
        Dtype::F32 => Tensor::from_vec(
            data.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect::<Vec<_>>(),
            shape,
            &Device::Cpu,
        ),
        Dtype::F64 => Tensor::from_vec(
            data.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect::<Vec<_>>(),
            shape,
            &Device::Cpu,
        ),
        Dtype::U32 => Tensor::from_vec(
            data.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect::<Vec<_>>(),
            shape,
            &Device::Cpu,
        ),
        Dtype::BF16 => Tensor::from_vec(
            (0..halves).map(|i| half::bf16::from_bits(bits(i)).to_f32()).collect::<Vec<_>>(),
            shape,
            &Device::Cpu,
        ),
        Dtype::F16 => {
            let numbers = (0..halves).map(|i| half::f16::from_bits(bits(i)).to_f32()).collect::<Vec<_>>();
            Tensor::from_vec(numbers, shape, &Device::Cpu)
        }
        other => {
            return Err(Error::data(format!("`{name}` has the type {other:?}"))
                .help("use weights of type f32, f64, f16 or bf16"));
        }
    };
    tensor.map_err(candle)
}
