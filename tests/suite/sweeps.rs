//! A sweep of three learning rates and two seeds: names, comparisons, report, plan.

use crate::kit::Sandbox;
use serde_json::Value;

/// The workflow, without its comparison.
const SWEEP: &str = r#"
version: 1
name: sweep
params: {steps: {type: int, default: 2}, note: {type: string, default: "three rates"}}
stages:
  chats: {uses: data/import, with: {source: chats.jsonl}}
  test: {uses: data/import, with: {source: test.jsonl}}
  base:
    uses: model/init
    with:
      corpus: ["${{ stages.chats.trajectories }}"]
      hidden_size: 32
      layers: 1
      heads: 2
      intermediate_size: 64
  sft:
    uses: sft
    matrix: {lr: [1e-3, 3e-3, 1e-2], seed: [1, 2]}
    with:
      model: ${{ stages.base.model }}
      trajectories: ["${{ stages.chats.trajectories }}"]
      steps: ${{ params.steps }}
      batch_tokens: 512
      optimizer: {learning_rate: "${{ matrix.lr }}"}
      seed: ${{ matrix.seed }}
  evaluate:
    uses: evaluate
    with:
      models: ${{ stages.sft.model }}
      problems: ${{ stages.test.problems }}
      environment: {kind: math-problems, tools: []}
      samples: 0
      sampling: {max_turn_tokens: 4}
"#;

const COMPARE: &str = r#"
  compare:
    uses: compare
    with:
      results: ["${{ stages.evaluate.results }}"]
      metric: tokens
      a: ["sft[lr=0.003]", "sft[lr=0.01]"]
      b: "sft[lr=0.001]"
    checks: [{metric: "tokens_sft[lr=0.003]", of: n, min: 1}]
  report:
    uses: report
    with:
      title: Rates
      reports: ["${{ stages.evaluate.report }}", "${{ stages.compare.report }}", "${{ stages.sft.report }}"]
      trajectories: ["${{ stages.evaluate.trajectories }}"]
"#;

fn sandbox() -> Sandbox {
    let s = Sandbox::new();
    let question = |n: u32| format!("How many is {n} and one?");
    let chat = |n: u32| {
        let (ask, say) = (question(n), n + 1);
        format!(
            "{{\"messages\": [{{\"role\": \"user\", \"content\": \"{ask}\"}}, \
             {{\"role\": \"assistant\", \"content\": \"{say}\"}}]}}\n"
        )
    };
    s.write("chats.jsonl", (0..24).map(chat).collect::<String>());
    let problem = |n: u32| format!("{{\"question\": \"{}\", \"answer\": \"{}\"}}\n", question(n), n + 1);
    s.write("test.jsonl", (30..34).map(problem).collect::<String>());
    s.write("sweep.yaml", format!("{SWEEP}{COMPARE}"));
    s
}

fn table<'r>(report: &'r Value, title: &str) -> &'r Value {
    let tables = report["tables"].as_array().unwrap();
    let found = tables.iter().find(|table| table["title"].as_str().unwrap().ends_with(title));
    found.unwrap_or_else(|| {
        panic!("no table `{title}` among {:?}", tables.iter().map(|t| &t["title"]).collect::<Vec<_>>())
    })
}

fn columns(table: &Value) -> Vec<&str> {
    table["columns"].as_array().unwrap().iter().map(|column| column.as_str().unwrap()).collect()
}

#[test]
fn a_sweep_is_named_compared_and_reported_by_its_axes() {
    let s = sandbox();
    s.run(&["run", "sweep.yaml"]).code(0).says("sft[lr=0.003,seed=1]");
    s.run(&["artifacts", "export", "latest/report/report", "page"]).code(0);
    let report: Value = serde_json::from_str(&s.read("page/report.json")).unwrap();
    // From the evaluation: all six models in one stage. From the reports: six stages.
    for title in ["Evaluation: sft over lr", "Sweep of sft over lr: sft over lr"] {
        let table = table(&report, title);
        assert_eq!(columns(table)[..2], ["lr", "seeds"], "{table}");
        let rows = table["rows"].as_array().unwrap();
        let axes: Vec<(f64, f64)> =
            rows.iter().map(|row| (row[0].as_f64().unwrap(), row[1].as_f64().unwrap())).collect();
        assert_eq!(axes, [(0.001, 2.0), (0.003, 2.0), (0.01, 2.0)], "{table}");
    }
    let evaluated = table(&report, "Evaluation: sft over lr");
    assert_eq!(columns(evaluated)[2..4], ["accuracy", "sd of accuracy"], "{evaluated}");
    // The mean of a metric is that of its two seeds.
    let swept = table(&report, "Sweep of sft over lr: sft over lr");
    let loss = columns(swept).iter().position(|name| *name == "loss").unwrap();
    let of = |seed: u32| {
        let stage = format!("sft[lr=0.003,seed={seed}]");
        let shown = s.run(&["runs", "show", "latest", "--format", "json"]).code(0).json();
        let stages = shown["stages"].as_array().unwrap();
        let found = stages.iter().find(|row| row["stage"] == stage.as_str()).unwrap().clone();
        found["metrics"]["loss"].as_f64().unwrap()
    };
    let mean = (of(1) + of(2)) / 2.0;
    assert!((swept["rows"][1][loss].as_f64().unwrap() - mean).abs() < 1e-9, "{swept}");
    let charts: Vec<&Value> = report["curves"].as_array().unwrap().iter().filter(|curve| curve["x"] == "lr").collect();
    assert_eq!(charts.len(), 2, "{charts:?}");
    for chart in charts {
        let points = chart["series"][0]["points"].as_array().unwrap();
        let x: Vec<f64> = points.iter().map(|point| point[0].as_f64().unwrap()).collect();
        assert_eq!(x, [0.001, 0.003, 0.01], "{chart}");
    }
    let page = s.read("page/report.html");
    for text in [
        "Supervised fine-tuning [lr=0.003,seed=1]",
        "Sample episodes",
        "How many is 3",
        "three rates",
        "digest of the report",
        "sft[lr=0.003], sft[lr=0.01] against sft[lr=0.001]",
        "accuracy of sft over lr",
    ] {
        assert!(page.contains(text), "the page lacks `{text}`");
    }
    let episodes = report["tables"].as_array().unwrap().iter();
    assert_eq!(episodes.filter(|t| t["title"].as_str().unwrap().starts_with("Sample episodes")).count(), 3);
    // Two comparisons, each over two seeds of four problems.
    let rows = report["comparisons"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["metric"].as_str().unwrap()).collect();
    assert_eq!(names, ["tokens_sft[lr=0.003]", "tokens_sft[lr=0.01]"]);
    assert_eq!(rows[0]["n"], 8);
    // The models have the names of their stages, in results and in metrics.
    let models = ["artifacts", "query", "latest/evaluate/results", "select distinct model from self order by model"];
    s.run(&models).code(0).prints("sft[lr=0.001,seed=1]").prints("sft[lr=0.01,seed=2]");
    s.run(&["run", "sweep.yaml"]).code(0).says("report: hit");
}

#[test]
fn the_name_of_a_model_is_checked_before_training() {
    let s = sandbox();
    let wrong = format!("{SWEEP}{COMPARE}").replace("b: \"sft[lr=0.001]\"", "b: \"sft[lr=0.002,seed=1]\"");
    s.write("wrong.yaml", wrong.replace("\"sft[lr=0.003]\", ", "\"sft\", "));
    let ran = s.run(&["run", "wrong.yaml"]).code(2);
    let ran = ran.says("no model `sft[lr=0.002,seed=1]` in the results").says("no model `sft` in the results");
    ran.says("there are: sft[lr=0.001,seed=1], sft[lr=0.001,seed=2]");
}

#[test]
fn equal_instances_are_planned_and_computed_once() {
    let s = sandbox();
    let same = "version: 1\nname: same\nstages:\n  rows:\n    uses: data/import\n    matrix: {seed: [1, 2, 3]}\n    \
                with: {source: chats.jsonl}\n";
    s.write("same.yaml", same);
    let plan = s.run(&["plan", "same.yaml"]).code(0);
    plan.prints("1 to run, 2 shared").prints("has the digest of `rows[seed=1]`, which runs once");
    s.run(&["run", "same.yaml"]).code(0).says("rows[seed=2]: hit").says("rows[seed=3]: hit");
    // Before anything is published the readers wait for their inputs, and encode the same rows.
    let hint = s.run(&["plan", "sweep.yaml"]).code(0).prints("6 instances of `sft` encode the same rows");
    let advice = hint.stdout.split("encode them once with `").nth(1).unwrap().split('`').next().unwrap().to_string();
    let shared = format!("{SWEEP}  {advice}\n").replacen(
        "trajectories: [\"${{ stages.chats.trajectories }}\"]\n      steps",
        "tokenized: [\"${{ stages.sft_rows.tokenized }}\"]\n      steps",
        1,
    );
    s.write("shared.yaml", shared);
    let plan = s.run(&["plan", "shared.yaml"]).code(0);
    assert!(!plan.stdout.contains("hint:"), "{}", plan.stdout);
    s.run(&["run", "shared.yaml", "--until", "sft"]).code(0);
}

#[test]
fn rows_that_do_not_fit_are_counted_with_the_limit() {
    let s = sandbox();
    s.write("sweep.yaml", SWEEP.replace("batch_tokens: 512", "batch_tokens: 512\n      max_tokens: 3"));
    let ran = s.run(&["run", "sweep.yaml", "--until", "sft"]).code(1);
    ran.says("no trajectories to train on").says("have more than 3 tokens (the longest ").says("raise `max_tokens`");
}

#[test]
fn a_mistake_in_a_param_hides_no_other_mistake() {
    let s = Sandbox::new();
    let file =
        |evaluate: &str| format!("version: 1\nname: hidden\nstages:\n  evaluate: {{uses: evaluate{evaluate}}}\n");
    s.write(
        "hidden.yaml",
        file(", with: {models: [\"${{ stages.nope.model }}\"], problems: \"${{ params.x }}\", sampels: 3}"),
    );
    let told = s.run(&["check", "hidden.yaml"]).code(2);
    let told = told.says("no param `x`").says("there is no stage `nope`").says("has no option or input `sampels`");
    assert!(!told.stderr.contains("gets no `problems`"), "its mistake is in the param: {}", told.stderr);
    // The advice for a missing input is valid YAML where it is pasted.
    s.write("missing.yaml", file(""));
    let told = s.run(&["check", "missing.yaml", "--format", "json"]).code(2).json();
    let helps = told["diagnostics"].as_array().unwrap().iter().filter_map(|d| d["help"].as_str());
    let advice = helps.filter_map(|help| help.split("add `").nth(1)?.split('`').next()).next().unwrap();
    assert_eq!(advice, "with: {problems: \"${{ stages.<id>.<port> }}\"}");
    s.write("pasted.yaml", file(&format!(", {}", advice.replace("<id>", "data").replace("<port>", "problems"))));
    let pasted = s.run(&["check", "pasted.yaml"]).code(2).says("there is no stage `data`");
    assert!(!pasted.stderr.contains("needs quotes"), "{}", pasted.stderr);
}
