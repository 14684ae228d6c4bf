//! Computes a 128-bit hash (XXH3) of each row, or of each cell of a column, so that tables are compared without holding
//! their rows.
//!
//! Equal values have equal hashes whatever the width of their type and the batches in which they are read: an integer
//! of 32 bits equals one of 64, a text in a dictionary equals a plain one. All NaNs are equal, and differ from null.

use crate::groups::{BatchBounds, GroupReader};
use crate::source::TableSource;
use crate::text_cells::text_of;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use trainyard_core::Result;
use twox_hash::XxHash3_128;

/// Hashes of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowDigest {
    /// Hash of the row's key, or the number of the row.
    pub key: u128,
    /// Hash of the compared cells.
    pub content: u128,
}

/// Returns the hashes of all rows. `key` is the column with the key; without it, or if there is no such column, the key
/// is the number of the row. `columns` are the compared columns; an absent one counts as null. Reads batch by batch.
///
/// Errors: those of reading the file.
pub fn row_digests(source: impl Into<TableSource>, key: Option<&str>, columns: &[String]) -> Result<Vec<RowDigest>> {
    let mut read = columns.to_vec();
    read.extend(key.map(str::to_string));
    let reader = GroupReader::open(source, Some(&read), BatchBounds::default())?;
    let mut digests = Vec::with_capacity(usize::try_from(reader.rows()).unwrap_or(0).min(MAX_RESERVED));
    let mut bytes = Vec::new();
    for batch in reader {
        let batch = batch?;
        let key = key.and_then(|key| batch.column_by_name(key));
        let cells: Vec<_> = columns.iter().map(|name| batch.column_by_name(name)).collect();
        for row in 0..batch.num_rows() {
            let number = digests.len() as u128;
            let key = key.map_or(number, |column| cell_digest(column.as_ref(), row, &mut bytes));
            bytes.clear();
            for column in &cells {
                encode(column.map(|column| column.as_ref()), row, &mut bytes);
            }
            digests.push(RowDigest { key, content: XxHash3_128::oneshot(&bytes) });
        }
    }
    Ok(digests)
}

/// Returns the hashes of a column's cells in some rows, in the order of `rows`. Only this column is read.
///
/// Errors: those of reading the file. A row past the end, or of an absent column, counts as null.
pub fn cell_digests(source: impl Into<TableSource>, column: &str, rows: &[usize]) -> Result<Vec<u128>> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_unstable_by_key(|at| rows[*at]);
    let mut bytes = Vec::new();
    encode(None, 0, &mut bytes);
    let mut digests = vec![XxHash3_128::oneshot(&bytes); rows.len()];
    let (mut first, mut done) = (0, 0);
    for batch in GroupReader::open(source, Some(&[column.to_string()]), BatchBounds::default())? {
        let batch: RecordBatch = batch?;
        let end = first + batch.num_rows();
        let Some(cells) = batch.column_by_name(column) else { break };
        while let Some(at) = order.get(done).filter(|at| rows[**at] < end) {
            digests[*at] = cell_digest(cells.as_ref(), rows[*at] - first, &mut bytes);
            done += 1;
        }
        if done == order.len() {
            break;
        }
        first = end;
    }
    Ok(digests)
}

/// Maximum rows for which memory is reserved at once: the number of rows in a damaged footer may be any.
const MAX_RESERVED: usize = 1 << 20;

fn cell_digest(column: &dyn Array, row: usize, bytes: &mut Vec<u8>) -> u128 {
    bytes.clear();
    encode(Some(column), row, bytes);
    XxHash3_128::oneshot(bytes)
}

/// Kinds of values in the hashed bytes.
mod tag {
    pub const NULL: u8 = 0;
    pub const BOOLEAN: u8 = 1;
    pub const INTEGER: u8 = 2;
    pub const FLOAT: u8 = 3;
    pub const TEXT: u8 = 4;
    pub const BYTES: u8 = 5;
    pub const LIST: u8 = 6;
    pub const STRUCT: u8 = 7;
    pub const MAP: u8 = 8;
    pub const OTHER: u8 = 9;
}

/// Appends a cell in a form that no other value has.
fn encode(column: Option<&dyn Array>, row: usize, out: &mut Vec<u8>) {
    let Some(column) = column.filter(|column| !column.is_null(row)) else { return out.push(tag::NULL) };
    match column.data_type() {
        DataType::Null => out.push(tag::NULL),
        DataType::Boolean => out.extend([tag::BOOLEAN, u8::from(column.as_boolean().value(row))]),
        DataType::Int8 => integer(column.as_primitive::<Int8Type>().value(row), out),
        DataType::Int16 => integer(column.as_primitive::<Int16Type>().value(row), out),
        DataType::Int32 => integer(column.as_primitive::<Int32Type>().value(row), out),
        DataType::Int64 => integer(column.as_primitive::<Int64Type>().value(row), out),
        DataType::UInt8 => integer(column.as_primitive::<UInt8Type>().value(row), out),
        DataType::UInt16 => integer(column.as_primitive::<UInt16Type>().value(row), out),
        DataType::UInt32 => integer(column.as_primitive::<UInt32Type>().value(row), out),
        DataType::UInt64 => integer(column.as_primitive::<UInt64Type>().value(row), out),
        DataType::Float32 => float(column.as_primitive::<Float32Type>().value(row).into(), out),
        DataType::Float64 => float(column.as_primitive::<Float64Type>().value(row), out),
        DataType::Utf8 => tagged(tag::TEXT, column.as_string::<i32>().value(row).as_bytes(), out),
        DataType::LargeUtf8 => tagged(tag::TEXT, column.as_string::<i64>().value(row).as_bytes(), out),
        DataType::Utf8View => tagged(tag::TEXT, column.as_string_view().value(row).as_bytes(), out),
        DataType::Binary => tagged(tag::BYTES, column.as_binary::<i32>().value(row), out),
        DataType::LargeBinary => tagged(tag::BYTES, column.as_binary::<i64>().value(row), out),
        DataType::List(_) => list(&column.as_list::<i32>().value(row), out),
        DataType::LargeList(_) => list(&column.as_list::<i64>().value(row), out),
        DataType::FixedSizeList(..) => list(&column.as_fixed_size_list().value(row), out),
        DataType::Struct(fields) => {
            length(tag::STRUCT, fields.len(), out);
            for (field, part) in fields.iter().zip(column.as_struct().columns()) {
                tagged(tag::TEXT, field.name().as_bytes(), out);
                encode(Some(part.as_ref()), row, out);
            }
        }
        DataType::Map(..) => {
            let entries = column.as_map().value(row);
            length(tag::MAP, entries.len(), out);
            for entry in 0..entries.len() {
                entries.columns().iter().for_each(|part| encode(Some(part.as_ref()), entry, out));
            }
        }
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            encode(Some(dictionary.values().as_ref()), dictionary.normalized_keys()[row], out);
        }
        _ => match text_of(column, row) {
            Some(text) => tagged(tag::OTHER, text.as_bytes(), out),
            None => out.push(tag::NULL),
        },
    }
}

fn integer(value: impl Into<i128>, out: &mut Vec<u8>) {
    out.push(tag::INTEGER);
    out.extend(value.into().to_le_bytes());
}

fn float(value: f64, out: &mut Vec<u8>) {
    let value = if value.is_nan() { f64::NAN } else { value };
    out.push(tag::FLOAT);
    out.extend(value.to_bits().to_le_bytes());
}

fn length(tag: u8, length: usize, out: &mut Vec<u8>) {
    out.push(tag);
    out.extend((length as u64).to_le_bytes());
}

fn tagged(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    length(tag, bytes.len(), out);
    out.extend_from_slice(bytes);
}

fn list(items: &dyn Array, out: &mut Vec<u8>) {
    length(tag::LIST, items.len(), out);
    (0..items.len()).for_each(|item| encode(Some(items), item, out));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BatchWriter, TableBuilder};
    use arrow_array::{ArrayRef, Int32Array};
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    fn written(folder: &Path, name: &str, table: TableBuilder) -> PathBuf {
        let path = folder.join(name);
        table.write(&path).unwrap();
        path
    }
    fn names(columns: &[&str]) -> Vec<String> {
        columns.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rows_with_equal_values_have_equal_hashes() {
        let folder = tempfile::tempdir().unwrap();
        let wide = TableBuilder::new().i64("n", [1, 2, 3]).string("id", ["a", "b", "b"]).f64("x", [0.5, f64::NAN, 1.0]);
        let narrow: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 4]));
        let small =
            TableBuilder::new().f64("x", [0.5, -f64::NAN, 1.0]).column("n", narrow).string("id", ["a", "b", "c"]);
        let (a, b) = (written(folder.path(), "a", wide), written(folder.path(), "b", small));
        let columns = names(&["id", "n", "x"]);
        let (a, b) = (row_digests(&a, Some("id"), &columns).unwrap(), row_digests(&b, Some("id"), &columns).unwrap());
        assert_eq!((a[0], a[1]), (b[0], b[1]));
        assert!(a[2].key == a[1].key && a[2].content != a[1].content && a[2].key != b[2].key);
    }

    #[test]
    fn rows_without_a_key_are_numbered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let batch = TableBuilder::new().i64("n", 0..250).build().unwrap();
        let mut writer = BatchWriter::create_grouped(&path, batch.schema(), 100).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        let digests = row_digests(&path, None, &names(&["n"])).unwrap();
        assert!(digests.iter().enumerate().all(|(row, digest)| digest.key == row as u128));
        assert_eq!(row_digests(&path, Some("none"), &names(&["n"])).unwrap(), digests);
        // No column to compare: all rows have the same content.
        let empty = row_digests(&path, None, &[]).unwrap();
        assert!(empty.len() == 250 && empty.iter().all(|digest| digest.content == empty[0].content));
        let cells = cell_digests(&path, "n", &[249, 3, 100, 3]).unwrap();
        let at = |row: usize| digests[row].content;
        assert_eq!(cells, [at(249), at(3), at(100), at(3)], "a row of one column is hashed like its cell");
        let null = cell_digests(&path, "none", &[0]).unwrap();
        assert_eq!(cell_digests(&path, "n", &[250]).unwrap(), null);
    }

    #[test]
    fn neighboring_texts_lists_and_nulls_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let texts = |a: [Option<&'static str>; 4], b: [Option<&'static str>; 4]| {
            TableBuilder::new().optional_string("a", a).optional_string("b", b)
        };
        let table = texts([Some("xy"), Some("x"), None, Some("")], [Some("z"), Some("yz"), Some(""), None]);
        let path = written(folder.path(), "texts", table);
        let digests = row_digests(&path, None, &names(&["a", "b"])).unwrap();
        let mut contents: Vec<u128> = digests.iter().map(|digest| digest.content).collect();
        contents.sort_unstable();
        contents.dedup();
        assert_eq!(contents.len(), 4);

        let row = |ids: &[&str]| crate::Trajectory {
            parents: ids.iter().map(ToString::to_string).collect(),
            ..crate::Trajectory::default()
        };
        let path = folder.path().join("lists");
        crate::write_trajectories(&path, &[row(&["a", "b"]), row(&["ab"]), row(&["a", "b"]), row(&[])]).unwrap();
        let cells = cell_digests(&path, "parents", &[0, 1, 2, 3]).unwrap();
        assert_eq!(cells[0], cells[2]);
        assert!(cells[0] != cells[1] && cells[1] != cells[3] && cells[0] != cells[3]);
    }

    #[test]
    fn damaged_tables_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path(), "data.parquet", TableBuilder::new().i64("n", 0..9));
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let error = row_digests(&path, None, &names(&["n"])).unwrap_err();
        assert_eq!(error.kind, trainyard_core::ErrorKind::Data, "{error}");
        assert!(cell_digests(&path, "n", &[0]).is_err());
    }
}
