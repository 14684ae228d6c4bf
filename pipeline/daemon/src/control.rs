//! Executes the requests of browsers to a daemon: starts runs of the folder's files with params, cancels
//! and resumes runs, and describes files.

use crate::api::{ApiState, request_cancel};
use crate::effects::RunResumer;
use crate::folder::{FolderFile, mistakes};
use crate::operations::{Actor, OpenTick};
use crate::plan_summary::{PlanSummary, summarize};
use crate::requests;
use crate::schedule::event::WorkflowFile;
use crate::texts::WorkflowTexts;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trainyard_core::{Error, Result, RunId};
use trainyard_spec::ParamDeclaration;
use trainyard_spec::compile::Compilation;

/// Compiles a file with arguments of `-p`. Errors: invalid, if there is no working directory.
pub type CompileWithParamsFn = dyn Fn(&Path, &[String]) -> Result<Compilation> + Send + Sync;

/// Means to operate the daemon of this process.
pub struct DaemonControl {
    /// State of the API: store, clock, ids, and the daemon.
    pub api: Arc<ApiState>,
    /// Absolute path of the folder of workflow files.
    pub folder: PathBuf,
    /// Host and folder: see [`WorkflowFile::home`].
    pub home: String,
    /// Compiler of workflow files.
    pub compile: Box<CompileWithParamsFn>,
    /// Resumption of runs.
    pub resumer: Arc<dyn RunResumer>,
}

/// Workflow file with values for its params.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkflowPreview {
    /// Params, in file order.
    pub params: Vec<ParamDeclaration>,
    /// Plan with these values, or the mistakes, one per line.
    pub plan: Result<PlanSummary, String>,
}

impl DaemonControl {
    /// Returns the workflow files of the folder, as of the daemon's last check.
    pub fn files(&self) -> Vec<FolderFile> {
        self.api.daemon.status().files
    }
    /// Returns a workflow file of the folder. Errors: invalid (no such file).
    pub fn file(&self, name: &str) -> Result<FolderFile> {
        let files = self.files();
        let found = files.iter().find(|file| file.file == name).cloned();
        found.ok_or_else(|| {
            let names = files.iter().map(|file| file.file.as_str());
            let help = trainyard_spec::diagnostic::suggest(name, names);
            let folder = self.folder.display();
            Error::invalid(format!("there is no workflow file {name:?} in {folder}"))
                .help(help.unwrap_or_else(|| "a new file appears within seconds".to_string()))
        })
    }
    /// Compiles a file of the folder with these arguments of `-p`. Reads files, so call it on a thread that may wait.
    /// Errors: invalid (no such file).
    pub fn preview(&self, name: &str, params: &[String]) -> Result<WorkflowPreview> {
        let compiled = self.compiled(name, params)?;
        let mistakes = mistakes(&compiled);
        let plan = compiled.plan.as_ref().map(summarize).ok_or_else(|| mistakes.unwrap_or_default());
        Ok(WorkflowPreview { params: compiled.params, plan })
    }
    /// Requests a run of a file of the folder with these arguments of `-p`. Errors: invalid (no such file, or mistakes
    /// in it or in the arguments), those of the store.
    pub async fn start(self: &Arc<Self>, name: &str, params: Vec<String>, actor: &str) -> Result<OpenTick> {
        let (control, file, given) = (self.clone(), name.to_string(), params.clone());
        let compiling = tokio::task::spawn_blocking(move || {
            let compiled = control.compiled(&file, &given)?;
            let Some(plan) = &compiled.plan else {
                let text = mistakes(&compiled).unwrap_or_default();
                return Err(Error::invalid(format!("{file} does not compile with these values: {text}"))
                    .help("correct the values or the file"));
            };
            Ok((plan.workflow.clone(), WorkflowTexts::of(&compiled.sources, &control.folder)))
        });
        let (workflow, texts) = compiling.await.map_err(|e| Error::bug(format!("the compiler ended early: {e}")))??;
        let store = &self.api.store;
        let texts = texts.store(store, &workflow).await?;
        let file = WorkflowFile { file: name.to_string(), home: self.home.clone(), texts };
        let tick = requests::request(store, &workflow, self.actor(actor), &file, &params).await?;
        tracing::info!(workflow, file = name, run = %tick.run, by = actor, "run requested");
        self.api.daemon.continue_requests(&workflow);
        Ok(tick)
    }
    /// Requests a run to stop; returns false if it was over. Errors: invalid (no such run), those of the store.
    pub async fn cancel(&self, run: &RunId) -> Result<bool> {
        request_cancel(&self.api, run).await
    }
    /// Resumes a run that ended without success, or whose process died. Errors: those of [`RunResumer::resume`].
    pub async fn resume(&self, run: &RunId) -> Result<()> {
        self.resumer.resume(run).await
    }
    /// Returns the author of a change that a person of this name makes.
    pub fn actor<'a>(&'a self, name: &'a str) -> Actor<'a> {
        self.api.actor(name)
    }

    fn compiled(&self, name: &str, params: &[String]) -> Result<Compilation> {
        // The name must be one of the folder's: any other could lead out of it.
        let file = self.file(name)?;
        (self.compile)(&self.folder.join(file.file), params)
    }
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
