//! `trainyard try FILE --stage STAGE`: a few episodes of a stage, before anything is trained. Stores nothing.

use super::models;
use crate::args::{Format, TryArgs};
use crate::compiled::{self, Reading};
use crate::exit::Exit;
use crate::output::human::{print_json, print_note, print_text};
use crate::output::tried;
use crate::session::{self, Access};
use std::sync::Arc;
use trainyard_api::{CancelToken, Reporter};
use trainyard_app::{Catalogue, trial};
use trainyard_core::Result;
use trainyard_core::attempt::{AttemptMessage, LogLevel};

/// Plays and prints the episodes. The exit code does not depend on their outcome.
pub fn run(args: &TryArgs, catalogue: &Arc<Catalogue>) -> Result<Exit> {
    let session = session::open(&args.site, Access::LookOrEmpty, catalogue)?;
    let json = args.format == Format::Json;
    let plan = compiled::plan_or_json(&args.workflow, Reading::PLAIN, &**catalogue, &session.site, json)?;
    let model = args.model.as_deref().map(|name| models::find(&session, name)).transpose()?;
    let asked = trial::Asked {
        stage: &args.stage,
        episodes: args.episodes as usize,
        seed: args.seed,
        model: model.as_ref().map(|model| model.input.clone()),
        cancel: CancelToken::default(),
        reporter: Arc::new(OnStderr),
    };
    let played = trial::play(&session, catalogue, plan, asked)?;
    match args.format {
        Format::Json => print_json(&tried::document(&played))?,
        Format::Text => print_text(&tried::text(&played)),
    }
    Ok(Exit::Done)
}

/// Reporter that prints a stage's messages to stderr.
struct OnStderr;

impl Reporter for OnStderr {
    fn report(&self, message: AttemptMessage) {
        match message {
            AttemptMessage::Log { level: LogLevel::Warn, text } => print_note(&format!("warning: {text}")),
            AttemptMessage::Log { text, .. } => print_note(&text),
            _ => {}
        }
    }
}
