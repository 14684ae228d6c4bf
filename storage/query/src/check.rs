//! Checks filter expressions by the schema of their table, before the table exists.
//!
//! Some columns are known from the data alone: those of the keys of maps (`rewards_answer`) and of `meta`. Any name
//! with such a prefix is accepted here.

use crate::database::{QueryDatabase, QueryLimits};
use crate::dialect::{kind_of, rewrite_row_expression};
use crate::error::query_error;
use crate::filter::{FilterExpression, TABLE, not_a_condition};
use crate::flatten::{CellKind, ColumnFlattener, map_columns};
use crate::meta::META;
use crate::statement::expression;
use arrow_schema::Schema;
use sqlparser::ast::{Expr, Ident, Visit, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use trainyard_core::{Error, Result};

/// Names of SQLite for the number of a row, which are no columns.
const ROW_NUMBER: [&str; 3] = ["_rowid_", "oid", "rowid"];

/// Columns that a filter reads, and those that its table has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilterColumns {
    /// Names that no table of the schema has as columns, in the order of the text.
    pub unknown: Vec<String>,
    /// Names of columns of `meta`.
    pub of_meta: Vec<String>,
    /// Columns of every table of the schema, in order, and after them the prefixes of those that the data determine,
    /// as `meta_…`.
    pub known: Vec<String>,
}

/// Returns the columns that the filter `text` reads from tables of this schema.
///
/// Errors: invalid (syntax, unknown function, not true or false).
pub fn filter_columns(schema: &Schema, text: &str) -> Result<FilterColumns> {
    let condition = expression(text)?;
    let columns = SchemaColumns::of(schema);
    let mut names = ColumnNames::default();
    let _ = condition.visit(&mut names);
    let prefix = format!("{META}_");
    let (mut unknown, mut of_meta, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for name in names.found {
        match (columns.kind(&name), columns.is_open(&name)) {
            (Some(_), _) => {}
            (None, false) => unknown.push(name),
            (None, true) => {
                of_meta.extend((columns.has_meta && starts_with(&name, &prefix)).then(|| name.clone()));
                open.push(name);
            }
        }
    }
    if unknown.is_empty() {
        compile(text, condition, &columns, &open)?;
    }
    Ok(FilterColumns { unknown, of_meta, known: columns.shown() })
}

impl FilterExpression {
    /// Whether the expression names a column that no table of the schema has.
    pub fn has_unknown_columns(&self, schema: &Schema) -> bool {
        let columns = SchemaColumns::of(schema);
        self.names().iter().any(|name| columns.kind(name).is_none() && !columns.is_open(name))
    }
    /// Whether the value for a row depends on other rows of the table: the expression has an aggregate or the number of
    /// the row, or a column that only the data determine.
    pub fn needs_all_rows(&self, schema: &Schema) -> bool {
        let columns = SchemaColumns::of(schema);
        let mut finder = TableValueFinder;
        self.condition().visit(&mut finder).is_break() || self.names().iter().any(|name| columns.kind(name).is_none())
    }

    fn names(&self) -> Vec<String> {
        let mut names = ColumnNames::default();
        let _ = self.condition().visit(&mut names);
        names.found
    }
}

/// Stops at the first part whose value depends on other rows.
struct TableValueFinder;

impl Visitor for TableValueFinder {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        let found = match expression {
            Expr::Function(function) => function.over.is_some(),
            Expr::Identifier(name) => ROW_NUMBER.iter().any(|own| own.eq_ignore_ascii_case(&name.value)),
            Expr::CompoundIdentifier(names) => {
                names.last().is_some_and(|name| ROW_NUMBER.iter().any(|own| own.eq_ignore_ascii_case(&name.value)))
            }
            _ => false,
        };
        if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Compiles the filter for an empty table. `open` are the columns that the data determine.
fn compile(text: &str, mut condition: Expr, columns: &SchemaColumns, open: &[String]) -> Result<()> {
    let subject = format!("the filter `{text}`");
    rewrite_row_expression(&mut condition);
    let database = QueryDatabase::new(QueryLimits::default().bytes)?;
    let of_data = open.iter().map(|name| (name.clone(), CellKind::Text));
    let all: Vec<_> = columns.flat.iter().cloned().chain(of_data).collect();
    let unusable = |e: rusqlite::Error| Error::bug(format!("cannot create a table in memory: {e}"));
    database.create(TABLE, &all, &[]).map_err(unusable)?;
    let statement = database.connection.prepare(&format!("SELECT {condition} FROM {TABLE}"));
    drop(statement.map_err(|e| query_error(&subject, &e))?);
    match kind_of(&condition, &|name| columns.kind(name)) {
        Some(CellKind::Bool) => Ok(()),
        // Only the data determine the kinds of these columns.
        None if !open.is_empty() => Ok(()),
        _ => Err(not_a_condition(&subject)),
    }
}

/// Flat columns of the tables of a schema.
struct SchemaColumns {
    flat: Vec<(String, CellKind)>,
    /// Columns whose keys become further columns.
    maps: Vec<String>,
    has_meta: bool,
}

impl SchemaColumns {
    fn of(schema: &Schema) -> Self {
        let mut maps = map_columns(schema);
        let keys: BTreeMap<String, BTreeSet<String>> =
            maps.iter().map(|name| (name.clone(), BTreeSet::new())).collect();
        let flat = ColumnFlattener::new(schema, &keys).columns();
        let has_meta = schema.field_with_name(META).is_ok();
        maps.extend(has_meta.then(|| META.to_string()));
        Self { flat, maps, has_meta }
    }
    /// Returns the kind of a column that every table has.
    fn kind(&self, name: &str) -> Option<CellKind> {
        self.flat.iter().find(|(column, _)| column.eq_ignore_ascii_case(name)).map(|(_, kind)| *kind)
    }
    /// Whether the data may have a column of this name. A map of many keys stays one column.
    fn is_open(&self, name: &str) -> bool {
        let part_of = |map: &String| {
            name.eq_ignore_ascii_case(map) || ["_", "."].iter().any(|mark| starts_with(name, &format!("{map}{mark}")))
        };
        self.maps.iter().any(part_of)
    }
    fn shown(&self) -> Vec<String> {
        let names = self.flat.iter().map(|(name, _)| name.clone());
        names.chain(self.maps.iter().map(|map| format!("{map}_…"))).collect()
    }
}

fn starts_with(name: &str, beginning: &str) -> bool {
    name.get(..beginning.len()).is_some_and(|start| start.eq_ignore_ascii_case(beginning))
}

/// Collects the names of columns in an expression, each once.
#[derive(Default)]
struct ColumnNames {
    found: Vec<String>,
}

impl ColumnNames {
    fn add(&mut self, name: &str) {
        let is_new = !self.found.iter().any(|other| other.eq_ignore_ascii_case(name));
        if is_new && !ROW_NUMBER.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            self.found.push(name.to_string());
        }
    }
}

impl Visitor for ColumnNames {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        match expression {
            Expr::Identifier(name) => self.add(&name.value),
            Expr::CompoundIdentifier(names) => match names.as_slice() {
                [table, name] if table.value.eq_ignore_ascii_case(TABLE) => self.add(&name.value),
                names => self.add(&joined(names)),
            },
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn joined(names: &[Ident]) -> String {
    names.iter().map(|name| name.value.as_str()).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::{ExtraColumns, TableRow, Trajectory};

    fn columns(text: &str) -> FilterColumns {
        let schema = Trajectory::schema(ExtraColumns::ALL);
        filter_columns(&schema, text).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn refusal(text: &str) -> String {
        filter_columns(&Trajectory::schema(ExtraColumns::ALL), text).unwrap_err().message
    }

    #[test]
    fn columns_of_every_table_and_of_the_data_are_accepted() {
        for text in [
            "tool_errors <= 1 and level < 4",
            "Reward > avg(reward) and self.level >= 2",
            "rewards_answer > 0 or \"rewards.format\" = 1",
            "sampling_temperature = 1 and id like 'evaluate/%'",
            "json_extract(messages, '$[0].content') ilike 'how%' and array_get(token_ids, 1) = 3",
            "meta_quality > 0.5 and meta_flag",
            "case when turns > 1 then true else false end",
            "rowid < 10 and answer is not null",
        ] {
            assert_eq!(columns(text).unknown, [""; 0], "{text}");
        }
        assert_eq!(columns("meta_quality > 0.5 and META_lang = 'de'").of_meta, ["meta_quality", "META_lang"]);
    }

    #[test]
    fn all_unknown_names_are_listed_once_in_their_order() {
        let found =
            columns("quality > 0.5 and id = 'x' and \"lang\" = 'de' or quality < 0.1 or messages.role = 'user'");
        assert_eq!(found.unknown, ["quality", "lang", "messages.role"]);
        assert!(found.known.starts_with(&["id".to_string(), "problem_id".to_string()]), "{:?}", found.known);
        assert!(found.known.ends_with(&["rewards_…".to_string(), "meta_…".to_string()]), "{:?}", found.known);
    }

    #[test]
    fn values_that_depend_on_other_rows_are_found() {
        let schema = Trajectory::schema(ExtraColumns::ALL);
        let needs = |text: &str| FilterExpression::parse(text).unwrap().needs_all_rows(&schema);
        for text in ["reward > avg(reward)", "rowid % 2 = 0", "self.oid = 1", "rewards_answer > 0", "meta_quality > 0"]
        {
            assert!(needs(text), "{text}");
        }
        for text in ["reward > 0 and max(level, turns) < 3", "json_extract(messages, '$[0].role') = 'user'"] {
            assert!(!needs(text), "{text}");
        }
        let unknown = |text: &str| FilterExpression::parse(text).unwrap().has_unknown_columns(&schema);
        assert!(unknown("quality > 0") && !unknown("meta_quality > 0 and level = 1"));
    }

    #[test]
    fn an_expression_that_no_table_can_answer_is_refused() {
        assert!(refusal("level <").contains("cannot be read"));
        assert!(refusal("level = 1 level").contains("was not expected"));
        assert!(refusal("level").contains("is a value, not true or false"));
        assert!(refusal("sqr(level) > 1").contains("there is no function `sqr`"));
        assert!(refusal("id in (select id from self)").contains("may not contain a SELECT"));
    }
}
