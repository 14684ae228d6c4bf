//! Writes heartbeats of an attempt, with its state, to the store.

use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use trainyard_core::Clock;
use trainyard_core::attempt::{AttemptMessage, AttemptSpec, HEARTBEAT, Heartbeat, Phase};
use trainyard_runtime::slots::host;
use trainyard_store::Store;

/// Collects the content of the next heartbeat.
pub struct HeartbeatPublisher {
    state: Mutex<HeartbeatState>,
    changed: Notify,
}

struct HeartbeatState {
    phase: Phase,
    progress: Option<AttemptMessage>,
    checkpoint: Option<u64>,
}

impl Default for HeartbeatPublisher {
    fn default() -> Self {
        let state = HeartbeatState { phase: Phase::Fetching, progress: None, checkpoint: None };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }
}

impl HeartbeatPublisher {
    /// Sets the phase of the attempt and triggers a heartbeat.
    pub fn enter(&self, phase: Phase) {
        let mut state = self.state();
        if state.phase != phase {
            state.phase = phase;
            self.changed.notify_one();
        }
    }
    /// Records the progress of the attempt, and a resume point, which triggers a heartbeat: the engine must learn of it
    /// even if the attempt is lost at once. Ignores other messages.
    pub fn message(&self, message: &AttemptMessage) {
        match message {
            AttemptMessage::Progress { .. } => self.state().progress = Some(message.clone()),
            AttemptMessage::Checkpoint { step } => {
                self.state().checkpoint = Some(*step);
                self.changed.notify_one();
            }
            AttemptMessage::Metric { .. }
            | AttemptMessage::Log { .. }
            | AttemptMessage::Result {}
            | AttemptMessage::Error { .. } => {}
        }
    }
    /// Writes heartbeats until the future is dropped. A failed write is only logged, since the next heartbeat may
    /// succeed. `store` must not wait during outages.
    pub async fn publish(&self, store: &Store, spec: &AttemptSpec, clock: &dyn Clock) {
        // A batch system may restart an attempt. Observers expect increasing numbers, so the count continues.
        let last = store.heartbeat(&spec.run, &spec.stage, spec.attempt).await;
        let mut beat = last.ok().flatten().map_or(0, |last| last.beat);
        loop {
            beat += 1;
            if let Err(error) = store.put_heartbeat(spec, &self.heartbeat(beat, clock)).await {
                tracing::info!(%error, "a heartbeat was not stored");
            }
            tokio::select! {
                () = tokio::time::sleep(HEARTBEAT) => {}
                () = self.changed.notified() => {}
            }
        }
    }

    fn heartbeat(&self, beat: u64, clock: &dyn Clock) -> Heartbeat {
        let state = self.state();
        Heartbeat {
            format: 1,
            beat,
            at: clock.unix_millis(),
            host: host(),
            phase: state.phase,
            progress: state.progress.clone(),
            checkpoint: state.checkpoint,
        }
    }
    fn state(&self) -> MutexGuard<'_, HeartbeatState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::tests::spec;
    use std::sync::Arc;
    use std::time::Duration;
    use trainyard_core::clock::ManualClock;
    use trainyard_store::StoreOptions;

    async fn stored(store: &Store) -> Option<Heartbeat> {
        let spec = spec();
        store.heartbeat(&spec.run, &spec.stage, spec.attempt).await.unwrap()
    }
    async fn wait_for(store: &Store, holds: impl Fn(&Heartbeat) -> bool) -> Heartbeat {
        loop {
            if let Some(found) = stored(store).await.filter(|found| holds(found)) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn phase_change_triggers_a_complete_heartbeat() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let (beats, clock) = (Arc::new(HeartbeatPublisher::default()), ManualClock::at_millis(42));
        let (publisher, published) = (beats.clone(), store.clone());
        let task = tokio::spawn(async move { publisher.publish(&published, &spec(), &clock).await });
        let first = wait_for(&store, |_| true).await;
        assert_eq!((first.beat, first.at, first.phase, first.checkpoint), (1, 42, Phase::Fetching, None));
        let progress = |done| AttemptMessage::Progress {
            done,
            total: 9,
            unit: "steps".into(),
            metric: Some(("loss".into(), 0.5)),
        };
        for message in [progress(1), AttemptMessage::Checkpoint { step: 4 }, progress(5)] {
            beats.message(&message);
        }
        beats.message(&AttemptMessage::Metric { name: "loss".into(), step: 5, value: 0.5 });
        beats.enter(Phase::Running);
        let next = wait_for(&store, |found| found.beat > 1).await;
        assert_eq!((next.phase, next.checkpoint, next.progress), (Phase::Running, Some(4), Some(progress(5))));
        beats.message(&AttemptMessage::Checkpoint { step: 6 });
        let with_checkpoint = wait_for(&store, |found| found.checkpoint == Some(6));
        tokio::time::timeout(HEARTBEAT / 2, with_checkpoint).await.expect("no heartbeat was due by its interval");
        task.abort();
    }

    #[tokio::test]
    async fn numbers_continue_after_a_restart() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let (beats, clock) = (HeartbeatPublisher::default(), ManualClock::at_millis(0));
        store.put_heartbeat(&spec(), &beats.heartbeat(7, &clock)).await.unwrap();
        let spec = spec();
        tokio::select! {
            () = beats.publish(&store, &spec, &clock) => panic!("publish never returns"),
            next = wait_for(&store, |found| found.beat != 7) => assert_eq!(next.beat, 8),
        }
    }

    #[tokio::test]
    async fn failed_heartbeat_is_not_an_error() {
        let open =
            |read_only| Store::open("memory://heartbeats", StoreOptions { read_only, ..StoreOptions::default() });
        let (store, read_only_store) = (open(false).await.unwrap(), open(true).await.unwrap());
        let (beats, spec) = (HeartbeatPublisher::default(), spec());
        let clock = ManualClock::at_millis(0);
        let publishing =
            tokio::time::timeout(Duration::from_millis(50), beats.publish(&read_only_store, &spec, &clock));
        assert!(publishing.await.is_err(), "publish continues");
        assert_eq!(stored(&store).await, None);
    }
}
