//! Checks the files of an attempt, and which of them are create-only.

use crate::connection::CreateOutcome;
use crate::layout;
use crate::store::Store;
use crate::streams::AttemptStream;
use bytes::Bytes;
use serde_json::json;
use std::collections::BTreeMap;
use trainyard_core::attempt::{AttemptFailure, AttemptResult, AttemptSpec, CancelRequest, Heartbeat, Phase};
use trainyard_core::event::AttemptOutcome;
use trainyard_core::peers::{NodeAddress, NodeEnd};
use trainyard_core::{Digest, Error, ErrorKind, RunId, StageKey};

fn run_id() -> RunId {
    RunId("20260102-030405-00000b".into())
}

pub(super) async fn leave_files(store: &Store) {
    let (run, stage) = (run_id(), StageKey("rl[seed=1]".into()));
    let result = AttemptResult {
        format: 1,
        run: run.clone(),
        stage: stage.clone(),
        attempt: 2,
        stage_digest: Digest::of(b"s"),
        outputs: BTreeMap::new(),
        metrics: BTreeMap::new(),
        comparisons: Vec::new(),
        measured: BTreeMap::new(),
    };
    assert_eq!(store.result(&run, &stage, 2).await, Ok(None));
    assert_eq!(store.put_result(&result).await, Ok(CreateOutcome::Ours));
    let other = AttemptResult { metrics: BTreeMap::from([("m".into(), 1.0)]), ..result.clone() };
    assert!(matches!(store.put_result(&other).await, Ok(CreateOutcome::Theirs(_))), "an attempt ends once");
    assert_eq!(store.result(&run, &stage, 2).await, Ok(Some(result)));
    for (number, text) in ["one\n", "two\n"].into_iter().enumerate() {
        let put = store
            .put_chunk(&run, &stage, 2, AttemptStream::Log, number as u32, Bytes::from_static(text.as_bytes()))
            .await;
        assert_eq!(put, Ok(CreateOutcome::Ours));
    }
    assert_eq!(store.read_chunks(&run, &stage, 2, AttemptStream::Log, 0).await, Ok((b"one\ntwo\n".to_vec(), 2)));
    assert_eq!(store.read_chunks(&run, &stage, 2, AttemptStream::Metrics, 0).await, Ok((vec![], 0)));
    assert_eq!(store.list_attempts(&run, &stage).await, Ok(vec![2]));
    let failure = AttemptFailure {
        format: 1,
        run: run.clone(),
        stage: stage.clone(),
        attempt: 2,
        outcome: AttemptOutcome::Lost,
        error: Error::lost("first"),
        unwanted: true,
    };
    assert_eq!(store.failure(&run, &stage, 2).await, Ok(None));
    assert_eq!(store.put_failure(&failure).await, Ok(CreateOutcome::Ours));
    let later = AttemptFailure { error: Error::lost("second"), ..failure.clone() };
    assert!(matches!(store.put_failure(&later).await, Ok(CreateOutcome::Theirs(_))), "an attempt fails once");
    assert_eq!(store.failure(&run, &stage, 2).await, Ok(Some(failure)));
    assert_eq!(store.spec_in(&layout::attempt(&run, &stage, 2)).await.expect_err("none").kind, ErrorKind::Lost);
}

pub(super) async fn heartbeat_and_cancel(store: &Store) {
    let spec = json!({
        "format": 1, "workflow": "w", "run": run_id(), "stage": "beats", "attempt": 1, "stage_digest": Digest::of(b"s"),
        "kind": "run", "kind_version": 1, "config": null, "inputs": {}, "outputs": {}, "resources": {"cpus": 1},
    });
    let spec: AttemptSpec = serde_json::from_value(spec).expect("a spec");
    let beat = |beat| Heartbeat {
        format: 1,
        beat,
        at: 0,
        host: "here".into(),
        phase: Phase::Running,
        progress: None,
        checkpoint: None,
    };
    assert_eq!(store.heartbeat(&spec.run, &spec.stage, 1).await, Ok(None));
    for number in 1..4 {
        assert_eq!(store.put_heartbeat(&spec, &beat(number)).await, Ok(()));
        assert_eq!(store.heartbeat(&spec.run, &spec.stage, 1).await, Ok(Some(beat(number))), "the last one is there");
    }
    assert_eq!(store.cancel_request(&spec).await, Ok(None));
    let request = |timed_out| CancelRequest { format: 1, timed_out };
    for timed_out in [true, false] {
        assert_eq!(store.request_cancel(&spec, request(timed_out)).await, Ok(()));
        assert_eq!(store.cancel_request(&spec).await, Ok(Some(request(true))), "the first request counts");
    }
    let (host, ip) = ("here".to_string(), "10.0.0.1".to_string());
    let address = NodeAddress { format: 1, rank: 1, host, ip, port: 80, resumed: Some(50) };
    assert_eq!(store.address(&spec.run, &spec.stage, 1, 1).await, Ok(None));
    assert_eq!(store.put_address(&spec, &address).await, Ok(CreateOutcome::Ours));
    let twin = NodeAddress { port: 81, ..address.clone() };
    assert!(
        matches!(store.put_address(&spec, &twin).await, Ok(CreateOutcome::Theirs(_))),
        "the first address of a process counts"
    );
    assert_eq!(store.address(&spec.run, &spec.stage, 1, 1).await, Ok(Some(address)));
    let end = |error| NodeEnd { format: 1, rank: 1, error };
    assert_eq!(store.node_end(&spec, 1).await, Ok(None));
    for error in [None, Some(Error::lost("late"))] {
        assert_eq!(store.put_node_end(&spec, &end(error)).await, Ok(()));
        assert_eq!(store.node_end(&spec, 1).await, Ok(Some(end(None))), "the first word counts");
    }
}
