//! Checks of the documentation against the program.

use crate::kit::{Sandbox, real, repository};

#[test]
fn shipped_schema_is_up_to_date() {
    let s = Sandbox::new();
    let printed = s.run(&["schema"]).code(0).stdout;
    let shipped = std::fs::read_to_string(repository().join("workflows/schema.json")).unwrap();
    assert!(printed == shipped, "workflows/schema.json is stale: run `just generate`");
}

#[test]
fn every_test_of_the_security_page_exists() {
    let page = std::fs::read_to_string(repository().join("docs/security.md")).unwrap();
    let mut named = 0;
    for entry in page.split("\n  Tests: ").skip(1) {
        let tests = entry.split("\n- ").next().unwrap().split("\n\n").next().unwrap();
        for of_file in tests.split(';') {
            let mut words = of_file.split('`').skip(1).step_by(2);
            let file = words.next().unwrap();
            let source = std::fs::read_to_string(repository().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
            for test in words {
                let found = source.contains(&format!("fn {test}()")) || source.contains(&format!("def {test}("));
                assert!(found, "docs/security.md names `{test}`, which {file} does not have");
                named += 1;
            }
        }
    }
    assert!(named >= 30, "{named} tests");
}

#[test]
fn every_shipped_workflow_passes_check() {
    let s = Sandbox::new();
    let folder = repository().join("workflows");
    let data = s.path("data");
    let model = repository().join("stages/lm/src/gguf/fixtures/llama.gguf");
    for name in ["train.jsonl", "test.jsonl", "example_model_solutions.jsonl"] {
        s.write(&format!("data/{name}"), "");
    }
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "yaml") {
            let path = path.to_str().unwrap();
            let (data, model) = (format!("data={}", data.display()), format!("model={}", model.display()));
            let params: &[&str] = match path {
                path if path.ends_with("gsm8k.yaml") => &["-p", &data],
                path if path.ends_with("smollm2.yaml") => &["-p", &data, "-p", &model],
                _ => &[],
            };
            s.run(&[&["check", path], params].concat()).code(0);
        }
    }
}

#[test]
fn every_workflow_in_the_reference_passes_check() {
    let pages = ["docs/workflows.md", "docs/schedules.md", "docs/frames.md"];
    let text: String = pages.map(|page| std::fs::read_to_string(repository().join(page)).unwrap()).concat();
    let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split_once("```").map(|(block, _)| block));
    let files: Vec<&str> = blocks.filter(|b| b.contains("version: 1") && b.contains("stages:")).collect();
    assert!(files.len() >= 6, "{} examples", files.len());
    for file in files {
        let s = Sandbox::new();
        s.write("example.yaml", file);
        s.run(&["check", "example.yaml"]).code(0);
    }
}

#[test]
fn the_example_of_a_parent_in_the_reference_checks() {
    let text = std::fs::read_to_string(repository().join("docs/workflows.md")).unwrap();
    let section = text.split_once("\n## A parent\n").unwrap().1.split_once("\n## ").unwrap().0;
    let blocks: Vec<&str> =
        section.split("```yaml\n").skip(1).filter_map(|rest| rest.split_once("```").map(|(block, _)| block)).collect();
    let s = Sandbox::new();
    s.write("parent.yaml", blocks[0]);
    s.write("child.yaml", blocks[1]);
    s.run(&["check", "child.yaml"]).code(0);
    s.run(&["plan", "child.yaml", "--show-file"]).code(0).prints("total: 4000").prints("default: 900");
}

#[test]
fn every_shipped_recipe_is_sound() {
    let s = Sandbox::new();
    let folder = repository().join("workflows/recipes");
    s.run(&["recipes", "--folder", folder.to_str().unwrap()]).code(0);
}

#[test]
fn every_stage_kind_documents_itself() {
    let s = Sandbox::new();
    let kinds = s.run(&["stages", "--format", "json"]).code(0).json();
    let kinds = kinds.as_array().unwrap();
    for wanted in ["data/filter", "data/import", "data/synthesize", "evaluate", "prm", "rl", "sft"] {
        assert!(kinds.iter().any(|k| k["name"] == wanted), "{wanted} is missing");
    }
    for kind in kinds {
        let page = s.run(&["stages", kind["name"].as_str().unwrap()]).code(0).stdout;
        assert!(page.contains("options"), "{page}");
        dangling(&kind["options"], &kind["options"]);
        for port in kind["inputs"].as_array().unwrap() {
            let name = port["name"].as_str().unwrap();
            assert!(
                kind["options"]["properties"].get(name).is_none(),
                "{}: option `{name}` cannot be set: an input has its name",
                kind["name"]
            );
        }
    }
}

/// Fails on a dangling reference, which would make a schema invalid.
fn dangling(root: &serde_json::Value, at: &serde_json::Value) {
    if let Some(target) = at.get("$ref").and_then(|r| r.as_str()) {
        let found = root.pointer(target.trim_start_matches('#')).is_some();
        assert!(found, "{} refers to {target}, which does not exist", root["title"]);
    }
    let inner: Vec<&serde_json::Value> = match at {
        serde_json::Value::Object(map) => map.values().collect(),
        serde_json::Value::Array(list) => list.iter().collect(),
        _ => Vec::new(),
    };
    inner.into_iter().for_each(|v| dangling(root, v));
}

#[test]
fn parts_are_listed_and_documented() {
    let s = Sandbox::new();
    s.run(&["stages", "rl"])
        .code(0)
        .prints("advantages/stratified")
        .prints("rewards/tool_efficiency")
        .prints("environments/grid-world");
    s.run(&["stages", "losses/clip"]).code(0).prints("1707.06347").prints("clip_high: number = 0.28");
    s.run(&["stages", "rewards/tool_efficiency"])
        .code(0)
        .prints("cos(m·π/(2m + c))")
        .prints("2504.14870")
        .prints("smoothing: number = 1");
    s.run(&["stages", "environments/grid-world"]).code(0).prints("2306.13831").prints("max_turns: integer = 64");
    s.run(&["stages", "data/filter"]).code(0).prints("rules/near_duplicates");
    s.run(&["stages", "rules/near_duplicates"]).code(0).prints("MinHash").prints("threshold: number = 0.8");
    s.run(&["stages", "rules/repetition"]).code(0).prints("2112.11446").prints("duplicate_10_grams");
    s.run(&["stages", "rl"]).code(0).prints("tools/calculator").prints("formats/toolrl").prints("verifiers/numeric");
    s.run(&["stages", "tools/python"]).code(0).prints("subset of Python 3");
    s.run(&["stages", "losses/clap"])
        .code(2)
        .says("no stage kind or part `losses/clap`")
        .says("did you mean `losses/clip`?");
}

#[test]
fn init_writes_a_workflow_that_passes_check_and_runs() {
    let s = Sandbox::new();
    s.run(&["init", "new"]).code(0);
    s.run(&["check", "new/workflow.yaml"]).code(0);
    s.run(&["plan", "new/workflow.yaml"]).code(0);
}

#[test]
fn pages_are_found_by_folder_and_by_bare_name() {
    let s = Sandbox::new();
    s.run(&["stages"]).code(0).prints("algorithms").prints("clip_balanced").prints("executors");
    s.run(&["stages", "losses"]).code(0).prints("losses/clip").prints("losses/value");
    s.run(&["stages", "grpo"])
        .code(0)
        .prints("algorithms/grpo")
        .prints("expands to")
        .prints("\"kind\": \"zero_variance\"");
    s.run(&["stages", "algorithms/dapo"]).code(0).prints("2503.14476").prints("\"clip_high\": 0.28");
    s.run(&["stages", "gae"]).code(0).prints("needs\n  values");
    s.run(&["stages", "import/gsm8k"]).code(0).prints("problems of GSM8K");
    s.run(&["stages", "executors"]).code(0).prints("executors/local");
    let page = s.run(&["stages", "executors/local"]).code(0);
    page.prints("processes of this machine").prints("orphans: stop | keep");
    s.run(&["stages", "none"]).code(2).says("corrections/none, replay/none");
}

#[test]
fn doctor_tells_a_healthy_sandbox_from_a_broken_store() {
    let s = Sandbox::new();
    s.run(&["doctor"]).code(0).prints("store");
    s.write("file", "");
    s.run(&["doctor", "--store", s.path("file/store").to_str().unwrap()]).code(3);
}

#[test]
fn parity_recomputes_vectors_and_fails_on_wrong_ones() {
    let s = Sandbox::new();
    let case = |kl: f64| {
        let inputs = r#"{"logprobs": [[-1.0]], "ref_logprobs": [[-1.5]]}"#;
        let expected = format!(r#"{{"kl": [[{kl}]]}}"#);
        let case =
            format!(r#"{{"kind": "kl", "name": "mse", "inputs": {inputs}, "config": {{}}, "expected": {expected}}}"#);
        format!(r#"{{"cases": [{case}]}}"#)
    };
    s.write("right.json", case(0.125));
    s.run(&["parity", "right.json"]).code(0).prints("1 of 1 cases agree");
    s.write("wrong.json", case(0.126));
    s.run(&["parity", "wrong.json"]).code(1).prints("0 of 1 cases agree");
    s.run(&["parity", "absent.json"]).code(2).says("absent.json");
    let sample = repository().join("stages/learn/src/parity_sample.json");
    s.run(&["parity", sample.to_str().unwrap()]).code(0).prints("9 of 9 cases agree");
}

#[test]
fn parity_agrees_with_another_implementation() {
    let Some(golden) = real("goldens/rl_core.json") else { return };
    Sandbox::new().run(&["parity", golden.to_str().unwrap()]).code(0).prints("66 of 66 cases agree");
}
