//! Every stage is computed once, and `plan` reports why.

use crate::kit::Sandbox;

const CHAIN: &str = r#"
version: 1
name: chain
params:
  text: {type: string, default: one}
  noise: {type: string, default: a}
stages:
  first:
    run: printf %s ${{ params.text }} > ${{ outputs.o }}/x; echo ran >> "$LOGFILE"
    env: {LOGFILE: LOGPATH}
    outputs: {o: {kind: files}}
  second:
    with: {i: "${{ stages.first.o }}"}
    run: cat ${{ inputs.i }}/x > ${{ outputs.o }}/y
    outputs: {o: {kind: files}}
"#;

fn chain(s: &Sandbox) {
    s.write("chain.yaml", CHAIN.replace("LOGPATH", s.path("log").to_str().unwrap()));
}

#[test]
fn second_run_is_all_hits() {
    let s = Sandbox::new();
    chain(&s);
    s.run(&["run", "chain.yaml"]).code(0);
    s.run(&["run", "chain.yaml"]).code(0);
    assert_eq!(s.read("log").lines().count(), 1);
    let plan = s.run(&["plan", "chain.yaml", "--format", "json"]).code(0).json();
    let decisions: Vec<_> =
        plan["stages"].as_array().unwrap().iter().map(|x| x["decision"].as_str().unwrap().to_string()).collect();
    assert_eq!(decisions, ["hit", "hit"]);
}

#[test]
fn changed_parameter_runs_the_stage_and_says_why() {
    let s = Sandbox::new();
    chain(&s);
    s.run(&["run", "chain.yaml"]).code(0);
    let plan = s.run(&["plan", "chain.yaml", "-p", "text=two", "--format", "json"]).code(0).json();
    assert_eq!(plan["stages"][0]["decision"], "run");
    assert_eq!(plan["stages"][1]["decision"], "deferred");
    s.run(&["run", "chain.yaml", "-p", "text=two"]).code(0);
    assert_eq!(s.read("log").lines().count(), 2);
}

#[test]
fn unused_parameter_changes_nothing() {
    let s = Sandbox::new();
    chain(&s);
    s.run(&["run", "chain.yaml"]).code(0);
    s.run(&["run", "chain.yaml", "-p", "noise=b"]).code(0);
    assert_eq!(s.read("log").lines().count(), 1);
}

#[test]
fn rerun_with_equal_bytes_leaves_downstream_a_hit() {
    let s = Sandbox::new();
    chain(&s);
    s.run(&["run", "chain.yaml"]).code(0);
    s.run(&["run", "chain.yaml", "--rerun", "first"]).code(0);
    assert_eq!(s.read("log").lines().count(), 2);
    let second = s.stage("second");
    assert_eq!(second["status"], "hit", "{second}");
}

#[test]
fn lost_object_is_rebuilt() {
    let s = Sandbox::new();
    chain(&s);
    s.run(&["run", "chain.yaml"]).code(0);
    std::fs::remove_dir_all(s.store().join("objects")).unwrap();
    s.run(&["run", "chain.yaml"]).code(0);
    s.run(&["artifacts", "export", "latest/second/o", "out"]).code(0);
    assert_eq!(s.read("out/y"), "one");
}

#[test]
fn checks_gate_the_run_not_the_artifact() {
    let s = Sandbox::new();
    let file = |max: &str| {
        format!(
            "version: 1\nname: gate\nstages:\n  m:\n    \
             run: printf '{{\"name\":\"loss\",\"value\":2.5}}\\n' >> \"$TRAINYARD_METRICS\"; echo ran >> {}\n    \
             checks: [{{metric: loss, max: {max}}}]\n  after:\n    needs: [m]\n    uses: noop\n",
            s.path("log").display()
        )
    };
    s.write("gate.yaml", file("1.0"));
    s.run(&["run", "gate.yaml"]).code(1);
    s.write("gate.yaml", file("3.0"));
    s.run(&["run", "gate.yaml"]).code(0);
    assert_eq!(s.read("log").lines().count(), 1, "a corrected threshold must not run the stage again");
}

#[test]
fn plan_takes_no_slots() {
    let s = Sandbox::new();
    chain(&s);
    s.run(&["plan", "chain.yaml"]).code(0);
    assert!(!s.path("home").exists());
    s.run(&["run", "chain.yaml"]).code(0);
    let held: Vec<String> = s.files("home/slots").into_iter().filter(|name| name != "lock").collect();
    assert!(held.is_empty(), "slots are released: {held:?}");
    assert!(s.path("home/slots/lock").exists());
}
