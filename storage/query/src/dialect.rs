//! Translates common SQL into SQLite's dialect.
//!
//! `/` divides integers into a float, as in most analytical query engines; `x::int`, `ILIKE` and regular expressions
//! are supported; functions have their common names.

use crate::flatten::CellKind;
use crate::functions::AGGREGATES;
use sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, UnaryOperator, Value, VisitMut, VisitorMut, WindowSpec, WindowType,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use std::ops::ControlFlow;

/// Other names of SQLite's functions.
const SYNONYMS: [(&str, &str); 16] = [
    ("array_agg", "json_group_array"),
    ("bool_and", "min"),
    ("bool_or", "max"),
    ("char_length", "length"),
    ("character_length", "length"),
    ("greatest", "max"),
    ("least", "min"),
    ("len", "length"),
    ("mean", "avg"),
    ("quantile", "quantile_cont"),
    ("stddev_samp", "stddev"),
    ("stdev", "stddev"),
    ("string_agg", "group_concat"),
    ("var", "variance"),
    ("var_samp", "variance"),
    ("variance_samp", "variance"),
];

/// SQLite's own aggregates. `min` and `max` of several arguments are not aggregates.
const SQLITE_AGGREGATES: [&str; 8] = ["avg", "count", "group_concat", "json_group_array", "max", "min", "sum", "total"];

/// Functions that return booleans.
const PREDICATES: [&str; 5] = ["array_contains", "contains", "ends_with", "regexp_like", "starts_with"];

/// Rewrites a statement or an expression for SQLite.
pub(crate) fn rewrite_for_sqlite<N: VisitMut>(node: &mut N) {
    let _ = node.visit(&mut DialectRewriter { windows: false });
}

/// Rewrites an expression that is computed for every row: its aggregates run over the whole table.
pub(crate) fn rewrite_row_expression(expression: &mut Expr) {
    let _ = expression.visit(&mut DialectRewriter { windows: true });
}

struct DialectRewriter {
    /// Whether aggregates become windows over the whole table.
    windows: bool,
}

impl VisitorMut for DialectRewriter {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if let Some(text) = rewritten(expression)
            && let Some(parsed) = parse(&text)
        {
            *expression = parsed;
        }
        match expression {
            Expr::Cast { kind, data_type, .. } => {
                *kind = CastKind::Cast;
                if matches!(data_type, DataType::String(_)) {
                    *data_type = DataType::Text;
                }
            }
            Expr::Function(function) => self.function(function),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl DialectRewriter {
    fn function(&self, function: &mut Function) {
        let name = name_of(function);
        let known = SYNONYMS.iter().find(|(synonym, _)| *synonym == name).map(|(_, known)| *known);
        if let Some(known) = known {
            function.name = ObjectName::from(vec![Ident::new(known)]);
        }
        let name = known.unwrap_or(&name);
        if self.windows && function.over.is_none() && is_aggregate(name, function) {
            let all = WindowSpec { window_name: None, partition_by: vec![], order_by: vec![], window_frame: None };
            function.over = Some(WindowType::WindowSpec(all));
        }
    }
}

/// Returns a replacement for an expression that SQLite cannot parse, or interprets otherwise.
fn rewritten(expression: &Expr) -> Option<String> {
    let not = |negated: bool| if negated { "NOT " } else { "" };
    match expression {
        Expr::BinaryOp { left, op: BinaryOperator::Divide, right } => Some(format!("CAST({left} AS REAL) / {right}")),
        Expr::BinaryOp { left, op: BinaryOperator::DuckIntegerDivide, right } => {
            Some(format!("CAST(floor(CAST({left} AS REAL) / {right}) AS INTEGER)"))
        }
        Expr::BinaryOp { left, op: BinaryOperator::PGRegexMatch, right } => {
            Some(format!("regexp_like({left}, {right})"))
        }
        Expr::ILike { negated, expr, pattern, .. } => {
            Some(format!("lower({expr}) {}LIKE lower({pattern})", not(*negated)))
        }
        Expr::RLike { negated, expr, pattern, .. } => {
            Some(format!("({}regexp_like({expr}, {pattern}))", not(*negated)))
        }
        _ => None,
    }
}

fn parse(text: &str) -> Option<Expr> {
    Parser::new(&GenericDialect {}).try_with_sql(text).and_then(|mut parser| parser.parse_expr()).ok()
}

fn name_of(function: &Function) -> String {
    function.name.to_string().to_lowercase()
}

/// Whether a call aggregates rows. `min(a, b)` compares its arguments instead.
fn is_aggregate(name: &str, function: &Function) -> bool {
    let arguments = match &function.args {
        FunctionArguments::List(list) => list.args.len(),
        FunctionArguments::None | FunctionArguments::Subquery(_) => 0,
    };
    AGGREGATES.contains(&name) || (SQLITE_AGGREGATES.contains(&name) && (arguments <= 1 || name == "group_concat"))
}

/// Infers the kind of an expression from its form, if possible: SQLite has neither booleans nor lists. `column` returns
/// the kind of a column.
pub(crate) fn kind_of(expression: &Expr, column: &dyn Fn(&str) -> Option<CellKind>) -> Option<CellKind> {
    use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or, Spaceship};
    match expression {
        Expr::Nested(inner) => kind_of(inner, column),
        Expr::Identifier(name) => column(&name.value),
        Expr::CompoundIdentifier(names) => names.last().and_then(|name| column(&name.value)),
        Expr::Value(value) => matches!(value.value, Value::Boolean(_)).then_some(CellKind::Bool),
        Expr::UnaryOp { op: UnaryOperator::Not, .. }
        | Expr::BinaryOp { op: And | Or | Eq | NotEq | Lt | LtEq | Gt | GtEq | Spaceship, .. }
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsDistinctFrom(..)
        | Expr::IsNotDistinctFrom(..)
        | Expr::InList { .. }
        | Expr::InSubquery { .. }
        | Expr::Between { .. }
        | Expr::Exists { .. }
        | Expr::Like { .. } => Some(CellKind::Bool),
        Expr::Cast { data_type: DataType::Boolean | DataType::Bool, .. } => Some(CellKind::Bool),
        Expr::Case { conditions, else_result, .. } => {
            let results = conditions.iter().map(|when| &when.result).chain(else_result.as_deref());
            shared(results.map(|result| kind_of(result, column)))
        }
        Expr::Function(function) => of_function(function, column),
        _ => None,
    }
}

fn of_function(function: &Function, column: &dyn Fn(&str) -> Option<CellKind>) -> Option<CellKind> {
    let name = name_of(function);
    if PREDICATES.contains(&name.as_str()) {
        return Some(CellKind::Bool);
    }
    if name == "json_group_array" {
        return Some(CellKind::List);
    }
    // These functions return one of their arguments.
    if !["coalesce", "first_value", "ifnull", "last_value", "max", "min", "nullif"].contains(&name.as_str()) {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    let plain = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expression)) => kind_of(expression, column),
        _ => None,
    };
    shared(list.args.iter().map(plain))
}

/// Returns the common kind of all.
fn shared(kinds: impl Iterator<Item = Option<CellKind>>) -> Option<CellKind> {
    let kinds: Vec<Option<CellKind>> = kinds.collect();
    kinds.first().copied().flatten().filter(|first| kinds.iter().all(|kind| *kind == Some(*first)))
}
