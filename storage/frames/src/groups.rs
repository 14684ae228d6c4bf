//! Groups the rows of a table, one batch at a time.

use crate::exchange::{batch_of, frame_of};
use crate::translate::{Kind, TranslationColumns, TypedExpr, translate, translate_value};
use arrow_array::RecordBatch;
use polars::error::PolarsError;
use polars::prelude::{DataFrame, DataType, Expr, IntoLazy, LazyFrame, NULL, SortMultipleOptions, col, len, lit, when};
use sqlparser::ast::Expr as Sql;
use trainyard_core::{Error, Result};
use trainyard_query::{Aggregate, AggregateFunction, CellKind, GroupedStatement};

/// Rows of partial groups at which they are merged.
const PENDING: usize = 1 << 18;

/// Groups of the rows so far.
pub(crate) struct GroupCollector<'a> {
    statement: &'a GroupedStatement,
    /// Rows of the table, which bound every sum.
    rows: u64,
    /// Kinds of the keys and of the aggregates' arguments, from the batches so far.
    kinds: Option<(Vec<Kind>, Vec<Kind>)>,
    pending: Vec<DataFrame>,
    pending_rows: usize,
}

impl<'a> GroupCollector<'a> {
    pub fn new(statement: &'a GroupedStatement, rows: u64) -> Self {
        Self { statement, rows, kinds: None, pending: Vec::new(), pending_rows: 0 }
    }
    /// Adds the rows of a flat batch. Returns `None` if SQLite must run the statement.
    pub fn add(&mut self, flat: &RecordBatch) -> Result<Option<()>> {
        let mut columns = TranslationColumns::new(flat);
        let Some(plan) = BatchPlan::of(self.statement, &mut columns) else { return Ok(None) };
        if !self.unite(&plan) {
            return Ok(None);
        }
        let frame = frame_of(&columns.into_used()?)?;
        // SQLite answers if polars refuses.
        let Ok(part) = plan.groups(frame) else { return Ok(None) };
        self.pending_rows += part.height();
        self.pending.push(part);
        if self.pending_rows >= PENDING { self.merge() } else { Ok(Some(())) }
    }
    /// Returns the groups, sorted by their keys: the columns of the keys and those of the aggregates, and the kinds of
    /// the keys and of the aggregates' arguments.
    pub fn finish(mut self) -> Result<Option<(RecordBatch, Vec<CellKind>)>> {
        if self.merge()?.is_none() {
            return Ok(None);
        }
        let (Some(merged), Some((keys, arguments))) = (self.pending.pop(), self.kinds) else { return Ok(None) };
        let results = self.statement.aggregates.iter().enumerate().map(|(i, it)| result(i, it.function));
        let all: Vec<Expr> = (0..keys.len()).map(|i| col(key(i))).chain(results).collect();
        let mut groups = merged.lazy().select(all);
        if !keys.is_empty() {
            groups = groups.sort((0..keys.len()).map(key).collect::<Vec<_>>(), SortMultipleOptions::default());
        }
        let groups = groups.collect().map_err(|e| failed(&e))?;
        let kinds = keys.iter().chain(&arguments).map(|kind| cell_kind(*kind));
        Ok(Some((batch_of(&groups)?, kinds.collect())))
    }

    /// Whether the kinds of a batch are those of the batches before it. Keeps the greater bounds.
    fn unite(&mut self, plan: &BatchPlan) -> bool {
        let kinds = |values: &[TypedExpr]| values.iter().map(|value| value.kind).collect::<Vec<_>>();
        let (keys, arguments) = (kinds(&plan.keys), kinds(&plan.arguments));
        let united = |before: &[Kind], now: &[Kind]| {
            before.iter().zip(now).map(|(a, b)| a.common_or_bad(*b).known()).collect::<Option<Vec<_>>>()
        };
        let kinds = match &self.kinds {
            None => Some((keys, arguments)),
            Some((k, a)) => united(k, &keys).zip(united(a, &arguments)),
        };
        let fits = |kind: &Kind| match kind {
            Kind::Int(bound) => bound.checked_mul(self.rows).is_some_and(|sum| i64::try_from(sum).is_ok()),
            _ => true,
        };
        let fits = kinds.as_ref().is_some_and(|(_, arguments)| arguments.iter().all(fits));
        self.kinds = kinds;
        fits
    }
    /// Merges the groups of several batches.
    fn merge(&mut self) -> Result<Option<()>> {
        let mut parts = self.pending.drain(..);
        let Some(mut all) = parts.next() else { return Ok(None) };
        for part in parts {
            all.vstack_mut_owned(part).map_err(|e| failed(&e))?;
        }
        let merged: Vec<Expr> =
            self.statement.aggregates.iter().enumerate().flat_map(|(i, aggregate)| merged(i, aggregate)).collect();
        let merged = grouped(all.lazy(), (0..self.statement.keys.len()).map(|i| col(key(i))).collect(), merged);
        let Ok(merged) = merged.collect() else { return Ok(None) };
        self.pending_rows = 0;
        self.pending = vec![merged];
        Ok(Some(()))
    }
}

/// Polars expressions of the statement for one batch.
struct BatchPlan {
    condition: Option<Expr>,
    keys: Vec<TypedExpr>,
    /// Arguments of the aggregates, as integers where they are booleans; a literal for `count(*)`.
    arguments: Vec<TypedExpr>,
    parts: Vec<Expr>,
}

impl BatchPlan {
    fn of(statement: &GroupedStatement, columns: &mut TranslationColumns<'_>) -> Option<Self> {
        let condition = match &statement.condition {
            Some(condition) => Some(translate(condition, columns)?),
            None => None,
        };
        let mut value =
            |sql: &Sql| translate_value(sql, columns).filter(|value| !matches!(value.kind, Kind::Null | Kind::List));
        let keys = statement.keys.iter().map(&mut value).collect::<Option<Vec<_>>>()?;
        let mut arguments = Vec::new();
        for aggregate in &statement.aggregates {
            arguments.push(match &aggregate.argument {
                Some(argument) => value(argument)?,
                None => TypedExpr::literal_integer(1),
            });
        }
        let parts = statement.aggregates.iter().zip(&arguments).enumerate();
        let parts = parts.map(|(i, (aggregate, argument))| partial(i, aggregate, argument));
        let parts = parts.collect::<Option<Vec<_>>>()?.concat();
        columns.name_one()?;
        Some(Self { condition, keys, arguments, parts })
    }
    fn groups(self, frame: DataFrame) -> Result<DataFrame, PolarsError> {
        let rows = match self.condition {
            Some(condition) => frame.lazy().filter(condition),
            None => frame.lazy(),
        };
        let keys = self.keys.into_iter().enumerate().map(|(i, value)| value.expr.alias(key(i))).collect();
        grouped(rows, keys, self.parts).collect()
    }
}

/// Aggregates groups, or all rows as one group.
fn grouped(rows: LazyFrame, keys: Vec<Expr>, aggregates: Vec<Expr>) -> LazyFrame {
    if keys.is_empty() { rows.select(aggregates) } else { rows.group_by(keys).agg(aggregates) }
}

fn key(i: usize) -> String {
    format!("key_{}", i + 1)
}

fn value(i: usize) -> String {
    format!("value_{}", i + 1)
}

/// Name of the column with the number of values of an aggregate.
fn count(i: usize) -> String {
    format!("count_{}", i + 1)
}

/// Returns the columns of an aggregate for one batch: the value, and the number of values that are not null.
fn partial(i: usize, aggregate: &Aggregate, argument: &TypedExpr) -> Option<[Expr; 2]> {
    let argument = argument.clone();
    let is_number = matches!(argument.kind, Kind::Bool | Kind::Int(_) | Kind::Float);
    let expr = argument.boolean_as_int().expr;
    let number = match aggregate.argument {
        Some(_) => expr.clone().count(),
        None => len(),
    };
    let number = number.cast(DataType::Int64).alias(count(i));
    let value_of = match aggregate.function {
        AggregateFunction::Count => lit(0_i64),
        AggregateFunction::Min => expr.min(),
        AggregateFunction::Max => expr.max(),
        AggregateFunction::Sum | AggregateFunction::Mean | AggregateFunction::Total if is_number => expr.sum(),
        // SQLite adds what it can read as numbers.
        AggregateFunction::Sum | AggregateFunction::Mean | AggregateFunction::Total => return None,
    };
    Some([value_of.alias(value(i)), number])
}

/// Returns the columns of an aggregate for the groups of several batches.
fn merged(i: usize, aggregate: &Aggregate) -> [Expr; 2] {
    let column = col(value(i));
    let merged = match aggregate.function {
        AggregateFunction::Min => column.min(),
        AggregateFunction::Max => column.max(),
        AggregateFunction::Count => column.first(),
        AggregateFunction::Sum | AggregateFunction::Mean | AggregateFunction::Total => column.sum(),
    };
    [merged.alias(value(i)), col(count(i)).sum().alias(count(i))]
}

/// Returns the final value of an aggregate.
fn result(i: usize, function: AggregateFunction) -> Expr {
    let (column, number) = (col(value(i)), col(count(i)));
    let unless_empty = |value: Expr| when(number.clone().gt(lit(0_i64))).then(value).otherwise(lit(NULL));
    let float = column.clone().cast(DataType::Float64);
    let result = match function {
        AggregateFunction::Count => number,
        AggregateFunction::Total => float,
        AggregateFunction::Mean => unless_empty(float / number.clone().cast(DataType::Float64)),
        AggregateFunction::Sum => unless_empty(column),
        AggregateFunction::Min | AggregateFunction::Max => column,
    };
    result.alias(value(i))
}

fn cell_kind(kind: Kind) -> CellKind {
    match kind {
        Kind::Bool => CellKind::Bool,
        Kind::Int(_) => CellKind::Int,
        Kind::Float => CellKind::Float,
        Kind::Text | Kind::Null | Kind::List => CellKind::Text,
    }
}

fn failed(error: &PolarsError) -> Error {
    Error::bug(format!("groups cannot be merged: {error}"))
}
