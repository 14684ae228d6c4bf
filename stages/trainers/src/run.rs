//! Runs one training: it writes rows, starts and follows the trainer, and publishes its output.

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

/// Variable that sets how idle OpenMP threads wait.
const OMP_WAIT_POLICY: &str = "OMP_WAIT_POLICY";

/// A trainer and its input.
pub struct TrainerRun<'t> {
    /// Heading of the report.
    pub title: &'t str,
    /// Program with its files in a folder.
    pub program: OneShotFolder,
    /// Names of variables that the program gets in addition to the default ones.
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
    /// Episodes that the stage runs with the trainer.
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

/// Trains and publishes the trained model with a report. Resumes from the newest resume point, if there is one. Errors:
/// those of the rows, of the program and of its output.
pub fn train(training: TrainerRun<'_>, context: &mut StageContext) -> Result<()> {
    let start = ModelFolder::load(&context.input("model")?.folder).map_err(|e| e.at("input `model`"))?;
    let (mut source, scratch) = (training.data, folder(context, "work")?);
    let (data, rows) = source.write(context, &folder(context, "rows")?)?;
    let model = folder(context, "start")?;
    start.merged()?.save(&model)?;
    let resume_folder = folder(context, "resume")?;
    let progress = resume::latest(context, &resume_folder)?;
    if let (Some(_), TrainingData::Rollouts(service)) = (&progress, &mut source) {
        service.resume(&resume_folder)?;
    }
    let job = TrainerJob {
        job_format: 1,
        model,
        data,
        output: folder(context, "trained")?,
        events: context.scratch.join("events.jsonl"),
        resume: progress.is_some().then_some(resume_folder),
        scratch,
        cpus: context.cpus,
        seed: training.seed,
        options: training.options,
    };
    let path = context.scratch.join("job.json");
    job.write(&path)?;
    let mut variables = vec![(JOB_VARIABLE, path.display().to_string()), ("OMP_NUM_THREADS", context.cpus.to_string())];
    if !training.env.iter().any(|name| name == OMP_WAIT_POLICY) {
        // Spinning threads make a trainer many times slower if other processes use the same cores.
        variables.push((OMP_WAIT_POLICY, "PASSIVE".to_string()));
    }
    let start_program = |input| training.program.start_with(input, training.env, &variables, log(context));
    let follow = |trainer, watch: &dyn Fn() -> Result<()>| -> Result<TrainerProgress> {
        follow::follow(context, trainer, job.events.clone(), progress.unwrap_or_default(), watch)
    };
    let progress = match &mut source {
        TrainingData::Rows(..) => follow(start_program(Stdio::null())?, &|| Ok(()))?,
        TrainingData::Rollouts(service) => rollouts::serve_trainer(service, start_program, follow)?,
    };
    results::publish(
        context,
        (training.title, &start, training.save),
        &training.declared,
        &job.output,
        (&progress, rows),
    )
}

impl TrainingData<'_> {
    /// Writes files of rows for each port, and returns them with the total number of rows. For rollouts the files
    /// contain only the ids of problems, since only the stage uses their content.
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
            Self::Rollouts(service) => {
                let path = folder.join("problems.jsonl");
                let mut file = BufWriter::new(std::fs::File::create(&path).map_err(|e| io_error(&path, &e))?);
                let mut write = || {
                    service.ids().try_for_each(|id| writeln!(file, "{}", json!({"prompt": id})))?;
                    file.flush()
                };
                write().map_err(|e| io_error(&path, &e))?;
                Ok(([("problems".to_string(), path)].into(), service.ids().len() as u64))
            }
        }
    }
}

/// Creates a folder in the attempt's scratch folder.
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
