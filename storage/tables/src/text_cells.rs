//! Formats cells of rare Arrow types as text: dates, times, decimals, dictionaries.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, ArrowTemporalType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
    Decimal256Type, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_schema::{DataType, TimeUnit};

/// Formats a non-null cell as text. Times are ISO 8601; a timestamp with a zone is converted to UTC.
pub(crate) fn text_of(column: &dyn Array, row: usize) -> Option<String> {
    match column.data_type() {
        DataType::Date32 => date::<Date32Type>(column, row),
        DataType::Date64 => date::<Date64Type>(column, row),
        DataType::Time32(TimeUnit::Second) => time::<Time32SecondType>(column, row),
        DataType::Time32(_) => time::<Time32MillisecondType>(column, row),
        DataType::Time64(TimeUnit::Microsecond) => time::<Time64MicrosecondType>(column, row),
        DataType::Time64(_) => time::<Time64NanosecondType>(column, row),
        DataType::Timestamp(unit, zone) => {
            let utc = match unit {
                TimeUnit::Second => datetime::<TimestampSecondType>(column, row),
                TimeUnit::Millisecond => datetime::<TimestampMillisecondType>(column, row),
                TimeUnit::Microsecond => datetime::<TimestampMicrosecondType>(column, row),
                TimeUnit::Nanosecond => datetime::<TimestampNanosecondType>(column, row),
            };
            utc.map(|text| if zone.is_some() { format!("{text}Z") } else { text })
        }
        DataType::Duration(unit) => Some(match unit {
            TimeUnit::Second => number::<DurationSecondType>(column, row, "s"),
            TimeUnit::Millisecond => number::<DurationMillisecondType>(column, row, "ms"),
            TimeUnit::Microsecond => number::<DurationMicrosecondType>(column, row, "us"),
            TimeUnit::Nanosecond => number::<DurationNanosecondType>(column, row, "ns"),
        }),
        DataType::Decimal32(..) => Some(column.as_primitive::<Decimal32Type>().value_as_string(row)),
        DataType::Decimal64(..) => Some(column.as_primitive::<Decimal64Type>().value_as_string(row)),
        DataType::Decimal128(..) => Some(column.as_primitive::<Decimal128Type>().value_as_string(row)),
        DataType::Decimal256(..) => Some(column.as_primitive::<Decimal256Type>().value_as_string(row)),
        // The remaining types (intervals, unions, views of bytes) have no common text form.
        _ => Some(format!("{:?}", column.slice(row, 1))),
    }
}

fn date<T: ArrowPrimitiveType + ArrowTemporalType>(column: &dyn Array, row: usize) -> Option<String>
where
    i64: From<T::Native>,
{
    column.as_primitive::<T>().value_as_date(row).map(|date| date.to_string())
}

fn time<T: ArrowPrimitiveType + ArrowTemporalType>(column: &dyn Array, row: usize) -> Option<String>
where
    i64: From<T::Native>,
{
    column.as_primitive::<T>().value_as_time(row).map(|time| time.to_string())
}

fn datetime<T: ArrowPrimitiveType + ArrowTemporalType>(column: &dyn Array, row: usize) -> Option<String>
where
    i64: From<T::Native>,
{
    column.as_primitive::<T>().value_as_datetime(row).map(|time| format!("{time:?}"))
}

fn number<T: ArrowPrimitiveType>(column: &dyn Array, row: usize, unit: &str) -> String {
    format!("{:?} {unit}", column.as_primitive::<T>().value(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Date32Array, Decimal128Array, Time64MicrosecondArray, TimestampMillisecondArray};

    #[test]
    fn dates_times_and_decimals_are_readable() {
        assert_eq!(text_of(&Date32Array::from(vec![19_723]), 0).unwrap(), "2024-01-01");
        let at = TimestampMillisecondArray::from(vec![1_704_067_200_500]);
        assert_eq!(text_of(&at, 0).unwrap(), "2024-01-01T00:00:00.500");
        assert_eq!(text_of(&at.with_timezone("+02:00"), 0).unwrap(), "2024-01-01T00:00:00.500Z");
        assert_eq!(text_of(&Time64MicrosecondArray::from(vec![3_600_000_000]), 0).unwrap(), "01:00:00");
        let price = Decimal128Array::from(vec![12_345]).with_precision_and_scale(10, 2).unwrap();
        assert_eq!(text_of(&price, 0).unwrap(), "123.45");
    }
}
