//! Facts about models that `check` knows before they exist: shapes, adapters, heads and templates pass from stage to
//! stage, and contradictions are reported at their places before any stage runs.

use crate::kit::{Ran, Sandbox};

const HEAD: &str = r#"version: 1
name: x
stages:
  data:
    uses: data/synthesize
    with: {method: procedural, splits: {demonstrations: {levels: {1: 20}}, rl: {levels: {1: 8}}}}
  base: {uses: model/init, with: {hidden_size: 32, heads: 2, layers: 2}}
  sft:
    uses: sft
    with:
      model: ${{ stages.base.model }}
      trajectories: ["${{ stages.data.demonstrations }}"]
      adapter: {rank: 4}
"#;

/// Runs `check` on the stages above with additional ones.
fn check(s: &Sandbox, more: &str) -> Ran {
    s.write("x.yaml", format!("{HEAD}{more}"));
    s.run(&["check", "x.yaml"])
}

#[test]
fn what_cannot_be_adapted_is_named_where_it_is_asked_for() {
    let s = Sandbox::new();
    check(&s, "").code(0);
    let rl = |adapter: &str| {
        format!(
            "  rl:\n    uses: rl\n    with:\n      model: ${{{{ stages.sft.model }}}}\n      \
             problems: ${{{{ stages.data.problems }}}}\n      adapter: {adapter}\n"
        )
    };
    check(&s, &rl("{rank: 4}")).code(0);
    check(&s, &rl("null")).code(0);
    check(&s, &rl("{rank: 8}")).code(2).says("has rank 4, not 8").says("model/merge").says("x.yaml:19:");
    check(&s, &rl("{rank: 4, alpha: 8}")).code(2).says("has the scale 8, not 2");
    check(&s, &rl("{rank: 4, targets: [q_proj]}")).code(2).says("changes 14 layers, not the 2 of `targets`");
    let unknown = rl("{rank: 4, targets: [q_proj, query, qkv_proj]}");
    check(&s, &unknown).code(2).says("`query`").says("`qkv_proj`").says("down_proj, gate_proj").says("x.yaml:19:44");
    // After a merge, another adapter may learn on top, and no adapter is left to merge.
    let merged = "  whole: {uses: model/merge, with: {model: \"${{ stages.sft.model }}\"}}\n";
    let after = rl("{rank: 8}").replace("stages.sft", "stages.whole");
    check(&s, &format!("{merged}{after}")).code(0);
    let twice = "  again: {uses: model/merge, with: {model: \"${{ stages.whole.model }}\"}}\n";
    check(&s, &format!("{merged}{twice}")).code(2).says("no adapter to merge").says("x.yaml:15:");
}

#[test]
fn models_that_score_and_models_that_speak_are_not_mixed_up() {
    let s = Sandbox::new();
    let prm = "  prm:\n    uses: prm\n    with:\n      model: ${{ stages.sft.model }}\n      \
               problems: ${{ stages.data.problems }}\n";
    let evaluate = |model: &str, prm: &str| {
        format!(
            "  e:\n    uses: evaluate\n    with:\n      models: [\"${{{{ stages.{model}.model }}}}\"]\n      \
             problems: ${{{{ stages.data.problems }}}}\n      prm: ${{{{ stages.{prm}.model }}}}\n"
        )
    };
    check(&s, &format!("{prm}{}", evaluate("sft", "prm"))).code(0);
    check(&s, &evaluate("sft", "base")).code(2).says("input `prm` has 0 score labels").says("x.yaml:19:");
    let spoken = format!("{prm}{}", evaluate("prm", "prm"));
    check(&s, &spoken).code(2).says("no language head").says("x.yaml:22:");
    let both = format!("{prm}      trajectories: ${{{{ stages.data.demonstrations }}}}\n");
    check(&s, &both).code(2).says("both are given").says("x.yaml:18:");
}

#[test]
fn a_rate_that_does_not_suit_the_model_is_a_warning() {
    let s = Sandbox::new();
    let sft = |rate: &str| {
        format!(
            "  more:\n    uses: sft\n    with:\n      model: ${{{{ stages.base.model }}}}\n      \
             trajectories: [\"${{{{ stages.data.demonstrations }}}}\"]\n      optimizer: {{learning_rate: {rate}}}\n"
        )
    };
    let warned = check(&s, &sft("1e-6")).code(0);
    warned.says("unusual-option").says("1e-6").says("`learning_rate: null` gives 2e-3").says("x.yaml:19:");
    let quiet = check(&s, &sft("1e-3")).code(0);
    assert!(!quiet.stderr.contains("unusual"), "{}", quiet.stderr);
}

#[test]
fn a_given_model_is_looked_at_before_anything_runs() {
    let s = Sandbox::new();
    let init = |with: &str| {
        s.write("y.yaml", format!("version: 1\nname: y\nstages:\n  a: {{uses: model/init, with: {with}}}\n"));
        s.run(&["check", "y.yaml"])
    };
    s.write("mixtral/config.json", r#"{"model_type": "mixtral"}"#);
    init("{from: ./mixtral}").code(2).says("mixtral").says("routes tokens to experts").says("y.yaml:4:");
    let llama = r#"{"model_type": "llama", "vocab_size": 90, "hidden_size": 8, "intermediate_size": 8,
        "num_hidden_layers": 1, "num_attention_heads": 2}"#;
    s.write("llama/config.json", llama);
    init("{from: ./llama}").code(0);
    s.write("dora/adapter_config.json", r#"{"peft_type": "LORA", "r": 2, "use_dora": true}"#);
    s.write("dora/adapter_model.safetensors", [0; 8]);
    init("{from: ./llama, adapter: ./dora}").code(2).says("`use_dora` = true is not supported").says("y.yaml:4:");
}
