//! The way of one training: rows are written, the trainer is started and followed, and what it leaves is published.

use crate::columns::{self, Wanted};
use crate::follow;
use crate::job::{JOB, Job};
use crate::{results, resume};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trainyard_api::{Ports, StageContext, port};
use trainyard_core::attempt::AttemptMessage;
use trainyard_core::error::io_error;
use trainyard_core::{ArtifactKind, Cardinality, Error, PortInfo, Result};
use trainyard_data::export::ExportFormat;
use trainyard_lm::ModelFolder;
use trainyard_lm::checkpoint::SaveOptions;
use trainyard_process::{Home, Log};

/// A trainer and what it is given.
pub struct Training<'t> {
    /// Heading of the report.
    pub title: &'t str,
    /// The program, with its files laid out.
    pub program: Home,
    /// Names of variables that it gets beside the usual ones.
    pub env: &'t [String],
    /// The columns of its rows.
    pub format: &'t dyn ExportFormat,
    /// The ports whose rows it gets.
    pub ports: &'t [Wanted],
    /// Its seed.
    pub seed: u64,
    /// Its own options.
    pub options: Value,
    /// How the trained weights are written.
    pub save: &'t SaveOptions,
}

/// The ports of all engines: a model and rows in, a model and a report out.
pub fn ports(rows: Vec<PortInfo>) -> Ports {
    use Cardinality::One;
    let model = port("model", ArtifactKind::Model, One, "The model to start from. An adapter is merged first.");
    Ports {
        inputs: [model].into_iter().chain(rows).collect(),
        outputs: vec![
            port("model", ArtifactKind::Model, One, "The trained model."),
            port("report", ArtifactKind::Report, One, "Learning curves and final metrics."),
        ],
    }
}

/// Trains. Errors: those of the rows, of the program and of what it leaves.
pub fn train(training: Training<'_>, context: &mut StageContext) -> Result<()> {
    let start = ModelFolder::load(&context.input("model")?.folder).map_err(|e| e.at("input `model`"))?;
    let scratch = folder(context, "work")?;
    let (data, rows) = columns::write(context, training.ports, training.format, &folder(context, "rows")?)?;
    if data.is_empty() {
        let names: Vec<String> = training.ports.iter().map(|(port, _)| format!("`{port}`")).collect();
        return Err(Error::invalid("the trainer has no rows").help(format!("wire one of: {}", names.join(", "))));
    }
    let model = folder(context, "start")?;
    start.merged()?.save(&model)?;
    let kept = folder(context, "resume")?;
    let told = resume::latest(context, &kept)?;
    let job = Job {
        job_format: 1,
        model,
        data,
        output: folder(context, "trained")?,
        events: context.scratch.join("events.jsonl"),
        resume: told.is_some().then_some(kept),
        scratch,
        cpus: context.cpus,
        seed: training.seed,
        options: training.options,
    };
    let path = context.scratch.join("job.json");
    job.write(&path)?;
    let set = [(JOB, path.display().to_string()), ("OMP_NUM_THREADS", context.cpus.to_string())];
    let trainer = training.program.start(training.env, &set, log(context))?;
    let told = follow::follow(context, trainer, job.events, told.unwrap_or_default())?;
    results::publish(context, (training.title, &start, training.save), &job.output, &told, rows)
}

/// An empty folder of the attempt.
fn folder(context: &StageContext, name: &str) -> Result<PathBuf> {
    let path: &Path = &context.scratch.join(name);
    std::fs::create_dir_all(path).map_err(|e| io_error(path, &e))?;
    Ok(path.to_path_buf())
}

/// What the trainer writes, as lines of the attempt's log.
fn log(context: &StageContext) -> Log {
    let reporter = Arc::clone(&context.reporter);
    Arc::new(move |level, text| reporter.report(AttemptMessage::Log { level, text: text.to_string() }))
}
