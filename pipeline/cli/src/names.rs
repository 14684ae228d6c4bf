//! Resolves names of runs and artifacts: `latest`, a prefix of a run id, `RUN/STAGE/OUTPUT`, or `DIGEST/OUTPUT`, in
//! which a prefix of the digest is sufficient.
//!
//! A name that matches no item, or several, is an error that lists the candidates.

use trainyard_core::{Digest, Error, Manifest, Output, Result, RunId};
use trainyard_engine::fold::{RunView, StageView};
use trainyard_runtime::resume;
use trainyard_store::Store;

/// Finds a run by its id, a prefix of the id, or `latest`. Errors: invalid (no run, or several runs, match).
pub async fn run(store: &Store, name: &str) -> Result<RunId> {
    let mut runs = store.list_runs().await?;
    if name == "latest" {
        return runs.pop().ok_or_else(|| {
            Error::invalid(format!("the store {} contains no runs", store.url()))
                .help("start one with `trainyard run FILE`")
        });
    }
    let found: Vec<&RunId> = runs.iter().filter(|r| r.0.starts_with(name)).collect();
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(Error::invalid(format!("no run is called `{name}`")).help("`trainyard runs list` shows them")),
        many => Err(Error::invalid(format!("`{name}` matches {} runs", many.len()))
            .help(format!("use a longer prefix, e.g. `{}`", many[0]))),
    }
}

/// Reads a run's journal and returns its current view.
pub async fn view(store: &Store, run: &RunId) -> Result<RunView> {
    resume::read_run(store, run).await
}

/// Finds a stage of a run by its key. Errors: invalid (an unknown stage).
pub fn stage<'a>(view: &'a RunView, name: &str) -> Result<&'a StageView> {
    view.stages.iter().find(|s| s.stage.0.0 == name).ok_or_else(|| {
        let names: Vec<&str> = view.stages.iter().map(|s| s.stage.0.0.as_str()).collect();
        Error::invalid(format!("the run has no stage `{name}`")).help(format!("its stages are {}", names.join(", ")))
    })
}

/// A published output, found by name.
pub struct ResolvedOutput {
    pub manifest: Manifest,
    pub port: String,
}

impl ResolvedOutput {
    pub fn output(&self) -> &Output {
        &self.manifest.outputs[&self.port]
    }
}

/// Minimum number of digits of a digest prefix.
const MIN_DIGITS: usize = 6;

/// Resolves the stage digest of `DIGEST/OUTPUT`, given completely or as a prefix of at least [`MIN_DIGITS`] digits.
/// Returns `None` if the name has another form.
async fn digest(store: &Store, first: &str, rest: &str) -> Result<Option<Digest>> {
    if let Ok(digest) = Digest::try_from(first.to_string()) {
        return Ok(Some(digest));
    }
    let digits = first.len() >= MIN_DIGITS && first.bytes().all(|byte| byte.is_ascii_hexdigit());
    if rest.contains('/') || !digits {
        return Ok(None);
    }
    let mut known: Vec<Digest> = store.list_manifests().await?.into_iter().map(|(digest, _)| digest).collect();
    known.retain(|digest| digest.to_string().starts_with(first));
    known.dedup();
    match known.as_slice() {
        [one] => Ok(Some(one.clone())),
        [] => Err(Error::invalid(format!("no stage digest in the store {} begins with `{first}`", store.url()))
            .help("`trainyard artifacts list` shows them")),
        many => Err(Error::invalid(format!("`{first}` matches {} stage digests", many.len()))
            .help(format!("use a longer prefix, e.g. `{}`", many[0].short()))),
    }
}

/// Resolves `RUN/STAGE/OUTPUT` or `DIGEST/OUTPUT` to an output. A stage id of an embedded workflow contains `/`, so the
/// output is the part after the last `/`.
pub async fn artifact(store: &Store, name: &str) -> Result<ResolvedOutput> {
    let usage = || {
        Error::invalid(format!("`{name}` names no artifact")).help(
            "write RUN/STAGE/OUTPUT, e.g. `latest/rl/model`, or DIGEST/OUTPUT; `trainyard artifacts list` shows them",
        )
    };
    let (first, rest) = name.split_once('/').ok_or_else(usage)?;
    let (digest, generation, port) = match digest(store, first, rest).await? {
        Some(digest) => (digest, None, rest.to_string()),
        None => {
            let (stage_name, port) = rest.rsplit_once('/').ok_or_else(usage)?;
            let view = view(store, &run(store, first).await?).await?;
            let stage = stage(&view, stage_name)?;
            let digest = stage.digest.clone().filter(|_| stage.generation.is_some());
            let digest = digest.ok_or_else(|| {
                Error::invalid(format!(
                    "stage `{stage_name}` of this run published nothing: it is {}",
                    stage.status.name()
                ))
            })?;
            (digest, stage.generation, port.to_string())
        }
    };
    let manifest = match generation {
        Some(generation) => store.manifest_at(&digest, generation).await?,
        None => store.manifest(&digest).await?,
    };
    let manifest = manifest.ok_or_else(|| {
        Error::lost(format!("no manifest of {digest} is in the store {}", store.url())).help("run the workflow again")
    })?;
    if !manifest.outputs.contains_key(&port) {
        let ports: Vec<&str> = manifest.outputs.keys().map(String::as_str).collect();
        return Err(Error::invalid(format!("the stage has no output `{port}`"))
            .help(format!("its outputs are {}", ports.join(", "))));
    }
    Ok(ResolvedOutput { manifest, port })
}
