//! Shows the distribution of the values of columns, over a bounded sample of row groups spread evenly over the table.

use crate::find::ResolvedOutput;
use crate::table;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::{Error, Result};
use trainyard_store::Store;
use trainyard_tables::json::{CellLimits, cell_as_json};
use trainyard_tables::{BatchBounds, RowSample, SampleBounds, TableSource, sample_rows};

/// Bins of a column of numbers.
pub const BINS: usize = 20;
/// Frequent values of a column of texts.
const VALUES: usize = 10;
/// Limits on the size of a value.
const LIMITS: CellLimits = CellLimits { text: 80, items: 0 };
/// Beginnings of the types of columns that have no distribution.
const NESTED: [&str; 5] = ["List", "LargeList", "FixedSizeList", "Struct", "Map"];
/// Bounds on the sample.
const BOUNDS: SampleBounds = SampleBounds { groups: 16, of_group: BatchBounds { rows: 2_048, bytes: 2 << 20 } };

/// Distributions of columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableHistograms {
    /// Columns of numbers, texts or booleans, in the order of the table.
    pub columns: Vec<ColumnHistogram>,
    /// Number of rows that were read.
    pub rows: u64,
    /// Number of rows of the table.
    pub rows_total: u64,
    /// Number of row groups of which rows were read.
    pub groups: usize,
    /// Number of row groups of the table.
    pub groups_total: usize,
}

/// Distribution of a column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnHistogram {
    /// Name of the column.
    pub name: String,
    /// Number of nulls, and of numbers that are not finite.
    pub nulls: u64,
    /// Numbers of values.
    pub values: ValueCounts,
}

/// Numbers of values of a column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ValueCounts {
    /// Numbers, in bins of equal width.
    Numbers {
        /// Least number.
        low: f64,
        /// Greatest number.
        high: f64,
        /// Numbers of values by bin; one bin if all are equal.
        bins: Vec<u64>,
    },
    /// Texts.
    Texts {
        /// Most frequent values with their numbers.
        frequent: Vec<(String, u64)>,
        /// Number of different values.
        distinct: u64,
        /// Number of values that are not null.
        count: u64,
    },
    /// Booleans.
    Booleans {
        /// Number of `true`.
        yes: u64,
        /// Number of `false`.
        no: u64,
    },
}

/// Counts the values of columns. Lists, maps and structs are left out.
///
/// Errors: invalid (not a table), data (a damaged table), those of the store.
pub async fn of_columns(
    store: &Store,
    artifact: &str,
    found: &ResolvedOutput,
    columns: Vec<String>,
) -> Result<TableHistograms> {
    let table = table::open(store, artifact, found).await?;
    let is_nested = |name: &String| {
        let mut known = found.output().table.iter().flat_map(|table| &table.columns);
        let column = known.find(|column| column.name == *name);
        column.is_some_and(|column| NESTED.iter().any(|start| column.r#type.starts_with(start)))
    };
    let columns: Vec<String> = columns.into_iter().filter(|name| !is_nested(name)).collect();
    let work = tokio::task::spawn_blocking(move || of_sample(&table, &columns));
    work.await.map_err(|e| Error::bug(format!("counting values ended early: {e}")))?
}

fn of_sample(table: &TableSource, columns: &[String]) -> Result<TableHistograms> {
    let sample = sample_rows(table, columns, BOUNDS)?;
    let names = sample
        .batches
        .first()
        .map(|batch| batch.schema_ref().fields().iter().map(|field| field.name().clone()).collect::<Vec<String>>());
    let names = names.unwrap_or_default().into_iter().enumerate();
    Ok(TableHistograms {
        columns: names.filter_map(|(at, name)| of_column(&sample, at, name)).collect(),
        rows: sample.rows,
        rows_total: sample.rows_total,
        groups: sample.groups,
        groups_total: sample.groups_total,
    })
}

fn of_column(sample: &RowSample, at: usize, name: String) -> Option<ColumnHistogram> {
    let cells = sample.batches.iter().flat_map(|batch| {
        let column = batch.column(at);
        (0..batch.num_rows()).map(move |row| cell_as_json(column, row, LIMITS))
    });
    let (mut nulls, mut numbers, mut texts, mut yes, mut no) = (0, Vec::new(), BTreeMap::new(), 0, 0);
    for cell in cells {
        match cell {
            Value::Null => nulls += 1,
            Value::Bool(true) => yes += 1,
            Value::Bool(false) => no += 1,
            Value::Number(number) => numbers.push(number.as_f64().unwrap_or(f64::NAN)),
            Value::String(text) => *texts.entry(text).or_insert(0) += 1,
            Value::Array(_) | Value::Object(_) => return None,
        }
    }
    let values = if !numbers.is_empty() {
        binned(&numbers)
    } else if !texts.is_empty() {
        frequent(texts)
    } else if yes + no > 0 {
        ValueCounts::Booleans { yes, no }
    } else {
        return None;
    };
    Some(ColumnHistogram { name, nulls, values })
}

fn binned(numbers: &[f64]) -> ValueCounts {
    let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if low >= high {
        return ValueCounts::Numbers { low, high, bins: vec![numbers.len() as u64] };
    }
    let mut bins = vec![0; BINS];
    for number in numbers {
        // Halves, since the difference of two finite numbers may not be finite.
        let share = (number / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0);
        bins[((share * BINS as f64) as usize).min(BINS - 1)] += 1;
    }
    ValueCounts::Numbers { low, high, bins }
}

fn frequent(texts: BTreeMap<String, u64>) -> ValueCounts {
    let (distinct, count) = (texts.len() as u64, texts.values().sum());
    let mut frequent: Vec<(String, u64)> = texts.into_iter().collect();
    frequent.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    frequent.truncate(VALUES);
    ValueCounts::Texts { frequent, distinct, count }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::TableBuilder;

    fn counted(table: &TableBuilder) -> TableHistograms {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        table.write(&path).unwrap();
        let columns = ["n", "x", "text", "flag", "none"].map(str::to_string);
        of_sample(&TableSource::from(&path), &columns).unwrap()
    }

    #[test]
    fn values_are_counted_by_type() {
        let table = TableBuilder::new()
            .i64("n", (0..40).map(Some))
            .f64("x", (0..40).map(|n| (n > 9).then_some(0.5)))
            .optional_string("text", (0..40).map(|n| (n > 0).then_some(["even", "odd"][n % 2])))
            .bool("flag", (0..40).map(|n| Some(n < 10)));
        let found = counted(&table);
        assert_eq!((found.rows, found.rows_total, found.groups, found.groups_total), (40, 40, 1, 1));
        let values: Vec<(&str, u64, &ValueCounts)> =
            found.columns.iter().map(|column| (column.name.as_str(), column.nulls, &column.values)).collect();
        let texts = vec![("odd".to_string(), 20), ("even".to_string(), 19)];
        assert_eq!(
            values,
            [
                ("n", 0, &ValueCounts::Numbers { low: 0.0, high: 39.0, bins: vec![2; BINS] }),
                ("x", 10, &ValueCounts::Numbers { low: 0.5, high: 0.5, bins: vec![30] }),
                ("text", 1, &ValueCounts::Texts { frequent: texts, distinct: 2, count: 39 }),
                ("flag", 0, &ValueCounts::Booleans { yes: 10, no: 30 }),
            ]
        );
    }

    #[test]
    fn numbers_may_be_far_apart() {
        let ValueCounts::Numbers { bins, .. } = binned(&[f64::MIN, 0.0, f64::MAX]) else { panic!("numbers") };
        assert_eq!((bins[0], bins[10], bins[19]), (1, 1, 1));
    }

    #[test]
    fn large_tables_are_sampled() {
        let found = counted(&TableBuilder::new().i64("n", 0..65_536));
        assert_eq!((found.rows, found.rows_total, found.groups, found.groups_total), (4 * 2_048, 65_536, 4, 4));
    }
}
