//! Resolves names of runs and artifacts: `latest`, `latest-success`, a prefix of a run id, a tag,
//! `RUN/STAGE/OUTPUT`, or `DIGEST/OUTPUT`, in which a prefix of the digest is sufficient.
//!
//! A name that matches no item, or several, is an error that lists the candidates.

use crate::annotations;
use crate::status::state;
use trainyard_core::{Digest, Error, Manifest, Output, Result, RunId, StageKey, SystemClock};
use trainyard_engine::fold::{RunView, StageView};
use trainyard_runtime::{resume, summary};
use trainyard_spec::diagnostic::nearest;
use trainyard_store::Store;

pub use crate::run_names::{LATEST, LATEST_SUCCESS};

/// Finds a run by its id, a prefix of the id, [`LATEST`], [`LATEST_SUCCESS`], or else a tag. Errors: invalid (no run,
/// or several runs, match).
pub async fn run(store: &Store, name: &str) -> Result<RunId> {
    if name == LATEST_SUCCESS {
        return summary::latest_success(store).await?.ok_or_else(|| {
            Error::invalid(format!("no run in the store {} has succeeded", store.url()))
                .help("`latest` names the newest run, and `trainyard runs list` shows the state of all")
        });
    }
    let mut runs = store.list_runs().await?;
    if name == LATEST {
        return runs.pop().ok_or_else(|| {
            Error::invalid(format!("the store {} contains no runs", store.url()))
                .help("start one with `trainyard run FILE`")
        });
    }
    let found: Vec<&RunId> = runs.iter().filter(|r| r.0.starts_with(name)).collect();
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => annotations::tagged_run(name, &runs, &annotations::tags(store).await?)?.ok_or_else(|| {
            Error::invalid(format!("no run is called `{name}`")).help("`trainyard runs list` shows them")
        }),
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

/// Returns the digest and the generation of a stage's outputs. Errors: invalid (the stage published nothing).
fn published(stage: &StageView) -> Result<(Digest, u32)> {
    stage.digest.clone().zip(stage.generation).ok_or_else(|| {
        let (name, status) = (stage.key(), stage.status.name());
        Error::invalid(format!("stage `{name}` of this run published nothing: it is {status}"))
    })
}

/// Adds to the help of an error about the newest run that this run has not succeeded.
fn with_state(error: Error, run: &RunId, state: &str) -> Error {
    if state == "succeeded" {
        return error;
    }
    let state = if state == "failed" { state.to_string() } else { format!("is {state}") };
    let hint = format!("run {run} {state}; `{LATEST_SUCCESS}` names the newest run that succeeded");
    let help = error.help.as_ref().map_or(hint.clone(), |help| format!("{help}; {hint}"));
    error.help(help)
}

/// Maximum number of ids in a hint.
const NEAR: usize = 3;

/// Returns ids like a wrong one, for the help of an error: those that contain it, or else the nearest by spelling.
pub fn near_ids(wrong: &str, ids: &[&str]) -> Option<String> {
    let containing = ids.iter().filter(|id| !wrong.is_empty() && id.contains(wrong)).take(NEAR);
    let mut near: Vec<String> = containing.map(|id| format!("`{id}`")).collect();
    if near.is_empty() {
        near.extend(nearest(wrong, ids.iter().copied()).map(|id| format!("`{id}`")));
    }
    (!near.is_empty()).then(|| format!("near ids: {}", near.join(", ")))
}

/// A published output, found by name.
pub struct ResolvedOutput {
    /// Manifest of the stage that published it.
    pub manifest: Manifest,
    /// Output of that stage.
    pub port: String,
}

impl ResolvedOutput {
    /// Returns the published output.
    pub fn output(&self) -> &Output {
        &self.manifest.outputs[&self.port]
    }
}

/// Finds an artifact with its run and stage: those of its name, or else those that made it. Errors: those of
/// [`artifact`] and of reading the run.
pub async fn artifact_in_run(store: &Store, name: &str) -> Result<(ResolvedOutput, RunView, StageKey)> {
    let (found, run) = resolve(store, name).await?;
    if let Some((view, stage)) = run {
        return Ok((found, view, stage));
    }
    let made = found.manifest.provenance.clone();
    Ok((found, view(store, &made.run).await?, made.stage))
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
    Ok(resolve(store, name).await?.0)
}

/// Resolves the name of an artifact. Returns also the run and the stage, if it names them.
async fn resolve(store: &Store, name: &str) -> Result<(ResolvedOutput, Option<(RunView, StageKey)>)> {
    let usage = || {
        Error::invalid(format!("`{name}` names no artifact")).help(
            "write RUN/STAGE/OUTPUT, e.g. `latest/rl/model`, or DIGEST/OUTPUT; `trainyard artifacts list` shows them",
        )
    };
    let (first, rest) = name.split_once('/').ok_or_else(usage)?;
    let (digest, generation, port, named) = match digest(store, first, rest).await? {
        Some(digest) => (digest, None, rest.to_string(), None),
        None => {
            let (stage_name, port) = rest.rsplit_once('/').ok_or_else(usage)?;
            let run = run(store, first).await?;
            let view = view(store, &run).await?;
            let found = stage(&view, stage_name).and_then(published);
            let (digest, generation) = found.map_err(|error| match first {
                LATEST => with_state(error, &run, state(&view, &SystemClock::new())),
                _ => error,
            })?;
            (digest, Some(generation), port.to_string(), Some((view, StageKey(stage_name.to_string()))))
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
    Ok((ResolvedOutput { manifest, port }, named))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_about_an_unfinished_latest_run_name_its_state() {
        let run = RunId("20261125-025937-1c0db24".into());
        let error = || Error::invalid("stage `rl` of this run published nothing: it is running");
        let hint = "run 20261125-025937-1c0db24 is running; `latest-success` names the newest run that succeeded";
        assert_eq!(with_state(error(), &run, "running").help.as_deref(), Some(hint));
        let both = format!("its stages are sft; {hint}");
        assert_eq!(with_state(error().help("its stages are sft"), &run, "running").help, Some(both));
        assert_eq!(with_state(error(), &run, "succeeded").help, None);
        assert!(with_state(error(), &run, "failed").help.unwrap().contains("1c0db24 failed; `latest-success`"));
    }

    #[test]
    fn near_ids_contain_the_wrong_one_or_are_spelled_like_it() {
        let ids = ["word-10", "word-11", "word-12", "word-13", "sum-1"];
        assert_eq!(near_ids("ord-1", &ids).as_deref(), Some("near ids: `word-10`, `word-11`, `word-12`"));
        assert_eq!(near_ids("sun-1", &ids).as_deref(), Some("near ids: `sum-1`"));
        assert_eq!(near_ids("entirely different", &ids), None);
        assert_eq!(near_ids("x", &[]), None);
    }
}
