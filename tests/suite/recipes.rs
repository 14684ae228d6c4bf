//! A recipe shows that its mechanism has an effect: with it, its checks hold; without it, its arms are one computation
//! and every mechanism check fails.

use crate::kit::Sandbox;

/// Arms of shell scripts: the mechanism halves the voids and costs a little reward.
const TINY: &str = r#"
version: 1
name: tiny
recipe:
  system: Tiny
  source: nowhere
  mechanism: It halves | the voids.
  limits: Everything.
params:
  mechanism: {type: string, choices: [on, off], default: on}
  size: {type: string, choices: [full, quick], default: full}
stages:
  start: {uses: ./start.yaml}
  arms:
    matrix: {arm: [baseline, treatment]}
    with: {base: "${{ stages.start.base }}"}
    run: |
      enabled=${{ matrix.arm == "treatment" && params.mechanism == "on" }}
      void=4; reward=1
      if [ "$enabled" = true ]; then void=2; reward=0.75; fi
      echo ran >> "$LOGFILE"
      metrics="{\"void\":{\"value\":$void},\"reward\":{\"value\":$reward}}"
      printf '{"report_format":1,"title":"arm","metrics":%s}' "$metrics" > ${{ outputs.report }}/report.json
    env: {LOGFILE: LOGPATH}
    outputs: {report: {kind: report}}
  compare:
    uses: compare
    with: {reports: "${{ stages.arms.report }}", metrics: [void, reward]}
    checks:
      - {metric: void, of: difference, max: -1, role: mechanism}
      - {metric: void, of: a, max: 3, role: mechanism}
      - {metric: reward, of: difference, min: -0.5, role: guard}
"#;

/// Shared parent of recipes, not a recipe itself.
const START: &str = r#"
version: 1
name: start
stages:
  base:
    run: printf base > ${{ outputs.o }}/x
    outputs: {o: {kind: files}}
outputs: {base: "${{ stages.base.o }}"}
"#;

/// Arms of the real stage.
const ARMS: &str = r#"
version: 1
name: x
stages:
  data:
    uses: data/synthesize
    with: {method: procedural, splits: {rl: {levels: {1: 4}}, demonstrations: {levels: {1: 4}}}}
  base:
    uses: model/init
    with: {hidden_size: 32, layers: 1, heads: 2, intermediate_size: 64}
  arms:
    uses: rl
    matrix: {arm: [baseline, treatment]}
    with:
      model: ${{ stages.base.model }}
      problems: ${{ stages.data.problems }}
      mechanism:
        enabled: ${{ matrix.arm == "treatment" }}
        with: {algorithm: rloo, filters: [{kind: void_turn}]}
"#;

fn sandbox() -> Sandbox {
    let s = Sandbox::new();
    write(&s, "tiny", |text| text);
    s.write("workflows/recipes/start.yaml", START);
    s
}

/// A recipe of the real stage, minimal thanks to a parent.
const CHILD: &str = r#"
extends: ../arms.yaml
name: child
recipe: {system: Child, source: arXiv 1234.56789, mechanism: It filters., limits: Everything.}
params: {mechanism: {type: string, choices: [on, off], default: on}}
stages:
  arms:
    with:
      filters: [{kind: zero_variance}]
      mechanism:
        enabled: ${{ matrix.arm == "treatment" && params.mechanism == "on" }}
        with: {algorithm: null, filters: [{kind: void_turn}, {kind: zero_variance}], advantage: {scale: none}}
  compare:
    uses: compare
    with: {reports: "${{ stages.arms.report }}", metrics: [reward_mean]}
    checks:
      - {metric: reward_mean, of: difference, max: -0.1, role: mechanism}
      - {metric: reward_mean, of: a, min: 0, role: guard}
"#;

/// Option for the folder of a sandbox's recipe files.
const FOLDER: [&str; 2] = ["--folder", "workflows/recipes"];

/// Runs `trainyard recipes …` on the sandbox's own folder.
fn recipes(s: &Sandbox, args: &[&str]) -> crate::kit::Ran {
    s.run(&[&["recipes"], args, &FOLDER].concat())
}

/// Writes a recipe file with a change.
fn write(s: &Sandbox, name: &str, change: impl Fn(String) -> String) {
    let text = TINY.replace("LOGPATH", s.path("log").to_str().unwrap()).replace("name: tiny", &format!("name: {name}"));
    s.write(&format!("workflows/recipes/{name}.yaml"), change(text));
}

#[test]
fn on_the_run_succeeds_and_off_it_fails_by_its_mechanism_alone() {
    let s = sandbox();
    let on = s.run(&["run", "workflows/recipes/tiny.yaml"]).code(0);
    on.says("mechanism check holds: void.difference is -2, must be at most -1")
        .says("guard check holds: reward.difference is -0.2500");
    assert_eq!(s.read("log").lines().count(), 2);
    let off = s.run(&["run", "workflows/recipes/tiny.yaml", "-p", "mechanism=off"]).code(1);
    // Every check is reported, and the failure names all failed ones.
    off.says("mechanism check failed: void.difference is 0, must be at most -1")
        .says("mechanism check failed: void.a is 4, must be at most 3")
        .says("guard check holds: reward.difference is 0, must be at least -0.5")
        .says("void.difference is 0, must be at most -1; mechanism check failed: void.a is 4, must be at most 3");
    assert_eq!(s.read("log").lines().count(), 2, "off, the treatment is the baseline: a cache hit");
    let shown = s.run(&["runs", "show", "latest", "--format", "json"]).code(0).json();
    let arms: Vec<_> = shown["stages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|x| x["kind"] == "run" && x["stage"] != "start/base")
        .collect();
    assert_eq!(arms.len(), 2);
    assert!(arms.iter().all(|a| a["status"] == "hit" && a["digest"] == arms[0]["digest"]), "{arms:?}");
}

#[test]
fn recipes_are_listed_and_parts_of_recipes_are_not() {
    let s = sandbox();
    recipes(&s, &[]).code(0).prints("Tiny");
    let listed = recipes(&s, &["--format", "json"]).code(0).json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["name"], "tiny");
    assert_eq!(listed[0]["limits"], "Everything.");
    s.run(&["recipes", "--folder", "nowhere"]).code(2).says("--folder");
}

#[test]
fn parts_are_derived_from_the_mechanism_and_folders_are_subjects() {
    let s = sandbox();
    s.write("workflows/recipes/arms.yaml", ARMS);
    s.write("workflows/recipes/credit/child.yaml", CHILD);
    recipes(&s, &[]).code(0).prints("filters/void_turn, advantages/group");
    for switch in ["on", "off"] {
        let listed = recipes(&s, &["--format", "json", "-p", &format!("mechanism={switch}")]).code(0).json();
        let child = &listed[1];
        assert_eq!((&child["name"], &child["subject"]), (&"child".into(), &"credit".into()), "{listed}");
        assert_eq!(child["parts"], serde_json::json!(["filters/void_turn", "advantages/group"]), "{switch}");
    }
    s.write("workflows/recipes/losses/child.yaml", CHILD);
    recipes(&s, &[]).code(2).says("two recipes are called `child`");
}

#[test]
fn every_mistake_of_every_recipe_is_told_at_once() {
    let s = sandbox();
    write(&s, "renamed", |text| text.replace("name: renamed", "name: other"));
    write(&s, "typed", |text| text.replace("  limits:", "  parts: [filters/void_turn]\n  limits:"));
    write(&s, "unguarded", |text| text.replace(", role: guard", ""));
    write(&s, "mild", |text| text.replace("min: -0.5,", "min: -0.5, severity: warn,"));
    write(&s, "wordless", |text| text.replace("  limits: Everything.\n", ""));
    write(&s, "switchless", |text| text.replace("choices: [on, off], default: on", "default: maybe"));
    s.write("workflows/recipes/torn.yaml", "version: 1\nrecipe: {system: [\n");
    recipes(&s, &[])
        .code(2)
        .says("renamed: its `name` is `other`")
        .says("`recipe` has no key `parts`")
        .says("typed: the file has 1 error")
        .says("unguarded: no check has the role `guard`")
        .says("mild: the check of `reward.difference` has a role, but only warns")
        .says("the recipe lacks limits")
        .says("switchless: it has no param `mechanism")
        .says("torn: the file cannot be read");
}

#[test]
fn both_directions_are_run_and_judged() {
    let s = sandbox();
    let ran = recipes(&s, &["run", "-p", "size=quick"]).code(0);
    ran.prints("tiny: on ok (3 checks, ").prints(", off ok (3 checks, ").prints("1 of 1 recipes behave both ways");
    // A check that also holds without the mechanism, and harm caused only by the mechanism.
    write(&s, "blind", |text| text.replace("max: -1,", "max: 1,"));
    write(&s, "harmful", |text| text.replace("min: -0.5,", "min: -0.1,"));
    let ran = recipes(&s, &["run"]).code(1);
    ran.prints("blind: on ok (3 checks, ")
        .prints("off: compare: mechanism check holds: void.difference is 0, must be at most 1")
        .prints("on: compare: guard check failed: reward.difference is -0.25, must be at least -0.1")
        .prints("1 of 3 recipes behave both ways");
    let one = recipes(&s, &["run", "harmful", "--format", "json"]).code(1).json();
    assert_eq!(one.as_array().unwrap().len(), 1);
    assert_eq!(one[0]["recipe"], "harmful");
    assert_eq!(one[0]["off"]["problems"], serde_json::json!([]), "off there is no harm");
    recipes(&s, &["run", "tini"]).code(2).says("did you mean `tiny`?");
    recipes(&s, &["run", "start"]).code(2).says("no key `recipe`");
}

#[test]
fn a_broken_arm_is_no_effect() {
    let s = sandbox();
    write(&s, "tiny", |text| text.replace("echo ran", "exit 7; echo ran"));
    let ran = recipes(&s, &["run"]).code(1);
    ran.prints("tiny: on WRONG (0 checks, ").prints("off not run").prints("exit code 7");
}

#[test]
fn the_pages_of_systems_are_generated_from_results() {
    let s = sandbox();
    s.write("workflows/recipes/arms.yaml", ARMS);
    s.write("workflows/recipes/filters/child.yaml", CHILD);
    s.write("docs/other.md", "");
    s.write("docs/systems/gone.md", "<!-- Written by `trainyard recipes --write`; do not edit. -->");
    s.write("docs/systems/mine.md", "");
    recipes(&s, &["--write", "docs/systems.md"]).code(0).prints("2 recipes, 0 with results");
    assert!(!s.store().exists(), "looking makes no store");
    let index = s.read("docs/systems.md");
    for wanted in [
        "## Filters\n",
        "| Tiny | nowhere |  | not run | [tiny](systems/tiny.md) |",
        "| Child | [1234.56789](https://arxiv.org/abs/1234.56789) | ",
        " | `filters/void_turn`, `advantages/group` | not run | [child](systems/child.md) |",
    ] {
        assert!(index.contains(wanted), "lacks {wanted}\n{index}");
    }
    assert_eq!(s.files("docs"), ["other.md", "systems.md", "systems/child.md", "systems/mine.md", "systems/tiny.md"]);
    let child = s.read("docs/systems/child.md");
    for wanted in [
        "It filters.",
        "Switched: `filters/void_turn`, `advantages/group`.",
        "[child.yaml](../../workflows/recipes/filters/child.yaml)",
        "```diff\n  advantage:\n    kind: group\n-   scale: group\n+   scale: none\n  filters:\n",
        "  filters:\n+   - {kind: void_turn, action: mask}\n    - {kind: zero_variance, ",
        "Not run.",
        "trainyard recipes run child",
    ] {
        assert!(child.contains(wanted), "lacks {wanted}\n{child}");
    }
    assert!(s.read("docs/systems/tiny.md").contains("It halves | the voids."));

    s.run(&["run", "workflows/recipes/tiny.yaml"]).code(0);
    recipes(&s, &["--write", "docs/systems.md"]).code(0).prints("2 recipes, 1 with results");
    let index = s.read("docs/systems.md");
    assert!(index.contains("| Tiny | nowhere |  | `void` 4 → 2 |"), "{index}");
    assert!(!index.contains("not all checks hold"));
    let tiny = s.read("docs/systems/tiny.md");
    for wanted in [
        "| mechanism | `void` | 4 | 2 | -2 | `void.difference` at most -1 | yes |",
        "| guard | `reward` | 1 | 0.75 | -0.25 | `reward.difference` at least -0.5 | yes |",
        "Stage digest `",
        "## Limits\n\nEverything.",
    ] {
        assert!(tiny.contains(wanted), "lacks {wanted}\n{tiny}");
    }
    // Another version of the recipe has no results.
    write(&s, "tiny", |text| text.replace("void=2", "void=1"));
    let told = recipes(&s, &["--write", "docs/systems.md", "--format", "json"]).code(0).json();
    assert_eq!(
        (&told["wrote"], &told["recipes"], &told["measured"]),
        (&"docs/systems.md".into(), &2.into(), &0.into())
    );
}

#[test]
fn contradictions_of_compare_are_found_by_check() {
    let s = sandbox();
    write(&s, "tiny", |text| text.replace("[baseline, treatment]", "[baseline, treatment, third]"));
    s.run(&["check", "workflows/recipes/tiny.yaml"]).code(2).says("two arms are compared, but 3 are wired");
    write(&s, "tiny", |text| text.replace("metrics: [void, reward]", "metrics: [rewards.answer]"));
    s.run(&["check", "workflows/recipes/tiny.yaml"]).code(2).says("needs `trajectories`, which is not wired");
    write(&s, "tiny", |text| text.replace(", metrics: [void, reward]", ""));
    s.run(&["check", "workflows/recipes/tiny.yaml"]).code(2).says("nothing is compared");
}

#[test]
fn the_mechanism_of_rl_takes_its_options() {
    let s = Sandbox::new();
    s.write("x.yaml", ARMS);
    s.run(&["check", "x.yaml"]).code(0);
    s.write("x.yaml", ARMS.replace("kind: void_turn", "kind: voidturn"));
    s.run(&["check", "x.yaml"]).code(2).says("no filter is called `voidturn`").says("void_turn");
    s.run(&["stages", "rl"]).code(0).prints("mechanism: object").prints("enabled: boolean = true");
}
