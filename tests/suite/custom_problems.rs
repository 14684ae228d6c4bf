//! Problems, demonstrations and step labels from Python functions, and a process reward model trained on them.

use crate::python_programs::python_sandbox;
use serde_json::Value;

const OWN: &str = r##"
import trainyard_bridge as ty

@ty.generator
def sums(wanted: ty.Wanted):
    draw = wanted.random
    numbers = [draw.randrange(50) for _ in range(wanted.level + 1)]
    text = " + ".join(map(str, numbers))
    answer = sum(numbers) + (ty.options() or {}).get("off", 0)
    turns = [ty.call("calculator", expression=text), '#' * 4 + f" {answer}"]
    return ty.Generated(f"What is {text}?", sum(numbers), turns, canonical=text)

@ty.step_scorer
def calls(episode: ty.Episode):
    said = [message for message in episode.messages if message.role == "assistant"]
    return [1.0 if message.tool_calls else None for message in said[:-1]] + [0.5]

ty.run()
"##;

const WORKFLOW: &str = r#"
version: 1
name: custom-problems
stages:
  sums:
    uses: data/synthesize
    with:
      method: process
      process: {command: [python3, own.py], levels: 2, batch: 5}
      environment: {kind: math-problems, tools: [calculator], format: hermes, describe_tools: false}
      splits: {demonstrations: {levels: {1: 12, 2: 4}}, test: {total: 4}}
  labels:
    uses: data/step_labels
    with:
      trajectories: ["${{ stages.sums.demonstrations }}"]
      problems: ["${{ stages.sums.problems }}"]
      scorer: {kind: process, command: [python3, own.py]}
  base:
    uses: model/init
    with: {problems: ["${{ stages.sums.problems }}"], hidden_size: 32, layers: 2, heads: 2, intermediate_size: 64}
  prm:
    uses: prm
    with:
      model: ${{ stages.base.model }}
      trajectories: ${{ stages.labels.trajectories }}
      environment: {kind: math-problems, tools: [calculator], format: hermes, describe_tools: false}
      steps: turns
      epochs: 1
      held_out_share: 0.3
"#;

#[test]
fn a_function_makes_problems_and_another_labels_their_steps() {
    let Some(s) = python_sandbox() else { return };
    s.write("own.py", OWN);
    s.write("own.yaml", WORKFLOW);
    s.run(&["check", "own.yaml"]).code(0);
    s.run(&["run", "own.yaml"]).code(0);
    let show = |stage: &str| -> Value { s.run(&["artifacts", "show", stage, "--format", "json"]).code(0).json() };
    let metric = |shown: &Value, name: &str| -> Option<f64> { find(shown, name) };
    let made = show("latest/sums/report");
    assert_eq!((metric(&made, "problems"), metric(&made, "demonstrations")), (Some(20.0), Some(16.0)), "{made}");
    let labeled = show("latest/labels/report");
    assert_eq!((metric(&labeled, "steps"), metric(&labeled, "steps_unlabeled")), (Some(32.0), Some(0.0)), "{labeled}");
    assert_eq!(metric(&labeled, "label_mean"), Some(0.75));
    // The program is part of the digests of both.
    s.write("own.py", OWN.replace("[0.5]", "[0.25]"));
    s.run(&["plan", "own.yaml"]).code(0).prints("1 to run, 3 deferred");
    // An answer that is not correct is not a demonstration.
    s.write("own.yaml", WORKFLOW.replace("levels: 2, batch: 5", "levels: 2, batch: 5, options: {off: 1}"));
    s.run(&["run", "own.yaml"]).code(1).says("no demonstration was made");
}

/// There are 2 × 2 sums of two numbers below 2. The smaller split draws first and has two of them.
#[test]
fn a_level_with_too_few_problems_names_the_splits_that_have_others() {
    let Some(s) = python_sandbox() else { return };
    s.write("own.py", OWN.replace("randrange(50)", "randrange(2)"));
    let splits = "splits: {demonstrations: {levels: {1: 3}}, test: {levels: {1: 2}}}";
    let text = WORKFLOW.replace("splits: {demonstrations: {levels: {1: 12, 2: 4}}, test: {total: 4}}", splits);
    s.write("own.yaml", text);
    let ran = s.run(&["run", "own.yaml", "--until", "sums"]).code(1);
    ran.says("level 1 has too few distinct problems for 3").says("only 2 were found in").says("(2 in `test`)");
}

/// Finds the value of a metric anywhere in a JSON document.
fn find(shown: &Value, name: &str) -> Option<f64> {
    match shown {
        Value::Object(map) => {
            let own = map.get(name).and_then(|value| value.as_f64().or_else(|| value.get("value")?.as_f64()));
            let named = || (map.get("name")? == name).then(|| map.get("value")?.as_f64()).flatten();
            own.or_else(named).or_else(|| map.values().find_map(|inner| find(inner, name)))
        }
        Value::Array(list) => list.iter().find_map(|inner| find(inner, name)),
        _ => None,
    }
}
