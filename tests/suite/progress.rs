//! The progress of a run, and for what it waits, as other processes see it.

use crate::kit::{Sandbox, ran, wait_for};
use crate::processes::Killed;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

/// Trains longer than a test.
pub const TRAINS: &str = r#"
version: 1
name: long
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
      {model: "${{ stages.base.model }}", trajectories: ["${{ stages.problems.demonstrations }}"], steps: 100000}
"#;

/// Practices for one step, with and without problems for the validation.
const PRACTICES: &str = r#"
version: 1
name: practices
stages:
  problems:
    uses: data/synthesize
    with:
      method: procedural
      splits: {rl: {levels: {1: 8}}, validation: {levels: {1: 4}}, demonstrations: {levels: {1: 4}}}
  base:
    uses: model/init
    with: {problems: ["${{ stages.problems.problems }}"], hidden_size: 32, layers: 1, heads: 2, intermediate_size: 64}
  alone:
    uses: rl
    with:
      model: ${{ stages.base.model }}
      problems: ${{ stages.problems.problems_rl }}
      filters: []
      steps: 1
      problems_per_step: 2
      rollout: {group_size: 2, max_turn_tokens: 8}
  held_out:
    uses: rl
    with:
      model: ${{ stages.base.model }}
      problems: ${{ stages.problems.problems_rl }}
      validation: ${{ stages.problems.problems_validation }}
      filters: []
      steps: 1
      problems_per_step: 2
      rollout: {group_size: 2, max_turn_tokens: 8}
"#;

fn stage(s: &Sandbox, run: &str, name: &str) -> Value {
    let shown = s.run(&["runs", "show", run, "--format", "json"]);
    if shown.code != 0 {
        return Value::Null;
    }
    let stages = shown.json()["stages"].as_array().cloned().unwrap_or_default();
    stages.into_iter().find(|stage| stage["stage"] == name).unwrap_or_default()
}

/// Checks that every command shows the progress of `sft` while another process trains.
#[track_caller]
fn shows_progress(s: &Sandbox) {
    s.write("long.yaml", TRAINS);
    let _running = Killed(s.spawn(&["run", "long.yaml"]));
    let done = || stage(s, "latest", "sft")["progress"]["done"].as_u64().unwrap_or(0);
    wait_for("the first steps", 120, || done() > 0);
    let first = done();
    wait_for("further steps with a rate", 60, || {
        done() > first && stage(s, "latest", "sft")["progress"]["seconds_left"].as_f64().is_some_and(|left| left > 0.0)
    });
    let progress = stage(s, "latest", "sft")["progress"].clone();
    assert_eq!((&progress["total"], &progress["unit"]), (&100_000.into(), &"steps".into()), "{progress}");
    assert_eq!(progress["metric"]["name"], "loss", "{progress}");
    assert!(progress["metric"]["value"].is_number() && progress["rate"].as_f64().unwrap() > 0.0, "{progress}");
    s.run(&["runs", "show", "latest"]).code(0).prints("/100000 steps").prints(" left  loss ");
    s.run(&["explain", "latest", "sft"]).code(0).prints("progress: ").prints("/100000 steps");
    s.run(&["logs", "latest", "sft"]).code(0).says("sft is running: ").says("/100000 steps");
    let newest = "is running; `latest-success` names the newest run that succeeded";
    s.run(&["artifacts", "show", "latest/sft/model"]).code(2).says("published nothing").says(newest);
    s.run(&["runs", "cancel", "latest"]).code(0);
    wait_for("the end", 60, || s.run(&["runs", "list", "--format", "json"]).json()[0]["status"] == "cancelled");
    let ended = stage(s, "latest", "sft");
    assert!(ended["status"] == "cancelled" && ended["progress"].is_null(), "nothing runs any more: {ended}");
}

#[test]
fn progress_of_a_running_stage_is_read_by_another_process() {
    shows_progress(&Sandbox::new());
}

#[test]
fn progress_is_the_same_without_pipes() {
    let s = Sandbox::new();
    s.write("trainyard.yaml", "version: 1\npools:\n  - {name: here, with: {orphans: keep}}\n");
    shows_progress(&s);
}

#[test]
fn rl_shows_the_accuracy_on_validation_problems_first() {
    let s = Sandbox::new();
    s.write("practices.yaml", PRACTICES);
    let told = s.run(&["run", "practices.yaml"]).code(0);
    let first = |name: &str| {
        let line = told.stderr.lines().find(|line| line.starts_with(&format!("{name}: done"))).unwrap_or_default();
        line.split_whitespace().nth(3).map(str::to_string)
    };
    assert_eq!(first("held_out").as_deref(), Some("validation_accuracy"), "{}", told.stderr);
    assert_eq!(first("alone").as_deref(), Some("reward_mean"), "{}", told.stderr);
    assert_eq!(stage(&s, "latest", "held_out")["main_metric"], "validation_accuracy");
    let page = s.run(&["runs", "show", "latest"]).code(0).stdout;
    let row = page.lines().find(|line| line.starts_with("held_out")).unwrap();
    let metric = row.split("validation_accuracy ").nth(1).unwrap_or_default();
    assert!(metric.contains('→'), "the initial value is shown: {page}");
    assert!(!row.contains("reward_mean"), "{page}");
}

/// Starts a run that holds the only CPU until the returned file is removed; writes `quick.yaml`, which needs it too.
pub fn start_slow_run(s: &Sandbox) -> (Child, PathBuf) {
    s.write("trainyard.yaml", "version: 1\npools: [{name: here, cpus: 1}]\n");
    let holds = s.path("holds");
    let file = |name: &str, script: &str| format!("version: 1\nname: {name}\nstages:\n  work:\n    run: {script}\n");
    s.write("slow.yaml", file("slow", &format!("touch {0}; while test -e {0}; do sleep 0.05; done", holds.display())));
    s.write("quick.yaml", file("quick", "\"true\""));
    let slow = s.spawn(&["run", "slow.yaml"]);
    wait_for("the slow run", 30, || holds.exists());
    (slow, holds)
}

#[test]
fn a_waiting_run_says_for_what_and_says_it_again() {
    let s = Sandbox::new();
    let (slow, holds) = start_slow_run(&s);
    let run = s.run(&["runs", "list", "--format", "json"]).code(0).json()[0]["run"].as_str().unwrap().to_string();
    let quick = s.spawn(&["run", "quick.yaml"]);
    let listed = || s.run(&["runs", "list", "--format", "json"]).json();
    let waiting_run = || {
        let rows = listed();
        let row = rows.as_array()?.iter().find(|row| row["workflow"] == "quick")?.clone();
        let id = row["run"].as_str()?.to_string();
        (stage(&s, &id, "work")["status"] == "waiting").then_some(id)
    };
    wait_for("the second run to wait", 30, || waiting_run().is_some());
    let id = waiting_run().unwrap();
    let why = format!("waiting: slots of this machine, held by run {run} (slow, work) for ");
    let watched = s.spawn(&["runs", "show", &id, "--watch"]);
    s.run(&["runs", "show", &id]).code(0).prints(&format!("work: {why}"));
    s.run(&["logs", &id]).code(0).says(&format!("work is waiting: {why}"));
    s.run(&["explain", &id, "work"]).code(0).prints(&format!("held by run {run} (slow, work)"));
    std::thread::sleep(Duration::from_secs(33));
    std::fs::remove_file(&holds).unwrap();
    ran(slow.wait_with_output().unwrap()).code(0);
    let told = ran(quick.wait_with_output().unwrap()).code(0);
    assert!(told.stderr.matches(&format!("work: {why}")).count() >= 2, "{}", told.stderr);
    let watched = ran(watched.wait_with_output().unwrap()).code(0).prints("work: done");
    let pages = watched.stdout.matches(&format!("run {id} of quick: ")).count();
    assert_eq!(pages, 2, "the first page and the last one: {}", watched.stdout);
}
