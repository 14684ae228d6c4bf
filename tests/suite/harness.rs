//! A custom agent is played by the stages that play environments.

use crate::kit::{Sandbox, repository, skipped};
use crate::python_programs::python_sandbox;
use serde_json::{Value, json};
use std::process::Command;

const WORKFLOW: &str = r#"
version: 1
name: harness
stages:
  problems:
    uses: data/import
    with: {source: problems.jsonl, format: gsm8k}
  demonstrations:
    uses: data/synthesize
    with:
      method: annotated
      problems: ["${{ stages.problems.problems }}"]
      environment: ENVIRONMENT
  base:
    uses: model/init
    with:
      corpus: ["${{ stages.demonstrations.demonstrations }}"]
      hidden_size: 32
      layers: 2
      heads: 2
      intermediate_size: 64
  sft:
    uses: sft
    with:
      model: ${{ stages.base.model }}
      trajectories: ["${{ stages.demonstrations.demonstrations }}"]
      steps: 2
  practice:
    uses: rl
    with:
      model: ${{ stages.sft.model }}
      problems: ${{ stages.problems.problems }}
      environment: ENVIRONMENT
      rewards: [{kind: length, max_tokens: 8, buffer_tokens: 8}]
      filters: []
      steps: 1
      problems_per_step: 2
      rollout: {group_size: 2, max_turn_tokens: 8}
  beside:
    uses: rl
    with:
      model: ${{ stages.sft.model }}
      problems: ${{ stages.problems.problems }}
      environment: ENVIRONMENT
      rewards: [{kind: length, max_tokens: 8, buffer_tokens: 8}]
      filters: []
      steps: 1
      problems_per_step: 2
      rollout: {group_size: 2, max_turn_tokens: 8, asynchronous: {max_staleness: 1}}
      loss: {correction: {kind: truncated}}
  measured:
    uses: evaluate
    with:
      models: ["${{ stages.sft.model }}"]
      problems: ${{ stages.problems.problems }}
      environment: ENVIRONMENT
      names: [sft]
      samples: 1
      sampling: {max_turn_tokens: 8}
    checks: [{metric: segments_sft, min: 1}]
"#;

const ENVIRONMENT: &str = "{kind: harness, command: [python3, agent.py], format: code, describe_tools: false}";

/// Creates a sandbox with an agent and four problems; without Python it reports a skip and returns `None`.
#[track_caller]
pub fn agent_sandbox(agent: &str, problem: impl Fn(u32) -> Value) -> Option<Sandbox> {
    let s = python_sandbox()?;
    s.write("agent.py", agent);
    s.write_rows("problems.jsonl", (1..=4).map(problem));
    Some(s)
}

/// Returns a problem about the sum of a number and itself, without a calculation in its answer.
pub fn sum(n: u32) -> Value {
    json!({"question": format!("{n}+{n}?"), "answer": format!("#### {}", 2 * n)})
}

/// Returns whether `bwrap` works here. If it does not, reports a skip.
#[track_caller]
pub fn bwrap() -> bool {
    let probe = Command::new("bwrap").args(["--ro-bind", "/", "/", "true"]).output();
    let works = probe.is_ok_and(|output| output.status.success());
    if !works {
        skipped("there is no `bwrap` that works here");
    }
    works
}

/// Creates a sandbox with the workflow; without Python it reports a skip and returns `None`.
#[track_caller]
fn sandbox() -> Option<Sandbox> {
    let agent = repository().join("stages/harness/fixtures/agent.py");
    let problem = |n: u32| {
        let (twice, asked) = (2 * n, format!("{n} pears and {n} more?"));
        json!({"question": asked, "answer": format!("{n}+{n} = <<{n}+{n}={twice}>>{twice}\n#### {twice}")})
    };
    let s = agent_sandbox(&std::fs::read_to_string(agent).unwrap(), problem)?;
    s.write("harness.yaml", WORKFLOW.replace("ENVIRONMENT", ENVIRONMENT));
    Some(s)
}

#[test]
fn every_stage_plays_a_program_that_keeps_its_conversation() {
    let Some(s) = sandbox() else { return };
    s.run(&["check", "harness.yaml"]).code(0);
    s.run(&["run", "harness.yaml"]).code(0);
    s.run(&["plan", "harness.yaml"]).code(0).prints("0 to run");
    s.run(&["try", "harness.yaml", "--stage", "practice", "-n", "2"]).code(0).prints("2 episodes of practice");
    // The agent is part of the stage digest.
    s.write("agent.py", "raise SystemExit('no such luck')\n");
    let failed = s.run(&["run", "harness.yaml"]).code(1);
    assert!(failed.output().contains("no such luck"), "{failed:?}");
}

#[test]
fn conversations_of_one_episode_are_shown_as_its_segments() {
    let Some(s) = sandbox() else { return };
    // A limit of the request ends its turn and not the episode.
    s.write("agent.py", s.read("agent.py").replace("chat(other)", "chat(other, max_tokens=4)"));
    let environment = ENVIRONMENT.replace("kind: harness,", "kind: harness, options: {habit: beside},");
    let (data, practice) = WORKFLOW.split_once("  practice:").unwrap();
    let practice = practice.replace("ENVIRONMENT", &environment);
    s.write("segments.yaml", format!("{}  practice:{practice}", data.replace("ENVIRONMENT", ENVIRONMENT)));
    s.run(&["run", "segments.yaml", "--until", "practice"]).code(0);
    let tried = s.run(&["try", "segments.yaml", "--stage", "practice", "-n", "1"]).code(0);
    let row = s.run(&["artifacts", "show", "latest/practice/trajectories", "--row", "0"]).code(0);
    for shown in [tried, row] {
        let places = ["── segment 1 of 2\n", "── system\naside", "── segment 2 of 2, which begins", "segments 2"]
            .map(|text| shown.stdout.find(text).unwrap_or_else(|| panic!("no `{text}`: {}", shown.stdout)));
        assert!(places.is_sorted(), "{}", shown.stdout);
    }
}

#[test]
fn what_a_program_cannot_be_asked_for_is_told_before_it_runs() {
    let Some(s) = sandbox() else { return };
    let told = |from: &str, to: &str| {
        s.write("wrong.yaml", WORKFLOW.replace("ENVIRONMENT", &ENVIRONMENT.replace(from, to)));
        s.run(&["check", "wrong.yaml"]).code(2)
    };
    told("[python3, agent.py]", "[]").says("the command is empty");
    told("format: code", "format: xml").says("xml");
    told("kind: harness,", "kind: harness, timeot: 3s,").says("timeot");
    s.write(
        "forks.yaml",
        WORKFLOW
            .replace("ENVIRONMENT", ENVIRONMENT)
            .replace("group_size: 2,", "group_size: 2, strategy: {kind: entropy_branching},"),
    );
    s.run(&["check", "forks.yaml"]).code(2);
}
