//! Tests attempts that outlive their engine, and the objects that they leave in the store.

use super::*;

/// Starts an engine, and kills it once its attempt has a handle.
async fn kill_engine(bench: &Bench, cluster: &Arc<Cluster>) {
    let engine = bench.engine(cluster, options());
    wait_for(|| !bench.handles().is_empty()).await;
    engine.abort();
    let _ = engine.await;
}

#[tokio::test(start_paused = true)]
async fn executor_log_is_appended_when_the_attempt_left_none() {
    let bench = Bench::new().await;
    let cluster = Cluster::new(|job| async move {
        let (run, stage, attempt) = (&job.task.spec.run, &job.task.spec.stage, job.task.spec.attempt);
        let own = LogRecord { at: Some(1), level: trainyard_core::attempt::LogLevel::Info, text: "begun".into() };
        let chunk = format!("{}\n", own.to_line());
        job.task.store.put_chunk(run, stage, attempt, AttemptStream::Log, 0, chunk.into()).await.unwrap();
        job.ends(AttemptExit::with_error(AttemptOutcome::Failed, Error::bug("exit code 127")));
    });
    cluster.inner().kept = "bash: trainyard: command not found\n".into();
    let summary = bench.run(&cluster, vec![node("a", &[])]).await;
    let (log, _) = bench.store.read_chunks(&summary.run, &key("a"), 1, AttemptStream::Log, 0).await.unwrap();
    let texts: Vec<String> = String::from_utf8(log).unwrap().lines().map(|line| LogRecord::parse(line).text).collect();
    assert_eq!(texts, ["begun", "bash: trainyard: command not found"]);
}

#[tokio::test(start_paused = true)]
async fn next_engine_reattaches_by_handle() {
    let bench = Bench::new().await;
    let cluster = Cluster::succeeding_after(300);
    let first = bench.engine(&cluster, options());
    wait_for(|| !bench.handles().is_empty()).await;
    seconds(60).await;
    first.abort();
    let _ = first.await;
    seconds(60).await;
    let second = bench.next(&cluster).await;
    assert_eq!((second.resumed, &second.ending), (true, &SUCCEEDED));
    let stage = second.view.stage(&key("a")).unwrap();
    assert_eq!((stage.attempts.len(), stage.attempts[0].outcome), (1, Some(AttemptOutcome::Succeeded)));
    let inner = cluster.inner();
    assert_eq!((inner.submissions.len(), inner.cancels.len()), (1, 0));
    assert_eq!(inner.reattached, [Some(Handle("job-1".into()))]);
    drop(inner);
    assert_eq!(bench.handles(), [(1, "job-1".to_string()), (1, "job-1".to_string())], "found again");
}

#[tokio::test(start_paused = true)]
async fn attempt_without_journaled_handle_is_found_by_key() {
    let bench = Bench::new().await;
    let cluster = Cluster::succeeding_after(300);
    cluster.inner().mute = true;
    let first = bench.engine(&cluster, options());
    wait_for(|| !cluster.inner().submissions.is_empty()).await;
    seconds(20).await;
    first.abort();
    let _ = first.await;
    cluster.inner().mute = false;
    let second = bench.next(&cluster).await;
    assert_eq!(second.ending, SUCCEEDED);
    assert_eq!(second.view.stage(&key("a")).unwrap().attempts.len(), 1);
    let inner = cluster.inner();
    assert_eq!((inner.submissions.len(), &inner.reattached[..]), (1, &[None][..]));
    drop(inner);
    assert_eq!(bench.handles(), [(1, "job-1".to_string())]);
}

#[tokio::test(start_paused = true)]
async fn unknown_attempt_is_judged_by_its_final_objects() {
    for left in [true, false] {
        let bench = Bench::new().await;
        let cluster = Cluster::new(move |job| async move {
            job.runs_for(30).await;
            if left || job.task.spec.attempt == 2 {
                job.succeeds().await;
            }
        });
        kill_engine(&bench, &cluster).await;
        seconds(100).await;
        cluster.forget();
        let second = bench.next(&cluster).await;
        assert_eq!(second.ending, SUCCEEDED);
        assert_eq!(second.view.stage(&key("a")).unwrap().attempts.len(), if left { 1 } else { 2 });
    }
}

#[tokio::test(start_paused = true)]
async fn attempt_ended_by_its_lease_costs_no_retry() {
    for known in [true, false] {
        let bench = Bench::new().await;
        let cluster = Cluster::new(|job| async move {
            job.runs_for(30).await;
            if job.task.spec.attempt == 1 { job.is_unwanted().await } else { job.succeeds().await }
        });
        kill_engine(&bench, &cluster).await;
        seconds(100).await;
        if !known {
            cluster.forget();
        }
        // The stage has one try.
        let second = bench.next(&cluster).await;
        assert_eq!(second.ending, SUCCEEDED, "known: {known}; {:?}", end_of(&second, "a"));
        assert_eq!(second.view.stage(&key("a")).unwrap().attempts.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn next_engine_waits_while_the_attempt_sends_heartbeats() {
    let bench = Bench::new().await;
    let cluster = Cluster::succeeding_after(3_000);
    kill_engine(&bench, &cluster).await;
    // More than ten minutes, with delays of half a minute.
    cluster.inner().away = 40;
    let second = bench.next(&cluster).await;
    assert_eq!(second.ending, SUCCEEDED);
    assert_eq!(second.view.stage(&key("a")).unwrap().attempts.len(), 1);
    assert_eq!(bench.waits(), ["connection refused", "works"]);
    assert!(cluster.inner().cancels.is_empty());
}

#[tokio::test(start_paused = true)]
async fn fenced_engine_leaves_attempts_to_the_next() {
    let bench = Bench::new().await;
    let cluster = Cluster::succeeding_after(300);
    let first = bench.engine(&cluster, options());
    wait_for(|| !bench.handles().is_empty()).await;
    let second = bench.next(&cluster).await;
    assert!(matches!(first.await.unwrap().unwrap().ending, RunEnding::Fenced { .. }));
    assert_eq!(second.ending, SUCCEEDED);
    assert_eq!(second.view.stage(&key("a")).unwrap().attempts.len(), 1);
    assert!(cluster.inner().cancels.is_empty());
}

/// Builds a stage that reads a file.
fn reads(path: &std::path::Path, digest: Digest) -> PlanNode {
    let mut stage = node("a", &[]);
    let source = SourceRef { location: path.to_str().unwrap().to_string(), digest };
    stage.sources.insert("/source".into(), source);
    stage
}

#[tokio::test(start_paused = true)]
async fn sources_are_stored_before_the_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("train.py");
    std::fs::write(&file, "print(1)").unwrap();
    let planned = digest_path(&file).unwrap();
    let bench = Bench::new().await;
    let cluster = Cluster::succeeding_after(20);
    let summary = bench.run(&cluster, vec![reads(&file, planned.clone())]).await;
    assert_eq!(summary.ending, SUCCEEDED);
    let spec = bench.store.spec(&summary.run, &key("a"), 1).await.unwrap().unwrap();
    let files = &spec.uploaded[file.to_str().unwrap()];
    assert_eq!((files.len(), files[0].path.as_str(), &files[0].digest), (1, "", &planned));
    assert_eq!(bench.store.read_object(&planned).await.unwrap(), "print(1)");

    std::fs::write(&file, "print(2)").unwrap();
    let mut other = reads(&file, planned);
    other.key = key("b");
    other.config = Template::Literal(serde_json::json!({"name": "b"}));
    let (outcome, error) = end_of(&bench.run(&cluster, vec![other]).await, "b");
    assert_eq!((outcome, error.as_ref().unwrap().kind), (AttemptOutcome::Failed, ErrorKind::Invalid));
    assert!(error.unwrap().message.contains("changed since the plan was made"));
    assert_eq!(cluster.inner().submissions.len(), 1, "it was never submitted");
}
