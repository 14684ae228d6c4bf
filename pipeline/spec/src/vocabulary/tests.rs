//! Tests the tables, and that YAML in help texts can be pasted.

use super::*;
use crate::diagnostic::{Diagnostic, Sources};
use crate::yaml;

#[test]
fn keys_of_other_tools_suggest_ours() {
    let help = |place, word| key(place, word, &["needs", "run", "retry"]).unwrap();
    assert!(help(KeyContext::Stage, "depends_on").contains("`needs: [stage]`"));
    assert!(help(KeyContext::Stage, "dependsOn").contains("`needs: [stage]`"));
    assert!(help(KeyContext::Stage, "timeout-minutes").contains("`timeout: 30m`"));
    assert!(help(KeyContext::Stage, "command").contains("`run: [program, argument]`"));
    assert!(help(KeyContext::File, "jobs").contains("`stages:`"));
    assert_eq!(help(KeyContext::Stage, "neeeds"), "did you mean `needs`?");
    assert!(help(KeyContext::Retry, "depends_on").starts_with("valid here"));
}

#[test]
fn options_of_trl_and_verl_name_ours_from_where_they_stand() {
    let (root, inner) = (["loss", "optimizer", "rollout"], ["group_size", "temperature"]);
    assert_eq!(option("num_generations", &root).unwrap(), "write `rollout: {group_size: …}`");
    assert_eq!(option("num_generations", &inner).unwrap(), "did you mean `group_size`?");
    assert_eq!(option("actor.optim.lr", &root).unwrap(), "write `optimizer: {learning_rate: …}`");
    assert_eq!(option("beta", &root).unwrap(), "write `loss: {terms: [{kind: clip}, {kind: kl, weight: 0.01}]}`");
    assert_eq!(option("beta", &["terms"]).unwrap(), "write `terms: [{kind: clip}, {kind: kl, weight: 0.01}]`");
    assert_eq!(option("num_generations", &["seed"]).unwrap(), "valid here: seed", "a stage without such an option");
    let pairs = ["batch_pairs", "loss", "preferences", "sft_weight", "optimizer"];
    assert_eq!(option("beta", &pairs).unwrap(), "write `loss: {kind: dpo, beta: 0.1}`");
    assert_eq!(option("rpo_alpha", &pairs).unwrap(), "did you mean `sft_weight`?");
    assert_eq!(option("lr", &pairs).unwrap(), "write `optimizer: {learning_rate: …}`");
    assert_eq!(option("temperature", &root).unwrap(), "write `rollout: {temperature: …}`");
    assert_eq!(option("top_p", &["models", "sampling"]).unwrap(), "write `sampling: {top_p: …}`");
    assert_eq!(option("01", &root).unwrap(), "decimals take a point, as in `0.01`");
}

#[test]
fn algorithms_and_commands_are_not_kinds() {
    let valid = ["data/import", "evaluate", "rl", "sft"];
    assert_eq!(kind("grpo", &valid).unwrap(), "write `uses: rl` with `algorithm: grpo`");
    assert_eq!(kind("train/dpo", &valid).unwrap(), "write `uses: preference` with `loss: dpo`");
    assert!(kind("bash", &valid).unwrap().contains("`run: [program, argument]`"));
    assert_eq!((meant_kind("GRPO", &valid), meant_kind("train/sft", &valid)), (Some("rl"), Some("sft")));
    assert_eq!((meant_kind("dpo", &valid), meant_kind("bash", &valid)), (None, None), "no `preference` here");
    for (wrong, right) in [("eval", "evaluate"), ("train/sft", "sft"), ("import", "data/import"), ("rll", "rl")] {
        assert_eq!(kind(wrong, &valid).unwrap(), format!("did you mean `{right}`?"));
    }
}

/// Returns the texts in backticks that are YAML: maps and lists, with or without braces.
fn yaml_in(help: &str) -> impl Iterator<Item = &str> {
    let is_yaml = |text: &&str| {
        let braced = |open: char, close: char| text.starts_with(open) && text.ends_with(close) && text.len() > 1;
        text.contains(": ") || braced('{', '}') || braced('[', ']')
    };
    help.split('`').skip(1).step_by(2).filter(is_yaml)
}

/// Returns the mistakes of the YAML in a help text.
fn mistakes(help: &str) -> Vec<String> {
    let mut sources = Sources::default();
    let mut found = Vec::new();
    for text in yaml_in(help) {
        let file = sources.add("advice.yaml", None, text);
        let (tree, diagnostics) = yaml::read(&sources, file);
        found.extend(diagnostics.iter().map(|d: &Diagnostic| format!("{text}: {}", d.message)));
        found.extend(tree.is_none().then(|| format!("{text}: not read")));
    }
    found
}

#[test]
fn yaml_in_help_texts_can_be_pasted() {
    let unquoted = "add `with: {problems: ${{ stages.<id>.<port> }}}` with an artifact of kind problems";
    assert_ne!(mistakes(unquoted), [""; 0], "an expression inside braces needs quotes");
    let keys = [FILE, STAGE, RETRY, RESOURCES].into_iter().flatten().map(|(_, help)| (*help).to_string());
    let translated = |(_, path, value): &(&[&str], &str, &str)| translate(path, value, &[path.split('.').next()?]);
    let options = PREFERENCE.iter().chain(OPTIONS).filter_map(translated);
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/invalid");
    let mut samples = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "expected") {
            samples.extend(
                std::fs::read_to_string(&path)
                    .unwrap()
                    .lines()
                    .filter_map(|line| line.trim_start().strip_prefix("help: ").map(str::to_string)),
            );
        }
    }
    assert!(samples.iter().flat_map(|help| yaml_in(help)).count() > 10, "the samples give advice in YAML");
    for help in keys.chain(options).chain(samples) {
        assert_eq!(mistakes(&help), [""; 0], "{help}");
    }
}
