//! Parses tools on a command line: a name, or a map with options.

use crate::catalogue::Catalogue;
use crate::conformance::place_sources;
use crate::inline;
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_envs::ToolConfig;

/// Parses tools. Paths in their options are relative to `folder`. Errors: invalid, with the tool and the mistake.
pub fn choices(catalogue: &Catalogue, texts: &[String], folder: &Path) -> Result<Vec<ToolConfig>> {
    let family = &catalogue.toolbox().tools;
    let schema = family.schema();
    texts
        .iter()
        .map(|text| {
            let mut options = inline::options("TOOL", text)?;
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
