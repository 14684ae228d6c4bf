//! Completes the config of a stage once all values that it reads are known.
//!
//! `check` completes a literal config. A config that reads a metric, a status or a row is validated and completed here,
//! with the same rules and messages, before its attempt is queued. A late value cannot name a source, because the
//! digest contains only the content of sources that `check` found.

use crate::engine::RunEngine;
use crate::io::NodeId;
use crate::scope::LateScope;
use serde_json::Value;
use trainyard_core::error::Context;
use trainyard_core::{Error, OptionProblem, Result, StageKey};
use trainyard_spec::options::{KindOptions, message_with_name, source_pointers};
use trainyard_spec::plan::PlanNode;

impl RunEngine {
    pub(crate) fn config_of(&mut self, node: NodeId) -> Result<Value> {
        let state = self.state(node);
        let (plan, stage) = (state.plan.clone(), state.key.clone());
        if let Some(config) = plan.config.as_literal() {
            return Ok(config);
        }
        let config = self.resolved(node).at(&plan.place)?;
        let catalogue = self.setup.catalogue.clone();
        let Some(info) = catalogue.kind(&plan.kind) else { return Ok(config) };
        let wrong = |problems: Vec<OptionProblem>| options_error(&plan, &stage, &problems);
        // Compiling a schema is slow, and a fan-out may have many instances.
        let options = self.options.entry(info.name).or_insert_with(|| KindOptions::new(info));
        let config = options.finalize(config, &format!("`{}`", info.name)).map_err(wrong)?;
        let complete = catalogue.validate_options(info.name, &config).map_err(wrong)?.config().clone();
        let late = late_sources(&plan, options, &complete);
        if late.is_empty() { Ok(complete) } else { Err(wrong(late)) }
    }

    fn resolved(&self, node: NodeId) -> Result<Value> {
        self.state(node).plan.config.resolve(&LateScope { engine: self, node })
    }
}

/// Returns all problems in one error.
fn options_error(plan: &PlanNode, stage: &StageKey, problems: &[OptionProblem]) -> Error {
    let all: Vec<String> = problems.iter().map(message_with_name).collect();
    let error = Error::invalid(format!("{}: options of `{stage}`: {}", plan.place, all.join("; ")));
    match problems.iter().find_map(|p| p.help.as_ref()) {
        Some(help) => error.help(help),
        None => error,
    }
}

/// Returns the sources that came with a late value, for instance in a row.
fn late_sources(plan: &PlanNode, options: &KindOptions, config: &Value) -> Vec<OptionProblem> {
    let mut found = Vec::new();
    source_pointers(config, &options.view(), "", &mut found);
    // A program of the machine is named by its absolute path.
    let named = found.into_iter().filter(|found| !found.word || !found.text.starts_with('/'));
    let late = named.filter(|found| !plan.sources.values().any(|source| source.location == found.text));
    late.map(|found| {
        OptionProblem::new(found.pointer, format!("the source `{}` must be known before the run", found.text))
            .help("its content is part of the stage digest: use `params` or `matrix`")
    })
    .collect()
}
