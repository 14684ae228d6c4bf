//! Finds a model's rows in tables of results.
//!
//! The name of a stage instance without its axis `seed`, `sft[lr=0.003]`, is an arm: all its seeds.

use crate::results::ResultRow;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::instance::without_seed;
use trainyard_core::{Error, Result};

/// Place of a model: the index of its table, and its name there.
pub type ModelPlace = (usize, String);

/// Model or arm that a name refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedModel {
    /// One model.
    One(ModelPlace),
    /// The models of an arm, by their seed.
    Seeds(BTreeMap<String, ModelPlace>),
}

/// Returns the names of the models of every table.
pub fn names(tables: &[Vec<ResultRow>]) -> Vec<Vec<String>> {
    let of = |table: &Vec<ResultRow>| {
        let names: BTreeSet<&String> = table.iter().map(|row| &row.model).collect();
        names.into_iter().cloned().collect()
    };
    tables.iter().map(of).collect()
}

/// Finds the model or the arm called `name` in tables with these models; `2/rl` refers to the model `rl` in the second
/// table. Errors: invalid, if no table or several tables have it.
pub fn find(tables: &[Vec<String>], name: &str) -> Result<NamedModel> {
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
    let chosen: Vec<(usize, &Vec<String>)> =
        tables.iter().enumerate().filter(|(i, _)| table.is_none_or(|n| n == i + 1)).collect();
    let found: Vec<usize> = chosen.iter().filter(|(_, t)| t.iter().any(|m| m == model)).map(|(i, _)| *i).collect();
    match found.as_slice() {
        [place] => return Ok(NamedModel::One((*place, model.to_string()))),
        [] => {}
        several => return Err(in_several(several.len(), name)),
    }
    let mut seeds = BTreeMap::new();
    for (place, other) in chosen.iter().flat_map(|(place, table)| table.iter().map(move |other| (*place, other))) {
        if let (arm, Some(seed)) = without_seed(other)
            && arm == model
            && seeds.insert(seed.to_string(), (place, other.clone())).is_some()
        {
            return Err(in_several(2, name));
        }
    }
    if seeds.is_empty() { Err(unknown(tables, name)) } else { Ok(NamedModel::Seeds(seeds)) }
}

fn in_several(count: usize, name: &str) -> Error {
    Error::invalid(format!("{count} tables contain a model `{name}`"))
        .help(format!("write `1/{name}` for the model of the first table"))
}

fn unknown(tables: &[Vec<String>], name: &str) -> Error {
    let names: BTreeSet<&str> = tables.iter().flatten().map(String::as_str).collect();
    Error::invalid(format!("no model `{name}` in the results"))
        .help(format!("there are: {}", names.into_iter().collect::<Vec<_>>().join(", ")))
}

/// Returns the rows of a model.
pub fn rows_of<'a>(tables: &'a [Vec<ResultRow>], (table, model): &ModelPlace) -> Vec<&'a ResultRow> {
    tables.get(*table).into_iter().flatten().filter(|row| row.model == *model).collect()
}

/// Returns the rows of the single model called `name`. Errors: invalid, if there is no such model or several.
pub fn rows<'a>(tables: &'a [Vec<ResultRow>], name: &str) -> Result<Vec<&'a ResultRow>> {
    let names = names(tables);
    match find(&names, name)? {
        NamedModel::One(place) => Ok(rows_of(tables, &place)),
        NamedModel::Seeds(_) => Err(unknown(&names, name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(tables: &[&[&str]]) -> Vec<Vec<String>> {
        tables.iter().map(|names| names.iter().map(ToString::to_string).collect()).collect()
    }

    #[test]
    fn a_name_without_its_seed_is_all_seeds() {
        let found = |of: &[&[&str]], name: &str| find(&tables(of), name);
        let all: &[&[&str]] = &[&["base", "sft[lr=1,seed=1]", "sft[lr=1,seed=2]"], &["sft[lr=2,seed=1]"]];
        assert_eq!(found(all, "base").unwrap(), NamedModel::One((0, "base".into())));
        assert_eq!(found(all, "sft[lr=2,seed=1]").unwrap(), NamedModel::One((1, "sft[lr=2,seed=1]".into())));
        let seeds = ["1", "2"].map(|seed| (seed.to_string(), (0, format!("sft[lr=1,seed={seed}]"))));
        assert_eq!(found(all, "sft[lr=1]").unwrap(), NamedModel::Seeds(seeds.into()));
        assert!(found(all, "sft").unwrap_err().message.contains("no model `sft`"), "an axis is left");
        let twice: &[&[&str]] = &[&["sft[seed=1]"], &["sft[seed=1]"]];
        assert!(found(twice, "sft").unwrap_err().message.contains("2 tables"));
        assert!(matches!(found(twice, "2/sft").unwrap(), NamedModel::Seeds(seeds) if seeds["1"].0 == 1));
    }
}
