//! A recipe shows that its mechanism acts: on, its checks hold; off, its arms are one computation and every mechanism check fails.

use crate::kit::Sandbox;

/// Arms of shell scripts: the mechanism halves the voids and costs a little reward.
const TINY: &str = r#"
version: 1
name: tiny
recipe:
  system: Tiny
  source: nowhere
  mechanism: It halves | the voids.
  parts: [filters/void_turn]
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
      printf '{"report_format":1,"title":"arm","metrics":{"void":{"value":%s},"reward":{"value":%s}}}' "$void" "$reward" > ${{ outputs.report }}/report.json
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

/// What recipes share; no recipe itself.
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

/// A recipe file, changed.
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
    // Every check is told, and the failure names all that failed.
    off.says("mechanism check failed: void.difference is 0, must be at most -1")
        .says("mechanism check failed: void.a is 4, must be at most 3")
        .says("guard check holds: reward.difference is 0, must be at least -0.5")
        .says("void.difference is 0, at most -1 is asked; mechanism check failed: void.a is 4, at most 3 is asked");
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
    s.run(&["recipes"]).code(0).prints("Tiny").prints("filters/void_turn");
    let listed = s.run(&["recipes", "--format", "json"]).code(0).json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["name"], "tiny");
    assert_eq!(listed[0]["limits"], "Everything.");
    s.run(&["recipes", "--folder", "nowhere"]).code(2).says("--folder");
}

#[test]
fn every_mistake_of_every_recipe_is_told_at_once() {
    let s = sandbox();
    write(&s, "renamed", |text| text.replace("name: renamed", "name: other"));
    write(&s, "partless", |text| text.replace("filters/void_turn", "filters/voidturn"));
    write(&s, "unguarded", |text| text.replace(", role: guard", ""));
    write(&s, "mild", |text| text.replace("min: -0.5,", "min: -0.5, severity: warn,"));
    write(&s, "wordless", |text| text.replace("  limits: Everything.\n", ""));
    write(&s, "switchless", |text| text.replace("choices: [on, off], default: on", "default: maybe"));
    s.write("workflows/recipes/torn.yaml", "version: 1\nrecipe: {system: [\n");
    s.run(&["recipes"])
        .code(2)
        .says("renamed: its `name` is `other`")
        .says("partless: there is no part `filters/voidturn` in this build; did you mean `void_turn`?")
        .says("unguarded: no check has the role `guard`")
        .says("mild: the check of `reward.difference` has a role, but only warns")
        .says("the recipe lacks limits")
        .says("switchless: it has no param `mechanism")
        .says("torn: the file cannot be read");
}

#[test]
fn both_directions_are_run_and_judged() {
    let s = sandbox();
    let ran = s.run(&["recipes", "run", "-p", "size=quick"]).code(0);
    ran.prints("tiny: on ok (3 checks, ").prints(", off ok (3 checks, ").prints("1 of 1 recipes behave both ways");
    // A check that also holds without the mechanism, and harm that only the mechanism does.
    write(&s, "blind", |text| text.replace("max: -1,", "max: 1,"));
    write(&s, "harmful", |text| text.replace("min: -0.5,", "min: -0.1,"));
    let ran = s.run(&["recipes", "run"]).code(1);
    ran.prints("blind: on ok (3 checks, ")
        .prints("off: compare: mechanism check holds: void.difference is 0, at most 1 is asked")
        .prints("on: compare: guard check failed: reward.difference is -0.25, at least -0.1 is asked")
        .prints("1 of 3 recipes behave both ways");
    let one = s.run(&["recipes", "run", "harmful", "--format", "json"]).code(1).json();
    assert_eq!(one.as_array().unwrap().len(), 1);
    assert_eq!(one[0]["recipe"], "harmful");
    assert_eq!(one[0]["off"]["problems"], serde_json::json!([]), "off there is no harm");
    s.run(&["recipes", "run", "tini"]).code(2).says("did you mean `tiny`?");
    s.run(&["recipes", "run", "start"]).code(2).says("no key `recipe`");
}

#[test]
fn a_broken_arm_is_no_effect() {
    let s = sandbox();
    write(&s, "tiny", |text| text.replace("echo ran", "exit 7; echo ran"));
    let ran = s.run(&["recipes", "run"]).code(1);
    ran.prints("tiny: on WRONG (0 checks, ").prints("off not run").prints("exit code 7");
}

#[test]
fn the_table_of_systems_is_generated_from_results() {
    let s = sandbox();
    s.write("stages/learn/src/filters/void_turn.rs", "");
    s.write("docs/other.md", "");
    s.run(&["recipes", "--write", "docs/systems.md"]).code(0).prints("1 recipes, 0 with results");
    assert!(!s.store().exists(), "looking makes no store");
    let before = s.read("docs/systems.md");
    assert!(
        before.contains("| Tiny (nowhere) | It halves \\| the voids. |")
            && before.contains("| not run | Everything. |"),
        "{before}"
    );
    s.run(&["run", "workflows/recipes/tiny.yaml"]).code(0);
    s.run(&["recipes", "--write", "docs/systems.md"]).code(0).prints("1 recipes, 1 with results");
    let after = s.read("docs/systems.md");
    for wanted in [
        "mechanism: `void` 4 → 2, difference -2; asked: `void.difference` at most -1<br>",
        "guard: `reward` 1 → 0.75, difference -0.25; asked: `reward.difference` at least -0.5 |",
        "[`filters/void_turn`](../stages/learn/src/filters/void_turn.rs)",
        "[`tiny`](../workflows/recipes/tiny.yaml)",
        "Stage digests of these results: `tiny` ",
    ] {
        assert!(after.contains(wanted), "lacks {wanted}\n{after}");
    }
    assert!(!after.contains("Not all checks hold"));
    // Another version of the recipe has no results.
    write(&s, "tiny", |text| text.replace("void=2", "void=1"));
    let told = s.run(&["recipes", "--write", "docs/systems.md", "--format", "json"]).code(0).json();
    assert_eq!(
        (&told["wrote"], &told["recipes"], &told["measured"]),
        (&"docs/systems.md".into(), &1.into(), &0.into())
    );
}

#[test]
fn contradictions_of_compare_are_found_by_check() {
    let s = sandbox();
    write(&s, "tiny", |text| text.replace("[baseline, treatment]", "[baseline, treatment, third]"));
    s.run(&["check", "workflows/recipes/tiny.yaml"]).code(2).says("takes those of two arms, but gets 3");
    write(&s, "tiny", |text| text.replace("metrics: [void, reward]", "metrics: [rewards.answer]"));
    s.run(&["check", "workflows/recipes/tiny.yaml"]).code(2).says("is one of trajectories, and none are");
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
