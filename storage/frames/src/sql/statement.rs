//! Reads statements: one SELECT over named tables.

use super::conditions::move_conditions;
use super::random;
use sqlparser::ast::{
    Expr, FunctionArguments, GroupByExpr, Ident, ObjectName, Query, Select, SelectItem, SetExpr, Statement,
    TableFactor, Visit, VisitMut, Visitor, VisitorMut,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::{Parser, ParserOptions};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use trainyard_core::{Error, Result};

/// Name of the column with the id of the source row ([`FrameStatement::with_source_ids`]).
pub const SOURCE_ID: &str = "__source_id";

/// Functions whose value for a row depends on that row alone.
const ROW_FUNCTIONS: &str = "abs ceil ceiling char_length character_length coalesce concat concat_ws ends_with exp \
                             floor greatest if ifnull initcap least left length ln log lower lpad ltrim mod nullif \
                             octet_length pow power random regexp_like replace right round rpad rtrim sign sqrt \
                             starts_with strpos substr upper";

/// Statement in the help of errors.
const EXAMPLE: &str = "write one SELECT, e.g. `select * from problems where level > 1`";

/// One SELECT.
#[derive(Debug, Clone)]
pub struct FrameStatement {
    query: Query,
    tables: BTreeSet<String>,
    own: BTreeSet<String>,
}

impl FrameStatement {
    /// Reads a statement. Errors: invalid (syntax with its line, another statement than one SELECT).
    pub fn parse(sql: &str) -> Result<Self> {
        let wrong = |e: &dyn std::fmt::Display| Error::invalid(format!("this SQL cannot be read: {e}")).help(EXAMPLE);
        let options = ParserOptions { trailing_commas: true, ..ParserOptions::default() };
        let parser = Parser::new(&GenericDialect {}).with_options(options).try_with_sql(sql).map_err(|e| wrong(&e))?;
        let mut statements = { parser }.parse_statements().map_err(|e| wrong(&e))?;
        let number = statements.len();
        let Some(statement) = statements.pop().filter(|_| number == 1) else {
            return Err(Error::invalid(format!("expected one SELECT, found {number} statements")).help(EXAMPLE));
        };
        let Statement::Query(query) = statement else { return Err(only_select(&statement.to_string())) };
        let mut query = *query;
        let mut names = TableNames::default();
        if let ControlFlow::Break(error) = Visit::visit(&query, &mut names) {
            return Err(*error);
        }
        if let ControlFlow::Break(error) = VisitMut::visit(&mut query, &mut ConditionMover) {
            return Err(*error);
        }
        if let Some(name) = names.own_twice.first() {
            return Err(Error::invalid(format!("`with` defines `{name}` twice")).help("rename one of them"));
        }
        let tables = names.read.difference(&names.own).cloned().collect();
        Ok(Self { query, tables, own: names.own })
    }
    /// Returns the names of the tables that the statement reads, without those of its `with`.
    pub fn tables(&self) -> &BTreeSet<String> {
        &self.tables
    }
    /// Returns the names of the tables that the statement defines by `with`.
    pub fn own_tables(&self) -> &BTreeSet<String> {
        &self.own
    }
    /// Returns the same statement with the column [`SOURCE_ID`]: the column `id` of the row from which a row is made.
    /// `None` unless each row is made from one row of one table, by filter, projection and sort, and the statement
    /// selects another `id` than that of the table, and no `parents`.
    pub fn with_source_ids(&self) -> Option<Self> {
        let mut query = self.query.clone();
        let SetExpr::Select(select) = query.body.as_mut() else { return None };
        let computes_id = select.projection.iter().any(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } => {
                alias.value == "id" && !matches!(expr, Expr::Identifier(name) if name.value == "id")
            }
            _ => false,
        });
        let is_row_wise = query.with.is_none() && is_of_one_table(select) && select.projection.iter().all(is_row_item);
        if !(computes_id && is_row_wise) {
            return None;
        }
        let id = Expr::Identifier(Ident::new("id"));
        select.projection.push(SelectItem::ExprWithAlias { expr: id, alias: Ident::with_quote('"', SOURCE_ID) });
        Some(Self { query, tables: self.tables.clone(), own: self.own.clone() })
    }
    /// Returns the statement as text.
    pub(super) fn text(&self) -> String {
        self.query.to_string()
    }
}

/// Whether a SELECT filters and sorts the rows of one table.
fn is_of_one_table(select: &Select) -> bool {
    let no_groups = match &select.group_by {
        GroupByExpr::Expressions(keys, modifiers) => keys.is_empty() && modifiers.is_empty(),
        GroupByExpr::All(_) => false,
    };
    let one = match select.from.as_slice() {
        [from] => from.joins.is_empty() && matches!(from.relation, TableFactor::Table { args: None, .. }),
        _ => false,
    };
    one && no_groups && select.distinct.is_none() && select.having.is_none() && select.lateral_views.is_empty()
}

/// Whether an item of a SELECT has a value for each row, and is not the column `parents`.
fn is_row_item(item: &SelectItem) -> bool {
    let (expr, name) = match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => return name.value != "parents",
        SelectItem::UnnamedExpr(expr) => (expr, None),
        SelectItem::ExprWithAlias { expr, alias } => (expr, Some(&alias.value)),
        _ => return false,
    };
    name.is_none_or(|name| name != "parents") && Visit::visit(expr, &mut ReductionFinder).is_continue()
}

/// Stops at the first call whose value may depend on several rows.
struct ReductionFinder;

impl Visitor for ReductionFinder {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(call) if call.over.is_none() => {
                let name = call.name.to_string().to_lowercase();
                if ROW_FUNCTIONS.split_whitespace().any(|known| known == name) {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Collects the tables of a statement, and refuses what a statement may not contain.
#[derive(Default)]
struct TableNames {
    read: BTreeSet<String>,
    /// Tables of `with`.
    own: BTreeSet<String>,
    own_twice: BTreeSet<String>,
}

impl Visitor for TableNames {
    type Break = Box<Error>;

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<Box<Error>> {
        match statement {
            Statement::Query(_) => ControlFlow::Continue(()),
            other => refused(only_select(&other.to_string())),
        }
    }
    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Box<Error>> {
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            let name = table.alias.name.value.clone();
            if !self.own.insert(name.clone()) {
                self.own_twice.insert(name);
            }
        }
        match query.body.as_ref() {
            SetExpr::Insert(other) | SetExpr::Update(other) | SetExpr::Delete(other) | SetExpr::Merge(other) => {
                refused(only_select(&other.to_string()))
            }
            _ => ControlFlow::Continue(()),
        }
    }
    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Box<Error>> {
        match select.into {
            Some(_) => refused(only_select("SELECT INTO")),
            None => ControlFlow::Continue(()),
        }
    }
    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<Box<Error>> {
        match table {
            TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => {
                let error = Error::invalid(format!("`{name}(…)` reads no input"));
                refused(error.help("wire files as an artifact: `data/import` reads them"))
            }
            TableFactor::Table { sample: Some(_), .. } => {
                let error = Error::invalid("`TABLESAMPLE` is not supported");
                refused(error.help("write `where random(id) < 0.1`, or `order by random(id) limit 100`"))
            }
            _ => ControlFlow::Continue(()),
        }
    }
    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<Box<Error>> {
        match name.0.as_slice() {
            [part] => match part.as_ident() {
                Some(name) => {
                    self.read.insert(name.value.clone());
                    ControlFlow::Continue(())
                }
                None => refused(Error::invalid(format!("`{name}` is no name of a table"))),
            },
            _ => {
                let error = Error::invalid(format!("`{name}` is no name of a table"));
                refused(error.help("the names of the stage's inputs are those of the tables"))
            }
        }
    }
    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Box<Error>> {
        let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        let has_arguments = matches!(&call.args, FunctionArguments::List(list) if !list.args.is_empty());
        if call.name.to_string().eq_ignore_ascii_case(random::NAME) && !has_arguments {
            let error = Error::invalid("`random` takes the values that determine the number");
            return refused(error.help("write for example `random(id)`; the option `seed` changes all numbers"));
        }
        ControlFlow::Continue(())
    }
}

fn refused(error: Error) -> ControlFlow<Box<Error>> {
    ControlFlow::Break(Box::new(error))
}

fn only_select(found: &str) -> Error {
    let first: Vec<String> = found.split_whitespace().take(2).map(str::to_uppercase).collect();
    let first = if first.first().is_some_and(|word| word == "SELECT") { first.join(" ") } else { first[..1].concat() };
    Error::invalid(format!("only one SELECT is allowed here, found {first}"))
        .help("artifacts are immutable: the result of the SELECT is the output of the stage")
}

/// Moves conditions of joins that polars does not support to the WHERE of their SELECT.
struct ConditionMover;

impl VisitorMut for ConditionMover {
    type Break = Box<Error>;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Box<Error>> {
        match move_conditions(select) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => refused(error),
        }
    }
}
