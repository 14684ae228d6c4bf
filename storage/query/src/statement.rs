//! Validates statements, which must be one SELECT, and finds the columns that they can read.

use crate::references::quote_references;
use arrow_schema::Schema;
use sqlparser::ast::{Expr, ObjectName, ObjectNamePart, Query, Select, SetExpr, Statement, Visit, Visitor};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::{Parser, ParserOptions};
use sqlparser::tokenizer::{Token, Tokenizer};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use trainyard_core::{Error, Result};

/// An accepted statement.
pub(crate) struct ParsedStatement {
    pub query: Box<Query>,
    pub columns: ColumnSelection,
    /// Names of the tables that the statement reads, common table expressions among them.
    pub tables: BTreeSet<String>,
    /// Whether the order of the result is undefined: it groups or combines rows without ORDER BY.
    pub unordered: bool,
}

/// Columns that a statement can read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ColumnSelection {
    All,
    /// Every word in the text; columns are among them.
    Words(BTreeSet<String>),
}

impl ColumnSelection {
    /// Whether the column, or a flattened part of it, may be meant.
    pub fn includes(&self, column: &str) -> bool {
        match self {
            Self::All => true,
            Self::Words(words) => words.iter().any(|word| {
                let is_prefix = word.get(..column.len()).is_some_and(|start| start.eq_ignore_ascii_case(column));
                is_prefix && (word.len() == column.len() || word[column.len()..].starts_with(['_', '.']))
            }),
        }
    }
    /// Returns the selected columns of a table. At least one must carry the number of rows.
    pub fn columns(&self, schema: &Schema) -> Vec<String> {
        let all = || schema.fields().iter().map(|field| field.name().clone());
        let names: Vec<String> = all().filter(|name| self.includes(name)).collect();
        if names.is_empty() { all().take(1).collect() } else { names }
    }
}

/// Statement in the help of errors.
const EXAMPLE: &str = "write one SELECT, e.g. `select level, avg(reward) from self group by level`";

/// Accepts exactly one query, in which artifacts may be tables. Errors: invalid, naming the rejected statement.
pub(crate) fn parse_query(sql: &str) -> Result<ParsedStatement> {
    let sql = &quote_references(sql);
    let wrong = |e: &dyn std::fmt::Display| Error::invalid(format!("this SQL cannot be read: {e}")).help(EXAMPLE);
    let options = ParserOptions { trailing_commas: true, ..ParserOptions::default() };
    let parser = Parser::new(&GenericDialect {}).with_options(options).try_with_sql(sql).map_err(|e| wrong(&e))?;
    let statements = { parser }.parse_statements().map_err(|e| wrong(&e))?;
    let unordered = |query: &Query| query.order_by.is_none() && has_undefined_order(query);
    let query = match statements.as_slice() {
        [Statement::Query(query)] => query,
        [other] => return Err(only_select(&first_word(&other.to_string()))),
        many => {
            return Err(Error::invalid(format!("expected one SELECT statement, found {}", many.len())).help(EXAMPLE));
        }
    };
    let mut validator = StatementValidator { subqueries: true, tables: BTreeSet::new() };
    if let ControlFlow::Break(refusal) = statements[0].visit(&mut validator) {
        return Err(refusal.error());
    }
    let (columns, tables) = (referenced_columns(sql)?, validator.tables);
    Ok(ParsedStatement { query: query.clone(), columns, tables, unordered: unordered(query) })
}

/// Returns the columns that a statement can read: all if it contains `*` (but for `count(*)`) or joins by unnamed
/// columns.
pub(crate) fn referenced_columns(text: &str) -> Result<ColumnSelection> {
    let tokens = Tokenizer::new(&GenericDialect {}, text)
        .tokenize()
        .map_err(|e| Error::invalid(format!("`{text}` cannot be read: {e}")))?;
    let tokens: Vec<_> = tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    let mut words = BTreeSet::new();
    for (i, token) in tokens.iter().enumerate() {
        match token {
            Token::Word(word) if ["natural", "columns"].contains(&word.value.to_lowercase().as_str()) => {
                return Ok(ColumnSelection::All);
            }
            Token::Word(word) => {
                words.insert(word.value.clone());
            }
            Token::Mul if !is_count(&tokens, i) => return Ok(ColumnSelection::All),
            _ => {}
        }
    }
    Ok(ColumnSelection::Words(words))
}

/// Whether the tokens are `count ( * )`.
fn is_count(tokens: &[Token], star: usize) -> bool {
    star >= 2
        && tokens[star - 1] == Token::LParen
        && matches!(&tokens[star - 2], Token::Word(word) if word.value.eq_ignore_ascii_case("count"))
}

/// Constructs that are forbidden anywhere in a statement or an expression. One visitor for all rules: each compiles to
/// a walk through the whole grammar.
struct StatementValidator {
    /// Whether subqueries are allowed.
    subqueries: bool,
    /// Names of tables so far.
    tables: BTreeSet<String>,
}

enum ForbiddenConstruct {
    /// A statement other than a SELECT.
    Statement(String),
    /// `a[1]` or `a[1].b`.
    Access(String),
    Subquery,
}

impl ForbiddenConstruct {
    fn error(self) -> Error {
        match self {
            Self::Statement(found) => only_select(&found),
            Self::Access(access) => nested(&access),
            Self::Subquery => Error::invalid("a filter may not contain a SELECT")
                .help("compare columns and aggregates, e.g. `reward > avg(reward)`"),
        }
    }
}

impl Visitor for StatementValidator {
    type Break = ForbiddenConstruct;

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<ForbiddenConstruct> {
        match statement {
            Statement::Query(_) => ControlFlow::Continue(()),
            other => ControlFlow::Break(ForbiddenConstruct::Statement(first_word(&other.to_string()))),
        }
    }
    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<ForbiddenConstruct> {
        if self.subqueries { ControlFlow::Continue(()) } else { ControlFlow::Break(ForbiddenConstruct::Subquery) }
    }
    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<ForbiddenConstruct> {
        match select.into {
            Some(_) => ControlFlow::Break(ForbiddenConstruct::Statement("SELECT INTO".to_string())),
            None => ControlFlow::Continue(()),
        }
    }
    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<ForbiddenConstruct> {
        if let [ObjectNamePart::Identifier(name)] = name.0.as_slice() {
            self.tables.insert(name.value.clone());
        }
        ControlFlow::Continue(())
    }
    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<ForbiddenConstruct> {
        match expression {
            Expr::CompoundFieldAccess { .. } => ControlFlow::Break(ForbiddenConstruct::Access(expression.to_string())),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn only_select(found: &str) -> Error {
    Error::invalid(format!("only one read-only SELECT is allowed here, found {found}"))
        .help("tables are immutable; make a new one by a stage")
}

fn first_word(text: &str) -> String {
    text.split_whitespace().next().unwrap_or_default().to_uppercase()
}

/// Whether rows are grouped, joined or made distinct: their order then depends on SQLite's query plan.
fn has_undefined_order(query: &Query) -> bool {
    if query.with.is_some() {
        return true;
    }
    match query.body.as_ref() {
        SetExpr::Select(select) => {
            let text = select.to_string().to_lowercase();
            ["group by", "distinct", "join ", "from ("].iter().any(|word| text.contains(word)) || select.from.len() > 1
        }
        _ => true,
    }
}

/// Parses one expression over the columns of a table, without subqueries. Errors: invalid.
pub(crate) fn expression(text: &str) -> Result<Expr> {
    let wrong = |e: &dyn std::fmt::Display| Error::invalid(format!("the filter `{text}` cannot be read: {e}"));
    let mut parser = Parser::new(&GenericDialect {}).try_with_sql(text).map_err(|e| wrong(&e))?;
    let parsed = parser.parse_expr().map_err(|e| wrong(&e))?;
    let next = parser.peek_token();
    if next.token != Token::EOF {
        return Err(wrong(&format!("`{next}` was not expected")).help("write one condition, e.g. `reward > 0.5`"));
    }
    match parsed.visit(&mut StatementValidator { subqueries: false, tables: BTreeSet::new() }) {
        ControlFlow::Continue(()) => Ok(parsed),
        ControlFlow::Break(refusal) => Err(refusal.error().at(format!("the filter `{text}`"))),
    }
}

fn nested(access: &str) -> Error {
    Error::invalid(format!("`{access}`: lists and lists of structs are JSON text here"))
        .help("use `json_extract(messages, '$[0].content')` or `array_get(token_ids, 1)`")
}
