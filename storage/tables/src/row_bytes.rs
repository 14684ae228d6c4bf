//! Counts the bytes of rows in their decoded form, from the offsets of their columns.

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

/// Bytes of a value of a type that tables of this program do not have.
const OTHER_WIDTH: u64 = 16;

/// Returns the bytes of the rows of a batch before each of its rows, and those of all its rows at the end.
pub(crate) fn bytes_before_rows(batch: &RecordBatch) -> Vec<u64> {
    let rows: Vec<u64> = (0..=batch.num_rows() as u64).collect();
    let mut totals = vec![0; rows.len()];
    for column in batch.columns() {
        add_bytes(column, &rows, &mut totals);
    }
    totals
}

/// Adds the bytes of the values before each of some sorted positions, less those before the first position.
fn add_bytes(values: &dyn Array, positions: &[u64], totals: &mut [u64]) {
    match values.data_type() {
        DataType::Utf8 => add_ends(&ends(values.as_string::<i32>().value_offsets(), positions), totals),
        DataType::LargeUtf8 => add_ends(&ends(values.as_string::<i64>().value_offsets(), positions), totals),
        DataType::Binary => add_ends(&ends(values.as_binary::<i32>().value_offsets(), positions), totals),
        DataType::LargeBinary => add_ends(&ends(values.as_binary::<i64>().value_offsets(), positions), totals),
        DataType::List(_) => {
            let lists = values.as_list::<i32>();
            add_bytes(lists.values(), &ends(lists.value_offsets(), positions), totals);
        }
        DataType::LargeList(_) => {
            let lists = values.as_list::<i64>();
            add_bytes(lists.values(), &ends(lists.value_offsets(), positions), totals);
        }
        DataType::Struct(_) => {
            values.as_struct().columns().iter().for_each(|part| add_bytes(part, positions, totals));
        }
        DataType::Map(..) => {
            let maps = values.as_map();
            let positions = ends(maps.value_offsets(), positions);
            maps.entries().columns().iter().for_each(|part| add_bytes(part, &positions, totals));
        }
        kind => {
            let width = width(kind);
            add_ends(&positions.iter().map(|position| position * width).collect::<Vec<_>>(), totals);
        }
    }
}

/// Returns the bytes of a value of a type without offsets. It does not depend on the batch, for files are cut by it.
fn width(kind: &DataType) -> u64 {
    match kind {
        DataType::Null => 0,
        DataType::Boolean => 1,
        DataType::FixedSizeBinary(width) => u64::from(width.unsigned_abs()),
        kind => kind.primitive_width().map_or(OTHER_WIDTH, |width| width as u64),
    }
}

fn ends<O: Copy + TryInto<u64>>(offsets: &[O], positions: &[u64]) -> Vec<u64> {
    positions.iter().map(|position| offsets[*position as usize].try_into().unwrap_or(0)).collect()
}

fn add_ends(ends: &[u64], totals: &mut [u64]) {
    let first = ends.first().copied().unwrap_or(0);
    totals.iter_mut().zip(ends).for_each(|(total, end)| *total += end - first);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExtraColumns, Message, TableBuilder, Trajectory, encode_columns};

    #[test]
    fn bytes_are_those_of_values_and_texts() {
        let texts = ["", "four", "é"].map(str::to_string);
        let batch = TableBuilder::new().i64("n", 0..3).string("text", texts).build().unwrap();
        assert_eq!(bytes_before_rows(&batch), [0, 8, 20, 30]);
        assert_eq!(bytes_before_rows(&batch.slice(1, 2)), [0, 12, 22]);
        assert_eq!(bytes_before_rows(&batch.slice(3, 0)), [0]);
    }

    #[test]
    fn lists_and_their_structs_belong_to_their_rows() {
        let row = |texts: &[&str], tokens: usize| Trajectory {
            messages: texts.iter().map(|text| Message::new("user", *text)).collect(),
            token_ids: vec![7; tokens],
            loss_mask: vec![true; tokens],
            ..Trajectory::default()
        };
        let rows = [row(&["abc", "d"], 0), row(&[], 5), row(&["efgh"], 1)];
        let columns = ["messages", "token_ids", "loss_mask"].map(str::to_string);
        let batch = encode_columns(&rows.iter().collect::<Vec<_>>(), &columns, ExtraColumns::default()).unwrap();
        // Roles and contents; 4 bytes for each token and 1 for its mask.
        assert_eq!(bytes_before_rows(&batch), [0, 12, 12 + 25, 12 + 25 + 8 + 5]);
        assert_eq!(bytes_before_rows(&batch.slice(1, 2)), [0, 25, 25 + 8 + 5]);
    }
}
