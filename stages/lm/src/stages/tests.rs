//! Tests `model/init` from options to files.

use super::init::{Init, ModelInitConfig};
use crate::folder::ModelFolder;
use crate::shape::LOST_RESULTS;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use trainyard_api::{DiscardingCheckpoints, InputArtifact, PreparedOptions, SilentReporter, Stage, StageContext};
use trainyard_core::{ArtifactKind, Digest, Result, WiredInputs};
use trainyard_tables::{Message, Problem};

/// Runs the stage on one problem whose text is `text`; the folder holds the model.
fn run(config: serde_json::Value, text: &str) -> Result<(tempfile::TempDir, StageContext)> {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    std::fs::create_dir_all(&input).unwrap();
    std::fs::create_dir_all(&output).unwrap();
    let problem = Problem {
        id: "p".into(),
        messages: vec![Message::new("user", text)],
        verifier: "{}".into(),
        ..Problem::default()
    };
    trainyard_tables::write_problems(&input.join("data.parquet"), &[problem]).unwrap();
    let artifact = InputArtifact {
        kind: ArtifactKind::Problems,
        digest: Digest::of(b"in"),
        stage_digest: Digest::of(b"stage"),
        folder: input,
        metadata: BTreeMap::new(),
    };
    let (reporter, checkpoints) = (Arc::new(SilentReporter), Arc::new(DiscardingCheckpoints));
    let mut context = StageContext::new(folder.path().to_path_buf(), reporter, checkpoints);
    context.inputs.insert("problems".to_string(), vec![artifact]);
    context.output_folders.insert("model".to_string(), output);
    Init.run(serde_json::from_value(config).unwrap(), &mut context)?;
    Ok((folder, context))
}

fn small() -> serde_json::Value {
    json!({"hidden_size": 16, "layers": 1, "heads": 2, "intermediate_size": 24})
}

#[test]
fn a_new_model_is_a_complete_folder_and_the_same_for_the_same_seed() {
    for (change, family) in [
        (json!({}), "llama"),
        (
            json!({
                "family": "qwen3", "kv_heads": 1, "template": "chatml",
                "tokenizer": {"kind": "bpe", "vocabulary_size": 280},
            }),
            "qwen3",
        ),
    ] {
        let mut config = small();
        config.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let (folder, context) = run(config.clone(), &"how many apples? ü ".repeat(9)).unwrap();
        let out = folder.path().join("out");
        let mut files: Vec<String> =
            std::fs::read_dir(&out).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
        files.sort();
        assert_eq!(
            files,
            [
                "chat_template.jinja",
                "config.json",
                "generation_config.json",
                "model.safetensors",
                "special_tokens_map.json",
                "tokenizer.json",
                "tokenizer_config.json"
            ]
        );
        let model = ModelFolder::load(&out).unwrap();
        assert_eq!(model.config.family.name, family);
        assert_eq!(model.generation.eos_token_id, [model.chat.end_token()]);
        assert_eq!(model.metadata(), context.metadata["model"]);
        assert_eq!(context.metrics["parameters"], model.config.parameter_count() as f64);
        assert!(model.chat.tokenizer().encode("ü").is_ok());
        model.generator(1).unwrap();
        let again = run(config.clone(), &"how many apples? ü ".repeat(9)).unwrap().0;
        config["seed"] = json!(1);
        let other = run(config, &"how many apples? ü ".repeat(9)).unwrap().0;
        for file in &files {
            let read = |folder: &tempfile::TempDir| std::fs::read(folder.path().join("out").join(file)).unwrap();
            assert_eq!(read(&folder), read(&again), "{file}");
            assert_eq!(read(&folder) != read(&other), file == "model.safetensors", "{file}");
        }
    }
}

#[test]
fn a_folder_is_imported_and_its_template_may_be_replaced() {
    let (given, _) = run(small(), "a").unwrap();
    let from = given.path().join("out");
    let (folder, _) = run(json!({"from": from}), "b").unwrap();
    for file in ["config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"] {
        assert_eq!(
            std::fs::read(from.join(file)).unwrap(),
            std::fs::read(folder.path().join("out").join(file)).unwrap(),
            "{file}"
        );
    }
    std::fs::remove_file(from.join("chat_template.jinja")).unwrap();
    assert!(run(json!({"from": from}), "b").err().unwrap().message.contains("no chat template"));
    assert!(run(json!({"from": from, "template": "compact"}), "b").is_ok());
    // A template from a file: Jinja, or the config of a tokenizer.
    let source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>\n{% endfor %}";
    for (name, text) in [("t.jinja", source.to_string()), ("t.json", json!({"chat_template": source}).to_string())] {
        let file = given.path().join(name);
        std::fs::write(&file, text).unwrap();
        let (made, _) = run(json!({"from": from, "template": {"file": file}}), "b").unwrap();
        let saved = std::fs::read_to_string(made.path().join("out/chat_template.jinja")).unwrap();
        assert_eq!(saved, source, "{name}");
        std::fs::write(&file, "{% for m in %}").unwrap();
        let problems = Init.prepare(json!({"from": from, "template": {"file": file}})).unwrap().problems();
        assert!(problems.iter().any(|p| p.pointer == "/template/file"), "{name}: {problems:?}");
    }
    let new = Init.prepare(json!({"template": {"file": "t.jinja"}})).unwrap().problems();
    assert!(new[0].pointer == "/template/file" && new[0].help.as_ref().unwrap().contains("set `from`"), "{new:?}");
    // A tokenizer of another model.
    let (wide, _) = run(small(), "äöüß").unwrap();
    std::fs::copy(wide.path().join("out/tokenizer.json"), from.join("tokenizer.json")).unwrap();
    let error = run(json!({"from": from, "template": "compact"}), "b").err().unwrap();
    assert!(
        error.message.contains("the tokenizer has 109 tokens, the model's vocabulary only 105"),
        "{}",
        error.message
    );
}

#[test]
fn template_limits_are_reported_before_the_run() {
    let (given, _) = run(small(), "a").unwrap();
    let from = given.path().join("out");
    let stage = Init;
    let known = |source: &str| {
        std::fs::write(from.join("chat_template.jinja"), source).unwrap();
        let config = stage.prepare(json!({"from": from})).unwrap();
        (config.problems(), config.facts(&WiredInputs::new()))
    };
    let all = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}";
    let (problems, facts) = known(all);
    assert_eq!((problems, facts["model"].get(LOST_RESULTS)), (vec![], None));
    let (problems, facts) = known(&all.replace("{% for m in messages", "{% for m in messages if m.role != 'tool'"));
    assert_eq!(problems, []);
    let reason = facts["model"][LOST_RESULTS].as_str().unwrap();
    assert!(reason.contains("cannot show tool results"), "{reason}");
    let (problems, _) = known("{% for m in messages %}<|{{ m.role }}|>{% endfor %}");
    assert!(problems[0].pointer == "/from" && problems[0].message.contains("drops an assistant's content"));
    // A folder that does not exist yet.
    let later = stage.prepare(json!({"from": from.join("later")})).unwrap();
    assert_eq!((later.problems(), later.facts(&WiredInputs::new())), (vec![], BTreeMap::new()));
}

#[test]
fn data_of_another_tokenizer_or_template_is_rejected() {
    let (folder, _) = run(small(), "a").unwrap();
    let model = ModelFolder::load(&folder.path().join("out")).unwrap();
    let (tokenizer, template) = (model.tokenizer_digest().as_str(), model.template_digest().as_str());
    assert!(model.expect_digests(tokenizer, template, "rows").is_ok());
    assert!(
        model
            .expect_digests(template, template, "rows")
            .unwrap_err()
            .message
            .starts_with("rows: its tokens were made with another tokenizer")
    );
    assert!(model.expect_digests(tokenizer, "", "rows").unwrap_err().message.contains("another chat template"));
}

#[test]
fn all_invalid_options_are_reported() {
    let check = |value: serde_json::Value| {
        PreparedOptions::problems(&serde_json::from_value::<ModelInitConfig>(value).unwrap())
            .into_iter()
            .map(|p| p.pointer)
            .collect::<Vec<_>>()
    };
    assert!(check(json!({})).is_empty() && check(small()).is_empty());
    assert_eq!(
        check(json!({"hidden_size": 90, "kv_heads": 3, "tokenizer": {"kind": "bpe"}})),
        ["/hidden_size", "/kv_heads", "/tokenizer"]
    );
    assert_eq!(check(json!({"tokenizer": {"kind": "bpe", "vocabulary_size": 264}})), ["/tokenizer/vocabulary_size"]);
    assert_eq!(check(json!({"tokenizer": {"vocabulary_size": 400}})), ["/tokenizer/vocabulary_size"]);
    assert!(serde_json::from_value::<ModelInitConfig>(json!({"hiden_size": 9})).is_err());
}

#[test]
fn a_gguf_file_becomes_a_folder() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/gguf/fixtures/qwen3.gguf");
    let (folder, context) = run(json!({"from": file}), "x").unwrap();
    let model = ModelFolder::load(&folder.path().join("out")).unwrap();
    assert_eq!(model.config.family.name, "qwen3");
    assert_eq!(context.metrics["parameters"], model.config.parameter_count() as f64);
    assert_eq!(model.chat.tokenizer().encode("12 cats").unwrap().len(), 3);
}
