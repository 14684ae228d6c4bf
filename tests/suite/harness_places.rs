//! Agents whose calls are refused, that run in sandboxes or on other machines, and whose processes are forked.

use crate::harness::{agent_sandbox, bwrap, sum};
use crate::kit::{Sandbox, ran, skipped};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;

const WORKFLOW: &str = r#"
version: 1
name: places
stages:
  problems:
    uses: data/import
    with: {source: problems.jsonl, format: gsm8k}
  base:
    uses: model/init
    with:
      {problems: ["${{ stages.problems.problems }}"], hidden_size: 32, layers: 2, heads: 2, intermediate_size: 64,
          seed: 1}
  measured:
    uses: evaluate
    with:
      models: ["${{ stages.base.model }}"]
      problems: ${{ stages.problems.problems }}
      environment: {kind: harness, command: [python3, agent.py], describe_tools: false MORE}
      names: [base]
      samples: 1
      sampling: {max_turn_tokens: 8}
    checks: CHECKS
"#;

/// Beginning of the agents: functions that send a request, and return its status.
const AGENT: &str = r#"
import json, os, sys, urllib.error, urllib.request

PROBLEM = json.load(open(os.environ["TRAINYARD_PROBLEM"]))

def status(path, body, key=os.environ["OPENAI_API_KEY"]):
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + key}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + path, body and json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status
    except urllib.error.HTTPError as refusal:
        return refusal.code

def ask(**more):
    # A turn that this limit cuts does not end the episode.
    body = {"model": "gpt-4o-2024-08-06", "messages": PROBLEM["prompt"], "max_tokens": 4}
    return status("/chat/completions", {**body, **more})
"#;

/// Creates a sandbox with an agent; without Python it reports a skip and returns `None`.
#[track_caller]
fn sandbox(agent: &str) -> Option<Sandbox> {
    agent_sandbox(&format!("{AGENT}\n{agent}"), sum)
}

/// Writes the workflow with further options of the environment.
fn places(s: &Sandbox, options: &str, checks: &str) {
    let more = if options.is_empty() { String::new() } else { format!(", {options}") };
    s.write("places.yaml", WORKFLOW.replace("MORE", &more).replace("CHECKS", checks));
}

#[test]
fn a_refused_call_is_named_as_the_cause() {
    // The server itself refuses this request, before an episode sees it.
    let Some(s) = sandbox("assert ask(n=\"many\") == 200, \"the model did not answer\"") else { return };
    places(&s, "", "[]");
    let failed = s.run(&["run", "places.yaml"]).code(1).output();
    assert!(failed.contains("its request was refused: ") && failed.contains("`n`"), "{failed}");
    assert!(failed.contains("docs/harness.md lists what is refused"), "{failed}");
    assert!(failed.contains("the model did not answer"), "the program's last words: {failed}");
    assert!(!failed.contains("with the key in OPENAI_API_KEY"), "no advice for another fault: {failed}");
    let tried = s.run(&["try", "places.yaml", "--stage", "measured", "-n", "1"]).output();
    assert!(tried.contains("its request was refused: "), "{tried}");
}

#[test]
fn a_refusal_after_the_first_call_is_in_the_log() {
    let Some(s) = sandbox("assert ask() == 200\nassert ask(n=\"many\") == 200, \"no second call\"") else { return };
    places(&s, "", "[]");
    s.run(&["run", "places.yaml"]).code(0);
    s.run(&["logs", "latest", "measured"]).code(0).prints("its request was refused: ");
    places(&s, "on_failure: fail", "[]");
    let failed = s.run(&["run", "places.yaml"]).code(1).output();
    assert!(failed.contains("its request was refused: ") && failed.contains("no second call"), "{failed}");
}

#[test]
fn every_refused_call_counts() {
    let agent = r#"
assert ask(n="many") == 400 and ask(messages="none") == 400
assert ask(n=3) == 400
assert status("/embeddings", {"input": "x"}) == 404
assert status("/models/gpt-4o-2024-08-06", None) == 200
assert ask() == 200
"#;
    let Some(s) = sandbox(agent) else { return };
    places(&s, "on_failure: fail", "[{metric: refused_calls_base, min: 4, max: 4}]");
    s.run(&["run", "places.yaml"]).code(0);
}

#[test]
fn calls_of_this_machine_need_the_key_of_the_episode() {
    let agent = r#"
body = {"model": "policy", "messages": PROBLEM["prompt"]}
assert status("/chat/completions", body, key="nonsense") == 401
assert status("/models", None, key="nonsense") == 401
path = os.environ["OPENAI_BASE_URL"].split("/e/")[1].split("/")[0].split("-")[1]
key = os.environ["OPENAI_API_KEY"]
assert len(path) == 32 and len(key) == 64 and path not in key
print("episode", path, file=sys.stderr)
assert ask() == 200
"#;
    let Some(s) = sandbox(agent) else { return };
    places(&s, "on_failure: fail", "[]");
    let paths = || {
        s.run(&["run", "places.yaml", "--rerun", "measured"]).code(0);
        let log = s.run(&["logs", "latest", "measured"]).code(0).stdout;
        let path = |line: &str| Some(line.split_once("episode ")?.1.split_whitespace().next()?.to_string());
        log.lines().filter_map(path).collect::<BTreeSet<String>>()
    };
    let (first, second) = (paths(), paths());
    // Four problems, greedily and with one sample each.
    assert_eq!((first.len(), second.len()), (8, 8), "{first:?} {second:?}");
    assert!(first.is_disjoint(&second), "the same seed gives other paths");
}

#[test]
fn a_server_on_the_network_is_behind_the_key_of_the_episode() {
    let agent = r#"
assert os.environ["OPENAI_BASE_URL"].startswith("http://localhost:"), os.environ["OPENAI_BASE_URL"]
assert "localhost" in os.environ["NO_PROXY"]
body = {"model": "policy", "messages": PROBLEM["prompt"]}
assert status("/chat/completions", body, key="nonsense") == 401
assert status("/models", None, key="nonsense") == 401
assert ask() == 200
"#;
    let Some(s) = sandbox(agent) else { return };
    let checks = "[{metric: refused_calls_base, min: 2, max: 2}]";
    places(&s, r#"bind: "0.0.0.0", advertise: localhost, on_failure: fail"#, checks);
    s.run(&["run", "places.yaml"]).code(0);
    places(&s, r#"bind: "0.0.0.0""#, "[]");
    s.run(&["check", "places.yaml"]).code(2).says("no address that a program can reach").says("advertise: gpu-7");
    places(&s, "bind: localhost", "[]");
    s.run(&["check", "places.yaml"]).code(2).says("is not an IP address");
    places(&s, "sandbox: {kind: docker, image: a}", "[]");
    s.run(&["check", "places.yaml"]).code(2).says("does not reach 127.0.0.1").says("network: host");
}

#[test]
fn a_command_of_the_user_is_the_sandbox() {
    let agent = "assert os.environ[\"BOXED\"] == os.getcwd() and ask() == 200\n";
    let Some(s) = sandbox(agent) else { return };
    places(&s, r#"on_failure: fail, sandbox: {kind: command, prefix: [env, "BOXED={folder}"]}"#, "[]");
    s.run(&["run", "places.yaml"]).code(0);
    places(&s, "sandbox: {kind: command, prefix: []}", "[]");
    s.run(&["check", "places.yaml"]).code(2).says("the command of the sandbox is empty");
}

#[test]
fn bwrap_confines_the_program() {
    if !bwrap() {
        return;
    }
    let s = Sandbox::new();
    let outside = s.path("outside");
    let agent = format!(
        "open('own', 'w').close()\ntry:\n    open({:?}, 'w')\nexcept OSError:\n    assert ask() == 200\n",
        outside.display().to_string()
    );
    let Some(s) = sandbox(&agent) else { return };
    let prefix = r#"[bwrap, --ro-bind, /, /, --bind, "{folder}", "{folder}", --die-with-parent]"#;
    places(&s, &format!("on_failure: fail, sandbox: {{kind: command, prefix: {prefix}}}"), "[]");
    s.run(&["run", "places.yaml"]).code(0);
    assert!(!outside.exists());
}

/// A program in place of Docker: it logs its arguments, and runs the command in the folder on this machine.
const DOCKER: &str = r#"#!/bin/sh
echo "$*" >> "LOG"
[ "$1" = rm ] && exit 0
while [ $# -gt 0 ]; do
  case $1 in
    --volume) folder=${2%%:*}; shift 2;;
    agent:1) shift; break;;
    *) shift;;
  esac
done
cd "$folder" && TRAINYARD_PROBLEM=$folder/problem.json exec "$@"
"#;

#[test]
fn docker_runs_the_program_and_removes_killed_containers() {
    let agent = "assert ask() == 200\nimport time\ntime.sleep(600 if PROBLEM.get(\"options\") else 0)\n";
    let Some(s) = sandbox(agent) else { return };
    let log = s.path("docker.log");
    let docker = s.write("bin/docker", DOCKER.replace("LOG", &log.display().to_string()));
    std::fs::set_permissions(docker, std::fs::Permissions::from_mode(0o700)).unwrap();
    let path = format!("{}:{}", s.path("bin").display(), std::env::var("PATH").unwrap_or_default());
    let run = || ran(s.command(&["run", "places.yaml"]).env("PATH", &path).output().unwrap());
    let options = r#"bind: "0.0.0.0", advertise: localhost, sandbox: {kind: docker, image: "agent:1"}"#;
    places(&s, &format!("on_failure: fail, {options}"), "[]");
    run().code(0);
    let logged = s.read("docker.log");
    assert_eq!(logged.lines().count(), 8, "a greedy and a sampled episode of each of four problems: {logged}");
    for line in logged.lines() {
        assert!(line.starts_with("run --rm --name trainyard-process-"), "{line}");
        assert!(line.contains(":/program:ro --workdir /program --user "), "{line}");
        assert!(line.contains(" --env OPENAI_API_KEY --env ") && line.ends_with(" agent:1 python3 agent.py"), "{line}");
    }
    places(&s, &format!("timeout: 3s, options: {{hangs: true}}, {options}"), "[]");
    run();
    let removed = s.read("docker.log");
    assert!(removed.lines().any(|line| line.starts_with("rm --force trainyard-process-")), "{removed}");
}

/// With the fork server, a package is imported once for all episodes, and each has its own variables and folder.
#[test]
fn packages_are_imported_once_for_all_episodes() {
    if !cfg!(target_os = "linux") {
        return skipped("processes are forked on Linux only");
    }
    let agent = "import counted\nassert open(\"problem.json\").read() and ask() == 200\ncounted.end(PROBLEM[\"id\"])\n";
    let Some(s) = sandbox(agent) else { return };
    let package = "open(\"@imports\", \"a\").write(\"x\")\n\ndef end(name):\n    \
                   open(\"@ends\", \"a\").write(name + \"\\n\")\n";
    s.write_placed("packages/counted.py", package);
    for (options, imports) in [("", "x"), (", fork: false", "xxxxxxxx")] {
        for name in ["imports", "ends"] {
            s.write(name, "");
        }
        places(&s, &format!("on_failure: fail, env: [PYTHONPATH]{options}"), "[]");
        ran(s.command(&["run", "places.yaml"]).env("PYTHONPATH", s.path("packages")).output().unwrap()).code(0);
        assert_eq!(s.read("imports"), imports, "{options}");
        let ends = s.read("ends");
        let mut names: Vec<&str> = ends.lines().collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 4, "{ends}");
    }
}

#[test]
fn a_package_with_threads_is_started_for_each_episode() {
    let Some(s) = sandbox("import threaded\nassert ask() == 200\n") else { return };
    let package = "import threading, time\n\
                   threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n";
    s.write("packages/threaded.py", package);
    places(&s, "on_failure: fail, env: [PYTHONPATH]", "[]");
    ran(s.command(&["run", "places.yaml"]).env("PYTHONPATH", s.path("packages")).output().unwrap()).code(0);
    let log = s.run(&["logs", "latest", "measured"]).code(0);
    if cfg!(target_os = "linux") {
        log.prints("each episode starts the program, without a fork: its imports started 1 threads");
    }
}
