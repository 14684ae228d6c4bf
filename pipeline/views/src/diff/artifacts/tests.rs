use super::*;
use serde_json::{Value, json};
use trainyard_core::{Digest, ErrorKind, Manifest, Output};
use trainyard_store::StoreOptions;
use trainyard_tables::{TableBuilder, summarize};

async fn store() -> Store {
    Store::open("memory://", StoreOptions::default()).await.unwrap()
}

async fn entry(store: &Store, path: &str, bytes: Vec<u8>) -> FileEntry {
    let (digest, size) = store.put_object(bytes.into()).await.unwrap();
    FileEntry { path: path.into(), digest, size }
}

/// Returns an output `o` of a stage with this config and these metrics.
fn found(output: Output, config: Value, metrics: Value) -> ResolvedOutput {
    let manifest = json!({
        "format": 1, "stage_digest": Digest::of(config.to_string().as_bytes()), "generation": 0, "kind": "run",
        "kind_version": 1, "config": config, "outputs": {"o": output}, "metrics": metrics,
        "provenance": {"workflow": "w", "run": "r", "stage": "s", "attempt": 1},
    });
    let manifest: Manifest = serde_json::from_value(manifest).unwrap();
    ResolvedOutput { manifest, port: "o".into() }
}

async fn table_output(store: &Store, rows: TableBuilder) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(table::DATA);
    rows.write(&path).unwrap();
    let file = entry(store, table::DATA, std::fs::read(&path).unwrap()).await;
    Output::new(ArtifactKind::Table, vec![file], Some(summarize(&path).unwrap()), BTreeMap::new()).unwrap()
}

async fn files_output(store: &Store, kind: ArtifactKind, files: &[(&str, &str)]) -> Output {
    let mut entries = Vec::new();
    for (path, content) in files {
        entries.push(entry(store, path, content.as_bytes().to_vec()).await);
    }
    Output::new(kind, entries, None, BTreeMap::from([("role".to_string(), json!(files.len()))])).unwrap()
}

fn ids(ids: &[&str], second: &str) -> TableBuilder {
    TableBuilder::new().string("id", ids).i64(second, 0..ids.len() as i64)
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_compared_by_manifest_and_rows() {
    let store = store().await;
    let wide = ids(&["a", "b"], "n").f64("x", [0.5, 0.5]);
    let a = found(table_output(&store, wide).await, json!({"lr": 1}), json!({"loss": 0.5}));
    let narrow = ids(&["b", "a"], "n").string("x", ["0.5", "1"]).bool("new", [true, false]);
    let b = found(table_output(&store, narrow).await, json!({"lr": 2}), json!({"loss": 0.25}));
    let diff = diff_artifacts(&store, ("r/s/o", &a), ("q/s/o", &b), 5).await.unwrap();
    assert_eq!((diff.is_same, diff.is_equal), (false, false));
    assert_eq!((diff.a.artifact.as_str(), diff.b.rows), ("r/s/o", Some(2)));
    assert_eq!((diff.config[0].path.as_str(), diff.metrics[0].difference), ("lr", Some(-0.25)));
    let columns = diff.columns.unwrap();
    assert_eq!(
        (columns.only_a.len(), columns.only_b, columns.retyped[0].column.as_str()),
        (0, vec!["new".into()], "x")
    );
    let rows = diff.rows.unwrap();
    assert_eq!((rows.changed, rows.equal, rows.columns.len()), (2, 0, 2), "{rows:?}");
    assert_eq!(diff.files.unwrap(), FilesDiff::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_content_is_not_read() {
    let store = store().await;
    let a = found(table_output(&store, ids(&["a"], "n")).await, json!({"lr": 1}), json!({}));
    let b = found(table_output(&store, ids(&["a"], "n")).await, json!({"lr": 2}), json!({}));
    // A store without any object.
    let empty = self::store().await;
    let diff = diff_artifacts(&empty, ("a", &a), ("b", &b), 5).await.unwrap();
    assert_eq!((diff.is_same, diff.is_equal, diff.rows.is_none(), diff.config.len()), (false, true, true, 1));
    let diff = diff_artifacts(&empty, ("a", &a), ("a", &a), 5).await.unwrap();
    assert!(diff.is_same && diff.config.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn other_kinds_are_compared_by_config_and_metrics() {
    let store = store().await;
    let a = found(table_output(&store, ids(&["a"], "n")).await, json!({"lr": 1}), json!({"loss": 1.0}));
    let output = files_output(&store, ArtifactKind::Files, &[("x", "1")]).await;
    let b = found(output, json!({"lr": 2}), json!({"loss": 2.0}));
    let diff = diff_artifacts(&store, ("a", &a), ("b", &b), 5).await.unwrap();
    assert!(diff.columns.is_none() && diff.rows.is_none() && diff.files.is_none());
    assert_eq!((diff.config.len(), diff.metrics[0].difference), (1, Some(1.0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_compared_by_path_and_metadata_by_key() {
    let store = store().await;
    let a = files_output(&store, ArtifactKind::Report, &[("report.md", "one"), ("old.svg", "o")]).await;
    let b = files_output(&store, ArtifactKind::Report, &[("report.md", "two")]).await;
    let (a, b) = (found(a, json!({}), json!({})), found(b, json!({"k": 1}), json!({})));
    let diff = diff_artifacts(&store, ("a", &a), ("b", &b), 5).await.unwrap();
    let files = diff.files.unwrap();
    assert_eq!((files.changed, files.only_a, files.only_b), (1, 1, 0));
    assert_eq!((diff.metadata[0].path.as_str(), &diff.metadata[0].b), ("role", &Some(json!(1))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_object_is_named_with_its_artifact() {
    let (store, other) = (store().await, store().await);
    let a = found(table_output(&store, ids(&["a"], "n")).await, json!({}), json!({}));
    let b = found(table_output(&other, ids(&["b"], "n")).await, json!({"k": 1}), json!({}));
    let error = diff_artifacts(&store, ("r/s/a", &a), ("r/s/b", &b), 5).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Lost, "{error}");
    assert!(error.message.starts_with("r/s/b: file `data.parquet`: "), "{error}");

    let model = [("model.safetensors", "x")];
    let a = found(files_output(&other, ArtifactKind::Model, &model).await, json!({}), json!({}));
    let b = found(files_output(&store, ArtifactKind::Model, &[]).await, json!({"k": 1}), json!({}));
    let error = diff_artifacts(&store, ("r/s/a", &a), ("r/s/b", &b), 5).await.unwrap_err();
    assert!(error.message.starts_with("r/s/a: file `model.safetensors`: "), "{error}");
}
