//! Bad input at run time: corrupt files, foreign tokenizers, models that are no numbers, programs that never end. Each gets a
//! clear error and a failed stage; what was published before stays.

use crate::kit::Sandbox;
use std::path::PathBuf;

/// A tiny model and its data, run once: a folder with a model that loads.
fn model(s: &Sandbox) -> PathBuf {
    s.write(
        "init.yaml",
        "version: 1\nname: init\nstages:\n  data:\n    uses: data/synthesize\n    with: {method: procedural, splits: {test: {levels: {1: 4}}, demonstrations: {levels: {1: 4}}}}\n  init:\n    uses: model/init\n    with: {hidden_size: 32, layers: 1, heads: 2, intermediate_size: 64}\n",
    );
    s.run(&["run", "init.yaml"]).code(0);
    s.run(&["artifacts", "export", "latest/init/model", "model"]).code(0);
    s.path("model")
}

const EVALUATE: &str = "version: 1\nname: evaluate\nstages:\n  data:\n    uses: data/synthesize\n    with: {method: procedural, splits: {test: {levels: {1: 4}}, demonstrations: {levels: {1: 4}}}}\n  model:\n    uses: model/init\n    with: {from: model}\n  evaluate:\n    uses: evaluate\n    with: {models: [\"${{ stages.model.model }}\"], names: [it], problems: \"${{ stages.data.problems }}\", samples: 2}\n";

#[test]
fn a_truncated_checkpoint_is_named() {
    let s = Sandbox::new();
    let weights = model(&s).join("model.safetensors");
    let bytes = std::fs::read(&weights).unwrap();
    s.write("evaluate.yaml", EVALUATE);
    for keep in [0, 4, 100, bytes.len() - 7] {
        std::fs::remove_file(&weights).unwrap();
        std::fs::write(&weights, &bytes[..keep]).unwrap();
        let ran = s.run(&["run", "evaluate.yaml"]).code(1);
        assert!(ran.stderr.contains("model.safetensors"), "{keep} bytes: {}", ran.stderr);
    }
    s.run(&["artifacts", "show", "latest/data/problems"]).code(0);
}

#[test]
fn a_model_of_nan_weights_is_refused() {
    let s = Sandbox::new();
    let weights = model(&s).join("model.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::remove_file(&weights).unwrap();
    std::fs::write(&weights, bytes).unwrap();
    s.write("evaluate.yaml", EVALUATE);
    let ran = s.run(&["run", "evaluate.yaml"]).code(1);
    assert!(ran.stderr.contains("not finite") || ran.stderr.to_lowercase().contains("nan"), "{}", ran.stderr);
}

#[test]
fn a_tokenizer_that_does_not_match_its_model_is_refused() {
    let s = Sandbox::new();
    let folder = model(&s);
    let text = std::fs::read_to_string(folder.join("tokenizer.json")).unwrap();
    let mut tokenizer: serde_json::Value = serde_json::from_str(&text).unwrap();
    tokenizer["model"]["vocab"]["€"] = 9_999.into();
    std::fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    s.write("evaluate.yaml", EVALUATE);
    let ran = s.run(&["run", "evaluate.yaml"]).code(1);
    assert!(ran.stderr.contains("vocab") || ran.stderr.contains("tokenizer"), "{}", ran.stderr);
}

#[test]
fn a_truncated_parquet_file_is_named() {
    let s = Sandbox::new();
    s.write("rows.jsonl", "{\"question\": \"Ann has 2 figs and buys 3. How many?\", \"answer\": \"2+3 = <<2+3=5>>5\\n#### 5\"}\n");
    s.write(
        "import.yaml",
        "version: 1\nname: import\nstages:\n  import:\n    uses: data/import\n    with: {source: rows.jsonl, format: gsm8k}\n",
    );
    s.run(&["run", "import.yaml"]).code(0);
    s.run(&["artifacts", "export", "latest/import/problems", "table"]).code(0);
    let bytes = std::fs::read(s.path("table/data.parquet")).unwrap();
    s.write(
        "again.yaml",
        "version: 1\nname: again\nstages:\n  import:\n    uses: data/import\n    with: {source: cut.parquet, format: verl}\n",
    );
    for keep in [0, 3, bytes.len() / 2, bytes.len() - 1] {
        s.write("cut.parquet", &bytes[..keep]);
        let ran = s.run(&["run", "again.yaml"]).code(1);
        assert!(ran.stderr.contains("cut.parquet"), "{keep} bytes: {}", ran.stderr);
    }
}

#[test]
fn a_corrupt_line_is_named_with_its_number() {
    let s = Sandbox::new();
    s.write("rows.jsonl", "{\"question\": \"a\", \"answer\": \"#### 1\"}\n{\"question\": \n");
    s.write(
        "import.yaml",
        "version: 1\nname: import\nstages:\n  import:\n    uses: data/import\n    with: {source: rows.jsonl, format: gsm8k}\n",
    );
    let ran = s.run(&["run", "import.yaml"]).code(1);
    assert!(ran.stderr.contains("rows.jsonl") && ran.stderr.contains('2'), "{}", ran.stderr);
}

#[test]
fn a_corrupt_object_in_the_store_is_noticed_and_made_again() {
    let s = Sandbox::new();
    let chain = "version: 1\nname: chain\nstages:\n  a:\n    run: printf hello > ${{ outputs.o }}/x\n    outputs: {o: {kind: files}}\n";
    s.write("chain.yaml", chain);
    s.run(&["run", "chain.yaml"]).code(0);
    for name in s.files(".trainyard/objects") {
        let path = s.path(".trainyard/objects").join(name);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "").unwrap();
    }
    s.run(&["run", "chain.yaml"]).code(0);
    s.run(&["artifacts", "export", "latest/a/o", "out"]).code(0);
    assert_eq!(s.read("out/x"), "hello");
}

#[test]
fn a_tool_call_that_never_ends_or_fills_the_memory_costs_its_row_only() {
    let s = Sandbox::new();
    let row = |n: u32, code: &str| format!("{{\"question\": \"Question {n}?\", \"answer\": \"It is <<{code}=5>>5\\n#### 5\"}}\n");
    let endless = "sum(1 for _ in range(10**18))";
    let rows = [row(1, "2+3"), row(2, endless), row(3, "len([7]*10**11)-10**11+5"), row(4, "1+4")];
    s.write("rows.jsonl", rows.concat());
    s.write(
        "use.yaml",
        "version: 1\nname: use\nstages:\n  import:\n    uses: data/import\n    with: {source: rows.jsonl, format: gsm8k}\n  \
         demonstrations:\n    uses: data/synthesize\n    with:\n      method: annotated\n      problems: [\"${{ stages.import.problems }}\"]\n      \
         environment: {kind: math-problems, tools: [python], limits: {time_millis: 500}}\n",
    );
    let ran = s.run(&["run", "use.yaml"]).code(0);
    assert!(ran.stderr.contains("demonstrations 2") && ran.stderr.contains("dropped 2"), "{}", ran.stderr);
    s.run(&["artifacts", "export", "latest/demonstrations/report", "report"]).code(0);
    assert!(s.read("report/report.json").contains(endless), "the report names what did not hold");
    let rows =
        s.run(&["artifacts", "query", "latest/import/problems", "select count(*) as n from self", "--format", "json"]).code(0).json();
    assert_eq!(rows["rows"][0][0], 4, "{rows}");
}
