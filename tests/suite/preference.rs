//! Preference learning from a user's view: pairs from rollouts and files, training on them, and the diagnostics of
//! `check`.

use crate::kit::{Sandbox, repository};
use serde_json::{Value, json};

const MADE: &str = r#"
version: 1
name: made
stages:
  problems:
    uses: data/synthesize
    with: {method: procedural, seed: 1, splits: {demonstrations: {levels: {1: 40}}, rl: {levels: {1: 20}}}}
  base:
    uses: model/init
    with:
      {problems: ["${{ stages.problems.problems }}"], hidden_size: 32, layers: 2, heads: 2, intermediate_size: 64,
          seed: 1}
  rl:
    uses: rl
    with:
      model: ${{ stages.base.model }}
      problems: ${{ stages.problems.problems }}
      rewards: [{kind: length, max_tokens: 40, buffer_tokens: 40}]
      filters: []
      steps: 1
      problems_per_step: 8
      rollout: {group_size: 4, max_turn_tokens: 40}
  pairs:
    uses: data/pairs
    with: {trajectories: ["${{ stages.rl.trajectories }}"], min_gap: 0.05, per_problem: 2, cut: end}
  preference:
    uses: preference
    with:
      model: ${{ stages.base.model }}
      preferences: ["${{ stages.pairs.preferences }}"]
      loss: {kind: ipo, beta: 0.5}
      adapter: {kind: lora, rank: 4}
      sft_weight: 0.1
      steps: 4
      batch_pairs: 4
      validation_share: 0.2
"#;

/// Returns two-turn chats with a tool, whose second answers differ.
fn preferences(count: usize) -> String {
    let row = |i: usize| {
        let call =
            json!([{"type": "function", "function": {"name": "calculator", "arguments": {"expression": "1+2"}}}]);
        let chat = |answer: String| {
            json!([
                {"role": "user", "content": format!("What is {i} and 2?")},
                {"role": "assistant", "content": "", "tool_calls": call},
                {"role": "tool", "content": "3"},
                {"role": "assistant", "content": answer},
            ])
        };
        json!({"chosen": chat(format!("It is {i}.")), "rejected": chat("No.".into())}).to_string() + "\n"
    };
    (0..count).map(row).collect()
}

const IMPORTED: &str = r#"
version: 1
name: imported
params:
  loss: {type: string, default: dpo}
stages:
  rows: {uses: data/import, with: {source: pairs.jsonl}}
  base:
    uses: model/init
    with:
      {corpus: ["${{ stages.rows.preferences }}"], hidden_size: 32, layers: 2, heads: 2, intermediate_size: 64, seed: 1}
  preference:
    uses: preference
    with:
      model: ${{ stages.base.model }}
      preferences: ["${{ stages.rows.preferences }}"]
      loss: ${{ params.loss }}
      steps: 8
      batch_pairs: 8
      validation_share: 0.2
      validate_every: 4
      optimizer: {learning_rate: 2e-3}
    checks: [{metric: validation_accuracy, min: 0.9}, {metric: shared_turns, min: 20}]
  report: {uses: report, with: {reports: ["${{ stages.preference.report }}"]}}
"#;

#[test]
fn imported_pairs_are_learned_from_with_shared_turns_as_context() {
    let s = Sandbox::new();
    s.write("pairs.jsonl", preferences(30));
    s.write("imported.yaml", IMPORTED);
    s.run(&["run", "imported.yaml"]).code(0).says("preferences 30").says("accuracy");
    s.run(&["run", "imported.yaml"]).code(0).says("preference: hit");
    let hit = s.run(&["runs", "show", "latest", "--curves", "preference"]).code(0);
    hit.prints("these are the curves of stage preference of run").prints("accuracy");
    let shown = s.run(&["artifacts", "show", "latest/preference/model", "--format", "json"]).code(0).json();
    assert!(shown.to_string().contains("tokenizer_digest"), "{shown}");
    s.run(&["run", "imported.yaml", "-p", "loss=simpo"]).code(0).says("preference: done");
    let curves = s.run(&["runs", "show", "latest", "--curves", "preference", "--format", "json"]).code(0).json();
    for series in ["accuracy", "margin", "chosen_logprob", "validation_loss"] {
        assert!(curves.to_string().contains(series), "{series}: {curves}");
    }
}

#[test]
fn pairs_of_rollouts_are_made_by_reward_and_trained_on_with_an_adapter() {
    let s = Sandbox::new();
    s.write("made.yaml", MADE);
    s.run(&["run", "made.yaml"]).code(0).says("pairs: done").says("preference: done");
    let rows = |query: &str| -> Value {
        let output = s.run(&["artifacts", "query", "latest/pairs/preferences", query, "--format", "json"]);
        output.code(0).json()["rows"].take()
    };
    let all = rows("select count(*), count(distinct \"group\"), sum(reward), max(sample) from self");
    let (count, groups) = (all[0][0].as_i64().unwrap(), all[0][1].as_i64().unwrap());
    assert!(count > 0 && count == 2 * groups && all[0][2].as_f64() == Some(groups as f64), "{all}");
    assert_eq!(all[0][3], 1, "{all}");
    let mixed = rows("select \"group\" from self group by \"group\" having count(distinct problem_id) > 1");
    assert_eq!(mixed, json!([]), "a pair is about one problem");
    let most = rows("select count(*) as n from self group by problem_id order by n desc limit 1");
    assert!(most[0][0].as_i64().unwrap() <= 4, "two pairs of a problem: {most}");
    s.run(&["artifacts", "export", "latest/preference/model", "model"]).code(0);
    assert!(s.path("model/adapter_model.safetensors").exists());
}

#[test]
fn check_knows_what_cannot_work() {
    let s = Sandbox::new();
    s.write("pairs.jsonl", preferences(4));
    let refused = |change: (&str, &str), says: &str| {
        assert!(IMPORTED.contains(change.0), "{change:?}");
        s.write("wrong.yaml", IMPORTED.replace(change.0, change.1));
        s.run(&["check", "wrong.yaml"]).code(2).says(says);
    };
    refused(("batch_pairs: 8", "batch_size: 8"), "did you mean `batch_pairs`?");
    refused(("loss: ${{ params.loss }}", "beta: 0.2"), "write `loss: {kind: dpo, beta: 0.1}`");
    refused(("loss: ${{ params.loss }}", "loss: {kind: dpo, label_smoothing: 0.5}"), "label_smoothing");
    refused(("loss: ${{ params.loss }}", "loss: dpoo"), "dpo");
    refused(("uses: preference", "uses: dpo"), "write `uses: preference` with `loss: dpo`");
    refused(("validation_share: 0.2", "validation_share: 0"), "no validation data");
    refused(("metric: shared_turns", "metric: sft_loss"), "sft_loss");
    let reads = "loss: simpo\n      reference: ${{ stages.base.model }}";
    refused(("loss: ${{ params.loss }}", reads), "`simpo` reads no reference");
}

#[test]
fn rollouts_that_are_no_pairs_are_named_with_what_makes_them() {
    let s = Sandbox::new();
    let rows = preferences(4).replace("\"chosen\"", "\"messages\"").replace("\"rejected\"", "\"other\"");
    s.write("pairs.jsonl", rows);
    s.write("wrong.yaml", IMPORTED.replace(".preferences }}", ".trajectories }}"));
    s.run(&["run", "wrong.yaml"]).code(1).says("but a pair has a chosen and a rejected one").says("data/pairs");
}

#[test]
fn the_shipped_workflow_keeps_its_test_problems_apart_and_its_placebo_equal() {
    let s = Sandbox::new();
    let file = |name: &str| std::fs::read_to_string(repository().join("workflows").join(name)).unwrap();
    s.write("quickstart.yaml", file("quickstart.yaml"));
    let text = file("preference.yaml");
    s.write("preference.yaml", &text);
    s.run(&["check", "preference.yaml"]).code(0);
    s.write("leaking.yaml", text.replacen("stages.synthesize.problems_rl", "stages.synthesize.problems_test", 1));
    s.run(&["check", "leaking.yaml"]).code(2).says("must not see the evaluation set `test`");
    let block = |stage: &str| {
        let (_, rest) = text.split_once(&format!("\n  {stage}:\n")).unwrap();
        let lines = rest.lines().take_while(|line| line.starts_with("    "));
        lines.filter(|line| !line.contains("description:")).collect::<Vec<_>>().join("\n")
    };
    let placebo = |stage: &str| block(stage).replace("placebo_pairs", "pairs").replace("flip: 0.5, ", "");
    assert_eq!(block("preference"), placebo("placebo"));
    assert_eq!(block("pairs"), placebo("placebo_pairs"));
}
