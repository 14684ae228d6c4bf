//! Translates calls of functions, under SQLite's names.

use super::Translator;
use super::texts::tested;
use super::value::{Kind, TypedExpr};
use polars::prelude::{DataType, Expr, coalesce};
use regex::Regex;
use sqlparser::ast::{Function, FunctionArg, FunctionArgExpr, FunctionArguments};

/// No list has more items.
const LONGEST_LIST: u64 = 1 << 40;

impl Translator<'_, '_> {
    pub(super) fn call(&mut self, function: &Function) -> Option<TypedExpr> {
        let arguments = plain_arguments(function)?;
        let name = function.name.to_string().to_lowercase();
        let values = arguments.into_iter().map(|sql| self.operand(sql)).collect::<Option<Vec<_>>>()?;
        match (name.as_str(), values.as_slice()) {
            ("coalesce" | "ifnull", [_, _, ..]) => first_known(values),
            (_, [value]) => of_one(&name, value.clone()),
            (_, [text, part]) => of_text(&name, text.clone(), part.text.clone()?),
            _ => None,
        }
    }
}

fn of_one(name: &str, value: TypedExpr) -> Option<TypedExpr> {
    match name {
        "abs" => value.absolute(),
        "length" => value.length(),
        "lower" => value.with_case(str::to_ascii_lowercase),
        "upper" => value.with_case(str::to_ascii_uppercase),
        "array_length" if value.kind == Kind::List => {
            Some(TypedExpr::new(Kind::Int(LONGEST_LIST), value.expr.list().len().cast(DataType::Int64)))
        }
        _ => None,
    }
}

/// Translates a test of a text by a literal.
fn of_text(name: &str, text: TypedExpr, part: String) -> Option<TypedExpr> {
    match name {
        "contains" => tested(text, move |text| text.contains(part.as_str())),
        "starts_with" => tested(text, move |text| text.starts_with(part.as_str())),
        "ends_with" => tested(text, move |text| text.ends_with(part.as_str())),
        "regexp_like" => {
            let pattern = Regex::new(&part).ok()?;
            tested(text, move |text| pattern.is_match(text))
        }
        _ => None,
    }
}

/// Translates `coalesce` of values of one type.
fn first_known(values: Vec<TypedExpr>) -> Option<TypedExpr> {
    let kind = values.iter().map(|value| value.kind).reduce(Kind::common_or_bad)?.known()?;
    let known: Vec<Expr> =
        values.into_iter().filter(|value| value.kind != Kind::Null).map(|value| value.expr).collect();
    (!known.is_empty()).then(|| TypedExpr::new(kind, coalesce(&known)))
}

/// Returns the arguments of a call without further clauses.
fn plain_arguments(function: &Function) -> Option<Vec<&sqlparser::ast::Expr>> {
    let bare = function.over.is_none()
        && function.filter.is_none()
        && function.null_treatment.is_none()
        && function.within_group.is_empty()
        && !function.uses_odbc_syntax
        && matches!(function.parameters, FunctionArguments::None);
    let FunctionArguments::List(list) = &function.args else { return None };
    if !bare || list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
        return None;
    }
    let plain = |argument| match argument {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref expression)) => Some(expression),
        _ => None,
    };
    list.args.iter().map(plain).collect()
}
