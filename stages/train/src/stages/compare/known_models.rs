//! Checks the names of models against those that the wired evaluations report, before anything runs.

use super::models;
use crate::results::MODELS_FACT;
use serde_json::Value;
use trainyard_core::{OptionProblem, Result, WiredInputs};

/// Reports the names, each with its pointer, that no table of `results` has, if the models of all tables are known.
/// `each`: every table must have the name.
pub fn unknown(named: &[(String, &str)], each: bool, inputs: &WiredInputs) -> Vec<OptionProblem> {
    let Some(tables) = tables(inputs) else { return Vec::new() };
    let check = |name: &str| -> Result<()> {
        if each {
            return tables.iter().try_for_each(|table| models::find(std::slice::from_ref(table), name).map(|_| ()));
        }
        models::find(&tables, name).map(|_| ())
    };
    let problem = |(pointer, name): &(String, &str)| {
        let e = check(name).err()?;
        Some(OptionProblem { pointer: pointer.clone(), message: e.message, help: e.help })
    };
    named.iter().filter_map(problem).collect()
}

/// Returns the names of the models of every table of `results`; `None` unless all are known.
fn tables(inputs: &WiredInputs) -> Option<Vec<Vec<String>>> {
    let names = |fact: &Value| -> Option<Vec<String>> {
        fact.as_array()?.iter().map(|name| name.as_str().map(str::to_string)).collect()
    };
    let known: Vec<Vec<String>> = inputs.fact("results", MODELS_FACT).map(names).collect::<Option<_>>()?;
    (!known.is_empty() && inputs.get("results") == Some(&known.len())).then_some(known)
}
