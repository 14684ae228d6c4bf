//! `trainyard try FILE --stage STAGE`: a few episodes of a stage, before anything is trained. Stores nothing.

use super::artifacts::fetch;
use crate::args::{Format, TryArgs};
use crate::compiled::{self, Reading};
use crate::exit::Exit;
use crate::names;
use crate::output::human::{print_json, print_note, print_text};
use crate::output::tried;
use crate::session::{self, Access, Session};
use std::path::Path;
use std::sync::Arc;
use trainyard_api::{CancelToken, InputArtifact, Reporter};
use trainyard_app::{Catalogue, Scratch, trial};
use trainyard_core::attempt::{AttemptMessage, LogLevel};
use trainyard_core::{ArtifactKind, Error, Result};

/// Plays and prints the episodes. The exit code does not depend on how they end.
pub fn run(args: &TryArgs, catalogue: &Arc<Catalogue>) -> Result<Exit> {
    let session = session::open(&args.site, Access::LookOrEmpty, catalogue)?;
    let json = args.format == Format::Json;
    let plan = compiled::plan_or_json(&args.workflow, Reading::PLAIN, &**catalogue, &session.site, json)?;
    let model = args.model.as_deref().map(|name| model(&session, name)).transpose()?;
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

/// A model, and the folder that holds it if it was fetched.
struct Model {
    input: InputArtifact,
    _folder: Option<Scratch>,
}

/// A folder, or an artifact by its name.
fn model(session: &Session, name: &str) -> Result<Model> {
    let path = Path::new(name);
    if path.is_dir() {
        return Ok(Model { input: trial::model_in(path)?, _folder: None });
    }
    if !name.contains('/') || path.is_absolute() || name.starts_with('.') {
        return Err(Error::invalid(format!("there is no folder {name}"))
            .help("name the folder of a model, or an artifact such as `latest/sft/model`"));
    }
    let found = session.block_on(names::artifact(&session.store, name))?;
    let output = found.output();
    if output.kind != ArtifactKind::Model {
        return Err(Error::invalid(format!("{name} is a {}, not a model", output.kind)));
    }
    let (digest, metadata) = (output.digest.clone(), output.metadata.clone());
    let folder = fetch::files(session, &found)?;
    let input = InputArtifact { digest, metadata, ..trial::model_in(folder.path())? };
    Ok(Model { input, _folder: Some(folder) })
}

/// What the stage says beside its result.
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
