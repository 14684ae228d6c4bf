//! Walks from every row that the quickstart's evaluation made, and from those that its models learned from, back to
//! synthesized rows.
//!
//! The workflow is the shipped one with fewer problems, steps and weights. Trees are compared as JSON with trees that
//! are written here by hand from the workflow.

use crate::kit::{Sandbox, repository};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_store::{Store, StoreOptions};
use trainyard_views::find::{self, ResolvedOutput};
use trainyard_views::row_lineage;

/// Sizes of the shipped workflow, and those of the test.
const SMALLER: [(&str, &str); 10] = [
    ("{levels: {1: 2000, 2: 2500, 3: 1000, 4: 500, 5: 300}}", "{levels: {1: 300, 2: 40, 3: 20, 4: 10, 5: 10}}"),
    ("rl: {total: 4000}", "rl: {levels: {1: 30, 2: 10}}"),
    ("prm: {total: 200,", "prm: {total: 10,"),
    ("validation: {total: 200}", "validation: {levels: {1: 40}}"),
    ("test: {total: 400}", "test: {levels: {1: 8, 2: 4}}"),
    ("vocabulary_size: 512", "vocabulary_size: 320"),
    ("hidden_size: 64", "hidden_size: 48"),
    ("intermediate_size: 176", "intermediate_size: 128"),
    ("keep_rollouts: 20000", "keep_rollouts: 100"),
    ("    checks: [{metric: accuracy, of: low, min: 0.001}]\n", ""),
];
/// Rows of the splits in [`SMALLER`].
const SPLITS: [(&str, u64); 5] = [("demonstrations", 380), ("rl", 40), ("prm", 10), ("validation", 40), ("test", 12)];
/// Samples per problem of a model in `sampled`, by default.
const SAMPLES: usize = 8;
/// Stages of the quickstart, with their kinds.
const KINDS: [(&str, &str); 7] = [
    ("synthesize", "data/synthesize"),
    ("filter", "data/filter"),
    ("base", "model/init"),
    ("sft", "sft"),
    ("rl", "rl"),
    ("prm", "prm"),
    ("evaluate", "evaluate"),
];
/// Models of the evaluation: their names, and the stages that made them.
const MODELS: [(&str, &str); 3] = [("untrained", "base"), ("sft", "sft"), ("rl", "rl")];

/// A finished run and its artifacts.
struct FinishedRun {
    sandbox: Sandbox,
    id: String,
    /// Entries of `artifacts list`, by `STAGE/OUTPUT`.
    artifacts: BTreeMap<String, Value>,
}

impl FinishedRun {
    fn of_the_smaller_quickstart() -> Self {
        let sandbox = Sandbox::new();
        let mut text = std::fs::read_to_string(repository().join("workflows/quickstart.yaml")).unwrap();
        for (from, to) in SMALLER {
            assert_eq!(text.matches(from).count(), 1, "{from}");
            text = text.replace(from, to);
        }
        sandbox.write("quickstart.yaml", text);
        sandbox.run(&["run", "quickstart.yaml", "-p", "sft_steps=350", "-p", "rl_steps=3"]).code(0);
        let list = sandbox.run(&["artifacts", "list", "latest", "--format", "json"]).code(0).json();
        let (mut id, mut artifacts) = (String::new(), BTreeMap::new());
        for entry in list.as_array().unwrap() {
            let (run, name) = entry["artifact"].as_str().unwrap().split_once('/').unwrap();
            id = run.to_string();
            artifacts.insert(name.to_string(), entry.clone());
        }
        Self { sandbox, id, artifacts }
    }

    /// Returns the number of rows of an artifact; null for a model.
    fn rows(&self, name: &str) -> &Value {
        &self.artifacts[name]["rows"]
    }
    /// Returns the columns of all rows of an artifact.
    fn query(&self, name: &str, columns: &str) -> Vec<Vec<String>> {
        let (artifact, statement) = (format!("latest/{name}"), format!("select {columns} from self"));
        let options = ["--limit", "9999", "--format", "json"];
        let command = [["artifacts", "query", artifact.as_str(), statement.as_str()], options].concat();
        let found = self.sandbox.run(&command).code(0).json();
        assert_eq!(found["truncated"], false, "{name}");
        let cell = |cell: &Value| cell.as_str().map_or_else(|| cell.to_string(), str::to_string);
        let row = |row: &Value| row.as_array().unwrap().iter().map(cell).collect();
        found["rows"].as_array().unwrap().iter().map(row).collect()
    }
    /// Walks from each row of an artifact to its sources; without excerpts of texts.
    fn walks(&self, name: &str) -> Vec<Value> {
        let rows = usize::try_from(self.rows(name).as_u64().unwrap()).unwrap();
        let url = self.sandbox.store();
        let trees = trees(url.to_str().unwrap(), &format!("latest/{name}"), rows);
        for row in [0, rows - 1] {
            let (artifact, row_text) = (format!("latest/{name}"), row.to_string());
            let told = self.sandbox.run(&["artifacts", "lineage", &artifact, "--row", &row_text, "--format", "json"]);
            assert_eq!(told.code(0).json(), trees[row], "{name} row {row}");
        }
        trees.into_iter().map(without_texts).collect()
    }

    /// Returns the tree of an output, or of a row of it, that ends there.
    fn node(&self, relation: &str, name: &str) -> Value {
        let stage = name.split_once('/').unwrap().0;
        let kind = KINDS.iter().find(|(key, _)| *key == stage).unwrap().1;
        json!({
            "relation": relation, "artifact": format!("{}/{name}", self.id),
            "stage_digest": self.artifacts[name]["stage_digest"], "stage_kind": kind,
            "row": null, "id": null, "inputs": [], "sources": [], "note": null,
        })
    }
    fn row(&self, relation: &str, name: &str, (row, id): (usize, &str), sources: Vec<Value>) -> Value {
        let mut node = self.node(relation, name);
        node["row"] = json!(row);
        node["id"] = json!(id);
        node["sources"] = json!(sources);
        node
    }
    /// Returns the tree of a generated problem.
    fn problem(&self, name: &str, (row, id): (usize, &str)) -> Value {
        let mut node = self.row("problem", name, (row, id), Vec::new());
        node["note"] = json!("made by `data/synthesize` from word-problems");
        node
    }
    /// Returns the tree of the model that a stage made.
    fn model(&self, stage: &str) -> Value {
        let (inputs, source): (&[(&str, &str)], _) = match stage {
            "base" => (&[("corpus", "filter/kept")], None),
            "sft" => (&[("model", "base/model"), ("trajectories", "filter/kept")], Some("base")),
            "rl" => (
                &[
                    ("model", "sft/model"),
                    ("problems", "synthesize/problems_rl"),
                    ("validation", "synthesize/problems_validation"),
                ],
                Some("sft"),
            ),
            other => panic!("{other} is no policy"),
        };
        let input = |(port, name): &(&str, &str)| {
            let entry = &self.artifacts[*name];
            json!({
                "input": port, "artifact": entry["artifact"], "stage_digest": entry["stage_digest"],
                "kind": entry["kind"], "rows": entry["rows"],
            })
        };
        let mut node = self.node("model", &format!("{stage}/model"));
        node["inputs"] = inputs.iter().map(input).collect();
        node["sources"] = source.into_iter().map(|source| self.model(source)).collect();
        node
    }
    /// Returns the trees of the evaluated models with the weights of a digest. Practice that did not help leaves the
    /// weights of `sft`, and then both models have made the row.
    fn models_with(&self, digest: &str) -> Vec<Value> {
        let stages = MODELS.iter().map(|(_, stage)| *stage);
        let mut models: Vec<Value> = stages
            .filter(|stage| self.artifacts[&format!("{stage}/model")]["digest"] == digest)
            .map(|stage| self.model(stage))
            .collect();
        if models.len() > 1 {
            models.iter_mut().for_each(|model| model["note"] = json!("one of 2 inputs with the same weights"));
        }
        models
    }
}

/// Walks from each row, in one process and in as many threads as there are CPUs.
fn trees(store: &str, artifact: &str, rows: usize) -> Vec<Value> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    runtime.block_on(async {
        let store = Store::open(store, StoreOptions { probe: false, ..StoreOptions::default() }).await.unwrap();
        let found = find::artifact(&store, artifact).await.unwrap();
        let mut walks = tokio::task::JoinSet::new();
        for first in 0..threads {
            let (store, artifact) = (store.clone(), artifact.to_string());
            let (manifest, port) = (found.manifest.clone(), found.port.clone());
            walks.spawn(async move {
                let mut trees = Vec::new();
                for row in (first..rows).step_by(threads) {
                    let found = ResolvedOutput { manifest: manifest.clone(), port: port.clone() };
                    let tree = row_lineage::sources(&store, &artifact, found, row).await.unwrap();
                    trees.push((row, serde_json::to_value(tree).unwrap()));
                }
                trees
            });
        }
        let mut trees: Vec<(usize, Value)> = walks.join_all().await.into_iter().flatten().collect();
        trees.sort_by_key(|(row, _)| *row);
        trees.into_iter().map(|(_, tree)| tree).collect()
    })
}

/// Removes excerpts of texts from a tree.
fn without_texts(mut tree: Value) -> Value {
    let node = tree.as_object_mut().unwrap();
    node.remove("text").unwrap();
    let sources = node["sources"].as_array_mut().unwrap();
    sources.iter_mut().for_each(|source| *source = without_texts(source.take()));
    tree
}

/// Returns the position of each id among the rows of a column.
fn positions(ids: &[Vec<String>]) -> BTreeMap<&str, usize> {
    let positions: BTreeMap<&str, usize> =
        ids.iter().enumerate().map(|(row, cells)| (cells[0].as_str(), row)).collect();
    assert_eq!(positions.len(), ids.len(), "no id comes twice");
    positions
}

fn at(positions: &BTreeMap<&str, usize>, id: &str) -> (usize, String) {
    (*positions.get(id).unwrap_or_else(|| panic!("no row has the id {id}")), id.to_string())
}

/// Checks the rows of the evaluation: a result leads to its rollout, this to its test problem and its model.
fn evaluation(run: &FinishedRun) {
    let problems = run.query("synthesize/problems_test", "id");
    let problems = positions(&problems);
    let rollouts = run.query("evaluate/trajectories", "id, problem_id, model_digest");
    let mut made: BTreeMap<&str, usize> = BTreeMap::new();
    let walks = run.walks("evaluate/trajectories");
    for ((row, cells), tree) in rollouts.iter().enumerate().zip(&walks) {
        let [id, problem, digest] = cells.as_slice() else { panic!("three columns") };
        let name = id.split('/').nth(1).unwrap();
        let (name, stage) = *MODELS.iter().find(|(model, _)| *model == name).unwrap();
        *made.entry(name).or_default() += 1;
        let models = run.models_with(digest);
        let own = format!("{}/{stage}/model", run.id);
        assert!(models.iter().any(|model| model["artifact"] == own.as_str()), "{id} leads to the model of its name");
        let (place, problem) = at(&problems, problem);
        let problem = run.problem("synthesize/problems_test", (place, &problem));
        let sources = [vec![problem], models].concat();
        assert_eq!(*tree, run.row("row", "evaluate/trajectories", (row, id), sources), "{id}");
    }
    let sampled = problems.len() * (1 + SAMPLES);
    assert_eq!(made, BTreeMap::from([("untrained", problems.len()), ("sft", sampled), ("rl", sampled)]));

    let ids = positions(&rollouts);
    let results = run.query("evaluate/results", "rollout");
    let judged: BTreeSet<&str> = results.iter().map(|cells| cells[0].as_str()).collect();
    assert!(judged.iter().eq(ids.keys()), "every rollout has a result");
    for ((row, cells), tree) in results.iter().enumerate().zip(run.walks("evaluate/results")) {
        let (place, id) = at(&ids, &cells[0]);
        let mut rollout = walks[place].clone();
        rollout["relation"] = json!("rollout");
        assert_eq!(tree, run.row("row", "evaluate/results", (row, &id), vec![rollout]), "{id}");
    }
}

/// Checks what `base` and `sft` learned from: a kept demonstration leads to its problem and to the synthesized one.
fn demonstrations(run: &FinishedRun) {
    let problems = run.query("synthesize/problems", "id");
    let problems = positions(&problems);
    let synthesized = run.query("synthesize/demonstrations", "id");
    let synthesized = positions(&synthesized);
    let kept = run.query("filter/kept", "id, problem_id");
    for ((row, cells), tree) in kept.iter().enumerate().zip(run.walks("filter/kept")) {
        let (id, (place, problem)) = (&cells[0], at(&problems, &cells[1]));
        let problem = run.problem("synthesize/problems", (place, &problem));
        let (place, _) = at(&synthesized, id);
        let source = run.row("kept", "synthesize/demonstrations", (place, id), vec![problem.clone()]);
        assert_eq!(tree, run.row("row", "filter/kept", (row, id), vec![problem, source]), "{id}");
    }
}

/// Checks rollouts that a stage sampled from one model: they lead to the problem of a split and to that model.
fn practice(run: &FinishedRun, rollouts: &str, split: &str, model: &str) {
    let split = format!("synthesize/problems_{split}");
    let problems = run.query(&split, "id");
    let problems = positions(&problems);
    let rows = run.query(rollouts, "id, problem_id");
    for ((row, cells), tree) in rows.iter().enumerate().zip(run.walks(rollouts)) {
        let (id, (place, problem)) = (&cells[0], at(&problems, &cells[1]));
        let sources = vec![run.problem(&split, (place, &problem)), run.model(model)];
        assert_eq!(tree, run.row("row", rollouts, (row, id), sources), "{id}");
    }
}

fn counts_add_up(run: &FinishedRun) {
    for (split, rows) in SPLITS {
        assert_eq!(*run.rows(&format!("synthesize/problems_{split}")), rows, "{split}");
    }
    assert_eq!(*run.rows("synthesize/problems"), SPLITS.iter().map(|(_, rows)| rows).sum::<u64>());
    let number = |name: &str| run.rows(name).as_u64().unwrap();
    assert_eq!(number("filter/kept") + number("filter/rejected"), number("synthesize/demonstrations"));
    assert_eq!((number("rl/trajectories"), number("prm/trajectories")), (100, 20));
}

#[test]
fn every_row_of_the_quickstart_leads_to_synthesized_rows() {
    let run = FinishedRun::of_the_smaller_quickstart();
    counts_add_up(&run);
    evaluation(&run);
    demonstrations(&run);
    practice(&run, "rl/trajectories", "rl", "sft");
    practice(&run, "prm/trajectories", "prm", "rl");
}
