//! Tools that a command line names: a name, or a map with options.

use crate::catalogue::Catalogue;
use crate::conformance::place_sources;
use serde_json::Value;
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_envs::ToolChoice;
use trainyard_spec::{Diagnostic, Sources, yaml};

/// Reads tools; files that they name are those of `folder`. Errors: invalid, with the tool and what is wrong.
pub fn choices(catalogue: &Catalogue, texts: &[String], folder: &Path) -> Result<Vec<ToolChoice>> {
    let family = &catalogue.toolbox().tools;
    let schema = family.schema();
    texts
        .iter()
        .map(|text| {
            let mut options = read(text)?;
            place_sources(&schema, &mut options, folder);
            if let Some(problem) = family.check(&options).into_iter().next() {
                let place = problem.pointer.trim_start_matches('/');
                let error = Error::invalid(problem.message);
                let error = if place.is_empty() { error } else { error.at(place) }.at(format!("tool `{text}`"));
                return Err(problem.help.into_iter().fold(error, Error::help));
            }
            serde_json::from_value(options).map_err(|e| Error::invalid(format!("tool `{text}`: {e}")))
        })
        .collect()
}

fn read(text: &str) -> Result<Value> {
    let mut sources = Sources::default();
    let file = sources.add("the command line".to_string(), None, text.to_string());
    let (tree, diagnostics) = yaml::read(&sources, file);
    let tree = tree.filter(|_| !diagnostics.iter().any(Diagnostic::is_error));
    tree.map(|tree| tree.value()).ok_or_else(|| {
        let error = Error::invalid(format!("`{text}` is no tool"));
        error.help("write a name, or a map: `{kind: python, interpreter: cpython}`")
    })
}
