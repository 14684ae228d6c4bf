//! Provides the function `random(a, …)`: a number from 0 to 1 that depends on the seed and on the values alone.

use polars::error::{PolarsResult, polars_bail};
use polars::prelude::{Column, DataType, Field, Float64Chunked, IntoColumn as _, NewChunkedArray as _, Schema};
use polars::sql::{FunctionOptions, FunctionRegistry};
use polars_plan::dsl::udf::UserDefinedFunction;
use polars_plan::dsl::{BaseColumnUdf, new_column_udf};
use std::sync::Arc;
use trainyard_core::Chance;

pub(super) const NAME: &str = "random";

/// Returns the registry of this function.
pub fn functions(seed: u64) -> Arc<dyn FunctionRegistry> {
    Arc::new(RandomFunction(Chance::new(seed)))
}

struct RandomFunction(Chance);

impl FunctionRegistry for RandomFunction {
    fn register(&mut self, name: &str, _: UserDefinedFunction) -> PolarsResult<()> {
        polars_bail!(ComputeError: "the function `{name}` cannot be added")
    }
    fn get_udf(&self, name: &str) -> PolarsResult<Option<UserDefinedFunction>> {
        Ok(self.contains(name).then(|| udf(self.0)))
    }
    fn contains(&self, name: &str) -> bool {
        name.eq_ignore_ascii_case(NAME)
    }
}

fn udf(chance: Chance) -> UserDefinedFunction {
    let output = |_: &Schema, _: &[Field]| Ok(Field::new(NAME.into(), DataType::Float64));
    let function = BaseColumnUdf::new(move |columns: &mut [Column]| uniform(chance, columns), output);
    UserDefinedFunction { name: NAME.into(), fun: new_column_udf(function), options: FunctionOptions::elementwise() }
}

fn uniform(chance: Chance, columns: &[Column]) -> PolarsResult<Column> {
    let texts = columns.iter().map(|column| column.cast(&DataType::String)).collect::<PolarsResult<Vec<_>>>()?;
    let texts = texts.iter().map(Column::str).collect::<PolarsResult<Vec<_>>>()?;
    let rows = columns.iter().map(Column::len).max().unwrap_or(0);
    let text = |row: usize| {
        // A null differs from every text, and no two lists of values have the same text.
        let value = |value: Option<&str>| value.map_or("-".to_string(), |value| format!("{}:{value}", value.len()));
        let cell = |cells: &&polars::prelude::StringChunked| value(cells.get(if cells.len() == 1 { 0 } else { row }));
        texts.iter().map(cell).collect::<String>()
    };
    let numbers = (0..rows).map(|row| chance.at(&text(row), &[]).uniform());
    Ok(Float64Chunked::from_iter_values(NAME.into(), numbers).into_column())
}
