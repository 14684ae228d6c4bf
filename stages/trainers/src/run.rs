//! One training: rows are written, the trainer is started and followed, and its output is published.

use crate::columns::{self, RowPort};
use crate::follow;
use crate::job::{JOB_VARIABLE, TrainerJob};
use crate::progress::TrainerProgress;
use crate::rollouts::{self, RolloutService};
use crate::{results, resume};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use trainyard_api::{Ports, StageContext, port};
use trainyard_core::attempt::AttemptMessage;
use trainyard_core::error::io_error;
use trainyard_core::{ArtifactKind, Cardinality, DeclaredMetrics, Error, PortInfo, Result};
use trainyard_data::export::ExportFormat;
use trainyard_lm::ModelFolder;
use trainyard_lm::checkpoint::SaveOptions;
use trainyard_process::{OneShotFolder, ProgramLog};

/// Wait policy of OpenMP threads.
const OMP_WAIT_POLICY: &str = "OMP_WAIT_POLICY";

/// A trainer and its input.
pub struct TrainerRun<'t> {
    /// Heading of the report.
    pub title: &'t str,
    /// The program, with its files in a folder.
    pub program: OneShotFolder,
    /// Names of variables that it gets in addition to the usual ones.
    pub env: &'t [String],
    /// Training data.
    pub data: TrainingData<'t>,
    pub seed: u64,
    /// Options for the trainer.
    pub options: Value,
    /// Format of the trained weights.
    pub save: &'t SaveOptions,
    /// Metrics of the stage.
    pub declared: DeclaredMetrics,
}

/// Training data of a trainer.
pub enum TrainingData<'t> {
    /// Rows of these ports, in columns of this format.
    Rows(&'t dyn ExportFormat, &'t [RowPort]),
    /// Episodes that it plays with the stage.
    Rollouts(Box<RolloutService<'t>>),
}

/// Returns the ports of all engines: a model and rows in, a model and a report out.
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

/// Trains. Errors: those of the rows, of the program and of its output.
pub fn train(training: TrainerRun<'_>, context: &mut StageContext) -> Result<()> {
    let start = ModelFolder::load(&context.input("model")?.folder).map_err(|e| e.at("input `model`"))?;
    let (mut lessons, scratch) = (training.data, folder(context, "work")?);
    let (data, rows) = lessons.write(context, &folder(context, "rows")?)?;
    let model = folder(context, "start")?;
    start.merged()?.save(&model)?;
    let kept = folder(context, "resume")?;
    let told = resume::latest(context, &kept)?;
    if let (Some(_), TrainingData::Rollouts(practice)) = (&told, &mut lessons) {
        practice.resume(&kept)?;
    }
    let job = TrainerJob {
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
    let mut set = vec![(JOB_VARIABLE, path.display().to_string()), ("OMP_NUM_THREADS", context.cpus.to_string())];
    if !training.env.iter().any(|name| name == OMP_WAIT_POLICY) {
        // Threads that spin while they wait make a trainer many times slower where other processes use the cores, too.
        set.push((OMP_WAIT_POLICY, "PASSIVE".to_string()));
    }
    let begin = |input| training.program.start_with(input, training.env, &set, log(context));
    let follow = |trainer, watch: &dyn Fn() -> Result<()>| -> Result<TrainerProgress> {
        follow::follow(context, trainer, job.events.clone(), told.unwrap_or_default(), watch)
    };
    let told = match &mut lessons {
        TrainingData::Rows(..) => follow(begin(Stdio::null())?, &|| Ok(()))?,
        TrainingData::Rollouts(practice) => rollouts::serve_trainer(practice, begin, follow)?,
    };
    results::publish(context, (training.title, &start, training.save), &training.declared, &job.output, (&told, rows))
}

impl TrainingData<'_> {
    /// Writes files of rows by port; returns them and the total number of rows. For a practice they contain the
    /// problems' ids, whose content only the stage uses.
    fn write(&self, context: &StageContext, folder: &Path) -> Result<(BTreeMap<String, PathBuf>, u64)> {
        match self {
            Self::Rows(format, ports) => {
                let written = columns::write(context, ports, *format, folder)?;
                if written.0.is_empty() {
                    let names: Vec<String> = ports.iter().map(|(port, _)| format!("`{port}`")).collect();
                    let error = Error::invalid("the trainer has no rows");
                    return Err(error.help(format!("wire one of: {}", names.join(", "))));
                }
                Ok(written)
            }
            Self::Rollouts(practice) => {
                let path = folder.join("problems.jsonl");
                let mut file = BufWriter::new(std::fs::File::create(&path).map_err(|e| io_error(&path, &e))?);
                let mut write = || {
                    practice.ids().try_for_each(|id| writeln!(file, "{}", json!({"prompt": id})))?;
                    file.flush()
                };
                write().map_err(|e| io_error(&path, &e))?;
                Ok(([("problems".to_string(), path)].into(), practice.ids().len() as u64))
            }
        }
    }
}

/// Creates an empty folder of the attempt.
fn folder(context: &StageContext, name: &str) -> Result<PathBuf> {
    let path: &Path = &context.scratch.join(name);
    std::fs::create_dir_all(path).map_err(|e| io_error(path, &e))?;
    Ok(path.to_path_buf())
}

/// Returns a log that adds the trainer's output to the attempt's log.
fn log(context: &StageContext) -> ProgramLog {
    let reporter = Arc::clone(&context.reporter);
    Arc::new(move |level, text| reporter.report(AttemptMessage::Log { level, text: text.to_string() }))
}
