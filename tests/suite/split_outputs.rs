//! `data/synthesize` publishes one output per split that the workflow refers to.

use crate::kit::Sandbox;

const WORKFLOW: &str = r#"version: 1
name: splits
stages:
  data:
    uses: data/synthesize
    with:
      method: procedural
      splits: {demonstrations: {levels: {1: 20}}, rl: {levels: {1: 10}}, test: {levels: {1: 6, 2: 5}}}
  test: {uses: data/select, with: {problems: ["${{ stages.data.problems }}"], splits: [test]}}
  direct: {uses: data/select, with: {problems: ["${{ stages.data.problems_test }}"]}}
"#;

fn digest(s: &Sandbox, artifact: &str) -> String {
    let shown = s.run(&["artifacts", "show", artifact, "--format", "json"]).code(0).json();
    assert_eq!(shown["output"]["kind"], "problems");
    shown["output"]["digest"].as_str().unwrap().to_string()
}

#[test]
fn a_split_is_an_output_with_the_bytes_of_its_selection() {
    let s = Sandbox::new();
    s.write("w.yaml", WORKFLOW);
    s.run(&["run", "w.yaml"]).code(0);
    let selected = digest(&s, "latest/test/problems");
    assert_eq!(digest(&s, "latest/data/problems_test"), selected);
    assert_eq!(digest(&s, "latest/direct/problems"), selected);
    s.run(&["run", "w.yaml"]).code(0).prints("3 hit");
    s.run(&["artifacts", "show", "latest/data/problems_rl"]).code(2).says("problems_rl");
}

#[test]
fn a_reference_to_another_split_is_part_of_the_digest() {
    let s = Sandbox::new();
    s.write("w.yaml", WORKFLOW);
    s.run(&["run", "w.yaml"]).code(0);
    s.write("w.yaml", WORKFLOW.replace("problems_test", "problems_rl"));
    s.run(&["run", "w.yaml"]).code(0);
    assert_ne!(digest(&s, "latest/data/problems_rl"), digest(&s, "latest/data/problems"));
    // Without such a reference, the stage is the one of a workflow that knows no outputs of splits.
    s.write("w.yaml", WORKFLOW.lines().filter(|line| !line.contains("direct")).collect::<Vec<_>>().join("\n"));
    s.run(&["run", "w.yaml"]).code(0);
    s.run(&["artifacts", "show", "latest/data/problems_test"]).code(2);
}

#[test]
fn an_exported_split_is_published() {
    let s = Sandbox::new();
    let text = WORKFLOW.lines().filter(|line| !line.contains("direct")).collect::<Vec<_>>().join("\n");
    s.write("w.yaml", format!("{text}\noutputs: {{held_out: \"${{{{ stages.data.problems_test }}}}\"}}\n"));
    s.run(&["run", "w.yaml"]).code(0);
    assert_eq!(digest(&s, "latest/data/problems_test"), digest(&s, "latest/test/problems"));
}

#[test]
fn an_unknown_split_is_refused_with_the_splits_that_exist() {
    let s = Sandbox::new();
    s.write("w.yaml", WORKFLOW.replace("problems_test", "problems_tset"));
    s.run(&["check", "w.yaml"]).code(2).says("has no output `problems_tset`").says("did you mean `problems_test`?");
    s.write("w.yaml", WORKFLOW.replace("problems_test", "problem_test"));
    s.run(&["check", "w.yaml"]).code(2).says("has no output `problem_test`");
    s.write("w.yaml", WORKFLOW.replace("stages.data.problems_test", "stages.test.problems_test"));
    s.run(&["check", "w.yaml"]).code(2).says("has no output `problems_test`");
}
