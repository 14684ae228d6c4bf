//! The job of a first day: a model learns from a user's conversations and is measured on the user's questions, and each
//! verdict is explained.
//!
//! A base model by its name on the hub is in `hub_models.rs`, a sweep of rates and seeds in `sweeps.rs`.

use crate::kit::Sandbox;
use serde_json::json;

const FILE: &str = r#"
version: 1
name: first-day
stages:
  chats: {uses: data/import, with: {source: chats.jsonl}}
  test: {uses: data/import, with: {source: test.jsonl}}
  base:
    uses: model/init
    with:
      corpus: ["${{ stages.chats.trajectories }}"]
      problems: ["${{ stages.test.problems }}"]
      hidden_size: 32
      layers: 1
      heads: 2
      intermediate_size: 64
  sft:
    uses: sft
    with:
      model: ${{ stages.base.model }}
      trajectories: ["${{ stages.chats.trajectories }}"]
      steps: 60
      batch_tokens: 512
      optimizer: {learning_rate: 1e-2}
  evaluate:
    uses: evaluate
    with:
      models: ["${{ stages.sft.model }}"]
      names: [tuned]
      problems: ${{ stages.test.problems }}
      environment: {kind: math-problems, tools: []}
      samples: 0
      sampling: {max_turn_tokens: 24}
    checks: [{metric: accuracy_tuned, min: 0.4}]
"#;

/// All conversations end with the same sentence, which the model learns; one of the two questions expects its number.
#[test]
fn a_model_learns_from_own_conversations_and_its_answers_are_explained() {
    let s = Sandbox::new();
    let ask = |n: u32| format!("How warm is it in town {n}?");
    let chat = |n: u32| {
        let said = json!({"role": "assistant", "content": "It is 7 degrees."});
        format!("{}\n", json!({"messages": [{"role": "user", "content": ask(n)}, said]}))
    };
    s.write("chats.jsonl", (0..24).map(chat).collect::<String>());
    let question = |(n, answer): (u32, &str)| format!("{}\n", json!({"question": ask(n), "answer": answer}));
    s.write("test.jsonl", [(30, "7"), (31, "9")].map(question).concat());
    s.write("day.yaml", FILE);
    s.run(&["check", "day.yaml"]).code(0);
    s.run(&["run", "day.yaml"]).code(0).says("trajectories 24").says("accuracy_tuned 0.500");
    let show = |row: &str, format: &str| {
        s.run(&["artifacts", "show", "latest/evaluate/trajectories", "--row", row, "--format", format]).code(0)
    };
    let mut seen = Vec::new();
    for row in ["0", "1"] {
        let cells = show(row, "json").json();
        let (expected, is_right) = (cells["expected"].as_str().unwrap().to_string(), cells["correct"] == true);
        assert_eq!((&cells["extracted"], is_right), (&json!("7"), expected == "7"), "{cells}");
        let verdict = if is_right { "right" } else { "wrong" };
        let explained = format!("verdict {verdict}: answer 7; expected: {expected}; verifier: numeric");
        show(row, "text").prints("How warm is it in town 3").prints("It is 7 degrees.").prints(&explained);
        seen.push(expected);
    }
    seen.sort();
    assert_eq!(seen, ["7", "9"]);
    s.run(&["run", "day.yaml"]).code(0).says("evaluate: hit");
}
