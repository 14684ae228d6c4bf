//! `trainyard try`: a few episodes of a stage before anything is trained.

use crate::kit::Sandbox;
use serde_json::{Value, json};

const AGENT: &str = r#"
version: 1
name: agent
stages:
  problems:
    uses: data/synthesize
    with: {method: procedural, seed: 1, splits: {demonstrations: {levels: {1: 20, 2: 4}}, rl: {levels: {1: 20}}}}
  base:
    uses: model/init
    with:
      {problems: ["${{ stages.problems.problems }}"], hidden_size: 32, layers: 2, heads: 2, intermediate_size: 64,
          seed: 1}
  sft:
    uses: sft
    with:
      model: ${{ stages.base.model }}
      trajectories: ["${{ stages.problems.demonstrations }}"]
      steps: 2
      batch_tokens: 2048
  rl:
    uses: rl
    with:
      model: ${{ stages.sft.model }}
      problems: ${{ stages.problems.problems }}
      rewards: [{kind: length, max_tokens: 40, buffer_tokens: 40}, {kind: answer, weight: 0.5}]
      filters: []
      steps: 1
      problems_per_step: 4
      rollout: {group_size: 2, max_turn_tokens: 24}
  evaluation:
    uses: evaluate
    with:
      models: ["${{ stages.sft.model }}", "${{ stages.rl.model }}"]
      names: [sft, rl]
      problems: ${{ stages.problems.problems }}
      problems_limit: 6
      samples: 0
      sampling: {max_turn_tokens: 24}
"#;

/// Creates a store with the published outputs of the stages up to `until`.
fn computed(until: &str) -> Sandbox {
    let s = Sandbox::new();
    s.write("agent.yaml", AGENT);
    s.run(&["run", "agent.yaml", "--until", until]).code(0);
    s
}

fn tried(s: &Sandbox, args: &[&str]) -> Value {
    let all = [&["try", "agent.yaml", "--format", "json"], args].concat();
    s.run(&all).code(0).json()
}

#[test]
fn what_is_tried_is_what_the_first_step_samples_and_nothing_is_stored() {
    let s = computed("sft");
    let before = s.files(".trainyard");
    let told = tried(&s, &["--stage", "rl", "-n", "5"]);
    let shown = s.run(&["try", "agent.yaml", "--stage", "rl", "-n", "1"]).code(0);
    let shown = shown.prints("── user").prints("── assistant").prints("── end: ");
    let shown = shown.prints("verdict ").prints("; verifier: word-problems");
    shown.prints("× weight 0.5 = ").prints(" sampled").prints("1 episode of rl: ").prints("nothing was stored");
    assert_eq!(s.files(".trainyard"), before, "a trial stores nothing");
    assert_eq!((&told["stage"], &told["kind"]), (&json!("rl"), &json!("rl")));
    let episodes = told["episodes"].as_array().unwrap();
    assert_eq!(episodes.len(), 5);
    let components: Vec<_> = episodes[0]["rewards"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(components, [&json!("length"), &json!("answer")]);

    s.run(&["run", "agent.yaml", "--until", "rl"]).code(0);
    // One episode of each of four groups, then the second of the first.
    for (episode, row) in episodes.iter().zip(["0", "2", "4", "6", "1"]) {
        let run = s.run(&["artifacts", "show", "latest/rl/trajectories", "--row", row, "--format", "json"]).code(0);
        let (run, episode) = (run.json(), &episode["episode"]);
        let text = |row: &Value| -> Vec<Value> {
            row["messages"].as_array().unwrap().iter().map(|m| m["content"].clone()).collect()
        };
        assert_eq!((&episode["id"], text(episode)), (&run["id"], text(&run)));
        assert_eq!(episode["reward"], run["reward"]);
    }
}

#[test]
fn a_model_from_elsewhere_and_a_seed_take_the_place_of_the_stages_own() {
    let s = computed("base");
    s.run(&["artifacts", "export", "latest/base/model", "exported"]).code(0);
    let of_artifact = tried(&s, &["--stage", "rl", "-n", "2", "--model", "latest/base/model"]);
    assert_eq!(tried(&s, &["--stage", "rl", "-n", "2", "--model", "exported"]), of_artifact);
    let other = tried(&s, &["--stage", "rl", "-n", "2", "--model", "exported", "--seed", "7"]);
    assert_ne!(other["episodes"][0]["episode"], of_artifact["episodes"][0]["episode"]);
    // Two models are evaluated; the given one is used in the trial.
    let evaluated = tried(&s, &["--stage", "evaluation", "-n", "4", "--model", "exported"]);
    assert_eq!(evaluated["episodes"].as_array().unwrap().len(), 4);
    s.run(&["try", "agent.yaml", "--stage", "rl", "--model", "nowhere"]).code(2).says("there is no folder nowhere");
    s.run(&["try", "agent.yaml", "--stage", "rl", "--model", "latest/problems/problems"])
        .code(2)
        .says("is a problems, not a model");
    s.run(&["try", "agent.yaml", "--stage", "problems", "--model", "exported"]).code(2).says("takes no model");
}

#[test]
fn demonstrations_are_tried_without_a_store() {
    let s = Sandbox::new();
    s.write("agent.yaml", AGENT);
    let told = tried(&s, &["--stage", "problems", "-n", "22"]);
    let episodes = told["episodes"].as_array().unwrap();
    assert!(episodes.len() == 22 && episodes.iter().all(|e| e["correct"] == true));
    assert_eq!(episodes[21]["episode"]["level"], 2, "twenty of level 1, then those of level 2");
    assert!(!s.store().exists());
}

#[test]
fn what_cannot_be_tried_is_told_with_what_to_do() {
    let s = Sandbox::new();
    s.write("agent.yaml", AGENT);
    let with = |args: &[&str]| s.run(&[&["try", "agent.yaml"], args].concat());
    with(&["--stage", "rl"])
        .code(2)
        .says("stage `rl` reads from `problems`, `sft`, which is not in the store")
        .says("agent.yaml --until problems --until sft");
    with(&["--stage", "reinforce"])
        .code(2)
        .says("`reinforce` is not a stage of this workflow")
        .says("stages that play episodes: evaluation, problems, rl");
    with(&["--stage", "sft"]).code(2).says("stage `sft` is of kind `sft`, which plays no episodes");
    with(&["--stage", "rl", "-n", "0"]).code(2).says("0 is not in 1..");
    with(&[]).code(2).says("--stage <STAGE>");
    s.run(&["try", "nowhere.yaml", "--stage", "rl"]).code(2).says("nowhere.yaml");
    s.write("agent.yaml", AGENT.replace("steps: 1\n", "steps: 1\n      seed: x\n"));
    s.run(&["try", "agent.yaml", "--stage", "rl"]).code(2).says("agent.yaml:");
}

#[test]
fn one_instance_of_several_is_named() {
    let s = computed("sft");
    let matrix = AGENT.replace("  rl:\n    uses: rl\n", "  rl:\n    uses: rl\n    matrix: {s: [1, 2]}\n");
    let matrix = matrix.split("  evaluation:").next().unwrap();
    let matrix = matrix.replace("steps: 1\n", "steps: 1\n      seed: ${{ matrix.s }}\n");
    s.write("agent.yaml", matrix);
    s.run(&["try", "agent.yaml", "--stage", "rl", "-n", "1"]).code(2).says("several instances").says("rl[s=1]");
    assert_eq!(tried(&s, &["--stage", "rl[s=2]", "-n", "1"])["stage"], "rl[s=2]");
}
