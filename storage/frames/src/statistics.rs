//! Statistics of columns beyond what a manifest holds: spread, quartiles, most frequent values.

use crate::failure::guarded;
use crate::handover::{QueryLimits, load};
use crate::result::cell_value;
use crate::statement::Wanted;
use polars::lazy::dsl::{col, len, lit};
use polars::lazy::frame::IntoLazy;
use polars::prelude::{DataFrame, DataType, PolarsError, QuantileMethod, SortMultipleOptions};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use trainyard_core::Result;
use trainyard_tables::read_schema;

/// Most frequent values that are listed.
const TOP: u32 = 5;

/// What is known of one flat column. Numbers have moments and quartiles (NaN spreads, as in any sum), all but lists have `top`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnReport {
    pub name: String,
    pub rows: u64,
    pub nulls: u64,
    pub distinct: Option<u64>,
    pub mean: Option<f64>,
    /// With ddof 1.
    pub std: Option<f64>,
    pub min: Option<f64>,
    /// Linear interpolation.
    pub quartiles: Option<[f64; 3]>,
    pub max: Option<f64>,
    /// The most frequent values with their counts; ties by value.
    pub top: Vec<(Value, u64)>,
}

/// Statistics of every column, read one at a time. Errors: data (corrupt file), invalid (a column larger than the limit).
pub fn column_statistics(path: &Path) -> Result<Vec<ColumnReport>> {
    let mut reports = Vec::new();
    for field in read_schema(path)?.fields() {
        let only = Wanted::Words(BTreeSet::from([field.name().clone()]));
        let frame = load(path, &only, &mut QueryLimits::default().bytes.clone())?;
        for column in frame.columns() {
            // `rewards` brings `rewards_answer`; a column whose name merely begins so has its own turn.
            let own = column.name() == field.name() || read_schema(path)?.column_with_name(column.name()).is_none();
            if own {
                reports.push(guarded("column statistics", || report(&frame, column.name(), column.dtype()))?);
            }
        }
    }
    Ok(reports)
}

fn report(frame: &DataFrame, name: &str, kind: &DataType) -> Result<ColumnReport, PolarsError> {
    let column = frame.column(name)?;
    let mut report = ColumnReport {
        name: name.to_string(),
        rows: column.len() as u64,
        nulls: column.null_count() as u64,
        distinct: None,
        mean: None,
        std: None,
        min: None,
        quartiles: None,
        max: None,
        top: Vec::new(),
    };
    if matches!(kind, DataType::List(_)) {
        return Ok(report);
    }
    report.distinct = Some(column.as_materialized_series().drop_nulls().n_unique()? as u64);
    report.top = top(frame, name)?;
    if kind.is_numeric() {
        let number = || col(name).cast(DataType::Float64);
        let quartile = |q: f64, name: &str| number().quantile(lit(q), QuantileMethod::Linear).alias(name);
        let sums = [
            number().mean().alias("mean"),
            number().std(1).alias("std"),
            number().min().alias("min"),
            number().max().alias("max"),
            quartile(0.25, "q1"),
            quartile(0.5, "q2"),
            quartile(0.75, "q3"),
        ];
        let sums = frame.clone().lazy().select(sums).collect()?;
        let value = |name: &str| sums.column(name).and_then(|c| c.f64()).ok().and_then(|c| c.get(0)).filter(|x| x.is_finite());
        (report.mean, report.std, report.min, report.max) = (value("mean"), value("std"), value("min"), value("max"));
        report.quartiles = value("q1").zip(value("q2")).zip(value("q3")).map(|((a, b), c)| [a, b, c]);
    }
    Ok(report)
}

fn top(frame: &DataFrame, name: &str) -> Result<Vec<(Value, u64)>, PolarsError> {
    let order = SortMultipleOptions::default().with_order_descending_multi([true, false]).with_nulls_last(true);
    let counted = frame.clone().lazy().filter(col(name).is_not_null()).group_by([col(name).alias("value")]).agg([len().alias("count")]);
    let counted = counted.sort(["count", "value"], order).limit(TOP).collect()?;
    let (values, counts) = (counted.column("value")?, counted.column("count")?);
    let pair = |row| Ok((cell_value(&values.get(row)?), cell_value(&counts.get(row)?).as_u64().unwrap_or(0)));
    (0..counted.height()).map(pair).collect()
}
