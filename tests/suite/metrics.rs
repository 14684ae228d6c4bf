//! Names of metrics, from the declarations to `check` and the reference pages.

use crate::kit::Sandbox;

/// Two arms of `rl` and all constructs that can name a metric.
const FILE: &str = r#"
version: 1
name: names
stages:
  synthesize: {uses: data/synthesize, with: {method: procedural}}
  base: {uses: model/init, with: {corpus: ["${{ stages.synthesize.demonstrations }}"]}}
  arms:
    uses: rl
    with:
      model: ${{ stages.base.model }}
      problems: ${{ stages.synthesize.problems }}
      validation: ${{ stages.synthesize.problems }}
      mechanism: {enabled: "${{ matrix.arm == 'treatment' }}", with: {loss: {terms: [clip, {kind: clip_cov}, clip]}}}
    matrix: {arm: [baseline, treatment]}
    checks: [{metric: ARMS, min: 0}]
  compare:
    uses: compare
    with:
      reports: "${{ stages.arms.report }}"
      trajectories: "${{ stages.arms.trajectories }}"
      metrics: [tokens, correct, COMPARED]
    checks: [CHECK]
  report:
    uses: report
    with: {reports: ["${{ stages.compare.report }}", "${{ stages.synthesize.report }}"]}
    checks: [{metric: tokens, of: difference, max: 0}, {metric: REPORT, min: 1}]
  after: {uses: noop, when: "${{ stages.compare.metrics.EXPRESSION > 0 }}"}
"#;

const RIGHT: [(&str, &str); 5] = [
    ("ARMS", "validation_accuracy"),
    ("COMPARED", "clip_cov.silenced"),
    ("CHECK", "{metric: clip_cov.silenced, of: a, min: 0}, {metric: correct, of: low, min: -1}"),
    ("REPORT", "problems_test"),
    ("EXPRESSION", "tokens.difference"),
];

/// Runs `check` on the file with one name changed.
fn check(name: &str, value: &str) -> crate::kit::Ran {
    let s = Sandbox::new();
    let others = RIGHT
        .iter()
        .filter(|(slot, _)| *slot != name)
        .fold(FILE.to_string(), |text, (slot, right)| text.replace(slot, right));
    s.write("names.yaml", others.replace(name, value));
    s.run(&["check", "names.yaml"])
}

#[test]
fn declared_names_are_known() {
    check("", "").code(0);
    for name in ["kl", "clip.fraction", "rewards.answer", "pass_rate_level_3", "turns_initial", "grad_norm_max"] {
        check("ARMS", name).code(0);
    }
}

#[test]
fn a_misspelled_metric_is_an_error_with_the_nearest_name() {
    for (slot, wrong, nearest) in [
        ("ARMS", "kll", "did you mean `kl`?"),
        ("ARMS", "validation_acuracy", "did you mean `validation_accuracy`?"),
        ("ARMS", "pass_rate_level_x", "pass_rate_level_<int>"),
        ("ARMS", "rewards.anser", "did you mean `rewards.answer`?"),
        ("COMPARED", "kll", "did you mean `kl`?"),
        ("CHECK", "{metric: tokns, of: difference, max: 0}", "did you mean `tokens`?"),
        ("REPORT", "problems_tets", "did you mean `problems_test`?"),
        ("EXPRESSION", "tokns.difference", "did you mean `tokens`?"),
    ] {
        check(slot, wrong).code(2).says("unknown-metric").says(nearest);
    }
}

#[test]
fn a_metric_of_a_part_that_one_arm_lacks_is_no_metric_of_both() {
    check("ARMS", "clip_2.fraction").code(2).says("reports no metric `clip_2.fraction`");
    check("COMPARED", "clip_2.fraction").code(2).says("does not compare `clip_cov.silenced`");
}

#[test]
fn old_names_are_errors_that_say_the_new_ones() {
    check("ARMS", "clip_fraction").code(2).says("it is called `clip.fraction` now");
    check("ARMS", "reward_answer").code(2).says("it is called `rewards.answer` now");
    let names = ["difference_low_tokens", "difference_tokns", "a_clip_cov_silenced"];
    let old = names.map(|name| format!("{{metric: {name}, max: 0}}")).join(", ");
    check("CHECK", &old)
        .code(2)
        .says("write `{metric: tokens, of: low, …}`")
        .says("write `{metric: tokens, of: difference, …}`")
        .says("write `{metric: clip_cov.silenced, of: a, …}`");
}

#[test]
fn a_comparison_has_several_numbers_and_a_metric_one() {
    check("CHECK", "{metric: tokens, max: 0}").code(2).says("say which number of it").says("of: difference");
    check("CHECK", "{metric: tokens, of: middle, max: 0}").code(2).says("`of` cannot be `middle`");
    check("ARMS", "kl, of: low").code(2).says("leave out `of`");
    check("EXPRESSION", "tokens").code(2).says("say which number of it");
}

#[test]
fn pages_list_metrics_with_unit_and_meaning() {
    let s = Sandbox::new();
    s.run(&["stages", "losses/clip"]).code(0).prints("clip.fraction").prints("Share of tokens in the loss");
    s.run(&["stages", "rl"])
        .code(0)
        .prints("pass_rate_level_<int>")
        .prints("nats per token")
        .prints("largest of any step");
    s.run(&["stages", "compare"]).code(0).prints("tool_calls_per_correct");
    let json = s.run(&["stages", "sft", "--format", "json"]).code(0).json();
    let loss = json["metrics"].as_array().unwrap().iter().find(|m| m["name"] == "loss").unwrap().clone();
    assert_eq!(
        (loss["unit"].as_str(), loss["reduce"].as_str(), loss["direction"].as_str()),
        (Some("nats per token"), Some("last_tenth"), Some("lower"))
    );
    let part = s.run(&["stages", "losses/clip", "--format", "json"]).code(0).json();
    assert_eq!(part["metrics"][0]["name"], "clip.fraction");
}
