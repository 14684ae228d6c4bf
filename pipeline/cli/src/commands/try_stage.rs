//! Implements `trainyard try FILE --stage STAGE`, which runs a few episodes of a stage before training. It stores
//! nothing.

use super::models;
use crate::args::{OutputFormat, TryArgs};
use crate::compiled::{self, WorkflowSource};
use crate::exit::CliExit;
use crate::output::human::{print_json, print_note, print_text};
use crate::output::trial as output;
use crate::session::{self, Access};
use std::sync::Arc;
use trainyard_api::{CancelToken, Reporter};
use trainyard_app::{Catalogue, trial};
use trainyard_core::Result;
use trainyard_core::attempt::{AttemptMessage, LogLevel};

/// Runs and prints the episodes. The exit code does not depend on their outcome.
pub fn run(args: &TryArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let session = session::open(&args.site, Access::ReadOrEmpty, catalogue)?;
    let json = args.format == OutputFormat::Json;
    let plan = compiled::plan_or_json(&args.workflow, WorkflowSource::PLAIN, &**catalogue, &session.site, json)?;
    let model = args.model.as_deref().map(|name| models::find(&session, name)).transpose()?;
    let options = trial::TrialOptions {
        stage: &args.stage,
        episodes: args.episodes as usize,
        seed: args.seed,
        model: model.as_ref().map(|model| model.input.clone()),
        cancel: CancelToken::default(),
        reporter: Arc::new(TrialReporter),
    };
    let result = trial::run_trial(&session, catalogue, plan, options)?;
    match args.format {
        OutputFormat::Json => print_json(&output::document(&result))?,
        OutputFormat::Text => print_text(&output::text(&result)),
    }
    Ok(CliExit::Done)
}

/// Reporter that prints log lines of the stage to stderr.
struct TrialReporter;

impl Reporter for TrialReporter {
    fn report(&self, message: AttemptMessage) {
        match message {
            AttemptMessage::Log { level: LogLevel::Warn, text } => print_note(&format!("warning: {text}")),
            AttemptMessage::Log { text, .. } => print_note(&text),
            _ => {}
        }
    }
}
