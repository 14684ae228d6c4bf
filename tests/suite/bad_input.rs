//! Bad input: files with mistakes, corrupt data, foreign tokenizers, models with NaN weights, programs that never end.
//! Each case gets a clear error and exit code, published artifacts stay, and with good input the same command succeeds.

use crate::kit::{Sandbox, repository};
use crate::published::{Published, intact, publish};
use std::path::{Path, PathBuf};

/// Asserts that the file is refused before anything runs (exit 2) with these words, and no published artifact changes.
#[track_caller]
fn refused(s: &Sandbox, before: &Published, file: &str, words: &[&str]) {
    let ran = words.iter().fold(s.run(&["run", file]).code(2), |ran, word| ran.says(word));
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    intact(s, before);
}

/// Asserts that the run fails (exit 1) with these words and changes no published artifact.
#[track_caller]
fn fails(s: &Sandbox, before: &Published, file: &str, words: &[&str]) {
    let ran = words.iter().fold(s.run(&["run", file]).code(1), |ran, word| ran.says(word));
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    intact(s, before);
}

#[test]
fn file_with_mistakes_runs_nothing() {
    let s = Sandbox::new();
    let before = publish(&s);
    for (mistake, text, words) in crate::check::SAMPLES {
        s.write("x.yaml", text);
        let ran = s.run(&["run", "x.yaml"]);
        assert_eq!(ran.code, 2, "{mistake}: {}{}", ran.stdout, ran.stderr);
        for word in *words {
            assert!(ran.stderr.contains(word), "{mistake}: lacks `{word}`\n{}", ran.stderr);
        }
    }
    let runs = s.run(&["runs", "list", "--format", "json"]).code(0).json();
    assert_eq!(runs.as_array().unwrap().len(), 1, "{runs}");
    intact(&s, &before);
}

const INIT: &str = r#"
version: 1
name: init
stages:
  init:
    uses: model/init
    with: {hidden_size: 32, layers: 1, heads: 2, intermediate_size: 64}
"#;

const EVALUATE: &str = r#"
version: 1
name: evaluate
stages:
  data:
    uses: data/synthesize
    with: {method: procedural, splits: {test: {levels: {1: 4}}, demonstrations: {levels: {1: 4}}}}
  model:
    uses: model/init
    with: {from: model}
  evaluate:
    uses: evaluate
    with: {models: ["${{ stages.model.model }}"], names: [it], problems: "${{ stages.data.problems }}", samples: 2}
"#;

/// Creates a tiny model in a folder, and a file that reads it from there.
fn model(s: &Sandbox) -> PathBuf {
    s.write("init.yaml", INIT);
    s.run(&["run", "init.yaml"]).code(0);
    s.run(&["artifacts", "export", "latest/init/model", "model"]).code(0);
    s.write("evaluate.yaml", EVALUATE);
    s.path("model")
}

/// Returns the byte range of a tensor's values in a safetensors file.
fn numbers_of(weights: &[u8], tensor: &str) -> std::ops::Range<usize> {
    let header = 8 + u64::from_le_bytes(weights[..8].try_into().unwrap()) as usize;
    let described: serde_json::Value = serde_json::from_slice(&weights[8..header]).unwrap();
    let at = |i: usize| header + described[tensor]["data_offsets"][i].as_u64().unwrap() as usize;
    at(0)..at(1)
}

fn fill(weights: &mut [u8], tensor: &str, value: f32) {
    let range = numbers_of(weights, tensor);
    for number in weights[range].as_chunks_mut::<4>().0 {
        *number = value.to_le_bytes();
    }
}

#[test]
fn truncated_or_corrupt_checkpoint_is_named() {
    let s = Sandbox::new();
    let before = publish(&s);
    let weights = model(&s).join("model.safetensors");
    let sound = std::fs::read(&weights).unwrap();
    for keep in [0, 4, 100, sound.len() - 7] {
        std::fs::write(&weights, &sound[..keep]).unwrap();
        refused(&s, &before, "evaluate.yaml", &["safetensors", "truncated"]);
    }
    let mut corrupt = sound.clone();
    corrupt[8..200].fill(0xff);
    std::fs::write(&weights, &corrupt).unwrap();
    refused(&s, &before, "evaluate.yaml", &["not a valid safetensors"]);
    std::fs::write(&weights, &sound).unwrap();
    s.run(&["run", "evaluate.yaml"]).code(0);
}

#[test]
fn model_with_nan_weights_is_rejected() {
    let s = Sandbox::new();
    let before = publish(&s);
    let weights = model(&s).join("model.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    let last = numbers_of(&bytes, "model.norm.weight").end;
    bytes[last - 4..last].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&weights, &bytes).unwrap();
    let words =
        ["model: failed: ", "element 31 of `model.norm.weight` is not finite", "the weight files hold this number"];
    fails(&s, &before, "evaluate.yaml", &words);
}

#[test]
fn nan_logits_are_reported_with_their_problem() {
    let s = Sandbox::new();
    let before = publish(&s);
    let weights = model(&s).join("model.safetensors");
    let sound = std::fs::read(&weights).unwrap();
    // All weights are finite, but the logits are not.
    let mut huge = sound.clone();
    fill(&mut huge, "model.norm.weight", 3e38);
    std::fs::write(&weights, &huge).unwrap();
    fails(
        &s,
        &before,
        "evaluate.yaml",
        &["evaluate: failed: ", "logits are not numbers on problem `", "use an earlier model"],
    );
    std::fs::write(&weights, &sound).unwrap();
    s.run(&["run", "evaluate.yaml"]).code(0);
}

const TRAIN: &str = r#"
version: 1
name: train
params:
  decay: {type: float, default: 1e38}
stages:
  data:
    uses: data/synthesize
    with: {method: procedural, splits: {demonstrations: {levels: {1: 8}}}}
  init:
    uses: model/init
    with: {hidden_size: 32, layers: 1, heads: 2, intermediate_size: 64}
  train:
    uses: sft
    with:
      model: ${{ stages.init.model }}
      trajectories: ["${{ stages.data.demonstrations }}"]
      steps: 4
      optimizer: {learning_rate: 1e-3, weight_decay: "${{ params.decay }}"}
"#;

#[test]
fn training_stops_at_the_step_of_the_first_nan() {
    let s = Sandbox::new();
    let before = publish(&s);
    // The first step makes all weights overflow float32; the second one detects it.
    s.write("train.yaml", TRAIN);
    fails(&s, &before, "train.yaml", &["train: failed: ", "is not finite at step 1", "lower the learning rate"]);
    s.run(&["run", "train.yaml", "-p", "decay=0"]).code(0).says("data: hit").says("init: hit").says("train: done");
}

#[test]
fn mismatched_tokenizer_is_rejected() {
    let s = Sandbox::new();
    let before = publish(&s);
    let file = model(&s).join("tokenizer.json");
    let sound = std::fs::read_to_string(&file).unwrap();
    let mut tokenizer: serde_json::Value = serde_json::from_str(&sound).unwrap();
    tokenizer["model"]["vocab"]["€"] = 9_999.into();
    std::fs::write(&file, tokenizer.to_string()).unwrap();
    let words = [
        "model: failed: ",
        "the tokenizer has 10000 tokens, the model's vocabulary only",
        "use the tokenizer.json of the model's own folder",
    ];
    fails(&s, &before, "evaluate.yaml", &words);
    std::fs::write(&file, sound).unwrap();
    s.run(&["run", "evaluate.yaml"]).code(0);
}

fn import(source: &str, format: &str) -> String {
    format!(
        "version: 1\nname: import\nstages:\n  import:\n    uses: data/import\n    \
         with: {{source: {source}, format: {format}}}\n"
    )
}

#[test]
fn truncated_or_corrupt_parquet_file_is_named() {
    let s = Sandbox::new();
    let before = publish(&s);
    let sound = std::fs::read(repository().join("stages/data/src/import/samples/verl.parquet")).unwrap();
    s.write("import.yaml", import("rows.parquet", "verl"));
    let words = ["import: failed: ", "rows.parquet is corrupt, truncated or not a Parquet file"];
    for keep in [0, 3, sound.len() / 2, sound.len() - 1] {
        s.write("rows.parquet", &sound[..keep]);
        fails(&s, &before, "import.yaml", &words);
    }
    // The footer is intact, the pages are not.
    let mut corrupt = sound.clone();
    corrupt[4..sound.len() / 2].fill(0xff);
    s.write("rows.parquet", &corrupt);
    fails(&s, &before, "import.yaml", &words);
    s.write("rows.parquet", &sound);
    s.run(&["run", "import.yaml"]).code(0).says("problems 3");
}

#[test]
fn corrupt_line_is_named_with_its_number() {
    let s = Sandbox::new();
    let before = publish(&s);
    let good = "{\"question\": \"a\", \"answer\": \"#### 1\"}\n";
    s.write("import.yaml", import("rows.jsonl", "gsm8k"));
    s.write("rows.jsonl", format!("{good}{{\"question\": \n"));
    fails(&s, &before, "import.yaml", &["import: failed: ", "rows.jsonl line 2: ", "the file may be cut off"]);
    s.write("rows.jsonl", good);
    s.run(&["run", "import.yaml"]).code(0);
}

#[test]
fn corrupt_object_in_the_store_is_detected_and_rebuilt() {
    let s = Sandbox::new();
    let chain = "version: 1\nname: chain\nstages:\n  a:\n    run: printf hello > ${{ outputs.o }}/x\n    \
     outputs: {o: {kind: files}}\n";
    s.write("chain.yaml", chain);
    s.run(&["run", "chain.yaml"]).code(0);
    for name in s.files(".trainyard/objects") {
        replace(&s.path(".trainyard/objects").join(name), b"");
    }
    s.run(&["run", "chain.yaml"]).code(0).says("a: done");
    s.run(&["artifacts", "export", "latest/a/o", "out"]).code(0);
    assert_eq!(s.read("out/x"), "hello");
}

/// Replaces a stored object, which is write-protected.
fn replace(path: &Path, bytes: &[u8]) {
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn endless_or_memory_hungry_tool_calls_only_cost_their_row() {
    let s = Sandbox::new();
    let before = publish(&s);
    let row = |n: u32, code: &str| {
        format!("{{\"question\": \"Question {n}?\", \"answer\": \"It is <<{code}=5>>5\\n#### 5\"}}\n")
    };
    let endless = "while True: pass";
    let rows = [row(1, "2+3"), row(2, endless), row(3, "len([7]*10**11)-10**11+5"), row(4, "1+4")];
    s.write("rows.jsonl", rows.concat());
    s.write(
        "use.yaml",
        "version: 1\nname: use\nstages:\n  import:\n    uses: data/import\n    \
         with: {source: rows.jsonl, format: gsm8k}\n  demonstrations:\n    uses: data/synthesize\n    with:\n      \
         method: annotated\n      problems: [\"${{ stages.import.problems }}\"]\n      \
         environment: {kind: math-problems, tools: [python]}\n",
    );
    s.run(&["run", "use.yaml"]).code(0).says("demonstrations 2").says("dropped 2");
    s.run(&["artifacts", "export", "latest/demonstrations/report", "report"]).code(0);
    let report: serde_json::Value = serde_json::from_str(&s.read("report/report.json")).unwrap();
    let metric = |name: &str| report["metrics"][name]["value"].as_f64();
    assert_eq!((metric("dropped_time_limit"), metric("dropped_disagreement")), (Some(1.0), Some(1.0)), "{report}");
    assert!(report.to_string().contains(endless), "the report must name the failed calculation: {report}");
    let rows = s
        .run(&["artifacts", "query", "latest/import/problems", "select count(*) as n from self", "--format", "json"])
        .code(0)
        .json();
    assert_eq!(rows["rows"][0][0], 4, "{rows}");
    intact(&s, &before);
}
