//! Implements `trainyard serve-model MODEL`, which serves a model over the APIs that agents use.

use super::models;
use super::serve::token_file;
use crate::args::ServeModelArgs;
use crate::exit::CliExit;
use crate::output::human::print_note;
use crate::session::{self, Access};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use trainyard_app::{Catalogue, inline, machine};
use trainyard_core::error::io_error;
use trainyard_core::{Chance, Clock, Error, Result, Secret, Secrets, SystemClock};
use trainyard_http_server::{raise_descriptor_limit, random_seed};
use trainyard_lm::ModelFolder;
use trainyard_lm::backend::SamplerOptions;
use trainyard_lm::backend::registry::BackendSlot;
use trainyard_model_api::ModelApiSettings;
use trainyard_model_api::server;
use trainyard_model_server::{ModelServer, ModelServerOptions};
use trainyard_runtime::Interrupt;

/// Serves the model until a signal arrives, then completes the active requests. A second signal aborts them.
pub fn run(args: &ServeModelArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let session = session::open(&args.site, Access::ReadOrEmpty, catalogue)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    // The ids of responses follow from it: a client must not guess those of conversations that it could continue.
    let chance = Chance::new(random_seed()?).child("serve_model", &[]);
    let key = args.key_file.as_deref().map(key).transpose()?;
    let mut settings = ModelApiSettings { key, ..ModelApiSettings::new(clock, chance) };
    // Each waiting request has a connection, and further requests need one for their rejection.
    settings.limits.connections += args.max_batch as usize + args.max_waiting as usize;
    settings.limits = settings.limits.within_descriptors(raise_descriptor_limit());
    // The address is bound before the model is loaded, since loading can take minutes and the address may be
    // unavailable.
    let listener = session.block_on(server::bind(args.bind, &settings))?;
    let address = listener.local_addr().unwrap_or(args.bind);
    let needs_none = args.no_token || settings.key.is_some();
    let file = (!needs_none).then(|| token_file("serve-model", address.port())).transpose()?;
    settings.key = file.as_ref().map(|file| file.token().clone()).or(settings.key);
    let found = models::find(&session, &args.model)?;
    let model = ModelFolder::load(&found.input.folder)?;
    let backend = backend(catalogue, &args.backend)?;
    let threads = args.threads.unwrap_or_else(machine::cpus) as usize;
    let sampler = backend.sampler(&model, &SamplerOptions { threads })?;
    let options = ModelServerOptions {
        name: args.name.clone().unwrap_or_else(|| args.model.clone()),
        max_batch: args.max_batch as usize,
        max_waiting: args.max_waiting as usize,
        calls: args.calls.clone(),
        chance,
    };
    let name = options.name.clone();
    let host = Arc::new(ModelServer::start(&model.chat, &model.generation, sampler, options)?);
    drop(model);
    print_note(&format!("serving {name} on http://{address}/v1"));
    if let Some(file) = &file {
        print_note(&format!("requests need the key in {}", file.path().display()));
    }
    session.block_on(async {
        let interrupt = Interrupt::default();
        interrupt.on_signals()?;
        let stop = interrupt.clone();
        tokio::select! {
            () = server::serve(listener, host, settings, async move { stop.beyond(0).await }) => {}
            () = interrupt.beyond(1) => {}
        }
        Ok(())
    })?;
    Ok(CliExit::Done)
}

/// Parses and builds a backend, written as in stages. Errors: invalid, with all problems.
fn backend(catalogue: &Catalogue, text: &str) -> Result<Arc<dyn trainyard_lm::backend::Backend>> {
    let mut options = json!({ "backend": inline::options("--backend", text)? });
    let slot = BackendSlot::read(catalogue.backends(), "/backend", &mut options);
    trainyard_api::stage::refuse(slot.problems())?;
    slot.build(&Secrets::default())
}

/// Reads the API key from the first line of a file. Errors: invalid (an empty first line), and those of reading.
fn key(file: &Path) -> Result<Secret> {
    let text = std::fs::read_to_string(file).map_err(|e| io_error(file, &e))?;
    let key = text.lines().next().unwrap_or_default().trim();
    if key.is_empty() {
        return Err(Error::invalid(format!("{}: the first line contains no key", file.display()))
            .help("write the key into its first line"));
    }
    Ok(Secret::new(key))
}
