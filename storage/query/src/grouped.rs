//! Splits a grouping statement into groups of rows, which another engine may compute, and a statement over the groups,
//! which SQLite runs.

use crate::database::QueryDatabase;
use crate::dialect::rewrite_for_sqlite;
use crate::error::query_error;
use crate::flatten::CellKind;
use crate::query::run_statement;
use crate::result::QueryResult;
use crate::statement::{ColumnSelection, parse_query};
use arrow_array::RecordBatch;
use arrow_schema::Schema;
use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, ObjectName, Query, Select,
    SelectItem, SetExpr, TableFactor, Value, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;
use trainyard_core::Result;

/// Name of the table of groups.
const GROUPS: &str = "groups";

/// Aggregate of one argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AggregateFunction {
    /// Number of values that are not null, or of rows.
    Count,
    /// Sum, null without values.
    Sum,
    /// Sum as a float, 0 without values.
    Total,
    /// Mean as a float, null without values.
    Mean,
    /// Least value.
    Min,
    /// Greatest value.
    Max,
}

/// An aggregate and its argument; `None` is `count(*)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    /// The function.
    pub function: AggregateFunction,
    /// The argument.
    pub argument: Option<Expr>,
}

/// A statement that groups the rows of one table.
#[derive(Debug)]
pub struct GroupedStatement {
    /// Name of the table.
    pub table: String,
    /// Condition of the rows.
    pub condition: Option<Expr>,
    /// Expressions that all rows of a group have in common. Without any, all rows are one group.
    pub keys: Vec<Expr>,
    /// Aggregates of each group.
    pub aggregates: Vec<Aggregate>,
    query: Query,
    columns: ColumnSelection,
    unordered: bool,
}

impl GroupedStatement {
    /// Reads a statement: one table, plain aggregates of one argument, no subquery, no window. Returns `None` for other
    /// statements.
    ///
    /// Errors: invalid (no SELECT).
    pub fn parse(sql: &str) -> Result<Option<Self>> {
        let mut accepted = parse_query(sql)?;
        rewrite_for_sqlite(&mut accepted.query);
        let query = *accepted.query.clone();
        let Some(select) = plain_select(&query) else { return Ok(None) };
        let (Some(table), Some(keys)) = (only_table(select), keys(select)) else { return Ok(None) };
        Ok(Some(Self {
            table,
            condition: select.selection.clone(),
            keys,
            aggregates: Vec::new(),
            query,
            columns: accepted.columns,
            unordered: accepted.unordered,
        }))
    }
    /// Returns the columns of a table that the statement may read, at least one.
    pub fn columns(&self, schema: &Schema) -> Vec<String> {
        self.columns.columns(schema)
    }
    /// Separates the aggregates from the statement. Returns `None` if SQLite refuses the statement over a table with
    /// these columns, or a value that is neither a key nor an aggregate remains.
    pub fn split(mut self, columns: &[(String, CellKind)]) -> Result<Option<Self>> {
        let database = QueryDatabase::new(0)?;
        let names = || {
            database.create(&self.table, columns, &[])?;
            let statement = database.connection.prepare(&self.query.to_string())?;
            Ok::<_, rusqlite::Error>(statement.column_names().into_iter().map(str::to_string).collect::<Vec<_>>())
        };
        let Ok(names) = names() else { return Ok(None) };
        let SetExpr::Select(select) = self.query.body.as_mut() else { return Ok(None) };
        if select.projection.len() != names.len() {
            return Ok(None);
        }
        let aliases = select.projection.iter().filter_map(alias).cloned().collect();
        // The condition of groups is one of rows of the table of groups.
        select.selection = select.having.take();
        select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
        for (item, name) in select.projection.iter_mut().zip(names) {
            if let SelectItem::UnnamedExpr(expr) = item {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', name) };
            }
        }
        if let TableFactor::Table { name, .. } = &mut select.from[0].relation {
            *name = ObjectName::from(vec![Ident::new(GROUPS)]);
        }
        let mut splitter = Splitter { keys: &self.keys, aliases, aggregates: Vec::new() };
        let is_split = self.query.visit(&mut splitter).is_continue();
        self.aggregates = splitter.aggregates;
        Ok((is_split && !(self.keys.is_empty() && self.aggregates.is_empty())).then_some(self))
    }
    /// Runs the statement over the groups. `groups` has the columns of the keys and then those of the aggregates.
    /// `kinds` are those of the keys and of the arguments of aggregates.
    ///
    /// Errors: those of SQLite.
    pub fn finish(&self, groups: &RecordBatch, kinds: &[CellKind], limit: usize) -> Result<QueryResult> {
        let names = (0..self.keys.len()).map(key_name).chain((0..self.aggregates.len()).map(value_name));
        // SQLite tells the kind of a sum by its values, and that of a key or an extreme by its column.
        let is_value = |i: usize| {
            let aggregate = i.checked_sub(self.keys.len()).map(|i| self.aggregates[i].function);
            !matches!(aggregate, None | Some(AggregateFunction::Min | AggregateFunction::Max))
        };
        let columns = names.zip(kinds).enumerate().map(|(i, (name, kind))| (name, (!is_value(i)).then_some(*kind)));
        let columns: Vec<(String, Option<CellKind>)> = columns.collect();
        let define =
            |(name, kind): &(String, Option<CellKind>)| format!("{name} {}", kind.map_or("", CellKind::declared));
        let table = format!("CREATE TABLE {GROUPS} ({})", columns.iter().map(define).collect::<Vec<_>>().join(", "));
        let known: Vec<_> = columns.iter().filter_map(|(name, kind)| Some((name.clone(), (*kind)?))).collect();
        let mut database = QueryDatabase::new(0)?;
        let mut run = || {
            database.connection.execute_batch(&table)?;
            database.insert(GROUPS, groups)?;
            run_statement(&database, &self.query, self.unordered, &known, limit)
        };
        run().map_err(|e| query_error("this query", &e))
    }
}

fn key_name(i: usize) -> String {
    format!("key_{}", i + 1)
}

fn value_name(i: usize) -> String {
    format!("value_{}", i + 1)
}

/// Returns the SELECT of a statement without other parts than an order and a limit.
fn plain_select(query: &Query) -> Option<&Select> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let plain = query.with.is_none()
        && select.distinct.is_none()
        && select.qualify.is_none()
        && select.named_window.is_empty()
        && select.lateral_views.is_empty();
    plain.then_some(select)
}

fn only_table(select: &Select) -> Option<String> {
    let [from] = select.from.as_slice() else { return None };
    match &from.relation {
        TableFactor::Table { name, alias: None, args: None, .. } if from.joins.is_empty() => {
            name.0.first().and_then(|part| part.as_ident()).filter(|_| name.0.len() == 1).map(|name| name.value.clone())
        }
        _ => None,
    }
}

/// Returns the keys; a number is the place of a result, a name that of a result if it is an alias.
fn keys(select: &Select) -> Option<Vec<Expr>> {
    let GroupByExpr::Expressions(keys, modifiers) = &select.group_by else { return None };
    let result = |place: usize| match select.projection.get(place)? {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
        _ => None,
    };
    let key = |key: &Expr| match key {
        Expr::Value(value) => match &value.value {
            Value::Number(place, _) => result(place.parse::<usize>().ok()?.checked_sub(1)?),
            _ => None,
        },
        Expr::Identifier(name) => {
            let aliased = select.projection.iter().position(|item| alias(item).is_some_and(|a| a == &name.value));
            aliased.map_or_else(|| Some(key.clone()), result)
        }
        other => Some(other.clone()),
    };
    modifiers.is_empty().then(|| keys.iter().map(key).collect()).flatten()
}

fn alias(item: &SelectItem) -> Option<&String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(&alias.value),
        _ => None,
    }
}

/// Replaces keys and aggregates by the columns of the table of groups. Stops at what is left of the rows.
struct Splitter<'a> {
    keys: &'a [Expr],
    aliases: Vec<String>,
    aggregates: Vec<Aggregate>,
}

impl VisitorMut for Splitter<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if let Some(key) = self.keys.iter().position(|key| key == expression) {
            *expression = Expr::Identifier(Ident::new(key_name(key)));
            return ControlFlow::Continue(());
        }
        match expression {
            Expr::Function(function) => {
                let Some(aggregate) = aggregate(function) else {
                    let is_window = function.over.is_some() || function.filter.is_some();
                    return if is_window { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
                };
                let known = self.aggregates.iter().position(|other| *other == aggregate);
                let place = known.unwrap_or(self.aggregates.len());
                if known.is_none() {
                    self.aggregates.push(aggregate);
                }
                *expression = Expr::Identifier(Ident::new(value_name(place)));
                ControlFlow::Continue(())
            }
            Expr::Identifier(name) if self.aliases.contains(&name.value) => ControlFlow::Continue(()),
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Subquery(_) | Expr::Exists { .. } => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Reads a plain call of a supported aggregate.
fn aggregate(function: &Function) -> Option<Aggregate> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let plain = function.over.is_none()
        && function.filter.is_none()
        && function.within_group.is_empty()
        && function.null_treatment.is_none()
        && list.duplicate_treatment.is_none()
        && list.clauses.is_empty();
    let [FunctionArg::Unnamed(argument)] = list.args.as_slice() else { return None };
    let name = function.name.to_string().to_lowercase();
    let (function, argument) = match (name.as_str(), argument) {
        ("count", FunctionArgExpr::Wildcard) => (AggregateFunction::Count, None),
        ("count", FunctionArgExpr::Expr(value)) => (AggregateFunction::Count, Some(value.clone())),
        ("sum", FunctionArgExpr::Expr(value)) => (AggregateFunction::Sum, Some(value.clone())),
        ("total", FunctionArgExpr::Expr(value)) => (AggregateFunction::Total, Some(value.clone())),
        ("avg", FunctionArgExpr::Expr(value)) => (AggregateFunction::Mean, Some(value.clone())),
        ("min", FunctionArgExpr::Expr(value)) => (AggregateFunction::Min, Some(value.clone())),
        ("max", FunctionArgExpr::Expr(value)) => (AggregateFunction::Max, Some(value.clone())),
        _ => return None,
    };
    plain.then_some(Aggregate { function, argument })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::TableBuilder;

    const COLUMNS: [(&str, CellKind); 3] =
        [("level", CellKind::Int), ("reward", CellKind::Float), ("status", CellKind::Text)];

    fn split(sql: &str) -> Option<GroupedStatement> {
        let columns: Vec<_> = COLUMNS.iter().map(|(name, kind)| ((*name).to_string(), *kind)).collect();
        GroupedStatement::parse(sql).unwrap().and_then(|statement| statement.split(&columns).unwrap())
    }

    #[test]
    fn keys_and_aggregates_are_separated() {
        let sql = "select level + 1 as next, avg(reward), max(reward) - min(reward) as spread, count(*) from self \
            where status = 'ok' group by next having count(*) > 1 order by spread desc, 1 limit 3";
        let statement = split(sql).unwrap();
        assert_eq!(statement.keys.iter().map(ToString::to_string).collect::<Vec<_>>(), ["level + 1"]);
        assert_eq!(statement.condition.as_ref().unwrap().to_string(), "status = 'ok'");
        let functions: Vec<_> = statement.aggregates.iter().map(|aggregate| aggregate.function).collect();
        use AggregateFunction::{Count, Max, Mean, Min};
        assert_eq!(functions, [Mean, Max, Min, Count]);
        let groups = TableBuilder::new()
            .i64("key_1", [1, 2, 3, 4])
            .f64("value_1", [0.5, 0.25, 1.0, 0.0])
            .f64("value_2", [1.0, 2.0, 9.0, 4.0])
            .f64("value_3", [0.0, 0.0, 0.0, 2.0])
            .i64("value_4", [5, 6, 1, 2])
            .build()
            .unwrap();
        use CellKind::{Float, Int};
        let result = statement.finish(&groups, &[Int, Float, Float, Float, Int], 2).unwrap();
        let names: Vec<_> = result.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["next", "avg(reward)", "spread", "count(*)"]);
        assert_eq!(serde_json::to_string(&result.rows).unwrap(), "[[2,0.25,2.0,6],[4,0.0,2.0,2]]");
        assert!(result.truncated);
    }

    #[test]
    fn statements_without_plain_groups_are_left() {
        for sql in [
            "select level, reward from self",
            "select level, reward from self group by level",
            "select distinct level from self",
            "select level, count(distinct status) from self group by level",
            "select level, median(reward) from self group by level",
            "select level, count(*) over () from self group by level",
            "select a.level, count(*) from self a group by a.level",
            "select level, count(*) from self natural join other group by level",
            "with t as (select 1) select level, count(*) from self group by level",
            "select nothing, count(*) from self group by nothing",
            "select level, (select max(level) from self) from self group by level",
        ] {
            assert!(split(sql).is_none(), "{sql}");
        }
        for sql in ["select count(*) from self", "select status from self group by 1", "select max(level) m from self"]
        {
            assert!(split(sql).is_some(), "{sql}");
        }
    }
}
