//! `artifacts show` of models and reports: shape, parameters, adapter, tokenizer, template and sources; tables and
//! curves.

use crate::kit::Sandbox;
use crate::python_programs::python;
use crate::terminal::on_a_terminal;
use serde_json::{Value, json};

const WORKFLOW: &str = r#"
version: 1
name: contents
stages:
  problems:
    uses: data/synthesize
    with: {method: procedural, seed: 1, splits: {demonstrations: {levels: {1: 40}}}}
  base:
    uses: model/init
    with: {problems: ["${{ stages.problems.problems }}"], hidden_size: 32, layers: 2, heads: 2, intermediate_size: 64}
  sft:
    uses: sft
    with:
      model: ${{ stages.base.model }}
      trajectories: ["${{ stages.problems.demonstrations }}"]
      steps: 6
      batch_tokens: 2048
      adapter: {kind: lora, rank: 4, alpha: 8, targets: [q_proj, v_proj]}
  report: {uses: report, with: {title: Everything, reports: ["${{ stages.sft.report }}"]}}
"#;

fn finished() -> Sandbox {
    let s = Sandbox::new();
    s.write("contents.yaml", WORKFLOW);
    s.run(&["run", "contents.yaml"]).code(0);
    s
}

fn shown(s: &Sandbox, artifact: &str) -> Value {
    s.run(&["artifacts", "show", artifact, "--format", "json"]).code(0).json()
}

/// Removes the object of an artifact's file from the store.
fn remove(s: &Sandbox, artifact: &str, path: &str) {
    let shown = shown(s, artifact);
    let files = shown["output"]["files"].as_array().unwrap();
    let digest = files.iter().find(|file| file["path"] == path).unwrap()["digest"].as_str().unwrap();
    let name = s.files(".trainyard/objects").into_iter().find(|name| name.ends_with(digest)).unwrap();
    std::fs::remove_file(s.store().join("objects").join(name)).unwrap();
}

#[test]
fn a_model_agrees_with_what_its_stage_measured() {
    let s = finished();
    let base = shown(&s, "latest/base/model");
    let (model, metadata) = (&base["model"], &base["output"]["metadata"]);
    let architecture = &model["architecture"];
    let sizes = ["layers", "hidden_size", "heads", "intermediate_size"].map(|name| architecture[name].as_u64());
    assert_eq!(sizes, [Some(2), Some(32), Some(2), Some(64)], "{architecture}");
    let counts = &model["parameters"];
    assert_eq!(counts["parameters"].as_f64(), base["metrics"]["parameters"].as_f64(), "{counts}");
    assert_eq!(counts["bytes"].as_u64(), counts["parameters"].as_u64().map(|numbers| numbers * 4), "{counts}");
    assert_eq!(counts["dtypes"][0]["dtype"], "F32");
    let parts = counts["parts"].as_array().unwrap();
    let names: Vec<&str> = parts.iter().map(|part| part["part"].as_str().unwrap()).collect();
    assert_eq!(names, ["embeddings", "attention", "mlp", "norms"], "tied embeddings have no separate head");
    let sum: u64 = parts.iter().map(|part| part["parameters"].as_u64().unwrap()).sum();
    assert_eq!(Some(sum), counts["parameters"].as_u64());
    assert_eq!(model["tokenizer"]["digest"], metadata["tokenizer_digest"]);
    assert_eq!(model["template"]["digest"], metadata["template_digest"]);
    assert_eq!(model["tokenizer"]["vocabulary"].as_f64(), base["metrics"]["vocabulary"].as_f64());
    assert_eq!((&model["adapter"], &model["unreadable"]), (&Value::Null, &json!([])));

    let text = s.run(&["artifacts", "show", "latest/base/model"]).code(0);
    let text = text.prints("llama (LlamaForCausalLM): 2 layers, hidden size 32").prints("embeddings ");
    let text = text.prints("stored as F32").prints("chat template `compact` ").prints("by model/init");
    text.prints("made by run ").prints("model.safetensors");
}

#[test]
fn an_adapter_leads_to_its_base_and_its_data() {
    let s = finished();
    let sft = shown(&s, "latest/sft/model");
    let (model, adapter) = (&sft["model"], &sft["model"]["adapter"]);
    assert_eq!((&adapter["kind"], &adapter["rank"], &adapter["alpha"]), (&json!("lora"), &json!(4), &json!(8.0)));
    assert_eq!(adapter["targets"], json!(["q_proj", "v_proj"]));
    assert_eq!(adapter["parameters"]["parameters"], sft["output"]["metadata"]["adapter"]["parameters"]);
    assert_eq!(model["parameters"], shown(&s, "latest/base/model")["model"]["parameters"], "those of the base");
    let steps = model["made_from"].as_array().unwrap();
    assert_eq!(
        (steps.len(), &steps[0]["stage_kind"], &steps[1]["stage_kind"]),
        (2, &json!("sft"), &json!("model/init"))
    );
    assert_eq!(steps[1]["artifact"], adapter["base_artifact"]);
    let inputs = steps[0]["inputs"].as_array().unwrap();
    let rows = |name: &str| inputs.iter().find(|input| input["input"] == name).map(|input| input["rows"].clone());
    assert_eq!((rows("model"), rows("trajectories")), (Some(Value::Null), Some(json!(40))), "{inputs:?}");
    let base = adapter["base_artifact"].as_str().unwrap();
    let text = s.run(&["artifacts", "show", "latest/sft/model"]).code(0).prints("adapter lora: rank 4, alpha 8, ");
    text.prints(&format!("base: {base}")).prints(&format!("model: {base} ")).prints(", 40 rows");
}

#[test]
fn damaged_files_of_a_model_are_named_and_the_rest_is_shown() {
    let s = finished();
    remove(&s, "latest/base/model", "tokenizer.json");
    let text = s.run(&["artifacts", "show", "latest/base/model"]).code(0);
    text.prints("cannot be read: file `tokenizer.json`: ").prints("2 layers").prints("chat template `compact`");
    remove(&s, "latest/base/model", "model.safetensors");
    let model = shown(&s, "latest/base/model")["model"].take();
    assert_eq!((&model["parameters"], model["unreadable"].as_array().unwrap().len()), (&Value::Null, 2), "{model}");
}

#[test]
fn a_report_has_its_tables_and_curves() {
    let s = finished();
    let sft = shown(&s, "latest/sft/report");
    let curves = sft["report"]["curves"].as_array().unwrap();
    let title = curves[0]["title"].as_str().unwrap();
    assert!(!curves[0]["series"][0]["points"].as_array().unwrap().is_empty(), "{sft}");
    let text = s.run(&["artifacts", "show", "latest/sft/report"]).code(0).prints(title).prints("Metrics");
    let bars = text.stdout.lines().filter(|line| line.contains('█') && line.contains('▁'));
    assert!(bars.count() >= 1, "{}", text.stdout);
    let joined = s.run(&["artifacts", "show", "latest/report/report"]).code(0).prints("Everything").prints(title);
    joined.prints("series").prints("made by run ");
    remove(&s, "latest/sft/report", "report.json");
    let lost = s.run(&["artifacts", "show", "latest/sft/report"]).code(0);
    lost.prints("cannot be read: file `report.json`: ").prints("made by run ");
}

#[test]
fn models_and_reports_fit_narrow_terminals() {
    if !python() {
        return;
    }
    let s = finished();
    for artifact in ["latest/base/model", "latest/sft/model", "latest/sft/report"] {
        let screen = on_a_terminal(&s, 80, &["artifacts", "show", artifact]);
        assert!(screen.iter().any(|line| line.starts_with("made by run ")), "{screen:#?}");
    }
}
