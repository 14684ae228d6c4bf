//! Finds the tensors of a model in the headers of its safetensors files, and reads their values in parts.

use crate::object_bytes::ObjectBytes;
use half::{bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::Metadata;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use tokio::runtime::Handle;
use trainyard_core::{Error, FileEntry, Result};
use trainyard_store::Store;

/// End of the names of files with tensors.
const SAFETENSORS: &str = ".safetensors";
/// Bytes of the number that gives the length of the header.
const LENGTH: u64 = 8;
/// Maximum bytes of a header, as in the safetensors library.
const MAX_HEADER: u64 = 100_000_000;

/// Tensors of a model, by name.
pub struct StoredTensors {
    /// Tensors by name.
    pub by_name: BTreeMap<String, StoredTensor>,
    files: Vec<ObjectBytes>,
}

/// Place and form of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTensor {
    /// Type of the elements.
    pub dtype: Dtype,
    /// Size in each dimension.
    pub shape: Vec<usize>,
    file: usize,
    range: Range<u64>,
}

impl StoredTensor {
    /// Returns the number of bytes.
    pub fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// Returns whether a file has tensors.
pub fn has_tensors(path: &str) -> bool {
    path.ends_with(SAFETENSORS)
}

impl StoredTensors {
    /// Reads the headers of a model's files. Of tensors with one name, the one in the first file is taken. Blocks the
    /// thread.
    ///
    /// Errors: data (not safetensors, or cut off), naming the file; those of the store.
    pub fn open(store: &Store, files: &[FileEntry], runtime: &Handle) -> Result<Self> {
        let mut tensors = Self { by_name: BTreeMap::new(), files: Vec::new() };
        for entry in files.iter().filter(|file| has_tensors(&file.path)) {
            let mut file = ObjectBytes::open(store, entry, runtime)?;
            let (header, start) =
                read_header(&mut file, entry.size).map_err(|error| error.at(format!("file `{}`", entry.path)))?;
            for (name, info) in header.tensors() {
                let (from, to) = info.data_offsets;
                let tensor = StoredTensor {
                    dtype: info.dtype,
                    shape: info.shape.clone(),
                    file: tensors.files.len(),
                    range: start + from as u64..start + to as u64,
                };
                if let Entry::Vacant(place) = tensors.by_name.entry(name) {
                    place.insert(tensor);
                }
            }
            tensors.files.push(file);
        }
        Ok(tensors)
    }
    /// Reads a range of a tensor's bytes. Blocks the thread.
    pub fn read(&mut self, name: &str, range: Range<u64>) -> Result<bytes::Bytes> {
        let Some(tensor) = self.by_name.get(name) else {
            return Err(Error::bug(format!("no tensor is called `{name}`")));
        };
        let start = tensor.range.start;
        let end = (start + range.end).min(tensor.range.end);
        self.files[tensor.file].read(start + range.start..end)
    }
}

/// Returns the header and the offset of the data after it.
fn read_header(file: &mut ObjectBytes, size: u64) -> Result<(Metadata, u64)> {
    let damaged = |why: String| {
        Error::data(format!("not a complete safetensors file: {why}"))
            .help("make the model again with `trainyard run FILE --rerun STAGE`")
    };
    if size < LENGTH {
        return Err(damaged(format!("it has {size} bytes")));
    }
    let mut length = [0; LENGTH as usize];
    length.copy_from_slice(&file.read(0..LENGTH)?);
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER || length > size - LENGTH {
        return Err(damaged(format!("its header would have {length} bytes")));
    }
    let start = LENGTH + length;
    let header: Metadata =
        serde_json::from_slice(&file.read(LENGTH..start)?).map_err(|e| damaged(format!("its header: {e}")))?;
    match header.data_len() as u64 == size - start {
        true => Ok((header, start)),
        false => Err(damaged(format!("{} bytes of tensors, {} in the header", size - start, header.data_len()))),
    }
}

/// Returns the bytes of an element whose values [`values`] decodes; `None` for another type.
pub fn float_width(dtype: Dtype) -> Option<u64> {
    match dtype {
        Dtype::F64 => Some(8),
        Dtype::F32 => Some(4),
        Dtype::F16 | Dtype::BF16 => Some(2),
        _ => None,
    }
}

/// Decodes values in little endian. A type without a [`float_width`] gives an empty list.
pub fn values(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
    match dtype {
        Dtype::F64 => bytes.as_chunks().0.iter().map(|value| f64::from_le_bytes(*value)).collect(),
        Dtype::F32 => bytes.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value).into()).collect(),
        Dtype::F16 => bytes.as_chunks().0.iter().map(|value| f16::from_le_bytes(*value).into()).collect(),
        Dtype::BF16 => bytes.as_chunks().0.iter().map(|value| bf16::from_le_bytes(*value).into()).collect(),
        _ => Vec::new(),
    }
}
