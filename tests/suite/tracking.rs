//! Runs followed by other programs: the data that they receive; results of a run do not depend on them.

use crate::kit::Sandbox;
use crate::python_programs::{python_with, succeeds};
use serde_json::Value;

const TRAINS: &str = r#"
version: 1
name: followed
params: {steps: {type: int, default: 4}}
stages:
  problems:
    uses: data/synthesize
    with: {method: procedural, seed: 1, splits: {demonstrations: {levels: {1: 20}}}}
  base:
    uses: model/init
    with: {problems: ["${{ stages.problems.problems }}"], hidden_size: 32, layers: 1, heads: 2, intermediate_size: 64}
  sft:
    uses: sft
    with:
      {model: "${{ stages.base.model }}", trajectories: ["${{ stages.problems.demonstrations }}"],
          steps: "${{ params.steps }}"}
"#;

fn digests(s: &Sandbox) -> Value {
    s.run(&["runs", "show", "latest", "--format", "json"]).code(0).json()["stages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stage| stage["digest"].clone())
        .collect()
}

#[test]
fn curves_and_lineage_are_written_while_a_run_goes_on_and_change_no_digest() {
    let s = Sandbox::new();
    s.write("followed.yaml", TRAINS);
    s.run(&["run", "followed.yaml"]).code(0);
    let alone = digests(&s);
    s.write(
        "trainyard.yaml",
        "version: 1\nstore: other\ntracking: [{kind: tensorboard, folder: curves}, openlineage, wandb]\n",
    );
    s.run(&["run", "followed.yaml"]).code(0);
    assert_eq!(digests(&s), alone);
    let files = s.files("curves");
    assert!(files.iter().any(|name| name.starts_with("followed/") && name.contains("/sft/events.out.tfevents.")));
    assert!(s.files("wandb").iter().any(|name| name.starts_with("offline-run-") && name.ends_with(".wandb")));
    let lineage = s.read("openlineage.jsonl");
    let events = s.read_rows("openlineage.jsonl");
    let of = |job: &str, state: &str| {
        let named = |e: &&Value| e["job"]["name"] == job && e["eventType"] == state;
        events.iter().find(named).unwrap_or_else(|| panic!("no {state} of {job}: {lineage}")).clone()
    };
    let sft = of("followed.sft", "COMPLETE");
    assert_eq!(sft["inputs"].as_array().unwrap().len(), 2);
    let (made, read) = (of("followed.base", "COMPLETE"), sft["inputs"].as_array().unwrap());
    assert!(read.iter().any(|dataset| dataset["name"] == made["outputs"][0]["name"]), "{sft}");
    of("followed", "START");
    of("followed", "COMPLETE");
    let packages = "tensorboard, openlineage-python and wandb";
    let Some(python) = python_with(packages, "TRAINYARD_TEST_TRACKERS") else { return };
    s.write("peers.py", include_str!("tracking_peers.py"));
    succeeds(&python, &s, &["peers.py"]);
    s.write("wandb_peer.py", include_str!("tracking_wandb.py"));
    succeeds(&python, &s, &["wandb_peer.py"]);
}

#[test]
fn a_tracker_that_is_away_is_a_note_and_wrong_options_have_their_place() {
    let s = Sandbox::new();
    s.write("quick.yaml", "version: 1\nname: quick\nstages:\n  one: {uses: noop}\n");
    s.write("trainyard.yaml", "version: 1\ntracking:\n  - {kind: opentelemetry, url: \"http://127.0.0.1:9\"}\n");
    let ran = s.run(&["run", "quick.yaml"]).code(0);
    assert!(ran.stderr.contains("opentelemetry") || ran.stdout.contains("opentelemetry"), "{}", ran.stderr);
    s.write("trainyard.yaml", "version: 1\ntracking:\n  - {kind: tensorboard, foldr: x}\n");
    s.run(&["run", "quick.yaml"]).code(2).says("trainyard.yaml:3:").says("foldr");
    s.write("trainyard.yaml", "version: 1\ntracking: [{kind: mlflow, url: here}]\n");
    s.run(&["run", "quick.yaml"]).code(2).says("tracking[0]").says("`here` is not a URL");
    assert!(s.run(&["doctor"]).code(2).stdout.contains("`here` is not a URL"));
}
