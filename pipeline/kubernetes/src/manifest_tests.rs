//! Compares manifests with snapshots. `.ci/kubernetes-schemas` validates the snapshots against the published schemas.

use super::*;
use crate::options::KubernetesOptions;
use serde_json::{Value, json};
use std::path::Path;
use trainyard_runtime::executors::{ExecutorContext, Launcher};

fn submission() -> JobSubmission {
    JobSubmission {
        key: format!("trainyard-{}", "0123456789abcdef".repeat(2)),
        url: "s3://bucket/store#runs/2026-11/20261122-100000-0000000/attempts/rl[seed=1]/2".into(),
        title: "agent/rl[seed=1]".into(),
        run: "20261122-100000-0000000".into(),
        stage: "rl[seed=1]".into(),
        attempt: 2,
        nodes: 1,
        cpus: 4,
        memory: 0,
        gpus: 0,
        timeout: None,
    }
}

fn manifest(options: Value, submission: &JobSubmission) -> Value {
    let options: KubernetesOptions = serde_json::from_value(options).unwrap();
    let launcher = Launcher {
        env: vec![("TRAINYARD_LOG".into(), "info".into())],
        ..Launcher::new(std::env::current_exe().unwrap())
    };
    let with = ExecutorContext { pool: "cluster".into(), launcher, slots: None };
    serde_json::to_value(job(&KubernetesSettings::new(&with, options).unwrap(), submission)).unwrap()
}

/// Returns a pool with every option set.
fn all_options() -> Value {
    json!({
        "image": "registry.example/team/trainyard:0.2",
        "program": "/opt/trainyard/bin/trainyard",
        "namespace": "ml",
        "service_account": "trainer",
        "node_selector": {"gpu": "h100", "zone": "a"},
        "tolerations": [
            {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
            {"key": "team", "value": "rl", "effect": "NoExecute"},
            {},
        ],
        "gpu_resource": "nvidia.com/gpu",
        "queue": "team-a",
        "priority_class": "batch",
        "volumes": [
            {"name": "data", "mount": "/data", "claim": "shared", "read_only": true},
            {"name": "certificates", "mount": "/etc/store", "secret": "store-ca"},
            {"name": "settings", "mount": "/etc/team", "config_map": "team"},
            {"name": "shm", "mount": "/dev/shm", "empty_dir": {"memory": true, "size": "8GiB"}},
            {"name": "scratch", "mount": "/scratch", "empty_dir": {}},
        ],
        "image_pull_secrets": ["registry"],
        "environment": {"AWS_ENDPOINT_URL": "https://s3.example", "OMP_NUM_THREADS": "1"},
        "environment_from_secret": ["store"],
        "labels": {"team": "rl", "trainyard.dev/run": "mine"},
        "annotations": {"sidecar.istio.io/inject": "false"},
        "ttl": "2h",
        "shared_filesystem": true,
    })
}

#[test]
fn manifests_match_validated_fixtures() {
    let gpus =
        JobSubmission { memory: 64 << 30, gpus: 2, timeout: Some(Duration::from_secs(6 * 3_600)), ..submission() };
    let nodes = JobSubmission { nodes: 4, ..gpus.clone() };
    let cases = [
        ("smallest", manifest(json!({"image": "trainyard"}), &submission())),
        ("everything", manifest(all_options(), &gpus)),
        ("nodes", manifest(json!({"image": "trainyard"}), &nodes)),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manifests");
    for (name, manifest) in cases {
        let path = folder.join(format!("{name}.json"));
        let text = serde_json::to_string_pretty(&manifest).unwrap() + "\n";
        if std::env::var_os("TRAINYARD_UPDATE_EXPECTED").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == text, "{} is stale; TRAINYARD_UPDATE_EXPECTED=1 writes it anew:\n{text}", path.display());
    }
}

#[test]
fn nothing_is_retried_by_kubernetes() {
    let job = manifest(json!({"image": "trainyard"}), &submission());
    assert_eq!(job["spec"]["backoffLimit"], 0);
    assert_eq!(job["spec"]["template"]["spec"]["restartPolicy"], "Never");
    assert_eq!(job["spec"]["podFailurePolicy"]["rules"][0]["action"], "FailJob");
}

#[test]
fn command_ends_with_the_attempt_url() {
    let job = manifest(json!({"image": "trainyard"}), &submission());
    let container = &job["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["command"], json!(["trainyard", "attempt", submission().url]));
    let environment = container["env"].as_array().unwrap();
    assert!(environment.iter().all(|variable| variable["name"] != "TRAINYARD_ATTEMPT"), "it makes its own mark");
    assert!(environment.contains(&json!({"name": "CUDA_VISIBLE_DEVICES", "value": ""})));
    let shown = manifest(json!({"image": "trainyard", "hide_gpus": false}), &submission());
    let environment = shown["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
    assert!(environment.iter().all(|variable| variable["name"] != "CUDA_VISIBLE_DEVICES"));
}

#[test]
fn requests_equal_limits() {
    let submission = JobSubmission { memory: 1 << 30, gpus: 2, ..submission() };
    let job = manifest(json!({"image": "trainyard", "gpu_resource": "amd.com/gpu"}), &submission);
    let resources = &job["spec"]["template"]["spec"]["containers"][0]["resources"];
    assert_eq!(resources["limits"], json!({"cpu": "4", "memory": "1073741824", "amd.com/gpu": "2"}));
    assert_eq!(resources["limits"], resources["requests"]);
}

#[test]
fn deadline_includes_slack_for_image_pull() {
    let limited = JobSubmission { timeout: Some(Duration::from_secs(60)), ..submission() };
    let job = manifest(json!({"image": "trainyard"}), &limited);
    assert_eq!(job["spec"]["template"]["spec"]["activeDeadlineSeconds"], 960);
    assert!(job["spec"].get("activeDeadlineSeconds").is_none(), "it would count the wait for a node");
    let endless = JobSubmission { timeout: Some(Duration::MAX), ..submission() };
    let job = manifest(json!({"image": "trainyard"}), &endless);
    assert_eq!(job["spec"]["template"]["spec"]["activeDeadlineSeconds"], i32::MAX, "Kubernetes takes no more");
}

#[test]
fn reserved_labels_override_pool_labels() {
    let job = manifest(all_options(), &submission());
    for labels in [&job["metadata"]["labels"], &job["spec"]["template"]["metadata"]["labels"]] {
        assert_eq!(labels["trainyard.dev/run"], "20261122-100000-0000000");
        assert_eq!(labels["trainyard.dev/stage"], "rl-seed-1");
        assert_eq!(labels["team"], "rl");
    }
    assert_eq!(job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "team-a");
}
