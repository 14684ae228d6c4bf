//! Tests groups on a cluster that relays no messages, which are started with one request, end with their lead and are
//! retried together; also tests attempts with a limited wait for a machine.

use super::cluster::{Cluster, Job, seconds};
use super::follower::Bench;
use super::{FAILED, SUCCEEDED, key, node};
use crate::executors::{AttemptExit, Control};
use std::collections::BTreeMap;
use std::time::Duration;
use trainyard_core::Error;
use trainyard_core::event::AttemptOutcome;
use trainyard_core::peers::NodeAddress;
use trainyard_engine::fold::StageStatus;
use trainyard_spec::plan::{PlanNode, Retry};

fn group(attempts: u32) -> Vec<PlanNode> {
    let lead = node("train", &[]);
    let lead = PlanNode { retry: Retry { attempts, ..lead.retry.clone() }, ..lead };
    vec![lead, PlanNode { beside: Some(key("train")), outputs: BTreeMap::new(), ..node("server", &[]) }]
}

/// Acts like the process of an attempt: publishes its address, and waits for the others.
async fn meets(job: &Job) {
    job.starts();
    let (store, spec) = (&job.task.store, &job.task.spec);
    let port = if spec.stage == key("train") { 1 } else { 2 };
    let own = NodeAddress { format: 1, rank: 0, host: "h".into(), ip: "10.0.0.1".into(), port, resumed: None };
    store.put_address(spec, &own).await.unwrap();
    for peer in &spec.peers {
        while store.address(&spec.run, &peer.stage, peer.attempt, 0).await.unwrap().is_none() {
            seconds(1).await;
        }
    }
}

/// Sends heartbeats until it is requested to stop.
async fn serves(job: &Job) {
    let mut beat = 0;
    while job.task.store.cancel_request(&job.task.spec).await.unwrap().is_none() {
        beat += 1;
        job.beats(beat, 0, None).await;
        seconds(5).await;
    }
    let error = Error::cancelled("the attempt was stopped");
    job.leaves_a_failure(AttemptOutcome::Cancelled, error.clone()).await;
    job.ends(AttemptExit::with_error(AttemptOutcome::Cancelled, error));
}

#[tokio::test(start_paused = true)]
async fn server_starts_and_stops_with_its_trainer() {
    let bench = Bench::new().await;
    let cluster = Cluster::new(|job| async move {
        meets(&job).await;
        if job.task.spec.stage == key("server") {
            return serves(&job).await;
        }
        job.runs_for(60).await;
        job.succeeds().await;
    });
    let summary = bench.run(&cluster, group(1)).await;
    assert_eq!(summary.ending, SUCCEEDED);
    assert_eq!(cluster.inner().submissions, [["train", "server"]], "one request");
    let server = summary.view.stage(&key("server")).unwrap();
    assert_eq!(server.status, StageStatus::Done);
    assert_eq!(server.attempts[0].outcome, Some(AttemptOutcome::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn failed_server_restarts_with_its_trainer() {
    let bench = Bench::new().await;
    let cluster = Cluster::new(|job| async move {
        meets(&job).await;
        let spec = job.task.spec.clone();
        match (spec.stage.0.as_str(), spec.attempt) {
            ("server", 1) => {
                seconds(20).await;
                let error = Error::retryable("address in use");
                job.leaves_a_failure(AttemptOutcome::Failed, error.clone()).await;
                job.ends(AttemptExit::with_error(AttemptOutcome::Failed, error));
            }
            // Would run forever without its server.
            ("server", _) | ("train", 1) => serves(&job).await,
            _ => job.succeeds().await,
        }
    });
    let summary = bench.run(&cluster, group(2)).await;
    assert_eq!(summary.ending, SUCCEEDED);
    let attempts = |stage| summary.view.stage(&key(stage)).unwrap().attempts.clone();
    assert_eq!((attempts("train").len(), attempts("server").len()), (2, 2));
    let error = attempts("train")[0].error.clone().unwrap();
    assert!(error.message.contains("`server`, which runs beside it"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn wait_limit_of_the_stage_is_enforced() {
    let bench = Bench::new().await;
    let cluster = Cluster::new(|job| async move {
        job.waits("Resources");
        std::future::pending::<()>().await;
    });
    let patient = PlanNode { wait: Some(Duration::from_secs(90)), ..node("a", &[]) };
    let summary = bench.run(&cluster, vec![patient]).await;
    assert_eq!(summary.ending, FAILED);
    let attempt = summary.view.stage(&key("a")).unwrap().attempts[0].clone();
    assert_eq!(attempt.outcome, Some(AttemptOutcome::TimedOut));
    assert!(attempt.error.unwrap().message.contains("no machine accepted the attempt within 1m30s"));
    assert!(cluster.inner().cancels.iter().any(|(_, control)| *control == Control::Kill), "it leaves the queue");
}
