//! Implements `engine/command`, a user-defined trainer.

use crate::columns::RowPort;
use crate::results;
use crate::run::{self, TrainerRun, TrainingData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_api::{Ports, PreparedOptions, Stage, StageContext, port};
use trainyard_core::{ArtifactKind, Cardinality, DeclaredMetrics, Error, Facts, OptionProblem, Result, WiredInputs};
use trainyard_data::DataParts;
use trainyard_data::export::ExportFormat;
use trainyard_lm::checkpoint::SaveOptions;
use trainyard_lm::shape;
use trainyard_process::{OneShotFolder, command_schema, files_schema};

/// Options of `engine/command`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CommandTrainerConfig {
    /// The trainer and its arguments: `[python3, my_trainer.py]`. A word that names a file next to the workflow file is
    /// a source: its content is a part of the stage digest, and it is copied to the machine of the stage.
    #[schemars(schema_with = "command_schema")]
    pub command: Vec<String>,
    /// Further files and folders that the trainer requires; sources too.
    #[schemars(schema_with = "files_schema")]
    pub files: Vec<String>,
    /// Names of environment variables that the trainer gets in addition to `HOME`, `LANG`, `LC_ALL`, `PATH`, `TMPDIR`
    /// and `TZ`.
    pub env: Vec<String>,
    /// Columns of the rows: a format of `artifacts export`, such as `openai`, `sharegpt`, `trl` or `verl`.
    pub columns: String,
    /// Seed of all random draws.
    pub seed: u64,
    /// Options for the trainer, passed unchanged.
    pub options: Value,
    /// Format of the trained weights.
    #[serde(skip_serializing_if = "SaveOptions::is_default")]
    pub save: SaveOptions,
}

impl Default for CommandTrainerConfig {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            files: Vec::new(),
            env: Vec::new(),
            columns: "openai".to_string(),
            seed: 0,
            options: Value::Null,
            save: SaveOptions::default(),
        }
    }
}

/// Options of the stage with their export format.
pub struct PreparedCommand {
    config: CommandTrainerConfig,
    format: Result<&'static dyn ExportFormat, OptionProblem>,
}

impl PreparedOptions for PreparedCommand {
    type Config = CommandTrainerConfig;
    fn config(&self) -> &CommandTrainerConfig {
        &self.config
    }
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = self.config.save.problems("/save");
        problems.extend(self.format.as_ref().err().cloned());
        if self.config.command.first().is_none_or(String::is_empty) {
            let problem = OptionProblem::new("/command", "the command is empty");
            problems.push(problem.help("write for example `command: [python3, my_trainer.py]`"));
        }
        problems
    }
    fn facts(&self, inputs: &WiredInputs) -> BTreeMap<String, Facts> {
        shape::whole(inputs)
    }
}

/// Ports whose rows a trainer can get.
const ROWS: [RowPort; 4] = [("trajectories", None), ("preferences", None), ("problems", None), ("tokenized", None)];

/// The stage kind, with the supported formats of rows.
pub struct CommandTrainer {
    /// Formats of exports.
    pub parts: Arc<DataParts>,
}

impl CommandTrainer {
    fn format(&self, name: &str) -> Result<&'static dyn ExportFormat, OptionProblem> {
        let formats = &self.parts.export;
        if !formats.names().contains(&name) {
            let problem = OptionProblem::new("/columns", format!("unknown export format `{name}`"));
            return Err(problem.help(format!("use one of: {}", formats.names().join(", "))));
        }
        let chosen = formats.read(&Value::from(name))?;
        chosen.build(&()).map(|format| *format).map_err(OptionProblem::from)
    }
}

impl Stage for CommandTrainer {
    type Prepared = PreparedCommand;
    const NAME: &'static str = "engine/command";
    const SUMMARY: &'static str = "a custom trainer in any language, with a model and rows in its columns";
    const DOC: &'static str = include_str!("command.md");
    const EXAMPLE: &'static str = r#"{"command": ["python3", "my_trainer.py"], "columns": "trl"}"#;
    const ALL_CPUS: bool = true;
    const TRAINS: bool = true;
    const MAIN_METRIC: Option<&'static str> = Some("loss");

    fn metrics(&self) -> DeclaredMetrics {
        results::metrics()
    }
    fn ports(&self) -> Ports {
        use ArtifactKind::{Problems, Table, Trajectories};
        use Cardinality::Many;
        run::ports(vec![
            port("trajectories", Trajectories, Many, "Conversations."),
            port("preferences", Trajectories, Many, "Pairs of `data/pairs` or `data/import`."),
            port("problems", Problems, Many, "Prompts with reference answers."),
            port("tokenized", Table, Many, "Token ids with loss masks, from `data/tokenize`."),
        ])
    }
    fn prepare(&self, options: Value) -> Result<PreparedCommand> {
        let config: CommandTrainerConfig = self.parse(options)?;
        let format = self.format(&config.columns);
        Ok(PreparedCommand { config, format })
    }
    fn run(&self, prepared: PreparedCommand, context: &mut StageContext) -> Result<()> {
        let PreparedCommand { config, format } = prepared;
        let format = format.map_err(|problem| Error::invalid(problem.message))?;
        let training = TrainerRun {
            title: "Custom trainer",
            program: OneShotFolder::create(&config.command, &config.files)?,
            env: &config.env,
            data: TrainingData::Rows(format, &ROWS),
            seed: config.seed,
            options: config.options,
            save: &config.save,
            declared: results::metrics(),
        };
        run::train(training, context)
    }
}
