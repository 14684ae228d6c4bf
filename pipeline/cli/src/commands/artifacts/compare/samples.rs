//! Reads which samples of which models artifacts have: those of an evaluation, or the trajectories of another stage. Of
//! trajectories only the columns of identity are read.

use crate::session::AppSession;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use trainyard_core::{Error, Result};
use trainyard_tables::{TableSource, columns_as_json, read_schema};
use trainyard_views::find::{self, ResolvedOutput};
use trainyard_views::table;

/// Outputs of an evaluation: one row for each sample, and the rollouts of these rows.
const RESULTS: &str = "results";
const TRAJECTORIES: &str = "trajectories";

/// One answer of a model to a problem.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sample {
    pub problem: String,
    /// Number of the sample; −1 = greedy.
    pub number: i64,
    /// Whether the answer is correct; `None` if it was not judged.
    pub correct: Option<bool>,
    /// Position in the table of trajectories; `None` if the trajectory was not kept.
    pub row: Option<usize>,
}

/// All samples of one model.
#[derive(Debug, Default)]
pub struct ModelSamples {
    /// Name in the evaluation, or the artifact.
    pub name: String,
    /// Index of its trajectories in [`ComparedArtifacts::tables`].
    pub table: usize,
    pub samples: Vec<Sample>,
    /// Indices in `samples` by problem.
    by_problem: HashMap<String, Vec<usize>>,
}

impl ModelSamples {
    pub fn new(name: &str, table: usize) -> Self {
        Self { name: name.to_string(), table, ..Self::default() }
    }
    pub fn add(&mut self, sample: Sample) {
        self.by_problem.entry(sample.problem.clone()).or_default().push(self.samples.len());
        self.samples.push(sample);
    }
    fn of<'a>(&'a self, problem: &str) -> impl Iterator<Item = &'a Sample> {
        self.by_problem.get(problem).into_iter().flatten().map(move |at| &self.samples[*at])
    }
    /// Returns the sample of this number, or by default the first one, which is the greedy one of an evaluation.
    pub fn sample(&self, problem: &str, number: Option<i64>) -> Option<&Sample> {
        match number {
            Some(number) => self.of(problem).find(|sample| sample.number == number),
            None => self.of(problem).min_by_key(|sample| sample.number),
        }
    }
    /// Returns the numbers of right and of judged samples of a problem, without the greedy one.
    pub fn drawn(&self, problem: &str) -> (usize, usize) {
        let judged: Vec<bool> = self.of(problem).filter(|s| s.number >= 0).filter_map(|s| s.correct).collect();
        (judged.iter().filter(|is_right| **is_right).count(), judged.len())
    }
}

/// A table of trajectories.
pub struct TrajectoryTable {
    /// Name of the artifact, as given.
    pub artifact: String,
    pub source: TableSource,
}

/// Samples of all models in all artifacts.
#[derive(Default)]
pub struct ComparedArtifacts {
    pub tables: Vec<TrajectoryTable>,
    pub models: Vec<ModelSamples>,
}

impl ComparedArtifacts {
    /// Returns the problems in the order of their first samples.
    pub fn problems(&self) -> Vec<&str> {
        let mut known = HashSet::new();
        let samples = self.models.iter().flat_map(|model| &model.samples);
        samples.map(|sample| sample.problem.as_str()).filter(|problem| known.insert(*problem)).collect()
    }
}

/// Fetches artifacts and reads their samples. Models of one name in several artifacts get the artifact in front of the
/// name. Errors: invalid (neither results of an evaluation nor trajectories), and those of the store.
pub fn load(session: &AppSession, artifacts: &[String]) -> Result<ComparedArtifacts> {
    let mut compared = ComparedArtifacts::default();
    for artifact in artifacts {
        let found = session.block_on(find::artifact(&session.store, artifact))?;
        let outputs = &found.manifest.outputs;
        let is_evaluation = [RESULTS, TRAJECTORIES].iter().all(|output| outputs.contains_key(*output));
        let port = if is_evaluation { TRAJECTORIES.to_string() } else { found.port.clone() };
        let trajectories = ResolvedOutput { manifest: found.manifest.clone(), port };
        let source = session.block_on(table::open(&session.store, artifact, &trajectories))?;
        let number = compared.tables.len();
        let models = if is_evaluation {
            let results = ResolvedOutput { port: RESULTS.to_string(), ..found };
            let results = session.block_on(table::open(&session.store, artifact, &results))?;
            of_results(&results, &source, number)?
        } else {
            vec![of_trajectories(artifact, &source, number)?]
        };
        compared.models.extend(models);
        compared.tables.push(TrajectoryTable { artifact: artifact.clone(), source });
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
    let ids = columns_as_json(trajectories, &["id"])?;
    let rows: HashMap<&str, usize> =
        ids.iter().enumerate().filter_map(|(at, row)| Some((row["id"].as_str()?, at))).collect();
    let mut models: Vec<ModelSamples> = Vec::new();
    for row in columns_as_json(results, &["model", "problem_id", "sample", "correct", "rollout"])? {
        let name = row["model"].as_str().unwrap_or_default();
        if models.last().is_none_or(|model| model.name != name) && !models.iter().any(|model| model.name == name) {
            models.push(ModelSamples::new(name, table));
        }
        let position = row["rollout"].as_str().and_then(|id| rows.get(id).copied());
        if let Some(model) = models.iter_mut().rev().find(|model| model.name == name) {
            model.add(sample(&row, position));
        }
    }
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
    for (at, row) in columns_as_json(source, &["problem_id", "sample", "correct"])?.iter().enumerate() {
        model.add(sample(row, Some(at)));
    }
    Ok(model)
}

fn sample(row: &Value, position: Option<usize>) -> Sample {
    Sample {
        problem: row["problem_id"].as_str().unwrap_or_default().to_string(),
        number: row["sample"].as_i64().unwrap_or_default(),
        correct: row["correct"].as_bool(),
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
        assert_eq!((models[0].drawn("p1"), models[0].drawn("p2")), ((1, 1), (0, 0)));
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
