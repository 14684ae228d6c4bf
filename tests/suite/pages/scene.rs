//! A finished run with everything that pages show: training, rollouts, two compared models, imported rows and a sweep.

use crate::kit::Sandbox;
use crate::weather;
use serde_json::{Value, json};
use trainyard_testkit::chat::MockChatServer;

const WORKFLOW: &str = r#"
version: 1
name: scene
stages:
  problems:
    uses: data/synthesize
    with:
      method: procedural
      seed: 1
      splits: {rl: {levels: {1: 8}}, demonstrations: {levels: {1: 12}}}
  base:
    uses: model/init
    with: {problems: ["${{ stages.problems.problems }}"], hidden_size: 32, layers: 1, heads: 2, intermediate_size: 64}
  sft:
    matrix: {seed: [1, 2]}
    uses: sft
    with:
      model: ${{ stages.base.model }}
      trajectories: ["${{ stages.problems.demonstrations }}"]
      seed: ${{ matrix.seed }}
      steps: 4
  rl:
    uses: rl
    with:
      model: ${{ stages.base.model }}
      problems: ${{ stages.problems.problems_rl }}
      filters: []
      steps: 3
      problems_per_step: 2
      rollout: {group_size: 4, max_turn_tokens: 8}
  test: {uses: data/import, with: {source: questions.jsonl}}
  evaluate:
    uses: evaluate
    with:
      problems: ${{ stages.test.problems }}
      environment: {kind: math-problems, tools: []}
      samples: 0
      endpoints:
        base: {model: {endpoint: "URL", model: base, attempts: 1}}
        tuned: {model: {endpoint: "URL", model: tuned, attempts: 1}}
  chats: {uses: data/import, with: {source: "chats/*.jsonl"}}
  kept:
    uses: data/filter
    with:
      trajectories: ["${{ stages.chats.trajectories }}"]
      rules: [{kind: expression, keep: "answer <> 'a1'"}]
"#;

/// A finished run, and the second one from the cache.
pub struct Scene {
    /// Folder and store.
    pub sandbox: Sandbox,
    /// Id of the first run.
    pub run: String,
    /// Id of the second run.
    pub cached: String,
    stages: Value,
}

impl Scene {
    /// Runs the workflow twice.
    pub fn create() -> Self {
        let served = MockChatServer::start(weather::respond);
        let s = Sandbox::new();
        weather::write_questions(&s);
        s.write_rows("chats/1.jsonl", (0..3).map(chat));
        s.write_rows("chats/2.jsonl", (3..5).map(chat));
        s.write("scene.yaml", WORKFLOW.replace("URL", served.url()));
        s.run(&["run", "scene.yaml", "--no-pages"]).code(0);
        let run = newest(&s);
        s.run(&["run", "scene.yaml", "--no-pages"]).code(0);
        let stages = s.run(&["runs", "show", &run, "--format", "json"]).code(0).json()["stages"].take();
        Self { cached: newest(&s), run, stages, sandbox: s }
    }
    /// Returns the path of an artifact's page.
    pub fn artifact(&self, stage: &str, output: &str) -> String {
        let all = self.stages.as_array().unwrap();
        let found = all.iter().find(|row| row["stage"] == stage).unwrap_or_else(|| panic!("no {stage}"));
        format!("artifacts/{}/{output}", found["digest"].as_str().unwrap())
    }
    /// Returns the first cell of a statement's result.
    pub fn first(&self, artifact: &str, sql: &str) -> Value {
        let name = format!("{}/{artifact}", self.run);
        self.sandbox.run(&["artifacts", "query", &name, sql, "--format", "json"]).code(0).json()["rows"][0][0].take()
    }
}

fn chat(n: usize) -> Value {
    let messages = json!([{"role": "user", "content": format!("question {n}")},
        {"role": "assistant", "content": format!("a{n}")}]);
    json!({"messages": messages})
}

fn newest(s: &Sandbox) -> String {
    let runs = s.run(&["runs", "list", "--format", "json"]).code(0).json();
    runs[0]["run"].as_str().unwrap().to_string()
}
