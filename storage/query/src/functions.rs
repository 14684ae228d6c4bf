//! Registers functions that SQL users expect and SQLite lacks: mathematics, regular expressions, statistics, lists.
//!
//! Lists are JSON text. Aggregates also work as window functions, and skip nulls. Other functions return null for a
//! null argument, except that the pattern of `regexp_like` must not be null.

use regex::Regex;
use rusqlite::functions::{Aggregate, Context, FunctionFlags, WindowAggregate};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error as Sqlite, Result};
use serde_json::Value;

const FLAGS: FunctionFlags = FunctionFlags::SQLITE_UTF8.union(FunctionFlags::SQLITE_DETERMINISTIC);

/// Aggregates of this file, in addition to those of SQLite.
pub(crate) const AGGREGATES: [&str; 6] = ["median", "quantile_cont", "stddev", "stddev_pop", "variance", "var_pop"];

/// Adds all functions to a connection.
pub(crate) fn register(connection: &Connection) -> Result<()> {
    mathematics(connection)?;
    texts(connection)?;
    lists(connection)?;
    statistics(connection)
}

type NumberFunction = fn(f64) -> f64;
type BinaryNumberFunction = fn(f64, f64) -> f64;
type TextPredicate = fn(&str, &str) -> bool;
type ListFunction = fn(&[f64]) -> Option<f64>;

fn mathematics(connection: &Connection) -> Result<()> {
    const UNARY: [(&str, NumberFunction); 20] = [
        ("acos", f64::acos),
        ("asin", f64::asin),
        ("atan", f64::atan),
        ("cbrt", f64::cbrt),
        ("ceil", f64::ceil),
        ("ceiling", f64::ceil),
        ("cos", f64::cos),
        ("degrees", f64::to_degrees),
        ("exp", f64::exp),
        ("floor", f64::floor),
        ("ln", f64::ln),
        ("log10", f64::log10),
        ("log1p", f64::ln_1p),
        ("log2", f64::log2),
        ("radians", f64::to_radians),
        ("sin", f64::sin),
        ("sqrt", f64::sqrt),
        ("tan", f64::tan),
        ("tanh", f64::tanh),
        ("trunc", f64::trunc),
    ];
    const BINARY: [(&str, BinaryNumberFunction); 4] =
        [("atan2", f64::atan2), ("log", |base, x| x.log(base)), ("pow", f64::powf), ("power", f64::powf)];
    for (name, function) in UNARY {
        connection.create_scalar_function(name, 1, FLAGS, move |c| Ok(number(c, 0)?.map(function)))?;
    }
    for (name, function) in BINARY {
        connection.create_scalar_function(name, 2, FLAGS, move |c| {
            Ok(number(c, 0)?.zip(number(c, 1)?).map(|(a, b)| function(a, b)))
        })?;
    }
    Ok(())
}

fn texts(connection: &Connection) -> Result<()> {
    const TESTS: [(&str, TextPredicate); 3] = [
        ("starts_with", |text, part| text.starts_with(part)),
        ("ends_with", |text, part| text.ends_with(part)),
        ("contains", |text, part| text.contains(part)),
    ];
    for (name, test) in TESTS {
        connection.create_scalar_function(name, 2, FLAGS, move |c| {
            Ok(text(c, 0)?.zip(text(c, 1)?).map(|(text, part)| test(text, part)))
        })?;
    }
    connection.create_scalar_function("strpos", 2, FLAGS, |c| {
        let place = |(text, part): (&str, &str)| text.find(part).map_or(0, |at| text[..at].chars().count() as i64 + 1);
        Ok(text(c, 0)?.zip(text(c, 1)?).map(place))
    })?;
    connection.create_scalar_function("left", 2, FLAGS, |c| {
        let head = |(text, n): (&str, f64)| text.chars().take(n.max(0.0) as usize).collect::<String>();
        Ok(text(c, 0)?.zip(number(c, 1)?).map(head))
    })?;
    connection.create_scalar_function("right", 2, FLAGS, |c| {
        let tail = |(text, n): (&str, f64)| {
            text.chars().skip(text.chars().count().saturating_sub(n.max(0.0) as usize)).collect::<String>()
        };
        Ok(text(c, 0)?.zip(number(c, 1)?).map(tail))
    })?;
    connection.create_scalar_function("reverse", 1, FLAGS, |c| {
        Ok(text(c, 0)?.map(|text| text.chars().rev().collect::<String>()))
    })?;
    connection.create_scalar_function("regexp_like", 2, FLAGS, |c| {
        let pattern = c.get_or_create_aux(1, |pattern| Regex::new(pattern.as_str()?).map_err(boxed))?;
        Ok(text(c, 0)?.map(|text| pattern.is_match(text)))
    })
}

fn lists(connection: &Connection) -> Result<()> {
    const OF_NUMBERS: [(&str, ListFunction); 4] = [
        ("array_sum", |list| Some(list.iter().sum())),
        ("array_mean", |list| (!list.is_empty()).then(|| list.iter().sum::<f64>() / list.len() as f64)),
        ("array_min", |list| list.iter().copied().reduce(f64::min)),
        ("array_max", |list| list.iter().copied().reduce(f64::max)),
    ];
    for (name, function) in OF_NUMBERS {
        connection.create_scalar_function(name, 1, FLAGS, move |c| {
            let numbers = |list: Vec<Value>| list.iter().filter_map(number_of).collect::<Vec<f64>>();
            Ok(list(c, 0)?.map(numbers).and_then(|list| function(&list)))
        })?;
    }
    connection.create_scalar_function("array_length", 1, FLAGS, |c| Ok(list(c, 0)?.map(|list| list.len() as i64)))?;
    connection.create_scalar_function("array_get", 2, FLAGS, |c| {
        // Counted from 1, as in SQL.
        let item = |(list, n): (Vec<Value>, f64)| list.get((n as usize).checked_sub(1)?).map(sql_text);
        Ok(list(c, 0)?.zip(number(c, 1)?).and_then(item))
    })?;
    connection.create_scalar_function("array_contains", 2, FLAGS, |c| {
        let Some(list) = list(c, 0)? else { return Ok(None) };
        let found = match c.get_raw(1) {
            ValueRef::Null => return Ok(None),
            ValueRef::Text(_) => list.iter().any(|item| item.as_str() == text(c, 1).ok().flatten()),
            _ => number(c, 1)?.is_some_and(|expected| list.iter().any(|item| number_of(item) == Some(expected))),
        };
        Ok(Some(found))
    })?;
    connection.create_scalar_function("array_to_string", 2, FLAGS, |c| {
        let join = |(list, with): (Vec<Value>, &str)| list.iter().map(sql_text).collect::<Vec<_>>().join(with);
        Ok(list(c, 0)?.zip(text(c, 1)?).map(join))
    })
}

fn statistics(connection: &Connection) -> Result<()> {
    let moments = |name, statistic| connection.create_window_function(name, 1, FLAGS, SampleAggregate { statistic });
    moments("median", |sample: &[f64], _| quantile(sample, 0.5))?;
    moments("stddev", |sample: &[f64], _| variance(sample, 1).map(f64::sqrt))?;
    moments("stddev_pop", |sample: &[f64], _| variance(sample, 0).map(f64::sqrt))?;
    moments("variance", |sample: &[f64], _| variance(sample, 1))?;
    moments("var_pop", |sample: &[f64], _| variance(sample, 0))?;
    connection.create_window_function("quantile_cont", 2, FLAGS, SampleAggregate { statistic: quantile })
}

/// An aggregate that needs all values at once, and perhaps a second argument.
struct SampleAggregate {
    statistic: fn(&[f64], f64) -> Option<f64>,
}

/// The values of the window so far, in order, and the last second argument.
type WindowValues = (std::collections::VecDeque<f64>, f64);

impl SampleAggregate {
    fn evaluate(&self, values: &WindowValues) -> Option<f64> {
        let list: Vec<f64> = values.0.iter().copied().collect();
        (self.statistic)(&list, values.1)
    }
}

impl Aggregate<WindowValues, Option<f64>> for SampleAggregate {
    fn init(&self, _: &mut Context<'_>) -> Result<WindowValues> {
        Ok(WindowValues::default())
    }
    fn step(&self, c: &mut Context<'_>, values: &mut WindowValues) -> Result<()> {
        if c.len() > 1 {
            values.1 = number(c, 1)?.unwrap_or(f64::NAN);
        }
        values.0.extend(number(c, 0)?);
        Ok(())
    }
    fn finalize(&self, _: &mut Context<'_>, values: Option<WindowValues>) -> Result<Option<f64>> {
        Ok(values.and_then(|values| self.evaluate(&values)))
    }
}

impl WindowAggregate<WindowValues, Option<f64>> for SampleAggregate {
    fn value(&self, values: Option<&mut WindowValues>) -> Result<Option<f64>> {
        Ok(values.and_then(|values| self.evaluate(values)))
    }
    fn inverse(&self, c: &mut Context<'_>, values: &mut WindowValues) -> Result<()> {
        if number(c, 0)?.is_some() {
            values.0.pop_front();
        }
        Ok(())
    }
}

/// Computes Σ (x − mean)² / (n − ddof); `None` with too few values.
fn variance(sample: &[f64], ddof: usize) -> Option<f64> {
    let divisor = sample.len().checked_sub(ddof).filter(|n| *n > 0)? as f64;
    let mean = sample.iter().sum::<f64>() / sample.len() as f64;
    Some(sample.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / divisor)
}

/// Computes the quantile `share` (0 to 1), interpolated between neighbors.
fn quantile(sample: &[f64], share: f64) -> Option<f64> {
    if !(0.0..=1.0).contains(&share) {
        return None;
    }
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = share * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(low + (high - low) * place.fract())
}

fn number(c: &Context<'_>, i: usize) -> Result<Option<f64>> {
    match c.get_raw(i) {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(value) => Ok(Some(value as f64)),
        ValueRef::Real(value) => Ok(Some(value)),
        ValueRef::Text(text) => {
            let parsed = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok());
            parsed.map(Some).ok_or_else(|| boxed("expected a number, found text"))
        }
        ValueRef::Blob(_) => Err(boxed("expected a number, found bytes")),
    }
}

fn text<'c>(c: &'c Context<'_>, i: usize) -> Result<Option<&'c str>> {
    match c.get_raw(i) {
        ValueRef::Null => Ok(None),
        ValueRef::Text(text) => std::str::from_utf8(text).map(Some).map_err(boxed),
        _ => Err(boxed("expected text, found a number")),
    }
}

fn list(c: &Context<'_>, i: usize) -> Result<Option<Vec<Value>>> {
    text(c, i)?.map(|text| serde_json::from_str(text).map_err(|_| boxed("expected a list"))).transpose()
}

fn number_of(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_bool().map(|b| f64::from(u8::from(b))))
}

fn sql_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

fn boxed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Sqlite {
    Sqlite::UserFunctionError(error.into())
}
