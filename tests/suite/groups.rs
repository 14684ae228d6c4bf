//! Stages that run at the same time and find each other, stages on several machines, and the resources that a stage
//! waits for.

use crate::kit::{Sandbox, ran, wait_for};
use crate::processes::matching;
use serde_json::{Value, json};
use std::process::{Child, Stdio};
use trainyard_core::Digest;

/// A machine with two CPUs.
const TWO: &str = "version: 1\npools:\n- {name: here, cpus: 2}\n";

/// Creates a sandbox with this site file and workflow.
fn sandbox(site: &str, stages: &str) -> Sandbox {
    let s = Sandbox::new();
    s.write("trainyard.yaml", site);
    s.write_placed("w.yaml", &format!("version: 1\nname: w\nstages:\n{stages}"));
    s
}

fn status(s: &Sandbox, stage: &str) -> String {
    let run = s.run(&["runs", "show", "latest", "--format", "json"]).code(0).json();
    let stages = run["stages"].as_array().unwrap_or_else(|| panic!("{run}"));
    let found = stages.iter().find(|found| found["stage"] == stage).unwrap_or_else(|| panic!("{run}"));
    found["status"].as_str().unwrap().to_string()
}

/// Queries the health of an HTTP server.
const ASK: &str = r#"exec 3<>"/dev/tcp/${1%:*}/${1#*:}" || exit 1
printf 'GET /api/v1/health HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
cat <&3
"#;

/// Returns a client of the HTTP server in the same group, which this program provides.
fn client_and_server() -> String {
    let program = env!("CARGO_BIN_EXE_trainyard");
    format!(
        r#"  client:
    run: |
      for n in $(seq 300); do
        bash @ask "$TRAINYARD_ADDRESS_SERVER" > ${{{{ outputs.o }}}}/answer 2>/dev/null && break
        sleep 0.1
      done
      grep "200 OK" ${{{{ outputs.o }}}}/answer
      echo "$TRAINYARD_ADDRESS_SERVER" > ${{{{ outputs.o }}}}/address
    outputs: {{o: files}}
  server:
    beside: client
    run: |
      echo "$TRAINYARD_ADDRESS_SERVER" > @server
      exec {program} serve --workflows @flows --store @other --bind "127.0.0.1:$TRAINYARD_PORT"
"#
    )
}

#[test]
fn a_server_runs_beside_its_client_and_ends_with_it() {
    let s = sandbox(TWO, &client_and_server());
    s.write("flows/.keep", "");
    s.write("ask", ASK);
    s.run(&["run", "w.yaml"]).code(0);
    assert_eq!((status(&s, "client").as_str(), status(&s, "server").as_str()), ("done", "done"));
    s.run(&["artifacts", "export", "latest/client/o", "out"]).code(0);
    assert_eq!(s.read("out/address"), s.read("server"), "both were told the same");
    wait_for("the end of the server", 20, || matching(&s.path("flows").display().to_string()).is_empty());
    s.run(&["run", "w.yaml"]).code(0).says("hit");
    assert_eq!(status(&s, "server"), "skipped", "a hit needs no server");
}

#[test]
fn one_that_fails_ends_both_and_both_are_tried_again() {
    let s = sandbox(
        TWO,
        "  client:\n    run: echo try >> @log; while [ $(wc -l < @log) != 2 ]; do sleep 0.05; done\n    \
         retry: {attempts: 2, on: [data], backoff: 1s..1s}\n  \
         server:\n    beside: client\n    \
         run: if [ -e @tried ]; then exec sleep 1357.9; fi; touch @tried; sleep 0.2; echo no port >&2; exit 3\n",
    );
    let ended = s.run(&["run", "w.yaml"]).code(0);
    assert_eq!(s.read("log"), "try\ntry\n", "{}", ended.stderr);
    s.run(&["explain", "latest", "client"]).code(0).prints("`server`, which runs beside it").prints("no port");
    wait_for("the end of the server", 20, || matching("sleep 1357.9").is_empty());
}

#[test]
fn what_no_pool_can_give_is_refused_with_the_nearest() {
    let several = "  a: {run: [\"true\"], resources: {nodes: 2}}\n";
    sandbox(TWO, several).run(&["plan", "w.yaml"]).code(2).says("nearest is pool `here`: needs 2 machines; it has 1");
    let ray = "version: 1\npools:\n- {name: far, executor: ray, nodes: 4, with: {address: \"http://127.0.0.1:1\"}}\n";
    sandbox(ray, several).run(&["plan", "w.yaml"]).code(2).says("its executor `ray` runs a stage on one");
    let kind = "  a: {uses: noop, resources: {nodes: 2}}\n";
    sandbox(TWO, kind).run(&["check", "w.yaml"]).code(2).says("stage kinds of this build run on one machine");
    let large = "  a: {run: [\"true\"], resources: {cpus: 2}}\n  b: {run: [\"true\"], beside: a}\n";
    let refused = sandbox(TWO, large).run(&["plan", "w.yaml"]).code(2);
    refused.says("its 2 stages start together, but the pools are too small for all of them");
}

#[test]
fn a_stage_that_waits_too_long_says_for_what() {
    let s = sandbox(
        TWO,
        "  a: {run: \"while [ ! -e @go ]; do sleep 0.05; done\", resources: {cpus: 2}}\n  \
         b: {run: [\"true\"], resources: {wait: 1s}, retry: {attempts: 1}}\n",
    );
    let child = s.spawn(&["run", "w.yaml"]);
    wait_for("the end of b", 60, || s.store().exists() && status_or_none(&s, "b") == "failed");
    s.write("go", "");
    ran(child.wait_with_output().unwrap()).code(1).says("no machines within 1.0s: pool `here` is busy: needs 1 CPU");
}

fn status_or_none(s: &Sandbox, stage: &str) -> String {
    let shown = s.run(&["runs", "show", "latest", "--format", "json"]);
    if shown.code == 0 { status(s, stage) } else { String::new() }
}

#[test]
fn explain_names_who_holds_what_a_stage_waits_for() {
    let one = "version: 1\npools:\n- {name: here, cpus: 1}\n";
    let s =
        sandbox(one, "  a: {run: \"while [ ! -e @go ]; do sleep 0.05; done\"}\n  b: {run: [\"true\"], needs: []}\n");
    let first = s.spawn(&["run", "w.yaml"]);
    let explained = |s: &Sandbox, stage: &str| s.run(&["explain", "latest", stage]).stdout;
    wait_for("b in line", 60, || explained(&s, "b").contains("needs 1 CPU; 0 of 1 are free"));
    assert!(explained(&s, "b").contains("pool here is held by a (1 CPU)"), "{}", explained(&s, "b"));
    // Another run of this user waits for the slots that the first holds.
    s.write("x.yaml", "version: 1\nname: x\nstages:\n  c: {run: [\"true\"]}\n");
    let second = s.spawn(&["run", "x.yaml"]);
    wait_for("c in line", 60, || explained(&s, "c").contains("other runs hold on this machine: run "));
    assert!(explained(&s, "c").contains("(w, a) for ") && explained(&s, "c").contains(": 1 CPU"));
    s.write("go", "");
    ran(first.wait_with_output().unwrap()).code(0);
    ran(second.wait_with_output().unwrap()).code(0);
}

/// Returns the spec of an attempt on two machines, and its URL. The test acts as the executor, which starts a process
/// on each.
fn on_two_nodes(script: &str) -> (Sandbox, String, String) {
    let s = Sandbox::new();
    let (run, script) = ("20261122-000000-00000a", script.replace('@', &s.path("").display().to_string()));
    let spec = json!({
        "format": 1, "workflow": "w", "run": run, "stage": "s", "attempt": 1,
        "stage_digest": Digest::of(b"s"), "kind": "run", "kind_version": 1,
        "config": {"shell": script, "env": {"OUT": {"$output": "o"}}},
        "inputs": {}, "outputs": {"o": {"kind": "files"}}, "resources": {"cpus": 1},
        "peers": [{"stage": "s", "attempt": 1, "nodes": 2}],
    });
    let folder = format!("runs/2026-11/{run}/attempts/s/1");
    s.write(&format!(".trainyard/{folder}/spec.json"), spec.to_string());
    let url = format!("{}#{folder}", s.store().display());
    (s, url, format!(".trainyard/{folder}"))
}

fn start(s: &Sandbox, url: &str, rank: u32) -> Child {
    let mut command = s.command(&["attempt", url]);
    command.env("TRAINYARD_NODE", format!("{rank} {url}")).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn an_attempt_on_two_machines_is_one_command_on_each() {
    let (s, url, folder) = on_two_nodes(
        "echo $TRAINYARD_NODES $TRAINYARD_NODE_ADDRESSES > @node$TRAINYARD_NODE_RANK; \
         echo $TRAINYARD_NODE_RANK > $OUT/rank; [ $TRAINYARD_NODE_RANK = 0 ] || sleep 1",
    );
    let (first, second) = (start(&s, &url, 0), start(&s, &url, 1));
    ran(first.wait_with_output().unwrap()).code(0);
    let told = s.read("node0");
    assert!(told.starts_with("2 127.0.0.1:") && told.matches(':').count() == 2, "{told}");
    assert_eq!(told, s.read("node1"));
    ran(second.wait_with_output().unwrap()).code(0);
    let result: Value = serde_json::from_str(&s.read(&format!("{folder}/result.json"))).unwrap();
    assert_eq!(result["outputs"]["o"]["files"][0]["digest"], json!(Digest::of(b"0\n")), "of the first alone");
    assert!(s.path(&format!("{folder}/nodes/1.end.json")).exists(), "the first waited for the second");
}

#[test]
fn a_node_that_fails_ends_the_attempt_and_is_named() {
    let (s, url, folder) = on_two_nodes("[ $TRAINYARD_NODE_RANK = 0 ] || { echo no link >&2; exit 5; }; sleep 2468.1");
    let (first, second) = (start(&s, &url, 0), start(&s, &url, 1));
    ran(first.wait_with_output().unwrap()).code(1).says("node 1").says("no link");
    ran(second.wait_with_output().unwrap()).code(0);
    let failure: Value = serde_json::from_str(&s.read(&format!("{folder}/failure.json"))).unwrap();
    assert_eq!(failure["error"]["kind"], "data", "{failure}");
    assert!(matching("sleep 2468.1").is_empty());
}

#[test]
fn nodes_end_with_the_first() {
    let (s, url, _) = on_two_nodes("[ $TRAINYARD_NODE_RANK = 1 ] || exit 4; touch @began; sleep 3579.2");
    let (first, second) = (start(&s, &url, 0), start(&s, &url, 1));
    ran(first.wait_with_output().unwrap()).code(1).says("exit code 4");
    ran(second.wait_with_output().unwrap()).code(0);
    assert!(matching("sleep 3579.2").is_empty());
}
