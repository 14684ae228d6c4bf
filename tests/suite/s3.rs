//! Runs whose store is a bucket: the same guarantees as in a folder, with the same digests.
//!
//! `TRAINYARD_TEST_S3` names a bucket and a prefix (`s3://bucket/prefix`), and `AWS_*` how to reach it. Each test uses
//! a separate prefix. Without the variable the tests report that they are skipped.

use crate::kit::{Sandbox, ran, skipped, wait_for};
use crate::processes::kill;
use crate::published::{all_hits, intact, publish};
use crate::slow_chain;
use std::collections::BTreeMap;
use std::time::Duration;
use trainyard_store::{GarbagePlan, GarbagePolicy, Store, StoreOptions, layout};

/// A sandbox whose store is in the bucket.
struct Bucket {
    sandbox: Sandbox,
    url: String,
}

impl Bucket {
    #[track_caller]
    fn new() -> Option<Self> {
        let Ok(prefix) = std::env::var("TRAINYARD_TEST_S3") else {
            skipped("TRAINYARD_TEST_S3 names no bucket");
            return None;
        };
        let sandbox = Sandbox::new();
        let url = format!("{}/{}", prefix.trim_end_matches('/'), sandbox.name());
        Some(Self { sandbox: sandbox.with_store(&url), url })
    }
    /// Returns the names under a folder of the store.
    fn names(&self, folder: &str) -> Vec<String> {
        wait(async { open(&self.url).await.list(folder).await.unwrap() })
    }
    /// Deletes all payload files, as a careless lifecycle rule of the bucket would.
    fn lose_objects(&self) {
        let folder = format!("{}/", layout::OBJECTS);
        let objects: Vec<_> =
            self.names(layout::OBJECTS).iter().map(|name| (name.replacen(&folder, "", 1), 0)).collect();
        assert!(!objects.is_empty());
        let plan = GarbagePlan { objects, policy: GarbagePolicy::from(Duration::ZERO), ..GarbagePlan::default() };
        wait(async { open(&format!("{}/{}", self.url, layout::OBJECTS)).await.collect_garbage(&plan).await.unwrap() });
        assert_eq!(self.names(layout::OBJECTS), Vec::<String>::new());
    }
}

async fn open(url: &str) -> Store {
    Store::open(url, StoreOptions { probe: false, ..StoreOptions::default() }).await.unwrap()
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Returns the digests of all artifacts of the latest run, by stage and port.
fn digests(s: &Sandbox) -> BTreeMap<String, String> {
    let list = s.run(&["artifacts", "list", "--format", "json"]).code(0).json();
    let text = |v: &serde_json::Value| v.as_str().unwrap().to_string();
    let named =
        |a: &serde_json::Value| (text(&a["artifact"]).split_once('/').unwrap().1.to_string(), text(&a["digest"]));
    list.as_array().unwrap().iter().map(named).collect()
}

const KEYS: &str = r#"
version: 1
name: keys
stages:
  without:
    run: test -z "${AWS_ACCESS_KEY_ID-}${AWS_SECRET_ACCESS_KEY-}"
  named:
    run: test -n "$AWS_SECRET_ACCESS_KEY"
    secrets: [AWS_SECRET_ACCESS_KEY]
"#;

#[test]
fn commands_get_the_keys_of_the_bucket_only_if_they_name_them() {
    let Some(b) = Bucket::new() else { return };
    let secret = "AWS_SECRET_ACCESS_KEY";
    b.sandbox.write("trainyard.yaml", format!("version: 1\nsecrets: {{{secret}: \"env:{secret}\"}}\n"));
    b.sandbox.write("keys.yaml", KEYS);
    b.sandbox.run(&["run", "keys.yaml"]).code(0);
}

/// Returns all runs, newest first.
fn runs(s: &Sandbox) -> Vec<(String, String)> {
    let list = s.run(&["runs", "list", "--format", "json"]).code(0).json();
    let row =
        |r: &serde_json::Value| (r["run"].as_str().unwrap().to_string(), r["status"].as_str().unwrap().to_string());
    list.as_array().unwrap().iter().map(row).collect()
}

const CHAIN: &str = r#"
version: 1
name: chain
stages:
  rows:
    uses: data/import
    with: {source: rows.jsonl, format: gsm8k, split: test}
  names:
    with: {rows: "${{ stages.rows.problems }}"}
    run: echo ran >> @log; echo listing; ls ${{ inputs.rows }} > ${{ outputs.o }}/names
    outputs: {o: {kind: files}}
  end:
    uses: noop
    needs: [names]
"#;

const ROWS: &str = "{\"question\": \"Ann has 2 figs and buys 3. How many?\", \"answer\": \"2+3 = <<2+3=5>>5\\n\
 #### 5\"}\n{\"question\": \"Bob has 7 nuts and eats 1. How many?\", \"answer\": \"7-1 = <<7-1=6>>6\\n#### 6\"}\n";

/// Runs the chain and returns how often its second stage has run.
fn chain(s: &Sandbox) -> usize {
    s.write_placed("chain.yaml", CHAIN);
    s.write("rows.jsonl", ROWS);
    s.run(&["run", "chain.yaml"]).code(0);
    s.read("log").lines().count()
}

#[test]
fn chain_runs_once_and_lost_objects_are_rebuilt() {
    let Some(bucket) = Bucket::new() else { return };
    let s = &bucket.sandbox;
    assert_eq!(chain(s), 1);
    let first = digests(s);
    all_hits(s, "chain.yaml");
    bucket.lose_objects();
    s.run(&["artifacts", "export", "latest/names/o", "lost"]).code(3).says("is missing");
    assert_eq!(chain(s), 2);
    assert_eq!(digests(s), first);
    s.run(&["artifacts", "export", "latest/names/o", "out"]).code(0);
    assert_eq!(s.read("out/names"), "data.parquet\n");
    all_hits(s, "chain.yaml");
}

#[test]
fn artifacts_and_logs_are_read_from_the_bucket() {
    let Some(bucket) = Bucket::new() else { return };
    let s = &bucket.sandbox;
    chain(s);
    s.run(&["artifacts", "list"]).code(0).prints("rows/problems").prints("names/o");
    s.run(&["artifacts", "show", "latest/rows/problems"]).code(0).prints("2 rows").prints("Ann has 2 figs");
    let statement = "select answer, count(*) as n from self group by answer order by answer";
    let found = s.run(&["artifacts", "query", "latest/rows/problems", statement, "--format", "json"]).code(0).json();
    assert_eq!(found["rows"], serde_json::json!([["5", 1], ["6", 1]]), "{found}");
    s.run(&["artifacts", "export", "latest/rows/problems", "rows.csv"]).code(0);
    assert!(s.read("rows.csv").contains("Bob has 7 nuts"));
    s.run(&["logs", "latest", "names"]).code(0).prints("listing");
    s.run(&["runs", "show", "latest"]).code(0).prints("succeeded");
    s.run(&["doctor"]).code(0).prints("store");
    assert!(!s.store().exists(), "nothing may lie in a folder");
}

#[test]
fn failed_stage_keeps_published_artifacts_in_the_bucket() {
    let Some(bucket) = Bucket::new() else { return };
    let s = &bucket.sandbox;
    let before = publish(s);
    s.write(
        "bad.yaml",
        "version: 1\nname: bad\nstages:\n  bad:\n    run: echo gone wrong >&2; exit 7\n    \
         outputs: {o: {kind: files}}\n",
    );
    s.run(&["run", "bad.yaml"]).code(1).says("exit code 7");
    s.run(&["logs", "latest"]).code(0).prints("gone wrong");
    intact(s, &before);
}

const TRAINING: &str = r#"
version: 1
name: training
stages:
  problems:
    uses: data/synthesize
    with: {method: procedural, seed: 1, splits: {demonstrations: {levels: {1: 24}}, test: {levels: {1: 4}}}}
  base:
    uses: model/init
    with:
      {problems: ["${{ stages.problems.problems }}"], hidden_size: 32, layers: 1, heads: 2, intermediate_size: 64,
          seed: 1}
  sft:
    uses: sft
    with:
      model: ${{ stages.base.model }}
      trajectories: ["${{ stages.problems.demonstrations }}"]
      steps: 1200
      batch_tokens: 512
      validate_every: 0
      checkpoint_every: 20
      seed: 1
  evaluate:
    uses: evaluate
    with: {models: ["${{ stages.sft.model }}"], names: [sft], problems: "${{ stages.problems.problems }}", samples: 1}
"#;

#[test]
fn killed_training_continues_and_ends_with_a_folders_digests() {
    let Some(bucket) = Bucket::new() else { return };
    let (folder, s) = (Sandbox::new(), &bucket.sandbox);
    for place in [&folder, s] {
        place.write("training.yaml", TRAINING);
    }
    folder.run(&["run", "training.yaml"]).code(0);
    let mut child = s.spawn(&["run", "training.yaml"]);
    wait_for("a checkpoint in the bucket", 60, || !bucket.names(layout::CHECKPOINTS).is_empty());
    kill(&mut child);
    let killed = runs(s).remove(0);
    assert_eq!(killed.1, "unfinished", "it must be killed before it is done");
    s.run(&["run", "training.yaml"]).code(0).says("resuming run");
    s.run(&["logs", "latest", "sft"]).code(0).prints("resuming after step");
    assert_eq!(runs(s), [(killed.0, "succeeded".to_string())]);
    let ended = digests(s);
    assert_eq!(ended.len(), 9, "{ended:?}");
    assert_eq!(ended, digests(&folder));
    all_hits(s, "training.yaml");
}

#[test]
fn killed_engine_is_taken_over_and_a_cancelled_run_ends() {
    let Some(bucket) = Bucket::new() else { return };
    let s = &bucket.sandbox;
    let mut child = slow_chain::start(s, 1);
    kill(&mut child);
    // Taken over, then cancelled while its new writer works.
    let child = slow_chain::start(s, 2);
    let taken = runs(s);
    assert_eq!(taken.len(), 1, "{taken:?}");
    s.run(&["runs", "cancel", "latest"]).code(0).prints("requested run");
    let ended = ran(child.wait_with_output().unwrap());
    ended.code(130).says("resuming run").says("one: hit").says("stopping: requested by another process");
    assert_eq!(runs(s), [(taken[0].0.clone(), "cancelled".to_string())]);
    // A run without a writer can be cancelled, too.
    let mut child = slow_chain::start(s, 3);
    kill(&mut child);
    s.run(&["runs", "cancel", "latest"]).code(0).prints("is cancelled now");
    assert_eq!(runs(s)[0].1, "cancelled");
    s.write("go", "");
    s.run(&["run", "slow.yaml"]).code(0).says("one: hit").says("two: done");
    assert_eq!((s.logged("one"), s.logged("two")), (1, 4));
    s.run(&["artifacts", "export", "latest/two/o", "out"]).code(0);
    assert_eq!(s.read("out/y"), "1");
}
