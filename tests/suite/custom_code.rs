//! Rewards and filter rules that are custom programs: their digests, their output in a run, and a run whose program
//! fails.

use crate::kit::{Sandbox, repository};
use crate::python_programs::python_sandbox;
use crate::rewarded;

const CHATS: &str = r#"
version: 1
name: own
stages:
  chats:
    uses: data/import
    with: {source: chats.jsonl}
  polite:
    uses: data/filter
    with:
      trajectories: ["${{ stages.chats.trajectories }}"]
      rules:
        - {kind: process, command: [python3, my_rule.py], files: [words.py], options: {least: 1}}
"#;

const RULE: &str = r#"
import trainyard_bridge as ty
from words import polite

@ty.rule
def is_polite(episode):
    print("judging", episode.messages[0].content)
    found = sum(word in episode.messages[0].content for word in polite)
    return found >= ty.options()["least"] or "no polite word"

ty.run()
"#;

/// Rewards that favor short answers.
const REWARDS: &str = "[{kind: expression, value: \"1 - tokens / 100\"}, \
    {kind: process, name: terse, command: [python3, my_reward.py], timeout: 20s}]";

const REWARD: &str = r#"
import trainyard_bridge as ty

@ty.reward
def terse(episode):
    assert episode.rewards["expression"] <= 1
    return -len(episode.text) / 1000

ty.run()
"#;

fn chats(s: &Sandbox) {
    let chat = |text: &str| {
        format!(
            "{{\"messages\": [{{\"role\": \"user\", \"content\": \"{text}\"}}, \
             {{\"role\": \"assistant\", \"content\": \"yes\"}}]}}\n"
        )
    };
    s.write("chats.jsonl", ["please help", "do it", "thanks"].map(chat).concat());
    s.write("own.yaml", CHATS);
    s.write("my_rule.py", RULE);
    s.write("words.py", "polite = [\"please\", \"thanks\"]\n");
}

#[test]
fn a_program_and_its_files_are_sources_and_what_it_prints_is_the_log() {
    let Some(s) = python_sandbox() else { return };
    chats(&s);
    s.run(&["run", "own.yaml"]).code(0).says("kept 2");
    s.run(&["logs", "latest", "polite"]).code(0).prints("judging please help");
    s.run(&["run", "own.yaml"]).code(0).says("polite: hit");
    s.write("beside.py", "anything else in the folder");
    s.run(&["run", "own.yaml"]).code(0).says("polite: hit");
    s.write("words.py", "polite = [\"please\"]\n");
    s.run(&["run", "own.yaml"]).code(0).says("kept 1");
    s.write("my_rule.py", RULE.replace("no polite word", "not polite at all"));
    s.run(&["run", "own.yaml"]).code(0).says("kept 1").says("chats: hit");
    let reasons = s.run(&["artifacts", "show", "latest/polite/rejected", "--row", "0"]).code(0);
    reasons.prints("not polite at all");
}

#[test]
fn mistakes_in_a_command_are_found_before_the_run() {
    let s = Sandbox::new();
    chats(&s);
    std::fs::remove_file(s.path("my_rule.py")).unwrap();
    s.run(&["check", "own.yaml"]).code(2).says("there is no file or folder").says("my_rule.py");
    s.write("own.yaml", CHATS.replace("[python3, my_rule.py]", "[]"));
    s.run(&["check", "own.yaml"]).code(2).says("the command is empty").says("command: [python3, my_reward.py]");
    s.write("own.yaml", CHATS.replace("options: {least: 1}", "timeout: 30"));
    s.run(&["check", "own.yaml"]).code(2).says("timeout");
    s.write("rl.yaml", rewarded::workflow(&REWARDS.replace("tokens", "token")));
    s.write("my_reward.py", REWARD);
    s.run(&["check", "rl.yaml"]).code(2).says("unknown name `token`").says("tool_calls");
}

#[test]
fn an_exception_is_shown_with_its_traceback_and_an_outage_is_no_verdict() {
    let Some(s) = python_sandbox() else { return };
    chats(&s);
    s.write("words.py", "polite = [1]\n");
    s.run(&["run", "own.yaml"]).code(1).says("TypeError").says("in is_polite");
    s.write("own.yaml", CHATS.replace("options: {least: 1}", "options: {least: 1}, on_error: skip"));
    s.run(&["run", "own.yaml"]).code(0).says("kept 3");
    s.write("own.yaml", CHATS);
    s.write("words.py", "import os, sys\nprint('out of licenses', file=sys.stderr)\nsys.stderr.flush()\nos._exit(3)\n");
    s.run(&["run", "own.yaml"]).code(1).says("exited with status 3").says("out of licenses");
}

/// Names of files and decoded bytes may hold lone surrogates, which JSON texts must not.
#[test]
fn a_lone_surrogate_is_an_error_of_its_episode() {
    let Some(s) = python_sandbox() else { return };
    chats(&s);
    let reason = r#"return ty.Verdict(False, b"caf\xe9".decode("utf-8", "surrogateescape"))"#;
    s.write("my_rule.py", RULE.replace("return found", &format!("{reason}\n    return found")));
    s.write("own.yaml", CHATS);
    let failed = s.run(&["run", "own.yaml"]).code(1);
    failed.says("lone surrogate").says("caf\\udce9").says("errors=\"replace\"");
}

#[test]
fn time_of_a_start_is_an_option() {
    let Some(s) = python_sandbox() else { return };
    chats(&s);
    s.write("my_rule.py", format!("import time\ntime.sleep(3)\n{RULE}"));
    let with = |options: &str| s.write("own.yaml", CHATS.replace("options: {least: 1}", options));
    with("options: {least: 1}, start: 1s, timeout: 1s");
    s.run(&["run", "own.yaml"]).code(1).says("not ready within 1.0s").says("start: 10m");
    with("options: {least: 1}, start: 10m, timeout: 1s");
    s.run(&["run", "own.yaml"]).code(0).says("kept 2");
    with("options: {least: 1}, start: soon");
    s.run(&["check", "own.yaml"]).code(2).says("start");
}

#[test]
fn rl_practices_what_a_python_function_says() {
    let Some(s) = python_sandbox() else { return };
    s.write("rl.yaml", rewarded::workflow(REWARDS));
    s.write("my_reward.py", REWARD);
    s.run(&["run", "rl.yaml"]).code(0);
    let query = "select count(rewards_terse), count(*) from self where rewards_expression <= 1";
    let rows = s.run(&["artifacts", "query", "latest/rl/trajectories", query, "--format", "json"]).code(0).json();
    assert!(rows["rows"][0][0].as_u64().unwrap() > 0, "{rows}");
    s.write("my_reward.py", REWARD.replace("/ 1000", "/ 0"));
    s.run(&["run", "rl.yaml"]).code(1).says("reward `terse`").says("ZeroDivisionError").says("in terse");
}

#[test]
fn init_writes_the_bridge_and_nothing_over_it() {
    let s = Sandbox::new();
    s.run(&["init", "--python", "own"])
        .code(0)
        .prints("trainyard_bridge.py")
        .prints("trainyard_serve.py")
        .prints("my_reward.py");
    assert!(s.read("own/trainyard_bridge.py").contains("def reward("));
    s.run(&["init", "--python", "own"]).code(2).says("exists already");
}

/// The shipped file with fewer steps: chats as JSON Lines, tools and a reward in Python, from random weights to a
/// measured model.
#[test]
fn the_shipped_workflow_learns_with_tools_and_a_reward_in_python() {
    let Some(s) = python_sandbox() else { return };
    let workflows = repository().join("workflows");
    s.write("custom-code.yaml", std::fs::read_to_string(workflows.join("custom-code.yaml")).unwrap());
    for name in ["chats.jsonl", "practice.jsonl", "test.jsonl", "shop_tools.py", "shop_reward.py"] {
        let name = format!("custom-code/{name}");
        s.write(&name, std::fs::read_to_string(workflows.join(&name)).unwrap());
    }
    s.run(&["run", "custom-code.yaml", "-p", "sft_steps=100", "-p", "rl_steps=2"]).code(0).says("accuracy");
    let query = "select count(rewards_no_repeats), sum(tool_calls - tool_errors), count(*) from self";
    let rows = s.run(&["artifacts", "query", "latest/rl/trajectories", query, "--format", "json"]).code(0).json();
    let [rewarded, answered, episodes] = [0, 1, 2].map(|column| rows["rows"][0][column].as_u64().unwrap());
    assert!(rewarded == episodes && answered > episodes, "{rows}");
}
