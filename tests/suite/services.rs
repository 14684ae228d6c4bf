//! Rewards and environments that are custom services: checked against the rules, and used in a run.

use crate::custom_environments::write_problems;
use crate::kit::{Ran, Sandbox, ran, repository};
use crate::processes::Killed;
use crate::python_programs::python_sandbox;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

const SHOP: &str = r#"
import trainyard_bridge as ty

class Shop(ty.Environment):
    """A shop that sells fruit."""

    def reset(self, problem, seed):
        self.cart = []

    @ty.tool
    def add(self, item: str) -> str:
        """Puts an item into the cart."""
        self.cart.append(item)
        return f"{5 * len(self.cart)} cents"

    def step(self, text):
        return ty.Done(text) if self.cart else "Your cart is empty."

@ty.reward
def wordy(episode):
    if (ty.options() or {}).get("refuse"):
        raise ValueError("no grade")
    return float(len(episode.text))

ty.serve(0, token="sesame")
"#;

const SCRIPT: &str = r#"
environment: {kind: http, url: "URL", api_key: {secret: SHOP}}
problem: {prompt: What do two pears cost?, answer: 10}
turns:
  - {call: add, arguments: {item: pear}}
  - [{call: add, arguments: {item: pear}}]
  - "10"
disturbance: {call: add, arguments: {item: apple}}
"#;

const WORKFLOW: &str = r#"
version: 1
name: services
stages:
  problems:
    uses: data/import
    with: {source: problems.jsonl, format: jsonl, environment: http}
  base:
    uses: model/init
    with: {problems: ["${{ stages.problems.problems }}"], hidden_size: 32, layers: 2, heads: 2, intermediate_size: 64}
  shop:
    uses: rl
    with:
      model: ${{ stages.base.model }}
      problems: ${{ stages.problems.problems }}
      environment: {kind: http, url: "URL", api_key: {secret: SHOP}, max_turns: 3, describe_tools: false}
      rewards: [{kind: http, url: "URL", api_key: {secret: SHOP}, name: wordy, batch: 2}]
      filters: []
      steps: 1
      problems_per_step: 2
      rollout: {group_size: 2, max_turn_tokens: 8}
"#;

/// Creates a sandbox with a server; without Python it reports a skip and returns `None`.
#[track_caller]
fn shop() -> Option<(Sandbox, Killed)> {
    let s = python_sandbox()?;
    let program = s.write("served/shop.py", SHOP);
    let mut command = Command::new("python3");
    command.arg("-B").arg(program).env("PYTHONPATH", repository().join("python")).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    let url = line.split_whitespace().last().unwrap().to_string();
    s.write("trainyard.yaml", "version: 1\nsecrets: {SHOP: env:SHOP_KEY}\n");
    s.write("script.yaml", SCRIPT.replace("URL", &url));
    s.write("services.yaml", WORKFLOW.replace("URL", &url));
    write_problems(&s);
    Some((s, Killed(child)))
}

fn run(s: &Sandbox, key: &str, args: &[&str]) -> Ran {
    ran(s.command(args).env("SHOP_KEY", key).output().unwrap())
}

#[test]
fn an_environment_over_http_is_held_to_the_rules() {
    let Some((s, served)) = shop() else { return };
    let held = run(&s, "sesame", &["conformance", "environment", "script.yaml"]).code(0);
    held.prints("ok       resets repeat").prints("ok       forks are independent").prints("ok       limits hold");
    let refused = run(&s, "tahini", &["conformance", "environment", "script.yaml"]).code(2);
    refused.says("returned status 401: the key is not the one of this server");
    drop(served);
    run(&s, "sesame", &["conformance", "environment", "script.yaml"]).code(3).says("cannot be reached");
}

#[test]
fn a_run_asks_services_and_ends_well_or_with_their_words() {
    let Some((s, served)) = shop() else { return };
    run(&s, "sesame", &["check", "services.yaml"]).code(0);
    run(&s, "sesame", &["run", "services.yaml"]).code(0);
    let curves = run(&s, "sesame", &["runs", "show", "latest", "--curves", "shop", "--format", "json"]).code(0);
    let curves: Value = curves.json();
    assert!(curves.to_string().contains("rewards.wordy"), "{curves}");
    // Another option is another digest, and the function's exception fails the stage.
    let file = s.read("services.yaml").replace("name: wordy,", "name: wordy, options: {refuse: true},");
    s.write("services.yaml", file);
    let failed = run(&s, "sesame", &["run", "services.yaml"]).code(1);
    assert!(failed.output().contains("ValueError: no grade"), "{failed:?}");
    drop(served);
    let away = run(&s, "sesame", &["run", "services.yaml"]).code(1);
    assert!(away.output().contains("cannot be reached"), "{away:?}");
}
