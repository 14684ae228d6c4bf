use super::links::{RowLink, is_place, links, own_links};
use super::row::LinkedRow;
use super::{LineageNode, Relation, sources};
use crate::find::ResolvedOutput;
use serde_json::{Map, Value, json};
use trainyard_core::artifact::TableSummary;
use trainyard_core::{ArtifactKind, Digest, FileEntry, Manifest, Output};
use trainyard_store::{Store, StoreOptions};
use trainyard_tables::{Problem, TableBuilder, Trajectory, write_problems, write_trajectories};

async fn memory() -> Store {
    Store::open("memory://", StoreOptions::default()).await.unwrap()
}

/// Returns the bytes of the table that a function writes.
fn bytes(write: impl FnOnce(&std::path::Path)) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    write(&path);
    std::fs::read(path).unwrap()
}

fn problems(rows: &[Problem]) -> Vec<u8> {
    bytes(|path| {
        write_problems(path, rows).unwrap();
    })
}

fn trajectories(rows: &[Trajectory]) -> Vec<u8> {
    bytes(|path| {
        write_trajectories(path, rows).unwrap();
    })
}

fn problem(id: &str, parents: &[&str]) -> Problem {
    let text = |text: &str| text.to_string();
    Problem {
        id: text(id),
        messages: Vec::new(),
        answer: text("1"),
        verifier: text("{}"),
        environment: text("word-problems"),
        level: 1,
        source: text("test"),
        split: text("test"),
        canonical: text(id),
        reference: None,
        meta: None,
        parents: parents.iter().map(|id| text(id)).collect(),
    }
}

fn rollout(id: &str, problem_id: &str, parents: &[&str]) -> Trajectory {
    Trajectory {
        id: id.to_string(),
        problem_id: problem_id.to_string(),
        parents: parents.iter().map(ToString::to_string).collect(),
        ..Trajectory::default()
    }
}

/// Publishes a stage with one output, called `out`.
async fn publish(
    store: &Store,
    (stage, kind): (&str, ArtifactKind),
    inputs: &[(&str, &ResolvedOutput)],
    bytes: Vec<u8>,
) -> ResolvedOutput {
    let (digest, size) = store.put_object(bytes.into()).await.unwrap();
    let file = FileEntry { path: "data.parquet".to_string(), digest, size };
    let table =
        (kind != ArtifactKind::Model).then(|| TableSummary { rows: 7, columns: Vec::new(), preview: Vec::new() });
    let output = Output::new(kind, vec![file], table, Default::default()).unwrap();
    let mut ports = Map::new();
    for (port, found) in inputs {
        let list = ports.entry(*port).or_insert_with(|| json!([])).as_array_mut().unwrap();
        list.push(serde_json::to_value(found.manifest.reference("out").unwrap()).unwrap());
    }
    let manifest = json!({
        "format": 1, "stage_digest": Digest::of(stage.as_bytes()), "generation": 0, "kind": format!("kind-{stage}"),
        "kind_version": 1, "config": {}, "inputs": ports, "outputs": {"out": output}, "metrics": {},
        "provenance": {"workflow": "w", "run": "r", "stage": stage, "attempt": 1},
    });
    let manifest: Manifest = serde_json::from_value(manifest).unwrap();
    store.publish(&manifest).await.unwrap();
    ResolvedOutput { manifest, port: "out".to_string() }
}

async fn walk(store: &Store, found: &ResolvedOutput, row: usize) -> LineageNode {
    let found = ResolvedOutput { manifest: found.manifest.clone(), port: found.port.clone() };
    sources(store, "r/x/out", found, row).await.unwrap()
}

/// Returns relation, artifact or id, and note of the sources of a node.
fn below(node: &LineageNode) -> Vec<(Relation, &str, Option<&str>)> {
    let shown = node.sources.iter().map(|source| {
        let name = source.artifact.as_deref().or(source.id.as_deref());
        (source.relation, name.unwrap(), source.note.as_deref())
    });
    shown.collect()
}

const PROBLEMS: ArtifactKind = ArtifactKind::Problems;
const TRAJECTORIES: ArtifactKind = ArtifactKind::Trajectories;
const MODEL: ArtifactKind = ArtifactKind::Model;

#[tokio::test(flavor = "multi_thread")]
async fn every_parent_of_a_rollout_is_found_or_said_to_be_missing() {
    let store = memory().await;
    let asked = publish(&store, ("data", PROBLEMS), &[], problems(&[problem("p", &["a.jsonl:3"])])).await;
    let shown = trajectories(&[rollout("demo", "p", &["p"])]);
    let shown = publish(&store, ("shown", TRAJECTORIES), &[("problems", &asked)], shown).await;
    let model = publish(&store, ("base", MODEL), &[("corpus", &shown)], b"weights".to_vec()).await;
    let model_digest = Some(model.output().digest.to_string());
    let made = Trajectory { model_digest, ..rollout("r/p/0", "p", &["p", "demo", "gone", "b.jsonl:4"]) };
    let inputs = [("demonstrations", &shown), ("model", &model), ("problems", &asked)];
    let made = publish(&store, ("rl", TRAJECTORIES), &inputs, trajectories(&[made])).await;

    let tree = walk(&store, &made, 0).await;
    assert_eq!((tree.relation, tree.id.as_deref(), &tree.note), (Relation::Row, Some("r/p/0"), &None));
    let gone = Some("no input or other output of `kind-rl` has a row with this id");
    assert_eq!(
        below(&tree),
        [
            (Relation::Parent, "r/shown/out", None),
            (Relation::Problem, "r/data/out", None),
            (Relation::Parent, "gone", gone),
            (Relation::Source, "b.jsonl:4", None),
            (Relation::Model, "r/base/out", None),
        ]
    );
    assert_eq!(below(&tree.sources[0]), [(Relation::Problem, "r/data/out", None)]);
    assert_eq!(below(&tree.sources[1]), [(Relation::Source, "a.jsonl:3", None)]);
    let counted = &tree.sources[4].inputs[0];
    assert_eq!((counted.input.as_str(), counted.artifact.as_str(), counted.rows), ("corpus", "r/shown/out", Some(7)));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_parents_are_found_in_the_order_of_the_row() {
    let store = memory().await;
    let rows: Vec<Problem> = (0..300).map(|row| problem(&format!("p{}", row % 200), &[])).collect();
    let first = publish(&store, ("first", PROBLEMS), &[], problems(&rows)).await;
    let second = problems(&[problem("p7", &[]), problem("q", &[])]);
    let second = publish(&store, ("second", PROBLEMS), &[], second).await;
    let names: Vec<String> = (0..200).rev().map(|row| format!("p{row}")).collect();
    let mut parents: Vec<&str> = vec!["q", "gone"];
    parents.extend(names.iter().map(String::as_str));
    let made = trajectories(&[rollout("a", "", &parents)]);
    let inputs = [("problems", &first), ("seeds", &second)];
    let made = publish(&store, ("rl", TRAJECTORIES), &inputs, made).await;
    let tree = walk(&store, &made, 0).await;
    let found: Vec<(Option<u64>, &str)> =
        tree.sources.iter().map(|source| (source.row, source.id.as_deref().unwrap())).collect();
    let mut expected: Vec<(Option<u64>, &str)> =
        (0..200).rev().zip(&names).map(|(row, name)| (Some(row), name.as_str())).collect();
    expected.extend([(Some(1), "q"), (None, "gone")]);
    assert_eq!(found, expected, "the first row of an id in the first input, and then what is in no table");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_row_leaves_its_parents_and_its_model_to_its_source() {
    let store = memory().await;
    let row = Trajectory { model_digest: Some("m".to_string()), ..rollout("a", "p", &["a.jsonl:1", "elsewhere"]) };
    let first = publish(&store, ("import", TRAJECTORIES), &[], trajectories(std::slice::from_ref(&row))).await;
    let kept = publish(&store, ("filter", TRAJECTORIES), &[("rows", &first)], trajectories(&[row])).await;
    let tree = walk(&store, &kept, 0).await;
    assert_eq!(below(&tree), [(Relation::Kept, "r/import/out", None)]);
    let unknown = Some("no input or other output of `kind-import` has a row with this id");
    assert_eq!(
        below(&tree.sources[0]),
        [
            (Relation::Source, "a.jsonl:1", None),
            (Relation::Parent, "elsewhere", unknown),
            (Relation::Model, "m", Some("no input of `kind-import` is this model")),
        ],
        "`p` is not named in `parents`: it may be a mere label"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn models_with_the_same_weights_and_with_others_are_marked() {
    let store = memory().await;
    let one = publish(&store, ("sft", MODEL), &[], b"weights".to_vec()).await;
    let same = publish(&store, ("rl", MODEL), &[("model", &one)], b"weights".to_vec()).await;
    let other = publish(&store, ("base", MODEL), &[], b"others".to_vec()).await;
    let by = |digest: &str| Trajectory { model_digest: Some(digest.to_string()), ..rollout(digest, "", &[]) };
    let rows = [by(&one.output().digest.to_string()), by(&other.output().digest.to_string()), by("unknown")];
    let inputs = [("models", &one), ("models", &same), ("models", &other)];
    let made = publish(&store, ("evaluate", TRAJECTORIES), &inputs, trajectories(&rows)).await;
    let twins = Some("one of 2 inputs with the same weights");
    let tree = walk(&store, &made, 0).await;
    assert_eq!(below(&tree), [(Relation::Model, "r/sft/out", twins), (Relation::Model, "r/rl/out", twins)]);
    assert_eq!(below(&tree.sources[1]), [(Relation::Model, "r/sft/out", None)]);
    assert_eq!(below(&walk(&store, &made, 1).await), [(Relation::Model, "r/base/out", None)]);
    let others = Some("the row names other weights");
    let tree = walk(&store, &made, 2).await;
    assert!(tree.sources.len() == 3 && tree.sources.iter().all(|source| source.note.as_deref() == others), "{tree:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_left_the_store_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap(), StoreOptions::default()).await.unwrap();
    let gone = publish(&store, ("data", PROBLEMS), &[], problems(&[problem("p", &[])])).await;
    let made = trajectories(&[rollout("a", "p", &["p"]), rollout("b", "", &[])]);
    let made = publish(&store, ("rl", TRAJECTORIES), &[("problems", &gone)], made).await;
    std::fs::remove_file(store.object_path(&gone.output().files[0].digest).unwrap()).unwrap();
    let note = Some("no longer in the store: r/data/out");
    let tree = walk(&store, &made, 0).await;
    assert_eq!(tree.note.as_deref(), note);
    let missing = "no input or other output of `kind-rl` has a row with this id";
    assert_eq!(below(&tree), [(Relation::Problem, "p", Some(missing))]);
    let tree = walk(&store, &made, 1).await;
    assert_eq!((below(&tree), tree.note.as_deref()), (vec![], note));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_could_not_be_read_is_named_by_its_id() {
    let store = memory().await;
    let rows = trajectories(&[rollout("a", "", &[]), rollout("b", "", &[])]);
    let rows = publish(&store, ("rows", TRAJECTORIES), &[], rows).await;
    let unread = bytes(|path| {
        TableBuilder::new().string("trajectory", ["b"]).write(path).unwrap();
    });
    let unread = publish(&store, ("tokens", ArtifactKind::Table), &[("rows", &rows)], unread).await;
    let tree = walk(&store, &unread, 0).await;
    assert_eq!(below(&tree), [(Relation::Parent, "r/rows/out", Some("made by `kind-rows`"))]);
    assert_eq!(tree.sources[0].row, Some(1));
}

fn cells(value: Value) -> LinkedRow {
    let Value::Object(cells) = value else { panic!("{value} is no object") };
    LinkedRow(cells)
}

#[test]
fn links_of_a_row_are_listed_once() {
    let link = |id: &str, relation, is_source| RowLink { id: id.to_string(), relation, is_source };
    let row = cells(json!({"id": "a", "problem_id": "p", "parents": ["p", "d", "d"], "trajectories": ["t"]}));
    assert_eq!(
        links(&row),
        [
            link("a", Relation::Kept, false),
            link("p", Relation::Problem, true),
            link("d", Relation::Parent, true),
            link("t", Relation::Parent, false),
        ]
    );
    assert_eq!(links(&cells(json!({"id": "", "problem_id": null, "parents": null}))), []);
    assert_eq!(
        own_links(&cells(json!({"rollout": "r", "fork_of": "f"}))),
        [link("r", Relation::Rollout, true), link("f", Relation::Fork, true)]
    );
}

#[test]
fn a_place_is_a_file_with_a_number() {
    assert!(is_place("train.jsonl:17") && is_place("a:b.csv:0"));
    assert!(["train.jsonl", "train.jsonl:", "train.jsonl:x", ":3", "seed-1"].iter().all(|id| !is_place(id)));
}
