//! Stages on a real Ray cluster: they end as on this machine and leave nothing on the cluster.
//!
//! `.ci/ray` starts the cluster and names it in `TRAINYARD_TEST_RAY`. Without the variable the tests report that they
//! are skipped.

use crate::kit::{Ran, Sandbox, ran, skipped, wait_for};
use crate::processes::{kill, matching, signal};
use std::process::Child;

/// Creates a sandbox whose only pool is the cluster, with additional options of the pool's executor.
#[track_caller]
fn cluster(cpus: u32, options: &str) -> Option<Sandbox> {
    let Ok(address) = std::env::var("TRAINYARD_TEST_RAY") else {
        skipped("TRAINYARD_TEST_RAY names no cluster");
        return None;
    };
    let s = Sandbox::new();
    let home = s.path("home");
    s.write(
        "trainyard.yaml",
        format!(
            "version: 1\npools:\n  - name: ray\n    executor: ray\n    cpus: {cpus}\n    gpus: 2\n    with:\n      \
             address: {address}\n      shared_filesystem: true\n      poll: 500ms\n      \
             environment: {{TRAINYARD_HOME: \"{}\"}}\n{options}",
            home.display()
        ),
    );
    Some(s)
}

fn workflow(s: &Sandbox, stages: &str) {
    s.write(
        "w.yaml",
        format!("version: 1\nname: w\nstages:\n{}", stages.replace("HERE", s.path("").to_str().unwrap())),
    );
}

/// Counts the processes whose command line has this text.
fn interrupted(child: Child) -> Ran {
    signal("-INT", &child.id().to_string());
    ran(child.wait_with_output().unwrap())
}

#[test]
fn a_stage_ends_with_the_digests_of_this_machine() {
    let Some(s) = cluster(2, "") else { return };
    workflow(
        &s,
        "  one:\n    run: echo computing; printf 1 > ${{ outputs.o }}/x\n    outputs: {o: {kind: files}}\n  \
         two:\n    with: {i: \"${{ stages.one.o }}\"}\n    run: cat ${{ inputs.i }}/x > ${{ outputs.o }}/y\n    \
         outputs: {o: {kind: files}}\n",
    );
    let digests = |s: &Sandbox, site: &[&str]| {
        s.run(&[&["run", "w.yaml"], site].concat()).code(0);
        let list = s.run(&[&["artifacts", "list", "--format", "json"], site].concat()).code(0).json();
        let mut found: Vec<_> = list.as_array().unwrap().iter().map(|a| a["digest"].to_string()).collect();
        found.sort();
        found
    };
    let on_ray = digests(&s, &[]);
    s.write("local.yaml", "version: 1\nstore: elsewhere\n");
    assert_eq!(digests(&s, &["--site", "local.yaml"]), on_ray);
    assert_eq!(on_ray.len(), 2);
    let logs: String = s.run(&["logs", &run_id(&s), "one"]).code(0).stdout;
    assert!(logs.contains("computing"), "{logs}");
    assert!(!logs.contains("outlived"), "the attempt kills nothing of Ray: {logs}");
}

fn run_id(s: &Sandbox) -> String {
    let runs = s.run(&["runs", "list", "--format", "json"]).code(0).json();
    runs[0]["run"].as_str().or(runs[0]["id"].as_str()).unwrap().to_string()
}

#[test]
fn an_exit_code_fails_the_stage() {
    let Some(s) = cluster(1, "") else { return };
    workflow(&s, "  one: {run: \"exit 7\", outputs: {o: {kind: files}}}\n");
    s.run(&["run", "w.yaml"]).code(1).says("exit code 7");
}

#[test]
fn gpus_are_those_that_ray_gives() {
    let Some(s) = cluster(1, "      resources: {h100: 1}\n") else { return };
    workflow(
        &s,
        "  one:\n    run: echo \"$CUDA_VISIBLE_DEVICES\" > ${{ outputs.o }}/x\n    outputs: {o: {kind: files}}\n    \
         resources: {gpus: 1}\n",
    );
    s.run(&["run", "w.yaml"]).code(0);
}

#[test]
fn a_cancelled_run_leaves_nothing_behind() {
    let Some(s) = cluster(1, "") else { return };
    let nap = format!("4242.{}", std::process::id());
    workflow(
        &s,
        &format!(
            "  one:\n    run: setsid sleep {nap} & trap '' TERM; sleep {nap}; sleep {nap}\n    \
             outputs: {{o: {{kind: files}}}}\n"
        ),
    );
    let child = s.spawn(&["run", "w.yaml"]);
    let nap = format!("sleep {nap}");
    wait_for("the attempt", 60, || matching(&nap).len() >= 2);
    interrupted(child).code(130);
    assert_eq!(matching(&nap), [""; 0]);
}

#[test]
fn what_no_node_has_is_refused_and_named() {
    let Some(s) = cluster(1, "      resources: {b200: 1}\n") else { return };
    workflow(&s, "  one: {run: \"true\", outputs: {o: {kind: files}}}\n");
    let ran = s.run(&["run", "w.yaml"]);
    assert_ne!(ran.code, 0);
    ran.says("no node has CPU: 1, b200: 1").says("h100: 2");
}

#[test]
fn what_no_node_has_yet_waits_and_can_be_cancelled() {
    let Some(s) = cluster(1, "      resources: {b200: 1}\n      autoscaling: true\n") else { return };
    workflow(&s, "  one: {run: \"true\", outputs: {o: {kind: files}}}\n");
    let child = s.spawn(&["run", "w.yaml"]);
    wait_for("the run", 20, || !s.files(".trainyard/runs").is_empty());
    let run = run_id(&s);
    let mut said = String::new();
    wait_for("the reason", 60, || {
        said = s.run(&["explain", &run, "one"]).stdout;
        said.contains("no node has")
    });
    assert!(said.contains("b200"), "{said}");
    interrupted(child).code(130);
}

#[test]
fn twenty_at_once_all_end() {
    let Some(s) = cluster(20, "") else { return };
    workflow(
        &s,
        "  many:\n    matrix: {n: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]}\n    \
         run: echo ${{ matrix.n }} >> HERE/log; echo ${{ matrix.n }} > ${{ outputs.o }}/x\n    \
         outputs: {o: {kind: files}}\n    resources: {cpus: 1}\n",
    );
    s.run(&["run", "w.yaml"]).code(0);
    assert_eq!(s.log().len(), 20, "each ran once");
}

#[test]
fn a_killed_engine_finds_its_jobs_again() {
    let Some(s) = cluster(2, "") else { return };
    workflow(
        &s,
        "  one:\n    run: echo x >> HERE/log; while [ ! -e HERE/go ]; do sleep 0.05; done; \
         printf 1 > ${{ outputs.o }}/x\n    outputs: {o: {kind: files}}\n",
    );
    let mut child = s.spawn(&["run", "w.yaml"]);
    wait_for("the attempt", 60, || s.log().len() == 1);
    kill(&mut child);
    let again = s.spawn(&["run", "w.yaml"]);
    wait_for("the next engine", 60, || {
        s.files(".trainyard/runs").iter().filter(|f| f.contains("/journal/")).count() > 3
    });
    s.write("go", "");
    ran(again.wait_with_output().unwrap()).code(0);
    assert_eq!(s.log().len(), 1, "the job that ran was waited for, not started again");
}

/// Removes a node from the cluster permanently, so no other test may need it.
#[test]
fn a_lost_node_is_noticed() {
    let Some(s) = cluster(1, "      resources: {spare: 1}\n") else { return };
    let Ok(node) = std::env::var("TRAINYARD_TEST_RAY_WORKER") else {
        return skipped("TRAINYARD_TEST_RAY_WORKER names no node to kill");
    };
    let nap = format!("sleep 4243.{}", std::process::id());
    workflow(&s, &format!("  one:\n    run: {nap}\n    outputs: {{o: {{kind: files}}}}\n    retry: {{attempts: 1}}\n"));
    let child = s.spawn(&["run", "w.yaml"]);
    wait_for("the attempt", 60, || !matching(&nap).is_empty());
    signal("-KILL", &node);
    ran(child.wait_with_output().unwrap()).code(1).says("Ray lost the attempt");
    wait_for("the end of its processes", 30, || matching(&nap).is_empty());
}
