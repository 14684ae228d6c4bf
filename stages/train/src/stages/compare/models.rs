//! Finds a model's rows in tables of results.

use crate::results::ResultRow;
use std::collections::BTreeSet;
use trainyard_core::{Error, Result};

/// Returns the rows of the model called `name`; `2/rl` refers to the model `rl` in the second table. Errors: invalid,
/// if no table or several tables have the model.
pub fn rows<'a>(tables: &'a [Vec<ResultRow>], name: &str) -> Result<Vec<&'a ResultRow>> {
    let (table, model) = match name.split_once('/').map(|(n, model)| (n.parse::<usize>(), model)) {
        Some((Ok(n), model)) => (Some(n), model),
        _ => (None, name),
    };
    if table.is_some_and(|n| n == 0 || n > tables.len()) {
        return Err(Error::invalid(format!(
            "no table for `{name}`: {} tables are wired, counted from 1",
            tables.len()
        )));
    }
    let holds = |table: &[ResultRow]| table.iter().any(|r| r.model == model);
    let found: Vec<&Vec<ResultRow>> = tables
        .iter()
        .enumerate()
        .filter(|(i, t)| table.is_none_or(|n| n == i + 1) && holds(t))
        .map(|(_, t)| t)
        .collect();
    match found.as_slice() {
        [table] => Ok(table.iter().filter(|r| r.model == model).collect()),
        [] => {
            let names: BTreeSet<&str> = tables.iter().flatten().map(|r| r.model.as_str()).collect();
            Err(Error::invalid(format!("no model `{name}` in the results"))
                .help(format!("there are: {}", names.into_iter().collect::<Vec<_>>().join(", "))))
        }
        several => Err(Error::invalid(format!("{} tables contain a model `{name}`", several.len()))
            .help(format!("write `1/{name}` for the model of the first table"))),
    }
}
