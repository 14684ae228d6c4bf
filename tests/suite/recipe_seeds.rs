//! A recipe that declares its `result` is judged on several seeds, and fails when they say otherwise.

use crate::kit::{Ran, Sandbox};

/// Arms of shell scripts: the treatment halves the voids on every seed, its placebo does not.
const JUDGED: &str = r#"
version: 1
name: judged
recipe:
  system: Judged
  source: nowhere
  mechanism: It halves the voids.
  limits: Everything.
  result: shown
  claim: Fewer voids.
  world: shell scripts
  tried: ["one seed: as here"]
params:
  mechanism: {type: string, choices: [on, off], default: on}
  seed: {type: int, default: 1}
stages:
  arms:
    matrix: {arm: [baseline, treatment, placebo]}
    run: |
      void=4; seed=${{ params.seed }}; tries=3
      if [ ${{ matrix.arm == "treatment" && params.mechanism == "on" }} = true ]; then void=2; tries=$((3 + seed)); fi
      if [ ${{ matrix.arm == "placebo" && params.mechanism == "on" }} = true ]; then tries=9; fi
      echo ran >> "$LOGFILE"
      metrics="{\"void\":{\"value\":$void.$seed},\"tries\":{\"value\":$tries}}"
      printf '{"report_format":1,"title":"arm","metrics":%s}' "$metrics" > ${{ outputs.report }}/report.json
    env: {LOGFILE: LOGPATH}
    outputs: {report: {kind: report}}
  effect:
    uses: compare
    with: {reports: "${{ stages.arms.report }}", metrics: [void], arms: [treatment, baseline]}
    checks:
      - {metric: void, of: b, min: 4, role: premise}
      - {metric: void, of: high, max: 0, role: effect}
  placebo:
    uses: compare
    with: {reports: "${{ stages.arms.report }}", metrics: [void], arms: [placebo, baseline]}
    checks: [{metric: void, of: high, min: 0, role: placebo}]
  compare:
    uses: compare
    with: {reports: "${{ stages.arms.report }}", metrics: [tries], arms: [treatment, baseline]}
    checks: [{metric: tries, of: difference, min: 1, role: mechanism}]
"#;

fn sandbox(change: impl Fn(&str) -> String) -> Sandbox {
    let s = Sandbox::new();
    let text = JUDGED.replace("LOGPATH", s.path("log").to_str().unwrap());
    s.write("recipes/judged.yaml", change(&text));
    s
}

fn recipes(s: &Sandbox, args: &[&str]) -> Ran {
    s.run(&[&["recipes"], args, &["--folder", "recipes"]].concat())
}

fn seeds(s: &Sandbox, seeds: &str) -> Ran {
    recipes(s, &["run", "judged", "--seeds", seeds, "--results", "docs/systems/results"])
}

#[test]
fn seeds_are_pooled_and_kept() {
    let s = sandbox(str::to_string);
    seeds(&s, "41..43").code(0).prints("result: shown, declared: shown").prints("1 of 1 recipes have the result");
    assert_eq!(s.read("log").lines().count(), 9);
    assert_eq!(s.files("docs/systems/results"), ["judged/41.json", "judged/42.json", "judged/43.json"]);
    let first = s.read("docs/systems/results/judged/41.json");
    assert!(first.contains("\"seed\":41") && first.contains("\"difference\":-2"), "{first}");
    // A seed whose file is there is not computed again, even with another store; one whose file is gone is, to the same
    // bytes.
    std::fs::remove_file(s.path("docs/systems/results/judged/41.json")).unwrap();
    let again = recipes(
        &s,
        &["run", "judged", "--seeds", "41,43", "--jobs", "2", "--results", "docs/systems/results", "--store", "other"],
    );
    again.code(0);
    assert_eq!((s.read("log").lines().count(), s.read("docs/systems/results/judged/41.json")), (12, first));

    recipes(&s, &["--write", "docs/systems.md"]).code(0).prints("1 recipes, 1 with results");
    let (index, page) = (s.read("docs/systems.md"), s.read("docs/systems/judged.md"));
    assert!(
        index.contains("1 systems: **1 shown to help on a task, 0 to harm on one, 0 without a shown effect**"),
        "{index}"
    );
    assert!(index.contains("| **shown**: `void` 4.42 → 2.42, -2 [-2, -2]"), "{index}");
    for wanted in [
        "Fewer voids.",
        "World: shell scripts.",
        "**Shown** on seeds 41, 42, 43.",
        "| 42 | 4.42 → 2.42 (-2) | 4.42 → 4.42 (0) |",
        "| effect | `effect`: void | -2 | high at most 0 | yes |",
        "| placebo | `placebo`: void | 0 | high at least 0 | yes |",
        "- one seed: as here",
        "trainyard recipes run judged --seeds 41..45 --jobs 2",
    ] {
        assert!(page.contains(wanted), "lacks {wanted}\n{page}");
    }
}

#[test]
fn a_contradicted_result_fails() {
    let s = sandbox(|text| text.replace("result: shown", "result: not_shown"));
    seeds(&s, "1..3").code(1).prints("result: shown, declared: not_shown").prints("0 of 1 recipes");
    let s = sandbox(|text| text.replace("void=2;", "void=$((3 + seed % 3));"));
    let ran = seeds(&s, "1..3").code(1);
    ran.prints("result: not_shown, declared: shown").prints("effect check failed: effect: void.high is ");
    let s = sandbox(|text| text.replace("void=2;", "void=7;"));
    seeds(&s, "1..3").code(1).prints("result: harm").prints("the interval of void in effect is on the wrong side");
    let s = sandbox(|text| text.replace("void=4;", "void=3;"));
    seeds(&s, "1..3").code(1).prints("result: nothing").prints("premise check failed: effect: void.b is 3.2");
}

#[test]
fn one_seed_judges_the_mechanism_alone() {
    let s = sandbox(|text| text.replace("void=2;", "void=7;"));
    recipes(&s, &["run", "judged"]).code(0).prints("judged: on ok (").prints("1 of 1 recipes behave both ways");
    let s = sandbox(|text| text.replace("tries=$((3 + seed))", "tries=3"));
    recipes(&s, &["run", "judged"]).code(1).prints("mechanism check failed: tries.difference is 0");
    let ran = seeds(&s, "1..3").code(1);
    ran.prints("result: not_shown").prints("mechanism check failed: compare: tries.difference is 0.0000");
    seeds(&s, "7").code(1).prints("1 seed gives no interval over seeds");
}

#[test]
fn mistakes_are_named() {
    let s = sandbox(str::to_string);
    seeds(&s, "1..3,2").code(2).says("seed 2 repeats");
    seeds(&s, "3..1").code(2).says("`3..1` names no seeds");
    recipes(&s, &["run", "judged", "--jobs", "2"]).code(2).says("--seeds");
    let check = |from: &str, to: &str| {
        let s = sandbox(|text| text.replace(from, to));
        s.run(&["check", "recipes/judged.yaml"]).code(2)
    };
    check("role: placebo", "role: plcebo").says("plcebo").says("placebo");
    check("result: shown", "result: proven").says("no result `proven`").says("judged.yaml:9:11");
    check("  claim: Fewer voids.\n", "").says("the recipe lacks claim");
    check("tried: [\"one seed: as here\"]", "tried: much").says("`tried` must be a list of texts");
    check("arms: [placebo, baseline]", "arms: [plcebo, baseline]").says("no arm is called `plcebo`");
    let s = sandbox(|text| {
        let text = text.replace("  result: shown\n  claim: Fewer voids.\n  world: shell scripts\n", "");
        text.replace("role: effect", "role: guard")
    });
    seeds(&s, "1..3").code(2).says("recipe `judged` declares no `result`");
    let s = sandbox(|text| text.replace("role: effect", "role: guard"));
    seeds(&s, "1..3").code(2).says("no check has the role `effect`");
}

#[test]
fn a_placebo_needs_a_mechanism() {
    let s = Sandbox::new();
    s.write(
        "x.yaml",
        "version: 1\nname: x\nstages:\n  data:\n    uses: data/synthesize\n    \
         with: {method: procedural, splits: {rl: {levels: {1: 4}}}}\n  \
         base: {uses: model/init, with: {hidden_size: 32, layers: 1, heads: 2, intermediate_size: 64}}\n  \
         rl:\n    uses: rl\n    with:\n      model: ${{ stages.base.model }}\n      \
         problems: ${{ stages.data.problems }}\n      placebo: {with: {filters: []}}\n",
    );
    s.run(&["check", "x.yaml"]).code(2).says("`placebo` is set without `mechanism`").says("x.yaml:");
}
