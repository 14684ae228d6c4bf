//! Reads which samples of which models artifacts have: those of an evaluation, or the trajectories of another stage. Of
//! trajectories only the columns of identity are read.

use crate::find::{self, ResolvedOutput};
use crate::table;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use trainyard_core::{Error, Result};
use trainyard_store::Store;
use trainyard_tables::json::{CellLimits, row_as_json};
use trainyard_tables::{BatchReader, ReadSlice, TableSource, read_schema};

/// Outputs of an evaluation: one row for each sample, and the rollouts of these rows.
const RESULTS: &str = "results";
const TRAJECTORIES: &str = "trajectories";
/// Columns of a sample.
const COLUMNS: [&str; 7] = ["model", "problem_id", "level", "sample", "correct", "reward", "rollout"];

/// One answer of a model to a problem.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// Id of the problem.
    pub problem: Arc<str>,
    /// Difficulty of the problem, from 1; 0 if unknown.
    pub level: i64,
    /// Number of the sample; −1 = greedy.
    pub number: i64,
    /// Whether the answer is correct; `None` if it was not judged.
    pub correct: Option<bool>,
    /// Reward of the outcome; `None` if it was not judged.
    pub reward: Option<f64>,
    /// Position in the table of trajectories; `None` if the trajectory was not kept.
    pub row: Option<usize>,
}

/// Counts of drawn samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DrawnSamples {
    /// Number of right ones.
    pub right: usize,
    /// Number of judged ones.
    pub of: usize,
}

/// All samples of one model.
#[derive(Debug, Default)]
pub struct ModelSamples {
    /// Name in the evaluation, or the artifact.
    pub name: String,
    /// Index of its trajectories in [`ComparedArtifacts::tables`].
    pub table: usize,
    /// Samples in the order of the table.
    pub samples: Vec<Sample>,
    /// Indices in `samples` by problem.
    by_problem: HashMap<Arc<str>, Vec<usize>>,
}

impl ModelSamples {
    /// Returns a model without samples, whose trajectories are in this table.
    pub fn new(name: &str, table: usize) -> Self {
        Self { name: name.to_string(), table, ..Self::default() }
    }
    /// Adds a sample.
    pub fn add(&mut self, sample: Sample) {
        self.by_problem.entry(sample.problem.clone()).or_default().push(self.samples.len());
        self.samples.push(sample);
    }
    /// Returns the samples of a problem.
    pub fn of<'a>(&'a self, problem: &str) -> impl Iterator<Item = &'a Sample> {
        self.by_problem.get(problem).into_iter().flatten().map(move |at| &self.samples[*at])
    }
    /// Returns the sample of this number, or by default the first one, which is the greedy one of an evaluation.
    pub fn sample(&self, problem: &str, number: Option<i64>) -> Option<&Sample> {
        match number {
            Some(number) => self.of(problem).find(|sample| sample.number == number),
            None => self.of(problem).min_by_key(|sample| sample.number),
        }
    }
    /// Counts the samples of a problem, without the greedy one.
    pub fn drawn(&self, problem: &str) -> DrawnSamples {
        let judged: Vec<bool> = self.of(problem).filter(|s| s.number >= 0).filter_map(|s| s.correct).collect();
        DrawnSamples { right: judged.iter().filter(|is_right| **is_right).count(), of: judged.len() }
    }
}

/// A table of trajectories.
#[derive(Clone)]
pub struct TrajectoryTable {
    /// Name of the artifact, as given.
    pub artifact: String,
    /// Digest of the stage that published the table.
    pub stage_digest: String,
    /// Output of that stage.
    pub output: String,
    /// Rows.
    pub source: TableSource,
}

/// Samples of all models in all artifacts.
#[derive(Default)]
pub struct ComparedArtifacts {
    /// Tables of trajectories, one for each artifact.
    pub tables: Vec<TrajectoryTable>,
    /// Models in the order of the artifacts.
    pub models: Vec<ModelSamples>,
}

impl ComparedArtifacts {
    /// Returns the problems in the order of their first samples.
    pub fn problems(&self) -> Vec<&str> {
        let mut known = HashSet::new();
        let samples = self.models.iter().flat_map(|model| &model.samples);
        samples.map(|sample| &*sample.problem).filter(|problem| known.insert(*problem)).collect()
    }
    /// Returns a model by its name. Errors: invalid, with the names of all models.
    pub fn model(&self, name: &str) -> Result<&ModelSamples> {
        self.models.iter().find(|model| model.name == name).ok_or_else(|| {
            let names: Vec<String> = self.models.iter().map(|model| format!("`{}`", model.name)).collect();
            Error::invalid(format!("there is no model `{name}` in the artifacts"))
                .help(format!("the models are {}", names.join(", ")))
        })
    }
}

/// Tables of an artifact: of results, if it belongs to an evaluation, and of trajectories.
struct OpenedArtifact {
    results: Option<TableSource>,
    trajectories: TrajectoryTable,
}

/// Reads the samples of artifacts in a thread for blocking work. Models of one name in several artifacts get the
/// artifact in front of the name. Errors: invalid (neither results of an evaluation nor trajectories), and those of the
/// store.
pub async fn load(store: &Store, artifacts: &[String]) -> Result<ComparedArtifacts> {
    let mut opened = Vec::with_capacity(artifacts.len());
    for name in artifacts {
        opened.push(open(store, name, find::artifact(store, name).await?).await?);
    }
    let read = tokio::task::spawn_blocking(move || read(opened));
    read.await.map_err(|e| Error::bug(format!("a comparison ended early: {e}")))?
}

async fn open(store: &Store, name: &str, found: ResolvedOutput) -> Result<OpenedArtifact> {
    let outputs = &found.manifest.outputs;
    let is_evaluation = [RESULTS, TRAJECTORIES].iter().all(|output| outputs.contains_key(*output));
    let port = if is_evaluation { TRAJECTORIES.to_string() } else { found.port.clone() };
    let trajectories = ResolvedOutput { manifest: found.manifest.clone(), port };
    let trajectories = TrajectoryTable {
        artifact: name.to_string(),
        stage_digest: found.manifest.stage_digest.to_string(),
        output: trajectories.port.clone(),
        source: table::open(store, name, &trajectories).await?,
    };
    let results = ResolvedOutput { port: RESULTS.to_string(), ..found };
    let results = if is_evaluation { Some(table::open(store, name, &results).await?) } else { None };
    Ok(OpenedArtifact { results, trajectories })
}

fn read(artifacts: Vec<OpenedArtifact>) -> Result<ComparedArtifacts> {
    let mut compared = ComparedArtifacts::default();
    for (number, OpenedArtifact { results, trajectories }) in artifacts.into_iter().enumerate() {
        let (name, source) = (&trajectories.artifact, &trajectories.source);
        compared.models.extend(match results {
            Some(results) => of_results(&results, source, number)?,
            None => vec![of_trajectories(name, source, number)?],
        });
        compared.tables.push(trajectories);
    }
    name_apart(&mut compared);
    Ok(compared)
}

fn name_apart(compared: &mut ComparedArtifacts) {
    let names: Vec<String> = compared.models.iter().map(|model| model.name.clone()).collect();
    for model in &mut compared.models {
        let artifact = &compared.tables[model.table].artifact;
        if names.iter().filter(|name| **name == model.name).count() > 1 && *artifact != model.name {
            model.name = format!("{artifact} {}", model.name);
        }
    }
}

/// Returns the models of an evaluation, in its order.
fn of_results(results: &TableSource, trajectories: &TableSource, table: usize) -> Result<Vec<ModelSamples>> {
    let mut rows: HashMap<String, usize> = HashMap::new();
    each_row(trajectories, &["id"], |at, row| {
        if let Some(id) = row["id"].as_str() {
            rows.insert(id.to_string(), at);
        }
    })?;
    let mut models: Vec<ModelSamples> = Vec::new();
    let mut problems = HashSet::new();
    each_row(results, &COLUMNS, |_, row| {
        let name = row["model"].as_str().unwrap_or_default();
        let known = models.iter().rposition(|model| model.name == name);
        let model = known.unwrap_or_else(|| {
            models.push(ModelSamples::new(name, table));
            models.len() - 1
        });
        let position = row["rollout"].as_str().and_then(|id| rows.get(id).copied());
        models[model].add(sample(&row, position, &mut problems));
    })?;
    Ok(models)
}

/// Returns the rows of a table of trajectories as the samples of one model.
fn of_trajectories(artifact: &str, source: &TableSource, table: usize) -> Result<ModelSamples> {
    let schema = read_schema(source)?;
    if ["problem_id", "messages"].iter().any(|column| schema.field_with_name(column).is_err()) {
        return Err(Error::invalid(format!("{artifact} has neither results of an evaluation nor trajectories"))
            .help("name an output such as `latest/evaluate/results` or `latest/rl/trajectories`"));
    }
    let mut model = ModelSamples::new(artifact, table);
    let mut problems = HashSet::new();
    each_row(source, &COLUMNS, |at, row| model.add(sample(&row, Some(at), &mut problems)))?;
    Ok(model)
}

/// Passes each row, with its position and these columns, to `use_row`; absent columns are left out.
pub(super) fn each_row(source: &TableSource, columns: &[&str], mut use_row: impl FnMut(usize, Value)) -> Result<()> {
    let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
    let mut at = 0;
    for batch in BatchReader::open_part(source, &ReadSlice { columns: Some(&columns), ..ReadSlice::default() })? {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            use_row(at, row_as_json(&batch, row, CellLimits::NONE));
            at += 1;
        }
    }
    Ok(())
}

/// Converts a row. The samples of one problem share the text of its id.
fn sample(row: &Value, position: Option<usize>, problems: &mut HashSet<Arc<str>>) -> Sample {
    let id = row["problem_id"].as_str().unwrap_or_default();
    let problem = problems.get(id).cloned().unwrap_or_else(|| {
        let id: Arc<str> = id.into();
        problems.insert(id.clone());
        id
    });
    Sample {
        problem,
        level: row["level"].as_i64().unwrap_or_default(),
        number: row["sample"].as_i64().unwrap_or_default(),
        correct: row["correct"].as_bool(),
        reward: row["reward"].as_f64(),
        row: position,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::{TableBuilder, Trajectory, write_trajectories};

    #[test]
    fn results_are_joined_with_their_trajectories() {
        let folder = tempfile::tempdir().unwrap();
        let (results, trajectories) = (folder.path().join("results"), folder.path().join("trajectories"));
        let row = |id: &str| Trajectory { id: id.into(), ..Trajectory::default() };
        write_trajectories(&trajectories, &["a1", "b1", "a2"].map(row)).unwrap();
        TableBuilder::new()
            .string("model", ["a", "a", "a", "b"])
            .string("problem_id", ["p1", "p1", "p2", "p1"])
            .i64("sample", [0, -1, -1, -1])
            .bool("correct", [Some(true), Some(false), None, Some(true)])
            .optional_string("rollout", [None, Some("a1"), Some("a2"), Some("b1")])
            .write(&results)
            .unwrap();
        let models = of_results(&(&results).into(), &(&trajectories).into(), 0).unwrap();
        assert_eq!(models.iter().map(|model| model.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let greedy = models[0].sample("p1", None).unwrap();
        assert_eq!((greedy.number, greedy.correct, greedy.row), (-1, Some(false), Some(0)));
        let drawn = models[0].sample("p1", Some(0)).unwrap();
        assert_eq!((drawn.correct, drawn.row), (Some(true), None), "its rollout was not kept");
        assert_eq!(models[0].drawn("p1"), DrawnSamples { right: 1, of: 1 });
        assert_eq!(models[0].drawn("p2"), DrawnSamples::default(), "its only sample is greedy");
        assert_eq!(models[0].sample("p2", None).unwrap().row, Some(2));
        assert_eq!((models[1].sample("p1", None).unwrap().row, models[1].sample("p2", None)), (Some(1), None));
        let compared = ComparedArtifacts { tables: Vec::new(), models };
        assert_eq!(compared.problems(), ["p1", "p2"]);
    }

    #[test]
    fn other_tables_of_trajectories_are_one_model() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let row = |sample: u32| Trajectory { problem_id: "p1".into(), sample, ..Trajectory::default() };
        write_trajectories(&path, &[1, 0].map(row)).unwrap();
        let model = of_trajectories("latest/rl/trajectories", &(&path).into(), 0).unwrap();
        assert_eq!((model.name.as_str(), model.samples.len()), ("latest/rl/trajectories", 2));
        assert_eq!(model.sample("p1", None).unwrap().row, Some(1));
        TableBuilder::new().string("id", ["x"]).write(&path).unwrap();
        let error = of_trajectories("latest/data/problems", &(&path).into(), 0).unwrap_err();
        assert!(error.message.contains("neither results of an evaluation nor trajectories"), "{error}");
    }
}
