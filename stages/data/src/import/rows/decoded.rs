//! Measures the rows of Parquet batches as they are decoded. A file may repeat one value of a dictionary, so its
//! compressed and encoded sizes say little.

use arrow_array::Array;
use arrow_array::cast::AsArray as _;
use arrow_schema::DataType;

/// Returns the size in bytes of the values of a column. Text that several rows share counts once for each row.
pub fn decoded_bytes(column: &dyn Array) -> u64 {
    match column.data_type() {
        DataType::Utf8View => view_lengths(column.as_string_view().views()),
        DataType::BinaryView => view_lengths(column.as_binary_view().views()),
        DataType::List(_) => decoded_bytes(column.as_list::<i32>().values()),
        DataType::LargeList(_) => decoded_bytes(column.as_list::<i64>().values()),
        DataType::FixedSizeList(..) => decoded_bytes(column.as_fixed_size_list().values()),
        DataType::Struct(_) => column.as_struct().columns().iter().map(|field| decoded_bytes(field)).sum(),
        DataType::Map(..) => decoded_bytes(column.as_map().entries()),
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            let lengths = value_lengths(dictionary.values());
            if lengths.is_empty() {
                return 0;
            }
            dictionary.normalized_keys().into_iter().map(|key| lengths[key]).sum()
        }
        _ => column.get_buffer_memory_size() as u64,
    }
}

/// Returns the sum of the lengths of views, which are in their low halves.
fn view_lengths(views: &[u128]) -> u64 {
    views.iter().map(|view| u64::from(*view as u32)).sum()
}

/// Returns the length of each value of a dictionary.
fn value_lengths(values: &dyn Array) -> Vec<u64> {
    match values.data_type() {
        DataType::Utf8 => values.as_string::<i32>().iter().map(|text| text.map_or(0, str::len) as u64).collect(),
        DataType::LargeUtf8 => values.as_string::<i64>().iter().map(|text| text.map_or(0, str::len) as u64).collect(),
        _ => {
            let count = values.len();
            vec![decoded_bytes(values) / count.max(1) as u64; count]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, DictionaryArray, Int64Array, StringArray, StringViewArray, StructArray};
    use std::sync::Arc;

    #[test]
    fn shared_text_counts_for_each_row() {
        let long = "x".repeat(1_000);
        let views = StringViewArray::from(vec![long.as_str(), "ab", ""]);
        assert_eq!(decoded_bytes(&views), 1_002);
        let dictionary: DictionaryArray<Int32Type> = vec![long.as_str(); 50].into_iter().collect();
        assert_eq!(decoded_bytes(&dictionary), 50_000);
        let none: DictionaryArray<Int32Type> = Vec::<&str>::new().into_iter().collect();
        assert_eq!(decoded_bytes(&none), 0);
        let text: ArrayRef = Arc::new(StringArray::from(vec![long.as_str(); 3]));
        assert!((3_000..9_000).contains(&decoded_bytes(&text)), "{}", decoded_bytes(&text));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let both = StructArray::try_from(vec![("a", Arc::clone(&text)), ("b", numbers)]).unwrap();
        assert!((3_024..9_100).contains(&decoded_bytes(&both)), "{}", decoded_bytes(&both));
    }
}
